/* SPDX-License-Identifier: MIT */
/*
 * Asks a worker for the free memory of several devices at once. For an answer the worker
 * makes a context on each of them.
 */
#pragma once

#include "channel/request.h"
#include "model/device.h"

struct device_query {
	/* All have answered. No lock held. The query is the caller's again. */
	void (*done)(struct device_query *query);

	struct worker *worker;
	int error;	      /* EIO: a device could not be asked; 0 */
	uint64_t free, total; /* bytes, of all devices asked */

	unsigned int n_open; /* plus 1 while the requests are being sent */
	struct request requests[DEVICES_MAX];
};

/* devices is a bit mask. */
void device_query(struct device_query *query, struct worker *worker, uint32_t devices);
