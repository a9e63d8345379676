/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver calls that gpumem knows: a row for each call.
 *
 * A row is X(SYMBOL, VERSION, NEED, PARAMETERS):
 *
 *   SYMBOL      the exact name exported by libcuda.so.1
 *   VERSION     the version of CUDA that introduced this signature: 11020 is 11.2
 *   NEED        REQUIRED: a driver without the symbol is refused when opened;
 *               OPTIONAL: without the symbol a call gives CUDA_ERROR_NOT_SUPPORTED
 *   PARAMETERS  their types, to be declared before: by gpumem/cuda.h, or by a toolkit's
 *               cuda.h; every call returns a CUresult
 *
 * The rows make the broker's function table and its loader (broker/cuda), the exports of
 * the software GPU (tools/softgpu) and the tracer's attach list (bpf). The test
 * unit/cuda/toolkit compares them with a toolkit's.
 *
 * A toolkit's cuda.h renames most calls by macro, among them some listed here
 * (cuEventElapsedTime to cuEventElapsedTime_v2). Beside that header an X must use SYMBOL
 * only as an operand of # or ##, which prevents expansion.
 */
#pragma once

#define CUDA_DRIVER_LIST(X)                                                              \
	CUDA_DRIVER_LIST_DEVICE(X)                                                       \
	CUDA_DRIVER_LIST_STREAM(X)                                                       \
	CUDA_DRIVER_LIST_MEMORY(X)                                                       \
	CUDA_DRIVER_LIST_COPY(X)                                                         \
	CUDA_DRIVER_LIST_VIRTUAL(X)                                                      \
	CUDA_DRIVER_LIST_MODULE(X)                                                       \
	CUDA_DRIVER_LIST_LAUNCH(X)                                                       \
	CUDA_DRIVER_LIST_MANAGED(X)

/* clang-format off */

/* The driver, devices, contexts. */
#define CUDA_DRIVER_LIST_DEVICE(X) \
	X(cuInit, 2000, REQUIRED, (unsigned int)) \
	X(cuDriverGetVersion, 2020, REQUIRED, (int *)) \
	X(cuGetErrorName, 6000, REQUIRED, (CUresult, const char **)) \
	X(cuGetErrorString, 6000, REQUIRED, (CUresult, const char **)) \
	X(cuDeviceGet, 2000, REQUIRED, (CUdevice *, int)) \
	X(cuDeviceGetCount, 2000, REQUIRED, (int *)) \
	X(cuDeviceGetName, 2000, REQUIRED, (char *, int, CUdevice)) \
	X(cuDeviceGetUuid_v2, 11040, REQUIRED, (CUuuid *, CUdevice)) \
	X(cuDeviceGetAttribute, 2000, REQUIRED, (int *, CUdevice_attribute, CUdevice)) \
	X(cuDeviceTotalMem_v2, 3020, REQUIRED, (size_t *, CUdevice)) \
	X(cuDeviceGetPCIBusId, 4010, REQUIRED, (char *, int, CUdevice)) \
	X(cuDeviceCanAccessPeer, 4000, REQUIRED, (int *, CUdevice, CUdevice)) \
	X(cuDevicePrimaryCtxRetain, 7000, REQUIRED, (CUcontext *, CUdevice)) \
	X(cuDevicePrimaryCtxRelease_v2, 11000, REQUIRED, (CUdevice)) \
	X(cuDevicePrimaryCtxReset_v2, 11000, REQUIRED, (CUdevice)) \
	X(cuDevicePrimaryCtxGetState, 7000, REQUIRED, (CUdevice, unsigned int *, int *)) \
	X(cuCtxSetCurrent, 4000, REQUIRED, (CUcontext)) \
	X(cuCtxGetCurrent, 4000, REQUIRED, (CUcontext *)) \
	X(cuCtxPushCurrent_v2, 4000, REQUIRED, (CUcontext)) \
	X(cuCtxPopCurrent_v2, 4000, REQUIRED, (CUcontext *)) \
	X(cuCtxGetDevice, 2000, REQUIRED, (CUdevice *)) \
	X(cuCtxSynchronize, 2000, REQUIRED, (void)) \
	X(cuCtxEnablePeerAccess, 4000, REQUIRED, (CUcontext, unsigned int)) \
	X(cuCtxDisablePeerAccess, 4000, REQUIRED, (CUcontext)) \
	X(cuCtxGetStreamPriorityRange, 5050, REQUIRED, (int *, int *)) \
	X(cuLogsRegisterCallback, 12090, OPTIONAL, \
	  (CUlogsCallback, void *, CUlogsCallbackHandle *))

