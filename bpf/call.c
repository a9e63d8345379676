/* SPDX-License-Identifier: MIT */
/*
 * The rows of calls.h, taken apart: parameters for the decoder, and a call_info for the
 * BPF programs.
 */
#include "call.h"

#include <errno.h>
#include <gpumem/cuda.h>
#include <string.h>

/* clang-format off */
struct call calls_table[N_CALLS] = {
#define ROW(symbol_, type_, group_, op_, memory_, params_)                               \
	[CALL_##symbol_] = {                                                             \
		.symbol = #symbol_,                                                      \
		.params_text = params_,                                                  \
		.group = GROUP_##group_,                                                 \
		.op = OP_##op_,                                                          \
		.memory = MEMORY_##memory_,                                              \
	},
	TRACE_CALLS(ROW)
#undef ROW
};
/* clang-format on */

_Static_assert(N_CALLS <= 256, "CALLS_MAX in maps.bpf.h is too small");

static const char *const group_names[N_GROUPS] = {
	[GROUP_MEM] = "mem",	   [GROUP_MANAGED] = "managed", [GROUP_VMM] = "vmm",
	[GROUP_POOL] = "pool",	   [GROUP_COPY] = "copy",	[GROUP_MODULE] = "module",
	[GROUP_LAUNCH] = "launch", [GROUP_CTX] = "ctx",
};

static const char *const memory_names[N_MEMORIES + 1] = {
	[MEMORY_DEVICE] = "device",	[MEMORY_MANAGED] = "managed",
	[MEMORY_POOL] = "pool",		[MEMORY_VMM] = "vmm",
	[MEMORY_PINNED] = "pinned",	[MEMORY_REGISTERED] = "registered",
	[MEMORY_IMPORTED] = "imported", [MEMORY_RESERVED] = "reserved",
	[MEMORY_NONE] = "none",
};

static const char *const param_type_names[N_PARAM_TYPES] = {
	[PARAM_SKIP] = "-",
	[PARAM_OUT] = "out",
	[PARAM_OUT4] = "out4",
	[PARAM_OUTFD] = "outfd",
	[PARAM_PITCH] = "pitch",
	[PARAM_PTR] = "ptr",
	[PARAM_PTR4] = "ptr4",
	[PARAM_FUNCTION] = "function",
	[PARAM_SIZE] = "size",
	[PARAM_SIZE4] = "size4",
	[PARAM_ELEM2] = "elem2",
	[PARAM_ELEM4] = "elem4",
	[PARAM_TIMES] = "times",
	[PARAM_COUNT] = "count",
	[PARAM_INT] = "int",
	[PARAM_UINT] = "uint",
	[PARAM_HEX] = "hex",
	[PARAM_DEVICE] = "device",
	[PARAM_LOCATION] = "location",
	[PARAM_ADVICE] = "advice",
	[PARAM_PROT] = "prot",
	[PARAM_HANDLETYPE] = "handletype",
	[PARAM_TEXT] = "text",
	[PARAM_EXTENT2] = "extent2",
	[PARAM_EXTENT3] = "extent3",
};

static const enum kind op_kinds[] = {
	[OP_NONE] = KIND_PLAIN,
	[OP_ALLOC] = KIND_ALLOC,
	[OP_REGISTER] = KIND_ALLOC,
	[OP_FREE] = KIND_FREE,
	[OP_CREATE] = KIND_VMM,
	[OP_IMPORT] = KIND_VMM,
	[OP_RETAIN] = KIND_VMM,
	[OP_RELEASE] = KIND_VMM,
	[OP_MAP] = KIND_VMM,
	[OP_UNMAP] = KIND_VMM,
	[OP_CONTEXT_CREATE] = KIND_CONTEXT,
	[OP_CONTEXT_DESTROY] = KIND_CONTEXT,
	[OP_CONTEXT_SET] = KIND_CONTEXT,
	[OP_CONTEXT_PUSH] = KIND_CONTEXT,
	[OP_CONTEXT_POP] = KIND_CONTEXT,
	[OP_PRIMARY_RETAIN] = KIND_CONTEXT,
	[OP_PRIMARY_RELEASE] = KIND_CONTEXT,
	[OP_PRIMARY_RESET] = KIND_CONTEXT,
	[OP_LAUNCH_CONFIG] = KIND_PLAIN,
	[OP_COPY_STRUCT] = KIND_PLAIN,
	[OP_SET_ACCESS] = KIND_PLAIN,
};

