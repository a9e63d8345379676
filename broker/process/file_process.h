/* SPDX-License-Identifier: MIT */
/*
 * Processes of files, which open the files of owners' loads and saves.
 *
 * A process may hang in a file system that never answers, and Linux then ends it only
 * with that file system. So no worker opens a file. An owner has one such process that
 * takes sessions, started at the first need. A process that has not ended a session
 * LINGER_MS after the session was left is given up: the process takes no more sessions,
 * and is killed when all of its sessions have been left. The process counts in the
 * owner's share until its end, and nobody waits for its end.
 *
 * All under registry.lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct broker;
struct file_session;
struct refusal;
struct worker;

/* The numbers of a file, as in struct stat. A rename does not change them. */
struct file_id {
	uint64_t device, inode; /* inode 0: any file */
};

struct file_wish {
	const char *path;
	struct file_id only; /* a load: of no other file */
	uint64_t source;     /* the first byte of the file to load */
	uint64_t length;     /* bytes to move */
	bool to_end;	     /* a load: or less, if the file ends before */
	bool save;
	mode_t mode; /* of a saved file that is not there yet */
};

/*
 * Has the owner's process open a file, for the worker that gets *ret_fd, the caller's.
 * Takes registry.lock. Returns: 0; -ENOMEM, -EBUSY, -EMFILE, -EAGAIN with a refusal.
 */
int file_session_new(struct worker *worker, const struct file_wish *wish,
		     struct file_session **ret_session, int *ret_fd,
		     struct refusal *refusal);

/*
 * The worker lost the process, whose end the broker may see later: no further session
 * goes there. Takes registry.lock.
 */
void file_session_lost(struct file_session *session);

/* The worker is done with the file, or has never begun. Takes registry.lock. */
struct file_session *file_session_leave(struct file_session *session);

/*
 * Gives up processes that hang, ends those that have had nothing to do for idle_s, and
 * frees those that have ended. For the housekeeper, without registry.lock.
 */
void file_processes_look(struct broker *broker, int64_t idle_s);

/*
 * Kills all processes, at the end of the broker, and waits for their end, but not for
 * those that hang. Without registry.lock. Returns: whether all have ended.
 */
bool file_processes_kill(struct broker *broker);
