/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void write_failed(struct tracer *tracer, int error)
{
	if (tracer->write_failed)
		return;
	tracer->write_failed = true;
	fprintf(stderr, "gpumem-trace: %s: %s\n",
		tracer->file == stdout ? "standard output" : tracer->options.chrome,
		strerror(error));
}

bool output_flush(struct tracer *tracer)
{
	if (fflush(tracer->file))
		write_failed(tracer, errno);
	else if (ferror(tracer->file)) /* earlier, and why is not known any more */
		write_failed(tracer, EIO);
	return !tracer->write_failed;
}

bool output_close(struct tracer *tracer)
{
	output_flush(tracer);
	if (fclose(tracer->file))
		write_failed(tracer, errno);
	tracer->file = NULL;
	return !tracer->write_failed;
}
