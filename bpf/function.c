/* SPDX-License-Identifier: MIT */
#include "function.h"

#include "base/def.h"
#include "base/hash.h"
#include "call.h"
#include "user.h"

#include <stdio.h>
#include <string.h>

/* A program may make names up, and the tool keeps them as long as the program runs. */
#define NAMES_MAX 100000 /* of a user */

struct function {
	__u64 handle;
	char *name;
	UT_hash_handle hh;
};

struct named_process {
	__u64 id;
	struct traced_user *user;
	struct function *by_handle;
	UT_hash_handle hh;
};

struct functions {
	struct named_process *processes;
	struct traced_users *users;
};

struct functions *functions_new(struct traced_users *users)
{
	struct functions *functions = calloc(1, sizeof *functions);

	if (functions)
		functions->users = users;
	return functions;
}

static struct named_process *process_find(const struct functions *functions, __u64 id)
{
	struct named_process *process;

	HASH_FIND(hh, functions->processes, &id, sizeof id, process);
	return process;
}

/* Returns: NULL when there is no memory. */
static struct named_process *process_open(struct functions *functions, __u64 id,
					  uid_t uid)
{
	struct named_process *process = process_find(functions, id);
	struct traced_user *user =
		process ? process->user : user_open(functions->users, uid);

	if (process || !user)
		return process;
	process = calloc(1, sizeof *process);
	if (!process)
		return NULL;
	process->id = id;
	process->user = user;
	HASH_ADD(hh, functions->processes, id, sizeof process->id, process);
	return process;
}

static void process_close(struct functions *functions, struct named_process *process)
{
	struct function *function, *next;

	HASH_ITER (hh, process->by_handle, function, next) {
		HASH_DEL(process->by_handle, function);
		process->user->n_functions--;
		free(function->name);
		free(function);
	}
	HASH_DEL(functions->processes, process);
	free(process);
}

struct functions *functions_free(struct functions *functions)
{
	struct named_process *process, *next;

	if (!functions)
		return NULL;
	HASH_ITER (hh, functions->processes, process, next)
		process_close(functions, process);
	free(functions);
	return NULL;
}

static struct function *find(const struct named_process *process, __u64 handle)
{
	struct function *function;

	HASH_FIND(hh, process->by_handle, &handle, sizeof handle, function);
	return function;
}

/* Returns: NULL when there is no memory, or the user has too many. */
static struct function *add(struct named_process *process, __u64 handle)
{
	struct function *function;

	if (process->user->n_functions >= NAMES_MAX)
		return NULL;
	function = calloc(1, sizeof *function);
	if (!function)
		return NULL;
	function->handle = handle;
	HASH_ADD(hh, process->by_handle, handle, sizeof function->handle, function);
	if (++process->user->n_functions == NAMES_MAX)
		fprintf(stderr,
			"gpumem-trace: %d functions of user %u have names: no more do\n",
			NAMES_MAX, process->user->uid);
	return function;
}

static void set(struct functions *functions, const struct record *record,
		const char *name)
{
	struct named_process *process =
		process_open(functions, record->process, record->uid);
	_cleanup_free_ char *copy = process ? strdup(name) : NULL;
	struct function *function;

	if (!copy)
		return;
	function = find(process, record->out[0]);
	if (!function)
		function = add(process, record->out[0]);
	if (!function)
		return;
	free(function->name);
	function->name = take_ptr(copy);
}

void functions_learn(struct functions *functions, const struct record *record)
{
	if (record->result)
		return;
	if (record->call == CALL_cuModuleGetFunction ||
	    record->call == CALL_cuLibraryGetKernel) {
		if (record->type == RECORD_TEXT)
			set(functions, record,
			    ((const struct record_text *)record)->text);
	} else if (record->call == CALL_cuKernelGetFunction) {
		const char *name =
			function_name(functions, record->process, record->args[1]);

		if (name)
			set(functions, record, name);
	}
}

const char *function_name(const struct functions *functions, __u64 process, __u64 handle)
{
	const struct named_process *named =
		functions ? process_find(functions, process) : NULL;
	const struct function *function = named ? find(named, handle) : NULL;

	return function ? function->name : NULL;
}

void functions_forget(struct functions *functions, __u64 process)
{
	struct named_process *named = process_find(functions, process);

	if (named)
		process_close(functions, named);
}
