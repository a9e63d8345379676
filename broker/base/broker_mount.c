/* SPDX-License-Identifier: MIT */
#include "base/broker_mount.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options are the kernel's words; the other words of a line may be the mounter's. */
static bool is_believed(const struct mntent *entry)
{
	const char *option = hasmntopt(entry, "user_id");
	unsigned long uid;
	char *end;

	if (!option || option[strlen("user_id")] != '=')
		return false;
	uid = strtoul(option + strlen("user_id="), &end, 10);
	return (*end == ',' || *end == '\0') && (uid == 0 || uid == geteuid());
}

const struct mntent *broker_mount_next(FILE *mounts)
{
	const struct mntent *entry;

	do
		entry = getmntent(mounts);
	while (entry &&
	       (strcmp(entry->mnt_type, "fuse.gpumemd") != 0 || !is_believed(entry)));
	return entry;
}
