/* SPDX-License-Identifier: MIT */
/*
 * The rules of the wire, checked on both sides from one table.
 *
 * A row names the fields of an operation; all other fields must be zero. Each field has a
 * check that holds for every operation. Checks for a single operation are a function in
 * its row. The values of a reply are zero unless its row has a function (reply_values.h).
 *
 * Neither side trusts the other. The broker refuses to send a malformed request, and ends
 * a worker after a malformed reply. A worker exits after a malformed request. This file
 * keeps no state and touches no descriptor.
 */
#include "protocol/wire.h"

#include "base/user_errno.h"
#include "cuda/driver.h"
#include "protocol/payload.h"
#include "protocol/reply_values.h"

#include <gpumem/function.h>

enum field {
	FLAGS,
	DEVICE,
	SOURCE_DEVICE,
	STREAM,
	PRIORITY,
	ADDRESS,
	SOURCE,
	LENGTH,
	OFFSET,
	PATTERN,
	PATTERN_SIZE,
	MODULE,
	FUNCTION,
	LOCATION,
	ADVICE,
	PAYER,
	N_FIELDS,
};

#define USES(field) (1u << (field))

struct op {
	const char *name;
	unsigned int fields; /* USES() of fields that may be nonzero */
	uint32_t flags;	     /* permitted flags */
	uint32_t staged;     /* bytes at OFFSET; 0: LENGTH */
	bool has_fd;
	bool has_payload;
	bool ordered;  /* finished before the next request is received */
	bool urgent;   /* sent by the second socket */
	bool has_text; /* an error may have text behind it */
	const char *(*check)(const struct wire_request *request);
	const char *(*check_payload)(const struct wire_request *request,
				     const void *payload);
	const char *(*check_values)(const struct wire_request *request,
				    const uint64_t *value);
};

static bool ranges_overlap(uint64_t a, uint64_t b, uint64_t length)
{
	return a < b + length && b < a + length;
}

static bool range_is_within(uint64_t address, uint64_t length, uint64_t base,
			    uint64_t span)
{
	return wire_range_is_good(address, length) && address >= base && length <= span &&
	       address - base <= span - length;
}

bool wire_is_host(uint64_t address, uint64_t length)
{
	return range_is_within(address, length, WIRE_HOST_BASE, WIRE_HOST_SPAN);
}

int wire_device_of(uint64_t address, uint64_t length)
{
	uint64_t device;

	if (address < WIRE_DEVICE_BASE)
		return -1;
	device = (address - WIRE_DEVICE_BASE) / WIRE_DEVICE_SPAN;
	if (device >= WIRE_DEVICES_MAX)
		return -1;
	return range_is_within(address, length,
			       WIRE_DEVICE_BASE + device * WIRE_DEVICE_SPAN,
			       WIRE_DEVICE_SPAN)
		       ? (int)device
		       : -1;
}

static const char *check_device_range(const struct wire_request *request)
{
	return wire_device_of(request->address, request->length) == (int)request->device
		       ? NULL
		       : "an address outside its device's range";
}

static const char *check_host_range(const struct wire_request *request)
{
	return wire_is_host(request->address, request->length)
		       ? NULL
		       : "an address outside the range of host memory";
}

static const char *check_user_stream(const struct wire_request *request)
{
	return request->stream ? NULL : "no stream";
}

static const char *check_alloc(const struct wire_request *request)
{
	if (request->stream && !(request->flags & WIRE_ASYNC))
		return "a stream without WIRE_ASYNC";
	if ((request->flags & WIRE_ASYNC) && (request->flags & WIRE_MANAGED))
		return "two kinds of memory";
	if ((request->flags & WIRE_ATTACH_HOST) && !(request->flags & WIRE_MANAGED))
		return "WIRE_ATTACH_HOST without WIRE_MANAGED";
	return NULL;
}

static const char *check_free(const struct wire_request *request)
{
	if (!request->address)
		return "no address";
	return check_alloc(request);
}

