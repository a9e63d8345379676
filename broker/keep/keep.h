/* SPDX-License-Identifier: MIT */
/*
 * The keeper: the process that holds a copy of every descriptor which must outlive the
 * broker, and starts the next broker when one dies. It calls no driver and parses nothing
 * but these records. Here are both its ends: keeper_run() is the process (keeper.c), the
 * rest is the broker's side (keep.c).
 *
 * A descriptor is known by its kind and the number and generation of its record. What
 * keep_put() has sent belongs to the kernel, and reaches the keeper although the broker
 * dies. The next broker is given all of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum keep_kind {
	KEEP_FUSE = 1, /* the mount's connection */
	KEEP_RECORDS,
	KEEP_TICKETS, /* a socket for tickets, listening */
	KEEP_BLOCK,
	KEEP_IMAGE,    /* of a module */
	KEEP_LIFETIME, /* a process or a cgroup that memory ends with */
	KEEP_TENSORS,

	/* The program of the last broker; between keepers alone (keep/left.h). */
	KEEP_PROGRAM = 0x10000,
};

struct keep_key {
	uint32_t kind;
	uint32_t number;
	uint32_t generation;
};

/* ---- the keeper ---- */

struct left;

struct keeper_config {
	char **argv;		       /* of the broker, which is this program again */
	const char *mountpoint;	       /* absolute */
	const char *driver;	       /* absolute where it is a path; NULL: none given */
	unsigned int hang_s;	       /* a broker without a beat for so long is killed */
	void (*ready)(void *userdata); /* the first broker answers */
	void (*say)(void *userdata, const char *sentence); /* of a broker's end */

	/* Gives a copy to somebody who holds it until the next keeper is there, so long
	 * as descriptors lie in its queue. Returns: 0; -errno. NULL: there is nobody. */
	int (*store)(void *userdata, int socket);
	struct left *left; /* by the last keeper; the first broker goes on with that */
	void *userdata;
};

/*
 * Holds, and starts brokers, until one ends as it should, or KEEP_RESTART_SIGNAL comes.
 * *ret_leaves: all lies where the next keeper finds it. Returns: the exit status.
 */
int keeper_run(const struct keeper_config *config, bool *ret_leaves);

/* For the keeper; a program without one takes it for SIGTERM. */
#define KEEP_RESTART_SIGNAL SIGUSR2

/* ---- the broker's side ---- */

struct keep;

/* Returns: 0, with NULL where no keeper started this process; -errno. */
int keep_open(struct keep **ret_keep);

/* Takes NULL, as all functions below. */
struct keep *keep_free(struct keep *keep);

/* What the keeper was started with. */
const char *keep_mountpoint(const struct keep *keep);
const char *keep_driver(const struct keep *keep);

/* Whether there was a broker before this one. */
bool keep_goes_on(const struct keep *keep);

/* A descriptor that the last broker left; -1: none. It is the caller's. */
int keep_take(struct keep *keep, struct keep_key key);

/* Any one of this kind that nobody has taken; -1: none. */
int keep_take_any(struct keep *keep, enum keep_kind kind, struct keep_key *ret_key);

/* Lets go of what nobody has taken. */
void keep_drop_rest(struct keep *keep);

/*
 * Gives the keeper a copy of the descriptor, in place of one with the same key.
 * Returns: 0; -errno.
 */
int keep_put(struct keep *keep, struct keep_key key, int fd);

/* The keeper closes its copy, before the return: the last close is the caller's. */
void keep_drop(struct keep *keep, struct keep_key key);

/*
 * The keeper closes its copy with the first beat after the next keep_settle(). May be
 * called under any lock, and while the change of the record is not yet committed.
 */
void keep_forget(struct keep *keep, struct keep_key key);

/*
 * No record names what was forgotten so far: the next broker would miss the descriptor.
 * Under the lock that the records are changed under, outside of any group.
 */
void keep_settle(struct keep *keep);

/*
 * For a broker that has made all that the last one left: asks to take over, and waits. At
 * the return the last one is dead. Returns: 0; -ECONNRESET.
 */
int keep_take_over(struct keep *keep);

/*
 * At an upgrade the keeper sends the broker KEEP_PAUSE_SIGNAL. The broker finishes all in
 * time and calls keep_pause(), which returns when the next broker is no good; or it says
 * how many operations are left, and goes on.
 */
#define KEEP_PAUSE_SIGNAL SIGUSR2
#define KEEP_UPGRADE_S	  10 /* for this, and again until the next is ready; or hang_s */
void keep_pause(struct keep *keep);
void keep_say_busy(struct keep *keep, unsigned int n_left);

/*
 * The mount answers; the broker lives, each second or so; it ends as it should. A beat
 * also tells the keeper what to forget (keep_settle()).
 */
void keep_say_ready(struct keep *keep);
void keep_say_beat(struct keep *keep);
void keep_say_end(struct keep *keep);
