/* SPDX-License-Identifier: MIT */
/*
 * The worker: data shared by its parts.
 *
 * Handlers return 0 or -errno, with the failed driver call, if any, in *failure. They run
 * on any thread of the pool, after device_enter() for the request's device.
 */
#pragma once

#include <stdatomic.h>

#include <uthash.h>

#include "base/def.h"
#include "cuda/driver.h"
#include "worker/address_history.h"
#include "worker/device.h"
#include "worker/lanes.h"
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

	pthread_mutex_t
		context_lock; /* guards the making of contexts, and `registered` */
	bool registered;      /* the staging area is registered with the driver */

	struct mapping_table mappings; /* has its own lock */
	struct stream_table streams;   /* has its own lock */
	struct module_table modules;   /* has its own lock */
	struct launch_queue launches;  /* under the lock of streams */
	struct lane_pairs lanes;       /* has its own lock */
	struct pool *pool;

	/* Payload of a request being received; used by the thread with the turn. */
	_Alignas(uint64_t) uint8_t payload[WIRE_PAYLOAD_MAX];
	struct seen managed_seen; /* has its own lock */

	/*
	 * Counts answers. A request may depend on an answer given by another thread. The
	 * broker orders the two; the counter makes this order visible to the memory model
	 * within the process.
	 */
	_Atomic uint64_t n_answers;

	/*
	 * The failure that destroyed the contexts: call << 32
	 * result; 0: none.
	 */
	_Atomic uint64_t lost;
};

/* A request on its way through the worker. */
struct job {
	struct wire_request request;
	int fd;		   /* sent with the request; -1: none */
	void *payload;	   /* sent with the request; NULL: none; owned */
	CUstream stream;   /* stream to run on */
	uint64_t value[2]; /* of the answer */
	struct job *next;

	struct job *next_payer; /* of the first job of a payer that waits (long_jobs.h) */
	struct job *last;	/* of the first: the last */
	uint64_t rest;		/* of a long job: bytes behind those of the request */

	/* For a LAUNCH in the GPU's queue. */
	bool in_flight;
	struct job *later; /* next in the queue of received launches, later in its
			      stream's queue */
	CUevent event;	   /* recorded at the end of the kernel */
	uint64_t begun_ns;
	UT_hash_handle hh;
};

/*
 * Tells why and exits, when the broker breaks the rules or the worker can't go on.
 */
_Noreturn void worker_die(const char *format, ...) _printf_(1, 2);
