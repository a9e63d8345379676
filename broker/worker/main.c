/* SPDX-License-Identifier: MIT */
/*
 * gpumem-worker: the process that calls the GPU driver, so that the broker need not.
 *
 * gpumemd starts a worker with a socket and a staging area (gpumem/wire.h), and ends it
 * by closing the socket. After the greeting the worker opens the driver, reserves the
 * address ranges of all devices and answers. A mover then has a context on each device;
 * an owner's worker makes a context at the first use of a device. From then on the worker
 * serves requests (worker/serve.h).
 *
 * The worker leaves with _exit(), because the driver's exit handlers would wait for
 * kernels that may never end. All requests are answered by then, and the operating system
 * takes back the rest.
 *
 * Exit status: 0 when the broker closed the socket; 1 on failure; 2 for wrong arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

#include "base/text.h"
#include "worker/checkpoint.h"
#include "worker/driver_log.h"
#include "worker/file_process.h"
#include "worker/outside.h"
#include "worker/pool.h"
#include "worker/privilege.h"
#include "worker/serve.h"
#include "worker/worker.h"

#define EXIT_USAGE     2
#define NO_ID	       ((long)-1)
#define TIMER_SLACK_NS 1000ul

struct arguments {
	const char *driver;
	const char *name;
	bool files;
	bool mover;
	long uid;
	long gid;
	long parent;
	long idle_s;
};

static struct worker worker = {
	.name = "?",
	.context_lock = PTHREAD_MUTEX_INITIALIZER,
	.mappings.lock = PTHREAD_MUTEX_INITIALIZER,
	.streams.lock = PTHREAD_MUTEX_INITIALIZER,
	.modules = MODULE_TABLE_INIT,
	.managed_seen.lock = PTHREAD_MUTEX_INITIALIZER,
};
static const char *driver_path;

static const char usage[] =
	"Usage: gpumem-worker {--driver LIBRARY | --files} --parent PID [--name NAME]\n"
	"                     [--mover | --uid UID --gid GID] [--idle SECONDS]\n"
	"       gpumem-worker {--open | --replace} FILE\n"
	"\n"
	"Talks to the GPU for gpumemd, which starts it with sockets at descriptors 3 "
	"and\n"
	"5 and a staging area at descriptor 4. It is of no use on its own.\n";

/*
 * The user of an owner's worker can have it die over and over, with prlimit(1) for one.
 * The broker tells the administrator of such ends, and bounds how many are told.
 */
static void worker_say(const char *words)
{
	if (worker.mover)
		dprintf(STDERR_FILENO, "gpumem-worker (%s) %s\n", worker.name, words);
	else
		serve_last_words(words);
}

void worker_die(const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	worker_say(text);
	_exit(EXIT_FAILURE);
}

/*
 * Has modules loaded whole. By default the driver (12.2 and newer) loads a function at
 * its first use, and such a load waits for running kernels: a kernel that never ends
 * would hold up every later launch. Also, a function not yet loaded has no
 * max_threads_per_block, const_size_bytes and max_dynamic_shared_size_bytes. A setting of
 * the user is kept. Must come before the driver is opened, because the driver reads the
 * variable only once.
 */
static void driver_prepare(void)
{
	if (setenv("CUDA_MODULE_LOADING", "EAGER", 0) < 0)
		worker_die("has no memory left");
}

/*
 * stdout and stderr of an owner's worker belong to the owner: output of kernels and the
 * driver's messages (assert). Reports of sanitizers go to the broker's stderr.
 */
static void output_share(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	int reports = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, WIRE_URGENT_FD + 1);

	if (reports < 0)
		worker_die("can't keep its stderr: %m");
	__sanitizer_set_report_fd((void *)(intptr_t)reports);
#endif
	if (dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
		worker_die("can't set its stderr: %m");
}

_Noreturn static void usage_exit(FILE *stream, int status)
{
	fputs(usage, stream);
	exit(status);
}

static long number_parse(const char *text)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (errno || end == text || *end || number < 0 || number >= UINT32_MAX)
		usage_exit(stderr, EXIT_USAGE);
	return number;
}

