/* SPDX-License-Identifier: MIT */
#include "screen.h"

#include "snapshot.h"

#include "base/number.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BAR_WIDTH   20
#define GPU_COLUMNS 4  /* that fit into 80 columns */
#define BAR_FULL    90 /* percent; red */
#define BAR_MUCH    70 /* yellow */

/* ---- GPUs ---- */

static void bar_cell(struct table *table, const struct gpu *gpu)
{
	char bar[64], filled[BAR_WIDTH + 1], empty[BAR_WIDTH + 1];
	unsigned int percent, n;

	if (gpu->used == SIZE_UNKNOWN || gpu->total == SIZE_UNKNOWN || !gpu->total) {
		table_cell(table, NULL);
		return;
	}
	percent = (unsigned int)(MIN(gpu->used, gpu->total) * 100.0 / gpu->total);
	n = percent * BAR_WIDTH / 100;
	memset(filled, '#', n);
	filled[n] = '\0';
	memset(empty, '-', BAR_WIDTH - n);
	empty[BAR_WIDTH - n] = '\0';
	snprintf(bar, sizeof bar, "[%s%s] %3u%%", filled, empty, percent);
	table_cell_color(table, bar,
			 percent >= BAR_FULL   ? "red"
			 : percent >= BAR_MUCH ? "yellow"
					       : "green");
}

static const struct column gpu_columns[] = {
	{ "GPU", COLUMN_NUMBER },    { "NAME", COLUMN_LONG },
	{ "USED", COLUMN_NUMBER },   { "TOTAL", COLUMN_NUMBER },
	{ "USE", COLUMN_PEOPLE },    { "GPUMEM", COLUMN_NUMBER },
	{ "OTHERS", COLUMN_NUMBER }, { "STATE", 0 },
};

static int print_gpus(const struct screen *screen, const struct snapshot *snapshot,
		      struct text *text)
{
	_cleanup_table_ struct table table = { 0 };

	table_init(&table, "gpus", screen->style, gpu_columns, ARRAY_SIZE(gpu_columns));
	for (size_t i = 0; i < snapshot->n_gpus; i++) {
		const struct gpu *gpu = &snapshot->gpus[i];
		bool known = gpu->used != SIZE_UNKNOWN && gpu->held != SIZE_UNKNOWN;

		if (screen->gpu >= 0 && (unsigned int)screen->gpu != gpu->number)
			continue;
		table_line(&table);
		table_number(&table, gpu->number);
		table_cell(&table, gpu->name);
		table_size(&table, gpu->used);
		table_size(&table, gpu->total);
		bar_cell(&table, gpu);
		table_size(&table, gpu->held);
		table_size(&table, !known		   ? SIZE_UNKNOWN
				   : gpu->used > gpu->held ? gpu->used - gpu->held
							   : 0);
		table_cell(&table, gpu->state);
	}
	return table_print(&table, text, screen->width, screen->colors);
}

/* ---- users ---- */

static uint64_t sum(const struct snapshot *snapshot, const struct user *user, int device)
{
	uint64_t size = 0;

	for (size_t i = 0; i < snapshot->n_allocations; i++) {
		const struct allocation *allocation = &snapshot->allocations[i];

		if ((!user || allocation->uid == user->uid) && !allocation->folder &&
		    allocation->device == device)
			size += allocation->size;
	}
	return size;
}

static void user_line(struct table *table, const struct screen *screen,
		      const struct snapshot *snapshot, const struct user *user)
{
	uint64_t n = 0, size = 0;

	for (size_t i = 0; i < snapshot->n_allocations; i++) {
		if (snapshot->allocations[i].uid != user->uid ||
		    snapshot->allocations[i].folder)
			continue;
		size += snapshot->allocations[i].size;
		n++;
	}
	if (n == 0)
		return;
	table_line(table);
	table_cell(table, user->name);
	for (size_t i = 0; i < snapshot->n_gpus; i++)
		if (screen->gpu < 0 ||
		    (unsigned int)screen->gpu == snapshot->gpus[i].number)
			table_size(table,
				   sum(snapshot, user, (int)snapshot->gpus[i].number));
	table_size(table, sum(snapshot, user, DEVICE_NONE));
	table_size(table, sum(snapshot, user, DEVICE_UNKNOWN));
	table_size(table, size);
	table_number(table, n);
}

