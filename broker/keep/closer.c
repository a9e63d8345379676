/* SPDX-License-Identifier: MIT */
#include "keep/closer.h"

#include <stdlib.h>

#include <utlist.h>

#include "base/def.h"
#include "keep/keeper.h"

static struct entry *take_first(struct closer *closer)
{
	struct entry *entry = closer->entries;

	if (entry)
		DL_DELETE(closer->entries, entry);
	closer->closing = entry;
	return entry;
}

static void *closer_run(void *userdata)
{
	struct closer *closer = userdata;
	struct entry *entry;

	pthread_mutex_lock(&closer->lock);
	while ((entry = take_first(closer)) || !closer->ends) {
		if (!entry) {
			pthread_cond_wait(&closer->wake, &closer->lock);
			continue;
		}
		pthread_mutex_unlock(&closer->lock);
		closep(&entry->fd);
		pthread_mutex_lock(&closer->lock);
		closer->n_open--;
		if (entry->asker >= 0)
			keeper_answer(entry->asker, entry->key);
		free(entry);
	}
	pthread_mutex_unlock(&closer->lock);
	return NULL;
}

int closer_start(struct closer *closer)
{
	int r;

	*closer = (struct closer){ .lock = PTHREAD_MUTEX_INITIALIZER,
				   .wake = PTHREAD_COND_INITIALIZER };
	r = pthread_create(&closer->thread, NULL, closer_run, closer);
	closer->started = r == 0;
	return -r;
}

void closer_end(struct closer *closer)
{
	if (!closer->started)
		return;
	pthread_mutex_lock(&closer->lock);
	closer->ends = true;
	pthread_cond_signal(&closer->wake);
	pthread_mutex_unlock(&closer->lock);
	pthread_join(closer->thread, NULL);
	closer->started = false;
}

void closer_add(struct closer *closer, struct entry *entry)
{
	pthread_mutex_lock(&closer->lock);
	DL_APPEND(closer->entries, entry);
	closer->n_open++;
	pthread_cond_signal(&closer->wake);
	pthread_mutex_unlock(&closer->lock);
}

unsigned int closer_n_open(struct closer *closer)
{
	unsigned int n;

	pthread_mutex_lock(&closer->lock);
	n = closer->n_open;
	pthread_mutex_unlock(&closer->lock);
	return n;
}

void closer_forget(struct closer *closer, int socket)
{
	struct entry *entry;

	pthread_mutex_lock(&closer->lock);
	if (closer->closing && closer->closing->asker == socket)
		closer->closing->asker = -1;
	DL_FOREACH (closer->entries, entry) {
		if (entry->asker == socket)
			entry->asker = -1;
	}
	pthread_mutex_unlock(&closer->lock);
}
