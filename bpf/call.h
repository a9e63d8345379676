/* SPDX-License-Identifier: MIT */
/*
 * The calls of calls.h as the user program sees them, by number.
 */
#pragma once

#include "base/def.h"
#include "calls.h"
#include "kernel/record.h"

#define PARAMS_MAX ARGS_MAX

enum call_id {
#define CALL_ID(symbol, ...) CALL_##symbol,
	TRACE_CALLS(CALL_ID)
#undef CALL_ID
		N_CALLS,
};

enum group {
	GROUP_MEM,
	GROUP_MANAGED,
	GROUP_VMM,
	GROUP_POOL,
	GROUP_COPY,
	GROUP_MODULE,
	GROUP_LAUNCH,
	GROUP_CTX,
	N_GROUPS,
};

#define GROUP_BIT(group) (1u << (group))

/* Counted in the kernel, unless asked for. */
#define GROUPS_COUNTED (GROUP_BIT(GROUP_COPY) | GROUP_BIT(GROUP_LAUNCH))
#define GROUPS_DEFAULT ((GROUP_BIT(N_GROUPS) - 1) & ~GROUPS_COUNTED)
/* Types of the ledger. */
#define GROUPS_LEDGER                                                             \
	(GROUP_BIT(GROUP_MEM) | GROUP_BIT(GROUP_MANAGED) | GROUP_BIT(GROUP_VMM) | \
	 GROUP_BIT(GROUP_POOL))

enum param_type {
	PARAM_SKIP,
	PARAM_OUT,
	PARAM_OUT4,
	PARAM_OUTFD,
	PARAM_PITCH,
	PARAM_PTR,
	PARAM_PTR4,
	PARAM_FUNCTION,
	PARAM_SIZE,
	PARAM_SIZE4,
	PARAM_ELEM2,
	PARAM_ELEM4,
	PARAM_TIMES,
	PARAM_COUNT,
	PARAM_INT,
	PARAM_UINT,
	PARAM_HEX,
	PARAM_DEVICE,
	PARAM_LOCATION,
	PARAM_ADVICE,
	PARAM_PROT,
	PARAM_HANDLETYPE,
	PARAM_TEXT,
	PARAM_EXTENT2,
	PARAM_EXTENT3,
	N_PARAM_TYPES,
};

struct param {
	enum param_type type;
	char name[28];
};

struct call {
	const char *symbol;
	const char *params_text;
	enum group group;
	enum kind kind; /* of programs, for a call that is not only counted */
	enum op op;
	enum memory memory;
	struct call_info info;
	struct param params[PARAMS_MAX];
	size_t n_params;
};

extern struct call calls_table[N_CALLS];

/* Fills calls_table in from calls.h. Returns: 0; -EINVAL for a malformed row. */
int calls_init(void);

const char *call_group_name(enum group group);
const char *call_memory_name(enum memory memory);

/* Parses `mem,vmm`. Returns: 0; -EINVAL, with the unknown word in ret_word. */
int call_groups_parse(const char *text, unsigned int *ret_groups, char ret_word[16]);
