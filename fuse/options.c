/* SPDX-License-Identifier: MIT */
/*
 * One table has every option of gpumemd: as --NAME for getopt_long(3), as -o NAME=VALUE,
 * and in the help. A second table has the other words of -o, for fuse_opt_parse(): words
 * for libfuse or the kernel, and words that concern only mount(8) and fstab.
 */
#include "options.h"

#include "base/number.h"

#include <errno.h>
#include <fuse_opt.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- gpumemd's own ---- */

struct option_row {
	const char *name;
	char letter;
	const char *value; /* placeholder of the value in the help; NULL: no value */
	const char *help;
	int (*set)(struct options *options, const char *value, struct text *why);
	/* without set: a bool, or with a value seconds up to most */
	size_t field;
	unsigned int most;
};

static int set_options(struct options *options, const char *value, struct text *why);

static int set_driver(struct options *options, const char *value, struct text *why)
{
	if (!*value) {
		text_printf(why, "driver needs the name of a library, or software");
		return -EINVAL;
	}
	free(options->driver);
	options->driver = strdup(value);
	return options->driver ? 0 : -ENOMEM;
}

static int set_path(const char *name, char **path, const char *value, struct text *why)
{
	if (*value != '/') {
		text_printf(why, "%s needs an absolute path, not '%s'", name, value);
		return -EINVAL;
	}
	free(*path);
	*path = strdup(value);
	return *path ? 0 : -ENOMEM;
}

static int set_socket(struct options *options, const char *value, struct text *why)
{
	return set_path("socket", &options->socket, value, why);
}

static int set_limits(struct options *options, const char *value, struct text *why)
{
	return set_path("limits", &options->limits, value, why);
}

static int set_subuid(struct options *options, const char *value, struct text *why)
{
	return set_path("subuid", &options->subuid, value, why);
}

static int set_journal(struct options *options, const char *value, struct text *why)
{
	(void)why;
	free(options->journal);
	options->journal = strdup(value);
	return options->journal ? 0 : -ENOMEM;
}

#define LAUNCH_TIMEOUT_MAX 1000000 /* as for timeout= */

static int set_seconds(unsigned int *seconds, const struct option_row *row,
		       const char *value, struct text *why)
{
	uint64_t number;

	if (number_parse(value, &number) || number == 0 || number > row->most) {
		text_printf(why,
			    "%s needs a whole number of seconds from 1 to %u, not '%s'",
			    row->name, row->most, value);
		return -EINVAL;
	}
	*seconds = (unsigned int)number;
	return 0;
}

/* clang-format off */
#define FLAG(field)	     NULL, offsetof(struct options, field)
#define SECONDS(field, most) NULL, offsetof(struct options, field), most

static const struct option_row rows[] = {
	{ "foreground", 'f', NULL, "stay in the foreground and notify systemd",
	  FLAG(foreground) },
	{ "keep", 0, NULL, "start another broker when one dies: the mount,\n"
	  "device and host memory and leases go on", FLAG(keep) },
	{ "hang-timeout", 0, "SECONDS", "with --keep: kill a broker that does nothing\n"
	  "any more for so long (30)", SECONDS(hang_timeout_s, LAUNCH_TIMEOUT_MAX) },
	{ "check-journal", 0, "FILE", "print what a broker would leave to the next\n"
	  "(/proc/PID/fd/N of a broker)", set_journal },
	{ "driver", 0, "LIBRARY", "the driver library (libcuda.so.1), or the\n"
	  "software GPU: software[:devices=N]\n[:memory=SIZE][:machine=NAME]", set_driver },
	{ "socket", 0, "PATH", "where tickets of leases are exchanged\n"
	  "(/run/gpumem/MOUNTPOINT)", set_socket },
	{ "limits", 0, "FILE", "keep the limits of users there, over restarts\n"
	  "(root only)", set_limits },
	{ "subuid", 0, "FILE", "the uids that belong to one user each\n"
	  "(/etc/subuid)", set_subuid },
	{ "worker-idle", 0, "SECONDS", "end a user's worker that has had nothing to do\n"
	  "for so long (60)", SECONDS(worker_idle_s, INT_MAX) },
	{ "launch-timeout", 0, "SECONDS", "end a kernel that runs longer, where its\n"
	  "launch names no timeout=", SECONDS(launch_timeout_s, LAUNCH_TIMEOUT_MAX) },
	{ "give-back-timeout", 0, "SECONDS", "end a user's worker that takes longer to give\n"
	  "up memory that was freed or shut off (10)",
	  SECONDS(give_back_timeout_s, LAUNCH_TIMEOUT_MAX) },
	{ NULL, 'o', "OPTIONS", "any of these as NAME=VALUE, and options of\nmount(8)",
	  set_options },
	{ "help", 'h', NULL, "print this", FLAG(help) },
	{ "version", 'V', NULL, "print the version", FLAG(version) },
};
/* clang-format on */

