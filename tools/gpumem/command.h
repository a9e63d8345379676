/* SPDX-License-Identifier: MIT */
/*
 * The subcommands of gpumem: one table, from which come the help, the completions and
 * the commands of the manual page.
 */
#pragma once

#include "base/text.h"

enum option_id {
	OPTION_DRY_RUN,
	OPTION_USER,
	OPTION_GPU,
	OPTION_SORT,
	OPTION_RECURSIVE,
	OPTION_JSON,
	OPTION_ONCE,
	OPTION_PLAIN,
	OPTION_CHECK,
	OPTION_HELP,
	OPTION_VERSION,
	N_OPTIONS,
};

struct option_row {
	const char *name;
	char letter;	   /* 0: none */
	const char *value; /* the placeholder of its value; NULL: takes none */
	const char *help;
};

extern const struct option_row options[N_OPTIONS];

/* The kind of a subcommand's operands, for completion. */
enum operands {
	OPERANDS_NONE,
	OPERANDS_FILE_FIRST,
	OPERANDS_NAME_FIRST,
	OPERANDS_ANY,
};

struct call;

struct command {
	const char *name; /* NULL: any verb of the mount */
	const char *usage;
	const char *summary;
	const char *help;
	const char *example;
	unsigned int options; /* bits of enum option_id */
	bool args_last;	      /* words behind the first operand are no options */
	bool hidden;	      /* for completions; in no help */
	enum operands operands;
	int (*run)(const struct call *call);
};

extern const struct command commands[];
extern const size_t n_commands;

/* A command line, parsed. */
struct call {
	const struct command *command;
	const char *verb;	       /* as typed */
	const char *values[N_OPTIONS]; /* NULL: not given; "" without a value */
	char **args;		       /* operands */
	int n_args;
};

/* The exit statuses. */
enum status {
	STATUS_DONE,
	STATUS_REFUSED,
	STATUS_WRONG_USE,
};

/* Print `gpumem: SENTENCE` on stderr. Returns: the exit status. */
int refused(const char *format, ...) _printf_(1, 2);
int wrong_use(const char *format, ...) _printf_(1, 2);

/* The subcommand with a name; NULL: none. */
const struct command *command_find(const char *name);

/* Prints the help. Returns: the exit status. */
int help_print(const struct command *command);

int command_complete(const struct call *call);
int command_print_help(const struct call *call);
int command_doctor(const struct call *call);
int command_get(const struct call *call);
int command_ls(const struct call *call);
int command_put(const struct call *call);
int command_run(const struct call *call);
int command_top(const struct call *call);
int command_verb(const struct call *call);
