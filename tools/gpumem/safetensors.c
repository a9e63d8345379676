/* SPDX-License-Identifier: MIT */
#include "safetensors.h"

#include "stop.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define HEADER_MAX ((uint64_t)64 << 20) /* what `tensors` takes */

static int read_all(int fd, char *bytes, size_t size, off_t offset)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = unless_stopped(
			pread(fd, bytes + at, size - at, offset + (off_t)at));

		if (n <= 0)
			return n ? -errno : -EIO;
		at += (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = unless_stopped(write(fd, bytes, size));

		if (n < 0)
			return -errno;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

static bool is_called_so(const char *name)
{
	static const char suffix[] = ".safetensors";
	size_t length = strlen(name);

	return length > strlen(suffix) && !strcmp(name + length - strlen(suffix), suffix);
}

/* Blanks may follow the last bracket. */
static bool looks_like_header(const char *text, size_t length)
{
	while (length && text[length - 1] == ' ')
		length--;
	return length >= 2 && text[0] == '{' && text[length - 1] == '}';
}

static int refuse_length(const char *name, uint64_t length, uint64_t size,
			 struct text *why)
{
	if (length <= HEADER_MAX)
		text_printf(why,
			    "%s is cut off: its header has %llu bytes, the whole file "
			    "%llu",
			    name, (unsigned long long)length, (unsigned long long)size);
	else
		text_printf(why,
			    "%s does not begin like a safetensors file; --plain copies "
			    "it as it is",
			    name);
	return -EINVAL;
}

int safetensors_read(const char *name, int fd, uint64_t size, struct text *header,
		     struct text *why)
{
	bool called_so = is_called_so(name);
	_cleanup_free_ char *text = NULL;
	uint64_t length;
	char first;
	int r = 0;

	if (size < SAFETENSORS_PREFIX + 2)
		return called_so ? refuse_length(name, UINT64_MAX, size, why) : 0;
	r = read_all(fd, (char *)&length, sizeof(length), 0);
	length = le64toh(length);
	if (r == 0 && (length > HEADER_MAX || length > size - SAFETENSORS_PREFIX))
		return called_so ? refuse_length(name, length, size, why) : 0;
	if (r == 0)
		r = read_all(fd, &first, 1, SAFETENSORS_PREFIX);
	if (r == 0 && first != '{' && !called_so)
		return 0;
	text = r == 0 ? malloc(length + 1) : NULL;
	if (r == 0)
		r = text ? read_all(fd, text, length, SAFETENSORS_PREFIX) : -ENOMEM;
	if (r < 0) {
		text_printf(why, "%s: %s", name, strerror(-r));
		return r;
	}
	if (!called_so && !looks_like_header(text, length))
		return 0;
	text_add(header, text, length);
	return text_failed(header) ? -ENOMEM : 1;
}

int safetensors_write(int fd, const struct text *header)
{
	uint64_t length = htole64((uint64_t)header->length);
	int r = write_all(fd, (const char *)&length, sizeof(length));

	return r ?: write_all(fd, text_string(header), header->length);
}
