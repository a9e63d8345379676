/* SPDX-License-Identifier: MIT */
/*
 * Records from a socket: the worker's checks of a request and its payload, the broker's
 * checks of a reply, and what a worker and a process of files tell each other. The input
 * is a request, a reply and a payload; the first bytes are those other records, too.
 */
#include "protocol/wire.h"

#include <string.h>

#include "fuzz.h"

#define STAGING (4u << 20)

struct input {
	struct wire_request request;
	struct wire_reply reply;
};

/* The same bytes. */
union record {
	struct input input;
	struct wire_file_told told;
	struct wire_piece piece;
	struct wire_piece_told piece_told;
};

static void check_words(const char *wrong)
{
	must(!wrong || strlen(wrong) > 5);
}

/* Whatever the bytes are, what is accepted lies in the lane and in the file. */
static void check_files(const union record *record)
{
	const uint64_t size = 8u << 20;
	const char *wrong;

	wrong = wire_check_told(&record->told, size);
	check_words(wrong);
	must(wrong || record->told.end != WIRE_FILE_DONE || record->told.bytes <= size);
	wrong = wire_check_piece(&record->piece, size);
	check_words(wrong);
	must(wrong || (uint64_t)record->piece.place + record->piece.length <= size);
	must(wrong || record->piece.at <= INT64_MAX - record->piece.length);
	wrong = wire_check_piece_told(&record->piece_told, size);
	check_words(wrong);
	must(wrong || record->piece_told.moved <= size);
}

/* A path that a process of files would open. */
static void use_open(const struct wire_request *request,
		     const struct wire_file_open *open)
{
	must(open->path[0] == '/');
	must(sizeof(*open) + strlen(open->path) + 1 == request->length);
	must(strlen(open->path) < WIRE_PATH_SIZE);
	must(request->source + open->length <= INT64_MAX);
}

/* Reads all fields that a worker would read. */
static void use_payload(const struct wire_request *request, const void *payload)
{
	const struct wire_launch_parts parts = wire_launch_parts(payload);
	const uint8_t *end = (const uint8_t *)payload + request->length;
	uint64_t sum = 0;

	must(parts.bytes + parts.launch->n_bytes == end);
	for (uint32_t i = 0; i < parts.launch->n_after; i++)
		sum += parts.after[i];
	for (uint32_t i = 0; i < parts.launch->n_args; i++) {
		const struct wire_arg *arg = &parts.args[i];

		must(arg->size);
		sum += parts.bytes[arg->offset];
		sum += parts.bytes[arg->offset + arg->size - 1];
	}
	*(volatile uint64_t *)&sum = sum;
}

static void check_accepted(const struct wire_request *request)
{
	must(*wire_op_name(request->op));
	must(request->device < WIRE_DEVICES_MAX);
	must(request->source_device < WIRE_DEVICES_MAX);
	must(request->stream < WIRE_STREAMS_MAX);
	must(request->function < WIRE_FUNCTIONS_MAX);
	if (request->op == WIRE_READ || request->op == WIRE_WRITE) {
		must(request->length && request->length <= WIRE_TRANSFER_MAX);
		must(request->offset <= STAGING - request->length);
	}
	if (request->op == WIRE_MAP)
		must(wire_device_of(request->address, request->length) ==
		     (int)request->device);
	if (request->op == WIRE_MAP_HOST)
		must(wire_is_host(request->address, request->length));
	if (wire_op_has_payload(request->op))
		must(request->length <= WIRE_PAYLOAD_MAX);
}

int fuzz(const uint8_t *bytes, size_t size)
{
	_cleanup_free_ uint8_t *payload = NULL;
	union record record;
	struct input input;
	const char *wrong, *wrong_with_fd;

	if (size < sizeof(input))
		return 0;
	memcpy(&input, bytes, sizeof(input));
	record.input = input;
	check_files(&record);
	check_words(wire_check_reply(&input.request, &input.reply,
				     (size - sizeof(input)) % WIRE_TEXT_MAX));
	wrong = wire_check_request(&input.request, false, STAGING);
	wrong_with_fd = wire_check_request(&input.request, true, STAGING);
	check_words(wrong);
	check_words(wrong_with_fd);
	must(wrong || wrong_with_fd);
	if (wrong && wrong_with_fd)
		return 0;
	check_accepted(&input.request);
	/* A request without its whole payload never gets this far. */
	if (!wire_op_has_payload(input.request.op) ||
	    input.request.length > size - sizeof(input))
		return 0;
	payload = malloc(input.request.length);
	must(payload);
	memcpy(payload, bytes + sizeof(input), input.request.length);
	wrong = wire_check_payload(&input.request, payload);
	check_words(wrong);
	if (!wrong && input.request.op == WIRE_FILE_OPEN)
		use_open(&input.request, (const struct wire_file_open *)payload);
	else if (!wrong)
		use_payload(&input.request, payload);
	return 0;
}
