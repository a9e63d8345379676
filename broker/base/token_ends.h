/* SPDX-License-Identifier: MIT */
/*
 * The numbers in the tokens of all brokers of a mount lie below these. A broker raises an
 * end before the token with that number is given out, and the next broker begins there.
 */
#pragma once

#include <stdint.h>

struct token_ends {
	uint64_t serials;     /* of control inodes (fuse/control_inode.h) */
	uint32_t generations; /* of slots: handle_table_begin() */
	uint32_t reserved;
};
