/* SPDX-License-Identifier: MIT */
#include "memops/lifetime_open.h"

#include <errno.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/refusal.h"
#include "base/subordinates.h"
#include "model/access.h"
#include "model/registry.h"
#include "process/broker.h"
#include "process/processes.h"

static int refuse_process(pid_t thread, int error, struct refusal *refusal)
{
	if (!thread)
		return refuse(refusal, EOPNOTSUPP,
			      "until=exit: the broker can't see the process that wrote "
			      "the line (it is outside of the broker's PID namespace)");
	return refuse(refusal, error, "until=exit: process %d: %s", thread,
		      strerror(error));
}

static int refuse_cgroup(pid_t thread, const char *path, int error,
			 struct refusal *refusal)
{
	if (error == EOPNOTSUPP || !path)
		return refuse(refusal, EOPNOTSUPP,
			      "until=cgroup needs cgroup version 2, which is not mounted "
			      "here or has not process %d; until=exit needs none",
			      thread);
	if (error == ENOENT)
		return refuse(refusal, EINVAL,
			      "until=cgroup: process %d is in %s, the root of all "
			      "cgroups, which never ends; use until=exit",
			      thread, path);
	if (error == ETIMEDOUT)
		return refuse(refusal, error,
			      "until=cgroup: %s has not been found for %d s: a program "
			      "keeps the lock of a folder on the way; use until=exit",
			      path, OUTSIDE_MS / 1000);
	if (error == EBUSY)
		return refuse(refusal, error,
			      "until=cgroup: %s is not looked for while earlier searches "
			      "wait for the lock of a folder; use until=exit",
			      path);
	return refuse(refusal, error, "until=cgroup: %s: %s", path, strerror(error));
}

/* Returns: a descriptor to watch; -EAGAIN: the search needs may_wait; -errno. */
static int cgroup_open(struct broker *broker, uid_t uid, pid_t thread, const char *path,
		       bool may_wait, int *ret_unfit)
{
	struct processes *processes = broker->processes;
	char file[CGROUP_FILE_MAX];
	int fd = cgroup_file(path, file) ?: cgroup_open_known(file);

	if (fd == -EAGAIN && may_wait)
		fd = outside_open(&processes->outside, processes->worker_program,
				  subordinates_user(broker->registry->subordinates, uid),
				  file);
	if (fd < 0 || cgroup_has(fd, thread, path))
		return fd;
	*ret_unfit = fd;
	return -ESTALE;
}

int lifetime_open(struct broker *broker, const struct lifetime_of *of, pid_t process,
		  bool may_wait, int *ret_unfit, struct refusal *refusal)
{
	int fd;

	*ret_unfit = -1;
	if (of->kind == LIFETIME_EXIT) {
		fd = of->thread ? pidfd_open(process, 0) : -1;
		return fd >= 0 ? fd : refuse_process(of->thread, errno, refusal);
	}
	fd = of->cgroup ? cgroup_open(broker, of->user->uid, of->thread, of->cgroup,
				      may_wait, ret_unfit)
			: -EOPNOTSUPP;
	return fd >= 0 || fd == -EAGAIN
		       ? fd
		       : refuse_cgroup(of->thread, of->cgroup, -fd, refusal);
}
