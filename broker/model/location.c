/* SPDX-License-Identifier: MIT */
#include "model/location.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/refusal.h"
#include "base/text.h"
#include "model/registry.h"

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
			      "'%.64s' is not a location: %sN has a number from 0 to %d",
			      word, prefixes[place], LOCATION_NUMBER_MAX);
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
	return refuse(refusal, EINVAL,
		      "'%.64s' is not a location: use cpu, numa:N or device:N", word);
}

/* `0`, `0 or 1`, `0 to 7`. */
static const char *devices_text(char text[32], const struct registry *registry)
{
	unsigned int last = registry->n_devices - 1;

	if (last == 0)
		return "0";
	snprintf(text, 32, "0 %s %u", last == 1 ? "or" : "to", last);
	return text;
}

int device_check(const struct registry *registry, uint32_t device,
		 struct refusal *refusal)
{
	char devices[32];

	if (device < registry->n_devices)
		return 0;
	return refuse(refusal, ENOENT, "there is no device %u: use %s", device,
		      devices_text(devices, registry));
}

int line_device(const char *word, const struct registry *registry, uint32_t *ret_device,
		struct refusal *refusal)
{
	char devices[32];
	uint64_t number;
	int r;

	r = number_parse(word, &number);
	if (r == -EOVERFLOW || (r == 0 && number >= registry->n_devices))
		return refuse(refusal, ENOENT, "there is no device %.64s: use %s", word,
			      devices_text(devices, registry));
	if (r < 0)
		return refuse(refusal, EINVAL, "'%.64s' is not a device: use %s", word,
			      devices_text(devices, registry));
	*ret_device = (uint32_t)number;
	return 0;
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
		joint = ",";
	}
	for (unsigned int i = 0; i < 16; i++) {
		if (!(set & 1u << i))
			continue;
		text_printf(text, "%sdevice:%u", joint, i);
		joint = ",";
	}
}

uint32_t location_device(uint16_t location, uint32_t other)
{
	return location_place(location) == LOCATION_DEVICE ? location_number(location)
							   : other;
}
