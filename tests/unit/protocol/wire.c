/* SPDX-License-Identifier: MIT */
/* A well-formed record for each operation; each test spoils a single field. */
#include "protocol/wire.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#define STAGING (4u << 20)

static const struct wire_request good[] = {
	[WIRE_HELLO] = { .op = WIRE_HELLO },
	[WIRE_MAP] = { .op = WIRE_MAP,
		       .device = 1,
		       .flags = WIRE_READ_ONLY,
		       .address = WIRE_DEVICE_BASE + WIRE_DEVICE_SPAN,
		       .length = 4096 },
	[WIRE_UNMAP] = { .op = WIRE_UNMAP, .address = WIRE_DEVICE_BASE, .length = 4096 },
	[WIRE_MAP_HOST] = { .op = WIRE_MAP_HOST,
			    .address = WIRE_HOST_BASE,
			    .length = 4096 },
	[WIRE_UNMAP_HOST] = { .op = WIRE_UNMAP_HOST,
			      .address = WIRE_HOST_BASE,
			      .length = 4096 },
	[WIRE_STREAM_CREATE] = { .op = WIRE_STREAM_CREATE, .stream = 1, .priority = -5 },
	[WIRE_STREAM_DESTROY] = { .op = WIRE_STREAM_DESTROY, .stream = 1 },
	[WIRE_ALLOC] = { .op = WIRE_ALLOC,
			 .flags = WIRE_ASYNC,
			 .stream = 1,
			 .length = 1 },
	[WIRE_FREE] = { .op = WIRE_FREE, .address = 0x1000 },
	[WIRE_READ] = { .op = WIRE_READ,
			.address = WIRE_DEVICE_BASE,
			.length = 10,
			.offset = STAGING - 10,
			.payer = UINT32_MAX },
	[WIRE_WRITE] = { .op = WIRE_WRITE,
			 .address = WIRE_DEVICE_BASE,
			 .length = WIRE_TRANSFER_MAX },
	[WIRE_COPY] = { .op = WIRE_COPY,
			.device = 1,
			.source_device = 2,
			.address = 0x2000,
			.source = 0x1000,
			.length = 0x1000 },
	[WIRE_FILL] = { .op = WIRE_FILL,
			.address = 0x1001,
			.length = 7,
			.pattern = 0xffff,
			.pattern_size = 2 },
	[WIRE_MEMORY] = { .op = WIRE_MEMORY, .device = WIRE_DEVICES_MAX - 1 },
	[WIRE_MODULE_LOAD] = { .op = WIRE_MODULE_LOAD, .module = 1 },
	[WIRE_MODULE_UNLOAD] = { .op = WIRE_MODULE_UNLOAD, .module = UINT32_MAX },
	[WIRE_MODULE_LOG] = { .op = WIRE_MODULE_LOG, .module = 1, .length = 1 },
	[WIRE_MODULE_FUNCTIONS] = { .op = WIRE_MODULE_FUNCTIONS,
				    .module = 1,
				    .function = WIRE_FUNCTIONS_MAX - 1,
				    .length = 4096 },
	[WIRE_MODULE_FIND] = { .op = WIRE_MODULE_FIND, .module = 1, .length = 4096 },
	[WIRE_FUNCTION_ATTRIBUTES] = { .op = WIRE_FUNCTION_ATTRIBUTES,
				       .module = 1,
				       .length = 4096,
				       .offset = STAGING - 4096 },
	[WIRE_PREFETCH] = { .op = WIRE_PREFETCH,
			    .stream = 1,
			    .address = 0x1001,
			    .length = 1,
			    .location = LOCATION_DEVICE << 12 | 1 },
	[WIRE_ADVISE] = { .op = WIRE_ADVISE,
			  .address = 0x1000,
			  .length = 4096,
			  .location = LOCATION_NUMA << 12 | LOCATION_NUMBER_MAX,
			  .advice = WIRE_SET_PREFERRED_LOCATION },
	[WIRE_ATTACH] = { .op = WIRE_ATTACH,
			  .flags = WIRE_ATTACH_STREAM,
			  .stream = 1,
			  .address = 0x1000 },
	[WIRE_RANGE] = { .op = WIRE_RANGE, .address = 0x1000, .length = 8192 },
	[WIRE_SAVE] = { .op = WIRE_SAVE, .address = 0x1000, .length = 1, .source = 4096 },
	[WIRE_RESTORE] = { .op = WIRE_RESTORE, .address = 0x1000, .length = 1 },
	[WIRE_LAUNCH] = { .op = WIRE_LAUNCH,
			  .flags = WIRE_COOPERATIVE,
			  .stream = 1,
			  .module = 1,
			  .length = sizeof(struct wire_launch) },
	[WIRE_FILE_OPEN] = { .op = WIRE_FILE_OPEN,
			     .flags = WIRE_TO_END,
			     .source = 1ull << 40,
			     .length = sizeof(struct wire_file_open) + 3 },
	[WIRE_FILE_LOAD] = { .op = WIRE_FILE_LOAD,
			     .address = WIRE_DEVICE_BASE,
			     .source = 1ull << 40,
			     .length = 1ull << 32,
			     .offset = STAGING - sizeof(struct wire_file) },
	[WIRE_FILE_SAVE] = { .op = WIRE_FILE_SAVE,
			     .address = WIRE_DEVICE_BASE,
			     .length = 1ull << 32,
			     .offset = 4096 },
};

