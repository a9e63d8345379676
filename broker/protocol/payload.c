/* SPDX-License-Identifier: MIT */
#include "protocol/payload.h"

#include <string.h>

#include "base/user_errno.h"
#include "protocol/wire.h"

bool wire_place_is_good(uint64_t source, uint64_t length)
{
	return length <= INT64_MAX && source <= INT64_MAX - length;
}

struct wire_launch_parts wire_launch_parts(const void *payload)
{
	struct wire_launch_parts parts = { .launch = payload };

	parts.after = (const uint64_t *)(parts.launch + 1);
	parts.args = (const struct wire_arg *)(parts.after + parts.launch->n_after);
	parts.bytes = (const uint8_t *)(parts.args + parts.launch->n_args);
	return parts;
}

static const char *check_args(const struct wire_launch_parts *parts)
{
	for (uint32_t i = 0; i < parts->launch->n_args; i++) {
		const struct wire_arg *arg = &parts->args[i];

		if (arg->offset % 8 || !arg->size || arg->size > parts->launch->n_bytes ||
		    arg->offset > parts->launch->n_bytes - arg->size)
			return "an argument outside its bytes";
	}
	return NULL;
}

static const char *check_dimensions(const struct wire_launch *launch)
{
	for (int i = 0; i < 3; i++)
		if (!launch->grid[i] || !launch->block[i])
			return "a dimension of zero";
	return !launch->cluster[0] == !launch->cluster[1] &&
			       !launch->cluster[0] == !launch->cluster[2]
		       ? NULL
		       : "half a cluster";
}

const char *payload_check_launch(const struct wire_request *request, const void *payload)
{
	const struct wire_launch *launch = payload;
	struct wire_launch_parts parts;
	const char *wrong;

	if (launch->reserved)
		return "a field of its payload set that is reserved";
	if (launch->n_after > WIRE_AFTER_MAX || launch->n_args > WIRE_ARGS_MAX ||
	    launch->n_bytes > WIRE_ARGS_BYTES ||
	    request->length != sizeof(*launch) + launch->n_after * sizeof(uint64_t) +
				       launch->n_args * sizeof(struct wire_arg) +
				       launch->n_bytes)
		return "parts that don't add up to its payload";
	wrong = check_dimensions(launch);
	if (wrong)
		return wrong;
	parts = wire_launch_parts(payload);
	return check_args(&parts);
}

const char *payload_check_open(const struct wire_request *request, const void *payload)
{
	const struct wire_file_open *open = payload;
	size_t size = request->length - sizeof(*open);

	if (open->reserved)
		return "a field of its payload set that is reserved";
	if (open->mode > 0777 || (open->mode && !(request->flags & WIRE_TO_FILE)))
		return "an impossible mode";
	if (!open->length || !wire_place_is_good(request->source, open->length))
		return "a place behind the end of all files";
	return open->path[0] == '/' && strnlen(open->path, size) == size - 1
		       ? NULL
		       : "a path that is none";
}

const char *wire_check_told(const struct wire_file_told *told, uint64_t length)
{
	if (told->end >= N_WIRE_FILE_ENDS || !user_errno_is_good(told->error) ||
	    !told->process)
		return "an impossible end of a file";
	if (told->end == WIRE_FILE_DONE && told->bytes > length)
		return "more bytes than there are";
	return told->bytes > INT64_MAX ? "a file of an impossible size" : NULL;
}

const char *wire_check_piece(const struct wire_piece *piece, uint64_t size)
{
	if (!piece->length || piece->length > size || piece->place > size - piece->length)
		return "a range outside the lane's memory";
	return wire_place_is_good(piece->at, piece->length)
		       ? NULL
		       : "a place behind the end of all files";
}

const char *wire_check_piece_told(const struct wire_piece_told *told, uint64_t length)
{
	if (!user_errno_is_good(told->error))
		return "an impossible error";
	return told->moved > length || (!told->error && told->moved != length)
		       ? "a wrong length"
		       : NULL;
}
