/* SPDX-License-Identifier: MIT */
/*
 * Deleters of DLPack tensors in mapped memory. Consumers (torch, numpy, JAX) call a
 * deleter in any thread, even after the interpreter of Python has ended, so a deleter
 * only releases a reference, and Python's lock is not needed.
 */
#include "client/private.h"

#include <stdlib.h>

/* The first fields of DLManagedTensor and DLManagedTensorVersioned. */
struct managed {
	unsigned char tensor[48];
	struct gpumem_map *map;
};

struct managed_versioned {
	uint32_t version[2];
	struct gpumem_map *map;
};

EXPORT void gpumem_dlpack_free(void *managed)
{
	const struct managed *of = managed;

	gpumem_unref(of->map);
	free(managed);
}

EXPORT void gpumem_dlpack_free_versioned(void *managed)
{
	const struct managed_versioned *of = managed;

	gpumem_unref(of->map);
	free(managed);
}
