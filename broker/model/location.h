/* SPDX-License-Identifier: MIT */
/* Locations of managed memory as lines and files have them: cpu, numa:N, device:N. */
#pragma once

#include "base/refusal.h"
#include "base/text.h"

#include <gpumem/location.h>

/* Returns: 0; -EINVAL. Whether there is such a device or node is not looked at. */
int line_location(const char *word, uint16_t *ret_location, struct refusal *refusal);

/* Appends it; `none` for LOCATION_NONE. */
void text_location(struct text *text, uint16_t location);

/* Appends a set of them, parted by blanks; `none` when it is empty. */
void text_locations(struct text *text, uint32_t set);

/* The device that a location is, else another. */
uint32_t location_device(uint16_t location, uint32_t other);
