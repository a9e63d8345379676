/* SPDX-License-Identifier: MIT */
/* Device memory of a context, and the changes that wait for the end of work. */
#pragma once

struct context;

/* After a synchronize: the pools give back memory above their release threshold. */
void memory_synchronized(void);

/* Frees everything that ends with a context, when nothing runs there any more. */
void memory_end_context(const struct context *context);
