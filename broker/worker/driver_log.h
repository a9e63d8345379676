/* SPDX-License-Identifier: MIT */
/*
 * The driver's own messages about failures (cuLogsRegisterCallback, CUDA 12.9 and newer),
 * kept until the failure is answered. The first messages are kept: they name the cause.
 */
#pragma once

#include <stddef.h>

#include <gpumem/wire.h>

struct worker;

/* Has the driver hand its messages over; an older driver has none. */
void driver_log_start(struct worker *worker);

/* Drops what was said about a failure that lost no contexts. */
void driver_log_forget(void);

/* Copies the messages, a line each. Returns: bytes. */
size_t driver_log_copy(char text[WIRE_TEXT_MAX]);
