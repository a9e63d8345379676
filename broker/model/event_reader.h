/* SPDX-License-Identifier: MIT */
/* A reader of changes as they come: see broker.h, where one is made. */
#pragma once

#include "base/def.h"

struct event_reader;

/* Takes NULL. On return wake is not running and will not be called. */
struct event_reader *event_reader_free(struct event_reader *reader);

/* Takes at most size bytes of whole lines; `lost N` stands where N were overwritten.
 * Returns: how many bytes; 0 when there is nothing now. size >= 512. */
size_t event_reader_take(struct event_reader *reader, char *bytes, size_t size);
