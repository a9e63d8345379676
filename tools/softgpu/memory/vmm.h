/* SPDX-License-Identifier: MIT */
/* Virtual memory management: reservations, handles, mappings. */
#pragma once

#include "base/def.h"

struct range;

/* Whether a stretch touches a reservation. */
bool vmm_is_reserved(uint64_t start, uint64_t size);

/* The handle types that a mapping's memory can be exported as. */
int vmm_handle_types(const struct range *range);
