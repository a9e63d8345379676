/* SPDX-License-Identifier: MIT */
/*
 * Huge pages for files in memory (memfd), where the machine's administrator lets programs
 * ask for them: /sys/kernel/mm/transparent_hugepage/shmem_enabled is `advise`. Elsewhere
 * these functions change nothing. Huge pages are made, mapped and given back many times
 * faster than the same bytes in small ones.
 */
#pragma once

#include <stdint.h>

#define HUGE_PAGE ((uint64_t)2 << 20) /* bytes */

/*
 * Maps all of the file for reading and writing, so that huge pages fit. Returns: the
 * mapping, for munmap(); MAP_FAILED, with errno.
 */
void *huge_pages_map(int fd, uint64_t size);

/*
 * Makes the pages of a part of such a mapping that huge pages can hold, as far as the
 * kernel has huge pages; all other pages stay missing.
 */
void huge_pages_make(void *memory, uint64_t size);
