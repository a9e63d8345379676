/* SPDX-License-Identifier: MIT */
/*
 * The deadlines are a leftist heap: no deadline is before its parent, and at each the way
 * down to a free place is shortest on the right. So a way down on the right, and a way up
 * on which shortest ways change, has 2 log(n) steps at most.
 */
#include "op/deadline.h"

#include "base/clock.h"
#include "base/def.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/processes.h"

/* period of the housekeeper when not woken */
#define LOOKED_AT_MS 1000
/*
 * Users may have a hundred thousand deadlines pass at once, and everybody's requests wait
 * for the lock: it is let go of after so many, or after so long, and then for a moment.
 */
#define N_AT_A_TIME  64
#define AT_A_TIME_MS 2

static unsigned int steps_to_free(const struct deadline *deadline)
{
	return deadline ? deadline->steps_to_free : 0;
}

/* The children have changed. */
static void deadline_lean(struct deadline *deadline)
{
	struct deadline *left = deadline->left;

	if (steps_to_free(left) < steps_to_free(deadline->right)) {
		deadline->left = deadline->right;
		deadline->right = left;
	}
	deadline->steps_to_free = steps_to_free(deadline->right) + 1;
}

/* Makes one heap of two; NULL: empty. Recurses once for each step on the right. */
static struct deadline *deadlines_merge(struct deadline *a, struct deadline *b)
{
	struct deadline *first = a, *other = b;

	if (!a || !b)
		return a ?: b;
	if (b->at_ms < a->at_ms) {
		first = b;
		other = a;
	}
	first->right = deadlines_merge(first->right, other);
	first->right->parent = first;
	deadline_lean(first);
	return first;
}

/* The children take the deadline's place. */
static void deadline_remove(struct ops *ops, struct deadline *deadline)
{
	struct deadline *below = deadlines_merge(deadline->left, deadline->right);
	struct deadline *parent = deadline->parent;
	unsigned int before;

	if (below)
		below->parent = parent;
	if (!parent)
		ops->deadlines = below;
	else if (parent->left == deadline)
		parent->left = below;
	else
		parent->right = below;
	for (; parent; parent = parent->parent) {
		before = parent->steps_to_free;
		deadline_lean(parent);
		if (parent->steps_to_free == before)
			break;
	}
}

void deadline_set(struct broker *broker, struct deadline *deadline, uint32_t ms,
		  void (*passed)(struct deadline *deadline))
{
	struct ops *ops = broker->ops;

	deadline_clear(broker, deadline);
	*deadline = (struct deadline){ .at_ms = clock_ms() + ms,
				       .passed = passed,
				       .steps_to_free = 1 };
	ops->deadlines = deadlines_merge(ops->deadlines, deadline);
	ops->deadlines->parent = NULL;
	if (ms < LOOKED_AT_MS)
		broker_wake_housekeeper(broker);
}

void deadline_clear(struct broker *broker, struct deadline *deadline)
{
	if (deadline->at_ms)
		deadline_remove(broker->ops, deadline);
	deadline->at_ms = 0;
}

int64_t deadlines_check(struct broker *broker)
{
	int64_t now = clock_ms(), next = -1;
	struct deadline *first;

	pthread_mutex_lock(&broker->registry->lock);
	for (int i = 0; (first = broker->ops->deadlines) && first->at_ms <= now; i++) {
		if (i >= N_AT_A_TIME || clock_ms() - now > AT_A_TIME_MS)
			break;
		deadline_clear(broker, first);
		first->passed(first);
	}
	if (first)
		next = MAX(first->at_ms - now, 0);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(NULL);
	return next;
}
