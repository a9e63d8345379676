/* SPDX-License-Identifier: MIT */
/*
 * --leaks: allocations not freed yet, oldest first, by process; with --stacks by stack. A
 * process that ends with allocations is listed at the end of the process: the memory is
 * free then, but was leaked all the same.
 */
#include "base/clock.h"
#include "event.h"
#include "format.h"
#include "ledger.h"
#include "output.h"
#include "process.h"
#include "symbol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

struct leaks {
	bool some; /* an ended process has been listed */
};

/* A process's share of the ledger. */
struct view {
	struct tracer *tracer;
	const struct process *process;
	const struct held *held; /* all entries of the process */
	size_t n;
	uint64_t now;
	/* Of these, mappings and handles of physical memory, by the memory. */
	const struct held **of_memory;
	size_t n_of_memory;
};

/* Mappings come before handles. */
static int compare_of_memory(const void *a, const void *b)
{
	const struct held *x = *(const struct held *const *)a,
			  *y = *(const struct held *const *)b;

	if (x->entry.physical != y->entry.physical)
		return x->entry.physical < y->entry.physical ? -1 : 1;
	if (x->key.space != y->key.space)
		return x->key.space == SPACE_MAPPING ? -1 : 1;
	return (x->key.address > y->key.address) - (x->key.address < y->key.address);
}

/* A process may have as many as the ledger has room for. Returns: false without memory.
 */
static bool of_memory_sort(struct view *view)
{
	view->of_memory = calloc(view->n + 1, sizeof(*view->of_memory));
	view->n_of_memory = 0;
	for (size_t i = 0; view->of_memory && i < view->n; i++)
		if (view->held[i].key.space == SPACE_MAPPING ||
		    view->held[i].key.space == SPACE_HANDLE)
			view->of_memory[view->n_of_memory++] = &view->held[i];
	if (view->n_of_memory)
		qsort(view->of_memory, view->n_of_memory, sizeof(*view->of_memory),
		      compare_of_memory);
	return view->of_memory;
}

