/* SPDX-License-Identifier: MIT */
/*
 * gpumem-trace: shows the calls that processes make to the CUDA driver.
 *
 * The BPF programs keep the books and write records into a ring buffer; this process
 * reads them every few milliseconds (a wake-up for each would cost the traced program
 * more than the call) and hands them to a mode. The tool ends at a signal, after
 * --duration SECONDS, or with the command.
 */
#include "base/clock.h"
#include "command.h"
#include "event.h"
#include "format.h"
#include "import.h"
#include "lost.h"
#include "missing.h"
#include "mount.h"
#include "output.h"
#include "process.h"
#include "search.h"
#include "symboliser_child.h"
#include "trace.skel.h"
#include "watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#define READ_EVERY_MS 10
#define LOOK_EVERY_NS 1000000000

static const struct output *const outputs[] = {
	[MODE_LIVE] = &output_live,   [MODE_SUMMARY] = &output_summary,
	[MODE_LEAKS] = &output_leaks, [MODE_TOP] = &output_top,
	[MODE_JSON] = &output_json,   [MODE_CHROME] = &output_chrome,
};

static bool print_libbpf;

static int libbpf_says(enum libbpf_print_level level, const char *format,
		       va_list arguments)
{
	if (!print_libbpf || level == LIBBPF_DEBUG)
		return 0;
	return vfprintf(stderr, format, arguments);
}

static bool record_is_call(const struct record *record)
{
	return record->type == RECORD_CALL || record->type == RECORD_TEXT;
}

static bool is_shown(const struct tracer *tracer, const struct record *record)
{
	const struct call *call = &calls_table[record->call];

	/* calls are asked for: an end is none, has no size and does not fail */
	if (record->type == RECORD_EXIT)
		return !options_filter_calls(&tracer->options);
	/* the others only give names, to launches and to leased memory */
	return !record_is_call(record) ||
	       (!(record->flags & RECORD_SILENT) &&
		(tracer->wanted.shown & GROUP_BIT(call->group) || call->op == OP_FREE));
}

/* Returns: -EAGAIN when the other records are for the next time. */
static int on_record(void *context, void *data, size_t size)
{
	struct tracer *tracer = context;
	const struct record *record = data;

	if (size < sizeof *record || record->call >= N_CALLS)
		return 0;
	if (record->type == RECORD_EXIT)
		tracer->someone_ended = true;
	if (record_is_call(record)) {
		functions_learn(tracer->functions, record);
		imports_learn(tracer->imports, tracer->mounts, record);
	}
	/* now, while the process can be asked: --leaks needs the stack much later */
	event_stack(tracer, record);
	if (tracer->output->event && is_shown(tracer, record))
		tracer->output->event(tracer, record);
	imports_unlearn(tracer->imports, record);
	return record->time > tracer->until ? -EAGAIN : 0;
}

static int fail(const struct text *why)
{
	fprintf(stderr, "gpumem-trace: ");
	format_name(stderr, text_string(why), SIZE_MAX, 0);
	fprintf(stderr, "\n");
	return 1;
}

/* ---- libraries ---- */

static const char *why_left_out(const struct library *library)
{
	return library->error == -EREMOTE
		       ? "its file system is a user's, who could keep all processes "
			 "waiting: --library probes it all the same"
		       : strerror(-library->error);
}

/* Of all, or of those that could be probed in another way. */
static void say_left_out(const struct libraries *libraries, bool all)
{
	for (size_t i = 0; i < libraries->n; i++) {
		const struct library *library = &libraries->list[i];

		if (!library->error ||
		    (!all && !library->refused && library->error != -EREMOTE))
			continue;
		fprintf(stderr, "gpumem-trace: left out ");
		format_name(stderr, library->name, SIZE_MAX, 0);
		fprintf(stderr, ": %s\n", why_left_out(library));
	}
}

static int find_libraries(struct tracer *tracer, struct text *why)
{
	const struct options *options = &tracer->options;

	/* first: without capabilities, libraries of other users are not found, either */
	if (!options->list && missing_capability(ATTACH_ANY, why))
		return -EPERM;
	if (options->library) {
		int error = libraries_add(&tracer->libraries, options->library,
					  options->library);

		if (error)
			text_printf(why, "%s: %s", options->library,
				    error == -ENOEXEC ? "not an ELF library"
						      : strerror(-error));
		if (error || library_has_calls(&tracer->libraries.list[0]))
			return error;
		text_printf(why, "%s has none of the traced calls", options->library);
		return -ENOENT;
	}
	_cleanup_free_ char *library_path =
		options->command ? command_library_path() : NULL;
	search_running(&tracer->libraries, options);
	libraries_add_default(&tracer->libraries, library_path);
	if (libraries_usable(&tracer->libraries))
		return 0;
	if (options->verbose)
		say_left_out(&tracer->libraries, true);
	missing_library(&tracer->libraries, why);
	return -ENOENT;
}

