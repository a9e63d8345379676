/* SPDX-License-Identifier: MIT */
/* The ledger of the BPF programs, read while they run. */
#pragma once

#include "output.h"

/* An allocation in the ledger. */
struct held {
	struct ledger_key key;
	struct entry entry;
};

/* The whole ledger; the caller frees it. Returns: 0; -errno. */
int ledger_read(const struct tracer *tracer, struct held **ret_held, size_t *ret_n);

/* Takes one allocation out. */
void ledger_remove(const struct tracer *tracer, const struct ledger_key *key);
