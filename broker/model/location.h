/* SPDX-License-Identifier: MIT */
/* Locations of managed memory in lines and files: cpu, numa:N, device:N. */
#pragma once

#include "base/refusal.h"
#include "base/text.h"

#include <gpumem/location.h>

/* Returns: 0; -EINVAL. Does not check that the device or node exists. */
int line_location(const char *word, uint16_t *ret_location, struct refusal *refusal);

/* Appends a location; `none` for LOCATION_NONE. */
void text_location(struct text *text, uint16_t location);

/* Appends a set of locations, separated by blanks; `none` when the set is empty. */
void text_locations(struct text *text, uint32_t set);

/* The device of a location; `other` when the location is not a device. */
uint32_t location_device(uint16_t location, uint32_t other);
