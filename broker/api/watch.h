/* SPDX-License-Identifier: MIT */
/*
 * The option check_records: whenever registry.lock is let go of, objects are compared with
 * their records, and a difference ends the program. Records are kept without a keeper,
 * too, so that every suite finds what is not saved.
 */
#pragma once

#include <stdbool.h>

struct registry;

/* Whether the option is on. */
bool records_are_watched(void);

/* Compares from now on; NULL: no more. */
void watch_records(struct registry *registry);
