/* SPDX-License-Identifier: MIT */
/*
 * Functions that ask a worker when a file is read. They have the type of struct
 * attribute's ask and struct verb's state.
 */
#pragma once

#include "api/attribute.h"
#include "memops/placement_report.h"
#include "model/device.h"

struct memory_asker;

/* Of everybody, about the same devices. Under registry.lock. */
struct memory_question {
	struct memory_asker *waiting; /* for the answer to the next */
	bool asked;		      /* one is at the mover */
	bool sending;		      /* by some thread, perhaps answered already */
};

struct questions {
	struct memory_question of_all; /* for statfs */
	struct memory_question of_device[DEVICES_MAX];
};

/* Bytes of a device in use by all programs. */
void ask_memory_used(struct broker *broker, struct token token,
		     const struct caller *caller, struct completion *wait);
