/* SPDX-License-Identifier: MIT */
/* What prefetch and advise share: their op, and what both check. */
#pragma once

#include "control/verbs.h"

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
			    const struct range *range);

/*
 * Whether what is to be done at a location can be done to a range of an allocation; what
 * names it in sentences, call is the row of the driver that takes NUMA nodes.
 *
 * Returns: 0, the range fitted to it; -EINVAL; -ENOENT; -ERANGE; -EOPNOTSUPP.
 */
int managed_check(const struct broker *broker, const struct allocation *allocation,
		  uint16_t location, int call, const char *what, struct range *range,
		  struct refusal *refusal);

/* The operands behind the name; a line in the allocation's own file has none: NULL. */
const char *const *managed_operands(const struct command *command, const char **ret_name);

/* Lets go of registry.lock and refuses. */
void managed_refuse(struct command *command, const struct refusal *refusal);
