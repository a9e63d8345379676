/* SPDX-License-Identifier: MIT */
/*
 * The memfds of host memory, and who has them open. The kernel counts opens for writing,
 * wherever descriptors and mappings of them have gone: each program that may write gets
 * an open of its own. The broker, the keeper and the workers share the file that
 * memfd_create() made, and the kernel does not count that one.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct host_files {
	pthread_mutex_t lock;
	int events; /* lock; of fanotify(7); 0, -1: there are none */
};

void host_files_init(struct host_files *files);
void host_files_deinit(struct host_files *files);

/* Has the file refuse to have pages taken out, where the kernel can. */
void host_file_refuse_holes(int fd);

/*
 * Opens the file anew; the caller closes the descriptor. For reading files may be NULL.
 * Returns: the descriptor; -errno.
 */
int host_file_open(struct host_files *files, int fd, bool write);

/*
 * Whether an open for writing is left, as a descriptor or as a mapping. Also true if that
 * can't be found out.
 */
bool host_file_is_open_for_writing(int fd);

/* The same for any open. */
bool host_file_is_open(int fd);

/* Before the file is closed: nothing of files keeps its memory. */
void host_files_settle(struct host_files *files);
