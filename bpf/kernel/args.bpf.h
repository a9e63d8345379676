/* SPDX-License-Identifier: MIT */
/*
 * Arguments and results of a call: in registers, on the stack, and in the caller's memory
 * that parameters point to.
 */
#pragma once

#include "maps.bpf.h"
#include "thread.bpf.h"

#define CONFIG_NUMBERS 7  /* of a CUlaunchConfig: grid, block, shared memory ... */
#define CONFIG_STREAM  32 /* ... and the place of the stream */

static __always_inline void read_config(struct frame *frame)
{
	__u64 config = frame->args[0], function = frame->args[1], stream = 0;
	__u32 numbers[CONFIG_NUMBERS] = { 0 };

	bpf_probe_read_user(numbers, sizeof numbers, (void *)config);
	bpf_probe_read_user(&stream, sizeof stream, (void *)(config + CONFIG_STREAM));
	frame->args[0] = function;
	for (int i = 0; i < CONFIG_NUMBERS; i++)
		frame->args[i + 1] = numbers[i];
	frame->args[8] = stream;
}

static __always_inline void read_access(struct frame *frame)
{
	__u32 desc[3] = { 0 };

	bpf_probe_read_user(desc, sizeof desc, (void *)frame->args[2]);
	frame->args[2] = desc[0] | (__u64)desc[1] << 32;
	frame->args[4] = desc[2];
}

static __always_inline __u64 read_extent(const volatile struct call_info *info,
					 __u64 copy)
{
	__u64 extents[3] = { 0, 0, 1 };

	if (info->n_extents == 3)
		bpf_probe_read_user(extents, sizeof extents,
				    (void *)(copy + info->extents));
	else
		bpf_probe_read_user(extents, 2 * sizeof *extents,
				    (void *)(copy + info->extents));
	return extents[0] * extents[1] * extents[2];
}

static __always_inline void
read_args(struct pt_regs *ctx, const volatile struct call_info *info, struct frame *frame)
{
	frame->args[0] = PT_REGS_PARM1(ctx);
	frame->args[1] = PT_REGS_PARM2(ctx);
	frame->args[2] = PT_REGS_PARM3(ctx);
	frame->args[3] = PT_REGS_PARM4(ctx);
	frame->args[4] = PT_REGS_PARM5(ctx);
	frame->args[5] = PT_REGS_PARM6(ctx);
	if (info->op == OP_LAUNCH_CONFIG)
		read_config(frame);
	else if (info->op == OP_SET_ACCESS)
		read_access(frame);
	else if (info->n_args > 6 &&
		 want_events) /* on the stack, behind the return address */
		bpf_probe_read_user(&frame->args[6], 3 * sizeof frame->args[0],
				    (void *)(PT_REGS_SP(ctx) + 8));
}

/* The number of bytes in a call's parameters. */
static __always_inline __u64 call_size(const volatile struct call_info *info,
				       const struct frame *frame)
{
	if (info->op == OP_COPY_STRUCT)
		return read_extent(info, frame->args[0]);
	if (info->size >= ARGS_MAX)
		return 0;
	__u64 size = frame_arg(frame, info->size);
	if (info->size_is_int)
		size = (__u32)size;
	size <<= info->shift & 7;
	if (info->times < ARGS_MAX)
		size *= frame_arg(frame, info->times);
	return size;
}

static __always_inline __u64 read_out(const volatile struct call_info *info,
				      const struct frame *frame, __u8 i)
{
	__u8 arg = info->out[i];
	__u64 value = 0;

	if (arg >= ARGS_MAX)
		return 0;
	if (i == 0 && info->out_size == 4)
		bpf_probe_read_user(&value, 4, (void *)frame_arg(frame, arg));
	else
		bpf_probe_read_user(&value, 8, (void *)frame_arg(frame, arg));
	return value;
}
