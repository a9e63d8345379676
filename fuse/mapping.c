/* SPDX-License-Identifier: MIT */
#include "mapping.h"

#include "base/def.h"
#include "kernel.h"
#include "view.h"

#include <uthash.h>

struct mapping {
	struct token token;
	int id;
	unsigned int n_open;
	UT_hash_handle hh;
};

void mappings_init(struct mappings *mappings)
{
	*mappings = (struct mappings){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

void mappings_deinit(struct mappings *mappings)
{
	struct mapping *mapping, *next;

	HASH_ITER (hh, mappings->by_token, mapping, next) {
		HASH_DEL(mappings->by_token, mapping);
		free(mapping);
	}
	pthread_mutex_destroy(&mappings->lock);
}

/* The ioctl is short, and under the lock so that no two opens make an id each. */
static struct mapping *add(struct view *view, fuse_req_t req, struct token token)
{
	_cleanup_close_ int fd = broker_host_fd(view->broker, token);
	struct mapping *mapping;
	int id;

	if (fd < 0)
		return NULL;
	id = kernel_backing_open(req, fd);
	if (id < 0) {
		view->mappings.refused = true;
		return NULL;
	}
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping) {
		kernel_backing_close(req, id);
		return NULL;
	}
	mapping->token = token;
	mapping->id = id;
	HASH_ADD(hh, view->mappings.by_token, token, sizeof(token), mapping);
	return mapping;
}

int mapping_get(struct view *view, fuse_req_t req, struct token token)
{
	struct mappings *mappings = &view->mappings;
	struct mapping *mapping;
	int id = 0;

	if (!kernel_can_map())
		return 0;
	pthread_mutex_lock(&mappings->lock);
	HASH_FIND(hh, mappings->by_token, &token, sizeof(token), mapping);
	if (!mapping && !mappings->refused)
		mapping = add(view, req, token);
	if (mapping) {
		mapping->n_open++;
		id = mapping->id;
	}
	pthread_mutex_unlock(&mappings->lock);
	return id;
}

void mapping_put(struct view *view, fuse_req_t req, struct token token)
{
	struct mappings *mappings = &view->mappings;
	struct mapping *mapping;

	pthread_mutex_lock(&mappings->lock);
	HASH_FIND(hh, mappings->by_token, &token, sizeof(token), mapping);
	if (mapping && --mapping->n_open == 0) {
		kernel_backing_close(req, mapping->id);
		HASH_DEL(mappings->by_token, mapping);
		free(mapping);
	}
	pthread_mutex_unlock(&mappings->lock);
}
