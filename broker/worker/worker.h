/* SPDX-License-Identifier: MIT */
/*
 * The worker: what its parts share.
 *
 * Handlers return 0, or -errno with the failed driver call in *failure where there was
 * one. They run on any thread of the pool, after device_enter() has made the request's
 * device current there.
 */
#pragma once

#include <stdatomic.h>

#include <uthash.h>

#include "base/def.h"
#include "cuda/driver.h"
#include "worker/address_history.h"
#include "worker/device.h"
#include "worker/launch.h"
#include "worker/mapping.h"
#include "worker/module.h"
#include "worker/stream.h"

#include <gpumem/wire.h>

struct worker {
	struct cuda_driver *driver;
	const char *name; /* for messages */
	bool mover;

	uint8_t *staging;
	uint64_t staging_size;
	unsigned int n_devices;
	struct device devices[WIRE_DEVICES_MAX];

	pthread_mutex_t context_lock; /* guards the making of contexts, and: */
	bool registered;	      /* the staging area is known to the driver */

	struct mapping_table mappings; /* has its own lock */
	struct stream_table streams;   /* has its own lock */
	struct module_table modules;   /* likewise */
	struct launch_queue launches;  /* under that lock */
	struct pool *pool;

	/* What comes behind a record; of whoever has the turn to receive. */
	_Alignas(uint64_t) uint8_t payload[WIRE_PAYLOAD_MAX];
	struct seen managed_seen; /* has its own lock */

	/*
	 * Counts answers. A request may follow from an answer that another thread gave;
	 * the broker orders the two, and this says so within the process.
	 */
	_Atomic uint64_t n_answers;

	/* The failure that lost this process its contexts: call << 32 | result; 0: none.
	 */
	_Atomic uint64_t lost;
};

/* One request on its way through the worker. */
struct job {
	struct wire_request request;
	int fd;		   /* that came along, -1: none */
	void *payload;	   /* likewise, NULL: none; owned */
	CUstream stream;   /* that it runs on */
	uint64_t value[2]; /* of the answer */
	struct job *next;

	/* LAUNCH, once it is in the GPU's queue. */
	bool in_flight;
	struct job *later; /* to be launched; then in flight on its stream */
	CUevent event;	   /* its end */
	uint64_t begun_ns;
	UT_hash_handle hh;
};

/* Prints why and exits: for what the broker would never do. */
_Noreturn void worker_die(const char *format, ...) _printf_(1, 2);
