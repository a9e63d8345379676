/* SPDX-License-Identifier: MIT */
#include "unit/model/order_help.h"

#include <stdlib.h>

struct allocation x, y;
struct stream s, t;

const struct use x_read = { .allocation = &x, .length = 8 };
const struct use x_write = { .allocation = &x, .length = 8, .write = true };

/* Adds a work like `like` to the order, with this use of an allocation, if any. */
struct work *add(struct work like, struct use use)
{
	struct work *made = calloc(1, sizeof(*made));

	*made = like;
	if (use.allocation) {
		work_use(made, use.allocation, use.offset, use.length, use.write);
		made->uses[0].places = use.places;
		made->uses[0].watches = use.watches;
	}
	cr_assert(eq(int, order_add(made), 0));
	return made;
}

struct work *work(struct allocation *allocation, uint64_t offset, uint64_t length,
		  bool write, struct stream *stream)
{
	return add((struct work){ .stream = stream },
		   (struct use){ .allocation = allocation,
				 .offset = offset,
				 .length = length,
				 .write = write });
}

/* A kernel that uses x. */
struct work *kernel_use(struct stream *stream, struct use use)
{
	return add((struct work){ .stream = stream, .chain = &x }, use);
}

struct work *kernel(struct stream *stream)
{
	return kernel_use(stream, x_write);
}

void work_free(struct work *work)
{
	work_deinit(work);
	free(work);
}

unsigned int count(const struct work *ready)
{
	unsigned int n = 0;

	for (; ready; ready = ready->next_ready)
		n++;
	return n;
}

/* Ends the work. Returns: the number of works that became ready. */
unsigned int finish(struct work *done)
{
	struct work *ready = NULL;

	order_done(done, &ready);
	work_free(done);
	return count(ready);
}

/* The work leaves the order before it begins. Returns: as finish(). */
unsigned int leave(struct work *left)
{
	struct work *ready = NULL;

	cr_assert(order_leave(left, &ready));
	work_free(left);
	return count(ready);
}

/* Marks work as sent, with this id. Returns: the number of works that became ready. */
unsigned int send_work(struct work *work, uint64_t id)
{
	struct work *ready = NULL;

	order_sending(work);
	cr_assert(not(order_sent(work, id, &ready)));
	return count(ready);
}

void expect_empty(void)
{
	cr_assert(eq(ptr, x.uses, NULL));
	cr_assert(eq(ptr, y.uses, NULL));
	cr_assert(eq(u32, x.n_works, 0));
	cr_assert(eq(u32, s.n_works, 0));
	cr_assert(eq(ptr, s.last, NULL));
}
