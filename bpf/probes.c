/* SPDX-License-Identifier: MIT */
/*
 * Loading and attaching. Three ways, best first:
 *
 *   session  as below, but one link for both of what is merely counted (Linux 6.13)
 *   multi    a uprobe_multi link for entries and one for returns (Linux 6.6)
 *   perf     a perf uprobe for each entry and each return; slow to take out
 *
 * libbpf 1.1 knows only the last way; links of the others are made with bpf(2). Where a
 * kernel lacks a way, programs don't load or links are refused: then the programs are
 * loaded anew for the next way. A library whose file can no longer be read is no sign of
 * a missing way: the library is left out, whatever the way. A library that the kernel
 * refuses is left out where the kernel takes another library in the same way.
 */
#include "probes.h"

#include "kernel/bucket.h"
#include "kernel/record.h"
#include "missing.h"
#include "trace.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* The kernel's answer for an instruction that takes no probe; user space has no name. */
#define LINUX_ENOTSUPP 524

/* Of a <linux/bpf.h> younger than Debian's. */
#define TRACE_UPROBE_MULTI     48
#define TRACE_UPROBE_SESSION   57
#define UPROBE_MULTI_RETURN    1u
#define LINK_CREATE_ATTR_BYTES 64

struct link_create {
	__u32 prog_fd;
	__u32 target_fd;
	__u32 attach_type;
	__u32 flags;
	__u64 path;
	__u64 offsets;
	__u64 ref_ctr_offsets;
	__u64 cookies;
	__u32 cnt;
	__u32 multi_flags;
	__u32 pid;
	__u32 unused;
};
_Static_assert(sizeof(struct link_create) == LINK_CREATE_ATTR_BYTES, "as in the kernel");

/* A pair, or a session alone. */
struct kind_programs {
	struct bpf_program *entry;
	struct bpf_program *ret;
	struct bpf_program *session;
};

static struct kind_programs kind_programs(struct trace_bpf *bpf, enum kind kind)
{
#define KIND_ROW(name)                                                  \
	(struct kind_programs)                                          \
	{                                                               \
		bpf->progs.name##_entry, bpf->progs.name##_return, NULL \
	}
	switch (kind) {
	case KIND_PLAIN:
		return KIND_ROW(plain);
	case KIND_ALLOC:
		return KIND_ROW(alloc);
	case KIND_FREE:
		return KIND_ROW(free);
	case KIND_VMM:
		return KIND_ROW(vmm);
	case KIND_CONTEXT:
		return KIND_ROW(context);
	case KIND_TALLY:
		return (struct kind_programs){ .session = bpf->progs.tally_session };
	default:
		return KIND_ROW(count);
	}
#undef KIND_ROW
}

const char *probes_way_name(enum attach_way way)
{
	switch (way) {
	case ATTACH_SESSION:
		return "uprobe_multi links and sessions";
	case ATTACH_MULTI:
		return "uprobe_multi links";
	case ATTACH_PERF:
		return "perf uprobes (slow to take out)";
	default:
		return "none";
	}
}

/* cuMemFree frees memory of any kind, and so belongs to several groups. */
static unsigned int call_groups(const struct call *call)
{
	unsigned int groups = GROUP_BIT(call->group);

	if (call->op == OP_FREE && call->memory == MEMORY_DEVICE)
		groups |= GROUP_BIT(GROUP_MANAGED) | GROUP_BIT(GROUP_POOL);
	if (call->op == OP_FREE && call->memory == MEMORY_POOL)
		groups |= GROUP_BIT(GROUP_MEM);
	return groups;
}

static bool call_names_function(const struct call *call)
{
	enum call_id id = (enum call_id)(call - calls_table);

	return id == CALL_cuModuleGetFunction || id == CALL_cuLibraryGetKernel ||
	       id == CALL_cuKernelGetFunction;
}

bool probes_want_call(const struct call *call, const struct wanted *wanted,
		      enum kind *ret_kind)
{
	unsigned int shown = wanted->shown;

	*ret_kind = call->kind;
	if (shown & call_groups(call)) {
		if (call->kind == KIND_PLAIN && !wanted->events)
			*ret_kind = KIND_COUNT;
		return true;
	}
	if (wanted->counted & GROUP_BIT(call->group)) {
		*ret_kind = KIND_COUNT;
		return true;
	}
	/* the ledger is right only if no call is missing */
	if (shown & GROUPS_LEDGER && call->op != OP_NONE &&
	    (GROUP_BIT(call->group) & GROUPS_LEDGER || call->kind == KIND_CONTEXT))
		return true;
	/* names of functions, for launches */
	return shown & GROUP_BIT(GROUP_LAUNCH) && call_names_function(call);
}

