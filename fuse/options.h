/* SPDX-License-Identifier: MIT */
/* The command line of gpumemd. */
#pragma once

#include "base/text.h"

struct options {
	bool help;
	bool version;
	bool foreground;
	bool keep;
	unsigned int hang_timeout_s; /* 0: not given */
	char *journal;		     /* to be checked; NULL: none */
	char *socket;		     /* of tickets; NULL: the default */
	char *limits;		     /* file that keeps them; NULL: none */
	char *subuid;		     /* file of subordinate uids; NULL: the default */
	char *driver;		     /* as given; NULL: the default */
	const char *mountpoint;
	unsigned int worker_idle_s;	  /* 0: not given */
	unsigned int launch_timeout_s;	  /* 0: none */
	unsigned int give_back_timeout_s; /* 0: not given */
	struct text fuse; /* options for the mount itself, with commas between */
};

#define OPTIONS_INIT     \
	(struct options) \
	{                \
		0        \
	}

/*
 * Returns: 0; -EINVAL, and why has a sentence; -ENOMEM. argv is
 * borrowed.
 */
int options_parse(struct options *options, int argc, char **argv, struct text *why);
void options_deinit(struct options *options);

/* Prints the help, from the table of options. */
void options_help(struct text *text);

/*
 * Is the driver the software GPU? Then ret_options gets the text behind the first colon,
 * "" for none.
 */
bool options_software(const char *driver, const char **ret_options);
