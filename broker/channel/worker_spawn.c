/* SPDX-License-Identifier: MIT */
/*
 * Starts a worker: a process with three descriptors of the broker and a single thread.
 *
 * posix_spawn shares the broker's memory with the child until exec, so the size of the
 * broker costs nothing and no lock is copied in a wrong state. The child keeps stdout and
 * stderr (the mover prints only before it exits), reads /dev/null, and has its own
 * session: a Ctrl-C goes to the broker alone, and the broker stops the workers.
 *
 * Only listed variables of the environment are passed: the broker's environment may have
 * secrets, and a worker belongs to its owner. The program drops its privileges itself
 * after exec, when its memory has no data of the broker. The program also finds its
 * owner's home, because the broker must not wait for a slow user database.
 */
#include "channel/worker_spawn.h"

#include <gpumem/wire.h>

#include "base/crash.h"
#include "base/def.h"
#include "channel/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>

extern char **environ;

#define N_ARGUMENTS 14
#define NUMBER_SIZE 24

/* Variables passed to a worker; docs/gpumemd.8 has the same list. */
static const char *const environment_passed[] = {
	"ASAN_OPTIONS=*", "CUDA_*=*",	       "GPUMEM_*=*",	 "LANG=*",
	"LC_*=*",	  "LD_LIBRARY_PATH=*", "LSAN_OPTIONS=*", "NVIDIA_*=*",
	"PATH=*",	  "TSAN_OPTIONS=*",    "TZ=*",		 "UBSAN_OPTIONS=*",
};

struct arguments {
	const char *list[N_ARGUMENTS + 1];
	unsigned int n;
	char parent[NUMBER_SIZE];
	char uid[NUMBER_SIZE];
	char gid[NUMBER_SIZE];
	char idle[NUMBER_SIZE];
};

static void argument_add(struct arguments *arguments, const char *argument)
{
	arguments->list[arguments->n++] = argument;
}

static const char *number_text(char (*text)[NUMBER_SIZE], long number)
{
	snprintf(*text, sizeof(*text), "%ld", number);
	return *text;
}

static void arguments_make(struct arguments *arguments,
			   const struct channel_config *config)
{
	argument_add(arguments, config->program);
	argument_add(arguments, "--name");
	argument_add(arguments, config->name);
	if (config->driver) {
		argument_add(arguments, "--driver");
		argument_add(arguments, config->driver);
	} else {
		argument_add(arguments, "--files");
	}
	argument_add(arguments, "--parent");
	argument_add(arguments, number_text(&arguments->parent, getpid()));
	if (config->idle_s) {
		argument_add(arguments, "--idle");
		argument_add(arguments, number_text(&arguments->idle, config->idle_s));
	}
	if (config->mover) {
		argument_add(arguments, "--mover");
	} else if (geteuid() == 0) {
		argument_add(arguments, "--uid");
		argument_add(arguments, number_text(&arguments->uid, config->uid));
		argument_add(arguments, "--gid");
		argument_add(arguments, number_text(&arguments->gid, config->gid));
	}
}

static bool variable_is_passed(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(environment_passed); i++)
		if (fnmatch(environment_passed[i], variable, 0) == 0)
			return true;
	return false;
}

/* The environment of a worker: the listed variables. NULL: no memory. */
static char **environment_make(void)
{
	size_t n = 0;
	char **list;

	while (environ[n])
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return NULL;
	n = 0;
	for (char **variable = environ; *variable; variable++)
		if (variable_is_passed(*variable))
			list[n++] = *variable;
	return list;
}

/* All above the final descriptor numbers. */
struct descriptors {
	int socket, staging, urgent;
};

/* Lists the actions of the child before exec. */
static int actions_fill(posix_spawn_file_actions_t *actions,
			const struct descriptors *descriptors, int output)
{
	int r;

	r = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY,
					     0);
	if (r == 0 && output >= 0)
		r = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, descriptors->socket,
						     WIRE_SOCKET_FD);
	if (r == 0 && descriptors->staging >= 0)
		r = posix_spawn_file_actions_adddup2(actions, descriptors->staging,
						     WIRE_STAGING_FD);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, descriptors->urgent,
						     WIRE_URGENT_FD);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, WIRE_URGENT_FD + 1);
	return -r;
}

static int attributes_fill(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
								 POSIX_SPAWN_SETSIGDEF |
								 POSIX_SPAWN_SETSID);
	return -r;
}

static int start_prepared(const struct channel_config *config,
			  const struct descriptors *descriptors,
			  posix_spawn_file_actions_t *actions,
			  posix_spawnattr_t *attributes, pid_t *ret_pid)
{
	_cleanup_free_ char **environment = NULL;
	struct arguments arguments = { 0 };
	int r;

	environment = environment_make();
	if (!environment)
		return -ENOMEM;
	r = actions_fill(actions, descriptors, config->output_fd);
	if (r < 0)
		return r;
	r = attributes_fill(attributes);
	if (r < 0)
		return r;
	arguments_make(&arguments, config);
	return -posix_spawn(ret_pid, config->program, actions, attributes,
			    (char **)arguments.list, environment);
}

/*
 * A copy above the final numbers, where the descriptor itself is not above them: a broker
 * that runs out of descriptors has none left for copies.
 */
static int descriptor_raise(int fd, int *ret_fd, int *ret_copy)
{
	*ret_fd = fd;
	if (fd < 0 || fd > WIRE_URGENT_FD)
		return 0;
	*ret_fd = *ret_copy = fcntl(fd, F_DUPFD_CLOEXEC, WIRE_URGENT_FD + 1);
	return *ret_fd < 0 ? -errno : 0;
}

static int start_with(const struct channel_config *config,
		      const struct descriptors *descriptors, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r;

	r = -posix_spawn_file_actions_init(&actions);
	if (r < 0)
		return r;
	r = -posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = start_prepared(config, descriptors, &actions, &attributes, ret_pid);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

int worker_spawn(const struct channel_config *config, int socket, int urgent,
		 pid_t *ret_pid)
{
	struct descriptors raised, copies = { -1, -1, -1 };
	int r;

	r = descriptor_raise(socket, &raised.socket, &copies.socket);
	if (r == 0)
		r = descriptor_raise(config->staging_fd, &raised.staging,
				     &copies.staging);
	if (r == 0)
		r = descriptor_raise(urgent, &raised.urgent, &copies.urgent);
	crash_point("worker: before a start");
	if (r == 0)
		r = start_with(config, &raised, ret_pid);
	crash_point("worker: started");
	closep(&copies.socket);
	closep(&copies.staging);
	closep(&copies.urgent);
	return r;
}
