/* SPDX-License-Identifier: MIT */
/*
 * The files read here belong to anyone: they may be made to crash libdw, to take its time
 * and memory, or to have it run code. So this process first gives up whatever a user's
 * file must not have, and only then reads the first question.
 *
 * A frame is written `function+0xOFFSET (library)`, with `file:line` where the program
 * has line numbers, and as a bare address where nothing is known. Names come from files
 * of this machine: no server of debug information is asked.
 */
#include "symboliser_child.h"

#include "base/number.h"
#include "base/text.h"
#include "packet.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define MEMORY_MAX  (UINT64_C(4) << 30)
#define SECONDS_MAX 60
#define FILES_MAX   2048

/* ---- rights ---- */

/* The size of this process in bytes: a sanitizer's is many terabytes. */
static uint64_t own_size(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (file && fscanf(file, "%llu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool limit_resources(uint64_t size)
{
	const struct {
		__rlimit_resource_t what;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_AS, size + MEMORY_MAX }, { RLIMIT_CORE, 0 },
		{ RLIMIT_CPU, SECONDS_MAX },	  { RLIMIT_FSIZE, 0 },
		{ RLIMIT_NOFILE, FILES_MAX },	  { RLIMIT_NPROC, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit limit;

		if (getrlimit(limits[i].what, &limit))
			return false;
		limit.rlim_max = MIN(limit.rlim_max, limits[i].most);
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(limits[i].what, &limit))
			return false;
	}
	return true;
}

/* When memory is short, this process is the first to end. */
static void yield_memory(void)
{
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) != 4) {
		/* the limits have to do */
	}
}

static bool become(uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct header = { .version =
							   _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	if (geteuid() == 0 &&
	    (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid)))
		return false;
	return getuid() == uid && geteuid() == uid && uid != 0 &&
	       !syscall(SYS_capset, &header, none);
}

/* The traced user owns this process now: no other process of the user may look into it.
 */
static bool give_up_rights(uid_t uid, gid_t gid, pid_t tracer)
{
	uint64_t size = own_size();

	yield_memory();
	return become(uid, gid) && !prctl(PR_SET_DUMPABLE, 0) &&
	       !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == tracer &&
	       limit_resources(size);
}

/* ---- modules ---- */

/* Each has a Dwfl of its own: another library may be mapped at the same place later. */
struct module {
	Dwfl *dwfl;
	Dwfl_Module *module;
	uint64_t start;
	int fd; /* until libdw takes it */
	char *path;
};

static struct module *modules[SYMBOLISER_MODULES];
static size_t n_modules;

static int find_elf(Dwfl_Module *dwfl_module, void **user, const char *name,
		    Dwarf_Addr base, char **ret_path, Elf **elf)
{
	(void)dwfl_module, (void)name, (void)base, (void)elf;
	struct module *module = *user;

	if (module->fd < 0)
		return -1;
	*ret_path = strdup(module->path);
	return take_fd(&module->fd);
}

static char *debuginfo_path; /* NULL: the usual places */

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.debuginfo_path = &debuginfo_path,
};

/* Without memory the module has no names. */
static void module_add(const struct ask_module *ask, int fd)
{
	struct module *module = calloc(1, sizeof *module);
	void **user;

	if (!module || n_modules == ARRAY_SIZE(modules))
		_exit(1);
	modules[n_modules++] = module;
	module->start = ask->start;
	module->fd = fd;
	module->path = strndup(ask->path, sizeof ask->path - 1);
	module->dwfl = module->path ? dwfl_begin(&callbacks) : NULL;
	if (!module->dwfl)
		return;
	dwfl_report_begin(module->dwfl);
	module->module =
		dwfl_report_module(module->dwfl, module->path, ask->start, ask->end);
	dwfl_report_end(module->dwfl, NULL, NULL);
	if (module->module &&
	    dwfl_module_info(module->module, &user, NULL, NULL, NULL, NULL, NULL, NULL))
		*user = module;
}

/* ---- frames ---- */

static void frame_line(Dwfl_Module *module, uint64_t address, struct text *text)
{
	Dwfl_Line *line = dwfl_module_getsrc(module, address);
	int number = 0;
	const char *file =
		line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;

	if (!file)
		return;
	const char *slash = strrchr(file, '/');
	text_printf(text, " %s:%d", slash ? slash + 1 : file, number);
}

/* The address is where the call returns to: the call itself is a byte before. */
static void frame_text(const struct ask_frame *frame, struct text *text)
{
	const struct module *module =
		frame->module < n_modules ? modules[frame->module] : NULL;
	uint64_t address = frame->address;
	GElf_Off offset = 0;
	GElf_Sym sym;

	if (!module || !module->module) {
		text_printf(text, "0x%" PRIx64, address);
		return;
	}
	const char *slash = strrchr(module->path, '/');
	const char *file = slash ? slash + 1 : module->path;
	const char *name = dwfl_module_addrinfo(module->module, address - 1, &offset,
						&sym, NULL, NULL, NULL);

	if (name)
		text_printf(text, "%s+0x%" PRIx64 " (%s)", name, (uint64_t)offset + 1,
			    file);
	else
		text_printf(text, "0x%" PRIx64 " (%s+0x%" PRIx64 ")", address, file,
			    address - module->start);
	frame_line(module->module, address - 1, text);
}

/* ---- questions ---- */

static void answer(const struct ask *ask)
{
	for (size_t i = 0; i < ask->n_frames && i < STACK_DEPTH; i++) {
		_cleanup_text_ struct text text = TEXT_INIT;

		frame_text(&ask->frames[i], &text);
		if (send(STDIN_FILENO, text_string(&text),
			 MIN(text.length, (size_t)FRAME_SIZE), MSG_NOSIGNAL) <= 0)
			_exit(1);
	}
}

int symboliser_main(int argc, char **argv)
{
	static struct ask ask;
	uint64_t uid, gid, tracer;
	int fd;

	if (argc != 4 || number_parse(argv[1], &uid) || number_parse(argv[2], &gid) ||
	    number_parse(argv[3], &tracer) ||
	    !give_up_rights((uid_t)uid, (gid_t)gid, (pid_t)tracer))
		return 1;
	while (packet_take(STDIN_FILENO, &ask, sizeof ask, &fd, 0) == sizeof ask) {
		if (ask.n_frames)
			answer(&ask);
		else
			module_add(&ask.module, fd);
	}
	/* no way out through destructors: libdw's memory may be in any state */
	_exit(0);
}
