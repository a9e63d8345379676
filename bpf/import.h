/* SPDX-License-Identifier: MIT */
/*
 * Memory that programs map through leases: each mapping's allocation, by process.
 */
#pragma once

#include "base/def.h"
#include "kernel/record.h"

struct imports;
struct mounts;

/* The bytes of an allocation mapped by a process. */
struct import_total {
	uint64_t held;
	uint64_t peak;
	unsigned int n; /* mappings */
	char name[72];
};

/* Returns: NULL when there is no memory. */
struct imports *imports_new(void);
struct imports *imports_free(struct imports *imports);

/* Looks up and notes the allocation of memory mapped by a call. */
void imports_learn(struct imports *imports, struct mounts *mounts,
		   const struct record *record);

/* Forgets memory unmapped by a call, or by an exec. */
void imports_unlearn(struct imports *imports, const struct record *record);

/* The allocation mapped at an address of a process. Returns: NULL if there is none. */
const char *imports_name(const struct imports *imports, uint64_t process,
			 uint64_t address);

/* The number of a process's mappings of an allocation. */
unsigned int imports_count(const struct imports *imports, uint64_t process,
			   const char *name);

/* Lists the allocations that a process has or had mapped. Returns: their number. */
size_t imports_totals(const struct imports *imports, uint64_t process,
		      const struct import_total **ret_totals);

/* Forgets an ended process, but keeps its totals if `keep` is set. */
void imports_end(struct imports *imports, uint64_t process, bool keep);
