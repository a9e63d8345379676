/* SPDX-License-Identifier: MIT */
/*
 * `tensors`: the header of a safetensors file, as JSON text: which tensors an allocation
 * holds, and where. The text is kept as it was written.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct owner;
struct refusal;

#define TENSORS_TEXT_MAX ((size_t)64 << 20) /* bytes of the text */
#define TENSORS_MAX	 262144		    /* tensors */

/* A text that was checked. Never changes; references under the registry's lock. */
struct tensors {
	unsigned int n_refs;
	struct owner *payer; /* of SHARE_TENSORS and a descriptor */
	uint64_t size;
	uint64_t number; /* counts all that were ever made */
	int fd;		 /* of a sealed memfd */
	uint32_t record; /* memops/tensors.h; 0: it ends with the broker */
};

/*
 * Checks a text against the size of the allocation, in bytes. Takes seconds for the
 * largest texts, and some hundred bytes a tensor beside the text.
 *
 * Returns: 0; -EINVAL; -ENOMEM; -ENODATA for a text that ends too early (the refusal's
 * error is EINVAL).
 */
int tensors_check(const char *text, size_t size, uint64_t allocation_size,
		  struct refusal *refusal);
