/* SPDX-License-Identifier: MIT */
/*
 * Allocations made with until=close, freed with the descriptor of their line. Those that
 * have ended or are published are forgotten, so a descriptor that makes and frees for
 * days stays small.
 */
#pragma once

#include <stddef.h>

#include "model/object.h"

struct broker;
struct registry;

struct kept {
	struct token *tokens;
	size_t n, capacity;
};

/*
 * Keeps an allocation until kept_free(). What is published already stays. Returns: 0;
 * -ENOMEM.
 */
int kept_add(struct kept *kept, struct registry *registry, struct token token);

/* Frees the allocations that are still kept. No lock held. */
void kept_free(struct kept *kept, struct broker *broker);
