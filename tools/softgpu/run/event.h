/* SPDX-License-Identifier: MIT */
/* Marks in streams. */
#pragma once

struct context;

/* Destroys all events of a context. */
void events_end_context(const struct context *context);
