/* SPDX-License-Identifier: MIT */
/*
 * PTX on the CPU: modules made from text, and launches of their kernels.
 *
 * This folder knows nothing of drivers, devices or streams. Memory is the process's own:
 * an address in a kernel is an address of the process, and the machine that runs the
 * kernel is asked first about each access (struct ptx_machine). Shared and local memory
 * and parameters have generic addresses past the end of a process's memory.
 */
#pragma once

#include "base/def.h"
#include "base/text.h"

struct ptx_module;
struct ptx_function;

/* The highest PTX version and capability that a module may have; 90 means 9.0. */
struct ptx_target {
	unsigned int version;
	unsigned int capability;
};

/*
 * Parses a module and decodes every function of the module.
 *
 * Returns: 0; or with a sentence in log, which names the line:
 *   -EINVAL  not PTX, or an instruction that is not known here
 *   -ENOTSUP a newer version of PTX than the target's
 *   -ENOEXEC a .target above the target's capability
 *   -ENOMEM  no memory left
 * The caller owns *ret and frees the module with ptx_module_free().
 */
int ptx_module_new(const char *text, size_t length, const struct ptx_target *target,
		   struct ptx_module **ret, struct text *log);
struct ptx_module *ptx_module_free(struct ptx_module *module);

/* Bytes of the module's variables, and how they must be aligned. */
uint64_t ptx_module_size(const struct ptx_module *module);

/*
 * Writes the variables' initial values to an address where the module's size is free,
 * and has the functions use it. Nothing can be launched before.
 *
 * Returns: 0 or -ENOMEM.
 */
int ptx_module_place(struct ptx_module *module, uint64_t address);

/* The version and target that the text says. */
struct ptx_target ptx_module_target(const struct ptx_module *module);

/* A kernel by its place in the text, or NULL past the last. */
struct ptx_function *ptx_module_kernel(struct ptx_module *module, size_t index);

/* Returns: whether there is a global or constant variable of that name. */
bool ptx_module_variable(const struct ptx_module *module, const char *name,
			 uint64_t *ret_address, uint64_t *ret_size);

struct ptx_param {
	uint32_t offset;
	uint32_t size;
};

struct ptx_dim {
	uint32_t x, y, z;
};

/* A kernel's properties; all of them owned by the module. */
struct ptx_kernel {
	const char *name;
	const struct ptx_param *params;
	size_t n_params;
	uint32_t params_size;
	uint32_t shared_size;	  /* static */
	uint32_t const_size;	  /* of the module */
	uint32_t local_size;	  /* a thread */
	uint32_t n_registers;	  /* of 32 bits, at most 255 */
	struct ptx_dim max_block; /* .maxntid; zeros without the directive */
	struct ptx_dim required;  /* .reqntid; likewise */
	struct ptx_dim cluster;	  /* .reqnctapercluster; likewise */
};

const struct ptx_kernel *ptx_kernel_of(const struct ptx_function *function);

/* Memory that a kernel may use. */
struct ptx_window {
	uint64_t start;
	uint64_t end;
	bool writable;
};

/* The machine under a kernel. Any function may be called on several threads at once. */
struct ptx_machine {
	/*
	 * The window around an address, for reading or writing; false where there is
	 * none. The window is good until *epoch changes. A read may get a window for
	 * reading only, even where a write would be allowed.
	 */
	bool (*reach)(void *data, uint64_t address, bool write, struct ptx_window *ret);
	const uint64_t *epoch;

	/* Whether the kernel is to end early: asked now and then. */
	bool (*stopped)(void *data);

	/*
	 * The kernel's printed text, a printf at a time; and complaints about the kernel.
	 */
	void (*print)(void *data, const char *text, size_t length);
	void (*complain)(void *data, const char *text, size_t length);

	/* Gets a fault in words, once, before the launch ends. NULL: not wanted. */
	void (*explain)(void *data, const char *text, size_t length);

	void *data;
	uint32_t n_processors;
	uint32_t n_threads; /* of the host, to run blocks on */
};

enum ptx_fault {
	PTX_FAULT_NONE,
	PTX_FAULT_STOPPED,    /* the machine wanted it to end */
	PTX_FAULT_ADDRESS,    /* an access outside all windows */
	PTX_FAULT_MISALIGNED, /* an address that is no multiple of the access's size */
	PTX_FAULT_TRAP,
	PTX_FAULT_ASSERT,
	PTX_FAULT_MEMORY, /* the host has no memory left for it */
};

struct ptx_launch {
	const struct ptx_function *kernel;
	const struct ptx_machine *machine;
	struct ptx_dim grid;
	struct ptx_dim block;
	struct ptx_dim cluster; /* zeros: none */
	uint32_t dynamic_shared;
	bool cooperative;
	const void *params; /* params_size bytes */
	uint64_t id;	    /* %gridid */
};

/* Runs a kernel to its end. */
enum ptx_fault ptx_launch_run(const struct ptx_launch *launch);
