/* SPDX-License-Identifier: MIT */
/*
 * Allocations without room.
 *
 * Empty slabs are released first. While freed memory is still being reclaimed (a free
 * never waits) a request is parked, for a limited time. So `free` followed by `alloc` of
 * the same size always works. A request with `wait=` waits in a queue instead
 * (memory/reclaim.h), for as long as it says, whether memory is coming or not.
 */
#pragma once

#include "memory/reclaim.h"

struct alloc_request;
struct broker;

/*
 * Parks the request while such memory is coming, for a limited time: a kernel may hold up
 * freed memory for as long as it runs. Under registry.lock. Returns: 1: it is parked; 0;
 * -EBUSY when the owner has as many waiting as one may.
 */
int alloc_request_park(struct alloc_request *alloc, struct reclaim_from from);

/* Before the request ends or goes on without a wait: nothing wakes it. Under
 * registry.lock. */
void alloc_request_wait_no_more(struct alloc_request *alloc);

/* How long the request is parked at most. */
uint32_t alloc_request_parked_ms(const struct alloc_request *alloc);

/* Goes on after a try that found no room: waits, tries again or fails. No lock held. */
void alloc_request_no_memory(struct alloc_request *alloc);

/*
 * Lets those that wait in queues try again, from time to time: other programs give memory
 * back, too. No lock held.
 */
void alloc_queues_wake(struct broker *broker);

/* At the end of the broker: all that wait in queues are refused. No lock held. */
void alloc_queues_end(struct broker *broker);