/* Streams and events. */
#define CUDA_DRIVER_LIST_STREAM(X) \
	X(cuStreamCreate, 2000, REQUIRED, (CUstream *, unsigned int)) \
	X(cuStreamCreateWithPriority, 5050, REQUIRED, (CUstream *, unsigned int, int)) \
	X(cuStreamDestroy_v2, 4000, REQUIRED, (CUstream)) \
	X(cuStreamSynchronize, 2000, REQUIRED, (CUstream)) \
	X(cuStreamQuery, 2000, REQUIRED, (CUstream)) \
	X(cuStreamWaitEvent, 3020, REQUIRED, (CUstream, CUevent, unsigned int)) \
	X(cuStreamGetPriority, 5050, REQUIRED, (CUstream, int *)) \
	X(cuLaunchHostFunc, 10000, REQUIRED, (CUstream, CUhostFn, void *)) \
	X(cuEventCreate, 2000, REQUIRED, (CUevent *, unsigned int)) \
	X(cuEventRecord, 2000, REQUIRED, (CUevent, CUstream)) \
	X(cuEventQuery, 2000, REQUIRED, (CUevent)) \
	X(cuEventSynchronize, 2000, REQUIRED, (CUevent)) \
	X(cuEventDestroy_v2, 4000, REQUIRED, (CUevent)) \
	X(cuEventElapsedTime, 2000, REQUIRED, (float *, CUevent, CUevent))

