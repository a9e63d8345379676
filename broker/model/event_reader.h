/* SPDX-License-Identifier: MIT */
/* A reader of events, in the order in which they happen; broker.h makes readers. */
#pragma once

#include <stddef.h>

struct event_reader;

/* Takes NULL. After the return `wake` is not running and will not be called again. */
struct event_reader *event_reader_free(struct event_reader *reader);

/*
 * Copies whole lines, at most size bytes (size >= 512). A line `lost N` stands for N
 * overwritten events.
 * Returns: bytes copied; 0 when there is no new event.
 */
size_t event_reader_take(struct event_reader *reader, char *bytes, size_t size);
