/* SPDX-License-Identifier: MIT */
/*
 * Prints gpumem(5), the manual page of the filesystem, from the tables that make the tree
 * and the text on stdin.
 */
#include "roff.h"

#include "node.h"
#include "readme.h"

#include <stdio.h>
#include <stdlib.h>

static void print_row(const struct node_row *row)
{
	bool folder = row->kind == NODE_DIRECTORY || row->kind == NODE_FOLDER;

	printf(".TP\n.I ");
	roff_print(row->name);
	printf("%s\n", folder ? "/" : "");
	roff_print(row->help);
	printf("\n");
}

/* The fixed files of a folder of objects: of owners/default/. */
static void print_fixed(unsigned int parent, const char *place)
{
	size_t n;
	const struct node_row *rows = nodes_fixed(&n);

	for (size_t i = 1; i < n; i++) {
		char path[256];

		if (rows[i].parent != parent)
			continue;
		snprintf(path, sizeof(path), "%s/%s", place, rows[i].name);
		if (rows[i].kind == NODE_DIRECTORY) {
			printf(".SS ");
			roff_print(path);
			printf("/\n");
			print_fixed((unsigned int)i, path);
		} else {
			print_row(&rows[i]);
		}
	}
}

/* The files of an object, then those of the objects in it. */
static void print_object(enum object_type type)
{
	size_t n;
	const struct node_row *rows = nodes_of(type, &n);

	printf(".SS ");
	roff_print(readme_place(type));
	printf("/\n");
	for (size_t i = 1; i < n; i++)
		print_row(&rows[i]);
	for (size_t i = 1; i < n; i++)
		if (rows[i].kind == NODE_FOLDER)
			print_object(rows[i].holds);
}

static void print_tree(void)
{
	size_t n;
	const struct node_row *rows = nodes_fixed(&n);

	for (size_t i = 1; i < n; i++)
		if (rows[i].parent == 0)
			print_row(&rows[i]);
	for (size_t i = 1; i < n; i++) {
		if (rows[i].parent != 0 || rows[i].kind != NODE_FOLDER)
			continue;
		print_object(rows[i].holds);
		print_fixed((unsigned int)i, rows[i].name);
	}
}

static void print_usage(const char *place, const char *name, const char *usage)
{
	printf(".br\n\\fB%s/%s\\fP: ", place, name);
	roff_usage(usage);
	printf("\n");
}

static void print_commands(void)
{
	size_t n;
	const struct verb *verbs = verb_table(&n);

	for (size_t i = 0; i < n; i++) {
		const struct verb *verb = &verbs[i];

		printf(".TP\n.B %s\n", verb->name);
		roff_print(verb->help);
		printf("\n");
		if (verb->usage)
			print_usage("control", verb->name, verb->usage);
		if (verb->object != OBJECT_BROKER)
			print_usage(readme_place(verb->object), verb->name,
				    verb->object_usage);
	}
}

static void print_words(void)
{
	roff_print(readme_words);
}

int main(void)
{
	static const struct roff_part parts[] = {
		{ "tree", print_tree },
		{ "commands", print_commands },
		{ "words", print_words },
	};

	nodes_init();
	return roff_fill(VERSION, parts, ARRAY_SIZE(parts)) ? EXIT_SUCCESS : EXIT_FAILURE;
}
