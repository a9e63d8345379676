/* SPDX-License-Identifier: MIT */
#include "api/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/def.h"
#include "memory/block.h"

void draft_init(struct draft *draft, int base, uint64_t size)
{
	*draft =
		(struct draft){ .fd = -1, .size = size, .base = base, .base_size = size };
}

static void drop_base(struct draft *draft)
{
	if (draft->owns_base)
		closep(&draft->base);
	draft->base = -1;
	draft->owns_base = false;
	draft->kept = draft->base_size = 0;
}

void draft_deinit(struct draft *draft)
{
	drop_base(draft);
	closep(&draft->fd);
}

/* Whether the byte is still the base's. */
static bool is_of_base(const struct draft *draft, uint64_t offset)
{
	uint64_t piece = offset / DRAFT_PIECE;

	return offset < draft->base_size &&
	       !(draft->copied[piece / 64] >> piece % 64 & 1);
}

long draft_read(const struct draft *draft, uint64_t offset, void *bytes, size_t size)
{
	uint64_t at = offset;
	uint64_t end = at < draft->size ? at + MIN(size, draft->size - at) : at;

	while (at < end) {
		bool of_base = is_of_base(draft, at);
		uint64_t stop = MIN(end, align_up(at + 1, DRAFT_PIECE));
		ssize_t n;

		if (of_base)
			stop = MIN(stop, draft->base_size);
		n = pread(of_base ? draft->base : draft->fd,
			  (char *)bytes + (at - offset), stop - at, (off_t)at);
		if (n <= 0)
			return -EIO;
		at += (uint64_t)n;
	}
	return (long)(at - offset);
}

/* ---- writing ---- */

uint64_t draft_keeps(const struct draft *draft)
{
	return draft->sealed ? draft->size : draft->kept;
}

static int error_of_memory(void)
{
	return errno == ENOSPC || errno == ENOMEM ? -ENOMEM : -EIO;
}

/* Makes a memfd for writing, over the first size bytes of the current contents. */
static int begin(struct draft *draft, uint64_t size)
{
	_cleanup_close_ int fd = -1;

	if (draft->fd >= 0 && !draft->sealed)
		return 0;
	if (!host_has_room(size))
		return -ENOMEM;
	fd = memfd_create("gpumem-upload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return error_of_memory();
	if (draft->sealed) {
		draft->base = take_fd(&draft->fd);
		draft->owns_base = true;
		draft->kept = draft->size;
		draft->sealed = false;
	}
	draft->fd = take_fd(&fd);
	draft->size = draft->base_size = size;
	memset(draft->copied, 0, sizeof(draft->copied));
	if (!size)
		drop_base(draft);
	return 0;
}

/* The piece is the base's. */
static int copy_piece(struct draft *draft, uint64_t piece)
{
	uint64_t begin = piece * DRAFT_PIECE;
	uint64_t end = MIN(begin + DRAFT_PIECE, draft->base_size);
	off_t at = (off_t)begin;

	if (lseek(draft->fd, at, SEEK_SET) < 0)
		return -EIO;
	while ((uint64_t)at < end) {
		ssize_t n = sendfile(draft->fd, draft->base, &at, end - (uint64_t)at);

		if (n < 0)
			return error_of_memory();
		if (n == 0)
			return -EIO;
	}
	draft->copied[piece / 64] |= (uint64_t)1 << piece % 64;
	return 0;
}

static int write_all(int fd, uint64_t offset, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = pwrite(fd, bytes, size, (off_t)offset);

		if (n < 0)
			return error_of_memory();
		offset += (uint64_t)n;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Holes use memory once they are read. */
static int check_room(const struct draft *draft, uint64_t size)
{
	return size <= draft->size || host_has_room(size - draft->size) ? 0 : -ENOMEM;
}

int draft_write(struct draft *draft, uint64_t offset, const void *bytes, size_t size)
{
	uint64_t end = offset + size;
	int r;

	if (!size)
		return 0;
	r = begin(draft, draft->size);
	if (r == 0)
		r = check_room(draft, end);
	for (uint64_t at = offset; r == 0 && at < end;
	     at = align_up(at + 1, DRAFT_PIECE)) {
		uint64_t piece = at / DRAFT_PIECE;

		if (is_of_base(draft, piece * DRAFT_PIECE))
			r = copy_piece(draft, piece);
	}
	if (r == 0)
		r = write_all(draft->fd, offset, bytes, size);
	if (r == 0)
		draft->size = MAX(draft->size, end);
	return r;
}

int draft_resize(struct draft *draft, uint64_t size)
{
	int r = 0;

	if (size == draft->size)
		return 0;
	r = begin(draft, MIN(size, draft->size));
	if (r == 0)
		r = check_room(draft, size);
	if (r == 0 && ftruncate(draft->fd, (off_t)size) < 0)
		r = error_of_memory();
	if (r < 0)
		return r;
	draft->size = size;
	draft->base_size = MIN(draft->base_size, size);
	if (!draft->base_size)
		drop_base(draft);
	return 0;
}

/* ---- handing over ---- */

bool draft_is_whole(const struct draft *draft)
{
	return !draft->base_size;
}

int draft_copy(struct draft *draft)
{
	for (uint64_t at = 0; at < draft->base_size; at += DRAFT_PIECE) {
		int r;

		if (!is_of_base(draft, at))
			continue;
		r = copy_piece(draft, at / DRAFT_PIECE);
		return r < 0 ? r : 1;
	}
	drop_base(draft);
	return 0;
}

int draft_seal(struct draft *draft, int *ret_fd)
{
	int fd;

	if (!draft->sealed &&
	    fcntl(draft->fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	draft->sealed = true;
	fd = fcntl(draft->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}
