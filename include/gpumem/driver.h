/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver calls that gpumem knows: a row for each call.
 *
 * A row is X(SYMBOL, TYPE, NEED):
 *
 *   SYMBOL  the exact name exported by libcuda.so.1
 *   TYPE    the type in cudaTypedefs.h; its version suffix is the version of the
 *           toolkit that introduced this signature
 *   NEED    REQUIRED: a driver without the symbol is refused when opened;
 *           OPTIONAL: without the symbol a call gives CUDA_ERROR_NOT_SUPPORTED
 *
 * The rows make the broker's function table and its loader (broker/cuda), the exports of
 * the software GPU (tools/softgpu) and the tracer's attach list (bpf).
 *
 * cuda.h renames most calls by macro (cuMemAlloc to cuMemAlloc_v2), and newer versions
 * also names listed here (cuEventElapsedTime to cuEventElapsedTime_v2). So an X must use
 * SYMBOL only as an operand of # or ##, which prevents expansion, and must not pass
 * SYMBOL on to another macro.
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
	X(cuInit, PFN_cuInit_v2000, REQUIRED) \
	X(cuDriverGetVersion, PFN_cuDriverGetVersion_v2020, REQUIRED) \
	X(cuGetErrorName, PFN_cuGetErrorName_v6000, REQUIRED) \
	X(cuGetErrorString, PFN_cuGetErrorString_v6000, REQUIRED) \
	X(cuDeviceGet, PFN_cuDeviceGet_v2000, REQUIRED) \
	X(cuDeviceGetCount, PFN_cuDeviceGetCount_v2000, REQUIRED) \
	X(cuDeviceGetName, PFN_cuDeviceGetName_v2000, REQUIRED) \
	X(cuDeviceGetUuid_v2, PFN_cuDeviceGetUuid_v11040, REQUIRED) \
	X(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000, REQUIRED) \
	X(cuDeviceTotalMem_v2, PFN_cuDeviceTotalMem_v3020, REQUIRED) \
	X(cuDeviceGetPCIBusId, PFN_cuDeviceGetPCIBusId_v4010, REQUIRED) \
	X(cuDeviceCanAccessPeer, PFN_cuDeviceCanAccessPeer_v4000, REQUIRED) \
	X(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000, REQUIRED) \
	X(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000, REQUIRED) \
	X(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000, REQUIRED) \
	X(cuDevicePrimaryCtxGetState, PFN_cuDevicePrimaryCtxGetState_v7000, REQUIRED) \
	X(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000, REQUIRED) \
	X(cuCtxGetCurrent, PFN_cuCtxGetCurrent_v4000, REQUIRED) \
	X(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000, REQUIRED) \
	X(cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000, REQUIRED) \
	X(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000, REQUIRED) \
	X(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000, REQUIRED) \
	X(cuCtxEnablePeerAccess, PFN_cuCtxEnablePeerAccess_v4000, REQUIRED) \
	X(cuCtxDisablePeerAccess, PFN_cuCtxDisablePeerAccess_v4000, REQUIRED) \
	X(cuCtxGetStreamPriorityRange, PFN_cuCtxGetStreamPriorityRange_v5050, REQUIRED) \
	X(cuLogsRegisterCallback, PFN_cuLogsRegisterCallback_v12090, OPTIONAL)

/* Streams and events. */
#define CUDA_DRIVER_LIST_STREAM(X) \
	X(cuStreamCreate, PFN_cuStreamCreate_v2000, REQUIRED) \
	X(cuStreamCreateWithPriority, PFN_cuStreamCreateWithPriority_v5050, REQUIRED) \
	X(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000, REQUIRED) \
	X(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000, REQUIRED) \
	X(cuStreamQuery, PFN_cuStreamQuery_v2000, REQUIRED) \
	X(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020, REQUIRED) \
	X(cuStreamGetPriority, PFN_cuStreamGetPriority_v5050, REQUIRED) \
	X(cuLaunchHostFunc, PFN_cuLaunchHostFunc_v10000, REQUIRED) \
	X(cuEventCreate, PFN_cuEventCreate_v2000, REQUIRED) \
	X(cuEventRecord, PFN_cuEventRecord_v2000, REQUIRED) \
	X(cuEventQuery, PFN_cuEventQuery_v2000, REQUIRED) \
	X(cuEventSynchronize, PFN_cuEventSynchronize_v2000, REQUIRED) \
	X(cuEventDestroy_v2, PFN_cuEventDestroy_v4000, REQUIRED) \
	X(cuEventElapsedTime, PFN_cuEventElapsedTime_v2000, REQUIRED)

