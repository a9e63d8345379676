/* SPDX-License-Identifier: MIT */
/*
 * The broker's life: start, the housekeeper, the ends of workers, the end. The first and
 * the last of broker.h's functions are here too.
 */
#pragma once

#include "api/state.h"

/* A run of a worker has begun: worker->lock is held. */
void life_worker_started(struct broker *broker, struct worker *worker);

/* A run has ended; unasked: it died. What lived in it is lost. No lock is held. */
void life_worker_ended(struct broker *broker, struct worker *worker, uint32_t epoch,
		       bool unasked, const char *reason);

/* What lived in a run of a worker is gone, and why, as in "the worker WHY"; it stays in
 * the tree until it is freed. Under registry.lock. */
void life_lose(struct broker *broker, struct allocation *allocation, const char *why);
