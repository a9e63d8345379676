/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define N_WORDS 12

/* Parses a line of words with spaces between. */
static int parse(struct options *options, const char *line, struct text *why)
{
	static char words[256];
	char *argv[N_WORDS] = { 0 };
	char *rest = words;
	int argc = 0;

	snprintf(words, sizeof(words), "gpumemd %s", line);
	while (argc < N_WORDS - 1 && rest && (argv[argc] = strsep(&rest, " ")))
		argc += *argv[argc] != '\0';
	argv[argc] = NULL;
	return options_parse(options, argc, argv, why);
}

static void accepts(const char *line, void (*check)(const struct options *options))
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct options options = OPTIONS_INIT;

	cr_assert_eq(parse(&options, line, &why), 0, "%s: %s", line, text_string(&why));
	check(&options);
	options_deinit(&options);
}

static void refuses(const char *line, const char *sentence)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct options options = OPTIONS_INIT;

	cr_assert_eq(parse(&options, line, &why), -EINVAL, "%s", line);
	cr_assert(strstr(text_string(&why), sentence), "%s", text_string(&why));
	options_deinit(&options);
}

static void is_plain(const struct options *options)
{
	cr_assert_str_eq(options->mountpoint, "/mnt");
	cr_assert_null(options->driver);
	cr_assert(!options->foreground);
	cr_assert_eq(options->fuse.length, 0);
}

static void is_full(const struct options *options)
{
	cr_assert_str_eq(options->mountpoint, "/mnt");
	cr_assert_str_eq(options->driver, "software:devices=2:memory=1G");
	cr_assert(options->foreground);
	cr_assert_eq(options->worker_idle_s, 30);
}

static void is_for_mount(const struct options *options)
{
	cr_assert_str_eq(text_string(&options->fuse), "rw,nosuid,noatime");
	cr_assert_str_eq(options->driver, "software");
	cr_assert_str_eq(options->mountpoint, "/mnt");
}

static void wants_help(const struct options *options)
{
	cr_assert(options->help);
}

Test(options, mountpoint_is_enough)
{
	accepts("/mnt", is_plain);
	accepts("-- /mnt", is_plain);
}

Test(options, each_spelling_of_an_option_is_the_same)
{
	accepts("-f --driver software:devices=2:memory=1G --worker-idle 30 /mnt",
		is_full);
	accepts("--foreground --driver=software:devices=2:memory=1G --worker-idle=30 "
		"/mnt",
		is_full);
	accepts("/mnt -o "
		"driver=software:devices=2:memory=1G,worker-idle=30,foreground",
		is_full);
	accepts("-fo driver=software:devices=2:memory=1G -oworker-idle=30 /mnt", is_full);
	accepts("/mnt --fore --dr=software:devices=2:memory=1G --worker 30", is_full);
}

Test(options, what_mount_adds_is_passed_or_dropped)
{
	accepts("/mnt -o rw,nosuid,noauto,_netdev,nofail,x-systemd.automount,user,"
		"user=me,defaults,noatime,driver=software",
		is_for_mount);
}

Test(options, help_fits_80_columns)
{
	_cleanup_text_ struct text help = TEXT_INIT;
	const char *line;

	options_help(&help);
	for (line = text_string(&help); *line; line += strcspn(line, "\n") + 1)
		cr_assert_leq(strcspn(line, "\n"), 80, "%s", line);
}

Test(options, help_needs_no_mountpoint)
{
	accepts("--help", wants_help);
	accepts("-h", wants_help);
}

Test(options, mistakes_are_named)
{
	refuses("", "MOUNTPOINT");
	refuses("--colour /mnt", "--colour");
	refuses("-x /mnt", "-x");
	refuses("-o colour=red /mnt", "colour=red");
	refuses("-o nosuidx /mnt", "nosuidx");
	refuses("--worker-idle soon /mnt", "soon");
	refuses("--worker-idle 0 /mnt", "0");
	refuses("-o worker-idle=-3 /mnt", "-3");
	refuses("/mnt --driver", "option --driver needs a value");
	refuses("/mnt -o", "option -o needs a value");
	refuses("-o driver /mnt", "option --driver needs a value");
	refuses("--foreground=1 /mnt", "option --foreground takes no value");
	refuses("-o foreground=1 /mnt", "option --foreground takes no value");
	refuses("-fx /mnt", "unknown option -x");
	refuses("a b", "'b' is one word too many");
	refuses("-o remount,ro /mnt", "mount -i -o remount,ro");
}

Test(options, software_is_told_from_libraries)
{
	const char *settings = NULL;

	cr_assert(options_software("software", &settings));
	cr_assert_str_eq(settings, "");
	cr_assert(options_software("software:devices=2:fail=x", &settings));
	cr_assert_str_eq(settings, "devices=2:fail=x");
	cr_assert(!options_software("softwareish", &settings));
	cr_assert(!options_software("/lib/libcuda.so.1", &settings));
	cr_assert(!options_software(NULL, &settings));
}
