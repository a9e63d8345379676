/* SPDX-License-Identifier: MIT */
/*
 * The BPF programs, step by step: events between the entry and the return of a call, in
 * orders that are rare on a running system.
 */
#include "call.h"
#include "kernel.h"

#include <criterion/criterion.h>

#pragma GCC diagnostic ignored "-Wattributes"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"
#include "kernel/trace.bpf.c"

/* The session cookie, kept from entry to return; whether the program runs at a return. */
static __u64 session;
static bool session_returns;

bool bpf_session_is_return(void)
{
	return session_returns;
}

__u64 *bpf_session_cookie(void)
{
	return &session;
}

#define PID   100
#define START 5000

static void setup(void)
{
	cr_assert_eq(calls_init(), 0);
	kernel_reset();
	for (size_t i = 0; i < N_CALLS; i++) {
		calls[i] = calls_table[i].info;
		calls[i].emit = EMIT_ALWAYS;
	}
	want_events = 1;
	n_filter_pids = 0;
	filter_followed = 0;
	spilled = 0;
	kernel_run(PID, PID, START);
}

TestSuite(ledger, .init = setup, .fini = kernel_reset);

/* ---- calls ---- */

#define STACK_TOP 0x7000

static struct pt_regs regs(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t sp)
{
	return (struct pt_regs){ .rdi = a, .rsi = b, .rdx = c, .rcx = d, .rsp = sp };
}

static void begin_at(enum call_id call, uint64_t sp, uint64_t a, uint64_t b, uint64_t c,
		     uint64_t d)
{
	struct pt_regs ctx = regs(a, b, c, d, sp);

	kernel_cookie = call;
	call_begin(&ctx, calls_table[call].kind);
}

static void begin(enum call_id call, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	begin_at(call, STACK_TOP, a, b, c, d);
}

static void end_at(enum call_id call, uint64_t sp, int result)
{
	struct pt_regs ctx = {
		.rax = (unsigned long)(long)result,
		.rsp = sp + RETURN_ADDRESS,
	};

	call_end(&ctx, calls_table[call].kind);
}

static void end(enum call_id call, int result)
{
	end_at(call, STACK_TOP, result);
}

/* From the entry to the return, without an error. */
static void call(enum call_id call, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	begin(call, a, b, c, d);
	end(call, 0);
}

static void alloc(uint64_t address, uint64_t size)
{
	uint64_t out = address;

	call(CALL_cuMemAlloc_v2, (uintptr_t)&out, size, 0, 0);
}

static void release(uint64_t address)
{
	call(CALL_cuMemFree_v2, address, 0, 0, 0);
}

/* ---- the ledger's figures ---- */

static const struct process *process_now(void)
{
	__u64 id = process_id(bpf_get_current_task_btf());
	static const struct process none;
	__u32 place = process_find(id);

	return place == NO_PLACE ? &none : bpf_map_lookup_elem(&processes, &place);
}

static uint64_t entry_bytes(const void *key, const void *value)
{
	const struct entry *entry = value;

	(void)key;
	return entry->memory < N_MEMORIES ? entry->bytes : 0;
}

static uint64_t bucket_bytes(const void *key, const void *value)
{
	const struct bucket *bucket = value;
	uint64_t sum = 0;

	(void)key;
	for (size_t way = 0; way < WAYS; way++)
		if (bucket->tags[way] >= TAG_ENTRY)
			sum += entry_bytes(NULL, &bucket->slots[way].entry);
	return sum;
}

static uint64_t booked(void)
{
	return kernel_sum(&ledger, entry_bytes) + kernel_sum(&buckets, bucket_bytes);
}

static uint64_t one(const void *key, const void *value)
{
	(void)key;
	(void)value;
	return 1;
}

/* Totals are the sum of entries, always. */
static void holds(enum memory memory, uint64_t bytes, uint64_t n)
{
	const struct process *process = process_now();

	cr_expect_eq(process->held[memory], bytes, "holds %llu, not %llu",
		     (unsigned long long)process->held[memory],
		     (unsigned long long)bytes);
	cr_expect_eq(process->n_held[memory], n);
	cr_expect_eq(booked(), bytes);
}

static uint64_t lost_of(enum lost what)
{
	__u32 key = what;
	const __u64 *n = bpf_map_lookup_elem(&lost, &key);

	return *n;
}

