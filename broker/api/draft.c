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
	*draft = (struct draft){
		.fd = -1,
		.size = size,
		.base = base,
		.base_size = size,
		.left = -1,
	};
}

static void drop_base(struct draft *draft)
{
	if (draft->owns_base) {
		/* No call drops two. */
		closep(&draft->left);
		draft->left = draft->base;
		draft->left_size = draft->kept;
	}
	draft->base = -1;
	draft->owns_base = false;
	draft->kept = draft->base_size = 0;
}

int draft_take_left(struct draft *draft, uint64_t *ret_size)
{
	*ret_size = draft->left_size;
	return take_fd(&draft->left);
}

void draft_end(struct draft *draft, int *ret_fd, int *ret_base)
{
	uint64_t size;

	drop_base(draft);
	*ret_fd = take_fd(&draft->fd);
	*ret_base = draft_take_left(draft, &size);
}

static bool has_bit(const uint64_t *bits, uint64_t piece)
{
	return bits[piece / 64] >> piece % 64 & 1;
}

static void set_bit(uint64_t *bits, uint64_t piece)
{
	bits[piece / 64] |= (uint64_t)1 << piece % 64;
}

static void clear_bit(uint64_t *bits, uint64_t piece)
{
	bits[piece / 64] &= ~((uint64_t)1 << piece % 64);
}

/* Whether the byte is still the base's. */
static bool is_of_base(const struct draft *draft, uint64_t offset)
{
	return offset < draft->base_size && !has_bit(draft->copied, offset / DRAFT_PIECE);
}

/* All within a piece. Returns: bytes read; 0, -1: none. */
static ssize_t read_piece(const struct draft *draft, uint64_t at, uint64_t stop,
			  void *bytes)
{
	if (is_of_base(draft, at))
		return pread(draft->base, bytes, MIN(stop, draft->base_size) - at,
			     (off_t)at);
	if (!has_bit(draft->stale, at / DRAFT_PIECE))
		return pread(draft->fd, bytes, stop - at, (off_t)at);
	memset(bytes, 0, stop - at);
	return (ssize_t)(stop - at);
}

long draft_read(const struct draft *draft, uint64_t offset, void *bytes, size_t size)
{
	uint64_t at = offset;
	uint64_t end = at < draft->size ? at + MIN(size, draft->size - at) : at;

	while (at < end) {
		uint64_t stop = MIN(end, align_up(at + 1, DRAFT_PIECE));
		ssize_t n = read_piece(draft, at, stop, (char *)bytes + (at - offset));

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
	draft->size = draft->base_size = draft->end = size;
	memset(draft->copied, 0, sizeof(draft->copied));
	memset(draft->stale, 0, sizeof(draft->stale));
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
	set_bit(draft->copied, piece);
	return 0;
}

/* Makes zeros of the bytes, within a piece. Returns: 0; -ENOMEM, -EIO. */
static int clear_bytes(const struct draft *draft, uint64_t from, uint64_t to)
{
	return from < to && fallocate(draft->fd,
				      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				      (off_t)from, (off_t)(to - from)) < 0
		       ? error_of_memory()
		       : 0;
}

/* Frees the old bytes of a piece. */
static int clear_piece(struct draft *draft, uint64_t piece)
{
	uint64_t from = piece * DRAFT_PIECE;
	int r = clear_bytes(draft, from, from + DRAFT_PIECE);

	if (r == 0)
		clear_bit(draft->stale, piece);
	return r;
}

/* Before some of the piece is written. */
static int prepare_piece(struct draft *draft, uint64_t piece)
{
	if (is_of_base(draft, piece * DRAFT_PIECE))
		return copy_piece(draft, piece);
	return has_bit(draft->stale, piece) ? clear_piece(draft, piece) : 0;
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
	for (uint64_t at = offset; r == 0 && at < end; at = align_up(at + 1, DRAFT_PIECE))
		r = prepare_piece(draft, at / DRAFT_PIECE);
	if (r == 0)
		r = write_all(draft->fd, offset, bytes, size);
	if (r == 0) {
		draft->size = MAX(draft->size, end);
		draft->end = MAX(draft->end, end);
	}
	return r;
}

/* Sets the size of the memfd. */
static int set_end(struct draft *draft, uint64_t size)
{
	if (ftruncate(draft->fd, (off_t)size) < 0)
		return error_of_memory();
	draft->end = size;
	return 0;
}

/* Bytes beyond a piece or two stay, for draft_copy() or a write to free them. */
static int cut(struct draft *draft, uint64_t size)
{
	uint64_t next = align_up(size, DRAFT_PIECE);
	int r;

	if (draft->end <= next + DRAFT_PIECE)
		return set_end(draft, size);
	r = clear_bytes(draft, size, next);
	for (uint64_t at = next; r == 0 && at < draft->end; at += DRAFT_PIECE)
		set_bit(draft->stale, at / DRAFT_PIECE);
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
	if (r == 0 && size < draft->size)
		r = cut(draft, size);
	else if (r == 0 && size > draft->end)
		r = set_end(draft, size);
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
	bool stale = false;

	for (size_t i = 0; i < ARRAY_SIZE(draft->stale); i++)
		stale |= draft->stale[i] != 0;
	return !draft->base_size && !stale && draft->end == draft->size;
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
	for (uint64_t piece = 0; piece < DRAFT_PIECES; piece++) {
		int r;

		if (!has_bit(draft->stale, piece))
			continue;
		r = clear_piece(draft, piece);
		return r < 0 ? r : 1;
	}
	drop_base(draft);
	return draft->end == draft->size ? 0 : set_end(draft, draft->size);
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
