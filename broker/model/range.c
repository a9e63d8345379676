/* SPDX-License-Identifier: MIT */
#include "model/range.h"

#include <errno.h>

#include "base/number.h"
#include "base/refusal.h"
#include "model/registry.h"

int range_fit(struct range *range, const struct allocation *allocation,
	      struct refusal *refusal)
{
	uint64_t end;

	if (!range->has_length && range->offset < allocation->size)
		range->length = allocation->size - range->offset;
	if (__builtin_add_overflow(range->offset, range->length, &end))
		return refuse(refusal, EOVERFLOW,
			      "offset %s and length %s are together more than 64 bits",
			      size_typed(range->offset), size_text(range->length));
	if (range->offset >= allocation->size)
		return refuse(refusal, ERANGE,
			      "offset %s is past the last byte of %s, which has %s",
			      size_typed(range->offset), allocation_name(allocation).text,
			      size_text(allocation->size));
	if (end > allocation->size)
		return refuse(refusal, ERANGE, "%s (%s) has no room for %s at offset %s",
			      allocation_name(allocation).text,
			      size_text(allocation->size), size_text(range->length),
			      size_typed(range->offset));
	return 0;
}