/* ---- */

Test(ledger, an_address_that_comes_again_before_its_free_has_returned)
{
	alloc(0x1000, 64);
	begin(CALL_cuMemFree_v2, 0x1000, 0, 0, 0); /* the driver has freed it ... */
	kernel_run(PID, PID + 1, START);
	alloc(0x1000, 512); /* ... and given it to another thread */
	kernel_run(PID, PID, START);
	end(CALL_cuMemFree_v2, 0);
	cr_expect_eq(kernel_last.record.bytes, 64);
	cr_expect_eq(kernel_last.record.flags, RECORD_FREED);
	holds(MEMORY_DEVICE, 512, 1);
}

Test(ledger, a_failed_free_puts_back_what_it_took)
{
	alloc(0x1000, 64);
	begin(CALL_cuMemFree_v2, 0x1000, 0, 0, 0);
	holds(MEMORY_DEVICE, 0, 0);
	end(CALL_cuMemFree_v2, 700);
	cr_expect_eq(kernel_last.record.result, 700);
	cr_expect_eq(kernel_last.record.flags, 0);
	holds(MEMORY_DEVICE, 64, 1);
	release(0x1000);
	holds(MEMORY_DEVICE, 0, 0);
}

Test(ledger, an_address_that_was_never_freed_is_booked_anew)
{
	alloc(0x1000, 64);
	alloc(0x1000, 128); /* the free was missed */
	holds(MEMORY_DEVICE, 128, 1);
}

Test(ledger, a_failed_allocation_books_nothing)
{
	uint64_t out = 0x1000;

	begin(CALL_cuMemAlloc_v2, (uintptr_t)&out, 64, 0, 0);
	end(CALL_cuMemAlloc_v2, 2);
	holds(MEMORY_DEVICE, 0, 0);
	cr_expect_eq(kernel_last.record.out[0], 0);
}

Test(ledger, a_lost_record_changes_no_balance)
{
	kernel_ring_is_full = true;
	alloc(0x1000, 64);
	alloc(0x2000, 64);
	release(0x1000);
	holds(MEMORY_DEVICE, 64, 1);
	cr_expect_eq(lost_of(LOST_EVENTS), 3);
	cr_expect_eq(kernel_n_records, 0);
}

/* Returns: the next address in the same bucket. */
static uint64_t next_of_bucket(uint64_t address)
{
	struct ledger_key key = {
		.process = process_id(bpf_get_current_task_btf()),
		.address = address,
		.space = SPACE_POINTER,
	};
	uint32_t bucket = ledger_bucket(ledger_tag(&key));

	do
		key.address++;
	while (ledger_bucket(ledger_tag(&key)) != bucket);
	return key.address;
}

Test(ledger, what_has_no_room_in_its_bucket_is_in_the_map)
{
	uint64_t addresses[WAYS + 2] = { 0x1000 };

	for (size_t i = 0; i < WAYS + 2; i++) {
		alloc(addresses[i], 1 << i);
		if (i < WAYS + 1)
			addresses[i + 1] = next_of_bucket(addresses[i]);
	}
	holds(MEMORY_DEVICE, (1 << (WAYS + 2)) - 1, WAYS + 2);
	cr_expect_eq(kernel_sum(&ledger, one), 2);
	release(addresses[WAYS]);
	cr_expect_eq(kernel_last.record.bytes, 1 << WAYS);
	cr_expect_eq(kernel_sum(&ledger, one), 1);

	/* the bucket has room again; the map has this address, whose free was missed */
	release(addresses[0]);
	alloc(addresses[WAYS + 1], 1);
	cr_expect_eq(kernel_sum(&ledger, one), 0);
	begin(CALL_cuMemFree_v2, addresses[WAYS + 1], 0, 0, 0);
	end(CALL_cuMemFree_v2, 700);
	holds(MEMORY_DEVICE, (1 << WAYS) - 2 + 1, WAYS);
	for (size_t i = 1; i < WAYS; i++)
		release(addresses[i]);
	release(addresses[WAYS + 1]);
	holds(MEMORY_DEVICE, 0, 0);
}

