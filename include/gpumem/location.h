/* SPDX-License-Identifier: MIT */
/*
 * Locations of managed memory, in 16 bits: on the wire, in the registry, and in records
 * of advice.
 *
 * Zero is no location, so that a record never written shows `none`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum location_place {
	LOCATION_NONE,
	LOCATION_CPU,	 /* number 0 */
	LOCATION_NUMA,	 /* number: a NUMA node of the host */
	LOCATION_DEVICE, /* number: the driver's ordinal */
	N_LOCATION_PLACES,
};

#define LOCATION_NUMBER_MAX 4095

static inline uint16_t location_make(enum location_place place, unsigned int number)
{
	return (uint16_t)(place << 12 | number);
}

static inline unsigned int location_place(uint16_t location)
{
	return location >> 12;
}

static inline unsigned int location_number(uint16_t location)
{
	return location & LOCATION_NUMBER_MAX;
}

/* A set of processors: bit N is device N, this bit the CPU. */
#define LOCATION_SET_CPU (1u << 16)

static inline uint32_t location_set_bit(uint16_t location)
{
	return location_place(location) == LOCATION_CPU ? LOCATION_SET_CPU
							: 1u << location_number(location);
}
