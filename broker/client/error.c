/* SPDX-License-Identifier: MIT */
#include "client/private.h"

#include <stdarg.h>
#include <stdio.h>

static __thread char sentence[512];

int error_set(int error, const char *format, ...)
{
	_cleanup_text_ struct text printable = TEXT_INIT;
	char said[sizeof(sentence)];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(said, sizeof(said), format, args);
	va_end(args);
	/* Whose mount it is may be unknown: its texts and its path go to a terminal. */
	if (!string_is_plain(said))
		text_add_printable(&printable, said);
	snprintf(sentence, sizeof(sentence), "%s",
		 printable.length ? text_string(&printable) : said);
	return -error;
}

EXPORT const char *gpumem_error(void)
{
	return sentence;
}