static const char *check_range(const struct wire_request *request)
{
	return wire_range_is_good(request->address, request->length) ? NULL
								     : "a bad range";
}

static const char *check_transfer(const struct wire_request *request)
{
	if (request->length > WIRE_TRANSFER_MAX)
		return "a length above WIRE_TRANSFER_MAX";
	return check_range(request);
}

static const char *check_copy(const struct wire_request *request)
{
	if (!wire_range_is_good(request->source, request->length))
		return "a bad source range";
	if (ranges_overlap(request->address, request->source, request->length))
		return "a source that overlaps what it is copied to";
	return check_range(request);
}

static const char *check_fill(const struct wire_request *request)
{
	switch (request->pattern_size) {
	case 1:
	case 2:
	case 4:
		if (request->pattern >> (8 * request->pattern_size))
			return "a pattern wider than its size";
		break;
	case 8:
		break;
	default:
		return "a bad pattern size";
	}
	return check_range(request);
}

static const char *check_prefetch(const struct wire_request *request)
{
	if (!request->location || !wire_location_is_good(request->location))
		return "no location to move to";
	return check_range(request);
}

/* By advice: permitted locations. */
static const unsigned int advice_places[N_WIRE_ADVICES] = {
	[WIRE_SET_READ_MOSTLY] = 1u << LOCATION_NONE,
	[WIRE_UNSET_READ_MOSTLY] = 1u << LOCATION_NONE,
	[WIRE_SET_PREFERRED_LOCATION] =
		1u << LOCATION_CPU | 1u << LOCATION_NUMA | 1u << LOCATION_DEVICE,
	[WIRE_UNSET_PREFERRED_LOCATION] = 1u << LOCATION_NONE,
	[WIRE_SET_ACCESSED_BY] = 1u << LOCATION_CPU | 1u << LOCATION_DEVICE,
	[WIRE_UNSET_ACCESSED_BY] = 1u << LOCATION_CPU | 1u << LOCATION_DEVICE,
};

static const char *check_advise(const struct wire_request *request)
{
	if (request->advice >= N_WIRE_ADVICES || !advice_places[request->advice])
		return "no such advice";
	if (!wire_location_is_good(request->location) ||
	    !(advice_places[request->advice] &
	      1u << location_place((uint16_t)request->location)))
		return "a location that its advice can't be about";
	return check_range(request);
}

static const char *check_attach(const struct wire_request *request)
{
	if (!request->address)
		return "no address";
	if ((request->flags & WIRE_ATTACH_HOST) && (request->flags & WIRE_ATTACH_STREAM))
		return "two things to attach it to";
	if ((request->flags & WIRE_ATTACH_STREAM) && !request->stream)
		return "no stream";
	return NULL;
}

static const char *check_launch(const struct wire_request *request)
{
	if (!request->stream)
		return "no stream";
	return request->length >= sizeof(struct wire_launch) &&
			       request->length <= WIRE_PAYLOAD_MAX
		       ? NULL
		       : "an impossible payload";
}

static const char *check_attributes(const struct wire_request *request)
{
	return request->length >= FUNCTION_N_ROWS * sizeof(int64_t) ? NULL
								    : "too little room";
}

static const char *check_file(const struct wire_request *request)
{
	if (request->offset % _Alignof(struct wire_file))
		return "a file's record out of line";
	if (!wire_place_is_good(request->source, request->length))
		return "a place behind the end of all files";
	return check_range(request);
}

static const char *check_file_open(const struct wire_request *request)
{
	if (request->flags == (WIRE_TO_END | WIRE_TO_FILE) ||
	    (request->flags == WIRE_TO_FILE && request->source))
		return "a file both loaded and saved";
	return request->length > sizeof(struct wire_file_open) &&
			       request->length <=
				       sizeof(struct wire_file_open) + WIRE_PATH_SIZE
		       ? NULL
		       : "an impossible payload";
}

