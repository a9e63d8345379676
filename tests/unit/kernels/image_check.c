/* SPDX-License-Identifier: MIT */
/* The check of images: a good image of each kind, and tests that each spoil a single
 * field.
 */
#include "base/def.h"
#include "base/refusal.h"
#include "kernels/image_check.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE 190

/* A cubin with a segment and a section over the same 32 bytes. */
struct cubin {
	Elf64_Ehdr elf;
	Elf64_Phdr segment;
	Elf64_Shdr section;
	uint8_t bytes[32];
};

static struct cubin cubin_good(void)
{
	struct cubin cubin = {
		.elf = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
			.e_machine = MACHINE,
			.e_phoff = offsetof(struct cubin, segment),
			.e_shoff = offsetof(struct cubin, section),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 1,
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 1,
		},
		.segment = { .p_offset = offsetof(struct cubin, bytes), .p_filesz = 32 },
		.section = { .sh_type = SHT_PROGBITS,
			     .sh_offset = offsetof(struct cubin, bytes),
			     .sh_size = 32 },
	};

	return cubin;
}

struct fatbin {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;
	struct {
		uint16_t kind, version;
		uint32_t header_size;
		uint64_t size;
		uint8_t bytes[8];
	} entries[2];
};

static struct fatbin fatbin_good(void)
{
	struct fatbin fatbin = {
		.magic = 0xba55ed50,
		.version = 1,
		.header_size = 16,
		.size = sizeof(fatbin.entries),
		.entries = { { 1, 1, 16, 8, "" }, { 2, 1, 16, 8, "" } },
	};

	return fatbin;
}

static const char *checked(const void *bytes, size_t size)
{
	struct refusal refusal = { 0 };
	const char *format = image_check(bytes, size, &refusal);

	if (!format) {
		cr_assert(eq(int, refusal.error, ENOEXEC));
		cr_assert(gt(sz, strlen(refusal.sentence), 20));
	}
	return format ?: "none";
}

#define IS(bytes, size, what) \
	cr_assert(eq(str, (char *)checked(bytes, size), (char *)(what)))
#define TEXT_IS(text, what) IS(text, sizeof(text) - 1, what)

/* A cubin with a change is none any more. */
#define BAD_CUBIN(change)                          \
	do {                                       \
		struct cubin cubin = cubin_good(); \
		cubin.change;                      \
		IS(&cubin, sizeof(cubin), "none"); \
	} while (0)

#define BAD_FATBIN(change)                            \
	do {                                          \
		struct fatbin fatbin = fatbin_good(); \
		fatbin.change;                        \
		IS(&fatbin, sizeof(fatbin), "none");  \
	} while (0)

Test(image, each_kind_is_told_by_its_content)
{
	struct cubin cubin = cubin_good();
	struct fatbin fatbin = fatbin_good();

	IS(&cubin, sizeof(cubin), "cubin");
	IS(&fatbin, sizeof(fatbin), "fatbin");
	TEXT_IS(".version 7.0\n.target sm_52\n", "PTX");
}

Test(image, text_has_comments_and_blanks_before_and_zeros_behind)
{
	TEXT_IS("//\n// .version\n\n\t.version 8.0", "PTX");
	TEXT_IS("/* a\n * b */ /**/ // c\r\n.version\t8.0\n", "PTX");
	TEXT_IS(".version 8.0\n\0", "PTX");
	TEXT_IS(".version 8.0\n\0\0\0\0\0\0\0\0", "PTX");
}

Test(image, text_has_a_mebibyte_of_comments_before_at_most)
{
	static const char ptx[] = ".version 7.0\n";
	size_t size = (1 << 20) + strlen(ptx);
	char *text = malloc(size);

	cr_assert(ne(ptr, text, NULL));
	memset(text, '\n', size);
	memcpy(text + (1 << 20) - 1, ptx, strlen(ptx));
	IS(text, size, "PTX");
	memset(text, '\n', size);
	memcpy(text + (1 << 20), ptx, strlen(ptx));
	IS(text, size, "none");
	free(text);
}

Test(image, other_text_is_none)
{
	TEXT_IS("", "none");
	TEXT_IS("\0", "none");
	TEXT_IS(" ", "none");
	TEXT_IS("// .version 8.0", "none");
	TEXT_IS("/* .version 8.0", "none");
	TEXT_IS("/* .version 8.0 */", "none");
	TEXT_IS(".version", "none");
	TEXT_IS(".versions 1", "none");
	TEXT_IS("int main(void) {}\n.version 8.0\n", "none");
	TEXT_IS(".version 8.0\n\0.target sm_52\n", "none");
	TEXT_IS("/", "none");
	TEXT_IS("/*", "none");
	TEXT_IS("/*/", "none");
}

