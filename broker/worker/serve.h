/* SPDX-License-Identifier: MIT */
/* Receives requests, runs them and sends replies. */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct job;
struct worker;

/*
 * Receives HELLO, opens everything the worker needs, and answers. Exits when the broker
 * has closed the socket.
 *
 * Returns: whether the worker can serve.
 */
bool serve_hello(struct worker *worker,
		 int (*open)(struct worker *worker, struct cuda_failure *failure));

/*
 * Waits for the next request on WIRE_SOCKET_FD or WIRE_URGENT_FD; one thread at a time
 * for each. Returns: false when the socket is closed.
 */
bool serve_receive(struct worker *worker, int socket, struct job *job);

/* Runs the handler of a job, except LAUNCH. Returns: the handler's result. */
int serve_job(struct worker *worker, struct job *job, struct cuda_failure *failure);

/* Runs a job and answers. */
void serve_run(struct worker *worker, struct job *job);

/* Answers a job; r is the handler's result. */
void serve_answer(struct worker *worker, struct job *job, int r,
		  const struct cuda_failure *failure);

/* Whether the contexts are lost; the failure that caused the loss. */
bool worker_is_lost(struct worker *worker, struct cuda_failure *ret_failure);

/* Tells the broker why this process ends. */
void serve_last_words(const char *words);

/* Answers the job without running it. */
void serve_refuse(struct job *job, int error);
