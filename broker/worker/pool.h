/* SPDX-License-Identifier: MIT */
/* The threads that serve requests. */
#pragma once

struct job;
struct worker;

/* Serves until the broker has closed the socket and all requests are answered. */
void pool_run(struct worker *worker);

/* Takes back an answered job. */
void pool_put(struct worker *worker, struct job *job);

/*
 * Queues a LAUNCH, already in the GPU's queue, so that another thread waits for its end.
 */
void pool_queue(struct worker *worker, struct job *job);
