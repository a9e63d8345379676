/* SPDX-License-Identifier: MIT */
/*
 * A line of the list: SOURCE FOLDER TYPE OPTIONS 0 0. The mounter chooses SOURCE, and its
 * length. Lines are read whole: of a line that is cut off, the options would end too
 * early, and getmntent(3) cuts at 4096 bytes.
 */
#include "base/broker_mount.h"

#include "base/number.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define TYPE "fuse.gpumemd"
#define USER "user_id="

static bool user_parse(const char *digits, uint64_t *ret_user)
{
	return digits[strspn(digits, "0123456789")] == '\0' &&
	       number_parse(digits, ret_user) == 0;
}

/* The kernel writes the mount's user into the options, once. */
static bool is_believed(char *options)
{
	const char *option;
	bool found = false;
	uint64_t user = 0;

	while ((option = strsep(&options, ","))) {
		if (strncmp(option, USER, strlen(USER)) != 0)
			continue;
		if (found || !user_parse(option + strlen(USER), &user))
			return false;
		found = true;
	}
	return found && (user == 0 || user == geteuid());
}

/* Returns: NULL for all but a mount that is believed. */
static const char *folder_of(char *line)
{
	char *words[4], *rest = line;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		words[i] = strsep(&rest, " ");
		if (!rest)
			return NULL;
	}
	if (strcmp(words[2], TYPE) != 0 || !is_believed(words[3]))
		return NULL;
	string_unescape(words[1]);
	return words[1];
}

int broker_mounts_open(struct broker_mounts *ret_mounts)
{
	FILE *file = fopen("/proc/self/mounts", "re");

	if (!file)
		return -errno;
	*ret_mounts = BROKER_MOUNTS(file);
	return 0;
}

const char *broker_mounts_next(struct broker_mounts *mounts)
{
	const char *folder = NULL;

	while (!folder && getline(&mounts->line, &mounts->size, mounts->file) > 0)
		folder = folder_of(mounts->line);
	return folder;
}

void broker_mounts_close(struct broker_mounts *mounts)
{
	if (mounts->file)
		fclose(mounts->file);
	free(mounts->line);
	*mounts = BROKER_MOUNTS(NULL);
}
