/* SPDX-License-Identifier: MIT */
/*
 * A table has every option: names, help, and a function, flag or mode. The lists for
 * getopt_long() are made from the table.
 */
#include "options.h"

#include "base/number.h"
#include "call.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

enum operand {
	OPERAND_NONE,
	OPERAND_NEEDED,
	OPERAND_SECONDS, /* optional: in the same word, or the next word if no option */
};

struct option_row {
	char letter; /* or 0 */
	const char *name;
	enum operand operand;
	const char *operand_name;
	const char *help;
	/* the effect: a function, a flag or a mode */
	int (*set)(struct options *options, const char *value, struct text *why);
	size_t flag; /* offset of a bool in struct options */
	enum mode mode;
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

/* Adds word `i` of `n` to a list: "a, b or c". */
static void add_listed(struct text *text, const char *word, size_t i, size_t n,
		       const char *last)
{
	text_printf(text, "%s%s%s",
		    i == 0	? ""
		    : i + 1 < n ? ", "
				: " ",
		    i && i + 1 == n ? last : "", word);
}

static int set_pid(struct options *options, const char *value, struct text *why)
{
	_cleanup_free_ char *words = strdup(value);
	char *rest = NULL, *word = words ? strtok_r(words, ", \t\n", &rest) : NULL;

	if (!word) {
		text_printf(why, "--pid needs the number of a process");
		return -EINVAL;
	}
	for (; word; word = strtok_r(NULL, ", \t\n", &rest)) {
		uint64_t pid;

		if (number_parse(word, &pid) || pid == 0 || pid > 1u << 22) {
			text_printf(why, "'%s' is not the number of a process", word);
			return -EINVAL;
		}
		if (options->n_pids == PIDS_MAX) {
			text_printf(why, "--pid takes up to %d processes", PIDS_MAX);
			return -EINVAL;
		}
		options->pids[options->n_pids++] = (pid_t)pid;
	}
	return 0;
}

static int set_user(struct options *options, const char *value, struct text *why)
{
	uint64_t uid = UINT64_MAX;

	errno = 0;
	if (number_parse(value, &uid)) {
		const struct passwd *passwd = getpwnam(value);

		if (passwd)
			uid = passwd->pw_uid;
	}
	if (uid >= UINT32_MAX) {
		text_printf(why, "there is no user '%s'%s%s", value, errno ? ": " : "",
			    errno ? strerror(errno) : "");
		return -EINVAL;
	}
	options->uid = (uid_t)uid;
	options->by_uid = true;
	return 0;
}

static int set_groups(struct options *options, const char *value, struct text *why)
{
	char word[16];

	if (!call_groups_parse(value, &options->groups, word))
		return 0;
	text_printf(why, "there is no group '%s': there are ", word);
	for (size_t i = 0; i < N_GROUPS; i++)
		add_listed(why, call_group_name((enum group)i), i, N_GROUPS, "and ");
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
	text_printf(why, "'%s' is not a number of seconds", value);
	return -EINVAL;
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
	text_printf(why, "'%s' is not a size: use MIN, MIN:MAX or :MAX, as in 4K:2M",
		    value);
	return -EINVAL;
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
	text_printf(why,
		    "there is no way '%s' to attach: there are session, multi and perf",
		    value);
	return -EINVAL;
}

static int set_mode(struct options *options, enum mode mode, const char *value,
		    struct text *why)
{
	if (options->mode != MODE_LIVE && options->mode != mode) {
		text_printf(why, "--summary, --leaks, --top, --json and --chrome exclude "
				 "each other");
		return -EINVAL;
	}
	options->mode = mode;
	if (mode == MODE_CHROME) {
		options->chrome = value;
	} else if (value && parse_seconds(value, &options->interval_s)) {
		text_printf(why,
			    "'%s' is not a number of seconds: to run a command, "
			    "write -- %s",
			    value, value);
		return -EINVAL;
	}
	return 0;
}

/* clang-format off */
#define FLAG(field) .flag = offsetof(struct options, field)

static const struct option_row rows[] = {
	{ 'p', "pid", OPERAND_NEEDED, "PID,...", "only these processes", set_pid },
	{ 'u', "user", OPERAND_NEEDED, "USER", "only this user's processes", set_user },
	{ 'e', "groups", OPERAND_NEEDED, "GROUP,...", "only these groups of calls: mem, managed, "
	  "vmm,\npool, copy, module, launch, ctx", set_groups },
	{ 0, "library", OPERAND_NEEDED, "PATH", "the driver library to probe", set_library },
	{ 'd', "duration", OPERAND_NEEDED, "SECONDS", "end after this time", set_duration },
	{ 's', "stacks", OPERAND_NONE, NULL, "show the code that made the calls", FLAG(stacks) },
	{ 0, "size", OPERAND_NEEDED, "MIN[:MAX]", "only calls about so many bytes", set_size },
	{ 0, "failed", OPERAND_NONE, NULL, "only calls that failed", FLAG(failed) },
	{ 0, "summary", OPERAND_SECONDS, "SECONDS", "print totals of each call",
	  .mode = MODE_SUMMARY },
	{ 0, "histograms", OPERAND_NONE, NULL, "with --summary SECONDS: histograms, too",
	  FLAG(histograms) },
	{ 0, "leaks", OPERAND_SECONDS, "SECONDS", "print memory that is still allocated",
	  .mode = MODE_LEAKS },
	{ 0, "top", OPERAND_SECONDS, "SECONDS", "print processes by the memory that they hold",
	  .mode = MODE_TOP },
	{ 0, "json", OPERAND_NONE, NULL, "print an object a line", .mode = MODE_JSON },
	{ 0, "chrome", OPERAND_NEEDED, "FILE", "write a trace for Perfetto", .mode = MODE_CHROME },
	{ 0, "list", OPERAND_NONE, NULL, "print the calls that can be probed, and end", FLAG(list) },
	{ 0, "attach", OPERAND_NEEDED, "WAY", "attach by session, multi or perf", set_attach },
	{ 'v', "verbose", OPERAND_NONE, NULL, "say what is probed and how", FLAG(verbose) },
	{ 'V', "version", OPERAND_NONE, NULL, "print the version", FLAG(version) },
	{ 'h', "help", OPERAND_NONE, NULL, "print this help", FLAG(help) },
};
/* clang-format on */

#define LONG 256 /* added to a row's number as the value of a long name */

struct getopt_lists {
	char letters[2 * ARRAY_SIZE(rows) + 3];
	struct option names[ARRAY_SIZE(rows) + 1];
};

static void lists_make(struct getopt_lists *lists)
{
	char *letter =
		stpcpy(lists->letters, "+:"); /* options end at the first operand */

	*lists->names = (struct option){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static const int arguments[] = {
			[OPERAND_NONE] = no_argument,
			[OPERAND_NEEDED] = required_argument,
			[OPERAND_SECONDS] = optional_argument,
		};

		lists->names[i] =
			(struct option){ rows[i].name, arguments[rows[i].operand], NULL,
					 LONG + (int)i };
		if (rows[i].letter)
			*letter++ = rows[i].letter;
		if (rows[i].letter && rows[i].operand == OPERAND_NEEDED)
			*letter++ = ':';
	}
	*letter = '\0';
	lists->names[ARRAY_SIZE(rows)] = (struct option){ 0 };
}

static const struct option_row *row_find(int option)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (option == LONG + (int)i || (option && option == rows[i].letter))
			return &rows[i];
	return NULL;
}

