/* SPDX-License-Identifier: MIT */
#include "model/range.h"

#include <errno.h>

#include "model/registry.h"

int range_fit(struct range *range, const struct allocation *allocation,
	      struct refusal *refusal)
{
	uint64_t end;

	if (!range->has_length && range->offset < allocation->size)
		range->length = allocation->size - range->offset;
	if (__builtin_add_overflow(range->offset, range->length, &end))
		return refuse(refusal, EOVERFLOW,
			      "%llu bytes at %llu of allocation %s do not fit in 64 bits",
			      (unsigned long long)range->length,
			      (unsigned long long)range->offset, allocation->name);
	if (!range->has_length && range->offset >= allocation->size)
		return refuse(refusal, ERANGE,
			      "offset %llu is outside allocation %s of %llu bytes",
			      (unsigned long long)range->offset, allocation->name,
			      (unsigned long long)allocation->size);
	if (range->offset >= allocation->size || end > allocation->size)
		return refuse(
			refusal, ERANGE,
			"%llu bytes at %llu are outside allocation %s of %llu bytes",
			(unsigned long long)range->length,
			(unsigned long long)range->offset, allocation->name,
			(unsigned long long)allocation->size);
	return 0;
}
