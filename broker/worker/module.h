/* SPDX-License-Identifier: MIT */
/* Modules: loading images, and what can be said of their functions. */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "cuda/driver.h"

#include <gpumem/wire.h>

struct job;
struct module;
struct worker;

/* By the broker's numbers. */
struct module_table {
	pthread_mutex_t lock;  /* guards the table and what it points to */
	pthread_cond_t change; /* a load has ended */
	struct module *first;
};

#define MODULE_TABLE_INIT                                                 \
	{                                                                 \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL \
	}

/*
 * Notes the module of a LOAD as it is received, before any thread looks at what comes
 * behind it.
 */
void module_announce(struct worker *worker, struct job *job);

int module_load(struct worker *worker, struct job *job, struct cuda_failure *failure);
int module_unload(struct worker *worker, struct job *job, struct cuda_failure *failure);
int module_log(struct worker *worker, struct job *job, struct cuda_failure *failure);
int module_functions(struct worker *worker, struct job *job,
		     struct cuda_failure *failure);
int module_find(struct worker *worker, struct job *job, struct cuda_failure *failure);
int module_attributes(struct worker *worker, struct job *job,
		      struct cuda_failure *failure);

/*
 * The function that a request names, on its device, which is current; its module is
 * loaded where it is not yet.
 *
 * Returns: 0; -EINVAL where there is none; what the load fails with.
 */
int module_function(struct worker *worker, const struct wire_request *request,
		    CUfunction *ret_function, struct cuda_failure *failure);
