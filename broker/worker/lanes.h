/* SPDX-License-Identifier: MIT */
/*
 * Moves bytes between a file and memory in lanes. A lane is a thread that moves a piece,
 * then takes the next piece that no lane has taken. Memory of a device goes through pinned
 * buffers, host memory is read and written in place.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/def.h"
#include "cuda/driver.h"

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
	int64_t used_ms;
	int64_t keep_ms; /* for as long after the last use */
	bool watched;	 /* a thread waits for that */
};

struct file_move {
	struct worker *worker;
	const struct job *job;
	struct wire_file *shared; /* counts the bytes; says when to stop */
	int fd;
	int direct_fd; /* the same file with O_DIRECT; -1: none */
	bool save;
	bool in_place;	 /* host memory: without buffers */
	uint64_t length; /* bytes to move */

	_Atomic uint64_t next; /* the first byte of the next piece */
	_Atomic bool ended;    /* no further piece is begun */
	pthread_mutex_t lock;  /* guards the result: */
	uint64_t moved;	       /* all bytes before this one are moved */
	int file_error;	       /* -errno of the file there; -ENODATA: the file ends */
	int error;	       /* -errno of the driver or of this process */
	struct cuda_failure failure;
};

/* Buffers that nobody uses are given back after that time. */
void lanes_init(struct worker *worker, int64_t keep_ms);

/* Returns when no lane runs any more, with the result in the move. */
void lanes_move(struct file_move *move);
