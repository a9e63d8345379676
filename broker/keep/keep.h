/* SPDX-License-Identifier: MIT */
/*
 * The keeper: the process that holds a copy of every descriptor which must outlive the
 * broker, and starts the next broker when one dies. The keeper calls no driver and parses
 * only these messages. keeper_run() is the keeper's process (keeper.c); all other
 * functions are the broker's side (keep.c).
 *
 * A descriptor is known by its kind and the number and generation of its record. A
 * descriptor sent by keep_put() is in the kernel's hands, and reaches the keeper even if
 * the broker dies. The next broker is given all descriptors.
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
	KEEP_LIFETIME, /* of a process or cgroup */
	KEEP_TENSORS,

	/* The program of the last broker; between keepers alone (keep/left.h). */
	KEEP_PROGRAM = 0x10000,

	/* In the answer of a keeper that has room for a few more descriptors only. */
	KEEP_FULL,
	KEEP_PROCESS, /* of a worker */
};

struct keep_key {
	uint32_t kind;
	uint32_t number;
	uint32_t generation;
};

/* ---- the keeper ---- */

struct left;

/*
 * Two low descriptors. A process that the keeper starts finds its program and its socket
 * there.
 */
struct keeper_places {
	int program, socket;
};

/*
 * Takes the places. Before the keeper has descriptors of users: a process that starts has
 * copies of all lower descriptors. Returns: 0; -errno.
 */
int keeper_places_take(struct keeper_places *ret_places);

struct keeper_config {
	char **argv;		       /* of the broker: this program again */
	const char *mountpoint;	       /* absolute */
	const char *driver;	       /* absolute if a path; NULL: none given */
	unsigned int hang_s;	       /* a broker without a beat for so long is killed */
	void (*ready)(void *userdata); /* the first broker answers */
	void (*say)(void *userdata, const char *sentence);  /* of a broker's end */
	void (*note)(void *userdata, const char *sentence); /* of an upgrade */
	/* Takes the text of keep_tell(). NULL: texts are dropped. */
	void (*tell)(void *userdata, const char *text);

	/*
	 * Hands a copy of the socket to the service manager, for the next keeper. The
	 * manager holds the socket as long as descriptors lie in its queue. Returns: 0;
	 * -errno. NULL: there is no manager.
	 */
	int (*store)(void *userdata, int socket);
	struct left *left; /* by the last keeper, for the first broker */
	struct keeper_places places;
	void *userdata;
};

/*
 * Holds descriptors and starts brokers, until a broker ends in the regular way or
 * KEEP_RESTART_SIGNAL comes. *ret_leaves: all descriptors are left to the next keeper.
 * Returns: the exit status.
 */
int keeper_run(const struct keeper_config *config, bool *ret_leaves);

/* Restarts the keeper. A gpumemd without a keeper takes this signal as SIGTERM. */
#define KEEP_RESTART_SIGNAL SIGUSR2

/* ---- the broker's side ---- */

struct keep;

/* Returns: 0, with NULL where no keeper started this process; -errno. */
int keep_open(struct keep **ret_keep);

/*
 * Takes the descriptors of the last broker, before any other function below. The process
 * is a standby until the keeper sends them; signals that it blocks end it meanwhile.
 * Returns: 0; -errno.
 */
int keep_stand_by(struct keep *keep);

/* Takes NULL, as all functions below. */
struct keep *keep_free(struct keep *keep);

/* The keeper's own mount point and driver. */
const char *keep_mountpoint(const struct keep *keep);
const char *keep_driver(const struct keep *keep);

/* Whether there was a broker before this one. */
bool keep_goes_on(const struct keep *keep);

/* Returns: a descriptor left by the last broker, for the caller; -1: none. */
int keep_take(struct keep *keep, struct keep_key key);

/* The same for any descriptor of this kind not taken yet. */
int keep_take_any(struct keep *keep, enum keep_kind kind, struct keep_key *ret_key);

/*
 * Closes the descriptors not taken, here and at the keeper. What another thread has put
 * by the same key stays at the keeper.
 */
void keep_drop_rest(struct keep *keep);

/*
 * Before keep_put() for an object of a user: the keeper closes the settled descriptors
 * (keep_settle()), so that it has few more than the broker. Waits for the keeper if there
 * are any, and at every KEEP_ASK_PUTS-th call, to learn whether there is room: a
 * descriptor sent beyond the keeper's limit is lost. Returns: 0; -EMFILE: the keeper has
 * no room; -errno.
 */
#define KEEP_ASK_PUTS 64
int keep_make_room(struct keep *keep);

/*
 * Gives the keeper a copy of the descriptor, in place of one with the same key.
 * Returns: 0; -errno.
 */
int keep_put(struct keep *keep, struct keep_key key, int fd);

/* The keeper closes its copy before this returns, so the caller's close is the last. */
void keep_drop(struct keep *keep, struct keep_key key);

/*
 * The same, of a file that users may have put locks on (fcntl(2)). A close looks at all
 * locks, so this one may take long, and the keeper closes others meanwhile.
 */
void keep_drop_late(struct keep *keep, struct keep_key key);

/*
 * The keeper closes its copy after the next keep_settle(): with the first beat or
 * keep_make_room(). May be called under any lock. The record was dropped before this, or
 * is dropped in the same group.
 */
void keep_forget(struct keep *keep, struct keep_key key);

/*
 * Says that no record names a forgotten descriptor any more: the keeper may close the
 * copies. (The next broker would miss a descriptor named by a record.) Under the lock of
 * the records, outside of any group.
 */
void keep_settle(struct keep *keep);

/*
 * For a broker with all objects of the last broker: asks to take over, and waits until
 * the last broker is dead. Returns: 0; -ECONNRESET.
 */
int keep_take_over(struct keep *keep);

/*
 * At an upgrade the keeper sends the broker KEEP_PAUSE_SIGNAL. A broker that finishes all
 * operations in time calls keep_pause(), which returns only if the next broker is no
 * good. Otherwise the broker calls keep_say_busy() and goes on.
 */
#define KEEP_PAUSE_SIGNAL SIGUSR2
#define KEEP_UPGRADE_S	  10 /* to finish, and as long for the next start; or hang_s */
void keep_pause(struct keep *keep);
void keep_say_busy(struct keep *keep, unsigned int n_left);

/*
 * ready: the mount answers. beat, about once a second: the broker lives; the keeper
 * closes the settled descriptors (keep_settle()). end: the broker ends in the regular
 * way.
 */
void keep_say_ready(struct keep *keep);
void keep_say_beat(struct keep *keep);
void keep_say_end(struct keep *keep);

/* Hands a text to keeper_config.tell(). Bytes beyond KEEP_TEXT_BYTES are cut off. */
void keep_tell(struct keep *keep, const char *text);
