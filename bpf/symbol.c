/* SPDX-License-Identifier: MIT */
/*
 * A frame is written `function+0xOFFSET (library)`, with `file:line` where the program
 * has line numbers, and as a bare address where nothing is known. Names come from files
 * of this machine: no server of debug information is asked.
 *
 * A function without frame pointers leaves any value in the register, and the walk goes
 * on from there. So an address outside all mappings with code ends the stack. libdw is
 * not asked about such an address, and would assign addresses behind the last file to
 * this file.
 */
#include "symbol.h"

#include "proc.h"

#include "base/text.h"

#include <bpf/bpf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

struct known_stack {
	__s32 key;
	struct stack stack;
	UT_hash_handle hh;
};

struct range {
	__u64 start;
	__u64 end;
};

struct known_process {
	__u64 id;
	__u32 pid;
	Dwfl *dwfl;
	struct range *code; /* executable mappings; empty if unknown */
	size_t n_code;
	struct known_stack *stacks;
	UT_hash_handle hh;
};

struct symbols {
	int fd;
	struct known_process *processes;
};

struct symbols *symbols_new(int stacks_fd)
{
	struct symbols *symbols = calloc(1, sizeof *symbols);

	if (symbols)
		symbols->fd = stacks_fd;
	unsetenv("DEBUGINFOD_URLS");
	return symbols;
}

static void process_close(struct symbols *symbols, struct known_process *process)
{
	struct known_stack *stack, *next;

	HASH_DEL(symbols->processes, process);
	HASH_ITER (hh, process->stacks, stack, next) {
		HASH_DEL(process->stacks, stack);
		for (size_t i = 0; i < stack->stack.n; i++)
			free(stack->stack.frames[i]);
		free(stack->stack.frames);
		free(stack);
	}
	if (process->dwfl)
		dwfl_end(process->dwfl);
	free(process->code);
	free(process);
}

struct symbols *symbols_free(struct symbols *symbols)
{
	struct known_process *process, *next;

	if (!symbols)
		return NULL;
	HASH_ITER (hh, symbols->processes, process, next)
		process_close(symbols, process);
	free(symbols);
	return NULL;
}

/* ---- processes ---- */

static char *debuginfo_path;
static __u32 finding_pid; /* the process whose files find_elf() looks for */

/* Opens the file that the process has mapped there. Returns: a descriptor; -errno. */
static int open_mapped_at(__u64 base, const char *name)
{
	struct mapping mapping;
	struct maps maps;
	int fd = -ENOENT;
	char pid[16];

	snprintf(pid, sizeof pid, "%u", finding_pid);
	maps_open(&maps, pid);
	while (fd == -ENOENT && maps_next(&maps, &mapping))
		if (mapping.start == base && !strcmp(mapping.name, name))
			fd = proc_open_mapped(pid, &mapping);
	maps_close(&maps);
	return fd;
}

/* Libraries and programs alone; not what a process calls its vdso. */
static int find_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
		    char **ret_path, Elf **elf)
{
	(void)module, (void)user, (void)elf;
	int fd = name[0] == '/' ? open_mapped_at(base, name) : -1;

	if (fd < 0)
		return -1;
	*ret_path = strdup(name);
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.debuginfo_path = &debuginfo_path,
};

/* Returns: false if there is no memory. */
static bool code_add(struct known_process *process, __u64 start, __u64 end)
{
	struct range *code = realloc(process->code, (process->n_code + 1) * sizeof *code);

	if (!code)
		return false;
	code[process->n_code++] = (struct range){ start, end };
	process->code = code;
	return true;
}

/* Mappings read earlier stay when the process has ended. */
static void code_read(struct known_process *process)
{
	struct mapping mapping;
	bool first = true;
	struct maps maps;
	char pid[16];

	snprintf(pid, sizeof pid, "%u", process->pid);
	maps_open(&maps, pid);
	while (maps_next(&maps, &mapping)) {
		if (first)
			process->n_code = 0;
		first = false;
		if (strchr(mapping.access, 'x') &&
		    !code_add(process, mapping.start, mapping.end))
			break;
	}
	maps_close(&maps);
}

static bool code_has(const struct known_process *process, __u64 address)
{
	for (size_t i = 0; i < process->n_code; i++)
		if (address >= process->code[i].start && address < process->code[i].end)
			return true;
	return false;
}

/* Reads the mappings of a process anew. */
static void process_report(struct known_process *process)
{
	code_read(process);
	dwfl_report_begin_add(process->dwfl);
	dwfl_linux_proc_report(process->dwfl, (pid_t)process->pid);
	dwfl_report_end(process->dwfl, NULL, NULL);
}

