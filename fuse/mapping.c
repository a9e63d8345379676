/* SPDX-License-Identifier: MIT */
#include "mapping.h"

#include "base/def.h"
#include "kernel.h"
#include "view.h"

#include <errno.h>
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

/* Answers of a kernel that never lets this process map a file: a right, a call, a limit.
 */
static bool is_final(int error)
{
	static const int final[] = { EPERM, ENOSYS, ENOTTY, EOPNOTSUPP, EINVAL, ELOOP };

	for (size_t i = 0; i < ARRAY_SIZE(final); i++) {
		if (final[i] == error)
			return true;
	}
	return false;
}

/*
 * The ioctl is short, and under the lock so that no two opens make an id each. Returns:
 * 0, with NULL for no mapping; -errno when the kernel can't do it now.
 */
static int add(struct view *view, fuse_req_t req, struct token token,
	       struct mapping **ret_mapping)
{
	_cleanup_close_ int fd = broker_host_fd(view->broker, token);
	struct mapping *mapping;
	int id;

	if (fd < 0)
		return 0;
	id = kernel_backing_open(req, fd);
	if (id < 0) {
		view->mappings.refused = is_final(-id);
		return view->mappings.refused ? 0 : id;
	}
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping) {
		kernel_backing_close(req, id);
		return -ENOMEM;
	}
	mapping->token = token;
	mapping->id = id;
	HASH_ADD(hh, view->mappings.by_token, token, sizeof(token), mapping);
	*ret_mapping = mapping;
	return 0;
}

int mapping_get(struct view *view, fuse_req_t req, struct token token)
{
	struct mappings *mappings = &view->mappings;
	struct mapping *mapping;
	int id = 0, error = 0;

	if (!kernel_can_map())
		return 0;
	pthread_mutex_lock(&mappings->lock);
	HASH_FIND(hh, mappings->by_token, &token, sizeof(token), mapping);
	if (!mapping && !mappings->refused)
		error = add(view, req, token, &mapping);
	if (mapping) {
		mapping->n_open++;
		id = mapping->id;
	}
	pthread_mutex_unlock(&mappings->lock);
	return error ? error : id;
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
