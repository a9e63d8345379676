/* SPDX-License-Identifier: MIT */
/*
 * Records from a socket: the worker's checks of a request and its payload, and the
 * broker's checks of a reply. The input is a request, a reply and a payload.
 */
#include "protocol/wire.h"

#include <string.h>

#include "fuzz.h"

#define STAGING (4u << 20)

struct input {
	struct wire_request request;
	struct wire_reply reply;
};

static void check_words(const char *wrong)
{
	must(!wrong || strlen(wrong) > 5);
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
	struct input input;
	const char *wrong, *wrong_with_fd;

	if (size < sizeof(input))
		return 0;
	memcpy(&input, bytes, sizeof(input));
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
	if (!wrong)
		use_payload(&input.request, payload);
	return 0;
}
