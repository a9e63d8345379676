/* SPDX-License-Identifier: MIT */
/*
 * Runs while gpumem is built: prints a shell's completion, or the manual page from its
 * text on stdin, with the table of subcommands.
 */
#include "command.h"
#include "roff.h"

#include <stdio.h>
#include <string.h>

/* ---- what all shells need ---- */

/* The names of all subcommands with these operands. */
static void print_names(enum operands operands, const char *between)
{
	const char *before = "";

	for (size_t i = 0; i < n_commands; i++) {
		if (!commands[i].name || commands[i].operands != operands)
			continue;
		printf("%s%s", before, commands[i].name);
		before = between;
	}
}

static void print_options(unsigned int which)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (which & 1u << i)
			printf(" --%s", options[i].name);
}

/* In single quotes of any of the shells. */
static void print_quoted(const char *words)
{
	putchar('\'');
	for (; *words; words++)
		fputs(*words == '\'' ? "'\\''" : (char[]){ *words, '\0' }, stdout);
	putchar('\'');
}

/* ---- bash ---- */

static const char bash_head[] =
	"# bash completion of gpumem\n"
	"_gpumem()\n"
	"{\n"
	"\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
	"\tlocal key=\n"
	"\t[ \"$word\" != = ] || word=\n"
	"\t[ \"${COMP_WORDS[COMP_CWORD]}\" != = ] || key=$before\n"
	"\t[ \"$before\" != = ] || key=${COMP_WORDS[COMP_CWORD - 2]}\n"
	"\tlocal command= options words= files= i n=0\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tcase ${COMP_WORDS[i]} in\n"
	"\t\t-*) ;;\n"
	"\t\t*) if [ -z \"$command\" ]; then command=${COMP_WORDS[i]}; else ((++n)); fi "
	";;\n"
	"\t\tesac\n"
	"\tdone\n";

/* The words may be a mount's. They are compared and never expanded: `compgen -W` would
 * run a command in them. */
static const char bash_tail[] =
	"\tcase $before in\n"
	"\t-s | --sort) words='size name owner gpu kind written' options= files= ;;\n"
	"\t-u | --user) COMPREPLY=($(compgen -u -- \"$word\")); return ;;\n"
	"\tesac\n"
	"\t[ \"$key\" != path ] || words= files=1\n"
	"\t[[ $word != -* ]] || words=$options\n"
	"\tmapfile -t words <<<\"${words// /$'\\n'}\"\n"
	"\tCOMPREPLY=()\n"
	"\tfor i in \"${words[@]}\"; do\n"
	"\t\t[[ -z $i || $i != \"$word\"* ]] || COMPREPLY+=(\"$i\")\n"
	"\tdone\n"
	"\tif [ -n \"$files\" ] && [[ $word != -* ]]; then\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tmapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$word\")\n"
	"\tfi\n"
	"}\n"
	"complete -F _gpumem gpumem\n";

static void bash_command(const struct command *command)
{
	static const char *const words[] = {
		[OPERANDS_NONE] = "",
		[OPERANDS_FILE_FIRST] = " if ((n)); then words=$(gpumem complete names); "
					"else files=1; fi",
		[OPERANDS_NAME_FIRST] = " if ((n)); then files=1; else words=$(gpumem "
					"complete names); fi",
		[OPERANDS_ANY] = " words=$(gpumem complete names)",
	};

	printf("\t%s) options='", command->name ?: "*");
	print_options(command->options);
	printf("';%s ;;\n", words[command->operands]);
}

static void print_bash(void)
{
	const struct command *verbs = NULL;

	fputs(bash_head, stdout);
	printf("\tcase $command in\n\t'') words=\"");
	for (size_t i = 0; i < n_commands; i++)
		if (commands[i].name && !commands[i].hidden)
			printf("%s ", commands[i].name);
	printf("$(gpumem complete verbs)\" options='--help --version --json' ;;\n");
	for (size_t i = 0; i < n_commands; i++) {
		if (!commands[i].name)
			verbs = &commands[i];
		else if (!commands[i].hidden)
			bash_command(&commands[i]);
	}
	bash_command(verbs);
	printf("\tesac\n");
	fputs(bash_tail, stdout);
}

/* ---- zsh ---- */

static void zsh_options(unsigned int which)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		_cleanup_text_ struct text text = TEXT_INIT;
		const struct option_row *row = &options[i];

		if (!(which & 1u << i))
			continue;
		text_printf(&text, "--%s[%s]%s%s", row->name, row->help,
			    row->value ? ":" : "", row->value ?: "");
		putchar(' ');
		print_quoted(text_string(&text));
	}
}

static void zsh_command(const struct command *command)
{
	static const char *const words[] = {
		[OPERANDS_NONE] = "",
		[OPERANDS_FILE_FIRST] = " '1:file:_files' \"*:name:($names)\"",
		[OPERANDS_NAME_FIRST] = " \"1:name:($names)\" '2:file:_files'",
		[OPERANDS_ANY] = " \"*:name:($names)\"",
	};

	printf("\t%s) _arguments", command->name ?: "*");
	zsh_options(command->options);
	printf("%s ;;\n", words[command->operands]);
}

