/* SPDX-License-Identifier: MIT */
#include "control/usage.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

#define ARGS "..."

bool usage_operand(const char *usage, int n, struct usage_operand *ret_operand)
{
	size_t length;

	for (const char *word = usage; *word; word += strspn(word, " ")) {
		bool optional, opens;

		length = strcspn(word, " ");
		optional = *word == '[';
		opens = optional && word[length - 1] != ']';
		if (!memchr(word, '=', length) && !memmem(word, length, ARGS, 3) &&
		    !opens && n-- == 0) {

			*ret_operand = (struct usage_operand){
				.name = word + optional,
				.length = (int)length - 2 * optional,
				.optional = optional,
			};
			return true;
		}
		word += length;
	}
	return false;
}

/* The next name in front of a `=`, from *rest on. Returns: its length; 0: no more. */
static size_t next_key(const char **rest, const char **ret_key)
{
	const char *equals = strchr(*rest, '=');
	const char *key = equals;

	if (!equals)
		return 0;
	while (key > *rest && (islower((unsigned char)key[-1]) || key[-1] == '_'))
		key--;
	*rest = equals + 1;
	*ret_key = key;
	return (size_t)(equals - key);
}

bool usage_has_key(const char *usage, const char *key, size_t length)
{
	const char *found;
	size_t n;

	while ((n = next_key(&usage, &found))) {
		if (n == length && memcmp(found, key, n) == 0)
			return true;
	}
	return false;
}

bool usage_has_args(const char *usage)
{
	return strstr(usage, ARGS);
}

size_t usage_required_key(const char *usage, const char **ret_key)
{
	const char *rest = usage;
	size_t length;

	while ((length = next_key(&rest, ret_key)))
		if (*ret_key == usage || (*ret_key)[-1] == ' ')
			break;
	return length;
}

void usage_list_keys(const char *usage, struct text *text)
{
	const char *rest = usage, *key;
	size_t length;

	while ((length = next_key(&rest, &key))) {
		/* A key may stand in two alternatives. */
		const char *before = usage, *same = NULL;
		size_t n;

		while ((n = next_key(&before, &same)) && same < key)
			if (n == length && memcmp(same, key, n) == 0)
				break;
		if (same == key)
			text_printf(text, "%s%.*s", text->length ? ", " : "", (int)length,
				    key);
	}
}
