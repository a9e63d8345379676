/* SPDX-License-Identifier: MIT */
/*
 * One table has every option: how it is written, its help, what sets it.
 */
#include "options.h"

#include "base/number.h"
#include "call.h"

#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

enum operand {
	OPERAND_NONE,
	OPERAND_NEEDED,
	OPERAND_SECONDS, /* taken if there is one: the next word, if that is no option */
};

struct option_row {
	char letter;	  /* or 0 */
	const char *name; /* or NULL */
	enum operand operand;
	const char *operand_name;
	const char *help;
	int (*set)(struct options *options, const char *value, struct text *why);
};

static int parse_seconds(const char *value, double *ret_seconds)
{
	char *end = NULL;
	double seconds = strtod(value, &end);

	if (end == value || *end || !isfinite(seconds) || seconds <= 0 || seconds > 1e9)
		return -EINVAL;
	*ret_seconds = seconds;
	return 0;
}

static int set_pid(struct options *options, const char *value, struct text *why)
{
	_cleanup_free_ char *words = strdup(value);
	char *rest = NULL, *word = words ? strtok_r(words, ", \t\n", &rest) : NULL;

	if (!word) {
		text_printf(why, "-p wants the number of a process");
		return -EINVAL;
	}
	for (; word; word = strtok_r(NULL, ", \t\n", &rest)) {
		uint64_t pid;

		if (number_parse(word, &pid) || pid == 0 || pid > 1u << 22) {
			text_printf(why, "-p wants the number of a process, not '%s'",
				    word);
			return -EINVAL;
		}
		if (options->n_pids == PIDS_MAX) {
			text_printf(why, "-p takes no more than %d processes", PIDS_MAX);
			return -EINVAL;
		}
		options->pids[options->n_pids++] = (pid_t)pid;
	}
	return 0;
}

static int set_uid(struct options *options, const char *value, struct text *why)
{
	uint64_t uid;

	if (number_parse(value, &uid)) {
		errno = 0;
		const struct passwd *passwd = getpwnam(value);

		if (!passwd) {
			text_printf(why, "-u: there is no user '%s'%s%s", value,
				    errno ? ": " : "", errno ? strerror(errno) : "");
			return -EINVAL;
		}
		uid = passwd->pw_uid;
	}
	if (uid >= UINT32_MAX) {
		text_printf(why, "-u: no user has the number %s", value);
		return -EINVAL;
	}
	options->uid = (uid_t)uid;
	options->by_uid = true;
	return 0;
}

static int set_groups(struct options *options, const char *value, struct text *why)
{
	char word[16];

	if (!groups_parse(value, &options->groups, word))
		return 0;
	text_printf(why, "-e: there is no group '%s'; there are", word);
	for (size_t i = 0; i < N_GROUPS; i++)
		text_printf(why, "%s %s", i ? "," : "", group_name((enum group)i));
	return -EINVAL;
}

static int set_library(struct options *options, const char *value, struct text *why)
{
	(void)why;
	options->library = value;
	return 0;
}

static int set_duration(struct options *options, const char *value, struct text *why)
{
	if (!parse_seconds(value, &options->duration_s))
		return 0;
	text_printf(why, "-d wants a number of seconds, not '%s'", value);
	return -EINVAL;
}

static int set_stacks(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->stacks = true;
	return 0;
}

static int set_size(struct options *options, const char *value, struct text *why)
{
	_cleanup_free_ char *min = strdup(value);
	char *max = min ? strchr(min, ':') : NULL;

	if (max)
		*max++ = '\0';
	options->size_min = 0;
	options->size_max = UINT64_MAX;
	if (min && (*min || (max && *max)) &&
	    (!*min || !size_parse(min, &options->size_min)) &&
	    (!max || !*max || !size_parse(max, &options->size_max)) &&
	    options->size_min <= options->size_max)
		return 0;
	text_printf(why,
		    "--size wants MIN[:MAX] or :MAX in bytes, as 1M or 4K:2M, not '%s'",
		    value);
	return -EINVAL;
}