#define USES_RANGE    (USES(DEVICE) | USES(ADDRESS) | USES(LENGTH))
#define USES_TRANSFER (USES_RANGE | USES(STREAM) | USES(PAYER))
#define USES_MODULE   (USES(DEVICE) | USES(MODULE) | USES(LENGTH) | USES(OFFSET))

static const struct op ops[] = {
	[WIRE_HELLO] = {
		.name = "hello",
		.fields = USES(FLAGS),
		.flags = WIRE_FILES,
		.ordered = true,
		.check_values = reply_values_hello,
	},
	[WIRE_MAP] = {
		.name = "map",
		.fields = USES_RANGE | USES(FLAGS),
		.flags = WIRE_READ_ONLY,
		.has_fd = true,
		.ordered = true,
		.check = check_device_range,
	},
	[WIRE_UNMAP] = {
		.name = "unmap",
		.fields = USES_RANGE,
		.ordered = true,
		.check = check_device_range,
	},
	[WIRE_MAP_HOST] = {
		.name = "map_host",
		.fields = USES(ADDRESS) | USES(LENGTH) | USES(FLAGS),
		.flags = WIRE_READ_ONLY,
		.has_fd = true,
		.ordered = true,
		.check = check_host_range,
	},
	[WIRE_UNMAP_HOST] = {
		.name = "unmap_host",
		.fields = USES(ADDRESS) | USES(LENGTH),
		.check = check_host_range,
	},
	[WIRE_STREAM_CREATE] = {
		.name = "stream_create",
		.fields = USES(DEVICE) | USES(STREAM) | USES(PRIORITY),
		.ordered = true,
		.check = check_user_stream,
	},
	[WIRE_STREAM_DESTROY] = {
		.name = "stream_destroy",
		.fields = USES(DEVICE) | USES(STREAM),
		.ordered = true,
		.check = check_user_stream,
	},
	[WIRE_ALLOC] = {
		.name = "alloc",
		.fields = USES(DEVICE) | USES(LENGTH) | USES(FLAGS) | USES(STREAM),
		.flags = WIRE_ASYNC | WIRE_MANAGED | WIRE_ATTACH_HOST,
		.check = check_alloc,
		.check_values = reply_values_alloc,
	},
	[WIRE_FREE] = {
		.name = "free",
		.fields = USES(DEVICE) | USES(ADDRESS) | USES(FLAGS) | USES(STREAM),
		.flags = WIRE_ASYNC,
		.check = check_free,
	},
	[WIRE_READ] = {
		.name = "read",
		.fields = USES_TRANSFER | USES(OFFSET) | USES(FLAGS),
		.flags = WIRE_BY_CPU,
		.check = check_transfer,
	},
	[WIRE_WRITE] = {
		.name = "write",
		.fields = USES_TRANSFER | USES(OFFSET) | USES(FLAGS),
		.flags = WIRE_BY_CPU,
		.check = check_transfer,
	},
	[WIRE_COPY] = {
		.name = "copy",
		.fields = USES_TRANSFER | USES(SOURCE) | USES(SOURCE_DEVICE),
		.check = check_copy,
	},
	[WIRE_FILL] = {
		.name = "fill",
		.fields = USES_TRANSFER | USES(FLAGS) | USES(PATTERN) | USES(PATTERN_SIZE),
		.flags = WIRE_STAY | WIRE_BY_CPU,
		.check = check_fill,
	},
	[WIRE_MEMORY] = {
		.name = "memory",
		.fields = USES(DEVICE),
		.check_values = reply_values_memory,
	},
	[WIRE_MODULE_LOAD] = {
		.name = "module_load",
		.fields = USES(DEVICE) | USES(MODULE),
		.has_fd = true,
		.check_values = reply_values_load,
	},
	[WIRE_MODULE_UNLOAD] = {
		.name = "module_unload",
		.fields = USES(DEVICE) | USES(MODULE),
	},
	[WIRE_MODULE_LOG] = {
		.name = "module_log",
		.fields = USES_MODULE,
		.check_values = reply_values_log,
	},
	[WIRE_MODULE_FUNCTIONS] = {
		.name = "module_functions",
		.fields = USES_MODULE | USES(FUNCTION),
		.check_values = reply_values_functions,
	},
	[WIRE_MODULE_FIND] = {
		.name = "module_find",
		.fields = USES_MODULE,
		.check_values = reply_values_find,
	},
	[WIRE_FUNCTION_ATTRIBUTES] = {
		.name = "function_attributes",
		.fields = USES_MODULE | USES(FUNCTION),
		.check = check_attributes,
		.check_values = reply_values_attributes,
	},
	[WIRE_PREFETCH] = {
		.name = "prefetch",
		.fields = USES_RANGE | USES(STREAM) | USES(LOCATION),
		.check = check_prefetch,
	},
	[WIRE_ADVISE] = {
		.name = "advise",
		.fields = USES_RANGE | USES(LOCATION) | USES(ADVICE),
		.check = check_advise,
	},
	[WIRE_ATTACH] = {
		.name = "attach",
		.fields = USES(DEVICE) | USES(ADDRESS) | USES(FLAGS) | USES(STREAM),
		.flags = WIRE_ATTACH_HOST | WIRE_ATTACH_STREAM,
		.check = check_attach,
	},
	[WIRE_RANGE] = {
		.name = "range",
		.fields = USES_RANGE,
		.check = check_range,
		.check_values = reply_values_range,
	},
	[WIRE_SAVE] = {
		.name = "save",
		.fields = USES(ADDRESS) | USES(LENGTH) | USES(SOURCE),
		.has_fd = true,
		.urgent = true,
		.check = check_range,
	},
	[WIRE_RESTORE] = {
		.name = "restore",
		.fields = USES(ADDRESS) | USES(LENGTH) | USES(SOURCE),
		.has_fd = true,
		.check = check_range,
	},
	[WIRE_LAUNCH] = {
		.name = "launch",
		.fields = USES(DEVICE) | USES(STREAM) | USES(LENGTH) | USES(FLAGS) |
			  USES(MODULE) | USES(FUNCTION),
		.flags = WIRE_COOPERATIVE,
		.has_payload = true,
		.has_text = true,
		.check = check_launch,
		.check_payload = payload_check_launch,
		.check_values = reply_values_launch,
	},
	[WIRE_FILE_OPEN] = {
		.name = "file_open",
		.fields = USES(SOURCE) | USES(LENGTH) | USES(FLAGS),
		.flags = WIRE_TO_END | WIRE_TO_FILE,
		.has_fd = true,
		.has_payload = true,
		.check = check_file_open,
		.check_payload = payload_check_open,
	},
	[WIRE_FILE_LOAD] = {
		.name = "file_load",
		.fields = USES_RANGE | USES(SOURCE) | USES(OFFSET),
		.has_fd = true,
		.staged = sizeof(struct wire_file),
		.check = check_file,
		.check_values = reply_values_file,
	},
	[WIRE_FILE_SAVE] = {
		.name = "file_save",
		.fields = USES_RANGE | USES(SOURCE) | USES(OFFSET),
		.has_fd = true,
		.staged = sizeof(struct wire_file),
		.check = check_file,
		.check_values = reply_values_file,
	},
};

