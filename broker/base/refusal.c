/* SPDX-License-Identifier: MIT */
#include "base/refusal.h"

#include <stdarg.h>
#include <stdio.h>

int refuse(struct refusal *refusal, int error, const char *format, ...)
{
	va_list args;

	refusal->error = error;
	va_start(args, format);
	(void)vsnprintf(refusal->sentence, sizeof(refusal->sentence), format, args);
	va_end(args);
	return -error;
}