Test(ledger, what_has_no_room_is_counted_and_never_in_the_totals)
{
	uint64_t address = 0x1000;

	kernel_max_entries = 2;
	for (uint64_t n = 1; n <= WAYS + 3; n++) {
		alloc(address, 64);
		if (n <= WAYS + 2)
			address = next_of_bucket(address);
	}
	holds(MEMORY_DEVICE, 64 * (WAYS + 2), WAYS + 2);
	cr_expect_eq(lost_of(LOST_ENTRIES), 1);
	release(address);
	holds(MEMORY_DEVICE, 64 * (WAYS + 2), WAYS + 2);
}

Test(ledger, a_slot_that_is_being_written_is_nobody_s)
{
	struct ledger_key key = {
		.process = process_id(bpf_get_current_task_btf()),
		.address = 0x1000,
		.space = SPACE_POINTER,
	};
	__u32 index = ledger_bucket(ledger_tag(&key));
	struct bucket *bucket = bpf_map_lookup_elem(&buckets, &index);

	bucket->tags[0] = TAG_BUSY;
	alloc(0x1000, 64);
	cr_expect_eq(bucket->tags[0], TAG_BUSY);
	cr_expect_eq(bucket->tags[1], ledger_tag(&key));
	release(0x1000);
	cr_expect_eq(bucket->tags[1], TAG_FREE);
	holds(MEMORY_DEVICE, 0, 0);
}

Test(ledger, a_pid_that_is_used_again_is_another_process)
{
	alloc(0x1000, 64);
	kernel_run(PID, PID, START + 1);
	cr_expect_eq(process_now()->held[MEMORY_DEVICE], 0);
	call(CALL_cuMemFree_v2, 0x1000, 0, 0, 0);
	cr_expect_eq(kernel_last.record.flags, RECORD_UNKNOWN);
	alloc(0x1000, 512);
	cr_expect_eq(process_now()->held[MEMORY_DEVICE], 512);
	kernel_run(PID, PID, START);
	cr_expect_eq(process_now()->held[MEMORY_DEVICE], 64);
}

Test(ledger, a_call_within_a_call_books_once)
{
	uint64_t out = 0x1000;

	begin_at(CALL_cuMemAllocHost_v2, STACK_TOP, (uintptr_t)&out, 64, 0, 0);
	begin_at(CALL_cuMemHostAlloc, STACK_TOP - 64, (uintptr_t)&out, 64, 0, 0);
	end_at(CALL_cuMemHostAlloc, STACK_TOP - 64, 0);
	end(CALL_cuMemAllocHost_v2, 0);
	holds(MEMORY_PINNED, 64, 1);
}

Test(ledger, a_call_that_never_returned_is_forgotten)
{
	uint64_t out = 0x1000;

	/* left by longjmp(): a later call begins higher on the stack */
	for (int i = 0; i < 3 * FRAMES_MAX; i++)
		begin_at(CALL_cuMemAlloc_v2, STACK_TOP - 64, (uintptr_t)&out, 64, 0, 0);
	alloc(0x2000, 512);
	holds(MEMORY_DEVICE, 512, 1);
	cr_expect_eq(lost_of(LOST_CALLS), 0);
}

Test(ledger, more_calls_within_each_other_than_there_is_room_for_are_counted)
{
	uint64_t out = 0x1000;

	for (uint64_t i = 0; i < FRAMES_MAX + 2; i++)
		begin_at(CALL_cuMemAlloc_v2, STACK_TOP - 64 * i, (uintptr_t)&out, 64, 0,
			 0);
	cr_expect_eq(lost_of(LOST_CALLS), 2);
}

Test(ledger, a_return_to_another_place_is_another_call_s)
{
	uint64_t out = 0x1000;

	begin(CALL_cuMemAlloc_v2, (uintptr_t)&out, 64, 0, 0);
	end_at(CALL_cuMemAlloc_v2, STACK_TOP - 64, 0);
	holds(MEMORY_DEVICE, 0, 0);
	end(CALL_cuMemAlloc_v2, 0);
	holds(MEMORY_DEVICE, 64, 1);
}

Test(ledger, processes_whose_places_are_the_same_are_told_apart)
{
	__u32 first = place_of(process_id(bpf_get_current_task_btf()), 0);
	uint64_t start = START;

	alloc(0x1000, 64);
	for (uint64_t n = 1; n <= PLACES; n++) {
		do
			start++;
		while (place_of(start << 22 ^ PID, 0) != first);
		kernel_run(PID, PID, start);
		alloc(0x1000, 100 + n);
		cr_expect_eq(process_now()->held[MEMORY_DEVICE],
			     n < PLACES ? 100 + n : 0);
	}
	cr_expect_eq(lost_of(LOST_PROCESSES), 1);
	kernel_run(PID, PID, START);
	cr_expect_eq(process_now()->held[MEMORY_DEVICE], 64);
}

