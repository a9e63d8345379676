/* SPDX-License-Identifier: MIT */
/*
 * Safetensors headers. The first byte chooses the size of the allocation. A second walk
 * over each accepted text, by json-c as a whole, finds every tensor inside the
 * allocation.
 */
#include "model/tensors.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/refusal.h"
#include "fuzz.h"

static void check_tensor(struct json_object *tensor, uint64_t allocation_size)
{
	struct json_object *offsets, *shape;
	int64_t begin, end;

	must(json_object_object_get_ex(tensor, "data_offsets", &offsets));
	must(json_object_object_get_ex(tensor, "shape", &shape));
	must(json_object_array_length(offsets) == 2);
	begin = json_object_get_int64(json_object_array_get_idx(offsets, 0));
	end = json_object_get_int64(json_object_array_get_idx(offsets, 1));
	must(begin >= 0 && begin <= end && (uint64_t)end <= allocation_size);
	for (size_t i = 0; i < json_object_array_length(shape); i++)
		must(json_object_get_int64(json_object_array_get_idx(shape, i)) >= 0);
}

static void check_accepted(const char *text, size_t size, uint64_t allocation_size)
{
	struct json_tokener *tokener = json_tokener_new_ex(32);
	struct json_object *whole = json_tokener_parse_ex(tokener, text, (int)size);

	must(json_object_is_type(whole, json_type_object));
	json_object_object_foreach(whole, name, tensor)
	{
		if (strcmp(name, "__metadata__"))
			check_tensor(tensor, allocation_size);
	}
	json_object_put(whole);
	json_tokener_free(tokener);
}

int fuzz(const uint8_t *bytes, size_t size)
{
	static const uint64_t sizes[] = { 1, 64, 4096, (uint64_t)1 << 40 };
	struct refusal refusal = { 0 };
	uint64_t allocation_size;
	char *text;
	int r;

	if (!size)
		return 0;
	allocation_size = sizes[bytes[0] % ARRAY_SIZE(sizes)];
	/* As long as the text, so that the address sanitizer sees its end. */
	text = malloc(size - 1 ?: 1);
	memcpy(text, bytes + 1, size - 1);
	r = tensors_check(text, size - 1, allocation_size, &refusal);
	if (r == 0) {
		check_accepted(text, size - 1, allocation_size);
	} else {
		must(r == -EINVAL || r == -ENODATA);
		must(refusal.error == EINVAL);
		must(strlen(refusal.sentence) > 10);
	}
	free(text);
	return 0;
}
