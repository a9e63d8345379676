/* SPDX-License-Identifier: MIT */
/*
 * Two tables make the tree, as in Plan 9's fsys: the fixed nodes, and for each type of
 * object the files in the folder of an object. Both are put together once, at the start,
 * from the rows below and the broker's tables of attributes and verbs; from then on they
 * are constant and read without a lock.
 *
 * A node id is 64 bits, all used:
 *
 *	bits 0-5    number of its file (node_number.h)
 *	bits 6-8    type of object
 *	bits 9-31   slot of the token
 *	bits 32-63  generation of the token
 *
 * For fixed nodes the type is 0 (OBJECT_BROKER), bits 0-5 are FIXED and the bits
 * from 9 on the number, which makes the root 1. With CONTROL_INODE in bits 0-5 they are a
 * serial number: see control_inode.c. st_ino has the same shape with the id of the object,
 * never used again, in place of the token.
 */
#include "node.h"

#include "base/handle_table.h"
#include "node_number.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define ROW_BITS      6
#define TYPE_BITS     3
#define SLOT_BITS     23
#define LOW_BITS      (ROW_BITS + TYPE_BITS)
#define ROW_MASK      ((1u << ROW_BITS) - 1)
#define TYPE_MASK     ((1u << TYPE_BITS) - 1)
#define SLOT_MASK     ((1u << SLOT_BITS) - 1)

#define FIXED	      1
#define CONTROL_INODE 2

_Static_assert(NODE_NUMBERS_MAX <= 1 << ROW_BITS, "a number fits its bits");
_Static_assert(SLOTS_MAX <= 1 << SLOT_BITS, "a slot fits its bits");
_Static_assert(N_OBJECT_TYPES <= 1 << TYPE_BITS, "a type fits its bits");

/* Rows of fixed nodes that others refer to. */
enum {
	ROW_ROOT,
	ROW_CONTROL,
	ROW_OWNERS = 8,
	ROW_DEFAULT = 13,
};

static const struct node_row fixed_rows[] = {
	[ROW_ROOT] = { "", "the mount", NODE_DIRECTORY, S_IFDIR | 0555 },
	[ROW_CONTROL] = { "control", "every verb as one file", NODE_DIRECTORY,
			  S_IFDIR | 0555 },
	{ "README", "this tree and every grammar", NODE_README, S_IFREG | 0444 },
	{ "status", "totals, flat keyed", NODE_STATUS, S_IFREG | 0444 },
	{ "errors", "your own last failures, newest last (root sees everyone's)",
	  NODE_ERRORS, S_IFREG | 0444 },
	{ "events", "the last changes, ends at end of file", NODE_EVENTS,
	  S_IFREG | 0444 },
	{ "socket", "link to where a lease's ticket is exchanged for its memory",
	  NODE_LINK, S_IFLNK | 0777 },
	{ "events_pipe", "each change as it comes: blocks, works with poll", NODE_PIPE,
	  S_IFREG | 0444 },
	[ROW_OWNERS] = { NULL,
			 "who uses the GPUs; mkdir makes one, to have limits from the "
			 "start",
			 NODE_FOLDER, S_IFDIR | 0755, .holds = OBJECT_OWNER },
	{ NULL, "the GPUs, numbered as nvidia-smi does", NODE_FOLDER, S_IFDIR | 0555,
	  .holds = OBJECT_DEVICE },
	{ NULL, "rmdir frees one, mv renames it; mkdir makes a folder of them",
	  NODE_FOLDER, S_IFDIR | 0777, .holds = OBJECT_ALLOCATION },
	{ NULL, "mkdir makes one, or a folder of them; rmdir unloads it", NODE_FOLDER,
	  S_IFDIR | 0777, .holds = OBJECT_MODULE },
	{ NULL, "mkdir makes one, rmdir destroys it", NODE_FOLDER, S_IFDIR | 0777,
	  .holds = OBJECT_STREAM },
	[ROW_DEFAULT] = { "default", "", NODE_DIRECTORY, S_IFDIR | 0555,
			  .parent = ROW_OWNERS },
};

/* Files that objects have beside their attributes and verbs. */
static const struct node_row object_rows[] = {
	{ "data", "the bytes themselves; mmap is for host memory", NODE_DATA, S_IFREG,
	  .type = OBJECT_ALLOCATION },
	{ "lease", "open it to map the memory in a program of your own", NODE_LEASE,
	  S_IFREG, .type = OBJECT_ALLOCATION },
	{ "tensors", "JSON header of a safetensors file: what is where in data",
	  NODE_UPLOAD, S_IFREG, .type = OBJECT_ALLOCATION },
	{ "image", "cubin, fatbin or PTX: loaded when it has been written", NODE_UPLOAD,
	  S_IFREG, .type = OBJECT_MODULE },
	{ NULL, "its kernels", NODE_FOLDER, S_IFDIR, .type = OBJECT_MODULE,
	  .holds = OBJECT_FUNCTION },
};

