/* SPDX-License-Identifier: MIT */
#include "base/shared_text.h"

struct shared_text *shared_text_new(void)
{
	struct shared_text *shared = calloc(1, sizeof(*shared));

	if (shared)
		shared->n_refs = 1;
	return shared;
}

struct shared_text *shared_text_ref(struct shared_text *shared)
{
	__atomic_fetch_add(&shared->n_refs, 1, __ATOMIC_RELAXED);
	return shared;
}

struct shared_text *shared_text_unref(struct shared_text *shared)
{
	if (shared && !__atomic_sub_fetch(&shared->n_refs, 1, __ATOMIC_ACQ_REL)) {
		text_deinit(&shared->text);
		free(shared);
	}
	return NULL;
}
