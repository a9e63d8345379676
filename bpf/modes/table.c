/* SPDX-License-Identifier: MIT */
#include "modes/table.h"

#include "format.h"
#include "import.h"
#include "process.h"

#include <inttypes.h>

static uint64_t host_held(const struct process *process)
{
	return process->held[MEMORY_PINNED] + process->held[MEMORY_REGISTERED];
}

static int compare(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int compare_rows(const void *a, const void *b)
{
	const struct process *x = &((const struct process_row *)a)->process,
			     *y = &((const struct process_row *)b)->process;
	int order = compare(x->gpu, y->gpu);

	if (!order)
		order = compare(host_held(x), host_held(y));
	if (!order)
		order = compare(x->gpu_peak, y->gpu_peak);
	return order ? order : (x->pid > y->pid) - (x->pid < y->pid);
}

static void print_size(FILE *file, uint64_t bytes, bool short_sizes, int width)
{
	char text[16];

	if (short_sizes) {
		format_size(bytes, text);
		fprintf(file, " %*s", 6 + (width > 14), text);
	} else {
		fprintf(file, " %*" PRIu64, width, bytes);
	}
}

static void print_row(const struct tracer *tracer, FILE *file,
		      const struct process *process, bool short_sizes)
{
	fprintf(file, "%-8u ", process->pid);
	format_name(file, process->comm, COMM_SIZE, 15);
	print_size(file, process->gpu, short_sizes, 14);
	print_size(file, process->gpu_peak, short_sizes, 14);
	for (size_t i = 0; i < N_MEMORIES; i++)
		print_size(file, process->held[i], short_sizes, 12);
	uint64_t n = 0;
	for (size_t i = 0; i < N_OWN_MEMORIES; i++)
		n += process->n_held[i];
	fprintf(file, " %8" PRIu64 "%s%s\n", n, process->ended ? " ended" : "",
		process_is_early(tracer, process) ? " early" : "");
}

/* Explains `early`, and counts frees of memory of unknown origin. */
static void print_note(const struct tracer *tracer, FILE *file,
		       const struct process_row *rows, size_t n)
{
	uint64_t n_early = 0, unknown = 0;

	for (size_t i = 0; i < n; i++) {
		n_early += process_is_early(tracer, &rows[i].process);
		unknown += rows[i].process.unknown;
	}
	if (n_early)
		fprintf(file, "early: started before the tool; memory from before the "
			      "start is not "
			      "counted\n");
	if (unknown)
		fprintf(file,
			"%" PRIu64 " free%s of memory that was not seen allocated\n",
			unknown, format_plural(unknown));
}

/* The allocations of brokers that processes have mapped through leases. */
static void print_imports(const struct tracer *tracer, FILE *file,
			  const struct process_row *rows, size_t n, bool short_sizes)
{
	bool some = false;

	for (size_t i = 0; i < n; i++) {
		const struct process *process = &rows[i].process;
		const struct import_total *totals;
		size_t n_totals = imports_totals(tracer->imports, process->id, &totals);

		for (size_t j = 0; j < n_totals; j++) {
			if (short_sizes && !totals[j].held)
				continue;
			if (!some)
				fprintf(file,
					short_sizes ? "\n%-8s %-15s %6s %6s %s\n"
						    : "\n%-8s %-15s %14s %14s %s\n",
					"PID", "COMM", "LEASED", "PEAK", "ALLOCATION");
			some = true;
			fprintf(file, "%-8u ", process->pid);
			format_name(file, process->comm, COMM_SIZE, 15);
			print_size(file, totals[j].held, short_sizes, 14);
			print_size(file, totals[j].peak, short_sizes, 14);
			putc(' ', file);
			format_name(file, totals[j].name, sizeof totals[j].name, 0);
			putc('\n', file);
		}
	}
}

void table_print(const struct tracer *tracer, FILE *file, bool short_sizes)
{
	_cleanup_free_ struct process_row *rows = NULL;
	size_t n;

	if (processes_read(tracer, &rows, &n))
		return;
	if (!n) {
		fprintf(file, "no process has allocated memory since the start\n");
		return;
	}
	qsort(rows, n, sizeof *rows, compare_rows);
	fprintf(file, short_sizes ? "%-8s %-15s %6s %6s" : "%-8s %-15s %14s %14s", "PID",
		"COMM", "HELD", "PEAK");
	static const char *const names[N_MEMORIES] = { "DEVICE",   "MANAGED",
						       "POOL",	   "VMM",
						       "PINNED",   "REGISTERED",
						       "IMPORTED", "RESERVED" };
	for (size_t i = 0; i < N_MEMORIES; i++)
		fprintf(file, short_sizes ? " %6.6s" : " %12s", names[i]);
	fprintf(file, " %8s\n", "BLOCKS");
	for (size_t i = 0; i < n; i++)
		if (!short_sizes || !rows[i].process.ended)
			print_row(tracer, file, &rows[i].process, short_sizes);
	print_note(tracer, file, rows, n);
	print_imports(tracer, file, rows, n, short_sizes);
}
