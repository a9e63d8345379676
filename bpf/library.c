/* SPDX-License-Identifier: MIT */
/*
 * Finding libcuda. Probes are in files, not in processes: so each file counts once, by
 * device and inode, whatever paths lead there. A path seen by a process is opened through
 * /proc/PID/root, because processes may see other mounts. The file stays open: the
 * process may end, and the name may vanish, before the probes are in.
 *
 * The file may be any user's, made to take the memory and the time of the tool. So there
 * are bounds on the reading.
 *
 * A probe stands on the first instruction of a call. A call that opens with a 5-byte nop
 * gets no probe: the kernel would replace the nop by a call instruction, and write below
 * the stack pointer, where leaf functions keep variables (Linux 6.18).
 */
#include "library.h"

#include "file_system.h"
#include "proc.h"

#include <dlfcn.h>
#include <errno.h>
#include <gelf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A driver's sections have a few hundred KiB, and a driver has a dozen segments. */
#define SECTION_MAX  (UINT64_C(64) << 20)
#define SEGMENTS_MAX 128

static void elf_endp(Elf **elf)
{
	if (*elf)
		elf_end(*elf);
}

/* ---- symbols ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(calls_table[*(const enum call_id *)a].symbol,
		      calls_table[*(const enum call_id *)b].symbol);
}

static int compare_name(const void *name, const void *id)
{
	return strcmp(name, calls_table[*(const enum call_id *)id].symbol);
}

/* The offset in the file of an address in the loaded library. Returns: false if none. */
static bool file_offset(Elf *elf, uint64_t address, uint64_t *ret_offset)
{
	size_t n = 0;

	if (elf_getphdrnum(elf, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		if (address < header.p_vaddr ||
		    address >= header.p_vaddr + header.p_filesz)
			continue;
		*ret_offset = address - header.p_vaddr + header.p_offset;
		return true;
	}
	return false;
}

static enum symbol_state first_instruction(int fd, uint64_t offset)
{
	static const unsigned char nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	unsigned char code[sizeof nop5];

	if (pread(fd, code, sizeof code, (off_t)offset) == sizeof code &&
	    !memcmp(code, nop5, sizeof code))
		return SYMBOL_NOP5;
	return SYMBOL_FOUND;
}

static void read_symbol(struct library *library, Elf *elf, int fd, enum call_id id,
			const GElf_Sym *sym)
{
	struct symbol *symbol = &library->symbols[id];

	if (GELF_ST_TYPE(sym->st_info) != STT_FUNC || sym->st_shndx == SHN_UNDEF ||
	    !file_offset(elf, sym->st_value, &symbol->offset))
		return;
	symbol->state = first_instruction(fd, symbol->offset);
}

/* Returns: 0; -errno of a file that libelf must not read, as it is of any size: numbers
 * of headers that are not in the first header have no bound. */
static int check_header(int fd)
{
	Elf64_Ehdr header;
	ssize_t n = pread(fd, &header, sizeof header, 0);

	if (n != sizeof header)
		return n < 0 ? -errno : -ENOEXEC;
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64)
		return -ENOEXEC;
	return (header.e_shoff && !header.e_shnum) || header.e_phnum > SEGMENTS_MAX
		       ? -EFBIG
		       : 0;
}

/* A search for the end of a name must not go through all names. */
static int check_last_byte(int fd, const GElf_Shdr *strings)
{
	char last;
	ssize_t n =
		pread(fd, &last, 1, (off_t)(strings->sh_offset + strings->sh_size - 1));

	if (n != 1)
		return n < 0 ? -errno : -ENODATA;
	return last ? -ENOEXEC : 0;
}

