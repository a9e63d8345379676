/* SPDX-License-Identifier: MIT */
#include "nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define LIBRARY	  "libnvidia-ml.so.1"
#define ROOM	  64
#define ROOM_MOST 65536

/* nvmlReturn_t */
enum result {
	RESULT_SUCCESS = 0,
	RESULT_INSUFFICIENT_SIZE = 7,
};

/* nvmlDevice_t points to it. */
struct device;

/* nvmlProcessInfo_t of the functions of version 3 */
struct info {
	unsigned int pid;
	unsigned long long used; /* all bits set: not available */
	unsigned int gpu_instance, compute_instance;
};

struct nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int result);
	int (*device_by_uuid)(const char *uuid, struct device **ret_device);
	/* programs that compute, that draw, and clients of CUDA's multi-process service;
	 * only the first is in every driver */
	int (*list[3])(struct device *device, unsigned int *n, struct info *infos);
};

static const struct symbol {
	const char *name;
	size_t offset;
	bool optional;
} symbols[] = {
	{ "nvmlInit_v2", offsetof(struct nvml, init), false },
	{ "nvmlShutdown", offsetof(struct nvml, shutdown), false },
	{ "nvmlErrorString", offsetof(struct nvml, error_string), false },
	{ "nvmlDeviceGetHandleByUUID", offsetof(struct nvml, device_by_uuid), false },
	{ "nvmlDeviceGetComputeRunningProcesses_v3", offsetof(struct nvml, list[0]),
	  false },
	{ "nvmlDeviceGetGraphicsRunningProcesses_v3", offsetof(struct nvml, list[1]),
	  true },
	{ "nvmlDeviceGetMPSComputeRunningProcesses_v3", offsetof(struct nvml, list[2]),
	  true },
};

/* ---- the library ---- */

static int nvml_load(struct nvml *nvml, struct text *why)
{
	nvml->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library) {
		text_printf(why, "no NVML (%s)", dlerror());
		return -ENOENT;
	}
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *found = dlsym(nvml->library, symbols[i].name);

		if (!found && !symbols[i].optional) {
			text_printf(why, LIBRARY ": it lacks %s", symbols[i].name);
			return -ENOSYS;
		}
		memcpy((char *)nvml + symbols[i].offset, &found, sizeof(found));
	}
	return 0;
}

struct nvml *nvml_new(struct text *why)
{
	struct nvml *nvml = calloc(1, sizeof(*nvml));
	int result;

	if (!nvml) {
		text_printf(why, "no memory");
		return NULL;
	}
	if (nvml_load(nvml, why) == 0) {
		result = nvml->init();
		if (result == RESULT_SUCCESS)
			return nvml;
		text_printf(why, LIBRARY ": %s", nvml->error_string(result));
	}
	if (nvml->library)
		dlclose(nvml->library);
	free(nvml);
	return NULL;
}

struct nvml *nvml_free(struct nvml *nvml)
{
	if (!nvml)
		return NULL;
	nvml->shutdown();
	dlclose(nvml->library);
	free(nvml);
	return NULL;
}

/* ---- processes ---- */

struct processes {
	struct nvml_process *all;
	size_t n;
};

/* Programs that compute and draw are in two lists. */
static int processes_add(struct processes *processes, const struct info *info)
{
	struct nvml_process *all = processes->all;

	for (size_t i = 0; i < processes->n; i++)
		if (all[i].pid == (pid_t)info->pid)
			return 0;
	all = reallocarray(all, processes->n + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	processes->all = all;
	all[processes->n++] = (struct nvml_process){
		.pid = (pid_t)info->pid,
		.bytes = info->used == ~0ull ? UINT64_MAX : info->used,
	};
	return 0;
}

/* Calls a function of NVML until all its answer fits. Returns: its result; -ENOMEM. */
static int list_call(int (*list)(struct device *, unsigned int *, struct info *),
		     struct device *device, struct info **ret_infos, unsigned int *ret_n)
{
	int result = RESULT_INSUFFICIENT_SIZE;

	for (unsigned int room = ROOM;
	     result == RESULT_INSUFFICIENT_SIZE && room <= ROOM_MOST; room *= 2) {
		struct info *infos = reallocarray(*ret_infos, room, sizeof(*infos));

		if (!infos)
			return -ENOMEM;
		*ret_infos = infos;
		*ret_n = room;
		result = list(device, ret_n, infos);
	}
	return result;
}

static int list_add(struct processes *processes,
		    int (*list)(struct device *, unsigned int *, struct info *),
		    struct device *device)
{
	_cleanup_free_ struct info *infos = NULL;
	unsigned int n;
	int result = list_call(list, device, &infos, &n);

	for (unsigned int i = 0; result == RESULT_SUCCESS && i < n; i++)
		result = processes_add(processes, &infos[i]);
	return result;
}

int nvml_list(const struct nvml *nvml, const char *uuid, struct nvml_process **ret_list,
	      size_t *ret_n, struct text *why)
{
	struct processes processes = { 0 };
	struct device *device;
	int result = nvml->device_by_uuid(uuid, &device);

	for (size_t i = 0; result == RESULT_SUCCESS && i < ARRAY_SIZE(nvml->list); i++) {
		int listed =
			nvml->list[i] ? list_add(&processes, nvml->list[i], device) : 0;

		/* some GPUs don't draw, and know no other list than the first */
		if (i == 0 || listed < 0)
			result = listed;
	}
	if (result == RESULT_SUCCESS) {
		*ret_list = processes.all;
		*ret_n = processes.n;
		return 0;
	}
	free(processes.all);
	text_printf(why, "%s", result < 0 ? "no memory" : nvml->error_string(result));
	return result < 0 ? result : -EIO;
}
