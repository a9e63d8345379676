/* SPDX-License-Identifier: MIT */
/* A text that is made once and read by many, without a copy for each. */
#pragma once

#include "base/text.h"

struct shared_text {
	unsigned int n_refs; /* atomic */
	struct text text;    /* not changed while others have references */
};

/* An empty text with one reference. NULL: no memory. */
struct shared_text *shared_text_new(void);
struct shared_text *shared_text_ref(struct shared_text *shared);
/* Takes NULL. Returns: NULL. */
struct shared_text *shared_text_unref(struct shared_text *shared);

static inline void shared_text_unrefp(struct shared_text **shared)
{
	shared_text_unref(*shared);
}

#define _cleanup_shared_text_ _cleanup_(shared_text_unrefp)
