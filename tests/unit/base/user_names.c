/* SPDX-License-Identifier: MIT */
#include "base/user_names.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pwd.h>
#include <unistd.h>

static char *const names[] = { "alice", "ann lee", "\x1b[31mred\nuid 0", "j\xc3\xb6rg" };

int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *bytes, size_t size,
		      struct passwd **ret_found);

int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *bytes, size_t size,
		      struct passwd **ret_found)
{
	(void)bytes;
	(void)size;
	entry->pw_name = names[uid];
	*ret_found = entry;
	return 0;
}

static void expect_shown(struct user_names *known, uid_t uid, char *expected)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	user_names_want(known, uid);
	do {
		usleep(1000);
		text_clear(&text);
		user_names_show(known, uid, &text);
	} while (text_string(&text)[0] >= '0' && text_string(&text)[0] <= '9');
	cr_expect(eq(str, (char *)text_string(&text), expected));
}

/* Names are words of lines, and are read on terminals. */
Test(user_names, odd_names_of_the_user_database_are_escaped, .timeout = 20)
{
	struct user_names *known = user_names_new();

	expect_shown(known, 0, "alice");
	expect_shown(known, 1, "ann\\x20lee");
	expect_shown(known, 2, "\\x1b[31mred\\x0auid\\x200");
	expect_shown(known, 3, "j\xc3\xb6rg");
	user_names_free(known);
}
