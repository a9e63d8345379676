/* SPDX-License-Identifier: MIT */
#include "protocol/function_record.h"

#include <errno.h>
#include <string.h>

/* The start of a record; parameters follow, then the name with its NUL. */
struct header {
	uint32_t size; /* of the whole record */
	uint32_t name_size;
	uint32_t n_params;
	uint32_t has_params; /* 0 or 1 */
};

static size_t size_of(size_t name_size, size_t n_params)
{
	return align_up(sizeof(struct header) + n_params * sizeof(struct record_param) +
				name_size,
			8);
}

size_t record_size(const struct record *record)
{
	return size_of(strlen(record->name) + 1, record->n_params);
}

long record_write(const struct record *record, void *bytes, size_t size)
{
	size_t need = record_size(record);
	struct header header = {
		.size = (uint32_t)need,
		.name_size = (uint32_t)strlen(record->name) + 1,
		.n_params = record->n_params,
		.has_params = record->has_params,
	};
	size_t params = record->n_params * sizeof(struct record_param);
	uint8_t *at = bytes;

	if (strlen(record->name) >= RECORD_NAME_MAX)
		return -ENAMETOOLONG;
	if (need > size)
		return -ENOSPC;
	memset(at, 0, need);
	memcpy(at, &header, sizeof(header));
	if (params)
		memcpy(at + sizeof(header), record->params, params);
	memcpy(at + sizeof(header) + params, record->name, header.name_size);
	return (long)need;
}

static bool params_are_good(const struct record *record)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < record->n_params; i++) {
		const struct record_param *param = &record->params[i];

		if (!param->size || param->offset < end)
			return false;
		end = (uint64_t)param->offset + param->size;
		if (end > RECORD_PARAMS_MAX)
			return false;
	}
	return true;
}

long record_read(struct record *ret_record, const void *bytes, size_t size)
{
	struct header header;
	struct record record;
	size_t name_at;

	if (size < sizeof(header))
		return -EBADMSG;
	memcpy(&header, bytes, sizeof(header));
	if (header.name_size < 2 || header.name_size > RECORD_NAME_MAX ||
	    header.n_params > RECORD_PARAMS_MAX || header.has_params > 1 ||
	    (header.n_params && !header.has_params) || header.size > size ||
	    header.size != size_of(header.name_size, header.n_params))
		return -EBADMSG;
	name_at = sizeof(header) + header.n_params * sizeof(struct record_param);
	record = (struct record){
		.name = (const char *)bytes + name_at,
		.has_params = header.has_params,
		.n_params = header.n_params,
		.params = (const void *)((const uint8_t *)bytes + sizeof(header)),
	};
	if (strnlen(record.name, header.name_size) != header.name_size - 1 ||
	    !params_are_good(&record))
		return -EBADMSG;
	*ret_record = record;
	return header.size;
}
