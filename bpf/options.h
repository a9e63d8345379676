/* SPDX-License-Identifier: MIT */
/*
 * The command line of gpumem-trace.
 */
#pragma once

#include "base/def.h"
#include "base/text.h"
#include "kernel/record.h"

#include <sys/types.h>

enum mode {
	MODE_LIVE,
	MODE_SUMMARY,
	MODE_LEAKS,
	MODE_TOP,
	MODE_JSON,
	MODE_CHROME,
};

/* How probes are put in. */
enum attach_way {
	ATTACH_ANY, /* the best of the kernel's */
	ATTACH_SESSION,
	ATTACH_MULTI,
	ATTACH_PERF,
};

struct options {
	enum mode mode;
	enum attach_way attach;
	pid_t pids[PIDS_MAX];
	size_t n_pids;
	uid_t uid;
	bool by_uid;
	unsigned int groups;
	const char *library;
	double duration_s; /* or 0 */
	double interval_s; /* of --summary and --leaks, or 0 */
	bool stacks;
	bool failed;
	bool histograms;
	bool list;
	bool verbose;
	bool help;
	bool version;
	uint64_t size_min;
	uint64_t size_max;
	const char *chrome;
	char **command; /* NULL terminated, or NULL */
};

/* Returns: 0; -EINVAL, with a sentence in `why`. Strings belong to argv. */
int options_parse(int argc, char **argv, struct options *ret_options, struct text *why);

/* Whether only some sizes are asked for. */
static inline bool options_filter_size(const struct options *options)
{
	return options->size_min || options->size_max != UINT64_MAX;
}

/* Whether only some calls are asked for, by effect. */
static inline bool options_filter_calls(const struct options *options)
{
	return options->failed || options_filter_size(options);
}

/* The usage, made from the table of options. */
void options_help(struct text *text);
