/* SPDX-License-Identifier: MIT */
/* The README of the mount, printed from the tables, and the words of its own. */
#pragma once

#include "base/text.h"

#include "api/broker.h"

void readme_print(struct text *text);

/* The forms of words in lines, a line each. */
extern const char readme_words[];

/* The folder of an object of the type, with a placeholder for its name. */
const char *readme_place(enum object_type type);
