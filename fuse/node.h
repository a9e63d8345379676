/* SPDX-License-Identifier: MIT */
/*
 * The nodes of the tree: two tables of rows, and arithmetic on identities.
 *
 * A node id holds the number of the node's row and, for the files of an object, the
 * object's whole token. So the broker recognizes an id that outlives its object, and such
 * an id never reaches another object.
 */
#pragma once

#include "api/attribute.h"
#include "api/broker.h"
#include "api/verb_table.h"

enum node_kind {
	NODE_DIRECTORY, /* of fixed nodes */
	NODE_FOLDER,	/* of objects of a type, in the root or in an object */
	NODE_OBJECT,	/* the directory of an object */
	NODE_README,
	NODE_STATUS,
	NODE_ATTRIBUTE,
	NODE_ERRORS,
	NODE_EVENTS,
	NODE_PIPE,
	NODE_CONTROL,
	NODE_DATA,
	NODE_LEASE,
	NODE_LINK,   /* `socket` */
	NODE_UPLOAD, /* written whole: `image`, `tensors` */
	N_NODE_KINDS,
};

/* A row of a table: a fixed node, or a file of every object of a type. */
struct node_row {
	const char *name;
	const char *help;
	enum node_kind kind;
	mode_t mode;		/* with its type; permissions only of fixed nodes */
	unsigned int parent;	/* fixed nodes: row of the directory */
	unsigned int number;	/* in node ids; see node_number.h */
	enum object_type type;	/* type of the object that has the file */
	enum object_type holds; /* NODE_FOLDER: objects of this type */
	bool managed;		/* only in the folders of managed memory */
	const struct attribute *attribute;
	const struct verb *verb;
};

/* A node, decoded from its id. */
struct node {
	const struct node_row *row;
	struct token token; /* TOKEN_NONE for fixed nodes */
};

#define NODE_ROOT 1 /* FUSE's id of the root */

/* Builds the tables from the broker's own; before anything else here, once. */
void nodes_init(void);

/* The fixed nodes, the root first. */
const struct node_row *nodes_fixed(size_t *ret_n);

/* The files of an object of the type; row 0 is its directory. */
const struct node_row *nodes_of(enum object_type type, size_t *ret_n);

/* Finds a name among the fixed nodes of a directory, the files of an object.
 * Returns: the row; NULL. */
const struct node_row *nodes_find_fixed(const struct node_row *directory,
					const char *name);
const struct node_row *nodes_find_of(enum object_type type, const char *name);

/*
 * The row of a module's directory that has become a folder; its id is the module's. It is
 * in no table.
 */
const struct node_row *nodes_module_folder(void);

/* The directory of an object. */
struct node node_of_object(struct object_ref object);

/* Whether the node is fixed, and no file of an object. */
bool node_is_fixed(const struct node *node);

uint64_t node_id(const struct node *node);

/* Returns: 0; -ESTALE for an id without a node. */
int node_from_id(uint64_t id, struct node *ret_node);

/* The node's st_ino: stable for the life of the object, never used again. id comes from
 * object_stat and is ignored for fixed nodes. */
uint64_t node_inode(const struct node *node, uint64_t id);

/*
 * Control inodes: a control file or `lease` gets a new id at each look-up (see
 * control_inode.h). The id of a file in `control` has the file's number, too.
 * serial < 2^CONTROL_SERIAL_BITS.
 */
#define CONTROL_SERIAL_BITS 49
bool node_has_control_inodes(const struct node_row *row);
uint64_t node_control_inode(uint64_t node_id, uint64_t serial);

/* The node of a control inode of any broker. Returns: 0; -ESTALE: an object's file. */
int node_of_control_inode(uint64_t id, uint64_t *ret_node_id);
bool node_is_control_inode(uint64_t id);
