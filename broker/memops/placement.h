/* SPDX-License-Identifier: MIT */
/* What prefetch and advise share: their op, and what both check. */
#pragma once

#include "base/refusal.h"
#include "model/managed_ranges.h"
#include "model/range.h"
#include "op/op.h"

#include <gpumem/location.h>

/* One prefetch or advice; all but op is for its maker to fill in. */
struct placing {
	struct op op;
	uint32_t wire_op;
	uint32_t device; /* in whose context the driver is asked */
	uint32_t advice;
	uint16_t location;
	enum managed_change change; /* what to note once it is done */
	uint16_t value;

	bool reserved; /* private: room to note it */
};

extern const struct op_class prefetch_class, advise_class;

/* Of a range of managed memory that fits. Under registry.lock. NULL: no memory. */
struct placing *placing_new(struct broker *broker, const struct op_class *class,
			    struct owner *owner, struct allocation *allocation,
			    const struct range *range, void (*finish)(struct op *op));

/*
 * Whether what is to be done at a location can be done to a range of an allocation; what
 * names it in sentences, call is the row of the driver that takes NUMA nodes.
 *
 * Returns: 0, the range fitted to it; -EINVAL; -ENOENT; -ERANGE; -EOPNOTSUPP.
 */
int managed_check(const struct broker *broker, const struct allocation *allocation,
		  uint16_t location, int call, const char *what, struct range *range,
		  struct refusal *refusal);

/* Whether a device has concurrent managed access, which what needs.
 * Returns: 0; -EOPNOTSUPP. */
int managed_check_concurrent(const struct broker *broker, uint32_t device,
			     const char *what, struct refusal *refusal);
