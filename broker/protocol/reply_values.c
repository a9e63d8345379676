/* SPDX-License-Identifier: MIT */
#include "protocol/reply_values.h"

#include "base/user_errno.h"
#include "protocol/wire.h"

#include <gpumem/function.h>

#define ADDRESS_END (1ull << 56) /* above all addresses of drivers */

bool wire_range_is_good(uint64_t address, uint64_t length)
{
	return address && length && address < ADDRESS_END &&
	       length <= ADDRESS_END - address;
}

bool wire_location_is_good(uint32_t location)
{
	unsigned int number;

	if (location > UINT16_MAX)
		return false;
	number = location_number((uint16_t)location);
	switch (location_place((uint16_t)location)) {
	case LOCATION_NONE:
	case LOCATION_CPU:
		return number == 0;
	case LOCATION_NUMA:
		return true;
	case LOCATION_DEVICE:
		return number < WIRE_DEVICES_MAX;
	default:
		return false;
	}
}

const char *reply_values_range(const struct wire_request *request, const uint64_t *value)
{
	if (value[0] & ~WIRE_RANGE_BITS)
		return "bits that say nothing";
	if (!wire_location_is_good(WIRE_RANGE_PREFERRED(value[0])) ||
	    !wire_location_is_good(WIRE_RANGE_PREFETCHED(value[0])))
		return "an impossible location";
	return value[1] && value[1] <= request->length ? NULL : "a wrong length";
}

const char *reply_values_hello(const struct wire_request *request, const uint64_t *value)
{
	if (value[0] != WIRE_VERSION)
		return "another version of the wire";
	return value[1] <= WIRE_DEVICES_MAX &&
			       !value[1] == !!(request->flags & WIRE_FILES)
		       ? NULL
		       : "an impossible number of devices";
}

/* Must not be in the broker's ranges, where addresses stand for objects of the broker. */
const char *reply_values_alloc(const struct wire_request *request, const uint64_t *value)
{
	uint64_t length = request->length;

	if (value[1])
		return "a value that it has no use for";
	if (!wire_range_is_good(value[0], length))
		return "an impossible address";
	if (value[0] < WIRE_HOST_BASE + WIRE_HOST_SPAN &&
	    WIRE_HOST_BASE < value[0] + length)
		return "an address in the range of host memory";
	if (value[0] < WIRE_DEVICE_BASE + WIRE_DEVICES_MAX * WIRE_DEVICE_SPAN &&
	    WIRE_DEVICE_BASE < value[0] + length)
		return "an address in the range of a device";
	return NULL;
}

const char *reply_values_memory(const struct wire_request *request, const uint64_t *value)
{
	(void)request;
	return value[0] <= value[1] ? NULL : "more free memory than there is";
}

const char *reply_values_load(const struct wire_request *request, const uint64_t *value)
{
	(void)request;
	if (value[0] > WIRE_FUNCTIONS_MAX)
		return "an impossible number of functions";
	return value[1] <= 1 && (value[1] || !value[0]) ? NULL
							: "functions that it can't tell";
}

const char *reply_values_log(const struct wire_request *request, const uint64_t *value)
{
	if (value[1])
		return "a value that it has no use for";
	return value[0] <= request->length ? NULL : "more text than fits";
}

const char *reply_values_functions(const struct wire_request *request,
				   const uint64_t *value)
{
	if (!value[0] || value[0] > WIRE_FUNCTIONS_MAX - request->function)
		return "an impossible number of functions";
	return value[1] <= request->length ? NULL : "more records than fit";
}

const char *reply_values_find(const struct wire_request *request, const uint64_t *value)
{
	if (value[0] >= WIRE_FUNCTIONS_MAX)
		return "an impossible function";
	return value[1] <= request->length ? NULL : "a larger record than fits";
}

const char *reply_values_attributes(const struct wire_request *request,
				    const uint64_t *value)
{
	(void)request;
	return value[0] >> FUNCTION_N_ROWS || value[1] ? "attributes that don't exist"
						       : NULL;
}

const char *reply_values_file(const struct wire_request *request, const uint64_t *value)
{
	uint32_t end = WIRE_FILE_END(value[1]), error = WIRE_FILE_ERROR(value[1]);

	if (end >= N_WIRE_FILE_ENDS || !user_errno_is_good(error))
		return "an impossible end of a file";
	if (end == WIRE_FILE_OUT_OF_RANGE)
		return value[0] > INT64_MAX ? "a file of an impossible size" : NULL;
	return value[0] > request->length ? "more bytes than there are" : NULL;
}

/* value[0] is the kernel's time in nanoseconds. */
const char *reply_values_launch(const struct wire_request *request, const uint64_t *value)
{
	(void)request;
	return value[1] ? "a value that it has no use for" : NULL;
}