/* ---- loading ---- */

#define INIT_PIDNS_INODE 0xEFFFFFFCu /* PROC_PID_INIT_INO of the kernel */

/* In a container, pids are the container's. */
static void set_namespace(struct trace_bpf *bpf)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == INIT_PIDNS_INODE)
		return;
	bpf->rodata->pidns_device = st.st_dev;
	bpf->rodata->pidns_inode = st.st_ino;
}

static void set_rodata(struct trace_bpf *bpf, const struct options *options,
		       const struct wanted *wanted)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		const struct call *call = &calls_table[i];
		struct call_info info = call->info;
		enum kind kind;

		if (!probes_want_call(call, wanted, &kind))
			info.emit = EMIT_NEVER;
		else if (wanted->shown & GROUP_BIT(call->group))
			info.emit = EMIT_ALWAYS;
		else if (call->op == OP_FREE)
			info.emit = EMIT_FREED;
		else if (call_names_function(call) &&
			 wanted->shown & GROUP_BIT(GROUP_LAUNCH))
			info.emit = EMIT_ALWAYS; /* without a line: main.c drops it */
		bpf->rodata->calls[i] = info;
	}
	set_namespace(bpf);
	bpf->rodata->n_filter_pids = (__u32)options->n_pids;
	for (size_t i = 0; i < options->n_pids; i++)
		bpf->rodata->filter_pids[i] = (__u32)options->pids[i];
	bpf->rodata->filter_uid = options->uid;
	bpf->rodata->filter_by_uid = options->by_uid;
	bpf->rodata->filter_followed = options->command != NULL;
	bpf->rodata->filter_failed = options->failed;
	bpf->rodata->size_min = options->size_min;
	bpf->rodata->size_max = options->size_max;
	bpf->rodata->want_events = wanted->events;
	if (wanted->shown & GROUP_BIT(GROUP_MANAGED))
		bpf->rodata->show_memories |= 1u << MEMORY_MANAGED;
	if (wanted->shown & GROUP_BIT(GROUP_POOL))
		bpf->rodata->show_memories |= 1u << MEMORY_POOL;
	if (wanted->shown & GROUP_BIT(GROUP_MEM))
		bpf->rodata->show_memories |= 1u << MEMORY_DEVICE;
	bpf->rodata->want_stacks = options->stacks;
}

/* The programs for a call, by way and filters. */
static bool probe_kind(const struct probes *probes, const struct wanted *wanted,
		       enum call_id id, enum kind *ret_kind)
{
	const struct call *call = &calls_table[id];

	if (!probes_want_call(call, wanted, ret_kind))
		return false;
	if (*ret_kind == KIND_COUNT && probes->tally && call->info.size == ARG_NONE &&
	    call->op != OP_COPY_STRUCT)
		*ret_kind = KIND_TALLY;
	return true;
}

static void choose_program(struct bpf_program *program, bool used, enum attach_way way,
			   unsigned int type)
{
	bpf_program__set_autoload(program, used);
	if (way != ATTACH_PERF)
		bpf_program__set_expected_attach_type(program,
						      (enum bpf_attach_type)type);
}

/* Only wanted kinds of programs of a single way are loaded. */
static void choose_programs(const struct probes *probes, const struct wanted *wanted)
{
	bool used[N_KINDS] = { false };

	for (size_t i = 0; i < N_CALLS; i++) {
		enum kind kind;

		if (probe_kind(probes, wanted, (enum call_id)i, &kind))
			used[kind] = true;
	}
	for (size_t i = 0; i < N_KINDS; i++) {
		struct kind_programs p = kind_programs(probes->bpf, (enum kind)i);

		if (p.session) {
			choose_program(p.session, used[i], probes->way,
				       TRACE_UPROBE_SESSION);
			continue;
		}
		choose_program(p.entry, used[i], probes->way, TRACE_UPROBE_MULTI);
		choose_program(p.ret, used[i], probes->way, TRACE_UPROBE_MULTI);
	}
}

