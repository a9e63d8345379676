/* SPDX-License-Identifier: MIT */
/*
 * The broker's side of a worker process: starts the process, sends requests to it and
 * notices its end.
 *
 * A channel has threads of its own. They have the spawner start the worker program
 * (base/spawner.h), receive the replies, and after the worker's end answer all open
 * requests. Sending a request never blocks: requests that the socket does not take wait
 * in a queue, which the supervisor thread sends. All functions may be called from any
 * thread, with or without locks of the caller. Callbacks come from the channel's threads
 * with no lock held, never from within a call of these functions.
 *
 * The broker does not trust a worker: a reply without a request, of a wrong size, with an
 * impossible value or with descriptors ends the worker.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct channel;
struct process_record;
struct request;
struct spawner;

enum channel_state {
	CHANNEL_STARTING, /* no answer to HELLO yet; requests wait for it */
	CHANNEL_READY,
	CHANNEL_ENDED, /* the process is gone: the channel's thread answers every
		       channel_send() as lost */
};

struct channel_config {
	struct spawner *spawner; /* starts the program; lives longer than the channel */
	const char *program;	 /* the worker program */
	const char *driver;	 /* the driver library; NULL: none, a process of files */
	const char *name;	 /* for ps and messages: "mover" or the owner's uid */
	bool mover;		 /* maps all memory; else an owner's worker */
	uid_t uid;		 /* user of an owner's worker, if the broker is root */
	gid_t gid;
	unsigned int idle_s; /* keeps buffers so long; 0: the worker's default */
	int staging_fd;	     /* sealed memfd, shared with this worker only; remains the
				caller's; -1: none */
	uint64_t staging_size;
	int output_fd; /* stdout of the worker, owned by the channel once made; -1: the
			  broker's */
	unsigned int n_threads; /* number of receivers (>= 1) */

	/*
	 * The process runs and has been sent nothing yet. pidfd remains the channel's.
	 * *ret_record: where the channel notes whether the process is busy, until
	 * channel_free(); NULL: nowhere. Returns: 0; -errno, which ends the process.
	 * NULL: nobody is told.
	 */
	int (*started)(void *userdata, pid_t pid, int pidfd,
		       struct process_record **ret_record);
	/*
	 * The worker is gone and all open requests have been answered. reason is a
	 * sentence ("was killed by signal 9"), valid during the call. Called once, also
	 * after channel_stop(). Any other thread can free the channel afterwards.
	 */
	void (*ended)(void *userdata, struct channel *channel, const char *reason);
	void *userdata;
};

/*
 * Makes a channel and starts its worker in the background.
 *
 * Returns: 0; -ENOMEM, -EMFILE, -EAGAIN when threads or descriptors are missing. A
 * program that can't be run shows as the worker's end.
 */
int channel_new(struct channel **ret_channel, const struct channel_config *config);

/* Waits for the channel's threads and frees the channel; kills a worker that still runs.
 */
struct channel *channel_free(struct channel *channel);

/*
 * Sends a request. Never blocks and never fails. The channel's thread answers a request
 * that can't be sent: as lost once the worker is gone, or with EINVAL, EBADF or ENOMEM.
 */
void channel_send(struct channel *channel, struct request *request);

/*
 * Asks the worker to end: sends all earlier requests, then closes the sending side of the
 * socket. Kills the worker after the given seconds. Later requests are lost.
 */
void channel_stop(struct channel *channel, unsigned int seconds);

/* Ends the worker at once, with SIGKILL. */
void channel_kill(struct channel *channel);

enum channel_state channel_state(struct channel *channel);
pid_t channel_pid(struct channel *channel); /* 0 when there is none */

/* Whether the process was not started for lack of descriptors. For `ended`. */
bool channel_lacks_means(const struct channel *channel);

/* The reason of the end, in state CHANNEL_ENDED; "" before. */
void channel_reason(struct channel *channel, char *ret_reason, size_t size);
unsigned int channel_pending(struct channel *channel); /* number of open requests */