static const struct column user_columns[] = {
	{ "USER", COLUMN_LONG },
	{ "GPU", COLUMN_NUMBER },
	{ "SIZE", COLUMN_NUMBER },
};

/* A line for each GPU of each user: a terminal has no room for a column for each GPU. */
static int print_users_long(const struct screen *screen, const struct snapshot *snapshot,
			    struct text *text)
{
	_cleanup_table_ struct table table = { 0 };

	table_init(&table, "users", screen->style, user_columns,
		   ARRAY_SIZE(user_columns));
	for (size_t i = 0; i < snapshot->n_users; i++) {
		const struct user *user = &snapshot->users[i];

		for (int gpu = DEVICE_UNKNOWN; gpu < (int)snapshot->n_gpus; gpu++) {
			uint64_t size = sum(snapshot, user, gpu);

			if (!size)
				continue;
			table_line(&table);
			table_cell(&table, user->name);
			if (gpu >= 0)
				table_number(&table, (uint64_t)gpu);
			else
				table_cell(&table, gpu == DEVICE_NONE ? "host" : NULL);
			table_size(&table, size);
		}
	}
	return table_print(&table, text, screen->width, screen->colors);
}

static int print_users(const struct screen *screen, const struct snapshot *snapshot,
		       struct text *text)
{
	bool unknown = sum(snapshot, NULL, DEVICE_UNKNOWN);
	_cleanup_table_ struct table table = { 0 };

	if (screen->style == STYLE_PEOPLE && screen->gpu < 0 &&
	    snapshot->n_gpus > GPU_COLUMNS)
		return print_users_long(screen, snapshot, text);
	table_init(&table, "users", screen->style, user_columns, 1); /* USER */
	for (size_t i = 0; i < snapshot->n_gpus; i++) {
		char name[32];

		snprintf(name, sizeof name, "GPU%u", snapshot->gpus[i].number);
		if (screen->gpu < 0 ||
		    (unsigned int)screen->gpu == snapshot->gpus[i].number)
			table_column(&table, name, COLUMN_NUMBER);
	}
	table_column(&table, "HOST", COLUMN_NUMBER);
	table_column(&table, screen->style == STYLE_PEOPLE ? "?" : "UNKNOWN",
		     COLUMN_NUMBER | (unknown ? 0 : COLUMN_HIDDEN));
	table_column(&table, "TOTAL", COLUMN_NUMBER);
	table_column(&table, "ALLOCATIONS", COLUMN_NUMBER);
	for (size_t i = 0; i < snapshot->n_users; i++)
		user_line(&table, screen, snapshot, &snapshot->users[i]);
	return table_print(&table, text, screen->width, screen->colors);
}

/* ---- allocations ---- */

