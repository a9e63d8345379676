/* SPDX-License-Identifier: MIT */
/*
 * A thread of the keeper that closes descriptors. A close looks at all locks (fcntl(2)) on
 * the file, and users may put millions on some files: such a close takes as long as a user
 * likes, and the keeper must hear the broker meanwhile.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct entry;

struct closer {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct entry *first, *last; /* to close; lock */
	struct entry *closing;	    /* lock */
	unsigned int n_open;	    /* entries not closed yet; lock */
	bool ends;		    /* lock */
	bool started;
	pthread_t thread;
};

/* Returns: 0; -errno. */
int closer_start(struct closer *closer);

/* Closes all, and ends the thread. Does nothing for one that was not started. */
void closer_end(struct closer *closer);

/* Closes the descriptor, then answers entry->asker. Takes ownership of the entry. */
void closer_add(struct closer *closer, struct entry *entry);

/* How many entries are not closed yet. */
unsigned int closer_n_open(struct closer *closer);

/* Nobody is answered any more at this socket, which the caller closes. */
void closer_forget(struct closer *closer, int socket);