static struct known_process *process_open(struct symbols *symbols, __u64 id, __u32 pid)
{
	struct known_process *process;

	HASH_FIND(hh, symbols->processes, &id, sizeof id, process);
	if (process)
		return process;
	process = calloc(1, sizeof *process);
	if (!process)
		return NULL;
	process->id = id;
	process->pid = pid;
	process->dwfl = dwfl_begin(&callbacks);
	if (process->dwfl)
		process_report(process);
	HASH_ADD(hh, symbols->processes, id, sizeof process->id, process);
	return process;
}

void symbols_close(struct symbols *symbols, __u64 id)
{
	struct known_process *process;

	if (!symbols)
		return;
	HASH_FIND(hh, symbols->processes, &id, sizeof id, process);
	if (process)
		process_close(symbols, process);
}

/* ---- frames ---- */

static void frame_line(Dwfl_Module *module, __u64 address, struct text *text)
{
	Dwfl_Line *line = dwfl_module_getsrc(module, address);
	int number = 0;
	const char *file =
		line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;

	if (!file)
		return;
	const char *slash = strrchr(file, '/');
	text_printf(text, " %s:%d", slash ? slash + 1 : file, number);
}

/* Whether the stack goes on there: in code, or where nothing is known of the process. */
static bool frame_is_code(struct known_process *process, __u64 address)
{
	if (!process->dwfl || code_has(process, address - 1))
		return true;
	process_report(process); /* loaded since */
	return !process->n_code || code_has(process, address - 1);
}

/* Code outside all files has no module. */
static Dwfl_Module *frame_module(struct known_process *process, __u64 address)
{
	Dwarf_Addr start = 0, end = 0;

	if (!process->dwfl)
		return NULL;
	finding_pid = process->pid;
	Dwfl_Module *module = dwfl_addrmodule(process->dwfl, address);
	if (module)
		dwfl_module_info(module, NULL, &start, &end, NULL, NULL, NULL, NULL);
	return address >= start && address < end ? module : NULL;
}

/* The address is where the call returns to: the call itself is a byte before. */
static char *frame_text(struct known_process *process, __u64 address)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	Dwfl_Module *module = frame_module(process, address - 1);

	if (!module) {
		text_printf(&text, "0x%" PRIx64, (uint64_t)address);
		return strdup(text_string(&text));
	}
	GElf_Off offset = 0;
	GElf_Sym sym;
	Dwarf_Addr start = 0;
	const char *path =
		dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *file = slash ? slash + 1 : path;
	const char *name = dwfl_module_addrinfo(module, address - 1, &offset, &sym, NULL,
						NULL, NULL);

	if (name)
		text_printf(&text, "%s+0x%" PRIx64 " (%s)", name, (uint64_t)offset + 1,
			    file ? file : "?");
	else
		text_printf(&text, "0x%" PRIx64 " (%s+0x%" PRIx64 ")", (uint64_t)address,
			    file ? file : "?", (uint64_t)(address - start));
	frame_line(module, address - 1, &text);
	return strdup(text_string(&text));
}

static void stack_fill(const struct symbols *symbols, struct known_process *process,
		       __s32 key, struct stack *stack)
{
	__u64 addresses[STACK_DEPTH] = { 0 };
	__u32 map_key = (__u32)key;

	if (bpf_map_lookup_elem(symbols->fd, &map_key, addresses))
		return;
	stack->frames = calloc(STACK_DEPTH, sizeof *stack->frames);
	for (size_t i = 0; stack->frames && i < STACK_DEPTH && addresses[i]; i++) {
		if (!frame_is_code(process, addresses[i]))
			break;
		stack->frames[i] = frame_text(process, addresses[i]);
		if (!stack->frames[i])
			break;
		stack->n++;
	}
}

const struct stack *symbols_stack(struct symbols *symbols, __u64 id, __u32 pid, __s32 key)
{
	struct known_process *process =
		symbols && key >= 0 ? process_open(symbols, id, pid) : NULL;
	struct known_stack *known;

	if (!process)
		return NULL;
	HASH_FIND(hh, process->stacks, &key, sizeof key, known);
	if (!known) {
		known = calloc(1, sizeof *known);
		if (!known)
			return NULL;
		known->key = key;
		stack_fill(symbols, process, key, &known->stack);
		HASH_ADD(hh, process->stacks, key, sizeof known->key, known);
	}
	return known->stack.n ? &known->stack : NULL;
}
