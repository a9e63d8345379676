/* SPDX-License-Identifier: MIT */
#include "command.h"
#include "screen.h"

#include <stdio.h>
#include <sys/ioctl.h>

/* libsmartcols looks at a terminal only where it prints itself. */
static size_t terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int width = columns ? atoi(columns) : 0;

	if (width <= 0 && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		width = size.ws_col;
	return width > 0 ? (size_t)width : 80;
}

int list_once(const struct call *call, struct programs *programs)
{
	_cleanup_text_ struct text text = TEXT_INIT, why = TEXT_INIT;
	_cleanup_mount_ struct mount mount = MOUNT_CLOSED;
	struct screen screen;
	int status;

	status = mount_open(&mount) ?: screen_init(&screen, call, &mount);
	if (status)
		return status;
	screen.width = terminal_width();
	screen.programs = programs;
	if (screen_print(&screen, &mount, &text, &why))
		return refused("%s", text_string(&why));
	fputs(text_string(&text), stdout);
	return STATUS_DONE;
}

int command_ls(const struct call *call)
{
	if (call->n_args)
		return wrong_use("ls takes no '%s': -u USER and -g GPU choose",
				 call->args[0]);
	return list_once(call, NULL);
}