/* The first mapping of physical memory, or else a handle. NULL: there is neither. */
static const struct held *first_of_memory(const struct view *view, uint64_t physical)
{
	size_t first = 0, n = view->n_of_memory;

	while (n > 0) {
		if (view->of_memory[first + n / 2]->entry.physical < physical) {
			first += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return first < view->n_of_memory &&
			       view->of_memory[first]->entry.physical == physical
		       ? view->of_memory[first]
		       : NULL;
}

static bool is_shown(const struct tracer *tracer, const struct held *held)
{
	return held->entry.memory < N_MEMORIES &&
	       held->entry.bytes >= tracer->options.size_min &&
	       held->entry.bytes <= tracer->options.size_max;
}

/* An import is listed as mappings, which have the bytes; without mappings, as a
 * handle. */
static bool is_listed(const struct view *view, const struct held *held)
{
	if (!is_shown(view->tracer, held))
		return false;
	if (held->key.space != SPACE_PHYSICAL || held->entry.memory != MEMORY_IMPORTED)
		return true;
	const struct held *first = first_of_memory(view, held->key.address);

	return !first || first->key.space != SPACE_MAPPING;
}

static int compare_ages(const void *a, const void *b)
{
	uint64_t x = (*(const struct held *const *)a)->entry.time,
		 y = (*(const struct held *const *)b)->entry.time;

	return (x > y) - (x < y);
}

/* The address of memory of cuMemCreate(): the first mapping, else the handle. */
static uint64_t address_of(const struct view *view, const struct held *held)
{
	const struct held *first;

	if (held->key.space != SPACE_PHYSICAL)
		return held->key.address;
	first = first_of_memory(view, held->key.address);
	return first ? first->key.address : 0;
}

static double age_s(const struct view *view, const struct held *held)
{
	return (double)(int64_t)(view->now - held->entry.time) / 1e9;
}

static void print_lines(const struct view *view, const struct held *const *list, size_t n)
{
	const struct mount_user user = {
		.process = view->process->id,
		.pid = view->process->pid,
		.uid = view->process->uid,
		.comm = view->process->comm,
	};

	printf("  %10s %16s %-10s %-18s %-8s %s\n", "AGE(s)", "BYTES", "KIND", "ADDRESS",
	       "TID", "CALL");
	for (size_t i = 0; i < n; i++) {
		const struct entry *entry = &list[i]->entry;
		uint64_t address = address_of(view, list[i]);
		/* a range is room for allocations, and none itself */
		uint64_t named = entry->memory == MEMORY_RESERVED ? 0 : address;
		const char *name = event_name(view->tracer, &user, named, 0);

		printf("  %10.3f %16" PRIu64 " %-10s 0x%-16" PRIx64 " %-8u %s%s",
		       age_s(view, list[i]), (uint64_t)entry->bytes,
		       call_memory_name(entry->memory), address, entry->tid,
		       entry->call < N_CALLS ? calls_table[entry->call].symbol : "?",
		       name ? " " : "");
		format_name(stdout, name ? name : "", SIZE_MAX, 0);
		putchar('\n');
	}
}

static int compare_stacks(const void *a, const void *b)
{
	const struct held *x = *(const struct held *const *)a,
			  *y = *(const struct held *const *)b;

	if (x->entry.stack != y->entry.stack)
		return x->entry.stack < y->entry.stack ? -1 : 1;
	if (x->entry.call != y->entry.call)
		return x->entry.call < y->entry.call ? -1 : 1;
	return compare_ages(a, b);
}

struct heap {
	const struct held *oldest;
	uint64_t bytes;
	size_t n;
};

static int compare_heaps(const void *a, const void *b)
{
	const struct heap *x = a, *y = b;

	return compare_ages(&x->oldest, &y->oldest);
}

static void print_heap(const struct view *view, const struct heap *heap)
{
	const struct stack *stack = symbols_stack(
		view->tracer->symbols, heap->oldest->key.process, view->process->pid,
		view->process->uid, heap->oldest->entry.stack);

	printf("  %" PRIu64
	       " bytes in %zu allocation%s, the oldest of %.3f s, %s, from %s\n",
	       heap->bytes, heap->n, format_plural(heap->n), age_s(view, heap->oldest),
	       call_memory_name(heap->oldest->entry.memory),
	       heap->oldest->entry.call < N_CALLS
		       ? calls_table[heap->oldest->entry.call].symbol
		       : "?");
	if (stack)
		format_stack(stdout, stack, 6);
	else
		printf("      (no stack)\n");
}

static void print_by_stack(const struct view *view, const struct held **list, size_t n)
{
	_cleanup_free_ struct heap *heaps = calloc(n, sizeof *heaps);
	size_t n_heaps = 0;

	if (!heaps)
		return;
	qsort(list, n, sizeof *list, compare_stacks);
	for (size_t i = 0; i < n; i++) {
		const struct held *oldest = n_heaps ? heaps[n_heaps - 1].oldest : NULL;

		if (!oldest || oldest->entry.stack != list[i]->entry.stack ||
		    oldest->entry.call != list[i]->entry.call)
			heaps[n_heaps++].oldest = list[i];
		heaps[n_heaps - 1].bytes += list[i]->entry.bytes;
		heaps[n_heaps - 1].n++;
	}
	qsort(heaps, n_heaps, sizeof *heaps, compare_heaps);
	for (size_t i = 0; i < n_heaps; i++)
		print_heap(view, &heaps[i]);
}

/* Prints the kinds in use from `from` up to `to`. */
static void print_kinds(const size_t *n, const uint64_t *bytes, size_t from, size_t to,
			const char *before)
{
	for (size_t i = from; i < to; i++) {
		if (!n[i])
			continue;
		printf("%s %s %" PRIu64, before, call_memory_name((enum memory)i),
		       bytes[i]);
		before = "";
	}
}

static void print_head(const struct view *view, const struct held *const *list, size_t n)
{
	size_t n_of[N_MEMORIES] = { 0 }, n_own = 0, n_other = 0;
	uint64_t bytes[N_MEMORIES] = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct entry *entry = &list[i]->entry;

		n_of[entry->memory]++;
		bytes[entry->memory] += entry->bytes;
		if (entry->memory < N_OWN_MEMORIES)
			n_own++;
		else
			n_other++;
	}
	printf("process %u (", view->process->pid);
	format_name(stdout, view->process->comm, COMM_SIZE, 0);
	printf(") %s %zu allocation%s", view->process->ended ? "ended holding" : "holds",
	       n_own, format_plural(n_own));
	print_kinds(n_of, bytes, 0, N_OWN_MEMORIES, ":");
	print_kinds(n_of, bytes, N_OWN_MEMORIES, N_MEMORIES, " (and");
	bool early = process_is_early(view->tracer, view->process);
	if (early)
		printf("%s memory from before the start", n_other ? ", and" : " (and");
	printf("%s\n", n_other || early ? ")" : "");
}

/* Returns: whether there was something to list. */
static bool print_list(const struct view *view)
{
	_cleanup_free_ const struct held **list = calloc(view->n + 1, sizeof *list);
	size_t n = 0;

	for (size_t i = 0; list && i < view->n; i++)
		if (is_listed(view, &view->held[i]))
			list[n++] = &view->held[i];
	if (!n)
		return false;
	print_head(view, list, n);
	if (view->tracer->options.stacks) {
		print_by_stack(view, list, n);
	} else {
		qsort(list, n, sizeof *list, compare_ages);
		print_lines(view, list, n);
	}
	return true;
}

static bool print_process(struct view *view)
{
	bool some = of_memory_sort(view) && print_list(view);

	free(view->of_memory);
	return some;
}

static void buried(struct tracer *tracer, const struct process *process,
		   const struct held *held, size_t n)
{
	struct view view = {
		.tracer = tracer,
		.process = process,
		.held = held,
		.n = n,
		.now = process->ended,
	};
	struct leaks *leaks = tracer->state;

	leaks->some |= print_process(&view);
}

static int compare_owners(const void *a, const void *b)
{
	__u64 x = ((const struct held *)a)->key.process,
	      y = ((const struct held *)b)->key.process;

	return (x > y) - (x < y);
}

/* Returns: whether anything is held, as far as the ledger could be read. */
static bool print_all(struct tracer *tracer)
{
	_cleanup_free_ struct process_row *rows = NULL;
	_cleanup_free_ struct held *held = NULL;
	size_t n_rows, n;
	bool some = false;

	if (processes_read(tracer, &rows, &n_rows) || ledger_read(tracer, &held, &n))
		return true;
	qsort(held, n, sizeof *held, compare_owners);
	for (size_t i = 0; i < n_rows; i++) {
		struct held wanted = { .key.process = rows[i].id };
		const struct held *first =
			bsearch(&wanted, held, n, sizeof *held, compare_owners);

		if (!first || rows[i].process.ended)
			continue;
		while (first > held && first[-1].key.process == rows[i].id)
			first--;
		size_t own = 0;
		while (first + own < held + n && first[own].key.process == rows[i].id)
			own++;
		struct view view = {
			.tracer = tracer,
			.process = &rows[i].process,
			.held = first,
			.n = own,
			.now = clock_ns(CLOCK_MONOTONIC),
		};
		some |= print_process(&view);
	}
	return some;
}

static void print_nothing(const struct tracer *tracer)
{
	printf("no process holds memory%s allocated since the start\n",
	       options_filter_size(&tracer->options) ? " of that size" : "");
}

static int begin(struct tracer *tracer, struct text *why)
{
	tracer->state = calloc(1, sizeof(struct leaks));
	if (tracer->state)
		return 0;
	text_printf(why, "no memory");
	return -ENOMEM;
}

static void print_block(struct tracer *tracer)
{
	time_t now = time(NULL);
	_cleanup_text_ struct text text = TEXT_INIT;

	text_time(&text, now);
	printf("%s\n", text_string(&text));
	if (!print_all(tracer))
		print_nothing(tracer);
}

static void interval(struct tracer *tracer)
{
	print_block(tracer);
	printf("\n");
}

static void end(struct tracer *tracer)
{
	struct leaks *leaks = tracer->state;

	if (tracer->options.interval_s > 0)
		print_block(tracer);
	else if (!print_all(tracer) && !leaks->some)
		print_nothing(tracer);
	free(leaks);
}

const struct output output_leaks = {
	.begin = begin,
	.buried = buried,
	.interval = interval,
	.end = end,
};