/* Of the symbols and of their names. Returns: 0; -errno of what is not to be read. */
static int check_sections(Elf *elf, int fd, const GElf_Shdr *symbols)
{
	GElf_Shdr strings;

	if (symbols->sh_entsize != sizeof(Elf64_Sym) ||
	    !gelf_getshdr(elf_getscn(elf, symbols->sh_link), &strings) ||
	    strings.sh_type != SHT_STRTAB || !strings.sh_size ||
	    (symbols->sh_flags | strings.sh_flags) & SHF_COMPRESSED)
		return -ENOEXEC;
	if (symbols->sh_size > SECTION_MAX || strings.sh_size > SECTION_MAX)
		return -EFBIG;
	return check_last_byte(fd, &strings);
}

static int read_section(struct library *library, Elf *elf, int fd, Elf_Scn *section,
			const GElf_Shdr *header, const enum call_id *sorted)
{
	int error = check_sections(elf, fd, header);
	if (error)
		return error;
	Elf_Data *data = elf_getdata(section, NULL);
	if (!data)
		return -ENODATA;
	for (size_t i = 0; i < header->sh_size / header->sh_entsize; i++) {
		GElf_Sym sym;

		if (!gelf_getsym(data, (int)i, &sym))
			continue;
		const char *name = elf_strptr(elf, header->sh_link, sym.st_name);
		if (!name || strncmp(name, "cu", 2))
			continue;
		const enum call_id *id =
			bsearch(name, sorted, N_CALLS, sizeof *sorted, compare_name);
		if (id)
			read_symbol(library, elf, fd, *id, &sym);
	}
	return 0;
}

/* Two names of one function get one probe. */
static void find_aliases(struct library *library)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		for (size_t j = 0; j < i; j++) {
			struct symbol *a = &library->symbols[j],
				      *b = &library->symbols[i];

			if (a->state != SYMBOL_FOUND || b->state != SYMBOL_FOUND ||
			    a->offset != b->offset)
				continue;
			b->state = SYMBOL_SAME;
			b->same = (enum call_id)j;
		}
	}
}

/* The file is read and never mapped, so it may be cut short meanwhile. */
static int read_symbols(struct library *library, int fd)
{
	enum call_id sorted[N_CALLS];
	Elf_Scn *section = NULL;
	int error = check_header(fd);
	if (error)
		return error;
	_cleanup_(elf_endp) Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return -ENOEXEC;
	for (size_t i = 0; i < N_CALLS; i++)
		sorted[i] = (enum call_id)i;
	qsort(sorted, N_CALLS, sizeof *sorted, compare_names);
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM)
			continue;
		error = read_section(library, elf, fd, section, &header, sorted);
		break; /* a library has one */
	}
	find_aliases(library);
	return error;
}

/* ---- libraries ---- */

static bool have_inode(const struct libraries *libraries, const struct stat *st)
{
	for (size_t i = 0; i < libraries->n; i++) {
		const struct library *library = &libraries->list[i];

		if (library->fd >= 0 && library->device == st->st_dev &&
		    library->inode == st->st_ino)
			return true;
	}
	return false;
}

int libraries_append(struct libraries *libraries, struct library *library,
		     const char *name)
{
	struct library *list =
		realloc(libraries->list, (libraries->n + 1) * sizeof *list);

	if (!list)
		return -ENOMEM;
	libraries->list = list;
	library->name = strdup(name);
	if (!library->name)
		return -ENOMEM;
	list[libraries->n++] = *library;
	return 0;
}

/* Files that this user's processes had mapped; root may have any number. */
static size_t found_by(const struct libraries *libraries, uid_t uid)
{
	size_t n = 0;

	for (size_t i = 0; uid && i < libraries->n; i++)
		n += libraries->list[i].finder == uid;
	return n;
}

/* Closes the descriptor, or keeps it. Returns: as libraries_add(). */
static int add_opened(struct libraries *libraries, int opened, const char *name,
		      uid_t finder)
{
	_cleanup_close_ int fd = opened;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (have_inode(libraries, &st))
		return 0;
	if (finder != NO_UID && found_by(libraries, finder) >= LIBRARIES_OF_USER)
		return -EMFILE;
	elf_version(EV_CURRENT);
	struct library library = {
		.fd = fd, .finder = finder, .device = st.st_dev, .inode = st.st_ino
	};
	int error = read_symbols(&library, fd);
	if (!error)
		error = libraries_append(libraries, &library, name);
	if (!error)
		fd = -1;
	return error;
}

