/* SPDX-License-Identifier: MIT */
/*
 * One table has every option of gpumemd: as --NAME, as -o NAME=VALUE, and in the help.
 * What else stands behind -o goes to the mount when the kernel or libfuse knows it, is
 * dropped when it concerns only mount(8) and fstab, and is an error otherwise.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* ---- gpumemd's own ---- */

struct option_row {
	const char *name;
	char letter;
	const char *value; /* what stands for its value in the help, NULL for none */
	const char *help;
	int (*set)(struct options *options, const char *value, struct text *why);
};

static int set_options(struct options *options, const char *value, struct text *why);

static int set_driver(struct options *options, const char *value, struct text *why)
{
	if (!*value) {
		text_printf(why, "driver wants the name of a library, or software");
		return -EINVAL;
	}
	free(options->driver);
	options->driver = strdup(value);
	return options->driver ? 0 : -ENOMEM;
}

static int set_socket(struct options *options, const char *value, struct text *why)
{
	if (*value != '/') {
		text_printf(why, "socket wants an absolute path, not '%s'", value);
		return -EINVAL;
	}
	free(options->socket);
	options->socket = strdup(value);
	return options->socket ? 0 : -ENOMEM;
}

#define LAUNCH_TIMEOUT_MAX 1000000 /* as for timeout= */

static int seconds_parse(const char *name, const char *value, unsigned int most,
			 unsigned int *ret_seconds, struct text *why)
{
	char *end = NULL;
	unsigned long seconds;

	errno = 0;
	seconds = isdigit((unsigned char)*value) ? strtoul(value, &end, 10) : 0;
	if (!end || *end || errno || seconds == 0 || seconds > most) {
		text_printf(why, "%s wants a whole number of seconds up to %u, not '%s'",
			    name, most, value);
		return -EINVAL;
	}
	*ret_seconds = (unsigned int)seconds;
	return 0;
}

static int set_worker_idle(struct options *options, const char *value, struct text *why)
{
	return seconds_parse("worker-idle", value, INT_MAX, &options->worker_idle_s, why);
}

static int set_launch_timeout(struct options *options, const char *value,
			      struct text *why)
{
	return seconds_parse("launch-timeout", value, LAUNCH_TIMEOUT_MAX,
			     &options->launch_timeout_s, why);
}

static int set_give_back_timeout(struct options *options, const char *value,
				 struct text *why)
{
	return seconds_parse("give-back-timeout", value, LAUNCH_TIMEOUT_MAX,
			     &options->give_back_timeout_s, why);
}

static int set_foreground(struct options *options, const char *value, struct text *why)
{
	(void)value;
	(void)why;
	options->foreground = true;
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

static const struct option_row rows[] = {
	{ "foreground", 'f', NULL, "stay in the foreground, tell systemd when ready",
	  set_foreground },
	{ "driver", 0, "LIBRARY",
	  "the driver library (libcuda.so.1), or the software GPU:\n"
	  "software[:devices=N][:memory=SIZE][:machine=NAME]",
	  set_driver },
	{ "socket", 0, "PATH",
	  "where tickets of leases are exchanged (/run/gpumem/MOUNTPOINT)", set_socket },
	{ "worker-idle", 0, "SECONDS",
	  "end a user's worker that has had nothing to do for so long", set_worker_idle },
	{ "launch-timeout", 0, "SECONDS",
	  "end a kernel that runs longer, where its launch names no timeout=",
	  set_launch_timeout },
	{ "give-back-timeout", 0, "SECONDS",
	  "end a user's worker that takes longer to give up memory which was\n"
	  "freed or shut off (10)",
	  set_give_back_timeout },
	{ NULL, 'o', "OPTIONS", "any of these as NAME=VALUE, and options of mount(8)",
	  set_options },
	{ "help", 'h', NULL, "print this", set_help },
	{ "version", 'V', NULL, "print the version", set_version },
};

/* ---- what stands behind -o ---- */

/* A name that ends in '=' or '-' or '.' stands for all that begin so. */
static const char *const for_mount[] = {
	"allow_other",
	"allow_root",
	"async",
	"atime",
	"context=",
	"debug",
	"default_permissions",
	"defcontext=",
	"dev",
	"dirsync",
	"exec",
	"fscontext=",
	"fsname=",
	"noatime",
	"nodev",
	"noexec",
	"nosuid",
	"ro",
	"rootcontext=",
	"rw",
	"subtype=",
	"suid",
	"sync",
};

static const char *const for_nobody[] = {
	"",	  "_netdev", "auto",   "comment=", "defaults", "group",
	"noauto", "nofail",  "nouser", "owner",	   "relatime", "user",
	"user=",  "users",   "x-",     "X-",
};

static bool names(const char *const *list, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(list[i]);
		char last = length ? list[i][length - 1] : '\0';

		if (last == '=' || last == '-') {
			if (!strncmp(list[i], word, length))
				return true;
		} else if (!strcmp(list[i], word)) {
			return true;
		}
	}
	return false;
}

static const struct option_row *find_name(const char *name, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].name && strlen(rows[i].name) == length &&
		    !strncmp(rows[i].name, name, length))
			return &rows[i];
	return NULL;
}

static const struct option_row *find_letter(char letter)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].letter == letter)
			return &rows[i];
	return NULL;
}