static bool is_good(struct wire_request request)
{
	return !wire_check_request(&request, false, STAGING) ||
	       !wire_check_request(&request, true, STAGING);
}

static bool reply_is_good(uint32_t op, struct wire_reply reply)
{
	return !wire_check_reply(&good[op], &reply, 0);
}

/* The record of an operation, with changes. */
#define BAD(which, ...)                                    \
	do {                                               \
		struct wire_request request = good[which]; \
		__VA_ARGS__;                               \
		cr_assert(not(is_good(request)));          \
	} while (0)

Test(wire, every_operation_has_a_good_request)
{
	for (uint32_t op = WIRE_HELLO; op < WIRE_OP_END_; op++) {
		cr_assert(is_good(good[op]), "%s", wire_op_name(op));
		cr_assert(ne(str, (char *)wire_op_name(op), ""));
	}
}

Test(wire, unknown_operations_are_refused)
{
	cr_assert(not(is_good((struct wire_request){ .op = 0 })));
	cr_assert(not(is_good((struct wire_request){ .op = WIRE_OP_END_ })));
	cr_assert(not(is_good((struct wire_request){ .op = UINT32_MAX })));
}

Test(wire, descriptor_is_demanded_and_refused)
{
	cr_assert(ne(ptr, (void *)wire_check_request(&good[WIRE_MAP], false, STAGING),
		     NULL));
	cr_assert(ne(ptr, (void *)wire_check_request(&good[WIRE_READ], true, STAGING),
		     NULL));
}

Test(wire, unused_fields_are_refused)
{
	BAD(WIRE_MEMORY, request.payer = 1);
	BAD(WIRE_MEMORY, request.length = 1);
	BAD(WIRE_MEMORY, request.address = 1);
	BAD(WIRE_READ, request.source = 1);
	BAD(WIRE_READ, request.flags = WIRE_ASYNC);
	BAD(WIRE_FREE, request.length = 1);
	BAD(WIRE_COPY, request.pattern_size = 1);
	BAD(WIRE_STREAM_DESTROY, request.priority = 1);
	BAD(WIRE_MAP_HOST, request.device = 1);
}

Test(wire, impossible_modules_and_functions_are_refused)
{
	BAD(WIRE_MODULE_LOAD, request.module = 0);
	BAD(WIRE_MODULE_LOAD, request.function = 1);
	BAD(WIRE_MODULE_LOG, request.module = 0);
	BAD(WIRE_MODULE_FUNCTIONS, request.function = WIRE_FUNCTIONS_MAX);
	BAD(WIRE_MODULE_FUNCTIONS, request.length = STAGING + 1);
	BAD(WIRE_FUNCTION_ATTRIBUTES, request.length = 8);
	BAD(WIRE_MEMORY, request.module = 1);
}

