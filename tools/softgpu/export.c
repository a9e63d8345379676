/* SPDX-License-Identifier: MIT */
/*
 * Every row of the X-list, named once: a row that no file here implements is an
 * undefined symbol, and the library doesn't link.
 */
#include "call.h"

/* Kept by the linker though nothing reads it. */
__attribute__((used)) static const void *const exports[] = {
#define EXPORT(symbol, ...) (const void *)export_##symbol,
	CUDA_DRIVER_LIST(EXPORT)
#undef EXPORT
};
