/* SPDX-License-Identifier: MIT */
/*
 * A device in this process: its address range, its context, and a stream for each thread.
 */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct worker;

struct device {
	CUdevice handle;
	CUcontext context; /* NULL: not made yet; under the worker's context_lock */
};

/*
 * Finds the devices and reserves their address ranges, before anything else can take the
 * addresses. Makes no context.
 */
int devices_init(struct worker *worker, struct cuda_failure *failure);

/* Makes the contexts of all devices. */
int devices_make(struct worker *worker, struct cuda_failure *failure);

/* Makes the device current in this thread; makes its context where there is none. */
int device_enter(struct worker *worker, unsigned int ordinal,
		 struct cuda_failure *failure);

/* This thread's stream on the current device. */
int device_stream(struct worker *worker, CUstream *ret_stream,
		  struct cuda_failure *failure);