/* Refuses a long name: unknown, or the start of several. */
static int refuse_name(const char *word, struct text *why)
{
	int length = (int)strcspn(word, "=");
	size_t n = 0, nth = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		n += !strncmp(rows[i].name, word + 2, (size_t)length - 2);
	if (!n) {
		text_printf(why, "there is no option '%.*s': --help lists them", length,
			    word);
		return -EINVAL;
	}
	text_printf(why, "'%.*s' can be ", length, word);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strncmp(rows[i].name, word + 2, (size_t)length - 2) != 0)
			continue;
		add_listed(why, "--", nth++, n, "or ");
		text_printf(why, "%s", rows[i].name);
	}
	return -EINVAL;
}

/* Explains a word that getopt_long() has refused with `result`. */
static int refuse(const char *word, int result, struct text *why)
{
	const struct option_row *row = row_find(optopt);

	if (!row && !strncmp(word, "--", 2))
		return refuse_name(word, why);
	if (!row) {
		text_printf(why, "there is no option '-%c': --help lists them", optopt);
		return -EINVAL;
	}
	if (optopt < LONG)
		text_printf(why, "'-%c'", optopt);
	else
		text_printf(why, "'--%s'", row->name);
	if (result == ':')
		text_printf(why, " needs %s", row->operand_name);
	else
		text_printf(why, " takes no value");
	return -EINVAL;
}

