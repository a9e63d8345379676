/* SPDX-License-Identifier: MIT */
/*
 * Facts about a process from /proc.
 *
 * How long many of these files take to read is up to the user of the process. While Linux
 * makes `stat`, `status` or `maps`, it keeps the memory of the process; when the process
 * ends just then, the reader takes the memory down and closes the files that were mapped.
 * Most of these files, and `fd`, `ns` and `root`, also wait for an exec(2) of the
 * process, which waits for the close of files. Neither can happen to a thread that waits
 * for the broker's answer. Of other processes the threads of the view look at nothing but
 * `comm`, `cgroup`, `task`, `oom_score` and the folder itself.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define PROCESS_NAME_MAX 17 /* TASK_COMM_LEN and a NUL */

/* The process of a thread; the thread's id itself when /proc does not tell. */
pid_t process_of_thread(pid_t thread);

/* The name of a process as in ps(1); `?` when the process is gone. */
void process_name(pid_t pid, char name[PROCESS_NAME_MAX]);

/* Whether all threads of the process of a pidfd have ended. */
bool process_has_ended(int pidfd);

/* Whether the process is gone or exiting. Linux takes the memory of a process before its
 * files. */
bool process_is_ending(pid_t pid);

/* A thread's process and user: who has the number now. */
struct process_identity {
	pid_t process; /* 0: nobody */
	uid_t uid;
};

struct process_identity process_identity(pid_t thread);

/* Whether the thread has the root and the mounts of this process. Touches no file. */
bool process_sees_our_files(pid_t thread);
