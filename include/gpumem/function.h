/* SPDX-License-Identifier: MIT */
/*
 * The attributes of a kernel: a row for each, X(NAME, ATTRIBUTE).
 *
 *   NAME       name in the file `attributes`: CUDA's own name in lower case
 *   ATTRIBUTE  number of the CUfunction_attribute, so that a driver newer than the
 *              toolkit can be asked for all attributes; OCCUPANCY for figures that the
 *              driver computes, used to choose a block
 *
 * The rows make the answer of WIRE_FUNCTION_ATTRIBUTES and the file.
 */
#pragma once

#define FUNCTION_OCCUPANCY (-1)

/* clang-format off */
#define FUNCTION_LIST(X) \
	X(max_threads_per_block, 0) \
	X(shared_size_bytes, 1) \
	X(const_size_bytes, 2) \
	X(local_size_bytes, 3) \
	X(num_regs, 4) \
	X(ptx_version, 5) \
	X(binary_version, 6) \
	X(cache_mode_ca, 7) \
	X(max_dynamic_shared_size_bytes, 8) \
	X(preferred_shared_memory_carveout, 9) \
	X(cluster_size_must_be_set, 10) \
	X(required_cluster_width, 11) \
	X(required_cluster_height, 12) \
	X(required_cluster_depth, 13) \
	X(non_portable_cluster_size_allowed, 14) \
	X(cluster_scheduling_policy_preference, 15) \
	X(suggested_block_size, FUNCTION_OCCUPANCY) \
	X(suggested_grid_size, FUNCTION_OCCUPANCY) \
	X(max_active_blocks_per_multiprocessor, FUNCTION_OCCUPANCY) \
	X(multiprocessors, FUNCTION_OCCUPANCY)
/* clang-format on */

enum function_row {
#define FUNCTION_ROW_NUMBER(name, attribute) FUNCTION_ROW_##name,
	FUNCTION_LIST(FUNCTION_ROW_NUMBER)
#undef FUNCTION_ROW_NUMBER
		FUNCTION_N_ROWS,
};

_Static_assert(FUNCTION_N_ROWS < 64, "a row is a bit on the wire");
