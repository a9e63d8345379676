/* SPDX-License-Identifier: MIT */
/*
 * Functions that ask a worker when a file is read. They have the type of struct
 * attribute's ask and struct verb's state.
 */
#pragma once

#include "api/attribute.h"
#include "memops/placement_report.h"

/* Bytes of a device in use by all programs. */
void ask_memory_used(struct broker *broker, struct token token,
		     const struct caller *caller, struct completion *wait);
