/* SPDX-License-Identifier: MIT */
/*
 * A library to preload: a user database that does not answer, and one with odd names.
 * While the file SLOW_USERS exists, each look-up waits; ODD_USERS is the name of all.
 */
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

int getpwuid_r(uid_t uid, struct passwd *entry, char *bytes, size_t size,
	       struct passwd **ret_found)
{
	const char *file = getenv("SLOW_USERS");
	char *odd = getenv("ODD_USERS");

	(void)bytes;
	(void)size;
	while (file && access(file, F_OK) == 0)
		usleep(10000);
	*entry = (struct passwd){ .pw_name = odd ? odd : "somebody",
				  .pw_uid = uid,
				  .pw_dir = "/" };
	*ret_found = entry;
	return 0;
}
