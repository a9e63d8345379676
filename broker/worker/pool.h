/* SPDX-License-Identifier: MIT */
/* The threads that serve requests. */
#pragma once

struct job;
struct worker;

/* Serves until the broker closes the socket and all that it asked is answered. */
void pool_run(struct worker *worker);

/* A job is done and answered. */
void pool_put(struct worker *worker, struct job *job);

/* Has some other thread go on with a LAUNCH that is in the GPU's queue. */
void pool_queue(struct worker *worker, struct job *job);
