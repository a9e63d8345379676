/* SPDX-License-Identifier: MIT */
/*
 * Records of functions, as a worker may write them. A record that is read lies within the
 * bytes; written and read again, the record is the same.
 */
#include "protocol/function_record.h"

#include <errno.h>
#include <string.h>

#include "fuzz.h"

static void write_again(const struct record *record)
{
	const size_t size = record_size(record);
	_cleanup_free_ uint8_t *bytes = malloc(size);
	struct record again;

	must(bytes);
	must(record_write(record, bytes, size) == (long)size);
	must(record_read(&again, bytes, size) == (long)size);
	must(strcmp(again.name, record->name) == 0);
	must(again.n_params == record->n_params);
	must(again.has_params == record->has_params);
	must(memcmp(again.params, record->params,
		    record->n_params * sizeof(*record->params)) == 0);
}

int fuzz(const uint8_t *bytes, size_t size)
{
	/* Aligned like the broker's copy, and of exact size for the sanitizer. */
	_cleanup_free_ uint8_t *copy = malloc(size + !size);
	size_t at = 0;

	must(copy);
	memcpy(copy, bytes, size);
	for (;;) {
		struct record record;
		const long r = record_read(&record, copy + at, size - at);

		if (r < 0) {
			must(r == -EBADMSG);
			return 0;
		}
		must(r > 0 && r % 8 == 0 && (size_t)r <= size - at);
		must(record.name[0]);
		write_again(&record);
		at += (size_t)r;
	}
}