int libraries_add(struct libraries *libraries, const char *path, const char *name)
{
	int fd = proc_open_file(path, 0);

	return fd < 0 ? fd : add_opened(libraries, fd, name, NO_UID);
}

/* Adds a library that can't be probed; once, however many processes have mapped the
 * file. */
static void add_lost(struct libraries *libraries, const char *name, uid_t finder,
		     int error)
{
	struct library library = { .fd = -1, .error = error, .finder = finder };

	for (size_t i = 0; i < libraries->n; i++)
		if (libraries->list[i].error && !strcmp(libraries->list[i].name, name))
			return;
	libraries_append(libraries, &library, name);
}

void library_path(const struct library *library, char ret_path[LIBRARY_PATH_SIZE])
{
	snprintf(ret_path, LIBRARY_PATH_SIZE, "/proc/self/fd/%d", library->fd);
}

int library_check(const struct library *library)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		const struct symbol *symbol = &library->symbols[i];
		char byte;

		if (symbol->state != SYMBOL_FOUND)
			continue;
		ssize_t n = pread(library->fd, &byte, 1, (off_t)symbol->offset);
		if (n != 1)
			return n < 0 ? -errno : -ENODATA;
	}
	return 0;
}

size_t libraries_usable(const struct libraries *libraries)
{
	size_t n = 0;

	for (size_t i = 0; i < libraries->n; i++)
		n += !libraries->list[i].error;
	return n;
}

static bool is_libcuda(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, "libcuda.so", strlen("libcuda.so"));
}

/* Returns: whether the user may have one more. */
static bool add_mapped(struct libraries *libraries, const char *pid, uid_t uid,
		       const struct mapping *mapping)
{
	int fd = proc_open_mapped(pid, mapping), error = MIN(fd, 0);

	if (fd >= 0 && file_system_is_of_user(fd, pid)) {
		closep(&fd);
		error = -EREMOTE;
	} else if (fd >= 0) {
		error = add_opened(libraries, fd, mapping->name, uid);
	}
	if (error)
		add_lost(libraries, mapping->name, uid, error);
	return found_by(libraries, uid) <= LIBRARIES_OF_USER;
}

void libraries_add_process(struct libraries *libraries, const char *pid, uid_t uid)
{
	bool more = found_by(libraries, uid) <= LIBRARIES_OF_USER;
	struct mapping mapping;
	struct maps maps;

	maps_open(&maps, pid);
	while (more && maps_next(&maps, &mapping))
		if (mapping.name[0] == '/' && is_libcuda(mapping.name))
			more = add_mapped(libraries, pid, uid, &mapping);
	maps_close(&maps);
}

void libraries_add_default(struct libraries *libraries, const char *library_path)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;

	if (handle && !dlinfo(handle, RTLD_DI_LINKMAP, &map) && map)
		libraries_add(libraries, map->l_name, map->l_name);
	if (handle)
		dlclose(handle);

	for (const char *dir = library_path; dir && *dir;) {
		size_t length = strcspn(dir, ":");
		char path[4200];

		snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)length, dir);
		if (length)
			libraries_add(libraries, path, path);
		dir += length;
		dir += *dir == ':';
	}
}

bool library_has_calls(const struct library *library)
{
	for (size_t i = 0; i < N_CALLS; i++)
		if (library->symbols[i].state != SYMBOL_ABSENT)
			return true;
	return false;
}

void libraries_deinit(struct libraries *libraries)
{
	for (size_t i = 0; i < libraries->n; i++) {
		closep(&libraries->list[i].fd);
		free(libraries->list[i].name);
	}
	free(libraries->list);
	*libraries = (struct libraries){ 0 };
}
