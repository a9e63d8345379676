/* SPDX-License-Identifier: MIT */
/*
 * Privileges are dropped after exec, so that an owner who takes over this process finds
 * none of the broker's data in its memory.
 *
 * The order matters: groups while the process may still set them, then gid, then uid, and
 * last dumpable and the parent-death signal, because a change of ids resets both. If the
 * broker died before the signal was set up, getppid() returns another parent.
 */
#include "worker/privilege.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "worker/worker.h"

static void environment_set(const struct passwd *user)
{
	if (setenv("HOME", user ? user->pw_dir : "/", 1) < 0)
		worker_die("can't set its home: %m");
	if (!user) {
		unsetenv("USER");
		unsetenv("LOGNAME");
		return;
	}
	if (setenv("USER", user->pw_name, 1) < 0 ||
	    setenv("LOGNAME", user->pw_name, 1) < 0)
		worker_die("can't set its user: %m");
}

/*
 * The user database names the groups: a process may have another group from a
 * set-group-ID program. A user without an entry has only the group of a request.
 */
static void groups_set(const struct passwd *user, gid_t gid)
{
	int r = user ? initgroups(user->pw_name, gid) : setgroups(1, &gid);

	if (r < 0)
		worker_die("can't set its groups: %m");
}

/*
 * The driver would keep compiled code in the home. A file system that the owner mounts
 * there may never answer, and Linux ends no process that waits for it: memory of others,
 * mapped here, would stay. The broker's own environment may say otherwise.
 */
static void cache_leave(void)
{
	if (setenv("CUDA_CACHE_DISABLE", "1", 0) < 0)
		worker_die("has no memory left");
}

void privilege_become(uid_t uid, gid_t gid)
{
	const struct passwd *user = getpwuid(uid);

	if (user)
		gid = user->pw_gid;
	groups_set(user, gid);
	environment_set(user);
	cache_leave();
	if (setresgid(gid, gid, gid) < 0)
		worker_die("can't become group %u: %m", gid);
	if (setresuid(uid, uid, uid) < 0)
		worker_die("can't become user %u: %m", uid);
	if (uid != 0 && setuid(0) == 0)
		worker_die("could become root again");
}

void privilege_keep(void)
{
	environment_set(getpwuid(getuid()));
}

void privilege_lock(pid_t parent)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		worker_die("can't lock itself in: %m");
	if (getppid() != parent)
		_exit(EXIT_SUCCESS);
}
