/* SPDX-License-Identifier: MIT */
#include "roff.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void print_character(char character)
{
	if (character == '-')
		fputs("\\-", stdout);
	else if (character == '\\')
		fputs("\\e", stdout);
	else
		putchar(character);
}

void roff_print(const char *words)
{
	/* a line that begins with either is a request */
	if (*words == '.' || *words == '\'')
		fputs("\\&", stdout);
	for (; *words; words++)
		print_character(*words);
}

void roff_usage(const char *usage)
{
	while (*usage) {
		size_t length = isupper((unsigned char)*usage) ? 1 : 0;

		while (length && isupper((unsigned char)usage[length]))
			length++;
		if (length > 1) {
			printf("\\fI%.*s\\fP", (int)length, usage);
			usage += length;
		} else {
			print_character(*usage++);
		}
	}
}

static const struct roff_part *part_find(const char *line, const struct roff_part *parts,
					 size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(parts[i].name);

		if (line[0] == '@' && !strncmp(line + 1, parts[i].name, length) &&
		    !strcmp(line + 1 + length, "@\n"))
			return &parts[i];
	}
	return NULL;
}

bool roff_fill(const char *version, const struct roff_part *parts, size_t n)
{
	static const char mark[] = "@version@";
	char line[1024];

	while (fgets(line, sizeof line, stdin)) {
		const struct roff_part *part = part_find(line, parts, n);
		char *at = strstr(line, mark);

		if (part)
			part->print();
		else if (at)
			printf("%.*s%s%s", (int)(at - line), line, version,
			       at + strlen(mark));
		else
			fputs(line, stdout);
	}
	return !ferror(stdin) && !fflush(stdout) && !ferror(stdout);
}
