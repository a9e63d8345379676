/* SPDX-License-Identifier: MIT */
/* The processes that a keeper starts: brokers, and standbys for the next ones. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/def.h"
#include "keep/keeper.h"

#define GIVE_S	    10
#define QUEUE_BYTES (2 << 20) /* or as much as the kernel allows */

int keeper_places_take(struct keeper_places *ret_places)
{
	ret_places->program = memfd_create("gpumem-spare", MFD_CLOEXEC);
	ret_places->socket = memfd_create("gpumem-spare", MFD_CLOEXEC);
	return ret_places->program < 0 || ret_places->socket < 0 ? -errno : 0;
}

/*
 * In the child of start_process(). Its table of descriptors is the keeper's own one until
 * it takes a table without the descriptors of users: copies of these would keep freed
 * memory, and to close copies may last (closer.h).
 */
static _Noreturn void become_broker(const struct keeper *keeper, pid_t parent)
{
	const struct keeper_places *places = &keeper->config->places;
	const int last = MAX(places->program, places->socket);

	/* A broker without a keeper could not be followed by another. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent &&
	    close_range((unsigned int)last + 1, ~0U, CLOSE_RANGE_UNSHARE) == 0) {
		sigprocmask(SIG_SETMASK, &keeper->mask, NULL);
		fexecve(places->program, keeper->config->argv, environ);
	}
	_exit(EXIT_FAILURE);
}

int keeper_environment_set(const struct keeper *keeper)
{
	const struct keeper_config *config = keeper->config;
	char socket[16];

	snprintf(socket, sizeof(socket), "%d", config->places.socket);
	if (setenv(KEEP_ENV, socket, 1) < 0 ||
	    setenv(KEEP_ENV_MOUNTPOINT, config->mountpoint, 1) < 0 ||
	    (config->driver && setenv(KEEP_ENV_DRIVER, config->driver, 1) < 0))
		return -ENOMEM;
	/*
	 * Very many objects are made again sooner in huge pages. The C library (2.35)
	 * asks for them where the machine lets programs ask.
	 */
	return setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0) < 0 ? -ENOMEM : 0;
}

/* The queue holds most of them before the program is there. */
int child_give(const struct keeper *keeper, const struct child *child)
{
	const struct timeval patience = { .tv_sec = GIVE_S };
	const struct entry *entry;
	int r = 0, bytes = QUEUE_BYTES;

	if (setsockopt(child->socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) <
	    0)
		(void)setsockopt(child->socket, SOL_SOCKET, SO_SNDBUF, &bytes,
				 sizeof(bytes));

	(void)setsockopt(child->socket, SOL_SOCKET, SO_SNDTIMEO, &patience,
			 sizeof(patience));
	for (entry = keeper->entries; entry && r == 0; entry = entry->hh.next)
		r = keep_send(child->socket, KEEP_PUT, entry->key, entry->fd);
	if (r == 0)
		r = keep_send(child->socket, KEEP_ALL,
			      (struct keep_key){ .number = KEEP_WITH_LATE }, -1);
	if (r < 0)
		kill(child->pid, SIGKILL);
	return r;
}

/*
 * Like fork(), but the child begins with the keeper's own table of descriptors. Waits
 * until the child runs its program. Returns: the child; -errno.
 */
static pid_t start_process(const struct keeper *keeper, int program, int socket)
{
	const struct keeper_places *places = &keeper->config->places;
	pid_t pid, parent = getpid();

	if (dup3(program, places->program, O_CLOEXEC) < 0 ||
	    dup2(socket, places->socket) < 0)
		return -errno;
	pid = (pid_t)syscall(SYS_clone, CLONE_FILES | CLONE_VFORK | SIGCHLD, NULL, NULL,
			     NULL, NULL);
	if (pid == 0)
		become_broker(keeper, parent);
	return pid < 0 ? -errno : pid;
}

int child_start(const struct keeper *keeper, int program, struct child *ret_child)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	pid = start_process(keeper, program, ends[1]);
	close(ends[1]);
	(void)dup3(keeper->blank, keeper->config->places.program, O_CLOEXEC);
	(void)dup3(keeper->blank, keeper->config->places.socket, O_CLOEXEC);
	if (pid < 0) {
		close(ends[0]);
		return pid;
	}
	*ret_child = (struct child){ .pid = pid, .socket = ends[0] };
	return 0;
}

void child_close(struct keeper *keeper, struct child *child)
{
	for (size_t i = 0; i < N_CLOSERS; i++)
		closer_forget(&keeper->closers[i], child->socket);
	closep(&child->socket);
}

void child_reap(struct child *child)
{
	if (child->pid && waitpid(child->pid, &child->status, WNOHANG) > 0)
		child->pid = 0;
}

void child_go_on(struct child *child)
{
	child->paused = child->asks = false;
	(void)keep_send(child->socket, KEEP_GO, (struct keep_key){ 0 }, -1);
}
