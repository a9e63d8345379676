/* SPDX-License-Identifier: MIT */
/*
 * Loads the driver: the only place where the project loads a CUDA library.
 *
 * Everything comes from the X-list of gpumem/driver.h. Each row is resolved by dlsym with
 * its exported name. cuGetProcAddress is not used, because it would choose a version by
 * itself. The library is opened with RTLD_LOCAL and never closed.
 *
 * cuInit is called here, but no context is made: a process that only owns memory has no
 * context, so no kernel can corrupt it.
 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "base/text.h"

enum need {
	OPTIONAL,
	REQUIRED,
};

struct row {
	const char *symbol;
	size_t member; /* offset in struct cuda_driver */
	enum need need;
};

static const struct row rows[] = {
#define ROW(symbol, version, need, parameters) \
	[CUDA_ROW_##            \
		symbol] = { #symbol, offsetof(struct cuda_driver, fn_##symbol), need },
	CUDA_DRIVER_LIST(ROW)
#undef ROW
};

static void **driver_member(const struct cuda_driver *driver, int call)
{
	return (void **)((char *)driver + rows[call].member);
}

static int driver_resolve(struct cuda_driver *driver, struct text *why)
{
	for (int call = 0; call < CUDA_N_CALLS; call++) {
		void *function = dlsym(driver->library, rows[call].symbol);

		if (!function && rows[call].need == REQUIRED) {
			text_printf(why,
				    "%s has no %s: not a CUDA driver, or older than 12.2",
				    driver->path, rows[call].symbol);
			return -EOPNOTSUPP;
		}
		*driver_member(driver, call) = function;
	}
	return 0;
}

/* The version is available before cuInit, so an old driver is refused by its version. */
static int driver_check_version(struct cuda_driver *driver, struct text *why)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	int version, r;

	r = CUDA(driver, &failure, cuDriverGetVersion, &version);
	if (r < 0) {
		text_printf(why, "%s: cuDriverGetVersion failed: %s", driver->path,
			    cuda_result_name(failure.result));
		return r;
	}
	if (version < CUDA_DRIVER_OLDEST) {
		text_printf(why, "%s is a driver for CUDA %d.%d: 12.2 is the oldest",
			    driver->path, version / 1000, version % 1000 / 10);
		return -EOPNOTSUPP;
	}
	driver->version = version;
	return 0;
}

static int driver_start(struct cuda_driver *driver, struct text *why)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	int n_devices = 0;
	int r;

	r = CUDA(driver, &failure, cuInit, 0);
	if (r >= 0)
		r = CUDA(driver, &failure, cuDeviceGetCount, &n_devices);
	if (r < 0) {
		text_printf(why, "%s: %s failed: %s", driver->path,
			    cuda_call_name(failure.call),
			    cuda_result_name(failure.result));
		return r;
	}
	if (n_devices < 1) {
		text_printf(why, "%s finds no device", driver->path);
		return -ENODEV;
	}
	return 0;
}

/*
 * Loads the library and keeps its name. Both are kept for good, because functions point
 * into the library.
 */
static int driver_load(struct cuda_driver *driver, const char *path, struct text *why)
{
	struct link_map *map;

	driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!driver->library) {
		text_printf(why, "can't load the driver library: %s", dlerror());
		return -ENOENT;
	}
	if (dlinfo(driver->library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0])
		path = map->l_name;
	driver->path = strdup(path);
	if (!driver->path) {
		text_printf(why, "no memory for the driver's table");
		return -ENOMEM;
	}
	return 0;
}

void cuda_driver_preload(const char *path)
{
	(void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

int cuda_driver_open(const char *path, struct cuda_driver **ret, struct text *why)
{
	_cleanup_cuda_driver_ struct cuda_driver *driver = NULL;
	int r;

	driver = calloc(1, sizeof(*driver));
	if (!driver) {
		text_printf(why, "no memory for the driver's table");
		return -ENOMEM;
	}
	r = driver_load(driver, path, why);
	if (r < 0)
		return r;
	r = driver_resolve(driver, why);
	if (r < 0)
		return r;
	r = driver_check_version(driver, why);
	if (r < 0)
		return r;
	r = driver_start(driver, why);
	if (r < 0)
		return r;

	*ret = take_ptr(driver);
	return 0;
}

struct cuda_driver *cuda_driver_free(struct cuda_driver *driver)
{
	if (!driver)
		return NULL;
	free(driver->path);
	free(driver);
	return NULL;
}

bool cuda_driver_has(const struct cuda_driver *driver, int call)
{
	return *driver_member(driver, call) != NULL;
}

const char *cuda_call_name(int call)
{
	return call >= 0 && call < CUDA_N_CALLS ? rows[call].symbol : "";
}

int cuda_call_finish(struct cuda_failure *failure, int call, int result)
{
	if (!result)
		return 0;
	if (failure)
		*failure = (struct cuda_failure){ call, result };
	return -cuda_result_errno(result);
}
