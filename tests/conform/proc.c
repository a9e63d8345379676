/* SPDX-License-Identifier: MIT */
/* How programs find the driver's calls by name and version. */
#include "conform.h"

#include <dlfcn.h>

SUITE(proc);

static CUresult (*get)(const char *, void **, int, uint64_t,
		       CUdriverProcAddressQueryResult *);
static void *library;

static void *find(const char *name, int version, CUdriverProcAddressQueryResult expected)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	void *found = &status;

	MUST(get(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status) ==
	     CUDA_SUCCESS);
	MUST(status == expected);
	return found;
}

static void open_library(void)
{
	library = dlopen(getenv("GPUMEM_DRIVER"), RTLD_NOW | RTLD_LOCAL);
	MUST(library != NULL);
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	MUST(get != NULL);
}

static void finds(const char *name, int version, const char *symbol)
{
	void *found = find(name, version, CU_GET_PROC_ADDRESS_SUCCESS);

	cr_assert_not_null(found);
	cr_assert_eq(found, dlsym(library, symbol), "%s %d: not %s", name, version,
		     symbol);
}

Test(proc, the_newest_form_of_a_version_is_found)
{
	open_library();
	finds("cuInit", 2000, "cuInit");
	finds("cuInit", 13000, "cuInit");
	finds("cuMemAlloc", 3020, "cuMemAlloc_v2");
	finds("cuMemAlloc", 12040, "cuMemAlloc_v2");
	finds("cuMemPrefetchAsync", 8000, "cuMemPrefetchAsync");
	finds("cuMemPrefetchAsync", 12010, "cuMemPrefetchAsync");
	finds("cuMemPrefetchAsync", 12020, "cuMemPrefetchAsync_v2");
	finds("cuGetProcAddress", 11030, "cuGetProcAddress");
	finds("cuGetProcAddress", 12000, "cuGetProcAddress_v2");
}

Test(proc, what_is_found_works)
{
	CUresult (*get_version)(int *);
	int version = 0;

	open_library();
	*(void **)&get_version =
		find("cuDriverGetVersion", 2020, CU_GET_PROC_ADDRESS_SUCCESS);
	cr_assert_eq(get_version(&version), CUDA_SUCCESS);
	cr_assert_geq(version, 12000);
}

Test(proc, a_call_of_a_later_version_is_not_found)
{
	open_library();
	cr_assert_null(
		find("cuMemCreate", 10010, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
}

Test(proc, an_unknown_call_is_not_found)
{
	open_library();
	cr_assert_null(find("cuNoSuchCall", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
	cr_assert_null(find("cuMem", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
	cr_assert_null(find("", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
}
