/* SPDX-License-Identifier: MIT */
/*
 * What is asked of a worker when its file is read, a function each: they have the shape
 * of struct attribute's ask and struct verb's state.
 */
#pragma once

#include "api/attribute.h"
#include "memops/placement_report.h"

/* Of a device: bytes in use by all programs. */
void ask_memory_used(struct broker *broker, struct token token,
		     const struct caller *caller, struct wait *wait);
