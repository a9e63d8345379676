/* SPDX-License-Identifier: MIT */
#include "control_inode.h"

#include "base/def.h"
#include "node.h"

#include <errno.h>
#include <uthash.h>

struct visit {
	uint64_t id;
	uint64_t node_id;
	uint64_t n_lookups;
	UT_hash_handle hh;
};

void visits_init(struct visits *visits)
{
	*visits = (struct visits){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

void visits_deinit(struct visits *visits)
{
	struct visit *visit, *next;

	HASH_ITER (hh, visits->by_id, visit, next) {
		HASH_DEL(visits->by_id, visit);
		free(visit);
	}
	pthread_mutex_destroy(&visits->lock);
}

int visits_add(struct visits *visits, uint64_t node_id, uint64_t *ret_id)
{
	struct visit *visit = malloc(sizeof(*visit));

	if (!visit)
		return -ENOMEM;
	visit->node_id = node_id;
	visit->n_lookups = 1;
	pthread_mutex_lock(&visits->lock);
	visit->id = node_visit_id(++visits->serial);
	HASH_ADD(hh, visits->by_id, id, sizeof(visit->id), visit);
	pthread_mutex_unlock(&visits->lock);
	*ret_id = visit->id;
	return 0;
}

int visits_find(struct visits *visits, uint64_t id, uint64_t *ret_node_id)
{
	struct visit *visit;

	pthread_mutex_lock(&visits->lock);
	HASH_FIND(hh, visits->by_id, &id, sizeof(id), visit);
	if (visit)
		*ret_node_id = visit->node_id;
	pthread_mutex_unlock(&visits->lock);
	return visit ? 0 : -ESTALE;
}

void visits_forget(struct visits *visits, uint64_t id, uint64_t n)
{
	struct visit *visit;

	pthread_mutex_lock(&visits->lock);
	HASH_FIND(hh, visits->by_id, &id, sizeof(id), visit);
	if (visit && visit->n_lookups > n) {
		visit->n_lookups -= n;
		visit = NULL;
	}
	if (visit)
		HASH_DEL(visits->by_id, visit);
	pthread_mutex_unlock(&visits->lock);
	free(visit);
}
