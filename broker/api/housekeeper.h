/* SPDX-License-Identifier: MIT */
/*
 * The thread that looks after worker processes: restarts the mover, frees ended runs,
 * starts workers in advance, ends idle workers, and ends operations past their time
 * limit.
 */
#pragma once

struct broker;

/* Starts the thread and the mover. Returns: 0; -EAGAIN. */
int housekeeper_begin(struct broker *broker);

/* Ends the thread, if it runs. */
void housekeeper_end(struct broker *broker);