static void arguments_parse(struct arguments *arguments, int argc, char **argv)
{
	static const struct option options[] = {
		{ "driver", required_argument, NULL, 'd' },
		{ "files", no_argument, NULL, 'f' },
		{ "gid", required_argument, NULL, 'g' },
		{ "help", no_argument, NULL, 'h' },
		{ "idle", required_argument, NULL, 'i' },
		{ "mover", no_argument, NULL, 'm' },
		{ "name", required_argument, NULL, 'n' },
		{ "open", required_argument, NULL, 'o' },
		{ "parent", required_argument, NULL, 'p' },
		{ "replace", required_argument, NULL, 'r' },
		{ "uid", required_argument, NULL, 'u' },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			arguments->driver = optarg;
			break;
		case 'f':
			arguments->files = true;
			break;
		case 'g':
			arguments->gid = number_parse(optarg);
			break;
		case 'h':
			usage_exit(stdout, EXIT_SUCCESS);
		case 'i':
			arguments->idle_s = number_parse(optarg);
			break;
		case 'm':
			arguments->mover = true;
			break;
		case 'n':
			arguments->name = optarg;
			break;
		case 'o':
			outside_run_open(optarg);
		case 'p':
			arguments->parent = number_parse(optarg);
			break;
		case 'r':
			outside_run_replace(optarg);
		case 'u':
			arguments->uid = number_parse(optarg);
			break;
		default:
			usage_exit(stderr, EXIT_USAGE);
		}
	}
	if (optind != argc || !arguments->driver != arguments->files ||
	    arguments->parent == NO_ID ||
	    (arguments->uid == NO_ID) != (arguments->gid == NO_ID))
		usage_exit(stderr, EXIT_USAGE);
}

static void name_set(const char *name)
{
	char title[16]; /* the kernel's limit */

	worker.name = name;
	snprintf(title, sizeof(title), "gpumem-%s", name);
	prctl(PR_SET_NAME, title);
}

/*
 * A thread that waits for a kernel sleeps for a sixteenth of the time waited so far
 * (worker/launch.c). By default such short sleeps last 50 us more. All threads inherit
 * the setting.
 */
static void sleeps_sharpen(void)
{
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
}

static void staging_attach(void)
{
	struct stat st;

	if (fstat(WIRE_STAGING_FD, &st) < 0)
		worker_die("was given no staging area: %m");
	worker.staging_size = (uint64_t)st.st_size;
	worker.staging = mmap(NULL, worker.staging_size, PROT_READ | PROT_WRITE,
			      MAP_SHARED, WIRE_STAGING_FD, 0);
	if (worker.staging == MAP_FAILED)
		worker_die("can't map its staging area: %m");
}

/*
 * Opens everything before the answer to HELLO. That reply has no text, so a driver that
 * can't be opened is told apart.
 */
static int worker_open(struct worker *self, struct cuda_failure *failure)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int r;

	r = cuda_driver_open(driver_path, &self->driver, &why);
	if (r < 0) {
		_cleanup_text_ struct text words = TEXT_INIT;

		text_printf(&words, "can't work: %s", text_string(&why));
		worker_say(text_string(&words));
		return r;
	}
	if (chdir("/") < 0) /* after a relative path was followed */
		return -errno;
	if (!self->mover)
		driver_log_start(self);
	r = devices_init(self, failure);
	if (r == 0 && self->mover)
		r = devices_make(self, failure);
	return r;
}

static int nothing_open(struct worker *self, struct cuda_failure *failure)
{
	(void)self;
	(void)failure;
	return chdir("/") < 0 ? -errno : 0;
}

/* Serves to the end as a process of files. */
_Noreturn static void files_run(void)
{
	if (!serve_hello(&worker, nothing_open))
		_exit(EXIT_FAILURE);
	file_process_run(&worker);
	_exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	struct arguments arguments = {
		.name = "?", .uid = NO_ID, .gid = NO_ID, .parent = NO_ID, .idle_s = 60
	};

	arguments_parse(&arguments, argc, argv);
	driver_path = arguments.driver;
	worker.mover = arguments.mover;
	name_set(arguments.name);
	sleeps_sharpen();
	if (driver_path) {
		driver_prepare();
		/* The broker's driver may be at a path that this owner can't read. */
		cuda_driver_preload(driver_path);
	}
	if (arguments.uid != NO_ID)
		privilege_become((uid_t)arguments.uid, (gid_t)arguments.gid);
	else if (!worker.mover)
		privilege_keep();
	privilege_lock((pid_t)arguments.parent);
	if (arguments.files)
		files_run();

	if (!worker.mover)
		output_share();
	staging_attach();
	lanes_init(&worker, arguments.idle_s * 1000);
	if (!serve_hello(&worker, worker_open))
		_exit(EXIT_FAILURE);
	rescue_listen(&worker);
	pool_run(&worker);
	_exit(EXIT_SUCCESS);
}