static int set_failed(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->failed = true;
	return 0;
}

static int set_histograms(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->histograms = true;
	return 0;
}

static int set_mode(struct options *options, enum mode mode, const char *interval,
		    struct text *why)
{
	if (options->mode != MODE_LIVE && options->mode != mode) {
		text_printf(why, "--summary, --leaks, --top, --json and --chrome are "
				 "one or the other");
		return -EINVAL;
	}
	options->mode = mode;
	if (interval && parse_seconds(interval, &options->interval_s)) {
		text_printf(why,
			    "'%s' is no number of seconds (a command comes behind --)",
			    interval);
		return -EINVAL;
	}
	return 0;
}

static int set_summary(struct options *options, const char *value, struct text *why)
{
	return set_mode(options, MODE_SUMMARY, value, why);
}

static int set_leaks(struct options *options, const char *value, struct text *why)
{
	return set_mode(options, MODE_LEAKS, value, why);
}

static int set_top(struct options *options, const char *value, struct text *why)
{
	return set_mode(options, MODE_TOP, value, why);
}

static int set_json(struct options *options, const char *value, struct text *why)
{
	(void)value;
	return set_mode(options, MODE_JSON, NULL, why);
}

static int set_chrome(struct options *options, const char *value, struct text *why)
{
	options->chrome = value;
	return set_mode(options, MODE_CHROME, NULL, why);
}

static int set_attach(struct options *options, const char *value, struct text *why)
{
	static const char *const ways[] = {
		[ATTACH_SESSION] = "session",
		[ATTACH_MULTI] = "multi",
		[ATTACH_PERF] = "perf",
	};

	for (size_t i = ATTACH_SESSION; i < ARRAY_SIZE(ways); i++) {
		if (!strcmp(ways[i], value)) {
			options->attach = (enum attach_way)i;
			return 0;
		}
	}
	text_printf(why, "--attach wants session, multi or perf, not '%s'", value);
	return -EINVAL;
}

static int set_list(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->list = true;
	return 0;
}

static int set_verbose(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->verbose = true;
	return 0;
}

static int set_help(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->help = true;
	return 0;
}

static int set_version(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->version = true;
	return 0;
}

/* clang-format off */
static const struct option_row rows[] = {
	{ 'p', NULL, OPERAND_NEEDED, "PID,...", "only these processes", set_pid },
	{ 'u', NULL, OPERAND_NEEDED, "USER", "only this user's processes", set_uid },
	{ 'e', NULL, OPERAND_NEEDED, "GROUP,...", "what to show: mem, managed, vmm, pool, "
	  "copy, module, launch, ctx", set_groups },
	{ 0, "library", OPERAND_NEEDED, "PATH", "the driver library to probe", set_library },
	{ 'd', NULL, OPERAND_NEEDED, "SECONDS", "end after so long", set_duration },
	{ 's', NULL, OPERAND_NONE, NULL, "show where calls came from", set_stacks },
	{ 0, "size", OPERAND_NEEDED, "MIN[:MAX]", "only calls about so many bytes", set_size },
	{ 0, "failed", OPERAND_NONE, NULL, "only calls that failed", set_failed },
	{ 0, "summary", OPERAND_SECONDS, "SECONDS", "totals of each call", set_summary },
	{ 0, "histograms", OPERAND_NONE, NULL, "with --summary SECONDS: histograms, too",
	  set_histograms },
	{ 0, "leaks", OPERAND_SECONDS, "SECONDS", "what is still allocated", set_leaks },
	{ 0, "top", OPERAND_SECONDS, "SECONDS", "processes by what they hold", set_top },
	{ 0, "json", OPERAND_NONE, NULL, "an object a line", set_json },
	{ 0, "chrome", OPERAND_NEEDED, "FILE", "a trace for Perfetto", set_chrome },
	{ 0, "list", OPERAND_NONE, NULL, "the calls that there are to probe, and end", set_list },
	{ 0, "attach", OPERAND_NEEDED, "WAY", "session, multi or perf", set_attach },
	{ 'v', "verbose", OPERAND_NONE, NULL, "say what is probed and how", set_verbose },
	{ 'V', "version", OPERAND_NONE, NULL, "print the version", set_version },
	{ 'h', "help", OPERAND_NONE, NULL, "print this", set_help },
};
/* clang-format on */