/* Sets a named option; value NULL when none was given. */
static int set(struct options *options, const struct option_row *row, const char *value,
	       struct text *why)
{
	const char *dashes = row->name ? "--" : "-";
	const char name[2] = { row->letter, '\0' };

	if (!row->value == !value)
		return row->set(options, value, why);
	text_printf(why, "option %s%s %s", dashes, row->name ? row->name : name,
		    row->value ? "wants a value" : "takes no value");
	return -EINVAL;
}

static int set_word(struct options *options, const char *word, struct text *why)
{
	const char *equals = strchr(word, '=');
	const struct option_row *row =
		find_name(word, equals ? (size_t)(equals - word) : strlen(word));

	if (row)
		return set(options, row, equals ? equals + 1 : NULL, why);
	if (names(for_nobody, ARRAY_SIZE(for_nobody), word))
		return 0;
	if (!strcmp(word, "remount")) {
		text_printf(
			why,
			"-o remount: a broker can't be given other options while it "
			"runs; `mount -i -o remount,ro MOUNTPOINT` has the kernel alone "
			"refuse to write");
		return -EINVAL;
	}
	if (!names(for_mount, ARRAY_SIZE(for_mount), word)) {
		text_printf(why, "unknown option -o %s", word);
		return -EINVAL;
	}
	text_printf(&options->fuse, "%s%s", options->fuse.length ? "," : "", word);
	return text_failed(&options->fuse) ? -ENOMEM : 0;
}

static int set_options(struct options *options, const char *value, struct text *why)
{
	_cleanup_free_ char *words = strdup(value);
	char *rest = words, *word;
	int error = words ? 0 : -ENOMEM;

	while (!error && (word = strsep(&rest, ",")))
		error = set_word(options, word, why);
	return error;
}

/* ---- the command line ---- */

static int parse_long(struct options *options, char **argv, int *at, struct text *why)
{
	const char *word = argv[*at] + 2;
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	const struct option_row *row = find_name(word, length);
	const char *value = equals ? equals + 1 : NULL;

	if (!row) {
		text_printf(why, "unknown option --%s", word);
		return -EINVAL;
	}
	if (row->value && !value && argv[*at + 1])
		value = argv[++*at];
	return set(options, row, value, why);
}

static int parse_short(struct options *options, char **argv, int *at, struct text *why)
{
	for (const char *letter = argv[*at] + 1; *letter; letter++) {
		const struct option_row *row = find_letter(*letter);

		if (!row) {
			text_printf(why, "unknown option -%c", *letter);
			return -EINVAL;
		}
		if (row->value) {
			const char *value = letter[1] ? letter + 1 : argv[*at + 1];

			*at += !letter[1] && value;
			return set(options, row, value, why);
		}
		set(options, row, NULL, why);
	}
	return 0;
}

static int check(const struct options *options, int n_names, struct text *why)
{
	if (options->help || options->version)
		return 0;
	if (n_names == 0)
		text_printf(why,
			    "MOUNTPOINT is missing; gpumemd --help prints the usage");
	else if (n_names > 1)
		text_printf(why,
			    "'%s' is one word too many: gpumemd takes one MOUNTPOINT",
			    options->mountpoint);
	return why->length ? -EINVAL : 0;
}

int options_parse(struct options *options, int argc, char **argv, struct text *why)
{
	bool only_names = false;
	int n_names = 0;
	int error = 0;

	for (int i = 1; i < argc && !error; i++) {
		if (only_names || argv[i][0] != '-' || !argv[i][1]) {
			options->mountpoint = argv[i];
			n_names++;
		} else if (!strcmp(argv[i], "--")) {
			only_names = true;
		} else if (argv[i][1] == '-') {
			error = parse_long(options, argv, &i, why);
		} else {
			error = parse_short(options, argv, &i, why);
		}
	}
	return error ? error : check(options, n_names, why);
}

void options_deinit(struct options *options)
{
	free(options->driver);
	free(options->socket);
	text_deinit(&options->fuse);
}

/* Help of more lines than one goes on under its column. */
static void print_help(struct text *text, const char *help)
{
	for (; *help; help++) {
		text_add(text, help, 1);
		if (*help == '\n')
			text_printf(text, "%32s", "");
	}
	text_printf(text, "\n");
}

void options_help(struct text *text)
{
	text_printf(text,
		    "usage: gpumemd [OPTION]... MOUNTPOINT\n\n"
		    "Serves this machine's GPU memory as files below MOUNTPOINT; the "
		    "file README\n"
		    "there says how. umount, fusermount3 -u or SIGTERM end it.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct option_row *row = &rows[i];
		char letter[] = { '-', row->letter, row->name ? ',' : '\0', '\0' };
		int width = row->name ? 22 - (int)strlen(row->name) : 24;

		text_printf(text, "  %-3s %s%s %-*s ", row->letter ? letter : "",
			    row->name ? "--" : "", row->name ? row->name : "", width,
			    row->value ? row->value : "");
		print_help(text, row->help);
	}
}

bool options_software(const char *driver, const char **ret_options)
{
	static const char name[] = "software";
	size_t length = strlen(name);

	if (!driver || strncmp(driver, name, length))
		return false;
	if (driver[length] != '\0' && driver[length] != ':')
		return false;
	*ret_options = driver[length] ? driver + length + 1 : "";
	return true;
}
