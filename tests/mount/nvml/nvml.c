/* SPDX-License-Identifier: MIT */
/*
 * Stands in for NVIDIA's management library. The file NVML_PROCESSES has the answers: a
 * line `UUID C|G PID BYTES` for each process that computes or draws on a GPU, or `UUID`
 * for a GPU without any. BYTES of - are unknown to the driver. Without the file the
 * library says that the driver is not loaded.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum result {
	SUCCESS = 0,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
};

struct device {
	char uuid[64];
	struct device *next;
};

struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

static struct device *devices;

static FILE *answers_open(void)
{
	const char *path = getenv("NVML_PROCESSES");

	return path ? fopen(path, "re") : NULL;
}

int nvmlInit_v2(void)
{
	FILE *answers = answers_open();

	return answers ? fclose(answers) : DRIVER_NOT_LOADED;
}

int nvmlShutdown(void)
{
	struct device *next;

	for (; devices; devices = next) {
		next = devices->next;
		free(devices);
	}
	return SUCCESS;
}

const char *nvmlErrorString(int result)
{
	return result == NOT_FOUND	     ? "Not Found"
	       : result == DRIVER_NOT_LOADED ? "Driver Not Loaded"
					     : "Unknown Error";
}

static int device_add(const char *uuid, struct device **ret)
{
	struct device *device = calloc(1, sizeof(*device));

	snprintf(device->uuid, sizeof(device->uuid), "%s", uuid);
	device->next = devices;
	devices = *ret = device;
	return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **ret)
{
	FILE *answers = answers_open();
	char line[128];
	int result = NOT_FOUND;

	while (result == NOT_FOUND && answers && fgets(line, sizeof(line), answers))
		if (!strncmp(line, uuid, strlen(uuid)))
			result = device_add(uuid, ret);
	if (answers)
		fclose(answers);
	return result;
}

/* As NVML: the number of processes is told even where the caller has no room for them. */
static int list(const struct device *device, const char *kind, unsigned int *n,
		struct process *processes)
{
	FILE *answers = answers_open();
	unsigned int room = *n;
	char uuid[64], word[2], bytes[32];
	unsigned int pid;
	char line[128];

	*n = 0;
	while (answers && fgets(line, sizeof(line), answers)) {
		if (sscanf(line, "%63s %1s %u %31s", uuid, word, &pid, bytes) != 4 ||
		    strcmp(uuid, device->uuid) != 0 || strcmp(word, kind) != 0)
			continue;
		if (*n < room)
			processes[*n] = (struct process){
				.pid = pid,
				.used = *bytes == '-' ? ~0ull : strtoull(bytes, NULL, 10),
			};
		++*n;
	}
	if (answers)
		fclose(answers);
	return *n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned int *n,
					    struct process *processes)
{
	return list(device, "C", n, processes);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *device, unsigned int *n,
					     struct process *processes)
{
	return list(device, "G", n, processes);
}
