/* SPDX-License-Identifier: MIT */
/*
 * A file's bytes are asked of the page cache first. Only those that the cache does not
 * have are read past the cache (O_DIRECT): the disk then writes into the lane's memory
 * itself, and no file that others use is pushed out of the cache.
 */
#include <errno.h>
#include <sys/uio.h>

#include "worker/file.h"
#include "worker/lanes.h"

struct part {
	const struct file *file;
	uint8_t *memory; /* of the lane */
	uint64_t size;
	uint64_t place, at, length;
};

/*
 * Reads past the page cache, whole sectors. In the memory, the place is as far from a
 * sector's start as the place in the file, and there is room in front and behind.
 * Returns: bytes read; 0 at the end of the file; -errno; -EINVAL when there is no room.
 */
static ssize_t part_read_direct(const struct part *part)
{
	uint64_t before = part->at % LANE_SECTOR;
	uint64_t sectors = align_up(before + part->length, LANE_SECTOR);
	ssize_t n;

	if (part->place < before || (part->place - before) % LANE_SECTOR ||
	    sectors > part->size || part->place - before > part->size - sectors)
		return -EINVAL;
	n = pread(part->file->direct_fd, part->memory + part->place - before, sectors,
		  (off_t)(part->at - before));
	if (n < 0)
		return -errno;
	return (uint64_t)n <= before ? 0
				     : (ssize_t)MIN((uint64_t)n - before, part->length);
}

static ssize_t part_read(const struct part *part)
{
	const struct iovec place = { part->memory + part->place, part->length };
	ssize_t n;

	if (part->file->direct_fd >= 0) {
		n = preadv2(part->file->fd, &place, 1, (off_t)part->at, RWF_NOWAIT);
		if (n >= 0)
			return n;
		/* The file system can't tell what is in the cache: then it may read. */
		if (errno == EAGAIN) {
			n = part_read_direct(part);
			/* EINVAL: the file system refuses the size or the place of a
			 * sector. */
			if (n != -EINVAL)
				return n;
		}
	}
	n = pread(part->file->fd, place.iov_base, place.iov_len, (off_t)part->at);
	return n < 0 ? -errno : n;
}

static ssize_t part_write(const struct part *part)
{
	ssize_t n = pwrite(part->file->fd, part->memory + part->place, part->length,
			   (off_t)part->at);

	return n < 0 ? -errno : n;
}

int file_move_piece(const struct file *file, const struct wire_piece *piece,
		    uint8_t *memory, uint64_t size, uint32_t *ret_n)
{
	struct part part = {
		.file = file,
		.memory = memory,
		.size = size,
		.place = piece->place,
		.at = piece->at,
		.length = piece->length,
	};
	ssize_t n;

	while (part.length) {
		n = file->save ? part_write(&part) : part_read(&part);
		if (n == -EINTR)
			continue;
		*ret_n = piece->length - (uint32_t)part.length;
		if (n <= 0)
			return n < 0 ? (int)n : file->save ? -EIO : -ENODATA;
		part.place += (uint64_t)n;
		part.at += (uint64_t)n;
		part.length -= (uint64_t)n;
	}
	*ret_n = piece->length;
	return 0;
}
