/* SPDX-License-Identifier: MIT */
#include "install_paths.h"

#include "base/def.h"
#include "base/proc.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A part's path: from the folder of this program in the build tree; installed. */
struct place {
	const char *built;
	const char *installed;
};

static const struct place software = {
	"../tools/softgpu/libcuda.so.1",
	PKGLIBDIR "/libcuda.so.1",
};

static const struct place worker = {
	"../broker/worker/gpumem-worker",
	LIBEXECDIR "/gpumem-worker",
};

static char *place_find(const struct place *place)
{
	char self[PATH_MAX];
	_cleanup_free_ char *built = NULL;
	char *slash;

	(void)proc_readlink("self/exe", self, sizeof(self));
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	if (asprintf(&built, "%s/%s", self, place->built) < 0)
		return NULL;
	if (slash && access(built, R_OK) == 0)
		return realpath(built, NULL);
	return strdup(place->installed);
}

char *install_path_software(void)
{
	return place_find(&software);
}

char *install_path_worker(void)
{
	return place_find(&worker);
}
