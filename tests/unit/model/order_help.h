/* SPDX-License-Identifier: MIT */
/* Works for tests of the order, on two allocations and two streams. */
#pragma once

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model/allocation.h"
#include "model/order.h"
#include "model/stream.h"

extern struct allocation x, y;
extern struct stream s, t;

extern const struct use x_read, x_write;

/* Adds a work like `like` to the order, with this use of an allocation, if any. */
struct work *add(struct work like, struct use use);
struct work *work(struct allocation *allocation, uint64_t offset, uint64_t length,
		  bool write, struct stream *stream);
/* A kernel that uses x. */
struct work *kernel_use(struct stream *stream, struct use use);
struct work *kernel(struct stream *stream);
void work_free(struct work *work);
unsigned int count(const struct work *ready);
/* Ends the work. Returns: the number of works that became ready. */
unsigned int finish(struct work *done);
/* The work leaves the order before it begins. Returns: as finish(). */
unsigned int leave(struct work *left);
/* Marks work as sent, with this id. Returns: the number of works that became ready. */
unsigned int send_work(struct work *work, uint64_t id);
void expect_empty(void);