static int apply(struct options *options, const struct option_row *row, const char *value,
		 struct text *why)
{
	char *field = (char *)options + row->field;

	if (row->set)
		return row->set(options, value, why);
	if (row->value)
		return set_seconds((unsigned int *)field, row, value, why);
	*(bool *)field = true;
	return 0;
}

/* ---- words of -o ---- */

#define KEEP(word) FUSE_OPT_KEY(word, FUSE_OPT_KEY_KEEP)
#define DROP(word) FUSE_OPT_KEY(word, FUSE_OPT_KEY_DISCARD)

/* clang-format off */
static const struct fuse_opt other_words[] = {
	KEEP("allow_other"), KEEP("allow_root"), KEEP("async"), KEEP("atime"),
	KEEP("context="), KEEP("debug"), KEEP("default_permissions"),
	KEEP("defcontext="), KEEP("dev"), KEEP("dirsync"), KEEP("exec"),
	KEEP("fscontext="), KEEP("fsname="), KEEP("noatime"), KEEP("nodev"),
	KEEP("noexec"), KEEP("nosuid"), KEEP("ro"), KEEP("rootcontext="), KEEP("rw"),
	KEEP("subtype="), KEEP("suid"), KEEP("sync"),
	DROP(""), DROP("_netdev"), DROP("auto"), DROP("comment="), DROP("defaults"),
	DROP("group"), DROP("noauto"), DROP("nofail"), DROP("nouser"), DROP("owner"),
	DROP("relatime"), DROP("user"), DROP("user="), DROP("users"),
	FUSE_OPT_END,
};
/* clang-format on */

static const struct option_row *find_name(const char *name, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].name && strlen(rows[i].name) == length &&
		    !strncmp(rows[i].name, name, length))
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
		return apply(options, row, value, why);
	text_printf(why, "option %s%s %s", dashes, row->name ? row->name : name,
		    row->value ? "needs a value" : "takes no value");
	return -EINVAL;
}

struct words {
	struct options *options;
	struct text *why;
	int error;
};

/* Handles a word missing in other_words. Returns: 0; -1, and words->error. */
static int on_word(void *data, const char *word, int key, struct fuse_args *kept)
{
	struct words *words = data;
	size_t length = strcspn(word, "=");
	const struct option_row *row = find_name(word, length);

	(void)key;
	(void)kept;
	if (!strncasecmp(word, "x-", 2))
		return 0;
	words->error = -EINVAL;
	if (row)
		words->error = set(words->options, row,
				   word[length] ? word + length + 1 : NULL, words->why);
	else if (!strcmp(word, "remount"))
		text_printf(
			words->why,
			"-o remount: a broker can't be given other options while it "
			"runs; `mount -i -o remount,ro MOUNTPOINT` has the kernel alone "
			"refuse to write");
	else
		text_printf(words->why, "unknown option -o %s", word);
	return words->error ? -1 : 0;
}

static int set_options(struct options *options, const char *value, struct text *why)
{
	char *argv[] = { "gpumemd", "-o", (char *)value };
	struct fuse_args args = FUSE_ARGS_INIT(ARRAY_SIZE(argv), argv);
	struct words words = { options, why, 0 };
	struct text *fuse = &options->fuse;

	if (fuse_opt_parse(&args, &words, other_words, on_word) && !words.error)
		words.error = -ENOMEM;
	if (!words.error && args.argc == ARRAY_SIZE(argv))
		text_printf(fuse, "%s%s", fuse->length ? "," : "", args.argv[2]);
	fuse_opt_free_args(&args);
	return words.error ?: text_failed(fuse) ? -ENOMEM : 0;
}