/* Addresses of these kinds stand in this name space. */
static enum space space_of(enum op op, enum memory memory)
{
	if (op == OP_UNMAP)
		return SPACE_MAPPING;
	switch (memory) {
	case MEMORY_PINNED:
		return SPACE_PINNED;
	case MEMORY_REGISTERED:
		return SPACE_REGISTERED;
	case MEMORY_RESERVED:
		return SPACE_RANGE;
	default:
		return SPACE_POINTER;
	}
}

static void info_size(struct call_info *info, __u8 param, __u8 shift, bool is_int)
{
	info->size = param;
	info->shift = shift;
	info->size_is_int = is_int;
}

static void info_out(struct call_info *info, __u8 param, __u8 size)
{
	if (info->out[0] == ARG_NONE) {
		info->out[0] = param;
		info->out_size = size;
	} else {
		info->out[1] = param;
	}
}

/* Sets the fields of a call that follow from a parameter's type. */
static void info_add(struct call_info *info, __u8 i, enum param_type type)
{
	switch (type) {
	case PARAM_OUT:
		info_out(info, i, 8);
		break;
	case PARAM_OUT4:
	case PARAM_OUTFD:
		info_out(info, i, 4);
		break;
	case PARAM_PITCH:
		info->out[1] = i;
		info->pitched = 1;
		break;
	case PARAM_PTR4:
		info->address_is_int = 1;
		break;
	case PARAM_SIZE:
	case PARAM_SIZE4:
		info_size(info, i, 0, type == PARAM_SIZE4);
		break;
	case PARAM_ELEM2:
		info_size(info, i, 1, false);
		break;
	case PARAM_ELEM4:
		info_size(info, i, 2, false);
		break;
	case PARAM_TIMES:
		info->times = i;
		break;
	case PARAM_TEXT:
		info->text = i;
		break;
	case PARAM_EXTENT2:
		info->n_extents = 2;
		info->extents = offsetof(CUDA_MEMCPY2D, WidthInBytes);
		break;
	case PARAM_EXTENT3:
		info->n_extents = 3;
		info->extents = offsetof(CUDA_MEMCPY3D, WidthInBytes);
		break;
	default:
		break;
	}
}

static int param_parse(const char *word, size_t length, struct param *ret_param)
{
	const char *colon = memchr(word, ':', length);
	if (!colon)
		return -EINVAL;
	size_t n_type = (size_t)(colon - word), n_name = length - n_type - 1;

	for (size_t i = 0; i < N_PARAM_TYPES; i++) {
		if (strlen(param_type_names[i]) != n_type ||
		    strncmp(param_type_names[i], word, n_type))
			continue;
		if (n_name == 0 || n_name >= sizeof ret_param->name)
			return -EINVAL;
		ret_param->type = (enum param_type)i;
		memcpy(ret_param->name, colon + 1, n_name);
		ret_param->name[n_name] = '\0';
		return 0;
	}
	return -EINVAL;
}

static int call_init(struct call *call)
{
	struct call_info *info = &call->info;

	*info = (struct call_info){
		.op = (__u8)call->op,
		.memory = (__u8)call->memory,
		.space = (__u8)space_of(call->op, call->memory),
		.out = { ARG_NONE, ARG_NONE },
		.size = ARG_NONE,
		.times = ARG_NONE,
		.text = ARG_NONE,
	};
	call->kind = op_kinds[call->op];
	call->n_params = 0;
	for (const char *word = call->params_text; *word;) {
		size_t length = strcspn(word, " ");

		if (call->n_params == PARAMS_MAX)
			return -EINVAL;
		struct param *param = &call->params[call->n_params];
		if (param_parse(word, length, param))
			return -EINVAL;
		info_add(info, (__u8)call->n_params, param->type);
		call->n_params++;
		word += length;
		word += strspn(word, " ");
	}
	info->n_args = (__u8)call->n_params;
	return 0;
}

int calls_init(void)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		int error = call_init(&calls_table[i]);

		if (error)
			return error;
	}
	return 0;
}

const char *call_group_name(enum group group)
{
	return group_names[group];
}

const char *call_memory_name(enum memory memory)
{
	return memory < N_MEMORIES ? memory_names[memory] : memory_names[MEMORY_NONE];
}

int call_groups_parse(const char *text, unsigned int *ret_groups, char ret_word[16])
{
	unsigned int groups = 0;

	do {
		size_t length = strcspn(text, ","), i;

		for (i = 0; i < N_GROUPS; i++)
			if (strlen(group_names[i]) == length &&
			    !strncmp(group_names[i], text, length))
				break;
		if (i == N_GROUPS) {
			length = MIN(length, (size_t)15);
			memcpy(ret_word, text, length);
			ret_word[length] = '\0';
			return -EINVAL;
		}
		groups |= GROUP_BIT(i);
		text += length;
	} while (*text++ == ',');
	*ret_groups = groups;
	return 0;
}
