/* SPDX-License-Identifier: MIT */
/* Device memory of a context, and what happens to it when work is done. */
#pragma once

struct context;

/* After a synchronize: the pools give back what they hold over their threshold. */
void memory_synchronized(void);

/* Frees all that ends with a context, when nothing runs in it any more. */
void memory_end_context(const struct context *context);
