/* SPDX-License-Identifier: MIT */
/*
 * The check of images, before any driver sees them. A second walk over each accepted
 * image reads every part: the address sanitizer finds a part outside the image.
 */
#include "kernels/image_check.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/refusal.h"
#include "fuzz.h"

/* Reads the first and the last byte, as a driver would. */
static void touch(const uint8_t *bytes, uint64_t offset, uint64_t length)
{
	volatile uint8_t byte;

	if (!length)
		return;
	byte = bytes[offset];
	byte = bytes[offset + length - 1];
	(void)byte;
}

static void walk_cubin(const uint8_t *bytes)
{
	uint64_t n_sections;
	Elf64_Shdr section;
	Elf64_Phdr segment;
	Elf64_Ehdr elf;

	memcpy(&elf, bytes, sizeof(elf));
	memcpy(&section, bytes + elf.e_shoff, sizeof(section));
	n_sections = elf.e_shnum ?: section.sh_size;
	for (uint64_t i = 0; i < n_sections; i++) {
		memcpy(&section, bytes + elf.e_shoff + i * sizeof(section),
		       sizeof(section));
		if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL)
			touch(bytes, section.sh_offset, section.sh_size);
	}
	for (uint64_t i = 0; i < elf.e_phnum; i++) {
		memcpy(&segment, bytes + elf.e_phoff + i * sizeof(segment),
		       sizeof(segment));
		touch(bytes, segment.p_offset, segment.p_filesz);
	}
}

static void walk_fatbin(const uint8_t *bytes)
{
	uint32_t entry_header;
	uint16_t header_size;
	uint64_t size, entry_size, end;

	memcpy(&header_size, bytes + 6, sizeof(header_size));
	memcpy(&size, bytes + 8, sizeof(size));
	end = header_size + size;
	for (uint64_t at = header_size; at < end; at += entry_header + entry_size) {
		memcpy(&entry_header, bytes + at + 4, sizeof(entry_header));
		memcpy(&entry_size, bytes + at + 8, sizeof(entry_size));
		must(entry_header >= 16);
		touch(bytes, at, entry_header);
		touch(bytes, at + entry_header, entry_size);
	}
}

int fuzz(const uint8_t *bytes, size_t size)
{
	struct refusal refusal = { 0 };
	const char *format = image_check(bytes, size, &refusal);

	if (!format) {
		must(refusal.error == ENOEXEC);
		must(strlen(refusal.sentence) > 20);
	} else if (strcmp(format, "cubin") == 0) {
		walk_cubin(bytes);
	} else if (strcmp(format, "fatbin") == 0) {
		walk_fatbin(bytes);
	} else {
		must(strcmp(format, "PTX") == 0);
		must(memmem(bytes, size, ".version", strlen(".version")));
	}
	return 0;
}