_Static_assert(ARRAY_SIZE(ops) == WIRE_OP_END_, "one row an operation");

static const struct op *op_find(uint32_t op)
{
	return op < ARRAY_SIZE(ops) && ops[op].name ? &ops[op] : NULL;
}

const char *wire_op_name(uint32_t op)
{
	const struct op *row = op_find(op);

	return row ? row->name : "";
}

bool wire_op_has_payload(uint32_t op)
{
	const struct op *row = op_find(op);

	return row && row->has_payload;
}

bool wire_op_is_ordered(uint32_t op)
{
	const struct op *row = op_find(op);

	return row && row->ordered;
}

bool wire_op_has_payer(uint32_t op)
{
	const struct op *row = op_find(op);

	return row && row->fields & USES(PAYER);
}

bool wire_op_is_urgent(uint32_t op)
{
	const struct op *row = op_find(op);

	return row && row->urgent;
}

/* USES() of the nonzero fields. */
static unsigned int fields_set(const struct wire_request *request)
{
	const bool set[N_FIELDS] = {
		[FLAGS] = request->flags,
		[DEVICE] = request->device,
		[SOURCE_DEVICE] = request->source_device,
		[STREAM] = request->stream,
		[PRIORITY] = request->priority,
		[ADDRESS] = request->address,
		[SOURCE] = request->source,
		[LENGTH] = request->length,
		[OFFSET] = request->offset,
		[PATTERN] = request->pattern,
		[PATTERN_SIZE] = request->pattern_size,
		[MODULE] = request->module,
		[FUNCTION] = request->function,
		[LOCATION] = request->location,
		[ADVICE] = request->advice,
		[PAYER] = request->payer,
	};
	unsigned int fields = 0;

	for (unsigned int i = 0; i < N_FIELDS; i++)
		if (set[i])
			fields |= USES(i);
	return fields;
}

