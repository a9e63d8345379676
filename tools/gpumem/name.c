/* SPDX-License-Identifier: MIT */
#include "name.h"

#include <string.h>
#include <sys/random.h>

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

unsigned int name_number(void)
{
	static unsigned int number;

	while (!number)
		(void)!getrandom(&number, sizeof(number), 0);
	return number;
}

const char *name_own(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}
