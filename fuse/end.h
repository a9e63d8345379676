/* SPDX-License-Identifier: MIT */
/* Signals to the program, and the end of the mount: main.c waits for both. */
#pragma once

#include <stdbool.h>

struct broker;
struct keep;

/* Before any thread. kept: a keeper started this process. Returns: 0; -errno. */
int end_prepare(bool kept);

/* Asks for the end, from any thread. */
void end_ask(void);

/*
 * Waits, and shows the service manager the figures of the broker from time to time. keep
 * is as in service_tell(). Returns: true: the end is asked for; false: the keeper asks for
 * a pause.
 */
bool end_wait(struct broker *broker, struct keep *keep);
