/* SPDX-License-Identifier: MIT */
/* Signals to the program, and the end of the mount: what main.c waits for. */
#pragma once

#include <stdbool.h>

struct broker;

/* Before any thread. kept: a keeper started this process. Returns: 0; -errno. */
int end_prepare(bool kept);

/* Asks for the end, from any thread. */
void end_ask(void);

/*
 * Waits, and tells the service manager from time to time what is held. Returns: true: the
 * end is asked for; false: a pause, by the keeper.
 */
bool end_wait(struct broker *broker);
