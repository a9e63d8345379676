/* SPDX-License-Identifier: MIT */
#include "kernels/image_check.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/def.h"
#include "base/number.h"
#include "base/refusal.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

#define FATBIN_MAGIC	     0xba55ed50u
#define FATBIN_WRAPPER_MAGIC 0x466243b1u

struct fatbin_header {
	uint32_t magic;
	uint16_t version;
	uint16_t header_size;
	uint64_t size; /* of the entries that follow */
};

/* The first fields of an entry; no others are read. */
struct fatbin_entry {
	uint16_t kind;
	uint16_t version;
	uint32_t header_size;
	uint64_t size; /* of the bytes after the header */
};

static bool has_magic(const void *bytes, size_t size, uint32_t magic)
{
	uint32_t found;

	if (size < sizeof(found))
		return false;
	memcpy(&found, bytes, sizeof(found));
	return found == magic;
}

static bool is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

/* ---- cubin ---- */

static const char *refuse_cut(struct refusal *refusal, const char *what, size_t size)
{
	refuse(refusal, ENOEXEC, "the %s is damaged, or cut off after %zu bytes", what,
	       size);
	return NULL;
}

static Elf64_Shdr section_at(const uint8_t *bytes, const Elf64_Ehdr *elf, uint64_t number)
{
	Elf64_Shdr section;

	memcpy(&section, bytes + elf->e_shoff + number * sizeof(section),
	       sizeof(section));
	return section;
}

/*
 * The number of sections. If too large for the header, the first section has the number.
 * Returns: 0 if there are none.
 */
static uint64_t n_sections(const uint8_t *bytes, size_t size, const Elf64_Ehdr *elf)
{
	if (elf->e_shentsize != sizeof(Elf64_Shdr) ||
	    !is_inside(elf->e_shoff, sizeof(Elf64_Shdr), size))
		return 0;
	return elf->e_shnum ?: section_at(bytes, elf, 0).sh_size;
}

static bool sections_are_inside(const uint8_t *bytes, size_t size, const Elf64_Ehdr *elf)
{
	uint64_t n = n_sections(bytes, size, elf);

	if (!n || n > (size - elf->e_shoff) / sizeof(Elf64_Shdr))
		return false;
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Shdr section = section_at(bytes, elf, i);

		if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
		    !is_inside(section.sh_offset, section.sh_size, size))
			return false;
	}
	return true;
}

static bool segments_are_inside(const uint8_t *bytes, size_t size, const Elf64_Ehdr *elf)
{
	if (!elf->e_phnum)
		return true;
	if (elf->e_phentsize != sizeof(Elf64_Phdr) ||
	    !is_inside(elf->e_phoff, elf->e_phnum * sizeof(Elf64_Phdr), size))
		return false;
	for (unsigned int i = 0; i < elf->e_phnum; i++) {
		Elf64_Phdr segment;

		memcpy(&segment, bytes + elf->e_phoff + i * sizeof(segment),
		       sizeof(segment));
		if (!is_inside(segment.p_offset, segment.p_filesz, size))
			return false;
	}
	return true;
}

static const char *cubin_check(const void *bytes, size_t size, struct refusal *refusal)
{
	Elf64_Ehdr elf;

	if (size < sizeof(elf))
		return refuse_cut(refusal, "cubin", size);
	memcpy(&elf, bytes, sizeof(elf));
	if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB ||
	    elf.e_machine != EM_CUDA) {
		refuse(refusal, ENOEXEC,
		       "this is an ELF file for machine %u: a cubin is for machine %u",
		       elf.e_machine, EM_CUDA);
		return NULL;
	}
	return sections_are_inside(bytes, size, &elf) &&
			       segments_are_inside(bytes, size, &elf)
		       ? "cubin"
		       : refuse_cut(refusal, "cubin", size);
}

/* ---- fatbin ---- */

static const char *fatbin_check(const void *bytes, size_t size, struct refusal *refusal)
{
	struct fatbin_header header;
	struct fatbin_entry entry;
	uint64_t at, end;

	if (size < sizeof(header))
		return refuse_cut(refusal, "fatbin", size);
	memcpy(&header, bytes, sizeof(header));
	if (header.header_size < sizeof(header) ||
	    !is_inside(header.header_size, header.size, size))
		return refuse_cut(refusal, "fatbin", size);
	end = header.header_size + header.size;
	for (at = header.header_size; at < end; at += entry.header_size + entry.size) {
		if (!is_inside(at, sizeof(entry), end))
			return refuse_cut(refusal, "fatbin", size);
		memcpy(&entry, (const uint8_t *)bytes + at, sizeof(entry));
		if (entry.header_size < sizeof(entry) ||
		    !is_inside(at, entry.header_size, end) ||
		    !is_inside(at + entry.header_size, entry.size, end))
			return refuse_cut(refusal, "fatbin", size);
	}
	return "fatbin";
}

/* ---- PTX ---- */

/*
 * Comments and blanks before the first directive. Compilers write some hundred bytes of
 * them, and 256 MiB of blanks would keep a thread of the work queue for a second.
 */
#define PROLOGUE_MAX ((size_t)1 << 20)

/* Skips blanks and comments. Returns: NULL at the end of the text. */
static const char *skip_comments(const char *at, const char *end)
{
	while (at < end) {
		if (strchr(" \t\r\n\f\v", *at)) {
			at++;
		} else if (end - at >= 2 && at[0] == '/' && at[1] == '/') {
			at = memchr(at, '\n', (size_t)(end - at));
			if (!at)
				return NULL;
		} else if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
			at = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
			if (!at)
				return NULL;
			at += 2;
		} else {
			return at;
		}
	}
	return NULL;
}

/* Only PTX begins with this directive. */
static bool text_is_ptx(const char *text, size_t length)
{
	static const char version[] = ".version";
	const char *end = text + length;
	const char *at = skip_comments(text, text + MIN(length, PROLOGUE_MAX));

	return at && (size_t)(end - at) > strlen(version) &&
	       memcmp(at, version, strlen(version)) == 0 &&
	       strchr(" \t\r\n", at[strlen(version)]);
}

/* ---- all of them ---- */

const char *image_check(const void *bytes, size_t size, struct refusal *refusal)
{
	const char *text = bytes;
	size_t length = size;

	if (size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0)
		return cubin_check(bytes, size, refusal);
	if (has_magic(bytes, size, FATBIN_MAGIC))
		return fatbin_check(bytes, size, refusal);
	if (has_magic(bytes, size, FATBIN_WRAPPER_MAGIC)) {
		refuse(refusal, ENOEXEC,
		       "this is the wrapper of a fatbin inside of a program: nvcc "
		       "-fatbin "
		       "makes the fatbin itself");
		return NULL;
	}
	/* Final NULs do not belong to the text; a NUL inside cuts the text. */
	while (length && !text[length - 1])
		length--;
	if (!memchr(text, 0, length) && text_is_ptx(text, length))
		return "PTX";
	refuse(refusal, ENOEXEC,
	       "%s are neither a cubin nor a fatbin nor PTX, which begins with .version "
	       "(after comments of at most 1 MiB)",
	       size_text(size));
	return NULL;
}
