/* SPDX-License-Identifier: MIT */
#include "base/descriptor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/proc.h"

/* Kept: an eighth of the limit, at least KEPT_LEAST, at most half of the limit. */
#define KEPT_LEAST 256

/* How many mappings Linux lets a process have. */
static uint64_t mappings_most(void)
{
	static uint64_t most; /* atomic; 0: not read yet */
	unsigned long long number = __atomic_load_n(&most, __ATOMIC_RELAXED);
	FILE *file;

	if (number)
		return number;
	file = proc_fopen("sys/vm/max_map_count");
	if (!file || fscanf(file, "%llu", &number) != 1 || !number)
		number = UINT32_MAX;
	if (file)
		fclose(file);
	__atomic_store_n(&most, number, __ATOMIC_RELAXED);
	return number;
}

struct rlimit descriptors_raise(void)
{
	struct rlimit before = { 0 }, most;

	if (getrlimit(RLIMIT_NOFILE, &before) == 0) {
		most = before;
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
	return before;
}

/* Each block of host memory has a descriptor and a mapping. */
uint64_t descriptors_most(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		limit.rlim_cur = UINT32_MAX;
	return MIN((uint64_t)limit.rlim_cur, mappings_most());
}

static uint64_t descriptors_kept(void)
{
	uint64_t most = descriptors_most();

	return MIN(MAX(most / 8, (uint64_t)KEPT_LEAST), most / 2);
}

/*
 * A new descriptor has the lowest free number, so the number shows how many are left. A
 * socket has an inode of its own: an eventfd shares one with all others of the machine,
 * and a close looks at all locks (fcntl(2)) that users have put on the inode.
 */
bool descriptor_is_left(void)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && (uint64_t)fd < descriptors_most() - descriptors_kept();
}

int descriptor_send(int socket, const void *record, size_t size, int fd)
{
	struct iovec bytes = { (void *)record, size };
	char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct msghdr header = { .msg_iov = &bytes, .msg_iovlen = 1 };
	struct cmsghdr *control;
	ssize_t sent;

	if (fd >= 0) {
		header.msg_control = space;
		header.msg_controllen = sizeof(space);
		control = CMSG_FIRSTHDR(&header);
		control->cmsg_level = SOL_SOCKET;
		control->cmsg_type = SCM_RIGHTS;
		control->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(control), &fd, sizeof(fd));
	}
	do {
		sent = sendmsg(socket, &header, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}