static void *map_array(const struct bpf_map *map)
{
	void *array = mmap(NULL, bpf_map__max_entries(map) * bpf_map__value_size(map),
			   PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return array == MAP_FAILED ? NULL : array;
}

static void unmap_array(volatile void *array, size_t size)
{
	if (array)
		munmap((void *)array, size);
}

static int map_arrays(struct probes *probes)
{
	probes->processes = map_array(probes->bpf->maps.processes);
	probes->buckets = map_array(probes->bpf->maps.buckets);
	return probes->processes && probes->buckets ? 0 : -errno;
}

static int load(struct probes *probes, enum attach_way way, const struct options *options,
		const struct wanted *wanted)
{
	probes->bpf = trace_bpf__open();
	if (!probes->bpf)
		return -errno;
	probes->way = way;
	probes->tally = way == ATTACH_SESSION && !options->n_pids && !options->by_uid &&
			!options->command;
	set_rodata(probes->bpf, options, wanted);
	choose_programs(probes, wanted);
	bpf_program__set_autoload(probes->bpf->progs.process_fork,
				  options->command != NULL);
	bpf_program__set_autoload(probes->bpf->progs.follow_me, options->command != NULL);
	/* memory for entries as they come; older kernels allocate everything
	 * beforehand */
	if (way != ATTACH_PERF)
		bpf_map__set_map_flags(probes->bpf->maps.ledger, BPF_F_NO_PREALLOC);
	if (!options->stacks)
		bpf_map__set_max_entries(probes->bpf->maps.stacks, 1);
	int error = trace_bpf__load(probes->bpf);
	return error ? error : map_arrays(probes);
}

/* ---- links ---- */

static int add_fd(struct probes *probes, int fd)
{
	int *fds = realloc(probes->fds, (probes->n_fds + 1) * sizeof *fds);
	if (!fds) {
		close(fd);
		return -ENOMEM;
	}
	fds[probes->n_fds++] = fd;
	probes->fds = fds;
	return 0;
}

/* The calls of a library for a kind of program. */
struct batch {
	unsigned long offsets[N_CALLS];
	__u64 cookies[N_CALLS];
	__u32 n;
};

static void batch_init(struct batch *batch, const struct probes *probes,
		       const struct library *library, const struct wanted *wanted,
		       enum kind kind)
{
	batch->n = 0;
	for (size_t i = 0; i < N_CALLS; i++) {
		const struct symbol *symbol = &library->symbols[i];
		enum kind call_kind;

		if (symbol->state != SYMBOL_FOUND ||
		    !probe_kind(probes, wanted, (enum call_id)i, &call_kind) ||
		    call_kind != kind)
			continue;
		batch->offsets[batch->n] = symbol->offset;
		batch->cookies[batch->n] = i;
		batch->n++;
	}
}

static int link_multi(struct probes *probes, const struct bpf_program *program,
		      unsigned int type, bool ret, const struct library *library,
		      const struct batch *batch)
{
	char path[LIBRARY_PATH_SIZE];
	struct link_create attr = {
		.prog_fd = (__u32)bpf_program__fd(program),
		.attach_type = type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)batch->offsets,
		.cookies = (uintptr_t)batch->cookies,
		.cnt = batch->n,
		.multi_flags = ret ? UPROBE_MULTI_RETURN : 0,
	};
	library_path(library, path);
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof attr);

	return fd < 0 ? -errno : add_fd(probes, fd);
}

static int link_perf(struct probes *probes, const struct bpf_program *program, bool ret,
		     const struct library *library, unsigned long offset, __u64 cookie)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = cookie, .retprobe = ret);
	struct bpf_link **links =
		realloc(probes->links, (probes->n_links + 1) * sizeof *links);
	if (!links)
		return -ENOMEM;
	probes->links = links;
	char path[LIBRARY_PATH_SIZE];
	library_path(library, path);
	struct bpf_link *link =
		bpf_program__attach_uprobe_opts(program, -1, path, offset, &opts);
	if (!link)
		return -errno;
	links[probes->n_links++] = link;
	return 0;
}

/* Returns first: each call seen to begin must be seen to return. */
static int attach_batch(struct probes *probes, const struct kind_programs *programs,
			const struct library *library, const struct batch *batch)
{
	int error = 0;

	if (programs->session)
		return link_multi(probes, programs->session, TRACE_UPROBE_SESSION, false,
				  library, batch);
	if (probes->way != ATTACH_PERF) {
		error = link_multi(probes, programs->ret, TRACE_UPROBE_MULTI, true,
				   library, batch);
		return error ? error
			     : link_multi(probes, programs->entry, TRACE_UPROBE_MULTI,
					  false, library, batch);
	}
	for (__u32 i = 0; i < batch->n && !error; i++) {
		error = link_perf(probes, programs->ret, true, library, batch->offsets[i],
				  batch->cookies[i]);
		if (!error)
			error = link_perf(probes, programs->entry, false, library,
					  batch->offsets[i], batch->cookies[i]);
	}
	return error;
}

static int attach_raw(struct probes *probes, const struct bpf_program *program,
		      const char *name)
{
	int fd = bpf_program__fd(program);
	if (fd < 0) /* not loaded */
		return 0;
	int link = bpf_raw_tracepoint_open(name, fd);

	return link < 0 ? link : add_fd(probes, link);
}

