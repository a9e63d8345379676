/* SPDX-License-Identifier: MIT */
/*
 * Starts a worker: a process with three descriptors of the broker and a single thread
 * (base/spawner.h).
 *
 * The child keeps stdout and stderr (the mover prints only before it exits), reads
 * /dev/null, and has its own session: a Ctrl-C goes to the broker alone, and the broker
 * stops the workers.
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
#include "base/spawner.h"
#include "channel/channel.h"

#include <errno.h>
#include <fnmatch.h>
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
static const char **environment_make(void)
{
	size_t n = 0;
	const char **list;

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

int worker_spawn(const struct channel_config *config, int socket, int urgent,
		 pid_t *ret_pid)
{
	_cleanup_free_ const char **environment = environment_make();
	struct arguments arguments = { 0 };
	const struct spawn spawn = {
		.program = config->program,
		.arguments = arguments.list,
		.environment = environment,
		.fds = { { socket, WIRE_SOCKET_FD },
			 { config->staging_fd, WIRE_STAGING_FD },
			 { urgent, WIRE_URGENT_FD },
			 { config->output_fd, STDOUT_FILENO } },
		.n_fds = 4,
	};
	int r;

	if (!environment)
		return -ENOMEM;
	arguments_make(&arguments, config);
	crash_point("worker: before a start");
	r = spawner_start(config->spawner, &spawn, ret_pid);
	crash_point("worker: started");
	return r;
}
