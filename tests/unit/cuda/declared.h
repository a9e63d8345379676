/* SPDX-License-Identifier: MIT */
/* What a header declares of the driver, as numbers: constants, sizes, offsets. */
#pragma once

struct declared {
	const char *name;
	long long value; /* of a constant; the offset of a member */
	long long size;	 /* of a type, of a member */
};

/* The same rows, of gpumem/cuda.h and of a toolkit's cuda.h; the last has no name. */
extern const struct declared declared_own[], declared_toolkit[];
