/* SPDX-License-Identifier: MIT */
/*
 * What a record on the wire may say: one table of operations, read by both sides.
 *
 * A check looks at one record alone. What depends on state (which device exists, what
 * is mapped where) is for the receiver to find out.
 */
#pragma once

#include "base/def.h"

#include <gpumem/wire.h>

/* The operation's name ("map"), "" for a number that is none. */
const char *wire_op_name(uint32_t op);

/* Whether the operation takes a descriptor along. */
bool wire_op_has_fd(uint32_t op);

/* Whether the operation has a payload, of request->length bytes. */
bool wire_op_has_payload(uint32_t op);

/* Whether it is finished before the next request is looked at. */
bool wire_op_is_ordered(uint32_t op);

/* Whether it comes by WIRE_URGENT_FD. */
bool wire_op_is_urgent(uint32_t op);

/*
 * Checks a request, all but its id, for a staging area of that size.
 *
 * Returns: NULL where it is well formed, else what is wrong, a constant string that
 * completes "a request with ...".
 */
const char *wire_check_request(const struct wire_request *request, bool has_fd,
			       uint64_t staging_size);

/*
 * Checks the payload of a request that has been checked; its parts' sizes add up to
 * exactly request->length. As wire_check_request().
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

/*
 * Checks a reply to that request, all but its id.
 *
 * Returns: NULL where it is well formed, else what is wrong, a constant string that
 * completes "a reply with ...".
 */
const char *wire_check_reply(const struct wire_request *request,
			     const struct wire_reply *reply);

/* Whether [address, address + length) lies within the range of host memory. */
bool wire_is_host(uint64_t address, uint64_t length);

/* The device in whose range [address, address + length) lies, -1 where in none. */
int wire_device_of(uint64_t address, uint64_t length);
