/* SPDX-License-Identifier: MIT */
/*
 * The README of the mount: the tree and every grammar, printed from the same tables as
 * the mount itself, so the text is always true.
 */
#include "readme.h"

#include "node.h"

#include <string.h>

#define COLUMN 29 /* of the help */

static const char intro[] =
	"GPU memory as files. An object is a directory, an attribute a file with one\n"
	"value, a control file takes one command a line. What went wrong is in errors.\n";

const char readme_words[] =
	"SIZE, N       bytes; 4K, 4KiB are powers of 1024, 4KB is 4000; so are M G T\n"
	"              1024xf32, 16Mxf32 is a count of a type\n"
	"TYPE          i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64\n"
	"VALUE         decimal, hex or C floating point; nan and inf too\n"
	"BYTES         1, 2, 4 or 8 of them in hex\n"
	"LOCATION      cpu, numa:N (a node of the host) or device:N\n"
	"ADVICE        set_ or unset_ and read_mostly, preferred_location or\n"
	"              accessed_by; set_preferred_location, set_accessed_by and\n"
	"              unset_accessed_by need a LOCATION\n"
	"NAME          [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}; of allocations and modules\n"
	"              also FOLDER/NAME, in up to 8 folders\n";

/* The placeholder for the name of an object, and the folder of such objects. */
static const struct {
	const char *name;
	const char *place;
} placeholders[N_OBJECT_TYPES] = {
	[OBJECT_ALLOCATION] = { "NAME", "allocations/NAME" },
	[OBJECT_STREAM] = { "NAME", "streams/NAME" },
	[OBJECT_DEVICE] = { "N", "devices/N" },
	[OBJECT_OWNER] = { "UID", "owners/UID" },
	[OBJECT_MODULE] = { "NAME", "modules/NAME" },
	[OBJECT_FUNCTION] = { "NAME", "modules/NAME/functions/NAME" },
	[OBJECT_FOLDER] = { "FOLDER", "allocations/FOLDER" },
};

const char *readme_place(enum object_type type)
{
	return placeholders[type].place;
}

static void heading(struct text *text, const char *title)
{
	text_printf(text, "\n%s\n\n", title);
}

static void print_node(struct text *text, unsigned int depth, const char *name,
		       const char *suffix, const char *help)
{
	int left = 4 * (int)depth + (int)strlen(name) + (int)strlen(suffix);

	text_printf(text, "%*s%s%s", 4 * (int)depth, "", name, suffix);
	if (*help && left >= COLUMN)
		text_printf(text, "\n%*s", COLUMN, "");
	else if (*help)
		text_printf(text, "%*s", COLUMN - left, "");
	text_fold(text, COLUMN, COLUMN, help);
}

static void print_files(struct text *text, unsigned int depth, enum object_type type)
{
	size_t n;
	const struct node_row *rows = nodes_of(type, &n);

	print_node(text, depth, placeholders[type].name, "/", "");
	for (size_t i = 1; i < n; i++) {
		bool folder = rows[i].kind == NODE_FOLDER;

		print_node(text, depth + 1, rows[i].name, folder ? "/" : "",
			   rows[i].help);
		if (folder)
			print_files(text, depth + 2, rows[i].holds);
	}
}

static void print_fixed(struct text *text, unsigned int depth, unsigned int parent)
{
	size_t n;
	const struct node_row *rows = nodes_fixed(&n);

	for (size_t i = 1; i < n; i++) {
		const struct node_row *row = &rows[i];
		bool file = row->kind != NODE_DIRECTORY && row->kind != NODE_FOLDER;

		if (row->parent != parent)
			continue;
		print_node(text, depth, row->name, file ? "" : "/", row->help);
		if (row->kind == NODE_FOLDER)
			print_files(text, depth + 1, row->holds);
		if (!file)
			print_fixed(text, depth + 1, (unsigned int)i);
	}
}

static void print_verb(struct text *text, const struct verb *verb)
{
	text_printf(text, "    %s: ", verb->name);
	text_fold(text, 4 + strlen(verb->name) + 2, 8, verb->help);
	if (verb->usage) {
		text_printf(text, "        control/%s\n            ", verb->name);
		text_fold(text, 12, 16, verb->usage);
	}
	if (verb->object != OBJECT_BROKER) {
		text_printf(text, "        %s/%s\n            ",
			    readme_place(verb->object), verb->name);
		text_fold(text, 12, 16, verb->object_usage);
	}
}

static void print_verbs(struct text *text)
{
	size_t n;
	const struct verb *verbs = verb_table(&n);

	for (size_t i = 0; i < n; i++)
		print_verb(text, &verbs[i]);
}

void readme_print(struct text *text)
{
	text_printf(text, "%s", intro);
	heading(text, "THE TREE");
	print_fixed(text, 1, 0);
	heading(text, "COMMANDS");
	print_verbs(text);
	heading(text, "WORDS");
	text_printf(text, "%s", readme_words);
}
