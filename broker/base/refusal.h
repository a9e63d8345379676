/* SPDX-License-Identifier: MIT */
/* The refusal of a user's request: an errno and a sentence. */
#pragma once

#include "base/def.h"

struct refusal {
	int error;
	char sentence[1536]; /* room for two names with all their folders */
};

/* Fills the refusal. Returns: -error. */
int refuse(struct refusal *refusal, int error, const char *format, ...) _printf_(3, 4);
