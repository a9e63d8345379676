/* SPDX-License-Identifier: MIT */
/*
 * Holds of a lease, for programs without libgpumem. The descriptor is an open
 * `allocations/NAME/lease` (docs/sharing.md).
 */
#pragma once

#include <stdint.h>
#include <sys/ioctl.h>

enum gpumem_hold {
	GPUMEM_HOLD_NONE,  /* gives the hold up */
	GPUMEM_HOLD_READ,  /* by any descriptor */
	GPUMEM_HOLD_WRITE, /* by a descriptor opened for reading and writing */
};

/*
 * ioctl(2) with a pointer to a uint32_t, an enum gpumem_hold: the same as writing
 * `release`, `hold r` or `hold w`, which needs a descriptor opened for writing.
 *
 * Errors: EINVAL (no such hold, or nothing to give up); EACCES (GPUMEM_HOLD_WRITE on a
 * descriptor opened for reading); EBUSY (a hold exists already); EINTR; ESTALE (freed).
 */
#define GPUMEM_LEASE_HOLD _IOW('g', 1, uint32_t)