Test(ledger, the_peak_is_the_most_that_was_held_at_once)
{
	alloc(0x1000, 100);
	alloc(0x2000, 200);
	release(0x1000);
	alloc(0x3000, 50);
	cr_expect_eq(process_now()->peak[MEMORY_DEVICE], 300);
	cr_expect_eq(process_now()->gpu_peak, 300);
	cr_expect_eq(process_now()->gpu, 250);
}

Test(ledger, a_session_counts_a_call_once_at_its_return)
{
	struct pt_regs ctx = { 0 };
	__u32 call = CALL_cuLaunchKernel;
	const struct call_stat *stat = bpf_map_lookup_elem(&stats, &call);

	kernel_cookie = call;
	session_returns = false;
	kernel_now = 1000;
	tally_session(&ctx);
	cr_expect_eq(stat->time, 0);
	session_returns = true;
	kernel_now += 300;
	tally_session(&ctx);
	cr_expect_eq(stat->time, 301);
	cr_expect_eq(stat->latency[8], 1, "256 to 511 ns");
	cr_expect_eq(stat->failures, 0);
}

Test(ledger, a_number_counts_in_the_slot_of_its_highest_bit)
{
	for (unsigned int bit = 0; bit < 64; bit++) {
		cr_expect_eq(log2_slot(1ULL << bit), bit);
		cr_expect_eq(log2_slot((2ULL << bit) - 1), bit);
	}
	cr_expect_eq(log2_slot(0), 0);
}

/* ---- virtual memory ---- */

static void create(uint64_t handle, uint64_t size)
{
	uint64_t out = handle;

	call(CALL_cuMemCreate, (uintptr_t)&out, size, 0, 0);
}

static void map(uint64_t address, uint64_t size, uint64_t handle)
{
	call(CALL_cuMemMap, address, size, 0, handle);
}

static void unmap(uint64_t address, uint64_t size)
{
	call(CALL_cuMemUnmap, address, size, 0, 0);
}

static void release_handle(uint64_t handle, int result)
{
	begin(CALL_cuMemRelease, handle, 0, 0, 0);
	end(CALL_cuMemRelease, result);
}

Test(ledger, a_handle_that_is_given_out_again_is_other_memory)
{
	create(7, 100);
	map(0x1000, 100, 7);
	release_handle(7, 0);
	create(7, 30);
	holds(MEMORY_VMM, 130, 2);
	unmap(0x1000, 100);
	holds(MEMORY_VMM, 30, 1);
	release_handle(7, 0);
	holds(MEMORY_VMM, 0, 0);
	cr_expect_eq(kernel_sum(&ledger, one), 0);
}

Test(ledger, a_handle_may_be_mapped_twice_and_retained)
{
	uint64_t out = 7;

	create(7, 100);
	map(0x1000, 100, 7);
	map(0x2000, 100, 7);
	call(CALL_cuMemRetainAllocationHandle, (uintptr_t)&out, 0x2000, 0, 0);
	release_handle(7, 0);
	unmap(0x1000, 100);
	unmap(0x2000, 100);
	holds(MEMORY_VMM, 100, 1);
	release_handle(7, 0);
	holds(MEMORY_VMM, 0, 0);
}

Test(ledger, a_failed_release_or_unmap_changes_nothing)
{
	create(7, 100);
	map(0x1000, 100, 7);
	release_handle(7, 1);
	begin(CALL_cuMemUnmap, 0x1000, 100, 0, 0);
	end(CALL_cuMemUnmap, 1);
	release_handle(7, 0);
	holds(MEMORY_VMM, 100, 1);
	unmap(0x1000, 100);
	holds(MEMORY_VMM, 0, 0);
}

