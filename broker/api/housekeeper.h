/* SPDX-License-Identifier: MIT */
/*
 * The thread that looks after the worker processes: it starts the mover again, frees runs
 * that have ended, starts workers in advance, ends idle ones and what takes too long.
 */
#pragma once

struct broker;

/* Starts it, and the mover. Returns: 0; -EAGAIN. */
int housekeeper_begin(struct broker *broker);

/* Does nothing where it does not run. */
void housekeeper_end(struct broker *broker);
