/* SPDX-License-Identifier: MIT */
/*
 * Checks of the payloads behind requests, rows of the table in wire.c, and of the records
 * between a worker and a process of files (wire.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct wire_request;

/* Whether a file can have so many bytes from there on. */
bool wire_place_is_good(uint64_t source, uint64_t length);

/* Return: NULL; a complaint. */
const char *payload_check_launch(const struct wire_request *request, const void *payload);
const char *payload_check_open(const struct wire_request *request, const void *payload);