Test(ledger, a_mapping_that_is_put_where_an_unmap_has_not_returned_yet_stays)
{
	create(7, 100);
	create(8, 100);
	map(0x1000, 0x100, 7);
	map(0x1100, 0x100, 7);
	release_handle(7, 0);
	begin(CALL_cuMemUnmap, 0x1000, 0x200, 0, 0);
	kernel_run(PID, PID + 1, START);
	map(0x1100, 0x100, 8);
	release_handle(8, 0);
	kernel_run(PID, PID, START);
	end(CALL_cuMemUnmap, 0);
	cr_expect_eq(process_now()->n_held[MEMORY_VMM], 2,
		     "both mappings of it are there");
	unmap(0x1100, 0x100);
	cr_expect_eq(process_now()->n_held[MEMORY_VMM], 1);
}

/* ---- ends ---- */

Test(ledger, only_the_last_thread_ends_a_process)
{
	struct task_struct *task = bpf_get_current_task_btf();

	alloc(0x1000, 64);
	task->signal->live.counter = 1;
	process_exit(NULL);
	holds(MEMORY_DEVICE, 64, 1);
	task->signal->live.counter = 0;
	process_exit(NULL);
	cr_expect_eq(process_now()->held[MEMORY_DEVICE], 0);
	cr_expect_neq(process_now()->ended, 0);
	cr_expect_eq(kernel_last.record.type, RECORD_EXIT);
	cr_expect_eq(kernel_last.exit.held[MEMORY_DEVICE], 64);
	cr_expect_eq(kernel_last.record.n_freed, 1);
	cr_expect_eq(booked(), 64, "left for --leaks");
}

Test(ledger, an_exec_leaves_nothing)
{
	alloc(0x1000, 64);
	process_exec(NULL);
	holds(MEMORY_DEVICE, 0, 0);
	cr_expect_eq(kernel_last.exit.held[MEMORY_DEVICE], 64);
	alloc(0x1000, 32);
	holds(MEMORY_DEVICE, 32, 1);
}

Test(ledger, a_child_of_what_is_followed_is_followed)
{
	struct task_struct *parent = bpf_get_current_task_btf(), *child;
	__u32 pid = PID;

	filter_followed = 1;
	bpf_map_update_elem(&followed, &pid, &pid, BPF_ANY);
	kernel_run(PID + 1, PID + 1, START + 1);
	child = bpf_get_current_task_btf();
	struct {
		__u64 args[2];
	} fork = { { (uintptr_t)parent, (uintptr_t)child } };
	process_fork((void *)&fork);
	alloc(0x1000, 64);
	cr_expect_eq(process_now()->held[MEMORY_DEVICE], 64);
}

Test(ledger, a_context_takes_only_its_own)
{
	call(CALL_cuCtxSetCurrent, 0xc1, 0, 0, 0);
	alloc(0x1000, 64);
	call(CALL_cuCtxPushCurrent_v2, 0xc2, 0, 0, 0);
	alloc(0x2000, 32);
	call(CALL_cuCtxDestroy_v2, 0xc2, 0, 0, 0);
	holds(MEMORY_DEVICE, 64, 1);
	alloc(0x3000, 16); /* in the first context again */
	call(CALL_cuCtxDestroy_v2, 0xc1, 0, 0, 0);
	holds(MEMORY_DEVICE, 0, 0);
}

Test(ledger, memory_of_no_known_context_goes_with_the_only_one)
{
	uint64_t ctx = 0xc1;

	call(CALL_cuDevicePrimaryCtxRetain, (uintptr_t)&ctx, 0, 0, 0);
	alloc(0x1000, 64); /* the context was made current unseen */
	call(CALL_cuDevicePrimaryCtxReset_v2, 0, 0, 0, 0);
	holds(MEMORY_DEVICE, 0, 0);
	alloc(0x1000, 64);
	begin(CALL_cuCtxSetCurrent, 0xc2, 0, 0, 0); /* now there are two */
	end(CALL_cuCtxSetCurrent, 0);
	kernel_run(PID, PID + 1, START);
	alloc(0x2000, 32);
	call(CALL_cuCtxDestroy_v2, 0xc2, 0, 0, 0);
	holds(MEMORY_DEVICE, 96, 2);
}

Test(ledger, a_failed_end_of_a_context_frees_nothing)
{
	call(CALL_cuCtxSetCurrent, 0xc1, 0, 0, 0);
	alloc(0x1000, 64);
	begin(CALL_cuCtxDestroy_v2, 0xc1, 0, 0, 0);
	end(CALL_cuCtxDestroy_v2, 201);
	holds(MEMORY_DEVICE, 64, 1);
}
