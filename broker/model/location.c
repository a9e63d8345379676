/* SPDX-License-Identifier: MIT */
#include "model/location.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"

static const char *const prefixes[N_LOCATION_PLACES] = {
	[LOCATION_NUMA] = "numa:",
	[LOCATION_DEVICE] = "device:",
};

/*
 * Parses a location with a prefix and a number. Returns: 0; -EINVAL; -ENOENT: the word
 * has another prefix.
 */
static int location_parse(const char *word, enum location_place place,
			  uint16_t *ret_location, struct refusal *refusal)
{
	size_t length = strlen(prefixes[place]);
	uint64_t number;

	if (strncmp(word, prefixes[place], length) != 0)
		return -ENOENT;
	if (number_parse(word + length, &number) < 0 || number > LOCATION_NUMBER_MAX)
		return refuse(refusal, EINVAL,
			      "the number of location %.64s is none of 0 to %d", word,
			      LOCATION_NUMBER_MAX);
	*ret_location = location_make(place, (unsigned int)number);
	return 0;
}

int line_location(const char *word, uint16_t *ret_location, struct refusal *refusal)
{
	int r;

	if (strcmp(word, "cpu") == 0) {
		*ret_location = location_make(LOCATION_CPU, 0);
		return 0;
	}
	r = location_parse(word, LOCATION_NUMA, ret_location, refusal);
	if (r == -ENOENT)
		r = location_parse(word, LOCATION_DEVICE, ret_location, refusal);
	if (r != -ENOENT)
		return r;
	return refuse(refusal, EINVAL, "location %.64s is none of cpu, numa:N, device:N",
		      word);
}

void text_location(struct text *text, uint16_t location)
{
	unsigned int place = location_place(location);

	if (place == LOCATION_NONE)
		text_printf(text, "none");
	else if (place == LOCATION_CPU)
		text_printf(text, "cpu");
	else
		text_printf(text, "%s%u", prefixes[place], location_number(location));
}

void text_locations(struct text *text, uint32_t set)
{
	const char *joint = "";

	if (!set)
		text_printf(text, "none");
	if (set & LOCATION_SET_CPU) {
		text_printf(text, "cpu");
		joint = " ";
	}
	for (unsigned int i = 0; i < 16; i++) {
		if (!(set & 1u << i))
			continue;
		text_printf(text, "%sdevice:%u", joint, i);
		joint = " ";
	}
}

uint32_t location_device(uint16_t location, uint32_t other)
{
	return location_place(location) == LOCATION_DEVICE ? location_number(location)
							   : other;
}
