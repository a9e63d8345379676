/* SPDX-License-Identifier: MIT */
#include "api/kept.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/def.h"
#include "memops/release.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"

static struct allocation *find(const struct registry *registry, struct token token)
{
	return allocation_get(registry, token.slot, token.generation);
}

/* Under registry.lock. */
static void kept_forget_ended(struct kept *kept, const struct registry *registry)
{
	size_t n = 0;

	for (size_t i = 0; i < kept->n; i++) {
		const struct allocation *allocation = find(registry, kept->tokens[i]);

		if (allocation && allocation->until_close)
			kept->tokens[n++] = kept->tokens[i];
	}
	kept->n = n;
}

/* Makes room for one more; forgets as often as the array would grow. */
static int kept_reserve(struct kept *kept, const struct registry *registry)
{
	struct token *tokens;
	size_t capacity;

	if (kept->n < kept->capacity)
		return 0;
	kept_forget_ended(kept, registry);
	if (kept->n < kept->capacity / 2)
		return 0;
	capacity = kept->capacity ? kept->capacity * 2 : 8;
	tokens = realloc(kept->tokens, capacity * sizeof(*tokens));
	if (!tokens)
		return kept->n < kept->capacity ? 0 : -ENOMEM;
	kept->tokens = tokens;
	kept->capacity = capacity;
	return 0;
}

int kept_add(struct kept *kept, struct registry *registry, struct token token)
{
	struct allocation *allocation;
	int r;

	pthread_mutex_lock(&registry->lock);
	r = kept_reserve(kept, registry);
	allocation = find(registry, token);
	if (r == 0 && allocation && !allocation->sealed) {
		allocation->until_close = true;
		kept->tokens[kept->n++] = token;
	}
	pthread_mutex_unlock(&registry->lock);
	return r;
}

void kept_free(struct kept *kept, struct broker *broker)
{
	for (size_t i = 0; i < kept->n; i++) {
		struct allocation *allocation;

		pthread_mutex_lock(&broker->registry->lock);
		allocation = find(broker->registry, kept->tokens[i]);
		if (allocation && allocation->until_close)
			allocation_release(broker, allocation);
		else
			pthread_mutex_unlock(&broker->registry->lock);
	}
	free(take_ptr(kept->tokens));
	kept->n = kept->capacity = 0;
}
