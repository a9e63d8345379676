/* SPDX-License-Identifier: MIT */
/* Modules: loads images and describes their functions. */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "cuda/driver.h"

#include <gpumem/wire.h>

struct job;
struct module;
struct worker;

/* Key: the broker's module number. */
struct module_table {
	pthread_mutex_t lock;  /* guards the table and its modules */
	pthread_cond_t change; /* a load has ended */
	struct module *first;
};

#define MODULE_TABLE_INIT                                                 \
	{                                                                 \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL \
	}

/*
 * Notes the module of a LOAD when received, before any thread sees later requests.
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
 * Finds the function of a request, on the current device. Loads the module where needed.
 *
 * Returns: 0; -EINVAL when there is none; the error of the load.
 */
int module_function(struct worker *worker, const struct wire_request *request,
		    CUfunction *ret_function, struct cuda_failure *failure);
