/* SPDX-License-Identifier: MIT */
/* Shared by prefetch and advise: the op and its checks. */
#pragma once

#include "model/managed_ranges.h"
#include "op/op.h"

#include <gpumem/location.h>

struct range;
struct refusal;

/* One prefetch or advice. The caller of placing_new() fills in all fields except op. */
struct placing {
	struct op op;
	uint32_t wire_op;
	uint32_t device; /* device whose context is used */
	uint32_t advice;
	uint16_t location;
	enum managed_change change; /* noted once done */
	uint16_t value;

	bool reserved; /* private: memory for the note is reserved */
};

extern const struct op_class prefetch_class, advise_class;

/*
 * Makes an op for a valid range of managed memory. Under registry.lock. NULL: no memory.
 */
struct placing *placing_new(struct broker *broker, const struct op_class *class,
			    struct owner *owner, struct allocation *allocation,
			    const struct range *range, void (*finish)(struct op *op));

/*
 * Checks that a location is valid for a range of an allocation. `what` is the operation
 * in sentences, `call` the row of the driver call with NUMA nodes.
 *
 * Returns: 0, with the range fitted to the allocation; -EINVAL; -ENOENT; -ERANGE;
 * -EOPNOTSUPP.
 */
int managed_check(const struct broker *broker, const struct allocation *allocation,
		  uint16_t location, int call, const char *what, struct range *range,
		  struct refusal *refusal);

/*
 * Checks that a device has concurrent managed access, as needed by `what`. Returns: 0;
 * -EOPNOTSUPP.
 */
int managed_check_concurrent(const struct broker *broker, uint32_t device,
			     const char *what, struct refusal *refusal);
