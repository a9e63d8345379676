/* SPDX-License-Identifier: MIT */
/* The contents of a file that is written whole, on their way to the object. */
#pragma once

#include <stdint.h>

#include "model/access.h"
#include "model/object.h"

struct completion;

struct written {
	struct token token;	 /* of the object */
	struct caller caller;	 /* closed the file; without groups */
	uint64_t serial;	 /* of a module's image: see load_announce() */
	struct completion *wait; /* registry.lock; NULL: a signal has ended the wait */
	int fd; /* a memfd without writers; who stores the contents may take it */
	uint64_t size;
	int error; /* -errno: there was no memory for all of the contents */
};
