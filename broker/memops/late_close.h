/* SPDX-License-Identifier: MIT */
/*
 * The end of descriptors that may be the last of much memory: the kernel frees 64 MiB in
 * some 10 ms. The work queue closes them, with no lock held. The keeper has closed its
 * copy before, since others wait for the keeper. Until then the payer stays charged, so
 * nobody can have more memory that waits to be freed than the shares allow. What is small
 * is closed at once.
 */
#pragma once

#include "keep/keep.h"
#include "model/shares.h"

struct broker;

#define LATE_CLOSE_FDS 3

struct late_close {
	int fds[LATE_CLOSE_FDS]; /* -1: none */
	struct keep_key kept;	 /* the keeper's copy; see kept_key() */
	uint64_t bytes;		 /* that they may free */
	struct owner *payer;
	enum share share; /* that is given back, with descriptors */
	uint64_t size;
	unsigned int n_descriptors;
};

/*
 * Takes the descriptors and the charges. A record of the keeper's copy has been dropped,
 * or is dropped in the group. Counts as busy. Under registry.lock.
 */
void late_close(struct broker *broker, const struct late_close *what);

/* Only gives the charges back. Under registry.lock. */
void late_close_give(const struct late_close *what);
