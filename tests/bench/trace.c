/* SPDX-License-Identifier: MIT */
/*
 * The cost of gpumem-trace for the traced program, compared with an empty BPF program at
 * the same probes and with bpftrace counting the same calls. Also the time to attach and
 * detach all probes, and whether the tool keeps up with 200,000 calls a second.
 *
 *     trace TOOL LIBRARY EMPTY.BPF.O
 *
 * With tests/bpf/prologues.c as the library, the calls open with `push %rbp` like
 * NVIDIA's and do nothing, so the figure is the cost of the probe alone. With a driver,
 * the software GPU or NVIDIA's, the calls are real allocations.
 */
#include "bench.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 7

typedef int (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static const char *tool, *library_path, *empty_path;
static void *library;

static function find(const char *symbol)
{
	function f;

	*(void **)&f = dlsym(library, symbol);
	if (!f)
		die("%s has no %s", library_path, symbol);
	return f;
}

/* ---- the measured calls ---- */

static function alloc_host, free_host, get_handle, launch, alloc_device, free_device,
	alloc_async, free_async;

static void do_alloc_free(void)
{
	uint64_t p = 0;

	alloc_host((uintptr_t)&p, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	free_host(p, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void do_plain(void)
{
	get_handle(0, 0x1000, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void do_launch(void)
{
	launch(1, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0);
}

static void do_device(void)
{
	uint64_t p = 0;

	alloc_device((uintptr_t)&p, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	free_device(p, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void do_async(void)
{
	uint64_t p = 0;

	alloc_async((uintptr_t)&p, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	free_async(p, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

struct work {
	const char *name;
	void (*run)(void);
	int calls; /* a round */
	int n_calls;
	const char *symbols[2];
};

static const struct work bare_works[] = {
	{ "allocate and free",
	  do_alloc_free,
	  100000,
	  2,
	  { "cuMemHostAlloc", "cuMemFreeHost" } },
	{ "a call without memory", do_plain, 100000, 1, { "cuIpcGetMemHandle", NULL } },
	{ "a launch, counted", do_launch, 100000, 1, { "cuLaunchKernel", NULL } },
};

static const struct work driver_works[] = {
	{ "cuMemAlloc and cuMemFree",
	  do_device,
	  3000,
	  2,
	  { "cuMemAlloc_v2", "cuMemFree_v2" } },
	{ "cuMemAllocAsync and cuMemFreeAsync",
	  do_async,
	  20000,
	  2,
	  { "cuMemAllocAsync", "cuMemFreeAsync" } },
};

#define N_WORKS_MAX 3

static const struct work *works;
static size_t n_works;

/* CPU time of this thread alone, so other processes don't count. */
static double thread_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double ns_per_call(const struct work *work)
{
	double start = thread_s();

	for (int i = 0; i < work->calls; i++)
		work->run();
	return (thread_s() - start) * 1e9 / work->calls / work->n_calls;
}

/* ---- the empty program ---- */

struct channel_create {
	__u32 prog_fd, target_fd, attach_type, flags;
	__u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 cnt, multi_flags, pid, unused;
};

#define UPROBE_SESSION 57

static unsigned long offset_of(const char *symbol)
{
	Dl_info info;

	/* up to the end of the text, addresses in the library are offsets in the file */
	if (!dladdr((void *)find(symbol), &info))
		die("%s: no address", symbol);
	return (unsigned long)((char *)(void *)find(symbol) - (char *)info.dli_fbase);
}

static int empty_attach(struct bpf_object **ret_object)
{
	unsigned long offsets[2 * N_WORKS_MAX];
	__u32 n = 0;
	struct bpf_object *object = bpf_object__open_file(empty_path, NULL);
	struct bpf_program *program =
		object ? bpf_object__find_program_by_name(object, "empty") : NULL;

	if (!program)
		die("%s: %s", empty_path, strerror(errno));
	bpf_program__set_expected_attach_type(program,
					      (enum bpf_attach_type)UPROBE_SESSION);
	if (bpf_object__load(object))
		die("the empty program doesn't load: sessions need Linux 6.13");
	for (size_t i = 0; i < n_works; i++)
		for (size_t j = 0; j < 2 && works[i].symbols[j]; j++)
			offsets[n++] = offset_of(works[i].symbols[j]);
	struct channel_create attr = {
		.prog_fd = (__u32)bpf_program__fd(program),
		.attach_type = UPROBE_SESSION,
		.path = (uintptr_t)library_path,
		.offsets = (uintptr_t)offsets,
		.cnt = n,
	};
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof attr);
	if (fd < 0)
		die("the empty program can't be attached: %s", strerror(errno));
	*ret_object = object;
	return fd;
}

/* ---- other programs ---- */

struct watcher {
	pid_t pid;
	int err; /* its stderr */
	char said[65536];
	size_t n_said;
};

static void hear(struct watcher *watcher)
{
	ssize_t n = read(watcher->err, watcher->said + watcher->n_said,
			 sizeof watcher->said - 1 - watcher->n_said);

	if (n <= 0)
		die("it ended: %s", watcher->said);
	watcher->n_said += (size_t)n;
	watcher->said[watcher->n_said] = '\0';
}

/* Starts a program and waits until its stderr contains `ready`. Its stdout is dropped. */
static double watcher_start(struct watcher *watcher, char *const *argv, int fd,
			    const char *ready)
{
	double start = now_s();
	int out[2];

	*watcher = (struct watcher){ 0 };
	if (pipe2(out, O_CLOEXEC))
		die("pipe");
	watcher->pid = fork();
	if (watcher->pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		dup2(out[1], fd);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(out[1]);
	watcher->err = out[0];
	while (!strstr(watcher->said, ready))
		hear(watcher);
	return now_s() - start;
}

static double watcher_stop(struct watcher *watcher)
{
	double start = now_s();
	int status;

	kill(watcher->pid, SIGINT);
	while (read(watcher->err, watcher->said + watcher->n_said,
		    sizeof watcher->said - 1 - watcher->n_said) > 0) {
		watcher->n_said = strlen(watcher->said);
	}
	waitpid(watcher->pid, &status, 0);
	close(watcher->err);
	return now_s() - start;
}

static bool has_bpftrace(void)
{
	return system("command -v bpftrace >/dev/null 2>&1") == 0;
}

static void bpftrace_script(char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size, "BEGIN { printf(\"ready\\n\"); }");

	for (size_t i = 0; i < n_works; i++)
		for (size_t j = 0; j < 2 && works[i].symbols[j]; j++)
			n += (size_t)snprintf(text + n, size - n,
					      " uprobe:%s:%s { @s[tid] = nsecs; }"
					      " uretprobe:%s:%s { @[probe] = count(); "
					      "@t[probe] = hist(nsecs - @s[tid]); }",
					      library_path, works[i].symbols[j],
					      library_path, works[i].symbols[j]);
}

/* ---- the rounds ---- */

static struct series bare[N_WORKS_MAX], empty[N_WORKS_MAX], summary[N_WORKS_MAX],
	json[N_WORKS_MAX], others[N_WORKS_MAX], starts, stops, other_starts, other_stops;

static void measure(struct series *to)
{
	for (size_t i = 0; i < n_works; i++)
		series_add(&to[i], ns_per_call(&works[i]));
}

static void measure_tool(const char *mode, struct series *to)
{
	char *argv[] = { (char *)tool,	       "-v", (char *)mode, "--library",
			 (char *)library_path, NULL };
	struct watcher watcher;

	series_add(&starts, watcher_start(&watcher, argv, 2, "attached in") * 1e3);
	measure(to);
	series_add(&stops, watcher_stop(&watcher) * 1e3);
}

static void round_once(bool bpftrace)
{
	struct bpf_object *object;

	measure(bare);
	int fd = empty_attach(&object);
	measure(empty);
	close(fd);
	bpf_object__close(object);
	measure_tool("--summary", summary);
	measure_tool("--json", json);
	if (!bpftrace)
		return;
	static char script[8192];
	char *argv[] = { "bpftrace", "-B", "line", "-e", script, NULL };
	struct watcher watcher;

	bpftrace_script(script, sizeof script);
	series_add(&other_starts, watcher_start(&watcher, argv, 1, "ready") * 1e3);
	measure(others);
	series_add(&other_stops, watcher_stop(&watcher) * 1e3);
}

/* ---- a flood ---- */

#define FLOOD_S	      5
#define FLOOD_THREADS 2
#define FLOOD_PER_MS  100 /* calls of each thread */

static void *flood(void *calls_)
{
	uint64_t *calls = calls_;
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	for (int ms = 0; ms < FLOOD_S * 1000; ms++) {
		for (int i = 0; i < FLOOD_PER_MS / 2; i++)
			do_alloc_free();
		*calls += FLOOD_PER_MS;
		at.tv_nsec += 1000000;
		if (at.tv_nsec >= 1000000000) {
			at.tv_nsec -= 1000000000;
			at.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	return NULL;
}

static void measure_flood(void)
{
	char *argv[] = { (char *)tool,	       "-v", "--json", "--library",
			 (char *)library_path, NULL };
	uint64_t calls[FLOOD_THREADS] = { 0 }, all = 0;
	pthread_t threads[FLOOD_THREADS];
	struct watcher watcher;

	watcher_start(&watcher, argv, 2, "attached in");
	double start = now_s();
	for (int i = 0; i < FLOOD_THREADS; i++)
		if (pthread_create(&threads[i], NULL, flood, &calls[i]))
			die("no thread");
	for (int i = 0; i < FLOOD_THREADS; i++) {
		pthread_join(threads[i], NULL);
		all += calls[i];
	}
	double took = now_s() - start;
	watcher_stop(&watcher);
	const char *lost = strstr(watcher.said, " events had no room");
	while (lost && lost > watcher.said && lost[-1] != '\n')
		lost--;
	printf("flood of %.0f calls a second for %.1f s: %s%.*s\n", (double)all / took,
	       took, lost ? "LOST: " : "no event lost",
	       lost ? (int)strcspn(lost, "\n") : 0, lost ? lost : "");
}

static void call_once(const char *symbol, uint64_t a, uint64_t b)
{
	if (find(symbol)(a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0))
		die("%s failed", symbol);
}

/* Chooses the calls: a driver's if the library has devices, else those of prologues.c. */
static void choose(void)
{
	uint64_t context = 0;

	if (!dlsym(library, "cuDeviceGetCount")) {
		works = bare_works;
		n_works = sizeof bare_works / sizeof *bare_works;
		alloc_host = find("cuMemHostAlloc");
		free_host = find("cuMemFreeHost");
		get_handle = find("cuIpcGetMemHandle");
		launch = find("cuLaunchKernel");
		return;
	}
	works = driver_works;
	n_works = sizeof driver_works / sizeof *driver_works;
	call_once("cuInit", 0, 0);
	call_once("cuDevicePrimaryCtxRetain", (uintptr_t)&context, 0);
	call_once("cuCtxSetCurrent", context, 0);
	alloc_device = find("cuMemAlloc_v2");
	free_device = find("cuMemFree_v2");
	alloc_async = find("cuMemAllocAsync");
	free_async = find("cuMemFreeAsync");
}

int main(int argc, char **argv)
{
	bool bpftrace = has_bpftrace();

	if (argc != 4)
		die("usage: trace TOOL LIBRARY EMPTY.BPF.O");
	tool = argv[1];
	library_path = argv[2];
	empty_path = argv[3];
	library = dlopen(library_path, RTLD_NOW);
	if (!library)
		die("%s", dlerror());
	choose();
	for (int i = 0; i < ROUNDS; i++)
		round_once(bpftrace);
	for (size_t i = 0; i < n_works; i++) {
		printf("%s, per call:\n", works[i].name);
		series_print("  not traced", &bare[i], "ns");
		series_print("  an empty BPF session", &empty[i], "ns");
		series_print("  gpumem-trace --summary", &summary[i], "ns");
		series_print("  gpumem-trace --json", &json[i], "ns");
		ratio_print("  --summary to empty", &summary[i], &empty[i]);
		ratio_print("  --json to empty", &json[i], &empty[i]);
		if (bpftrace) {
			series_print("  bpftrace, count and histogram", &others[i], "ns");
			ratio_print("  --summary to bpftrace", &summary[i], &others[i]);
		}
	}
	series_print("start until probes are in", &starts, "ms");
	series_print("Ctrl-C until it has ended", &stops, "ms");
	if (bpftrace) {
		series_print("bpftrace: start", &other_starts, "ms");
		series_print("bpftrace: end", &other_stops, "ms");
	} else {
		printf("bpftrace: not installed\n");
	}
	if (works == bare_works)
		measure_flood();
	return 0;
}
