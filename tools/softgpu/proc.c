/* SPDX-License-Identifier: MIT */
/*
 * How a program finds calls other than by exported names: cuGetProcAddress gives the
 * newest form of a call in a version of CUDA.
 *
 * The CUDA runtime (cudart, static or shared) starts with cuGetProcAddress and goes on to
 * tables of the driver without documentation (cuGetExportTable), also to make sure that
 * the driver is NVIDIA's. The software GPU has none of these tables, so programs of the
 * runtime don't run, and a sentence on stderr says so.
 */
#include "call.h"

#include <stdio.h>
#include <string.h>

#define FLAGS_KNOWN                          \
	(CU_GET_PROC_ADDRESS_LEGACY_STREAM | \
	 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

struct proc {
	const char *symbol;
	int version;
	void *address;
};

static const struct proc procs[] = {
#define PROC(symbol, version, ...) { #symbol, version, (void *)export_##symbol },
	CUDA_DRIVER_LIST(PROC) CUDA_DRIVER_LIST_PROC(PROC)
#undef PROC
};

/* A symbol is a name, or a name with _v2 and so on. */
static bool proc_is(const struct proc *proc, const char *name)
{
	const size_t length = strlen(name);

	return !strncmp(proc->symbol, name, length) &&
	       (!proc->symbol[length] || !strncmp(proc->symbol + length, "_v", 2));
}

/* A call has a single form for both kinds of default stream: the legacy form. */
CUresult export_cuGetProcAddress_v2(const char *name, void **ret, int version,
				    uint64_t flags,
				    CUdriverProcAddressQueryResult *ret_status)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	int newest = -1;

	if (!name || !ret || flags & ~(uint64_t)FLAGS_KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(procs); i++) {
		const int since = procs[i].version;

		if (!proc_is(&procs[i], name))
			continue;
		if (!*ret)
			status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		if (since > version || since < newest)
			continue;
		newest = since;
		*ret = procs[i].address;
		status = CU_GET_PROC_ADDRESS_SUCCESS;
	}
	if (ret_status)
		*ret_status = status;
	return CUDA_SUCCESS;
}

CUresult export_cuGetProcAddress(const char *name, void **ret, int version,
				 uint64_t flags)
{
	return export_cuGetProcAddress_v2(name, ret, version, flags, NULL);
}

CUresult export_cuGetExportTable(const void **ret, const CUuuid *id)
{
	static bool said;

	if (!ret || !id)
		return CUDA_ERROR_INVALID_VALUE;
	if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		fprintf(stderr,
			"software GPU: this program uses the CUDA runtime, which needs "
			"cuGetExportTable, a part of NVIDIA's driver without "
			"documentation: only programs of the CUDA driver API run here\n");
	return CUDA_ERROR_NOT_FOUND;
}
