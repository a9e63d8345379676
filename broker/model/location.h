/* SPDX-License-Identifier: MIT */
/*
 * Devices, and locations of managed memory (cpu, numa:N, device:N), in lines and files.
 */
#pragma once

#include <gpumem/location.h>

struct refusal;
struct registry;
struct text;

/* Returns: 0; -EINVAL. Does not check that the device or node exists. */
int line_location(const char *word, uint16_t *ret_location, struct refusal *refusal);

/* The number of a device. Returns: 0; -EINVAL; -ENOENT: there is no such device. */
int line_device(const char *word, const struct registry *registry, uint32_t *ret_device,
		struct refusal *refusal);
int device_check(const struct registry *registry, uint32_t device,
		 struct refusal *refusal);

/* Appends a location; `none` for LOCATION_NONE. */
void text_location(struct text *text, uint16_t location);

/* Appends a set of locations, separated by commas; `none` when the set is empty. */
void text_locations(struct text *text, uint32_t set);

/* The device of a location; `other` when the location is not a device. */
uint32_t location_device(uint16_t location, uint32_t other);
