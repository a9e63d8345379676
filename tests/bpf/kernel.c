/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <string.h>

/* The fields that thread.bpf.h reads. */
struct signal_struct {
	struct {
		int counter;
	} live;
};

struct cred {
	struct {
		__u32 val;
	} uid;
};

struct task_struct {
	__u64 start_boottime;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	const struct cred *cred;
	char comm[COMM_SIZE];
};

struct pair {
	const void *map;
	void *key;
	void *value;
	struct pair *next;
};

struct fake_thread {
	struct task_struct task;
	struct signal_struct signal;
	void *storage;
	struct fake_thread *next;
};

uint64_t kernel_now, kernel_cookie;
bool kernel_ring_is_full;
size_t kernel_max_entries;
union kernel_record kernel_last;
size_t kernel_n_records;

static const struct cred root;
static struct pair *pairs;
static struct fake_thread *threads, *current;

void kernel_reset(void)
{
	while (pairs) {
		struct pair *pair = pairs;

		pairs = pair->next;
		free(pair->key);
		free(pair->value);
		free(pair);
	}
	while (threads) {
		struct fake_thread *thread = threads;

		threads = thread->next;
		free(thread->storage);
		free(thread);
	}
	current = NULL;
	kernel_now = 1000;
	kernel_ring_is_full = false;
	kernel_max_entries = 0;
	kernel_n_records = 0;
	memset(&kernel_last, 0, sizeof kernel_last);
}

void kernel_run(uint32_t pid, uint32_t tid, uint64_t start)
{
	struct fake_thread *thread;

	for (thread = threads; thread; thread = thread->next)
		if (thread->task.pid == (int)tid && thread->task.start_boottime == start)
			break;
	if (!thread) {
		thread = calloc(1, sizeof *thread);
		thread->task = (struct task_struct){
			.start_boottime = start,
			.pid = (int)tid,
			.tgid = (int)pid,
			.group_leader = &thread->task,
			.signal = &thread->signal,
			.cred = &root,
			.comm = "test",
		};
		thread->next = threads;
		threads = thread;
	}
	current = thread;
}

/* ---- maps ---- */

static struct pair *find(const void *map, size_t key_size, const void *key)
{
	for (struct pair *pair = pairs; pair; pair = pair->next)
		if (pair->map == map && !memcmp(pair->key, key, key_size))
			return pair;
	return NULL;
}

void *shim_lookup(const void *map, size_t key_size, size_t value_size, const void *key)
{
	struct pair *pair = find(map, key_size, key);

	if (pair)
		return pair->value;
	/* arrays have all their elements from the start: those with 4-byte keys */
	if (key_size != sizeof(__u32))
		return NULL;
	void *zero = calloc(1, value_size);
	shim_update(map, key_size, value_size, SIZE_MAX, key, zero, BPF_ANY);
	free(zero);
	return find(map, key_size, key)->value;
}

static size_t count(const void *map)
{
	size_t n = 0;

	for (struct pair *pair = pairs; pair; pair = pair->next)
		n += pair->map == map;
	return n;
}

long shim_update(const void *map, size_t key_size, size_t value_size, size_t max_entries,
		 const void *key, const void *value, uint64_t flags)
{
	struct pair *pair = find(map, key_size, key);

	if (pair && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!pair) {
		if (max_entries != SIZE_MAX && /* an array */
		    count(map) >= (kernel_max_entries ? kernel_max_entries : max_entries))
			return -E2BIG;
		pair = calloc(1, sizeof *pair);
		pair->map = map;
		pair->key = malloc(key_size);
		memcpy(pair->key, key, key_size);
		pair->value = malloc(value_size);
		pair->next = pairs;
		pairs = pair;
	}
	memcpy(pair->value, value, value_size);
	return 0;
}

long shim_delete(const void *map, size_t key_size, const void *key)
{
	for (struct pair **at = &pairs; *at; at = &(*at)->next) {
		struct pair *pair = *at;

		if (pair->map != map || memcmp(pair->key, key, key_size))
			continue;
		*at = pair->next;
		free(pair->key);
		free(pair->value);
		free(pair);
		return 0;
	}
	return -ENOENT;
}

long shim_for_each(const void *map, long (*f)(void *, const void *, void *, void *),
		   void *context)
{
	for (struct pair *pair = pairs, *next; pair; pair = next) {
		next = pair->next;
		if (pair->map == map && f((void *)map, pair->key, pair->value, context))
			break;
	}
	return 0;
}

uint64_t kernel_sum(const void *map,
		    uint64_t (*value)(const void *key, const void *value))
{
	uint64_t sum = 0;

	for (struct pair *pair = pairs; pair; pair = pair->next)
		if (pair->map == map)
			sum += value(pair->key, pair->value);
	return sum;
}

void *shim_thread(const struct task_struct *task, size_t size, bool create)
{
	for (struct fake_thread *thread = threads; thread; thread = thread->next) {
		if (&thread->task != task)
			continue;
		if (!thread->storage && create)
			thread->storage = calloc(1, size);
		return thread->storage;
	}
	return NULL;
}

/* ---- the ring buffer ---- */

void *shim_reserve(size_t size)
{
	if (kernel_ring_is_full || size > sizeof kernel_last)
		return NULL;
	memset(&kernel_last, 0, sizeof kernel_last);
	return &kernel_last;
}

void shim_submit(void *record)
{
	(void)record;
	kernel_n_records++;
}

/* ---- process, time, place ---- */

uint64_t bpf_get_current_pid_tgid(void)
{
	return (uint64_t)current->task.tgid << 32 | (uint32_t)current->task.pid;
}

/* No namespace is ever set. */
long bpf_get_ns_current_pid_tgid(uint64_t device, uint64_t inode,
				 struct bpf_pidns_info *info, size_t size)
{
	(void)device;
	(void)inode;
	(void)info;
	(void)size;
	return -EINVAL;
}

uint64_t bpf_get_current_uid_gid(void)
{
	return 0;
}

uint64_t bpf_ktime_get_ns(void)
{
	return kernel_now++;
}

uint64_t bpf_get_attach_cookie(void *ctx)
{
	(void)ctx;
	return kernel_cookie;
}

void *bpf_get_current_task_btf(void)
{
	return &current->task;
}

long bpf_get_current_comm(void *buffer, size_t size)
{
	memcpy(buffer, current->task.comm, size);
	return 0;
}

long bpf_get_stackid(void *ctx, void *map, uint64_t flags)
{
	(void)ctx;
	(void)map;
	(void)flags;
	return -1;
}

long bpf_probe_read_user(void *to, size_t size, const void *from)
{
	if (!from)
		return -EFAULT;
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_user_str(void *to, size_t size, const void *from)
{
	if (!from)
		return -EFAULT;
	strncpy(to, from, size - 1);
	((char *)to)[size - 1] = '\0';
	return (long)strlen(to) + 1;
}

long bpf_probe_read_kernel_str(void *to, size_t size, const void *from)
{
	return bpf_probe_read_user_str(to, size, from);
}
