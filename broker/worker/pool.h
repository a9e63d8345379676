/* SPDX-License-Identifier: MIT */
/* The threads that serve requests. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct job;
struct worker;

/* Serves until the broker has closed the socket and all requests are answered. */
void pool_run(struct worker *worker);

/* Takes back an answered job. */
void pool_put(struct worker *worker, struct job *job);

/* Whether this thread runs its job with the turn to receive in hand. */
bool pool_has_turn(void);

/*
 * Called again and again by a thread that waits for the GPU, and has done so for
 * waited_ns: passes the turn on if the thread has the turn and others need it.
 */
void pool_wait(struct worker *worker, uint64_t waited_ns);

/*
 * Queues a LAUNCH, already in the GPU's queue, so that another thread waits for its end.
 */
void pool_queue(struct worker *worker, struct job *job);