static const struct node_row module_folder = {
	"", "", NODE_FOLDER, S_IFDIR, .type = OBJECT_MODULE, .holds = OBJECT_MODULE,
};

struct node_table {
	struct node_row rows[NODE_NUMBERS_MAX];
	size_t n;
	const struct node_row *by_number[NODE_NUMBERS_MAX];
};

static struct node_table tables[N_OBJECT_TYPES]; /* OBJECT_BROKER's: the fixed nodes */

/* A file without a number would be no file: its name is to be added to node_number.c. */
static void table_add(enum object_type type, const struct node_row *row)
{
	struct node_table *table = &tables[type];
	const char *directory = table->n ? table->rows[row->parent].name : "";
	int number = node_number(type, directory, row->name);

	assert(table->n < NODE_NUMBERS_MAX && number >= 0);
	table->rows[table->n] = *row;
	table->rows[table->n].number = (unsigned int)number;
	table->by_number[number] = &table->rows[table->n++];
}

static void add_fixed(void)
{
	const struct attribute_table *table = &attribute_tables[OBJECT_BROKER];
	const struct verb *verbs;
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(fixed_rows); i++) {
		struct node_row row = fixed_rows[i];

		if (!row.name)
			row.name = object_folder(row.holds);
		table_add(OBJECT_BROKER, &row);
	}
	for (size_t i = 0; i < table->n; i++) {
		const struct attribute *row = &table->rows[i];

		if (!(row->flags & (ATTRIBUTE_ROOT_FILE | ATTRIBUTE_DEFAULT)))
			continue;
		table_add(OBJECT_BROKER,
			  &(struct node_row){
				  .name = row->name,
				  .help = row->help,
				  .kind = NODE_ATTRIBUTE,
				  .mode = S_IFREG |
					  (row->flags & ATTRIBUTE_WRITABLE ? 0644 : 0444),
				  .parent = row->flags & ATTRIBUTE_DEFAULT ? ROW_DEFAULT
									   : ROW_ROOT,
				  .attribute = row,
			  });
	}
	verbs = verb_table(&n);
	for (size_t i = 0; i < n; i++) {
		if (!verbs[i].usage)
			continue;
		table_add(OBJECT_BROKER,
			  &(struct node_row){
				  .name = verbs[i].name,
				  .help = verbs[i].help,
				  .kind = NODE_CONTROL,
				  .mode = S_IFREG | 0666,
				  .parent = ROW_CONTROL,
				  .verb = &verbs[i],
			  });
	}
}

static void add_attributes(enum object_type type)
{
	const struct attribute_table *table = &attribute_tables[type];

	for (size_t i = 0; i < table->n; i++) {
		const struct attribute *row = &table->rows[i];

		if (row->flags & ATTRIBUTE_NO_FILE)
			continue;
		table_add(type,
			  &(struct node_row){
				  .name = row->name,
				  .help = row->help,
				  .kind = NODE_ATTRIBUTE,
				  .mode = S_IFREG,
				  .type = type,
				  .managed = row->flags & ATTRIBUTE_MANAGED,
				  .attribute = row,
			  });
	}
}

static void add_verbs(enum object_type type)
{
	const struct verb *verbs;
	size_t n;

	verbs = verb_table(&n);
	for (size_t i = 0; i < n; i++) {
		if (verbs[i].object != type)
			continue;
		table_add(type,
			  &(struct node_row){
				  .name = verbs[i].name,
				  .help = verbs[i].help,
				  .kind = NODE_CONTROL,
				  .mode = S_IFREG,
				  .type = type,
				  .managed = verbs[i].managed,
				  .verb = &verbs[i],
			  });
	}
}

/* Files beside attributes and verbs; their folders, when folders is set. */
static void add_rows(enum object_type type, bool folders)
{
	for (size_t i = 0; i < ARRAY_SIZE(object_rows); i++) {
		struct node_row row = object_rows[i];

		if (row.type != type || (row.kind == NODE_FOLDER) != folders)
			continue;
		if (!row.name)
			row.name = object_folder(row.holds);
		table_add(type, &row);
	}
}

/* A function's attributes are more than a line each, or asked for. */
static bool has_status(enum object_type type)
{
	return type != OBJECT_FUNCTION;
}

