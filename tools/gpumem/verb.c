/* SPDX-License-Identifier: MIT */
/*
 * A verb is a file of the mount's control/, so a new one needs nothing here.
 */
#include "verb.h"

#include "command.h"
#include "mount.h"
#include "name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In $'', which the shell undoes: raw, such a word would do something to a terminal. */
static void shell_quote_bytes(struct text *text, const char *word)
{
	text_printf(text, "$'");
	for (; *word; word++) {
		unsigned char byte = (unsigned char)*word;

		if (byte < ' ' || byte > '~')
			text_printf(text, "\\%03o", byte);
		else if (byte == '\'' || byte == '\\')
			text_printf(text, "\\%c", byte);
		else
			text_add(text, word, 1);
	}
	text_add(text, "'", 1);
}

void shell_quote(struct text *text, const char *word)
{
	if (!string_is_plain(word)) {
		shell_quote_bytes(text, word);
		return;
	}
	if (*word &&
	    !word[strspn(word, "abcdefghijklmnopqrstuvwxyz"
			       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-@%")]) {
		text_printf(text, "%s", word);
		return;
	}
	text_add(text, "'", 1);
	for (; *word; word++)
		if (*word == '\'')
			text_add(text, "'\\''", 4);
		else
			text_add(text, word, 1);
	text_add(text, "'", 1);
}

void shell_line(struct text *text, const struct mount *mount, const char *file,
		const char *line)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "%s/%s", mount->path, file);
	/* The echo of some shells takes a backslash and digits for a byte. */
	text_printf(text, strchr(line, '\\') ? "printf '%%s\\n' " : "echo ");
	shell_quote(text, line);
	text_printf(text, " >");
	shell_quote(text, text_string(&path));
}

/* Adds the names in a folder of the mount, each with words in front. Other names than a
 * broker's are left out: a shell might run them. Returns: 0; -errno. */
static int add_folder(struct text *text, const struct mount *mount, const char *name,
		      const char *before)
{
	int fd = openat(mount->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder)))
		if (name_is_valid(entry->d_name))
			text_printf(text, "%s%s", before, entry->d_name);
	closedir(folder);
	return 0;
}

/*
 * Adds the allocations in a folder and in the folders in it, with their full names, a
 * line each. Names that no allocation can have are left out, as above. inside: the
 * folder's name and a `/`, or nothing. Returns: 0; -errno.
 */
static int add_allocations(struct text *text, int at, const char *path,
			   const char *inside)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder))) {
		_cleanup_text_ struct text name = TEXT_INIT;
		struct stat st;

		if (!name_is_valid(entry->d_name) || fstatat(fd, entry->d_name, &st, 0))
			continue;
		/* A folder has size 0, an allocation 1 byte at least. */
		text_printf(&name, "%s%s%s", inside, entry->d_name,
			    st.st_size ? "" : "/");
		text_printf(text, "\n%s", text_string(&name));
		if (!st.st_size)
			(void)add_allocations(text, fd, entry->d_name,
					      text_string(&name));
	}
	closedir(folder);
	return 0;
}

/* Adds the names of the subcommands and of the verbs. */
static void add_names(struct text *text, const struct mount *mount)
{
	const char *between = "";

	for (size_t i = 0; i < n_commands; i++) {
		if (!commands[i].name || commands[i].hidden)
			continue;
		text_printf(text, "%s%s", between, commands[i].name);
		between = ", ";
	}
	(void)add_folder(text, mount, "control", between);
}

int command_complete(const struct call *call)
{
	bool verbs = call->n_args == 1 && !strcmp(call->args[0], "verbs");
	bool names = call->n_args == 1 && !strcmp(call->args[0], "names");
	_cleanup_mount_ struct mount mount = MOUNT_CLOSED;
	_cleanup_text_ struct text text = TEXT_INIT, why = TEXT_INIT;

	if (!verbs && !names)
		return wrong_use("complete needs one of verbs, names");
	/* a person who types sees no sentences */
	if (mount_try(&mount, &why) ||
	    (verbs ? add_folder(&text, &mount, "control", "\n")
		   : add_allocations(&text, mount.fd, "allocations", "")))
		return STATUS_REFUSED;
	if (text.length)
		puts(text.data + 1);
	return STATUS_DONE;
}

static bool is_verb(const struct mount *mount, const char *verb)
{
	_cleanup_text_ struct text file = TEXT_INIT;

	text_printf(&file, "control/%s", verb);
	return *verb && *verb != '.' && !strchr(verb, '/') &&
	       faccessat(mount->fd, text_string(&file), F_OK, 0) == 0;
}