Test(image, that_is_cut_off_anywhere_is_none)
{
	struct cubin cubin = cubin_good();
	struct fatbin fatbin = fatbin_good();

	for (size_t size = 0; size < sizeof(cubin); size++)
		IS(&cubin, size, "none");
	for (size_t size = 0; size < sizeof(fatbin); size++)
		IS(&fatbin, size, "none");
}

Test(image, programs_of_other_machines_are_none)
{
	BAD_CUBIN(elf.e_machine = EM_X86_64);
	BAD_CUBIN(elf.e_ident[EI_CLASS] = ELFCLASS32);
	BAD_CUBIN(elf.e_ident[EI_DATA] = ELFDATA2MSB);
}

Test(image, cubins_that_point_outside_are_none)
{
	BAD_CUBIN(elf.e_shnum = 0);
	BAD_CUBIN(elf.e_shnum = 2);
	BAD_CUBIN(elf.e_shnum = 100);
	BAD_CUBIN(elf.e_phnum = 100);
	BAD_CUBIN(elf.e_shoff = UINT64_MAX);
	BAD_CUBIN(elf.e_shoff = UINT64_MAX - 63);
	BAD_CUBIN(elf.e_phoff = sizeof(cubin) + 1);
	BAD_CUBIN(elf.e_shentsize = 1);
	BAD_CUBIN(elf.e_phentsize = 1);
	BAD_CUBIN(section.sh_offset = UINT64_MAX);
	BAD_CUBIN(section.sh_size = UINT64_MAX);
	BAD_CUBIN(section.sh_size = 33);
	BAD_CUBIN(segment.p_offset = UINT64_MAX - 31);
	BAD_CUBIN(segment.p_filesz = 33);
}

Test(image, sections_without_bytes_may_say_what_they_like)
{
	struct cubin cubin = cubin_good();

	cubin.section.sh_type = SHT_NOBITS;
	cubin.section.sh_size = UINT64_MAX;
	IS(&cubin, sizeof(cubin), "cubin");
}

Test(image, many_sections_are_counted_in_the_first)
{
	struct cubin cubin = cubin_good();

	cubin.elf.e_shnum = 0;
	cubin.section.sh_type = SHT_NULL;
	cubin.section.sh_size = 1;
	IS(&cubin, sizeof(cubin), "cubin");
	cubin.section.sh_size = 2;
	IS(&cubin, sizeof(cubin), "none");
}

Test(image, fatbins_that_point_outside_are_none)
{
	BAD_FATBIN(header_size = 8);
	BAD_FATBIN(header_size = 0xffff);
	BAD_FATBIN(size++);
	BAD_FATBIN(size = UINT64_MAX - 15);
	BAD_FATBIN(entries[0].size = 9);
	BAD_FATBIN(entries[0].size = UINT64_MAX);
	BAD_FATBIN(entries[0].header_size = 0);
	BAD_FATBIN(entries[1].header_size = UINT32_MAX);
	BAD_FATBIN(entries[1].size = UINT64_MAX - 16);
}

Test(image, wrapper_of_a_fatbin_is_none)
{
	struct fatbin fatbin = fatbin_good();

	fatbin.magic = 0x466243b1;
	IS(&fatbin, sizeof(fatbin), "none");
}

/* Spoils some bytes of a copy on the heap, where a sanitizer sees reads beyond the end.
 */
static void spoil(const void *good, size_t size, uint32_t *state)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct refusal refusal;
	size_t length;

	*state = *state * 1664525 + 1013904223;
	length = *state % 4 ? size : *state / 4 % (size + 1);
	bytes = malloc(length + !length);
	memcpy(bytes, good, length);
	for (uint32_t n = *state >> 8 & 3; length && n; n--) {
		*state = *state * 1664525 + 1013904223;
		bytes[(*state >> 8) % length] = *state & 0x80 ? 0xff : *state >> 24;
	}
	(void)image_check(bytes, length, &refusal);
}

Test(image, nothing_is_read_that_is_not_there)
{
	static const char text[] = "/* a */ // b\n .version 8.0\n\0";
	struct cubin cubin = cubin_good();
	struct fatbin fatbin = fatbin_good();
	uint32_t state = 1;

	for (int i = 0; i < 20000; i++) {
		spoil(&cubin, sizeof(cubin), &state);
		spoil(&fatbin, sizeof(fatbin), &state);
		spoil(text, sizeof(text), &state);
	}
}
