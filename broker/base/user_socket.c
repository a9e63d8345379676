/* SPDX-License-Identifier: MIT */
#include "base/user_socket.h"

#include <unistd.h>

#include "base/text.h"

void text_add_user_socket(struct text *text, const char *socket, uid_t uid)
{
	text_printf(text, "%s", socket);
	if (uid != geteuid())
		text_printf(text, ".u%u", uid);
}