/* Device memory, pools, host memory, attributes of pointers. */
#define CUDA_DRIVER_LIST_MEMORY(X) \
	X(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020, REQUIRED) \
	X(cuMemAlloc_v2, PFN_cuMemAlloc_v3020, REQUIRED) \
	X(cuMemFree_v2, PFN_cuMemFree_v3020, REQUIRED) \
	X(cuMemGetAddressRange_v2, PFN_cuMemGetAddressRange_v3020, REQUIRED) \
	X(cuMemAllocAsync, PFN_cuMemAllocAsync_v11020, OPTIONAL) \
	X(cuMemFreeAsync, PFN_cuMemFreeAsync_v11020, OPTIONAL) \
	X(cuMemAllocFromPoolAsync, PFN_cuMemAllocFromPoolAsync_v11020, OPTIONAL) \
	X(cuDeviceGetDefaultMemPool, PFN_cuDeviceGetDefaultMemPool_v11020, OPTIONAL) \
	X(cuDeviceGetMemPool, PFN_cuDeviceGetMemPool_v11020, OPTIONAL) \
	X(cuMemPoolCreate, PFN_cuMemPoolCreate_v11020, OPTIONAL) \
	X(cuMemPoolDestroy, PFN_cuMemPoolDestroy_v11020, OPTIONAL) \
	X(cuMemPoolSetAttribute, PFN_cuMemPoolSetAttribute_v11020, OPTIONAL) \
	X(cuMemPoolGetAttribute, PFN_cuMemPoolGetAttribute_v11020, OPTIONAL) \
	X(cuMemPoolTrimTo, PFN_cuMemPoolTrimTo_v11020, OPTIONAL) \
	X(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020, REQUIRED) \
	X(cuMemFreeHost, PFN_cuMemFreeHost_v2000, REQUIRED) \
	X(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050, REQUIRED) \
	X(cuMemHostUnregister, PFN_cuMemHostUnregister_v4000, REQUIRED) \
	X(cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020, REQUIRED) \
	X(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000, REQUIRED)

/* Copies and fills. */
#define CUDA_DRIVER_LIST_COPY(X) \
	X(cuMemcpy, PFN_cuMemcpy_v4000, REQUIRED) \
	X(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020, REQUIRED) \
	X(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020, REQUIRED) \
	X(cuMemcpyDtoD_v2, PFN_cuMemcpyDtoD_v3020, REQUIRED) \
	X(cuMemcpyPeer, PFN_cuMemcpyPeer_v4000, REQUIRED) \
	X(cuMemcpyAsync, PFN_cuMemcpyAsync_v4000, REQUIRED) \
	X(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020, REQUIRED) \
	X(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020, REQUIRED) \
	X(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020, REQUIRED) \
	X(cuMemcpyPeerAsync, PFN_cuMemcpyPeerAsync_v4000, REQUIRED) \
	X(cuMemsetD8_v2, PFN_cuMemsetD8_v3020, REQUIRED) \
	X(cuMemsetD16_v2, PFN_cuMemsetD16_v3020, REQUIRED) \
	X(cuMemsetD32_v2, PFN_cuMemsetD32_v3020, REQUIRED) \
	X(cuMemsetD2D8_v2, PFN_cuMemsetD2D8_v3020, REQUIRED) \
	X(cuMemsetD2D16_v2, PFN_cuMemsetD2D16_v3020, REQUIRED) \
	X(cuMemsetD2D32_v2, PFN_cuMemsetD2D32_v3020, REQUIRED) \
	X(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020, REQUIRED) \
	X(cuMemsetD16Async, PFN_cuMemsetD16Async_v3020, REQUIRED) \
	X(cuMemsetD32Async, PFN_cuMemsetD32Async_v3020, REQUIRED) \
	X(cuMemsetD2D8Async, PFN_cuMemsetD2D8Async_v3020, REQUIRED) \
	X(cuMemsetD2D16Async, PFN_cuMemsetD2D16Async_v3020, REQUIRED) \
	X(cuMemsetD2D32Async, PFN_cuMemsetD2D32Async_v3020, REQUIRED)

