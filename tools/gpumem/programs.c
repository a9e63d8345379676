/* SPDX-License-Identifier: MIT */
#include "programs.h"

#include "base/process.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#define UID_UNKNOWN ((uid_t)-1)
#define NOT_SHOWN   "Programs outside of gpumem are not shown"

struct program {
	pid_t parent; /* 0: unknown */
	uid_t uid;
	char name[PROCESS_NAME_MAX];
	char user[64]; /* empty: unknown */
};

void programs_init(struct programs *programs)
{
	*programs = (struct programs){ 0 };
	programs->nvml = nvml_new(&programs->missing);
}

void programs_deinit(struct programs *programs)
{
	programs->nvml = nvml_free(programs->nvml);
	text_deinit(&programs->missing);
}

/* ---- a program ---- */

/* The number behind a key in a file of `KEY: NUMBER` lines. */
static unsigned int number_behind(const struct text *text, const char *key,
				  unsigned int without)
{
	const char *line = strstr(text_string(text), key);
	unsigned int number;

	return line && sscanf(line + strlen(key), "%u", &number) == 1 ? number : without;
}

static void program_read(struct program *program, pid_t pid)
{
	_cleanup_text_ struct text status = TEXT_INIT, user = TEXT_INIT;
	const struct passwd *entry;
	char path[32];

	*program = (struct program){ 0 };
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	(void)file_read(AT_FDCWD, path, &status);
	program->parent = (pid_t)number_behind(&status, "\nPPid:", 0);
	program->uid = number_behind(&status, "\nUid:", UID_UNKNOWN);
	process_name(pid, program->name);
	if (program->uid == UID_UNKNOWN)
		return;
	entry = getpwuid(program->uid);
	if (entry)
		text_add_plain(&user, entry->pw_name);
	else
		text_printf(&user, "%u", program->uid);
	snprintf(program->user, sizeof program->user, "%s", text_string(&user));
}

/* The broker starts its workers itself. Returns: 0: unknown. */
static pid_t broker_of(const struct snapshot *snapshot)
{
	struct program mover = { 0 };

	if (snapshot->mover)
		program_read(&mover, snapshot->mover);
	return mover.parent;
}

static bool program_is_of(const struct program *program, const char *user)
{
	char uid[16];

	snprintf(uid, sizeof uid, "%u", program->uid);
	return !user || !strcmp(user, program->user) || !strcmp(user, uid);
}

/* ---- the list ---- */

static int by_bytes(const void *a, const void *b)
{
	const struct nvml_process *first = a, *second = b;

	if (first->bytes != second->bytes)
		return first->bytes < second->bytes ? 1 : -1;
	return first->pid < second->pid ? -1 : first->pid > second->pid;
}

static int list_gpu(const struct programs *programs, const struct gpu *gpu, pid_t broker,
		    const char *user, struct table *table, struct text *why)
{
	_cleanup_free_ struct nvml_process *processes = NULL;
	size_t n = 0;
	int r = nvml_list(programs->nvml, gpu->uuid ?: "", &processes, &n, why);

	if (n)
		qsort(processes, n, sizeof(*processes), by_bytes);
	for (size_t i = 0; i < n; i++) {
		struct program program;

		program_read(&program, processes[i].pid);
		if ((broker &&
		     (processes[i].pid == broker || program.parent == broker)) ||
		    !program_is_of(&program, user))
			continue;
		table_line(table);
		table_cell(table, program.name);
		table_number(table, (uint64_t)processes[i].pid);
		table_cell(table, *program.user ? program.user : NULL);
		table_number(table, gpu->number);
		table_size(table, processes[i].bytes);
	}
	return r;
}

void programs_list(const struct programs *programs, const struct snapshot *snapshot,
		   const char *user, int gpu, struct table *table, struct text *missing)
{
	_cleanup_text_ struct text why = TEXT_INIT, unknown = TEXT_INIT;
	pid_t broker = broker_of(snapshot);

	if (!programs->nvml) {
		text_printf(missing, NOT_SHOWN ": %s\n", text_string(&programs->missing));
		return;
	}
	for (size_t i = 0; i < snapshot->n_gpus; i++) {
		const struct gpu *one = &snapshot->gpus[i];

		if (gpu >= 0 && (unsigned int)gpu != one->number)
			continue;
		text_clear(&why);
		if (list_gpu(programs, one, broker, user, table, &why) < 0)
			text_printf(&unknown, "%s GPU %u (%s)", unknown.length ? "," : "",
				    one->number, text_string(&why));
	}
	if (unknown.length)
		text_printf(missing, NOT_SHOWN " of%s\n", text_string(&unknown));
}
