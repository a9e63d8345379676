/* SPDX-License-Identifier: MIT */
/* Marks in streams. */
#pragma once

struct context;

/* Destroys what events a context has left. */
void events_end_context(const struct context *context);
