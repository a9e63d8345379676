/* SPDX-License-Identifier: MIT */
/*
 * Moves bytes between a file and memory in lanes. A lane is a thread that moves a piece,
 * then takes the next piece that no lane has taken. The process of files reads and writes
 * the file (worker/file_process.h); its buffers are shared with this process, and pinned.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/def.h"
#include "cuda/driver.h"

#define LANE_SECTOR ((uint64_t)4096) /* direct reads begin and end at multiples */

struct job;
struct pair;
struct wire_file;
struct worker;

/* Pairs of pinned buffers, kept for the next move. */
struct lane_pairs {
	pthread_mutex_t lock; /* a leaf; guards all below */
	pthread_cond_t given; /* a pair was given back */
	struct pair *spare;
	unsigned int n_made;
	unsigned int n_waiting; /* moves without a lane */
	unsigned int device;	/* has a context */
	uint64_t process;	/* of files: the last that was used */
	unsigned int n_left;	/* pairs left to that process, which hangs */
	int64_t used_ms;
	int64_t keep_ms; /* for as long after the last use */
	bool watched;	 /* a thread waits for that */
};

struct file_move {
	struct worker *worker;
	const struct job *job;	  /* its descriptor is the socket of the file */
	struct wire_file *shared; /* counts the bytes; says when to stop */
	uint64_t process, file;	  /* numbers there, as told */
	bool save;
	bool by_cpu;	 /* host memory: the CPU copies */
	uint64_t length; /* bytes to move */

	_Atomic uint64_t next; /* the first byte of the next piece */
	_Atomic bool ended;    /* no further piece is begun */
	pthread_mutex_t lock;  /* guards the result: */
	uint64_t moved;	       /* all bytes before this one are moved */
	/*
	 * -errno of the file there; -ENODATA: the file ends; -EINTR: stopped;
	 * -ECONNRESET: the process of files has ended.
	 */
	int file_error;
	int error; /* -errno of the driver or of this process */
	struct cuda_failure failure;
};

/* Buffers that nobody uses are given back after that time. */
void lanes_init(struct worker *worker, int64_t keep_ms);

/* Returns when no lane runs any more, with the result in the move. */
void lanes_move(struct file_move *move);

/* Prepares a socket for move_receive(). Returns: 0; -errno. */
int move_listen(int socket);

/*
 * Waits for a record of the process of files on a socket of the move. Returns: 0; -EINTR
 * when the move is stopped; -ECONNRESET when the process has ended.
 */
int move_receive(const struct file_move *move, int socket, void *record, size_t size);