static int apply(struct options *options, const struct option_row *row, const char *value,
		 struct text *why)
{
	if (row->set)
		return row->set(options, value, why);
	if (row->mode)
		return set_mode(options, row->mode, value, why);
	*(bool *)((char *)options + row->flag) = true;
	return 0;
}

/* Behind the options: nothing, or -- and a command. Returns: 0; -EINVAL. */
static int take_command(struct options *options, char **words, bool after_dashes,
			struct text *why)
{
	if (*words && !after_dashes) {
		text_printf(why, "'%s' is not an option: to run a command, write -- %s",
			    *words, *words);
		return -EINVAL;
	}
	if (!*words && after_dashes) {
		text_printf(why, "-- needs a command behind it");
		return -EINVAL;
	}
	if (*words && options->n_pids) {
		text_printf(why, "--pid and a command exclude each other");
		return -EINVAL;
	}
	options->command = *words ? words : NULL;
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret_options, struct text *why)
{
	struct options options = { .groups = 0, .size_max = UINT64_MAX };
	struct getopt_lists lists;
	int option, error = 0, before = 1;

	lists_make(&lists);
	opterr = 0;
	while ((option = getopt_long(argc, argv, lists.letters, lists.names, NULL)) !=
	       -1) {
		const struct option_row *row = row_find(option);

		if (!row)
			return refuse(argv[before], option, why);
		if (row->operand == OPERAND_SECONDS && !optarg && optind < argc &&
		    argv[optind][0] != '-')
			optarg = argv[optind++];
		error = apply(&options, row, optarg, why);
		if (error)
			return error;
		before = optind;
	}
	error = take_command(&options, argv + optind, optind > before, why);
	if (error)
		return error;
	*ret_options = options;
	return 0;
}

/* Prints a row's help, in aligned lines. */
static void print_row(struct text *text, const struct option_row *row)
{
	char left[64];
	int n = snprintf(left, sizeof left, "%c%c%c --%s", row->letter ? '-' : ' ',
			 row->letter ? row->letter : ' ', row->letter ? ',' : ' ',
			 row->name);

	if (row->operand)
		snprintf(left + n, sizeof left - (size_t)n,
			 row->operand == OPERAND_NEEDED ? " %s" : " [%s]",
			 row->operand_name);
	for (const char *help = row->help, *at = left; help; at = "") {
		size_t length = strcspn(help, "\n");

		text_printf(text, "  %-25s %.*s\n", at, (int)length, help);
		help = help[length] ? help + length + 1 : NULL;
	}
}

void options_help(struct text *text)
{
	text_printf(text, "usage: gpumem-trace [OPTION]... [-- COMMAND ARG...]\n"
			  "Show what processes ask of the CUDA driver: a line for each "
			  "call, or as\n--summary, --leaks, --top, --json or --chrome "
			  "say.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		print_row(text, &rows[i]);
	text_printf(
		text,
		"\nThe memory of the GPU by process; all calls of one program, and its "
		"totals;\nmemory that a server does not free, by code; calls that "
		"fail:\n\n"
		"    sudo gpumem-trace --top\n"
		"    sudo gpumem-trace -- python3 train.py\n"
		"    sudo gpumem-trace --summary -- python3 train.py\n"
		"    sudo gpumem-trace --leaks 60 -s --size 1M -p \"$(pidof server)\"\n"
		"    sudo gpumem-trace --failed\n\n"
		"See gpumem-trace(8).\n");
}
