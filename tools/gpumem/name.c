/* SPDX-License-Identifier: MIT */
#include "name.h"

#include <string.h>

bool name_is_valid(const char *name)
{
	if (strlen(name) >= GPUMEM_NAME_SIZE)
		return false;
	for (;; name++) {
		size_t length = strcspn(name, "/");

		if (!length || length > NAME_MAX_LENGTH || strchr(".-", name[0]) ||
		    strspn(name, NAME_CHARACTERS) != length)
			return false;
		name += length;
		if (!*name)
			return true;
	}
}

const char *name_own(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}
