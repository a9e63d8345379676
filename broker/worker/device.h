/* SPDX-License-Identifier: MIT */
/* A device in this process: its address range, its context, each thread's stream on it.
 */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

struct worker;

struct device {
	CUdevice handle;
	CUcontext context; /* NULL: not made; under the worker's context_lock */
};

/*
 * Finds the devices and reserves the address range of each, before anything else can
 * take it. No context is made.
 */
int devices_init(struct worker *worker, struct cuda_failure *failure);

/* Makes the contexts of all devices. */
int devices_make(struct worker *worker, struct cuda_failure *failure);

/* Makes the device current in this thread, and its context where there is none yet. */
int device_enter(struct worker *worker, unsigned int ordinal,
		 struct cuda_failure *failure);

/* This thread's own stream on the device that it has entered. */
int device_stream(struct worker *worker, CUstream *ret_stream,
		  struct cuda_failure *failure);