static void add_files_of(enum object_type type)
{
	const struct node_row directory = { "", "", NODE_OBJECT, S_IFDIR, .type = type };
	const struct node_row folder = {
		"", "", NODE_FOLDER, S_IFDIR, .type = type, .holds = OBJECT_ALLOCATION
	};
	const struct node_row status = { "status", "all of it, flat keyed", NODE_STATUS,
					 S_IFREG, .type = type };

	table_add(type, type == OBJECT_FOLDER ? &folder : &directory);
	if (type == OBJECT_FOLDER)
		return;
	add_rows(type, false);
	if (has_status(type))
		table_add(type, &status);
	add_attributes(type);
	add_verbs(type);
	add_rows(type, true);
}

void nodes_init(void)
{
	memset(tables, 0, sizeof(tables));
	add_fixed();
	for (unsigned int type = OBJECT_BROKER + 1; type < N_OBJECT_TYPES; type++)
		add_files_of(type);
}

const struct node_row *nodes_fixed(size_t *ret_n)
{
	return nodes_of(OBJECT_BROKER, ret_n);
}

const struct node_row *nodes_of(enum object_type type, size_t *ret_n)
{
	*ret_n = tables[type].n;
	return tables[type].rows;
}

const struct node_row *nodes_find_fixed(const struct node_row *directory,
					const char *name)
{
	const struct node_table *table = &tables[OBJECT_BROKER];
	unsigned int parent = directory - table->rows;

	for (size_t i = 1; i < table->n; i++)
		if (table->rows[i].parent == parent && !strcmp(table->rows[i].name, name))
			return &table->rows[i];
	return NULL;
}

const struct node_row *nodes_find_of(enum object_type type, const char *name)
{
	const struct node_table *table = &tables[type];

	for (size_t i = 1; i < table->n; i++)
		if (!strcmp(table->rows[i].name, name))
			return &table->rows[i];
	return NULL;
}

const struct node_row *nodes_module_folder(void)
{
	return &module_folder;
}

struct node node_of_object(struct object_ref object)
{
	return (struct node){ tables[object.type].rows, object.token };
}

bool node_is_fixed(const struct node *node)
{
	const struct node_table *table = &tables[OBJECT_BROKER];

	return node->row >= table->rows && node->row < table->rows + table->n;
}

static uint64_t pack_fixed(const struct node_row *row)
{
	return (uint64_t)row->number << LOW_BITS | FIXED;
}

static uint64_t pack_low(const struct node_row *row)
{
	return (uint64_t)row->type << ROW_BITS | row->number;
}

uint64_t node_id(const struct node *node)
{
	if (node_is_fixed(node))
		return pack_fixed(node->row);
	return (uint64_t)node->token.generation << 32 |
	       (uint64_t)node->token.slot << LOW_BITS | pack_low(node->row);
}

int node_from_id(uint64_t id, struct node *ret_node)
{
	unsigned int type = id >> ROW_BITS & TYPE_MASK;
	uint64_t number = id & ROW_MASK;
	struct token token = { 0 };

	if (type >= N_OBJECT_TYPES)
		return -ESTALE;
	if (type == OBJECT_BROKER) {
		if (number != FIXED)
			return -ESTALE;
		number = id >> LOW_BITS;
	} else {
		token.slot = id >> LOW_BITS & SLOT_MASK;
		token.generation = id >> 32;
		if (!token.generation)
			return -ESTALE;
	}
	if (number >= NODE_NUMBERS_MAX || !tables[type].by_number[number])
		return -ESTALE;
	*ret_node = (struct node){ tables[type].by_number[number], token };
	return 0;
}

uint64_t node_inode(const struct node *node, uint64_t id)
{
	if (node_is_fixed(node))
		return pack_fixed(node->row);
	return id << LOW_BITS | pack_low(node->row);
}

bool node_has_control_inodes(const struct node_row *row)
{
	return row->kind == NODE_CONTROL || row->kind == NODE_LEASE;
}

uint64_t node_control_inode(uint64_t node_id, uint64_t serial)
{
	struct node node;
	uint64_t number = 0;

	if (node_from_id(node_id, &node) == 0 && node_is_fixed(&node))
		number = node.row->number;
	return (number << CONTROL_SERIAL_BITS | serial) << LOW_BITS | CONTROL_INODE;
}

int node_of_control_inode(uint64_t id, uint64_t *ret_node_id)
{
	uint64_t number = id >> (LOW_BITS + CONTROL_SERIAL_BITS);
	const struct node_row *row = number < NODE_NUMBERS_MAX
					     ? tables[OBJECT_BROKER].by_number[number]
					     : NULL;

	if (!row || row->kind != NODE_CONTROL)
		return -ESTALE;
	*ret_node_id = pack_fixed(row);
	return 0;
}

bool node_is_control_inode(uint64_t id)
{
	return (id & ((1u << LOW_BITS) - 1)) == CONTROL_INODE;
}
