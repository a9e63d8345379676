/* SPDX-License-Identifier: MIT */
#include "maps.h"

#include <inttypes.h>
#include <string.h>
#include <sys/sysmacros.h>

void maps_open(struct maps *maps, const char *pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%s/maps", pid);
	*maps = (struct maps){ .file = fopen(path, "re") };
}

static bool read_mapping(char *line, struct mapping *ret_mapping)
{
	struct mapping mapping = { 0 };
	unsigned int major, minor;
	int name = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %x:%x %" SCNu64 " %n",
		   &mapping.start, &mapping.end, mapping.access, &major, &minor,
		   &mapping.inode, &name) != 6)
		return false;
	mapping.device = makedev(major, minor);
	mapping.name = line + name;
	*ret_mapping = mapping;
	return true;
}

bool maps_next(struct maps *maps, struct mapping *ret_mapping)
{
	while (maps->file && getline(&maps->line, &maps->size, maps->file) > 0) {
		maps->line[strcspn(maps->line, "\n")] = '\0';
		if (read_mapping(maps->line, ret_mapping))
			return true;
	}
	return false;
}

void maps_close(struct maps *maps)
{
	if (maps->file)
		fclose(maps->file);
	free(maps->line);
	*maps = (struct maps){ 0 };
}