static void *close_one(void *fd)
{
	close((int)(intptr_t)fd);
	return NULL;
}

/* The kernel waits for a grace period in each close: all in the same one, at once. */
static void close_all(const int *fds, size_t n)
{
	_cleanup_free_ pthread_t *threads = calloc(n, sizeof *threads);

	for (size_t i = 0; i < n; i++) {
		void *fd = (void *)(intptr_t)fds[i];

		if (!threads || pthread_create(&threads[i], NULL, close_one, fd)) {
			close(fds[i]);
			if (threads)
				threads[i] = pthread_self();
		}
	}
	for (size_t i = 0; threads && i < n; i++)
		if (!pthread_equal(threads[i], pthread_self()))
			pthread_join(threads[i], NULL);
}

/* All but the first so many. */
static void links_remove(struct probes *probes, size_t n_fds, size_t n_links)
{
	if (probes->n_fds > n_fds)
		close_all(probes->fds + n_fds, probes->n_fds - n_fds);
	for (size_t i = n_links; i < probes->n_links; i++)
		bpf_link__destroy(probes->links[i]);
	probes->n_fds = n_fds;
	probes->n_links = n_links;
}

static int attach_library(struct probes *probes, const struct wanted *wanted,
			  const struct library *library)
{
	int error = 0;

	for (size_t kind = 0; kind < N_KINDS && !error; kind++) {
		struct kind_programs programs =
			kind_programs(probes->bpf, (enum kind)kind);
		struct batch batch;

		batch_init(&batch, probes, library, wanted, (enum kind)kind);
		if (!batch.n)
			continue;
		error = attach_batch(probes, &programs, library, &batch);
		probes->n_probes += batch.n;
	}
	return error;
}

/*
 * Leaves out libraries that are cut short or removed by now, and those that the kernel
 * puts no probe on: any user may map a file of that name.
 */
static int attach_libraries(struct probes *probes, const struct wanted *wanted,
			    struct libraries *libraries)
{
	int first_error = 0;

	for (size_t i = 0; i < libraries->n; i++) {
		struct library *library = &libraries->list[i];
		size_t n_fds = probes->n_fds, n_links = probes->n_links,
		       n_probes = probes->n_probes;
		int error;

		if (library->refused) /* another way to attach may do */
			library->error = 0;
		library->refused = false;
		if (library->error)
			continue;
		error = attach_library(probes, wanted, library);
		if (error == -LINUX_ENOTSUPP)
			error = -EOPNOTSUPP;
		if (!error)
			continue;
		library->error = library_check(library);
		if (!library->error) {
			library->error = error;
			library->refused = true;
			first_error = first_error ?: error;
		}
		links_remove(probes, n_fds, n_links);
		probes->n_probes = n_probes;
	}
	return libraries_usable(libraries) ? 0 : first_error;
}

static int attach_all(struct probes *probes, const struct wanted *wanted,
		      struct libraries *libraries)
{
	const struct trace_bpf *bpf = probes->bpf;
	int error = attach_raw(probes, bpf->progs.process_exit, "sched_process_exit");

	if (!error)
		error = attach_raw(probes, bpf->progs.process_exec, "sched_process_exec");
	if (!error)
		error = attach_raw(probes, bpf->progs.process_fork, "sched_process_fork");
	return error ? error : attach_libraries(probes, wanted, libraries);
}

void probes_detach(struct probes *probes)
{
	links_remove(probes, 0, 0);
	free(probes->fds);
	free(probes->links);
	unmap_array(probes->processes, PROCESSES_MAX * sizeof *probes->processes);
	unmap_array(probes->buckets, BUCKETS * sizeof *probes->buckets);
	trace_bpf__destroy(probes->bpf);
	*probes = (struct probes){ 0 };
}

int probes_attach(struct probes *probes, const struct options *options,
		  const struct wanted *wanted, struct libraries *libraries,
		  struct text *why)
{
	enum attach_way first = options->attach ? options->attach : ATTACH_SESSION;
	enum attach_way last = options->attach ? options->attach : ATTACH_PERF;
	int error = 0;

	for (enum attach_way way = first; way <= last; way++) {
		*probes = (struct probes){ 0 };
		error = load(probes, way, options, wanted);
		if (!error)
			error = attach_all(probes, wanted, libraries);
		if (!error && libraries_usable(libraries))
			return 0;
		probes_detach(probes);
		if (!error) {
			missing_library(libraries, why);
			return -ENOENT;
		}
	}
	missing_say(last, error, why);
	return error;
}