static const char *list_reason(const struct symbol *symbol, bool probed)
{
	switch (symbol->state) {
	case SYMBOL_FOUND:
		return probed ? "found" : "not asked for";
	case SYMBOL_SAME:
		return "found as";
	case SYMBOL_NOP5:
		return "left alone: it opens with a 5-byte nop, where a probe does harm";
	default:
		return "absent from this driver";
	}
}

static void list(const struct tracer *tracer)
{
	for (size_t i = 0; i < tracer->libraries.n; i++) {
		const struct library *library = &tracer->libraries.list[i];

		if (library->error)
			continue;
		format_name(stdout, library->name, SIZE_MAX, 0);
		putchar('\n');
		for (size_t c = 0; c < N_CALLS; c++) {
			const struct symbol *symbol = &library->symbols[c];
			const struct call *call = &calls_table[c];
			enum kind kind;
			bool probed = probes_want_call(call, &tracer->wanted, &kind);

			printf("  %-34s %-8s %s%s%s%s\n", call->symbol,
			       call_group_name(call->group), list_reason(symbol, probed),
			       symbol->state == SYMBOL_SAME ? " " : "",
			       symbol->state == SYMBOL_SAME
				       ? calls_table[symbol->same].symbol
				       : "",
			       symbol->state == SYMBOL_FOUND && probed &&
					       kind == KIND_COUNT
				       ? ", counted"
				       : "");
		}
	}
}

static void say_attached(const struct tracer *tracer, uint64_t took)
{
	for (size_t i = 0; i < tracer->libraries.n; i++) {
		if (tracer->libraries.list[i].error)
			continue;
		fprintf(stderr, "gpumem-trace: probing ");
		format_name(stderr, tracer->libraries.list[i].name, SIZE_MAX, 0);
		fprintf(stderr, "\n");
	}
	fprintf(stderr, "gpumem-trace: %zu calls by %s, attached in %.3f s\n",
		tracer->probes.n_probes, probes_way_name(tracer->probes.way),
		(double)took / 1e9);
}

/* ---- the loop ---- */

struct loop {
	int epoll;
	int signals;
	struct ring_buffer *ring;
	struct command command;
	struct watch watch;
	uint64_t end;	   /* UINT64_MAX: none */
	uint64_t interval; /* 0: none */
	uint64_t next;
	uint64_t look;
	int status;
};

static int loop_init(struct loop *loop, struct tracer *tracer, struct text *why)
{
	const struct options *options = &tracer->options;
	struct epoll_event event = { .events = EPOLLIN };
	double interval = options->interval_s > 0 ? options->interval_s
						  : tracer->output->interval_s;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	loop->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->ring = ring_buffer__new(bpf_map__fd(tracer->probes.bpf->maps.ring),
				      on_record, tracer, NULL);
	if (loop->signals < 0 || loop->epoll < 0 || !loop->ring) {
		text_printf(why, "%s", strerror(errno));
		return -errno;
	}
	event.data.fd = loop->signals;
	epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->signals, &event);
	event.data.fd = ring_buffer__epoll_fd(loop->ring);
	epoll_ctl(loop->epoll, EPOLL_CTL_ADD, event.data.fd, &event);
	loop->end = options->duration_s > 0
			    ? tracer->start + (uint64_t)(options->duration_s * 1e9)
			    : UINT64_MAX;
	loop->interval = (uint64_t)(interval * 1e9);
	loop->next = tracer->start + loop->interval;
	return 0;
}

static void loop_deinit(struct loop *loop)
{
	ring_buffer__free(loop->ring);
	watch_deinit(&loop->watch);
	closep(&loop->signals);
	closep(&loop->epoll);
}

/* Returns: whether the tool is to end. */
static bool take_signals(struct loop *loop)
{
	struct signalfd_siginfo info;
	bool end = false;

	while (read(loop->signals, &info, sizeof info) == sizeof info) {
		int status;

		if (info.ssi_signo != SIGCHLD) {
			end = true;
		} else if (loop->command.pid && waitpid(loop->command.pid, &status,
							WNOHANG) == loop->command.pid) {
			loop->status = command_status(status);
			loop->command.pid = 0;
			end = true;
		}
	}
	return end;
}

