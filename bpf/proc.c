/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

pid_t proc_parent(pid_t pid, char ret_name[PROC_NAME_SIZE])
{
	char path[64], line[512];
	int parent = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fgets(line, sizeof line, file)) {
		char *open = strchr(line, '('), *close = strrchr(line, ')');

		if (open && close && sscanf(close + 1, " %*c %d", &parent) == 1)
			snprintf(ret_name, PROC_NAME_SIZE, "%.*s",
				 (int)(close - open - 1), open + 1);
	}
	fclose(file);
	return parent;
}

bool proc_uid(pid_t pid, uid_t *ret_uid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	if (stat(path, &st))
		return false;
	*ret_uid = st.st_uid;
	return true;
}

#define WORKER "gpumem-" /* a worker's name begins so; a uid or `mover` follows */

bool proc_is_worker(const char *name)
{
	return !strncmp(name, WORKER, strlen(WORKER));
}

pid_t proc_worker_broker(pid_t pid)
{
	char name[PROC_NAME_SIZE] = "";
	pid_t parent = proc_parent(pid, name);

	return proc_is_worker(name) ? parent : 0;
}
