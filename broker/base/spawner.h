/* SPDX-License-Identifier: MIT */
/*
 * Starts programs, from threads with descriptor tables of their own.
 *
 * A child process begins with a copy of its parent's table and closes the copies. Each
 * close(2) looks at all locks (fcntl(2)) on the file, and users may put millions of them
 * on files that the broker has open. So the threads that start programs leave the table
 * of the process when they begin. They share the process's memory, and have no
 * descriptors but /dev/null and a socket. The socket brings an order with the descriptors
 * of the new process, and these are closed before the order is answered.
 *
 * The programs are children of the process, for waitpid(2) and getppid(2). The signal of
 * PR_SET_PDEATHSIG goes by the thread that started a program: it comes at the end of the
 * spawner or of the process.
 *
 * Several threads: a user may keep one busy, by locks on a file that goes to the user's
 * own process.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define SPAWNER_THREADS 4
#define SPAWN_FDS	4  /* a program is given so many descriptors */
#define SPAWN_FD_END	10 /* their numbers in the program are lower */

struct spawner {
	int socket; /* the requester's end; -1: there is no spawner */
	int orders; /* the threads' end, until they have it in their tables */
	pthread_t threads[SPAWNER_THREADS];
	unsigned int n_threads;

	pthread_mutex_t lock;
	pthread_cond_t ready;
	unsigned int n_ready; /* threads that have a table; lock */
	int error;	      /* of a thread that could not make one, or 0; lock */
};

/* A descriptor of the caller, and its number in the program. */
struct spawn_fd {
	int fd; /* -1: none */
	int number;
};

struct spawn {
	const char *program;	      /* a path */
	const char *const *arguments; /* both end with NULL */
	const char *const *environment;
	struct spawn_fd fds[SPAWN_FDS];
	unsigned int n_fds;
};

/*
 * Starts the threads. Early, since the threads copy the lowest descriptors and close
 * them.
 *
 * Returns: 0; -EAGAIN, -EMFILE, -ENFILE, -ENOMEM; the error of open(2) of /dev/null.
 */
int spawner_init(struct spawner *spawner);

/*
 * Ends the threads, and with them the programs that asked for it (PR_SET_PDEATHSIG).
 * Nobody starts a program any more. May be called again, and after a spawner_init() that
 * failed.
 */
void spawner_deinit(struct spawner *spawner);

/*
 * Starts a program with a session of its own, no blocked signals, none that is ignored or
 * handled, and the listed descriptors. Unless listed, stdin is /dev/null, stdout and
 * stderr are those of this process. All descriptors remain the caller's. Returns when the
 * program runs, so an error of execve(2) is known. Any thread may call it.
 *
 * Returns: 0; -ENOENT, -EACCES, -ENOEXEC and other errors of execve; -ENOMEM, -EMFILE,
 * -EAGAIN; -EBADF.
 */
int spawner_start(struct spawner *spawner, const struct spawn *spawn, pid_t *ret_pid);
