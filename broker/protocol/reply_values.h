/* SPDX-License-Identifier: MIT */
/*
 * Checks of the values in a worker's replies, a function for each operation: rows of the
 * table in wire.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct wire_request;

bool wire_range_is_good(uint64_t address, uint64_t length);
bool wire_location_is_good(uint32_t location);

/* Return: NULL; a complaint. */
const char *reply_values_range(const struct wire_request *request, const uint64_t *value);
const char *reply_values_hello(const struct wire_request *request, const uint64_t *value);
const char *reply_values_alloc(const struct wire_request *request, const uint64_t *value);
const char *reply_values_memory(const struct wire_request *request,
				const uint64_t *value);
const char *reply_values_load(const struct wire_request *request, const uint64_t *value);
const char *reply_values_log(const struct wire_request *request, const uint64_t *value);
const char *reply_values_functions(const struct wire_request *request,
				   const uint64_t *value);
const char *reply_values_find(const struct wire_request *request, const uint64_t *value);
const char *reply_values_attributes(const struct wire_request *request,
				    const uint64_t *value);
const char *reply_values_file(const struct wire_request *request, const uint64_t *value);
const char *reply_values_launch(const struct wire_request *request,
				const uint64_t *value);
