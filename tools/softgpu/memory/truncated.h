/* SPDX-License-Identifier: MIT */
/*
 * Memory of this process that another process has truncated.
 *
 * Memory of a device is a file, and every process with a descriptor of the file can make
 * the file shorter. An access behind its end is SIGBUS: the process would die, with the
 * work of all others. No GPU has such memory. So the file gets its size back, and the
 * access goes on; the bytes that were cut off are zeros.
 *
 * The handler of the signal takes no lock. Mappings are in a table of their own for it.
 */
#pragma once

#include <stdint.h>

/*
 * A file is mapped from its start. From the first call on the process has the handler; a
 * SIGBUS elsewhere goes to the handler of before. Under the library's lock, as is the
 * end.
 */
void truncated_watch(uint64_t start, uint64_t size, int fd);

/* Before the mapping ends. */
void truncated_forget(uint64_t start);