const char *wire_check_request(const struct wire_request *request, bool has_fd,
			       uint64_t staging_size)
{
	const struct op *op = op_find(request->op);
	uint64_t staged;

	if (!op)
		return "no such operation";
	staged = op->staged ? op->staged : request->length;
	if (op->has_fd != has_fd)
		return has_fd ? "a descriptor that it has no use for" : "no descriptor";
	if (fields_set(request) & ~op->fields)
		return "a field set that it has no use for";
	if (request->flags & ~op->flags)
		return "a flag that it does not know";
	if (request->device >= WIRE_DEVICES_MAX ||
	    request->source_device >= WIRE_DEVICES_MAX)
		return "an impossible device";
	if (request->stream >= WIRE_STREAMS_MAX)
		return "an impossible stream";
	if ((op->fields & USES(MODULE)) && !request->module)
		return "no module";
	if (request->function >= WIRE_FUNCTIONS_MAX)
		return "an impossible function";
	if ((op->fields & USES(LENGTH)) && !request->length)
		return "no length";
	if ((op->fields & USES(OFFSET)) &&
	    (staged > staging_size || request->offset > staging_size - staged))
		return "a range outside the staging area";
	return op->check ? op->check(request) : NULL;
}

const char *wire_check_payload(const struct wire_request *request, const void *payload)
{
	return ops[request->op].check_payload(request, payload);
}

static const char *check_error(const struct wire_reply *reply)
{
	if (!user_errno_is_good((uint32_t)reply->error))
		return "an impossible error";
	if (reply->call < -1 || reply->call >= CUDA_N_CALLS)
		return "a call that does not exist";
	if (!reply->error && reply->call != -1)
		return "a failed call and no error";
	if ((reply->call == -1) != (reply->result == 0))
		return "a call and a result that don't go together";
	return NULL;
}

bool wire_op_has_text(uint32_t op)
{
	const struct op *row = op_find(op);

	return row && row->has_text;
}

const char *wire_check_reply(const struct wire_request *request,
			     const struct wire_reply *reply, size_t n_text)
{
	const struct op *op = op_find(request->op);
	const char *wrong;

	if (n_text && (!reply->error || !op || !op->has_text))
		return "text that it has no use for";
	if (reply->reserved)
		return "a field set that is reserved";
	wrong = check_error(reply);
	if (wrong)
		return wrong;
	if (!reply->error && op && op->check_values)
		return op->check_values(request, reply->value);
	if (reply->value[0] || reply->value[1])
		return "a value that it has no use for";
	return NULL;
}