/* ---- the command line ---- */

#define LONG 256 /* added to the number of a row: the result for a long name */

struct getopt_lists {
	char letters[2 * ARRAY_SIZE(rows) + 3];
	struct option names[ARRAY_SIZE(rows) + 1];
};

static void lists_make(struct getopt_lists *lists)
{
	struct option *name = lists->names;
	char *letter;

	*lists = (struct getopt_lists){ .letters = "-:" }; /* operands are option 1 */
	letter = lists->letters + 2;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].name)
			*name++ = (struct option){ rows[i].name, rows[i].value != NULL,
						   NULL, LONG + (int)i };
		if (rows[i].letter)
			*letter++ = rows[i].letter;
		if (rows[i].letter && rows[i].value)
			*letter++ = ':';
	}
}

static const struct option_row *row_find(int option)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (option == LONG + (int)i || (option && option == rows[i].letter))
			return &rows[i];
	return NULL;
}

/* Refuses a word that getopt_long() did not accept; result ':': the value is missing. */
static int refuse(const char *word, int result, struct text *why)
{
	const struct option_row *row = row_find(optopt);

	if (row && row->name)
		text_printf(why, "option --%s ", row->name);
	else if (row)
		text_printf(why, "option -%c ", row->letter);
	else if (optopt)
		text_printf(why, "unknown option -%c", optopt);
	else
		text_printf(why, "unknown option %s", word);
	if (row)
		text_printf(why, result == ':' ? "needs a value" : "takes no value");
	return -EINVAL;
}

static int check(const struct options *options, int n_names, struct text *why)
{
	if (options->help || options->version || (options->journal && n_names == 0))
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
	struct getopt_lists lists;
	int option, n_names = 0, error = 0;

	lists_make(&lists);
	opterr = 0;
	optind = 0; /* glibc begins anew */
	while (!error && (option = getopt_long(argc, argv, lists.letters, lists.names,
					       NULL)) != -1) {
		const struct option_row *row = row_find(option);

		if (row) {
			error = apply(options, row, optarg, why);
		} else if (option == 1) {
			options->mountpoint = optarg;
			n_names++;
		} else {
			error = refuse(argv[optind - 1], option, why);
		}
	}
	for (; !error && optind < argc; n_names++)
		options->mountpoint = argv[optind++];
	return error ? error : check(options, n_names, why);
}

void options_deinit(struct options *options)
{
	free(options->driver);
	free(options->socket);
	free(options->limits);
	free(options->subuid);
	free(options->journal);
	text_deinit(&options->fuse);
}

/* Prints a row's help, its lines aligned. */
static void print_row(struct text *text, const struct option_row *row)
{
	char left[40];

	snprintf(left, sizeof(left), "%c%c%s%s %s", row->letter ? '-' : ' ',
		 row->letter ?: ' ',
		 row->letter && row->name ? ", --"
		 : row->name		  ? "  --"
					  : "",
		 row->name ?: "", row->value ?: "");
	for (const char *help = row->help, *at = left; help; at = "") {
		size_t length = strcspn(help, "\n");

		text_printf(text, "  %-31s %.*s\n", at, (int)length, help);
		help = help[length] ? help + length + 1 : NULL;
	}
}

void options_help(struct text *text)
{
	text_printf(text,
		    "usage: gpumemd [OPTION]... MOUNTPOINT\n\n"
		    "Serves this machine's GPU memory as files below MOUNTPOINT; the "
		    "file README\n"
		    "there says how. umount, fusermount3 -u or SIGTERM end it.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		print_row(text, &rows[i]);
	text_printf(text,
		    "\nA mount of your own; on two software GPUs; for all users, in "
		    "/etc/fstab:\n\n"
		    "    gpumemd ~/gpu\n"
		    "    gpumemd --driver software:devices=2:memory=1G ~/gpu\n"
		    "    none  /gpu  fuse.gpumemd  worker-idle=600,nofail  0  0\n");
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
