/* SPDX-License-Identifier: MIT */
#include "repeated.h"

#include <linux/fuse.h>
#include <stddef.h>

#include "base/def.h"

/* These change nothing, or may be done twice: a file is closed, a node forgotten. */
bool request_may_repeat(uint32_t opcode)
{
	static const uint8_t repeated[] = {
		FUSE_LOOKUP, FUSE_FORGET,      FUSE_BATCH_FORGET, FUSE_GETATTR,
		FUSE_STATFS, FUSE_READLINK,    FUSE_OPEN,	  FUSE_READ,
		FUSE_FLUSH,  FUSE_RELEASE,     FUSE_OPENDIR,	  FUSE_READDIR,
		FUSE_LSEEK,  FUSE_READDIRPLUS, FUSE_RELEASEDIR,	  FUSE_ACCESS,
		FUSE_POLL,   FUSE_GETXATTR,    FUSE_LISTXATTR,	  FUSE_INTERRUPT,
		FUSE_INIT,   FUSE_DESTROY,
	};

	for (size_t i = 0; i < ARRAY_SIZE(repeated); i++) {
		if (repeated[i] == opcode)
			return true;
	}
	return false;
}
