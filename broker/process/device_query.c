/* SPDX-License-Identifier: MIT */
#include "process/device_query.h"

#include <errno.h>

#include "base/def.h"
#include "process/worker.h"

/* Two receivers of a worker may reply at the same time. */
static void query_settle(struct device_query *query, int error)
{
	if (error)
		__atomic_store_n(&query->error, error, __ATOMIC_RELAXED);
	if (__atomic_sub_fetch(&query->n_open, 1, __ATOMIC_ACQ_REL) == 0)
		query->done(query);
}

static void query_replied(struct request *request, const struct wire_reply *reply,
			  bool lost)
{
	struct device_query *query = container_of(request, struct device_query,
						  requests[request->record.device]);
	uint64_t total = reply->value[1];

	__atomic_add_fetch(&query->free, MIN(reply->value[0], total), __ATOMIC_RELAXED);
	__atomic_add_fetch(&query->total, total, __ATOMIC_RELAXED);
	query_settle(query, lost || reply->error ? EIO : 0);
}

void device_query(struct device_query *query, struct worker *worker, uint32_t devices)
{
	const struct worker_needs none = { 0 };
	uint32_t epoch;

	query->worker = worker;
	query->n_open = 1;
	for (uint32_t device = 0; device < DEVICES_MAX; device++) {
		if (!(devices >> device & 1))
			continue;
		query->requests[device] = (struct request){
			.record = { .op = WIRE_MEMORY, .device = device },
			.fd = -1,
			.done = query_replied,
		};
		__atomic_add_fetch(&query->n_open, 1, __ATOMIC_RELAXED);
		if (worker_send(worker, &none, &query->requests[device], &epoch) < 0)
			query_settle(query, EIO);
	}
	query_settle(query, 0);
}
