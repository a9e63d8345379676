/* SPDX-License-Identifier: MIT */
/* Requests in, replies out: what one record makes the worker do. */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

/*
 * Takes the HELLO, opens what the worker needs and answers. Exits where the broker has
 * closed the socket.
 *
 * Returns: whether the worker works.
 */
bool serve_hello(struct worker *worker,
		 int (*open)(struct worker *worker, struct cuda_failure *failure));

/* Waits for the next request by WIRE_SOCKET_FD or WIRE_URGENT_FD, one thread at a time by
 * each. Returns: false at the end of the stream. */
bool serve_receive(struct worker *worker, int socket, struct job *job);

/* Does what the job asks. Not for LAUNCH. Returns: as its handler. */
int serve_job(struct worker *worker, struct job *job, struct cuda_failure *failure);

/* The same, and answers it. */
void serve_run(struct worker *worker, struct job *job);

/* Answers a job: r is what its handler returned. */
void serve_answer(struct worker *worker, struct job *job, int r,
		  const struct cuda_failure *failure);

/* Whether the contexts are lost, and by what. */
bool worker_is_lost(struct worker *worker, struct cuda_failure *ret_failure);

/* Answers the job without doing it. */
void serve_refuse(struct job *job, int error);
