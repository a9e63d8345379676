/* SPDX-License-Identifier: MIT */
/*
 * The helpers of BPF as plain functions (kernel.c). The programs of
 * bpf/kernel/trace.bpf.c then run in a test, step by step, with threads in any order.
 */
#pragma once

#include <linux/bpf.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define RODATA volatile

#define SEC(name)
#define __ksym
#undef __weak
#define __weak
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#undef __always_inline
#define __always_inline inline __attribute__((unused))

struct task_struct;

void *shim_lookup(const void *map, size_t key_size, size_t value_size, const void *key);
long shim_update(const void *map, size_t key_size, size_t value_size, size_t max_entries,
		 const void *key, const void *value, uint64_t flags);
long shim_delete(const void *map, size_t key_size, const void *key);
long shim_for_each(const void *map, long (*f)(void *, const void *, void *, void *),
		   void *context);
void *shim_thread(const struct task_struct *task, size_t size, bool create);
void *shim_reserve(size_t size);
void shim_submit(void *record);

#define MAX_ENTRIES(map) (sizeof(*(map)->max_entries) / sizeof(int))

#define bpf_map_lookup_elem(map, key_) \
	shim_lookup(map, sizeof(*(map)->key), sizeof(*(map)->value), key_)
#define bpf_map_update_elem(map, key_, value_, flags)                                  \
	shim_update(map, sizeof(*(map)->key), sizeof(*(map)->value), MAX_ENTRIES(map), \
		    key_, value_, flags)
#define bpf_map_delete_elem(map, key_)		      shim_delete(map, sizeof(*(map)->key), key_)
#define bpf_for_each_map_elem(map, f, context, flags) shim_for_each(map, f, context)
#define bpf_task_storage_get(map, task, value_, flags) \
	shim_thread(task, sizeof(*(map)->value), (flags) != 0)
#define bpf_ringbuf_reserve(map, size, flags) shim_reserve(size)
#define bpf_ringbuf_submit(record, flags)     ((void)(flags), shim_submit(record))

uint64_t bpf_get_current_pid_tgid(void);
uint64_t bpf_get_current_uid_gid(void);
long bpf_get_ns_current_pid_tgid(uint64_t device, uint64_t inode,
				 struct bpf_pidns_info *info, size_t size);
uint64_t bpf_ktime_get_ns(void);
uint64_t bpf_get_attach_cookie(void *ctx);
void *bpf_get_current_task_btf(void);
long bpf_get_current_comm(void *buffer, size_t size);
long bpf_get_stackid(void *ctx, void *map, uint64_t flags);
long bpf_probe_read_user(void *to, size_t size, const void *from);
long bpf_probe_read_user_str(void *to, size_t size, const void *from);
long bpf_probe_read_kernel_str(void *to, size_t size, const void *from);
