/* SPDX-License-Identifier: MIT */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct option_row options[N_OPTIONS] = {
	[OPTION_DRY_RUN] = { "dry-run", 'n', NULL,
			     "print the shell's line instead, and do nothing" },
	[OPTION_USER] = { "user", 'u', "USER", "memory of one user: a name or a number" },
	[OPTION_GPU] = { "gpu", 'g', "GPU", "one GPU: its number" },
	[OPTION_SORT] = { "sort", 's', "KEY",
			  "order of allocations: size (largest first), name, owner, gpu, "
			  "kind or written (newest first)" },
	[OPTION_RECURSIVE] = { "recursive", 'r', NULL,
			       "what is in folders, too, and the folders' figures" },
	[OPTION_JSON] = { "json", 'J', NULL, "print JSON" },
	[OPTION_ONCE] = { "once", '1', NULL, "print the screen once, and end" },
	[OPTION_CHECK] = { "check", 'c', NULL,
			   "give the kernel guarded copies of its allocations" },
	[OPTION_PLAIN] = { "plain", 'p', NULL, "copy the bytes, whatever they are" },
	[OPTION_HELP] = { "help", 'h', NULL, "print this" },
	[OPTION_VERSION] = { "version", 'V', NULL, "print the version" },
};

#define BIT(option) (1u << OPTION_##option)
#define SHOWN	    (BIT(USER) | BIT(GPU) | BIT(SORT))

const struct command commands[] = {
	{
		.name = "ls",
		.usage = "[-u USER] [-g GPU] [--sort KEY] [-r] [--json]",
		.summary = "show GPUs, users and allocations",
		.help = "Shows the GPUs, each user's memory by GPU, and the allocations: "
			"owner, GPU, kind, size, last write, programs with leases, state "
			"and tag. A folder is one line, with the size of all that it "
			"has; -r shows what is in folders, and a table of the folders. "
			"This is also what gpumem does without a subcommand. "
			"A terminal gets sizes for people; a pipe gets bytes and times "
			"in UTC between tabs, the tables with an empty line "
			"between them. A '?' is unknown: its file may not be read.",
		.example = "gpumem ls -u alice --sort written",
		.options = SHOWN | BIT(RECURSIVE) | BIT(JSON) | BIT(HELP),
		.run = command_ls,
	},
	{
		.usage = "VERB ARG...",
		.summary = "write a line to control/VERB, and print the answer",
		.help = "Every file of the mount's control/ is a subcommand: alloc, "
			"fill, copy, launch, free and the others. The answer is on "
			"stdout, or else the reason on stderr and the exit status is 1. "
			"`gpumem VERB --help` prints what the line may have.",
		.example = "gpumem alloc weights 4GiB tag=v3",
		.options = BIT(DRY_RUN) | BIT(HELP),
		.args_last = true,
		.operands = OPERANDS_ANY,
		.run = command_verb,
	},
	{
		.name = "put",
		.usage = "FILE [NAME] [KEY=VALUE]...",
		.summary = "copy a file into a new allocation of its size",
		.help = "Makes an allocation of the file's size and copies the file, "
			"all or nothing: NAME is there when all bytes are. Without NAME "
			"the file's name is taken, with _ for characters that no name "
			"can have. KEY=VALUE is as for alloc. Prints the name. "
			"Of a safetensors file the allocation holds the tensors' bytes, "
			"its `tensors` has the header, and it is sealed.",
		.example = "gpumem put model.safetensors llama device=1 mode=0640",
		.options = BIT(DRY_RUN) | BIT(PLAIN) | BIT(HELP),
		.operands = OPERANDS_FILE_FIRST,
		.run = command_put,
	},
	{
		.name = "get",
		.usage = "NAME [FILE]",
		.summary = "copy an allocation into a file",
		.help = "Copies an allocation's bytes into FILE, all or nothing: an old "
			"FILE is replaced when all bytes are there, and its mode, group "
			"and access list stay. A new FILE has the mode of the "
			"allocation, with w for nobody but the owner, and within the "
			"umask. Without FILE the "
			"file is NAME in the current folder; - is stdout. An allocation "
			"with `tensors` becomes a safetensors file.",
		.example = "gpumem get llama /tmp/llama.safetensors",
		.options = BIT(DRY_RUN) | BIT(PLAIN) | BIT(HELP),
		.operands = OPERANDS_NAME_FIRST,
		.run = command_get,
	},
	{
		.name = "run",
		.usage = "[-g GPU] [--check] KERNEL.cu|.ptx|.cubin [FUNCTION] ARG...",
		.summary = "compile, load and launch a kernel, and show what it printed",
		.help = "Compiles a .cu with nvcc, loads the kernels into a module that "
			"is removed at the end, and launches FUNCTION: what it prints is "
			"on stdout, the time on stderr. FUNCTION is the name in the "
			"source where only one kernel has it, and may be left out where "
			"there is only one kernel. ARG is as for launch: grid=, block=, "
			"elements=, allocations and TYPE:VALUE. With --check the kernel "
			"gets copies of its allocations, with nothing mapped behind the "
			"end of each, nor before the start of whole pages of 2 MiB. So a "
			"kernel that uses an element too many fails, and the allocations "
			"stay as they were (of kind direct and async they are lost with "
			"the worker, as by any fault). What a kernel wrote is copied "
			"back when it has ended well; nobody else should write there "
			"meanwhile.",
		.example =
			"gpumem run saxpy.cu saxpy elements=4096 u32:4096 f32:2 in:x y",
		.options = BIT(GPU) | BIT(CHECK) | BIT(HELP),
		.args_last = true,
		.operands = OPERANDS_FILE_FIRST,
		.run = command_run,
	},
	{
		.name = "top",
		.usage = "[-u USER] [-g GPU] [--sort KEY] [--once]",
		.summary = "show the same as ls, and other programs, every second",
		.help = "Shows GPUs, users and allocations every second, and beneath "
			"them the programs outside of gpumem that use the GPUs, as "
			"NVIDIA's libnvidia-ml.so.1 tells them. Keys: s sorts "
			"allocations by the next key, arrows and pages scroll, q leaves.",
		.example = "gpumem top --sort written",
		.options = SHOWN | BIT(ONCE) | BIT(HELP),
		.run = command_top,
	},
	{
		.name = "doctor",
		.usage = "",
		.summary = "check driver, kernel, mount and leases",
		.help = "Checks what gpumem needs of this machine, a line each: ok, "
			"FAILED and what to do, or optional and what it is good for. "
			"The driver is the one that the mount's broker uses; without a "
			"mount it is libcuda.so.1. "
			"Exit status 1 if something needed has failed.",
		.example = "gpumem doctor",
		.options = BIT(HELP),
		.run = command_doctor,
	},
	{
		.name = "complete",
		.usage = "verbs|names",
		.summary = "print words for a shell's completion",
		.help = "Prints the mount's verbs, or the names of its allocations.",
		.example = "gpumem complete names",
		.options = BIT(HELP),
		.hidden = true,
		.run = command_complete,
	},
	{
		.name = "help",
		.usage = "[SUBCOMMAND]",
		.summary = "print this help",
		.help = "Prints the help of gpumem, or of a subcommand, as --help does.",
		.example = "gpumem help put",
		.options = BIT(HELP),
		.hidden = true,
		.run = command_print_help,
	},
};

