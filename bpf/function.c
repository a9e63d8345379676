/* SPDX-License-Identifier: MIT */
#include "function.h"

#include "call.h"

#include <string.h>
#include <uthash.h>

struct function_key {
	__u64 process;
	__u64 handle;
};

struct function {
	struct function_key key;
	char *name;
	UT_hash_handle hh;
};

struct functions {
	struct function *by_key;
};

struct functions *functions_new(void)
{
	return calloc(1, sizeof(struct functions));
}

static void function_remove(struct functions *functions, struct function *function)
{
	HASH_DEL(functions->by_key, function);
	free(function->name);
	free(function);
}

struct functions *functions_free(struct functions *functions)
{
	struct function *function, *next;

	if (!functions)
		return NULL;
	HASH_ITER (hh, functions->by_key, function, next)
		function_remove(functions, function);
	free(functions);
	return NULL;
}

static struct function *find(const struct functions *functions, __u64 process,
			     __u64 handle)
{
	struct function_key key = { process, handle };
	struct function *function;

	HASH_FIND(hh, functions->by_key, &key, sizeof key, function);
	return function;
}

static void set(struct functions *functions, __u64 process, __u64 handle,
		const char *name)
{
	struct function *function = find(functions, process, handle);
	_cleanup_free_ char *copy = strdup(name);

	if (!copy)
		return;
	if (!function) {
		function = calloc(1, sizeof *function);
		if (!function)
			return;
		function->key = (struct function_key){ process, handle };
		HASH_ADD(hh, functions->by_key, key, sizeof function->key, function);
	}
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
			set(functions, record->process, record->out[0],
			    ((const struct record_text *)record)->text);
	} else if (record->call == CALL_cuKernelGetFunction) {
		const char *name =
			function_name(functions, record->process, record->args[1]);

		if (name)
			set(functions, record->process, record->out[0], name);
	}
}

const char *function_name(const struct functions *functions, __u64 process, __u64 handle)
{
	const struct function *function =
		functions ? find(functions, process, handle) : NULL;

	return function ? function->name : NULL;
}

void functions_forget(struct functions *functions, __u64 process)
{
	struct function *function, *next;

	HASH_ITER (hh, functions->by_key, function, next)
		if (function->key.process == process)
			function_remove(functions, function);
}
