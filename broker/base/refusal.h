/* SPDX-License-Identifier: MIT */
/* Why something that a user asked for is refused: an errno and a sentence. */
#pragma once

#include "base/def.h"

struct refusal {
	int error;
	char sentence[256];
};

/* Fills the refusal. Returns: -error. */
int refuse(struct refusal *refusal, int error, const char *format, ...) _printf_(3, 4);
