/* SPDX-License-Identifier: MIT */
#include "command.h"

#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

/* ---- options ---- */

/* Makes the arguments of getopt_long(3) from the table; order: "+", or "" for any order.
 */
static void options_for_getopt(unsigned int which, const char *order,
			       char letters[2 * N_OPTIONS + 3],
			       struct option names[N_OPTIONS + 1])
{
	size_t n = 0;

	letters = stpcpy(stpcpy(letters, order), ":");
	for (int i = 0; i < N_OPTIONS; i++) {
		if (!(which & 1u << i))
			continue;
		*letters++ = options[i].letter;
		if (options[i].value)
			*letters++ = ':';
		names[n++] = (struct option){ options[i].name, options[i].value != NULL,
					      NULL, options[i].letter };
	}
	*letters = '\0';
	names[n] = (struct option){ 0 };
}

static size_t option_of_letter(int letter)
{
	size_t i = 0;

	while (i < N_OPTIONS && options[i].letter != letter)
		i++;
	return i;
}

/*
 * Says what is wrong with an option; getopt_long() would print the word as it is. word:
 * the last one that getopt_long() has read. found: what getopt_long() returned.
 */
static void refuse_option(const char *word, int found)
{
	if (found == ':')
		wrong_use("option '%s' needs a value", word);
	else if (!optopt)
		wrong_use("unrecognized option '%s'", word);
	else if (option_of_letter(optopt) == N_OPTIONS)
		wrong_use("invalid option -- '%c'", optopt);
	else
		wrong_use("option '%s' takes no value", word);
}

/*
 * Parses options into call->values; the other words become call->args. Returns: false for
 * a wrong option.
 */
static bool options_parse(struct call *call, unsigned int which, bool args_last, int argc,
			  char **argv)
{
	struct option names[N_OPTIONS + 1];
	char letters[2 * N_OPTIONS + 3];
	int letter;

	options_for_getopt(which, args_last ? "+" : "", letters, names);
	optind = 0;
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		size_t i = option_of_letter(letter);

		if (i == N_OPTIONS) {
			refuse_option(argv[optind - 1], letter);
			return false;
		}
		call->values[i] = optarg ?: "";
	}
	call->args = argv + optind;
	call->n_args = argc - optind;
	return true;
}

/* ---- subcommands ---- */

static const struct command *command_of_verbs(void)
{
	const struct command *command = commands;

	while (command->name)
		command++;
	return command;
}

/* Options before the subcommand count for the subcommand, if known there. */
static int check_options(const struct call *call)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (call->values[i] && !(call->command->options & 1u << i))
			return wrong_use("%s has no option --%s", call->verb,
					 options[i].name);
	return STATUS_DONE;
}

static int run(struct call *call)
{
	const struct command *command = command_find(call->args[0]);

	call->verb = call->args[0];
	call->command = command ?: command_of_verbs();
	if (!options_parse(call, call->command->options, call->command->args_last,
			   call->n_args, call->args))
		return STATUS_WRONG_USE;
	int status = check_options(call);
	if (status)
		return status;
	if (call->values[OPTION_HELP] && command)
		return help_print(command);
	return call->command->run(call);
}

int main(int argc, char **argv)
{
	struct call call = { .command = command_find("ls"), .verb = "gpumem" };
	unsigned int which =
		call.command->options | 1u << OPTION_DRY_RUN | 1u << OPTION_VERSION;
	int status;

	setlocale(LC_CTYPE, "");
	if (!options_parse(&call, which, true, argc, argv))
		return STATUS_WRONG_USE;
	if (call.values[OPTION_VERSION]) {
		printf("gpumem %s\n", VERSION);
		status = STATUS_DONE;
	} else if (call.values[OPTION_HELP] && call.n_args == 0) {
		status = help_print(NULL);
	} else if (call.n_args == 0) {
		status = check_options(&call) ?: command_ls(&call);
	} else {
		status = run(&call);
	}
	if (fflush(stdout) || ferror(stdout))
		return status ?: refused("stdout: %m");
	return status;
}
