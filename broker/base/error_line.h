/* SPDX-License-Identifier: MIT */
/* Lines of the mount's `errors`: TIME [uid=N] pid=N FILE ERRNO sentence. */
#pragma once

#include "base/text.h"

/*
 * Adds the sentence of the newest line about this error of this thread with this file: a
 * path, or the path's end. A failure that the kernel or the caller finds has no line, and
 * an older line must not stand for it. `errors`: the path of the mount's file.
 *
 * Returns: whether there is such a line.
 */
bool error_line_find(const char *errors, const char *file, int error,
		     struct text *sentence);
