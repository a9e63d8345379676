/* SPDX-License-Identifier: MIT */
/*
 * Images: PTX is text; a cubin is an ELF file; a fat binary has a header and then
 * entries, each of a single kind and for a single architecture, maybe compressed.
 */
#include "image.h"

#include "base/text.h"
#include "softgpu/options.h"
#include "unzstd.h"

#include <elf.h>
#include <string.h>

#define FATBIN_MAGIC  0xba55ed50U
#define WRAPPER_MAGIC 0x466243b1U

struct fatbin_header {
	uint32_t magic;
	uint16_t version;
	uint16_t header_size;
	uint64_t size; /* of the entries */
};

struct fatbin_entry {
	uint16_t kind; /* 1: PTX */
	uint16_t version;
	uint32_t header_size;
	uint64_t size;
	uint32_t compressed_size;
	uint32_t options;
	uint16_t minor;
	uint16_t major;
	uint32_t architecture;
	uint32_t name_offset;
	uint32_t name_length;
	uint64_t flags;
	uint64_t zero;
	uint64_t unpacked_size;
};

/* The compiler's wrapper around a fat binary. */
struct wrapper {
	uint32_t magic;
	uint32_t version;
	const void *data;
	void *file;
};

#define KIND_PTX   1
#define FLAG_LZ4   0x2000
#define FLAG_ZSTD  0x8000
#define UNPACK_MAX ((uint64_t)256 << 20)

/* Lengths of 15 go on in bytes that are added up, as long as they are 255. */
static bool lz4_length(const unsigned char **at, const unsigned char *end, size_t *length)
{
	unsigned char more = 255;

	if (*length != 15)
		return true;
	while (more == 255) {
		if (*at == end)
			return false;
		more = *(*at)++;
		*length += more;
	}
	return true;
}

/* An LZ4 block. Returns: whether the output was filled exactly. */
static bool lz4_unpack(const unsigned char *at, size_t size, char *to, size_t to_size)
{
	const unsigned char *end = at + size;
	size_t n = 0;

	while (at < end) {
		const unsigned char token = *at++;
		size_t literals = token >> 4, match = token & 15, distance;

		if (!lz4_length(&at, end, &literals) || literals > (size_t)(end - at) ||
		    literals > to_size - n)
			return false;
		memcpy(to + n, at, literals);
		at += literals;
		n += literals;
		if (at == end)
			break;
		if (end - at < 2)
			return false;
		distance = (size_t)at[0] | (size_t)at[1] << 8;
		at += 2;
		if (!lz4_length(&at, end, &match))
			return false;
		match += 4;
		if (!distance || distance > n || match > to_size - n)
			return false;
		for (; match; match--, n++)
			to[n] = to[n - distance];
	}
	return n == to_size;
}

/* Returns: whether the output was filled exactly. */
typedef bool unpack(const unsigned char *at, size_t size, char *to, size_t to_size);

static CUresult entry_unpack(const struct fatbin_entry *entry, const unsigned char *data,
			     const char **ret, size_t *ret_length, char **ret_unpacked,
			     struct text *log)
{
	const size_t size = entry->unpacked_size;
	unpack *how = entry->flags & FLAG_LZ4	 ? lz4_unpack
		      : entry->flags & FLAG_ZSTD ? zstd_unpack
						 : NULL;

	if (!how) {
		*ret = (const char *)data;
		*ret_length = strnlen(*ret, entry->size);
		return CUDA_SUCCESS;
	}
	if (size > UNPACK_MAX || entry->compressed_size > entry->size) {
		text_printf(log, "the fat binary's PTX says that it is too large\n");
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*ret_unpacked = malloc(size + 1);
	if (!*ret_unpacked)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!how(data, entry->compressed_size, *ret_unpacked, size)) {
		text_printf(log, "the PTX in the fat binary can't be unpacked: it is "
				 "damaged, or packed in a way that is not built in here "
				 "(nvcc --no-compress packs nothing)\n");
		return CUDA_ERROR_INVALID_IMAGE;
	}
	(*ret_unpacked)[size] = '\0';
	*ret = *ret_unpacked;
	*ret_length = strlen(*ret);
	return CUDA_SUCCESS;
}

static CUresult fatbin_ptx(const unsigned char *image, const char **ret,
			   size_t *ret_length, char **ret_unpacked, struct text *log)
{
	const unsigned int capability =
		(unsigned int)(options.capability_major * 10 + options.capability_minor);
	const unsigned char *best_data = NULL;
	struct fatbin_header header;
	struct fatbin_entry best = { 0 };
	uint64_t left;

	memcpy(&header, image, sizeof(header));
	image += header.header_size;
	for (left = header.size; left >= sizeof(struct fatbin_entry);) {
		struct fatbin_entry entry;

		memcpy(&entry, image, sizeof(entry));
		if (entry.header_size < sizeof(entry) || entry.header_size > left ||
		    entry.size > left - entry.header_size)
			break;
		if (entry.kind == KIND_PTX && entry.architecture <= capability &&
		    entry.architecture >= best.architecture) {
			best = entry;
			best_data = image + entry.header_size;
		}
		image += entry.header_size + entry.size;
		left -= entry.header_size + entry.size;
	}
	if (best_data)
		return entry_unpack(&best, best_data, ret, ret_length, ret_unpacked, log);
	text_printf(log,
		    "the fat binary has no PTX for sm_%u, and the software GPU runs "
		    "nothing else\n",
		    capability);
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

CUresult image_ptx(const void *image, const char **ret, size_t *ret_length,
		   char **ret_unpacked, struct text *log)
{
	uint32_t magic = 0;

	*ret_length = strnlen(image, sizeof(magic));
	memcpy(&magic, image, *ret_length);
	if (*ret_length == sizeof(magic) && magic == WRAPPER_MAGIC) {
		struct wrapper wrapper;

		memcpy(&wrapper, image, sizeof(wrapper));
		return fatbin_ptx(wrapper.data, ret, ret_length, ret_unpacked, log);
	}
	if (*ret_length == sizeof(magic) && magic == FATBIN_MAGIC)
		return fatbin_ptx(image, ret, ret_length, ret_unpacked, log);
	if (*ret_length == sizeof(magic) && !memcmp(image, "\177ELF", sizeof(magic))) {
		Elf64_Ehdr elf;

		memcpy(&elf, image, sizeof(elf));
		if (!elf.e_flags) {
			text_printf(log, "fatal   : Unknown arch name ''\n");
			return CUDA_ERROR_UNKNOWN;
		}
		text_printf(log, "a cubin is for hardware: the software GPU runs PTX\n");
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	*ret = image;
	*ret_length = strlen(image);
	if (strstr(image, ".version"))
		return CUDA_SUCCESS;
	text_printf(log, "neither PTX, fat binary nor cubin\n");
	return CUDA_ERROR_INVALID_IMAGE;
}