/* Virtual memory management: addresses separate from physical memory. */
#define CUDA_DRIVER_LIST_VIRTUAL(X) \
	X(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020, REQUIRED) \
	X(cuMemAddressFree, PFN_cuMemAddressFree_v10020, REQUIRED) \
	X(cuMemCreate, PFN_cuMemCreate_v10020, REQUIRED) \
	X(cuMemRelease, PFN_cuMemRelease_v10020, REQUIRED) \
	X(cuMemMap, PFN_cuMemMap_v10020, REQUIRED) \
	X(cuMemUnmap, PFN_cuMemUnmap_v10020, REQUIRED) \
	X(cuMemSetAccess, PFN_cuMemSetAccess_v10020, REQUIRED) \
	X(cuMemGetAccess, PFN_cuMemGetAccess_v10020, REQUIRED) \
	X(cuMemExportToShareableHandle, \
	  PFN_cuMemExportToShareableHandle_v10020, REQUIRED) \
	X(cuMemImportFromShareableHandle, \
	  PFN_cuMemImportFromShareableHandle_v10020, REQUIRED) \
	X(cuMemRetainAllocationHandle, PFN_cuMemRetainAllocationHandle_v11000, REQUIRED) \
	X(cuMemGetAllocationGranularity, \
	  PFN_cuMemGetAllocationGranularity_v10020, REQUIRED) \
	X(cuMemGetAllocationPropertiesFromHandle, \
	  PFN_cuMemGetAllocationPropertiesFromHandle_v10020, REQUIRED)

/* Modules, their functions and variables. */
#define CUDA_DRIVER_LIST_MODULE(X) \
	X(cuModuleLoadDataEx, PFN_cuModuleLoadDataEx_v2010, REQUIRED) \
	X(cuModuleUnload, PFN_cuModuleUnload_v2000, REQUIRED) \
	X(cuModuleGetFunction, PFN_cuModuleGetFunction_v2000, REQUIRED) \
	X(cuModuleGetGlobal_v2, PFN_cuModuleGetGlobal_v3020, REQUIRED) \
	X(cuModuleGetFunctionCount, PFN_cuModuleGetFunctionCount_v12040, OPTIONAL) \
	X(cuModuleEnumerateFunctions, PFN_cuModuleEnumerateFunctions_v12040, OPTIONAL) \
	X(cuFuncGetName, PFN_cuFuncGetName_v12030, OPTIONAL) \
	X(cuFuncGetParamInfo, PFN_cuFuncGetParamInfo_v12040, OPTIONAL) \
	X(cuFuncGetModule, PFN_cuFuncGetModule_v11000, REQUIRED) \
	X(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020, REQUIRED) \
	X(cuFuncSetAttribute, PFN_cuFuncSetAttribute_v9000, REQUIRED)

/* Launches, occupancy, and limits of contexts. */
#define CUDA_DRIVER_LIST_LAUNCH(X) \
	X(cuLaunchKernel, PFN_cuLaunchKernel_v4000, REQUIRED) \
	X(cuLaunchKernelEx, PFN_cuLaunchKernelEx_v11060, OPTIONAL) \
	X(cuLaunchCooperativeKernel, PFN_cuLaunchCooperativeKernel_v9000, REQUIRED) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, \
	  PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050, REQUIRED) \
	X(cuOccupancyMaxPotentialBlockSize, \
	  PFN_cuOccupancyMaxPotentialBlockSize_v6050, REQUIRED) \
	X(cuOccupancyAvailableDynamicSMemPerBlock, \
	  PFN_cuOccupancyAvailableDynamicSMemPerBlock_v10020, OPTIONAL) \
	X(cuCtxSetLimit, PFN_cuCtxSetLimit_v3010, REQUIRED) \
	X(cuCtxGetLimit, PFN_cuCtxGetLimit_v3010, REQUIRED)

/* Managed memory: allocation, attachment, prefetch, advice, and attributes of ranges. */
#define CUDA_DRIVER_LIST_MANAGED(X) \
	X(cuMemAllocManaged, PFN_cuMemAllocManaged_v6000, REQUIRED) \
	X(cuStreamAttachMemAsync, PFN_cuStreamAttachMemAsync_v6000, REQUIRED) \
	X(cuMemPrefetchAsync, PFN_cuMemPrefetchAsync_v8000, REQUIRED) \
	X(cuMemPrefetchAsync_v2, PFN_cuMemPrefetchAsync_v12020, OPTIONAL) \
	X(cuMemAdvise, PFN_cuMemAdvise_v8000, REQUIRED) \
	X(cuMemAdvise_v2, PFN_cuMemAdvise_v12020, OPTIONAL) \
	X(cuMemRangeGetAttribute, PFN_cuMemRangeGetAttribute_v8000, REQUIRED) \
	X(cuMemRangeGetAttributes, PFN_cuMemRangeGetAttributes_v8000, REQUIRED)

/* clang-format on */

/* The oldest driver supported: CUDA 12.2. */
#define CUDA_DRIVER_OLDEST 12020