static void run(struct loop *loop, struct tracer *tracer)
{
	bool end = false;

	while (!end) {
		struct epoll_event event;

		epoll_wait(loop->epoll, &event, 1, READ_EVERY_MS);
		end = take_signals(loop);
		if (watch_is_over(&loop->watch)) /* the last record is there already */
			end = tracer->someone_ended = true;
		tracer->until = MIN(clock_ns(CLOCK_MONOTONIC), loop->end);
		ring_buffer__consume(loop->ring);
		lost_tell(tracer);
		processes_bury(tracer);
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= loop->look) { /* the record of an end may have been lost */
			tracer->someone_ended = true;
			loop->look = now + LOOK_EVERY_NS;
		}
		if (loop->interval && now >= loop->next && !end) {
			if (tracer->output->interval)
				tracer->output->interval(tracer);
			loop->next += loop->interval;
		}
		if (tracer->until == loop->end)
			end = true;
		if (!output_flush(tracer))
			end = true;
	}
}

/* ---- */

static int trace(struct tracer *tracer, struct text *why)
{
	struct loop loop = { .epoll = -1, .signals = -1 };
	char **argv = tracer->options.command;
	uint64_t before = clock_ns(CLOCK_MONOTONIC);
	int error = watch_init(&loop.watch, &tracer->options, why);
	if (!error)
		error = probes_attach(&tracer->probes, &tracer->options, &tracer->wanted,
				      &tracer->libraries, why);
	if (!error || tracer->options.verbose)
		say_left_out(&tracer->libraries, tracer->options.verbose);
	if (error) {
		watch_deinit(&loop.watch);
		return error;
	}
	tracer->start = clock_ns(CLOCK_MONOTONIC);
	tracer->start_boot = clock_ns(CLOCK_BOOTTIME);
	tracer->to_wall_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - tracer->start);
	if (tracer->options.verbose)
		say_attached(tracer, tracer->start - before);
	error = loop_init(&loop, tracer, why);
	if (tracer->options.stacks)
		tracer->symbols = symbols_new(
			bpf_map__fd(tracer->probes.bpf->maps.stacks), &tracer->users);
	if (!error && argv)
		error = command_start(&loop.command, argv, process_follow_me,
				      &tracer->probes, why);
	if (!error && tracer->output->begin)
		error = tracer->output->begin(tracer, why);
	output_flush(tracer);
	if (!error) {
		if (argv)
			command_go(&loop.command);
		run(&loop, tracer);
		if (tracer->output->end)
			tracer->output->end(tracer);
		lost_say(tracer);
	}
	before = clock_ns(CLOCK_MONOTONIC);
	loop_deinit(&loop);
	output_flush(tracer);
	probes_detach(&tracer->probes);
	if (tracer->options.verbose)
		fprintf(stderr, "gpumem-trace: detached in %.3f s\n",
			(double)(clock_ns(CLOCK_MONOTONIC) - before) / 1e9);
	return error ? error : loop.status;
}

static void choose(struct tracer *tracer)
{
	const struct options *options = &tracer->options;

	tracer->output = outputs[options->mode];
	tracer->wanted.shown = options->groups ? options->groups : GROUPS_DEFAULT;
	if (!options->groups && tracer->output->wants_counted)
		tracer->wanted.counted = GROUPS_COUNTED;
	tracer->wanted.events = tracer->output->wants_events || options->stacks;
}

static int print_about(const struct options *options, struct text *text)
{
	if (options->help)
		options_help(text);
	else
		text_printf(text, "gpumem-trace %s\n", VERSION);
	fputs(text_string(text), stdout);
	return 0;
}

static int start(struct tracer *tracer, struct text *why)
{
	print_libbpf = tracer->options.verbose;
	libbpf_set_print(libbpf_says);
	tracer->functions = functions_new(&tracer->users);
	tracer->mounts = mounts_new();
	tracer->imports = imports_new();
	if (calls_init() || !tracer->functions || !tracer->mounts || !tracer->imports) {
		text_printf(why, "no memory");
		return -ENOMEM;
	}
	choose(tracer);
	int error = find_libraries(tracer, why);
	if (error)
		return error;
	if (!tracer->options.list)
		return trace(tracer, why);
	list(tracer);
	return 0;
}

static void tracer_deinit(struct tracer *tracer)
{
	libraries_deinit(&tracer->libraries);
	functions_free(tracer->functions);
	symbols_free(tracer->symbols);
	users_deinit(&tracer->users);
	mounts_free(tracer->mounts);
	imports_free(tracer->imports);
	free(tracer->ended);
}

int main(int argc, char **argv)
{
	struct tracer tracer = { .file = stdout };
	_cleanup_text_ struct text text = TEXT_INIT;

	if (argc && !strcmp(argv[0], SYMBOLISER_NAME))
		return symboliser_main(argc, argv);
	command_raise_descriptors();
	if (options_parse(argc, argv, &tracer.options, &text))
		return fail(&text);
	int status = tracer.options.help || tracer.options.version
			     ? print_about(&tracer.options, &text)
			     : start(&tracer, &text);
	if (status < 0)
		status = fail(&text);
	if (!output_close(&tracer))
		status = 1;
	tracer_deinit(&tracer);
	return status;
}