/* The last write: how long ago, for people. */
static void written_cell(struct table *table, const struct allocation *allocation)
{
	static const struct {
		int64_t seconds;
		const char *unit;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	int64_t ago = time(NULL) - allocation->written;
	_cleanup_text_ struct text text = TEXT_INIT;

	if (!allocation->written) {
		table_cell(table, allocation->last_write);
		return;
	}
	if (table->style != STYLE_PEOPLE)
		text_time(&text, allocation->written);
	for (size_t i = 0; i < ARRAY_SIZE(units) && !text.length; i++)
		if (ago >= units[i].seconds)
			text_printf(&text, "%lld %s", (long long)(ago / units[i].seconds),
				    units[i].unit);
	if (!text.length)
		text_printf(&text, "now");
	table_cell(table, text_string(&text));
}

/* `none` of a file is an empty cell. */
static const char *word_or_none(const struct table *table, const char *word)
{
	if (!word || strcmp(word, "none") != 0)
		return word;
	return table->style == STYLE_JSON ? NULL : "";
}

/* A folder has neither GPU nor state nor tag: nothing about these is unknown. */
static void allocation_line(struct table *table, const struct allocation *allocation)
{
	const char *none = word_or_none(table, "none");
	const char *state = allocation->folder ? none : allocation->state;
	const char *tag = allocation->folder ? none : allocation->tag;
	bool unknown = allocation->device == DEVICE_UNKNOWN && !allocation->folder;

	table_line(table);
	table_cell(table, allocation->name);
	table_cell(table, allocation->owner);
	if (allocation->device >= 0)
		table_number(table, (uint64_t)allocation->device);
	else
		table_cell(table, unknown || table->style == STYLE_JSON ? NULL : "-");
	table_cell(table, allocation->kind);
	table_size(table, allocation->size);
	written_cell(table, allocation);
	table_cell(table, allocation->holders ?: none);
	table_cell_color(table, state,
			 !state			  ? NULL
			 : !strcmp(state, "lost") ? "red"
			 : !strcmp(state, "busy") ? "yellow"
						  : NULL);
	table_cell(table, word_or_none(table, tag));
}

static const struct column allocation_columns[] = {
	{ "NAME", COLUMN_LONG },    { "OWNER", COLUMN_LONG },
	{ "GPU", COLUMN_NUMBER },   { "KIND", 0 },
	{ "SIZE", COLUMN_NUMBER },  { "WRITTEN", 0 },
	{ "HOLDERS", COLUMN_LONG }, { "STATE", 0 },
	{ "TAG", COLUMN_LONG },
};

static int print_allocations(const struct screen *screen, const struct snapshot *snapshot,
			     struct text *text)
{
	_cleanup_table_ struct table table = { 0 };

	table_init(&table, "allocations", screen->style, allocation_columns,
		   ARRAY_SIZE(allocation_columns));
	for (size_t i = 0; i < snapshot->n_allocations; i++) {
		const struct allocation *allocation = &snapshot->allocations[i];

		if (screen->recursive ? !allocation->folder : !allocation->in)
			allocation_line(&table, allocation);
	}
	return table_print(&table, text, screen->width, screen->colors);
}

/* ---- folders ---- */

static const struct column folder_columns[] = {
	{ "FOLDER", COLUMN_LONG },	  { "OWNER", COLUMN_LONG },  { "MODE", 0 },
	{ "ALLOCATIONS", COLUMN_NUMBER }, { "SIZE", COLUMN_NUMBER }, { "WRITTEN", 0 },
};

static int print_folders(const struct screen *screen, const struct snapshot *snapshot,
			 struct text *text)
{
	_cleanup_table_ struct table table = { 0 };

	if (!screen->folders)
		return 0;
	table_init(&table, "folders", screen->style, folder_columns,
		   ARRAY_SIZE(folder_columns));
	for (size_t i = 0; i < snapshot->n_allocations; i++) {
		const struct allocation *allocation = &snapshot->allocations[i];
		char mode[8];

		if (!allocation->folder)
			continue;
		snprintf(mode, sizeof mode, "%04o", allocation->mode);
		table_line(&table);
		table_cell(&table, allocation->name);
		table_cell(&table, allocation->owner);
		table_cell(&table, mode);
		table_number(&table, allocation->folder->n);
		table_size(&table, allocation->size);
		written_cell(&table, allocation);
	}
	return table_print(&table, text, screen->width, screen->colors);
}

/* ---- programs outside of gpumem ---- */

static const struct column program_columns[] = {
	{ "PROGRAM", COLUMN_LONG }, { "PID", COLUMN_NUMBER },	 { "USER", COLUMN_LONG },
	{ "GPU", COLUMN_NUMBER },   { "MEMORY", COLUMN_NUMBER },
};

static int print_programs(const struct screen *screen, const struct snapshot *snapshot,
			  struct text *text)
{
	_cleanup_table_ struct table table = { 0 };
	_cleanup_text_ struct text missing = TEXT_INIT;
	int r;

	if (!screen->programs)
		return 0;
	table_init(&table, "programs", screen->style, program_columns,
		   ARRAY_SIZE(program_columns));
	programs_list(screen->programs, snapshot, screen->user, screen->gpu, &table,
		      &missing);
	r = table_print(&table, text, screen->width, screen->colors);
	text_printf(text, "%s", text_string(&missing));
	return r;
}

/* ---- the whole ---- */

/* libsmartcols makes an object of each table; here they are one object. */
static void join_json(struct text *text, const struct text *table, bool first)
{
	const char *begin = strchr(text_string(table), '{');
	const char *end = begin ? strrchr(begin, '}') : NULL;

	if (!end)
		return;
	while (end > begin && end[-1] == '\n')
		end--;
	text_printf(text, first ? "{" : ",");
	text_add(text, begin + 1, (size_t)(end - begin - 1));
}

int screen_print(const struct screen *screen, const struct mount *mount,
		 struct text *text, struct text *why)
{
	static int (*const tables[])(const struct screen *, const struct snapshot *,
				     struct text *) = {
		print_gpus, print_users, print_allocations, print_folders, print_programs,
	};
	_cleanup_snapshot_ struct snapshot snapshot = {
		.user = screen->user,
		.all_folders = screen->folders,
	};
	int r = snapshot_read(&snapshot, mount, why);

	if (r)
		return r;
	snapshot_filter(&snapshot, screen->gpu);
	snapshot_sort(&snapshot, screen->sort);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		_cleanup_text_ struct text table = TEXT_INIT;

		r = tables[i](screen, &snapshot, &table);
		if (r) {
			text_printf(why, "no memory");
			return r;
		}
		if (screen->style == STYLE_JSON)
			join_json(text, &table, i == 0);
		else if (table.length)
			text_printf(text, "%s%s", i ? "\n" : "", text_string(&table));
	}
	if (screen->style == STYLE_JSON)
		text_printf(text, "\n}\n");
	return 0;
}