/* The row of a word, and the value that stands in the same word (--size=1M, -p1), if
 * one does. */
static const struct option_row *row_find(const char *word, const char **ret_value)
{
	*ret_value = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct option_row *row = &rows[i];
		size_t length = row->name ? strlen(row->name) : 0;

		if (row->letter && word[1] == row->letter) {
			if (word[2] && row->operand == OPERAND_NONE)
				continue;
			*ret_value = word[2] ? word + 2 : NULL;
			return row;
		}
		if (!length || word[1] != '-' || strncmp(word + 2, row->name, length))
			continue;
		if (word[2 + length] == '=' && row->operand != OPERAND_NONE) {
			*ret_value = word + 3 + length;
			return row;
		}
		if (!word[2 + length])
			return row;
	}
	return NULL;
}

/* Behind the options. Returns: 0; -EINVAL. */
static int take_command(struct options *options, char **words, struct text *why)
{
	if (*words && strcmp(*words, "--") != 0) {
		text_printf(why, "'%s' is no option, and a command comes behind --",
			    *words);
		return -EINVAL;
	}
	if (*words && !words[1]) {
		text_printf(why, "-- wants a command behind it");
		return -EINVAL;
	}
	if (*words && options->n_pids) {
		text_printf(why, "-p and a command are one or the other");
		return -EINVAL;
	}
	options->command = *words ? words + 1 : NULL;
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret_options, struct text *why)
{
	struct options options = { .groups = 0, .size_max = UINT64_MAX };
	int i = 1;

	for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		const char *value;

		if (!strcmp(argv[i], "--"))
			break;
		const struct option_row *row = row_find(argv[i], &value);
		if (!row) {
			text_printf(why, "there is no option '%s' (--help lists them)",
				    argv[i]);
			return -EINVAL;
		}
		if (!value && i + 1 < argc && row->operand == OPERAND_SECONDS &&
		    argv[i + 1][0] != '-')
			value = argv[++i];
		if (!value && row->operand == OPERAND_NEEDED) {
			if (i + 1 == argc) {
				text_printf(why, "%s wants %s", argv[i],
					    row->operand_name);
				return -EINVAL;
			}
			value = argv[++i];
		}
		int error = row->set(&options, value, why);
		if (error)
			return error;
	}
	int error = take_command(&options, argv + i, why);
	if (error)
		return error;
	*ret_options = options;
	return 0;
}

void options_help(struct text *text)
{
	text_printf(text, "usage: gpumem-trace [OPTION]... [-- COMMAND ARG...]\n"
			  "Show what processes ask of the CUDA driver.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct option_row *row = &rows[i];
		char left[64];
		int n = 0;

		if (row->letter)
			n = snprintf(left, sizeof left, "-%c%s", row->letter,
				     row->name ? ", " : "");
		if (row->name)
			n += snprintf(left + n, sizeof left - (size_t)n, "--%s",
				      row->name);
		if (row->operand)
			snprintf(left + n, sizeof left - (size_t)n,
				 row->operand == OPERAND_NEEDED ? " %s" : " [%s]",
				 row->operand_name);
		text_printf(text, "  %-22s %s\n", left, row->help);
	}
	text_printf(text,
		    "\nWithout --summary, --leaks, --top, --json or --chrome a line is "
		    "printed for each call.\nSee gpumem-trace(8).\n");
}
