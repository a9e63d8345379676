/* SPDX-License-Identifier: MIT */
/*
 * Attributes of all object types: one table defines their files, `status` and the README
 * of the mount.
 */
#pragma once

#include "api/broker.h"

/* The type of a struct member whose value is printed without a show(). */
enum field_type {
	FIELD_NONE, /* show() instead */
	FIELD_U32,
	FIELD_U64,
	FIELD_I32,
	FIELD_ADDRESS, /* a uint64_t, in hex */
	FIELD_TIME,    /* an int64_t, seconds */
	FIELD_ERRNO,   /* an int32_t; `none` for 0 */
	FIELD_CHARS,   /* an array of char */
	FIELD_STRING,  /* `none` for NULL, like the next: */
	FIELD_OWNER,
	FIELD_STREAM,
};

enum attribute_flag {
	ATTRIBUTE_ASKED = 1 << 0,     /* of broker_ask(): from a worker, or long; not in
					 `status` */
	ATTRIBUTE_WRITABLE = 1 << 1,  /* by the owner, with broker_store() */
	ATTRIBUTE_ROOT_FILE = 1 << 2, /* of the broker: a file in the root */
	ATTRIBUTE_MANAGED = 1 << 3,   /* only managed memory has the file */
	ATTRIBUTE_PRIVATE = 1 << 4,   /* readable by the owner and root */
	ATTRIBUTE_NO_FILE = 1 << 5,   /* only in `status`: a verb's file has the name */
	ATTRIBUTE_TEXT = 1 << 6,      /* any number of lines, not in `status` */
	ATTRIBUTE_DEVICE = 1 << 7,    /* of a device, from an array in the broker */
	ATTRIBUTE_DEFAULT = 1 << 8,   /* of the broker: a file in owners/default */
};

struct attribute_view; /* see attribute_view.h */

struct attribute {
	const char *name;
	const char *help; /* one line, no period */
	unsigned int flags;
	void (*show)(const struct attribute_view *view, struct text *text);

	/* Without show: a field of the object, or of the broker and one for each device.
	 */
	enum field_type type;
	size_t offset;
	size_t stride; /* ATTRIBUTE_DEVICE: from a device's field to the next */

	/* For ATTRIBUTE_ASKED: see api/text_maker.h. Everybody who asks gets the same
	 * text. No lock held. Returns: 0; -errno. */
	int (*print)(struct broker *broker, struct token token, struct text *text);

	/* Called before print, for each who asks. NULL: not needed. Returns: 0; -errno,
	 * in the journal. */
	int (*check)(struct broker *broker, struct token token,
		     const struct caller *caller);

	/* Called before show, no lock held. NULL: not needed. */
	void (*prepare)(struct broker *broker, struct token token);

	/*
	 * Takes a written value instead of broker_store(), and may have to wait. NULL:
	 * not needed. The failure is in the journal.
	 */
	void (*store)(struct broker *broker, struct token token,
		      const struct caller *caller, const char *value, size_t length,
		      struct completion *wait);

	/* For ATTRIBUTE_ASKED without print: see broker_ask(). */
	void (*request)(struct broker *broker, struct token token,
			const struct caller *caller, struct completion *wait);
};

/* The attributes of a type, in the order of `status`. */
struct attribute_table {
	const struct attribute *rows;
	size_t n;
};

#define ATTRIBUTE_TABLE(rows)          \
	{                              \
		rows, ARRAY_SIZE(rows) \
	}

extern const struct attribute_table attribute_tables[N_OBJECT_TYPES];
