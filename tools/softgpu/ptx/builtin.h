/* SPDX-License-Identifier: MIT */
/* Functions that no module defines because the driver has them. */
#pragma once

#include "warp.h"

/* Returns: BUILTIN_NONE where there is none of that name. */
enum builtin builtin_find(const char *name);

void builtin_call(struct warp *warp, enum builtin builtin, const struct call *call,
		  uint32_t mask);
