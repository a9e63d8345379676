/* SPDX-License-Identifier: MIT */
/* Messages between keeper and broker, over a SEQPACKET pair. */
#pragma once

#include "keep/keep.h"

/* Names the broker's end of the pair, as a decimal number. */
#define KEEP_ENV	    "GPUMEM_KEEPER"
#define KEEP_ENV_MOUNTPOINT "GPUMEM_KEEPER_MOUNTPOINT"
#define KEEP_ENV_DRIVER	    "GPUMEM_KEEPER_DRIVER"

/*
 * A broker first receives KEEP_PUT for each descriptor of the last broker, then KEEP_ALL;
 * a standby when it becomes the broker.
 */
enum keep_word {
	KEEP_PUT = 1, /* with a descriptor */
	KEEP_ALL,     /* key.number: what the keeper understands; 0, or KEEP_WITH_LATE */
	KEEP_DROP,    /* answered with the same, of the kind KEEP_FULL at the limit */
	KEEP_READY,
	KEEP_BEAT, /* the housekeeper lives */
	KEEP_END,
	KEEP_ASK,    /* to take over; answered by KEEP_GO */
	KEEP_PAUSED, /* all is finished; the broker goes on with KEEP_GO */
	KEEP_BUSY,   /* could not finish; key.number: operations left */
	KEEP_GO,
	KEEP_FORGET,	/* as KEEP_DROP, without an answer */
	KEEP_TELL,	/* with a text behind the message, for the service manager */
	KEEP_DROP_LATE, /* as KEEP_DROP; users may have put locks on the file */
};

#define KEEP_WITH_LATE 1 /* KEEP_DROP_LATE */

struct keep_message {
	uint32_t word;
	struct keep_key key;
};

#define KEEP_TEXT_BYTES 256

/* Both wait while the other end is busy. Returns: 0; -errno. */
int keep_send(int socket, uint32_t word, struct keep_key key, int fd);

/*
 * Receives a message; fd is -1 where none came with it. flags as of recvmsg(2).
 * Returns: 0; -ECONNRESET when the other end is gone; -EPROTO; -errno.
 */
int keep_receive(int socket, int flags, struct keep_message *ret_message, int *ret_fd);

/* As keep_receive(), for a message with or without a text behind it (then empty). */
int keep_receive_text(int socket, int flags, struct keep_message *ret_message,
		      int *ret_fd, char ret_text[KEEP_TEXT_BYTES]);
