/* SPDX-License-Identifier: MIT */
/*
 * A thread of the keeper that closes descriptors. A close looks at all locks (fcntl(2))
 * on the file. Users may put millions of locks on some files, so such a close takes as
 * long as a user likes. The keeper hears the broker meanwhile.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct entry;

struct closer {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct entry *entries; /* to close; lock */
	struct entry *closing; /* lock */
	unsigned int n_open;   /* entries not closed yet; lock */
	bool ends;	       /* lock */
	bool started;
	pthread_t thread;
};

/* Returns: 0; -errno. */
int closer_start(struct closer *closer);

/* Closes all entries, and ends the thread, if it was started. */
void closer_end(struct closer *closer);

/* Closes the descriptor, then answers entry->asker. Takes ownership of the entry. */
void closer_add(struct closer *closer, struct entry *entry);

/* How many entries are not closed yet. */
unsigned int closer_n_open(struct closer *closer);

/* Sends no answers to this socket any more. The caller closes the socket. */
void closer_forget(struct closer *closer, int socket);