const size_t n_commands = ARRAY_SIZE(commands);

/* Names of files and texts of a mount may be other users'. */
static int say(enum status status, const char *format, va_list args)
{
	_cleanup_text_ struct text plain = TEXT_INIT;
	_cleanup_free_ char *said = NULL;

	if (vasprintf(&said, format, args) < 0)
		said = NULL;
	text_add_plain(&plain, said ?: "no memory");
	fprintf(stderr, "gpumem: %s\n", text_string(&plain));
	return status;
}

int refused(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int status = say(STATUS_REFUSED, format, args);
	va_end(args);
	return status;
}

int wrong_use(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int status = say(STATUS_WRONG_USE, format, args);
	va_end(args);
	return status;
}

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < n_commands; i++)
		if (commands[i].name && !strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* ---- help ---- */

#define HELP_COLUMN 20

/* A row of a list: a subject, and its explanation folded beside the subject. */
static void help_row(struct text *text, const char *what, const char *words)
{
	size_t length = strlen(what);

	text_printf(text, "  %-*s", HELP_COLUMN - 2, what);
	if (length > HELP_COLUMN - 4)
		text_printf(text, "\n%*s", HELP_COLUMN, "");
	text_fold(text, HELP_COLUMN, HELP_COLUMN, words);
}

static void help_options(struct text *text, unsigned int which)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_row *row = &options[i];
		char what[64];

		if (!(which & 1u << i))
			continue;
		snprintf(what, sizeof what, "-%c, --%s%s%s", row->letter, row->name,
			 row->value ? " " : "", row->value ?: "");
		help_row(text, what, row->help);
	}
}

static void help_program(struct text *text)
{
	unsigned int which = BIT(HELP) | BIT(VERSION);

	text_printf(text, "GPU memory of a gpumem mount: who holds what, and one command "
			  "for each line.\n\n");
	for (size_t i = 0; i < n_commands; i++) {
		const struct command *command = &commands[i];
		bool first = i == 0;

		if (command->hidden)
			continue;
		text_printf(text, "%s gpumem %s%s%s%s%s\n", first ? "usage:" : "      ",
			    first ? "[" : "", command->name ?: "", first ? "]" : "",
			    command->name && *command->usage ? " " : "", command->usage);
		which |= command->options;
	}
	text_printf(text, "\nsubcommands:\n");
	for (size_t i = 0; i < n_commands; i++)
		if (!commands[i].hidden)
			help_row(text, commands[i].name ?: "VERB", commands[i].summary);
	text_printf(text, "\noptions:\n");
	help_options(text, which);
	text_printf(text, "\nexamples:\n");
	for (size_t i = 0; i < n_commands; i++)
		if (!commands[i].hidden)
			text_printf(text, "  %s\n", commands[i].example);
	text_printf(text, "\n");
	text_fold(text, 0, 0,
		  "The mount is $GPUMEM_MOUNT, else the only one on this machine. Exit "
		  "status: 0 done, 1 refused, 2 wrong use. `gpumem SUBCOMMAND --help` "
		  "tells more.");
}

/* The help of the program, or of one subcommand. */
static void command_help(struct text *text, const struct command *command)
{
	if (!command) {
		help_program(text);
		return;
	}
	text_printf(text, "usage: gpumem %s%s%s\n\n", command->name ?: "",
		    command->name && *command->usage ? " " : "", command->usage);
	text_fold(text, 0, 0, command->help);
	text_printf(text, "\n");
	help_options(text, command->options);
	text_printf(text, "\nexample:\n  %s\n", command->example);
}

int help_print(const struct command *command)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	command_help(&text, command);
	fputs(text_string(&text), stdout);
	return STATUS_DONE;
}

int command_print_help(const struct call *call)
{
	const struct command *command = call->n_args ? command_find(call->args[0]) : NULL;

	if (call->n_args && !command)
		return wrong_use("'%s' has no page: try gpumem %s --help", call->args[0],
				 call->args[0]);
	return help_print(command);
}
