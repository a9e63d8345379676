/* SPDX-License-Identifier: MIT */
/*
 * --top: the table of processes. A terminal shows the table anew each second; other
 * outputs get plain tables with exact numbers.
 */
#include "modes/table.h"
#include "output.h"

#include <stdio.h>
#include <time.h>

static bool is_screen(void)
{
	return isatty(STDOUT_FILENO);
}

static void interval(struct tracer *tracer)
{
	if (!is_screen()) {
		/* the last table is enough, unless more were asked for */
		if (tracer->options.interval_s > 0) {
			table_print(tracer, stdout, false);
			printf("\n");
		}
		return;
	}
	time_t now = time(NULL);
	struct tm tm;
	char clock[16];

	localtime_r(&now, &tm);
	strftime(clock, sizeof clock, "%H:%M:%S", &tm);
	printf("\033[H\033[J%s  GPU memory by process (Ctrl-C ends)\n\n", clock);
	table_print(tracer, stdout, true);
}

static void end(struct tracer *tracer)
{
	if (is_screen())
		interval(tracer);
	else
		table_print(tracer, stdout, false);
}

const struct output output_top = {
	.interval = interval,
	.end = end,
	.keeps_ended = true,
	.interval_s = 1,
};
