/* SPDX-License-Identifier: MIT */
/* libfuse from 3.17 on has these calls, but only for the handler of a request. */
#include "backing.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sys/ioctl.h>

/* Declared here where the system's headers are older. */
#ifndef FUSE_DEV_IOC_BACKING_OPEN
struct fuse_backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define FUSE_DEV_IOC_BACKING_OPEN  _IOW(229, 1, struct fuse_backing_map)
#define FUSE_DEV_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)
#endif

static int device = -1;

void backing_begin(int fd)
{
	device = fd;
}

int backing_open(int fd)
{
	struct fuse_backing_map map = { .fd = fd };
	int number = ioctl(device, FUSE_DEV_IOC_BACKING_OPEN, &map);

	return number < 0 ? -errno : number;
}

void backing_close(uint32_t backing)
{
	(void)ioctl(device, FUSE_DEV_IOC_BACKING_CLOSE, &backing);
}