/* ---- options ---- */

static bool is_owner(const struct mount *mount, const char *uid)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "owners/%s/name", uid);
	return faccessat(mount->fd, text_string(&path), F_OK, 0) == 0;
}

static int take_user(struct screen *screen, const char *user, const struct mount *mount)
{
	uint64_t uid;

	screen->user = user;
	if (!user || getpwnam(user) || !number_parse(user, &uid) || is_owner(mount, user))
		return STATUS_DONE;
	return wrong_use("there is no user '%s'", user);
}

static int take_gpu(struct screen *screen, const char *gpu, const struct mount *mount)
{
	_cleanup_text_ struct text path = TEXT_INIT;
	uint64_t number;

	screen->gpu = -1;
	if (!gpu)
		return STATUS_DONE;
	if (number_parse(gpu, &number) || number > 0xffff)
		return wrong_use("'%s' is not the number of a GPU", gpu);
	text_printf(&path, "devices/%llu/status", (unsigned long long)number);
	if (faccessat(mount->fd, text_string(&path), F_OK, 0))
		return wrong_use("there is no GPU %s", gpu);
	screen->gpu = (int)number;
	return STATUS_DONE;
}

int screen_init(struct screen *screen, const struct call *call, const struct mount *mount)
{
	bool terminal = isatty(STDOUT_FILENO);

	*screen = (struct screen){
		.style = call->values[OPTION_JSON] ? STYLE_JSON
			 : terminal		   ? STYLE_PEOPLE
						   : STYLE_TABS,
		.colors = terminal && !getenv("NO_COLOR"),
		.sort = call->values[OPTION_SORT] ?: "size",
		/* `top` shows all allocations. */
		.recursive = call->values[OPTION_RECURSIVE] ||
			     !(call->command->options & 1u << OPTION_RECURSIVE),
		.folders = call->values[OPTION_RECURSIVE],
	};
	if (!snapshot_has_key(screen->sort))
		return wrong_use("--sort %s is not one of size, name, owner, gpu, kind, "
				 "written",
				 screen->sort);
	return take_user(screen, call->values[OPTION_USER], mount)
		       ?: take_gpu(screen, call->values[OPTION_GPU], mount);
}