/* The line of a control file as the mount describes it. */
static int verb_usage(const struct mount *mount, const struct call *call, FILE *to)
{
	_cleanup_text_ struct text file = TEXT_INIT, usage = TEXT_INIT, out = TEXT_INIT;

	text_printf(&file, "control/%s", call->verb);
	int r = mount_read(mount, text_string(&file), &usage);
	if (r)
		return refused("%s/%s: %s", mount->path, text_string(&file),
			       strerror(-r));
	text_printf(&out, "usage: gpumem %s ", call->verb);
	/* the first line; more lines are a state */
	usage.data[strcspn(usage.data, "\n")] = '\0';
	text_fold(&out, out.length, 15, usage.data);
	fputs(text_string(&out), to);
	return STATUS_DONE;
}

/* Whether the usage calls the value of the word's key FILE. */
static bool word_is_file(const char *usage, const char *word)
{
	_cleanup_text_ struct text wanted = TEXT_INIT;
	size_t key = strcspn(word, "=");
	const char *found;

	if (!word[key])
		return false;
	text_printf(&wanted, "%.*s=FILE", (int)key, word);
	found = strstr(usage, text_string(&wanted));
	return found && (found == usage || strchr(" [", found[-1]));
}

/*
 * Adds KEY=FILE as a control file takes it: absolute, since nobody else knows this
 * working directory, and with blanks in octal, since a line is split at them.
 */
static void add_file(struct text *line, const char *word)
{
	_cleanup_text_ struct text path = TEXT_INIT;
	size_t key = strcspn(word, "=") + 1;
	char folder[PATH_MAX];

	text_add(line, word, key);
	if (word[key] && word[key] != '/' && getcwd(folder, sizeof(folder)))
		text_printf(&path, "%s/", strcmp(folder, "/") ? folder : "");
	text_printf(&path, "%s", word + key);
	for (const char *at = text_string(&path); *at; at++) {
		if (strchr(" \t\r\n\\", *at))
			text_printf(line, "\\%03o", (unsigned char)*at);
		else
			text_add(line, at, 1);
	}
}

/* Joins the words of a verb's line. Returns: as line_join(). */
static int verb_line(const struct mount *mount, const struct call *call, const char *file,
		     struct text *line)
{
	_cleanup_text_ struct text usage = TEXT_INIT;
	bool files = false;
	int status;

	if (mount_read(mount, file, &usage))
		text_clear(&usage);
	for (int i = 0; i < call->n_args; i++)
		files |= word_is_file(text_string(&usage), call->args[i]);
	if (!files)
		return line_join(line, call->args, call->n_args);
	for (int i = 0; i < call->n_args; i++) {
		text_printf(line, "%s", i ? " " : "");
		if (word_is_file(text_string(&usage), call->args[i])) {
			add_file(line, call->args[i]);
			continue;
		}
		status = words_join(line, &call->args[i], 1);
		if (status)
			return status;
	}
	return STATUS_DONE;
}

int words_join(struct text *line, char **words, int n)
{
	for (int i = 0; i < n; i++) {
		if (strchr(words[i], '\n'))
			return wrong_use(
				"an argument can't have a newline: a line is one "
				"command");
		text_printf(line, "%s%s", i ? " " : "", words[i]);
	}
	return STATUS_DONE;
}

int line_join(struct text *line, char **words, int n)
{
	int status = words_join(line, words, n);

	/* The mount skips a blank line and reports no error. */
	if (!status && strspn(text_string(line), " \t") == line->length)
		return wrong_use("an argument is missing; --help prints the usage");
	return status;
}

/* Words of other programs, and what does the same here. */
static const struct {
	const char *word, *usage;
} others[] = {
	{ "cat", "get NAME -" },
	{ "rm", "free NAME" },
};

static int unknown_verb(const struct mount *mount, const char *word)
{
	_cleanup_text_ struct text names = TEXT_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(word, others[i].word) == 0)
			return wrong_use("there is no '%s': try gpumem %s", word,
					 others[i].usage);
	add_names(&names, mount);
	return wrong_use("'%s' is not one of: %s; --help explains them", word,
			 text_string(&names));
}

int command_verb(const struct call *call)
{
	_cleanup_text_ struct text file = TEXT_INIT, line = TEXT_INIT, out = TEXT_INIT;
	_cleanup_mount_ struct mount mount = MOUNT_CLOSED;
	int status = mount_open(&mount);

	if (status)
		return status;
	if (!is_verb(&mount, call->verb))
		return unknown_verb(&mount, call->verb);
	if (call->values[OPTION_HELP])
		return verb_usage(&mount, call, stdout);
	if (call->n_args == 0)
		return verb_usage(&mount, call, stderr) ?: STATUS_WRONG_USE;
	text_printf(&file, "control/%s", call->verb);
	status = verb_line(&mount, call, text_string(&file), &line);
	if (status)
		return status;
	if (call->values[OPTION_DRY_RUN]) {
		shell_line(&out, &mount, text_string(&file), text_string(&line));
		puts(text_string(&out));
		return STATUS_DONE;
	}
	if (mount_line(&mount, text_string(&file), text_string(&line), &out))
		return refused("%s", gpumem_error());
	fputs(text_string(&out), stdout);
	return STATUS_DONE;
}
