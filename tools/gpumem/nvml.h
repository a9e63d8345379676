/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's management library (NVML), which comes with the driver and is loaded at run
 * time: the processes that use a GPU.
 */
#pragma once

#include "base/text.h"

#include <sys/types.h>

struct nvml_process {
	pid_t pid;
	uint64_t bytes; /* UINT64_MAX: unknown */
};

/* Returns: the library; NULL, with the reason added to `why`. */
struct nvml *nvml_new(struct text *why);
struct nvml *nvml_free(struct nvml *nvml);

/*
 * Lists the processes that use the GPU of this UUID, each once.
 *
 * Returns: 0, and a list that the caller frees; -EIO or -ENOMEM, with the reason added to
 * `why`.
 */
int nvml_list(const struct nvml *nvml, const char *uuid, struct nvml_process **ret_list,
	      size_t *ret_n, struct text *why);