/* Device memory, pools, host memory, attributes of pointers. */
#define CUDA_DRIVER_LIST_MEMORY(X) \
	X(cuMemGetInfo_v2, 3020, REQUIRED, (size_t *, size_t *)) \
	X(cuMemAlloc_v2, 3020, REQUIRED, (CUdeviceptr *, size_t)) \
	X(cuMemFree_v2, 3020, REQUIRED, (CUdeviceptr)) \
	X(cuMemGetAddressRange_v2, 3020, REQUIRED, \
	  (CUdeviceptr *, size_t *, CUdeviceptr)) \
	X(cuMemAllocAsync, 11020, OPTIONAL, (CUdeviceptr *, size_t, CUstream)) \
	X(cuMemFreeAsync, 11020, OPTIONAL, (CUdeviceptr, CUstream)) \
	X(cuMemAllocFromPoolAsync, 11020, OPTIONAL, \
	  (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
	X(cuDeviceGetDefaultMemPool, 11020, OPTIONAL, (CUmemoryPool *, CUdevice)) \
	X(cuDeviceGetMemPool, 11020, OPTIONAL, (CUmemoryPool *, CUdevice)) \
	X(cuMemPoolCreate, 11020, OPTIONAL, (CUmemoryPool *, const CUmemPoolProps *)) \
	X(cuMemPoolDestroy, 11020, OPTIONAL, (CUmemoryPool)) \
	X(cuMemPoolSetAttribute, 11020, OPTIONAL, \
	  (CUmemoryPool, CUmemPool_attribute, void *)) \
	X(cuMemPoolGetAttribute, 11020, OPTIONAL, \
	  (CUmemoryPool, CUmemPool_attribute, void *)) \
	X(cuMemPoolTrimTo, 11020, OPTIONAL, (CUmemoryPool, size_t)) \
	X(cuMemHostAlloc, 2020, REQUIRED, (void **, size_t, unsigned int)) \
	X(cuMemFreeHost, 2000, REQUIRED, (void *)) \
	X(cuMemHostRegister_v2, 6050, REQUIRED, (void *, size_t, unsigned int)) \
	X(cuMemHostUnregister, 4000, REQUIRED, (void *)) \
	X(cuMemHostGetDevicePointer_v2, 3020, REQUIRED, \
	  (CUdeviceptr *, void *, unsigned int)) \
	X(cuPointerGetAttribute, 4000, REQUIRED, \
	  (void *, CUpointer_attribute, CUdeviceptr))

/* Copies and fills. */
#define CUDA_DRIVER_LIST_COPY(X) \
	X(cuMemcpy, 4000, REQUIRED, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemcpyHtoD_v2, 3020, REQUIRED, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyDtoH_v2, 3020, REQUIRED, (void *, CUdeviceptr, size_t)) \
	X(cuMemcpyDtoD_v2, 3020, REQUIRED, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemcpyPeer, 4000, REQUIRED, \
	  (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)) \
	X(cuMemcpyAsync, 4000, REQUIRED, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyHtoDAsync_v2, 3020, REQUIRED, \
	  (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync_v2, 3020, REQUIRED, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyDtoDAsync_v2, 3020, REQUIRED, \
	  (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyPeerAsync, 4000, REQUIRED, \
	  (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
	X(cuMemsetD8_v2, 3020, REQUIRED, (CUdeviceptr, unsigned char, size_t)) \
	X(cuMemsetD16_v2, 3020, REQUIRED, (CUdeviceptr, unsigned short, size_t)) \
	X(cuMemsetD32_v2, 3020, REQUIRED, (CUdeviceptr, unsigned int, size_t)) \
	X(cuMemsetD2D8_v2, 3020, REQUIRED, \
	  (CUdeviceptr, size_t, unsigned char, size_t, size_t)) \
	X(cuMemsetD2D16_v2, 3020, REQUIRED, \
	  (CUdeviceptr, size_t, unsigned short, size_t, size_t)) \
	X(cuMemsetD2D32_v2, 3020, REQUIRED, \
	  (CUdeviceptr, size_t, unsigned int, size_t, size_t)) \
	X(cuMemsetD8Async, 3020, REQUIRED, \
	  (CUdeviceptr, unsigned char, size_t, CUstream)) \
	X(cuMemsetD16Async, 3020, REQUIRED, \
	  (CUdeviceptr, unsigned short, size_t, CUstream)) \
	X(cuMemsetD32Async, 3020, REQUIRED, \
	  (CUdeviceptr, unsigned int, size_t, CUstream)) \
	X(cuMemsetD2D8Async, 3020, REQUIRED, \
	  (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream)) \
	X(cuMemsetD2D16Async, 3020, REQUIRED, \
	  (CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream)) \
	X(cuMemsetD2D32Async, 3020, REQUIRED, \
	  (CUdeviceptr, size_t, unsigned int, size_t, size_t, CUstream))

/* Virtual memory management: addresses separate from physical memory. */
#define CUDA_DRIVER_LIST_VIRTUAL(X) \
	X(cuMemAddressReserve, 10020, REQUIRED, \
	  (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
	X(cuMemAddressFree, 10020, REQUIRED, (CUdeviceptr, size_t)) \
	X(cuMemCreate, 10020, REQUIRED, \
	  (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, \
	   unsigned long long)) \
	X(cuMemRelease, 10020, REQUIRED, (CUmemGenericAllocationHandle)) \
	X(cuMemMap, 10020, REQUIRED, \
	  (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, \
	   unsigned long long)) \
	X(cuMemUnmap, 10020, REQUIRED, (CUdeviceptr, size_t)) \
	X(cuMemSetAccess, 10020, REQUIRED, \
	  (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)) \
	X(cuMemGetAccess, 10020, REQUIRED, \
	  (unsigned long long *, const CUmemLocation *, CUdeviceptr)) \
	X(cuMemExportToShareableHandle, 10020, REQUIRED, \
	  (void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, \
	   unsigned long long)) \
	X(cuMemImportFromShareableHandle, 10020, REQUIRED, \
	  (CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType)) \
	X(cuMemRetainAllocationHandle, 11000, REQUIRED, \
	  (CUmemGenericAllocationHandle *, void *)) \
	X(cuMemGetAllocationGranularity, 10020, REQUIRED, \
	  (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)) \
	X(cuMemGetAllocationPropertiesFromHandle, 10020, REQUIRED, \
	  (CUmemAllocationProp *, CUmemGenericAllocationHandle))

/* Modules, their functions and variables. */
#define CUDA_DRIVER_LIST_MODULE(X) \
	X(cuModuleLoadDataEx, 2010, REQUIRED, \
	  (CUmodule *, const void *, unsigned int, CUjit_option *, void **)) \
	X(cuModuleUnload, 2000, REQUIRED, (CUmodule)) \
	X(cuModuleGetFunction, 2000, REQUIRED, (CUfunction *, CUmodule, const char *)) \
	X(cuModuleGetGlobal_v2, 3020, REQUIRED, \
	  (CUdeviceptr *, size_t *, CUmodule, const char *)) \
	X(cuModuleGetFunctionCount, 12040, OPTIONAL, (unsigned int *, CUmodule)) \
	X(cuModuleEnumerateFunctions, 12040, OPTIONAL, \
	  (CUfunction *, unsigned int, CUmodule)) \
	X(cuFuncGetName, 12030, OPTIONAL, (const char **, CUfunction)) \
	X(cuFuncGetParamInfo, 12040, OPTIONAL, (CUfunction, size_t, size_t *, size_t *)) \
	X(cuFuncGetModule, 11000, REQUIRED, (CUmodule *, CUfunction)) \
	X(cuFuncGetAttribute, 2020, REQUIRED, (int *, CUfunction_attribute, CUfunction)) \
	X(cuFuncSetAttribute, 9000, REQUIRED, (CUfunction, CUfunction_attribute, int))

/* Launches, occupancy, and limits of contexts. */
#define CUDA_DRIVER_LIST_LAUNCH(X) \
	X(cuLaunchKernel, 4000, REQUIRED, \
	  (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, \
	   unsigned int, unsigned int, unsigned int, CUstream, void **, void **)) \
	X(cuLaunchKernelEx, 11060, OPTIONAL, \
	  (const CUlaunchConfig *, CUfunction, void **, void **)) \
	X(cuLaunchCooperativeKernel, 9000, REQUIRED, \
	  (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, \
	   unsigned int, unsigned int, unsigned int, CUstream, void **)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, REQUIRED, \
	  (int *, CUfunction, int, size_t)) \
	X(cuOccupancyMaxPotentialBlockSize, 6050, REQUIRED, \
	  (int *, int *, CUfunction, CUoccupancyB2DSize, size_t, int)) \
	X(cuOccupancyAvailableDynamicSMemPerBlock, 10020, OPTIONAL, \
	  (size_t *, CUfunction, int, int)) \
	X(cuCtxSetLimit, 3010, REQUIRED, (CUlimit, size_t)) \
	X(cuCtxGetLimit, 3010, REQUIRED, (size_t *, CUlimit))

/* Managed memory: allocation, attachment, prefetch, advice, and attributes of ranges. */
#define CUDA_DRIVER_LIST_MANAGED(X) \
	X(cuMemAllocManaged, 6000, REQUIRED, (CUdeviceptr *, size_t, unsigned int)) \
	X(cuStreamAttachMemAsync, 6000, REQUIRED, \
	  (CUstream, CUdeviceptr, size_t, unsigned int)) \
	X(cuMemPrefetchAsync, 8000, REQUIRED, (CUdeviceptr, size_t, CUdevice, CUstream)) \
	X(cuMemPrefetchAsync_v2, 12020, OPTIONAL, \
	  (CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream)) \
	X(cuMemAdvise, 8000, REQUIRED, (CUdeviceptr, size_t, CUmem_advise, CUdevice)) \
	X(cuMemAdvise_v2, 12020, OPTIONAL, \
	  (CUdeviceptr, size_t, CUmem_advise, CUmemLocation)) \
	X(cuMemRangeGetAttribute, 8000, REQUIRED, \
	  (void *, size_t, CUmem_range_attribute, CUdeviceptr, size_t)) \
	X(cuMemRangeGetAttributes, 8000, REQUIRED, \
	  (void **, size_t *, CUmem_range_attribute *, size_t, CUdeviceptr, size_t))

/*
 * How a program finds the other calls, and tables of the driver without documentation.
 * Only the software GPU has these; the broker uses dlsym.
 */
#define CUDA_DRIVER_LIST_PROC(X) \
	X(cuGetProcAddress, 11030, OPTIONAL, (const char *, void **, int, uint64_t)) \
	X(cuGetProcAddress_v2, 12000, OPTIONAL, \
	  (const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *)) \
	X(cuGetExportTable, 3000, OPTIONAL, (const void **, const CUuuid *))

/* clang-format on */

/* The oldest driver supported: CUDA 12.2. */
#define CUDA_DRIVER_OLDEST 12020
