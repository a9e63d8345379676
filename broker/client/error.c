/* SPDX-License-Identifier: MIT */
#include "client/private.h"

#include <stdarg.h>
#include <stdio.h>

static __thread char sentence[512];

int error_set(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	return -error;
}

EXPORT const char *gpumem_error(void)
{
	return sentence;
}
