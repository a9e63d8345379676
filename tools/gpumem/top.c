/* SPDX-License-Identifier: MIT */
/*
 * top: the screen of ls, once a second.
 */
#include "command.h"
#include "screen.h"
#include "snapshot.h"

#include <ncurses.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EVERY_MS 1000

struct top {
	struct screen screen;
	struct mount mount;
	struct text text; /* tables, or why there are none */
	int first;	  /* line of the tables at the top of the screen */
	int n_lines;
};

/* The mount is opened anew each time: another broker may have come to its place, and a
 * mount that stops must not stop this program. */
static void read_tables(struct top *top)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct mount mount = MOUNT_CLOSED;

	text_clear(&top->text);
	top->screen.width = (size_t)MAX(COLS, 1);
	if (!mount_try(&mount, &why)) {
		mount_close(&top->mount);
		top->mount = mount;
		(void)screen_print(&top->screen, &top->mount, &top->text, &why);
	}
	if (why.length) {
		text_clear(&top->text);
		text_printf(&top->text, "%s\n", text_string(&why));
	}
}

static void draw_title(const struct top *top)
{
	time_t now = time(NULL);
	struct tm tm;
	char clock[16];

	strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &tm));
	attron(A_REVERSE);
	mvprintw(0, 0, "%-*.*s", COLS, COLS, "");
	mvaddnstr(0, 0, top->mount.path, COLS);
	printw("  %s  sort: %s  (s: next, arrows: scroll, q: quit)", clock,
	       top->screen.sort);
	attroff(A_REVERSE);
}

/* The line behind an empty one, and the first, are headings. */
static void draw(struct top *top)
{
	const char *line = text_string(&top->text);
	bool heading = true;
	int n = 0;

	erase();
	for (; *line; n++) {
		int length = (int)strcspn(line, "\n"), row = n - top->first + 1;

		attrset(heading ? A_BOLD : A_NORMAL);
		if (row >= 1 && row < LINES)
			mvaddnstr(row, 0, line, length);
		heading = length == 0;
		line += length;
		line += *line == '\n';
	}
	attrset(A_NORMAL);
	top->n_lines = n;
	draw_title(top);
	refresh();
}

static void scroll_by(struct top *top, int lines)
{
	int last = MAX(top->n_lines - (LINES - 1), 0);

	top->first = MIN(MAX(top->first + lines, 0), last);
}

/* Returns: false to leave. */
static bool key_take(struct top *top, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case 's':
		top->screen.sort = snapshot_next_key(top->screen.sort);
		break;
	case KEY_UP:
		scroll_by(top, -1);
		break;
	case KEY_DOWN:
		scroll_by(top, 1);
		break;
	case KEY_PPAGE:
		scroll_by(top, 1 - LINES);
		break;
	case KEY_NPAGE:
		scroll_by(top, LINES - 1);
		break;
	case KEY_HOME:
		top->first = 0;
		break;
	default:
		break;
	}
	return true;
}

static int run(struct top *top)
{
	SCREEN *terminal = newterm(NULL, stdout, stdin);
	int key = ERR;

	if (!terminal)
		return refused("this terminal ($TERM) is unknown: use gpumem ls");
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	timeout(EVERY_MS);
	do {
		read_tables(top);
		draw(top);
		key = getch();
	} while (key_take(top, key));
	endwin();
	delscreen(terminal);
	return STATUS_DONE;
}

static int run_on_terminal(const struct call *call, struct programs *programs)
{
	struct top top = { .mount = MOUNT_CLOSED };
	int status = mount_open(&top.mount) ?: screen_init(&top.screen, call, &top.mount);

	if (!status) {
		top.screen.programs = programs;
		top.screen.colors = false;
		status = run(&top);
	}
	mount_close(&top.mount);
	text_deinit(&top.text);
	return status;
}

int command_top(const struct call *call)
{
	bool once = call->values[OPTION_ONCE];
	struct programs programs;
	int status;

	if (call->n_args)
		return wrong_use("top takes no '%s': -u USER and -g GPU choose",
				 call->args[0]);
	if (!once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return wrong_use("top needs a terminal: --once prints the screen once");
	programs_init(&programs);
	status = once ? list_once(call, &programs) : run_on_terminal(call, &programs);
	programs_deinit(&programs);
	return status;
}