Test(wire, answers_about_functions_that_cannot_be_are_refused)
{
	static const struct {
		uint32_t op;
		uint64_t value[2];
	} bad[] = {
		{ WIRE_MODULE_LOAD, { WIRE_FUNCTIONS_MAX + 1, 1 } },
		{ WIRE_MODULE_LOAD, { 1, 0 } },
		{ WIRE_MODULE_LOAD, { 1, 2 } },
		{ WIRE_MODULE_UNLOAD, { 1, 0 } },
		{ WIRE_MODULE_LOG, { 2, 0 } },
		{ WIRE_MODULE_LOG, { 0, 1 } },
		{ WIRE_MODULE_FUNCTIONS, { 0, 0 } },
		{ WIRE_MODULE_FUNCTIONS, { 2, 16 } },
		{ WIRE_MODULE_FUNCTIONS, { 1, 4097 } },
		{ WIRE_MODULE_FIND, { WIRE_FUNCTIONS_MAX, 16 } },
		{ WIRE_MODULE_FIND, { 0, 4097 } },
		{ WIRE_FUNCTION_ATTRIBUTES, { 1ull << 63, 0 } },
		{ WIRE_FUNCTION_ATTRIBUTES, { 1, 1 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct wire_reply reply = { .call = -1 };

		memcpy(reply.value, bad[i].value, sizeof(reply.value));
		cr_expect(not(reply_is_good(bad[i].op, reply)), "row %zu", i);
	}
	cr_assert(reply_is_good(WIRE_MODULE_LOAD,
				(struct wire_reply){ .call = -1, .value = { 3, 1 } }));
	cr_assert(reply_is_good(WIRE_MODULE_FUNCTIONS,
				(struct wire_reply){ .call = -1, .value = { 1, 64 } }));
}

Test(wire, what_managed_memory_cannot_have_is_refused)
{
	BAD(WIRE_ALLOC, request.flags |= WIRE_MANAGED);
	BAD(WIRE_ALLOC, request.flags |= WIRE_ATTACH_HOST);
	BAD(WIRE_PREFETCH, request.location = LOCATION_NONE);
	BAD(WIRE_PREFETCH, request.location = LOCATION_CPU << 12 | 1);
	BAD(WIRE_PREFETCH, request.location = LOCATION_DEVICE << 12 | WIRE_DEVICES_MAX);
	BAD(WIRE_PREFETCH, request.location = N_LOCATION_PLACES << 12);
	BAD(WIRE_PREFETCH, request.location |= 1u << 16);
	BAD(WIRE_PREFETCH, request.advice = WIRE_SET_READ_MOSTLY);
	BAD(WIRE_ADVISE, request.advice = 0);
	BAD(WIRE_ADVISE, request.advice = N_WIRE_ADVICES);
	BAD(WIRE_ADVISE, request.advice = WIRE_SET_ACCESSED_BY);
	BAD(WIRE_ADVISE, request.advice = WIRE_SET_READ_MOSTLY);
	BAD(WIRE_ADVISE, request.location = LOCATION_NONE);
	BAD(WIRE_ATTACH, request.stream = 0);
	BAD(WIRE_ATTACH, request.flags |= WIRE_ATTACH_HOST);
	BAD(WIRE_ATTACH, request.address = 0);
	BAD(WIRE_RANGE, request.address = UINT64_MAX - 4096);
}

Test(wire, answers_about_ranges_that_cannot_be_are_refused)
{
	static const uint64_t bad[][2] = {
		{ 0, 0 },
		{ 0, 8193 },
		{ 1ull << 49, 8192 },
		{ 1, 8192 },
		{ N_LOCATION_PLACES << 12, 8192 },
		{ (uint64_t)(LOCATION_DEVICE << 12 | WIRE_DEVICES_MAX) << 16, 8192 },
	};
	const uint64_t good_value =
		LOCATION_DEVICE << 12 | 3 | (uint64_t)LOCATION_CPU << 28 |
		(uint64_t)LOCATION_SET_CPU << 32 | WIRE_RANGE_READ_MOSTLY;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct wire_reply reply = { .call = -1,
					    .value = { bad[i][0], bad[i][1] } };

		cr_expect(not(reply_is_good(WIRE_RANGE, reply)), "row %zu", i);
	}
	cr_assert(reply_is_good(
		WIRE_RANGE,
		(struct wire_reply){ .call = -1, .value = { good_value, 8192 } }));
	cr_assert(eq(u32, WIRE_RANGE_PREFERRED(good_value), LOCATION_DEVICE << 12 | 3));
	cr_assert(eq(u32, WIRE_RANGE_PREFETCHED(good_value), LOCATION_CPU << 12));
	cr_assert(eq(u32, WIRE_RANGE_ACCESSED_BY(good_value), LOCATION_SET_CPU));
}

Test(wire, files_have_their_record_in_the_staging_area)
{
	BAD(WIRE_FILE_LOAD, request.offset += 8);
	BAD(WIRE_FILE_LOAD, request.offset -= 1);
	BAD(WIRE_FILE_LOAD, request.source = INT64_MAX);
	BAD(WIRE_FILE_LOAD, request.length = 0);
	BAD(WIRE_FILE_LOAD, request.address = UINT64_MAX - 4096);
	BAD(WIRE_FILE_SAVE, request.flags = WIRE_TO_END);
	BAD(WIRE_FILE_SAVE, request.stream = 1);
}

static bool is_wrong(const char *complaint)
{
	return complaint && *complaint;
}

static bool is_right(const char *complaint)
{
	return !complaint;
}

Test(wire, a_file_is_loaded_or_saved_and_has_a_path)
{
	const struct wire_request *open = &good[WIRE_FILE_OPEN];
	struct {
		struct wire_file_open open;
		char path[4];
	} good_payload = { { .length = 5 }, "/f" }, payload;

	BAD(WIRE_FILE_OPEN, request.flags |= WIRE_TO_FILE);
	BAD(WIRE_FILE_OPEN, request.flags = WIRE_TO_FILE);
	BAD(WIRE_FILE_OPEN, request.length = sizeof(struct wire_file_open));
	BAD(WIRE_FILE_OPEN, request.length += WIRE_PATH_SIZE);
	BAD(WIRE_FILE_OPEN, request.offset = 8);
	cr_assert(is_right(wire_check_payload(open, &good_payload)));
#define BAD_OPEN(...)                                                    \
	do {                                                             \
		payload = good_payload;                                  \
		__VA_ARGS__;                                             \
		cr_assert(is_wrong(wire_check_payload(open, &payload))); \
	} while (0)
	BAD_OPEN(payload.open.length = 0);
	BAD_OPEN(payload.open.length = INT64_MAX);
	BAD_OPEN(payload.open.mode = 0600);
	BAD_OPEN(payload.open.reserved = 1);
	BAD_OPEN(payload.open.path[0] = 'f');
	BAD_OPEN(payload.open.path[1] = '\0');
	BAD_OPEN(payload.open.path[2] = 'g');
}

Test(wire, what_a_process_of_files_cannot_tell_is_refused)
{
	const struct wire_file_told told = { .bytes = 10, .process = 1 };
	const struct wire_piece piece = { .at = 4096, .length = 8, .place = 8 };
	const struct wire_piece_told moved = { .moved = 8 };
	struct wire_file_told bad = told;

	cr_assert(is_right(wire_check_told(&told, 10)));
	cr_assert(is_wrong(wire_check_told(&told, 9)));
	bad.process = 0;
	cr_assert(is_wrong(wire_check_told(&bad, 10)));
	bad = told;
	bad.end = N_WIRE_FILE_ENDS;
	cr_assert(is_wrong(wire_check_told(&bad, 10)));
	bad.end = WIRE_FILE_NOT_OPENED;
	bad.error = 4096;
	cr_assert(is_wrong(wire_check_told(&bad, 10)));
	cr_assert(is_right(wire_check_piece(&piece, 16)));
	cr_assert(is_wrong(wire_check_piece(&piece, 15)));
	cr_assert(is_wrong(wire_check_piece(&(struct wire_piece){ .length = 0 }, 16)));
	cr_assert(is_wrong(wire_check_piece(
		&(struct wire_piece){ .length = 8, .place = UINT32_MAX - 3 }, 16)));
	cr_assert(is_wrong(wire_check_piece(
		&(struct wire_piece){ .length = 8, .at = INT64_MAX }, 16)));
	cr_assert(is_right(wire_check_piece_told(&moved, 8)));
	cr_assert(is_wrong(wire_check_piece_told(&moved, 9)));
	cr_assert(is_wrong(wire_check_piece_told(&moved, 7)));
	cr_assert(is_right(wire_check_piece_told(
		&(struct wire_piece_told){ .moved = 7, .error = ENODATA }, 8)));
}

Test(wire, answers_about_files_that_cannot_be_are_refused)
{
	static const uint64_t length = 1ull << 32;
	static const uint64_t bad[][2] = {
		{ length + 1, WIRE_FILE_ENDED(WIRE_FILE_DONE, 0) },
		{ 0, WIRE_FILE_ENDED(N_WIRE_FILE_ENDS, 0) },
		{ 0, WIRE_FILE_ENDED(WIRE_FILE_NOT_OPENED, 4096) },
		{ UINT64_MAX, WIRE_FILE_ENDED(WIRE_FILE_OUT_OF_RANGE, ERANGE) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct wire_reply reply = { .call = -1,
					    .value = { bad[i][0], bad[i][1] } };

		cr_expect(not(reply_is_good(WIRE_FILE_LOAD, reply)), "row %zu", i);
	}
	cr_assert(reply_is_good(
		WIRE_FILE_LOAD,
		(struct wire_reply){
			.call = -1,
			.value = { length,
				   WIRE_FILE_ENDED(WIRE_FILE_NOT_MOVED, EIO) } }));
	cr_assert(reply_is_good(
		WIRE_FILE_LOAD,
		(struct wire_reply){
			.call = -1,
			.value = { length + 1,
				   WIRE_FILE_ENDED(WIRE_FILE_OUT_OF_RANGE, ERANGE) } }));
}

Test(wire, unknown_flags_are_refused)
{
	BAD(WIRE_MAP, request.flags = WIRE_ASYNC);
	BAD(WIRE_ALLOC, request.flags = 1u << 31);
}

Test(wire, impossible_devices_and_streams_are_refused)
{
	BAD(WIRE_MEMORY, request.device = WIRE_DEVICES_MAX);
	BAD(WIRE_COPY, request.source_device = WIRE_DEVICES_MAX);
	BAD(WIRE_STREAM_CREATE, request.stream = WIRE_STREAMS_MAX);
	BAD(WIRE_STREAM_CREATE, request.stream = 0);
	BAD(WIRE_ALLOC, request.flags = 0);
}

Test(wire, mapping_outside_its_range_is_refused)
{
	BAD(WIRE_MAP, request.device = 0);
	BAD(WIRE_MAP, request.address = WIRE_HOST_BASE);
	BAD(WIRE_MAP, request.length = WIRE_DEVICE_SPAN + 1);
	BAD(WIRE_UNMAP, request.address = WIRE_DEVICE_BASE - 1);
	BAD(WIRE_MAP_HOST, request.address = WIRE_HOST_BASE - 4096);
	BAD(WIRE_MAP_HOST, request.length = WIRE_HOST_SPAN + 1);
	BAD(WIRE_MAP_HOST, request.length = UINT64_MAX);
}

Test(wire, transfer_outside_the_staging_area_is_refused)
{
	BAD(WIRE_READ, request.offset++);
	BAD(WIRE_READ, request.offset = UINT64_MAX);
	BAD(WIRE_WRITE, request.length++);
	BAD(WIRE_WRITE, request.length = 0);
	BAD(WIRE_WRITE, request.length = UINT64_MAX);
}

Test(wire, ranges_that_wrap_are_refused)
{
	BAD(WIRE_READ, request.address = UINT64_MAX - 3);
	BAD(WIRE_COPY, request.source = UINT64_MAX - 3);
	BAD(WIRE_FILL, request.length = UINT64_MAX);
	BAD(WIRE_READ, request.address = 0);
}

Test(wire, overlapping_copy_is_refused)
{
	BAD(WIRE_COPY, request.address = 0x1fff);
	BAD(WIRE_COPY, request.address = 0x1000);
	BAD(WIRE_COPY, request.source = 0x2fff);
}

Test(wire, bad_patterns_are_refused)
{
	BAD(WIRE_FILL, request.pattern_size = 0);
	BAD(WIRE_FILL, request.pattern_size = 3);
	BAD(WIRE_FILL, request.pattern_size = 16);
	BAD(WIRE_FILL, request.pattern = 0x10000);
}

Test(wire, good_replies_are_taken)
{
	cr_assert(reply_is_good(WIRE_READ, (struct wire_reply){ .call = -1 }));
	cr_assert(reply_is_good(
		WIRE_HELLO,
		(struct wire_reply){ .call = -1, .value = { WIRE_VERSION, 1 } }));
	cr_assert(reply_is_good(WIRE_ALLOC,
				(struct wire_reply){ .call = -1, .value = { 0x1000 } }));
	cr_assert(reply_is_good(
		WIRE_ALLOC,
		(struct wire_reply){ .error = ENOMEM, .call = 3, .result = 2 }));
	cr_assert(reply_is_good(WIRE_UNMAP,
				(struct wire_reply){ .error = EINVAL, .call = -1 }));
}

Test(wire, bad_replies_are_refused)
{
	const struct {
		uint32_t op;
		struct wire_reply reply;
	} bad[] = {
		{ WIRE_READ, { .call = -1, .reserved = 1 } },
		{ WIRE_READ, { .call = -1, .value = { 1 } } },
		{ WIRE_READ, { .call = -1, .value = { 0, 1 } } },
		{ WIRE_READ, { .call = 0 } },
		{ WIRE_READ, { .call = -1, .result = 2 } },
		{ WIRE_READ, { .call = 1, .result = 2 } },
		{ WIRE_READ, { .error = -EIO, .call = -1 } },
		{ WIRE_READ, { .error = 4096, .call = -1 } },
		{ WIRE_READ, { .error = EIO, .call = -2 } },
		{ WIRE_READ, { .error = EIO, .call = 100000, .result = 2 } },
		{ WIRE_READ, { .error = EIO, .call = 1 } },
		{ WIRE_READ, { .error = EIO, .call = -1, .value = { 1 } } },
		{ WIRE_ALLOC, { .error = EIO, .call = -1, .value = { 0x1000 } } },
		{ WIRE_ALLOC, { .call = -1 } },
		{ WIRE_ALLOC, { .call = -1, .value = { UINT64_MAX } } },
		{ WIRE_ALLOC, { .call = -1, .value = { 0x1000, 1 } } },
		{ WIRE_ALLOC, { .call = -1, .value = { WIRE_HOST_BASE } } },
		{ WIRE_ALLOC, { .call = -1, .value = { WIRE_DEVICE_BASE } } },
		{ WIRE_HELLO, { .call = -1, .value = { WIRE_VERSION + 1, 1 } } },
		{ WIRE_HELLO, { .call = -1, .value = { WIRE_VERSION, 0 } } },
		{ WIRE_HELLO, { .call = -1, .value = { WIRE_VERSION, 1000 } } },
		{ WIRE_MEMORY, { .call = -1, .value = { 2, 1 } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_assert(not(reply_is_good(bad[i].op, bad[i].reply)), "row %zu", i);
}

Test(wire, addresses_have_their_device)
{
	cr_assert(eq(int, wire_device_of(WIRE_DEVICE_BASE, 1), 0));
	cr_assert(eq(int, wire_device_of(WIRE_DEVICE_BASE + WIRE_DEVICE_SPAN, 1), 1));
	cr_assert(eq(int, wire_device_of(WIRE_DEVICE_BASE - 1, 1), -1));
	cr_assert(eq(int, wire_device_of(WIRE_DEVICE_BASE, WIRE_DEVICE_SPAN + 1), -1));
	cr_assert(eq(
		int,
		wire_device_of(WIRE_DEVICE_BASE + WIRE_DEVICES_MAX * WIRE_DEVICE_SPAN, 1),
		-1));
	cr_assert(wire_is_host(WIRE_HOST_BASE, WIRE_HOST_SPAN));
	cr_assert(not(wire_is_host(WIRE_HOST_BASE + 1, WIRE_HOST_SPAN)));
}

/* ---- payloads ---- */

struct launch_payload {
	struct wire_launch launch;
	uint64_t after[2];
	struct wire_arg args[2];
	uint8_t bytes[24];
};

static const struct launch_payload good_payload = {
	.launch = {
		.grid = { 1, 1, 1 },
		.block = { 32, 1, 1 },
		.n_after = 2,
		.n_args = 2,
		.n_bytes = 24,
	},
	.args = { { 0, 8 }, { 8, 16 } },
};

static bool payload_is_good(const struct launch_payload *payload)
{
	struct wire_request request = good[WIRE_LAUNCH];

	request.length = sizeof(*payload);
	return !wire_check_payload(&request, payload);
}

#define BAD_PAYLOAD(...)                                      \
	do {                                                  \
		struct launch_payload payload = good_payload; \
		__VA_ARGS__;                                  \
		cr_assert(not(payload_is_good(&payload)));    \
	} while (0)

Test(wire, payload_of_a_launch_must_add_up)
{
	cr_assert(payload_is_good(&good_payload));
	BAD_PAYLOAD(payload.launch.n_after = 3);
	BAD_PAYLOAD(payload.launch.n_args = 1);
	BAD_PAYLOAD(payload.launch.n_args = UINT32_MAX);
	BAD_PAYLOAD(payload.launch.n_bytes = 16);
	BAD_PAYLOAD(payload.launch.n_after = UINT32_MAX);
	BAD_PAYLOAD(payload.launch.reserved = 1);
}

Test(wire, arguments_stand_within_their_bytes)
{
	BAD_PAYLOAD(payload.args[1].size = 17);
	BAD_PAYLOAD(payload.args[1].size = 0);
	BAD_PAYLOAD(payload.args[1].offset = 4);
	BAD_PAYLOAD(payload.args[1].offset = 16);
	BAD_PAYLOAD(payload.args[0].offset = UINT32_MAX - 7);
}

Test(wire, launch_has_no_dimension_of_zero)
{
	BAD_PAYLOAD(payload.launch.grid[2] = 0);
	BAD_PAYLOAD(payload.launch.block[0] = 0);
	BAD_PAYLOAD(payload.launch.cluster[1] = 2);
	BAD(WIRE_LAUNCH, request.stream = 0);
	BAD(WIRE_LAUNCH, request.module = 0);
	BAD(WIRE_LAUNCH, request.length = sizeof(struct wire_launch) - 1);
	BAD(WIRE_LAUNCH, request.length = WIRE_PAYLOAD_MAX + 1);
	BAD(WIRE_LAUNCH, request.flags = WIRE_ASYNC);
}

Test(wire, text_may_only_follow_the_error_of_a_launch)
{
	const struct wire_reply failed = { .error = EFAULT, .call = -1 };
	const struct wire_reply done = { .call = -1 };

	for (uint32_t op = WIRE_HELLO; op < WIRE_OP_END_; op++) {
		cr_assert(eq(int, !wire_check_reply(&good[op], &failed, 1),
			     op == WIRE_LAUNCH),
			  "%s", wire_op_name(op));
		cr_assert(ne(ptr, (void *)wire_check_reply(&good[op], &done, 1), NULL));
	}
	cr_assert(eq(ptr, (void *)wire_check_reply(&good[WIRE_LAUNCH], &failed, 512),
		     NULL));
}
