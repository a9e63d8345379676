/* SPDX-License-Identifier: MIT */
/*
 * The rules for records on the wire: one table of operations, used by both sides.
 *
 * A check sees only the record. The receiver checks everything that depends on state,
 * such as existing devices and mappings.
 */
#pragma once

#include "base/def.h"

#include <gpumem/wire.h>

/* The operation's name ("map"); "" for an unknown number. */
const char *wire_op_name(uint32_t op);

/* Whether the operation has a payload, of request->length bytes. */
bool wire_op_has_payload(uint32_t op);

/* Whether the operation is finished before the next request is received. */
bool wire_op_is_ordered(uint32_t op);

/* Whether requests of the operation name their payer. */
bool wire_op_has_payer(uint32_t op);

/* Whether the operation is sent by WIRE_URGENT_FD. */
bool wire_op_is_urgent(uint32_t op);

/*
 * Checks all fields of a request except id, for a staging area of that size.
 *
 * Returns: NULL when well formed; else a constant string that completes "a request with
 * ...".
 */
const char *wire_check_request(const struct wire_request *request, bool has_fd,
			       uint64_t staging_size);

/*
 * Checks the payload of a checked request. The sizes of its parts must add up to exactly
 * request->length. Returns: as wire_check_request().
 */
const char *wire_check_payload(const struct wire_request *request, const void *payload);

/* The parts of a LAUNCH's payload. */
struct wire_launch_parts {
	const struct wire_launch *launch;
	const uint64_t *after;
	const struct wire_arg *args;
	const uint8_t *bytes;
};
struct wire_launch_parts wire_launch_parts(const void *payload);

/* Whether an error may be followed by text. */
bool wire_op_has_text(uint32_t op);

/*
 * Checks all fields of a reply to the request except id, and whether text may follow.
 *
 * Returns: NULL when well formed; else a constant string that completes "a reply with
 * ...".
 */
const char *wire_check_reply(const struct wire_request *request,
			     const struct wire_reply *reply, size_t n_text);

/*
 * Check what goes between a worker and a process of files: a file opened or kept, with
 * length bytes to move at most; a piece, in a lane of so many bytes; the end of a piece
 * of length bytes. Return: NULL when well formed; else a complaint.
 */
const char *wire_check_told(const struct wire_file_told *told, uint64_t length);
const char *wire_check_piece(const struct wire_piece *piece, uint64_t size);
const char *wire_check_piece_told(const struct wire_piece_told *told, uint64_t length);

/* Whether [address, address + length) is inside the range of host memory. */
bool wire_is_host(uint64_t address, uint64_t length);

/* The device whose range contains [address, address + length); -1: none. */
int wire_device_of(uint64_t address, uint64_t length);