/* _arguments evaluates the names, so that only harmless characters of them are left. */
static void print_zsh(void)
{
	const struct command *verbs = NULL;

	printf("#compdef gpumem\n"
	       "local -a subcommands\n"
	       "local names\n"
	       "subcommands=(\n");
	for (size_t i = 0; i < n_commands; i++) {
		_cleanup_text_ struct text text = TEXT_INIT;

		if (!commands[i].name || commands[i].hidden)
			continue;
		text_printf(&text, "%s:%s", commands[i].name, commands[i].summary);
		printf("\t");
		print_quoted(text_string(&text));
		printf("\n");
	}
	printf(")\n"
	       "if ((CURRENT == 2)); then\n"
	       "\t_describe subcommand subcommands\n"
	       "\tcompadd -- $(gpumem complete verbs)\n"
	       "\treturn\n"
	       "fi\n"
	       "if compset -P path=; then _files; return; fi\n"
	       "names=$(gpumem complete names 2>/dev/null | tr '\\n' ' ' | "
	       "tr -cd 'A-Za-z0-9_./ -')\n"
	       "shift words\n"
	       "((CURRENT--))\n"
	       "case $words[1] in\n");
	for (size_t i = 0; i < n_commands; i++) {
		if (!commands[i].name)
			verbs = &commands[i];
		else if (!commands[i].hidden)
			zsh_command(&commands[i]);
	}
	zsh_command(verbs);
	printf("esac\n");
}

/* ---- fish ---- */

static void fish_options(const struct command *command)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_row *row = &options[i];

		if (!(command->options & 1u << i))
			continue;
		printf("complete -c gpumem -n '__fish_seen_subcommand_from %s' -l %s -s "
		       "%c%s "
		       "-d ",
		       command->name, row->name, row->letter, row->value ? " -x" : "");
		print_quoted(row->help);
		printf("\n");
	}
}

static void print_fish(void)
{
	printf("complete -c gpumem -f\n"
	       "complete -c gpumem -n __fish_use_subcommand -a "
	       "'(gpumem complete verbs 2>/dev/null)'\n"
	       "complete -c gpumem -n 'not __fish_use_subcommand' -a "
	       "'(gpumem complete names 2>/dev/null)'\n");
	printf("complete -c gpumem -F -n '__fish_seen_subcommand_from ");
	print_names(OPERANDS_FILE_FIRST, " ");
	printf(" ");
	print_names(OPERANDS_NAME_FIRST, " ");
	printf("'\n");
	for (size_t i = 0; i < n_commands; i++) {
		if (!commands[i].name || commands[i].hidden)
			continue;
		printf("complete -c gpumem -n __fish_use_subcommand -a %s -d ",
		       commands[i].name);
		print_quoted(commands[i].summary);
		printf("\n");
		fish_options(&commands[i]);
	}
}

/* ---- the manual page ---- */

static void man_synopsis(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		if (commands[i].hidden)
			continue;
		printf("%s.B gpumem%s%s\n", i ? ".br\n" : "", commands[i].name ? " " : "",
		       i == 0 ? "\\fR[\\fPls\\fR]\\fP" : commands[i].name ?: "");
		if (*commands[i].usage)
			roff_usage(commands[i].usage);
		printf("\n");
	}
}

static void man_options(void)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_row *row = &options[i];

		printf(".TP\n\\fB\\-%c\\fP, \\fB\\-\\-", row->letter);
		roff_print(row->name);
		printf("\\fP");
		if (row->value)
			printf(" \\fI%s\\fP", row->value);
		printf("\n");
		roff_print(row->help);
		printf("\n");
	}
}

static void man_commands(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		if (commands[i].hidden)
			continue;
		printf(".SS gpumem %s%s", commands[i].name ?: "",
		       commands[i].name && *commands[i].usage ? " " : "");
		roff_usage(commands[i].usage);
		printf("\n");
		roff_print(commands[i].help);
		printf("\n");
	}
}

static void man_examples(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		if (commands[i].hidden)
			continue;
		roff_print(commands[i].example);
		printf("\n");
	}
}

static bool print_man(void)
{
	static const struct roff_part parts[] = {
		{ "synopsis", man_synopsis },
		{ "commands", man_commands },
		{ "options", man_options },
		{ "examples", man_examples },
	};

	return roff_fill(VERSION, parts, ARRAY_SIZE(parts));
}

int main(int argc, char **argv)
{
	int status = argc != 2;

	if (status)
		fprintf(stderr, "usage: generate bash|zsh|fish|man\n");
	else if (!strcmp(argv[1], "bash"))
		print_bash();
	else if (!strcmp(argv[1], "zsh"))
		print_zsh();
	else if (!strcmp(argv[1], "fish"))
		print_fish();
	else
		status = !print_man();
	return fflush(stdout) || ferror(stdout) || status;
}
