/* SPDX-License-Identifier: MIT */
/*
 * The calls known to gpumem-trace. A row of a call makes the attach list, the decoder,
 * the names, --list and the table in docs/tracing.md.
 *
 * A row is X(SYMBOL, TYPE, GROUP, OP, MEMORY, PARAMETERS):
 *
 *   SYMBOL      exactly as libcuda.so.1 exports it
 *   TYPE        the type in a toolkit's cudaTypedefs.h, or UNTYPED: those of before CUDA 4,
 *               and those younger than 12.4 (checked by unit/cuda/toolkit)
 *   GROUP       of --groups
 *   OP          the effect on the ledger (enum op)
 *   MEMORY      the kind to book (enum memory)
 *   PARAMETERS  TYPE:NAME in their order, up to the last one of interest, names CUDA's
 *
 * Types of parameters (call.c):
 *
 *   out out4 outfd pitch   points to a result: of 8 or 4 bytes, a descriptor, the pitch
 *   ptr ptr4        an address, a handle, a stream
 *   function        a CUfunction or CUkernel
 *   size size4      bytes; elem2 and elem4: elements of this size; times: multiplies it
 *   int uint hex    numbers of 4 bytes; count: of 8
 *   device location advice prot handletype                words of CUDA's header
 *   text            a string
 *   extent2 extent3 a CUDA_MEMCPY2D or CUDA_MEMCPY3D
 *   -               nothing of interest
 *
 * LAUNCH_CONFIG reads a CUlaunchConfig into parameters as cuLaunchKernel has them,
 * SET_ACCESS the first CUmemAccessDesc into the location and one parameter more.
 *
 * Symbols of both versions of a call stand here where a driver has both; the parameters
 * of prefetch and advice differ between them.
 */
#pragma once

/* clang-format off */

#define TRACE_CALLS(X) \
	TRACE_CALLS_MEMORY(X) \
	TRACE_CALLS_MANAGED(X) \
	TRACE_CALLS_POOL(X) \
	TRACE_CALLS_VMM(X) \
	TRACE_CALLS_COPY(X) \
	TRACE_CALLS_MODULE(X) \
	TRACE_CALLS_LAUNCH(X) \
	TRACE_CALLS_CONTEXT(X)

#define TRACE_CALLS_MEMORY(X) \
	X(cuMemAlloc, UNTYPED, MEM, ALLOC, DEVICE, \
	  "out4:dptr size4:bytesize") \
	X(cuMemAlloc_v2, PFN_cuMemAlloc_v3020, MEM, ALLOC, DEVICE, \
	  "out:dptr size:bytesize") \
	X(cuMemAllocPitch_v2, PFN_cuMemAllocPitch_v3020, MEM, ALLOC, DEVICE, \
	  "out:dptr pitch:pPitch size:WidthInBytes times:Height uint:ElementSizeBytes") \
	X(cuMemFree, UNTYPED, MEM, FREE, DEVICE, "ptr4:dptr") \
	X(cuMemFree_v2, PFN_cuMemFree_v3020, MEM, FREE, DEVICE, "ptr:dptr") \
	X(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020, MEM, ALLOC, PINNED, \
	  "out:pp size:bytesize hex:Flags") \
	X(cuMemAllocHost, UNTYPED, MEM, ALLOC, PINNED, \
	  "out:pp size4:bytesize") \
	X(cuMemAllocHost_v2, PFN_cuMemAllocHost_v3020, MEM, ALLOC, PINNED, \
	  "out:pp size:bytesize") \
	X(cuMemFreeHost, PFN_cuMemFreeHost_v2000, MEM, FREE, PINNED, "ptr:p") \
	X(cuMemHostRegister, UNTYPED, MEM, REGISTER, REGISTERED, \
	  "ptr:p size:bytesize hex:Flags") \
	X(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050, MEM, REGISTER, REGISTERED, \
	  "ptr:p size:bytesize hex:Flags") \
	X(cuMemHostUnregister, PFN_cuMemHostUnregister_v4000, MEM, FREE, REGISTERED, \
	  "ptr:p") \
	X(cuIpcGetMemHandle, PFN_cuIpcGetMemHandle_v4010, MEM, NONE, NONE, \
	  "-:pHandle ptr:dptr") \
	X(cuIpcOpenMemHandle, UNTYPED, MEM, ALLOC, IMPORTED, \
	  "out:pdptr hex:Flags") \
	X(cuIpcOpenMemHandle_v2, PFN_cuIpcOpenMemHandle_v11000, MEM, ALLOC, IMPORTED, \
	  "out:pdptr hex:Flags") \
	X(cuIpcCloseMemHandle, PFN_cuIpcCloseMemHandle_v4010, MEM, FREE, IMPORTED, \
	  "ptr:dptr")

#define TRACE_CALLS_MANAGED(X) \
	X(cuMemAllocManaged, PFN_cuMemAllocManaged_v6000, MANAGED, ALLOC, MANAGED, \
	  "out:dptr size:bytesize hex:flags") \
	X(cuMemPrefetchAsync, PFN_cuMemPrefetchAsync_v8000, MANAGED, NONE, NONE, \
	  "ptr:devPtr size:count device:dstDevice ptr:hStream") \
	X(cuMemPrefetchAsync_ptsz, PFN_cuMemPrefetchAsync_v8000_ptsz, MANAGED, NONE, NONE, \
	  "ptr:devPtr size:count device:dstDevice ptr:hStream") \
	X(cuMemPrefetchAsync_v2, PFN_cuMemPrefetchAsync_v12020, MANAGED, NONE, NONE, \
	  "ptr:devPtr size:count location:location hex:flags ptr:hStream") \
	X(cuMemPrefetchAsync_v2_ptsz, PFN_cuMemPrefetchAsync_v12020_ptsz, MANAGED, NONE, \
	  NONE, "ptr:devPtr size:count location:location hex:flags ptr:hStream") \
	X(cuMemAdvise, PFN_cuMemAdvise_v8000, MANAGED, NONE, NONE, \
	  "ptr:devPtr size:count advice:advice device:device") \
	X(cuMemAdvise_v2, PFN_cuMemAdvise_v12020, MANAGED, NONE, NONE, \
	  "ptr:devPtr size:count advice:advice location:location") \
	X(cuStreamAttachMemAsync, PFN_cuStreamAttachMemAsync_v6000, MANAGED, NONE, NONE, \
	  "ptr:hStream ptr:dptr size:length hex:flags") \
	X(cuStreamAttachMemAsync_ptsz, PFN_cuStreamAttachMemAsync_v7000_ptsz, MANAGED, \
	  NONE, NONE, "ptr:hStream ptr:dptr size:length hex:flags")

#define TRACE_CALLS_POOL(X) \
	X(cuMemAllocAsync, PFN_cuMemAllocAsync_v11020, POOL, ALLOC, POOL, \
	  "out:dptr size:bytesize ptr:hStream") \
	X(cuMemAllocAsync_ptsz, PFN_cuMemAllocAsync_v11020_ptsz, POOL, ALLOC, POOL, \
	  "out:dptr size:bytesize ptr:hStream") \
	X(cuMemAllocFromPoolAsync, PFN_cuMemAllocFromPoolAsync_v11020, POOL, ALLOC, POOL, \
	  "out:dptr size:bytesize ptr:pool ptr:hStream") \
	X(cuMemAllocFromPoolAsync_ptsz, PFN_cuMemAllocFromPoolAsync_v11020_ptsz, POOL, \
	  ALLOC, POOL, "out:dptr size:bytesize ptr:pool ptr:hStream") \
	X(cuMemFreeAsync, PFN_cuMemFreeAsync_v11020, POOL, FREE, POOL, \
	  "ptr:dptr ptr:hStream") \
	X(cuMemFreeAsync_ptsz, PFN_cuMemFreeAsync_v11020_ptsz, POOL, FREE, POOL, \
	  "ptr:dptr ptr:hStream") \
	X(cuMemPoolCreate, PFN_cuMemPoolCreate_v11020, POOL, NONE, NONE, "out:pool") \
	X(cuMemPoolDestroy, PFN_cuMemPoolDestroy_v11020, POOL, NONE, NONE, "ptr:pool") \
	X(cuMemPoolTrimTo, PFN_cuMemPoolTrimTo_v11020, POOL, NONE, NONE, \
	  "ptr:pool size:minBytesToKeep")

#define TRACE_CALLS_VMM(X) \
	X(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020, VMM, ALLOC, RESERVED, \
	  "out:ptr size:size count:alignment ptr:addr hex:flags") \
	X(cuMemAddressFree, PFN_cuMemAddressFree_v10020, VMM, FREE, RESERVED, \
	  "ptr:ptr size:size") \
	X(cuMemCreate, PFN_cuMemCreate_v10020, VMM, CREATE, VMM, \
	  "out:handle size:size -:prop hex:flags") \
	X(cuMemRelease, PFN_cuMemRelease_v10020, VMM, RELEASE, VMM, "ptr:handle") \
	X(cuMemRetainAllocationHandle, PFN_cuMemRetainAllocationHandle_v11000, VMM, RETAIN, \
	  VMM, "out:handle ptr:addr") \
	X(cuMemMap, PFN_cuMemMap_v10020, VMM, MAP, NONE, \
	  "ptr:ptr size:size count:offset ptr:handle hex:flags") \
	X(cuMemUnmap, PFN_cuMemUnmap_v10020, VMM, UNMAP, NONE, "ptr:ptr size:size") \
	X(cuMemSetAccess, PFN_cuMemSetAccess_v10020, VMM, SET_ACCESS, NONE, \
	  "ptr:ptr size:size location:location count:count prot:flags") \
	X(cuMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020, VMM, NONE, \
	  NONE, "outfd:shareableHandle ptr:handle handletype:handleType hex:flags") \
	X(cuMemImportFromShareableHandle, PFN_cuMemImportFromShareableHandle_v10020, VMM, \
	  IMPORT, IMPORTED, "out:handle ptr:osHandle handletype:shHandleType")

#define TRACE_CALLS_COPY(X) \
	X(cuMemcpy, PFN_cuMemcpy_v4000, COPY, NONE, NONE, "ptr:dst ptr:src size:ByteCount") \
	X(cuMemcpy_ptds, PFN_cuMemcpy_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dst ptr:src size:ByteCount") \
	X(cuMemcpyAsync, PFN_cuMemcpyAsync_v4000, COPY, NONE, NONE, \
	  "ptr:dst ptr:src size:ByteCount ptr:hStream") \
	X(cuMemcpyAsync_ptsz, PFN_cuMemcpyAsync_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dst ptr:src size:ByteCount ptr:hStream") \
	X(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcHost size:ByteCount") \
	X(cuMemcpyHtoD_v2_ptds, PFN_cuMemcpyHtoD_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcHost size:ByteCount") \
	X(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcHost size:ByteCount ptr:hStream") \
	X(cuMemcpyHtoDAsync_v2_ptsz, PFN_cuMemcpyHtoDAsync_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcHost size:ByteCount ptr:hStream") \
	X(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020, COPY, NONE, NONE, \
	  "ptr:dstHost ptr:srcDevice size:ByteCount") \
	X(cuMemcpyDtoH_v2_ptds, PFN_cuMemcpyDtoH_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstHost ptr:srcDevice size:ByteCount") \
	X(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020, COPY, NONE, NONE, \
	  "ptr:dstHost ptr:srcDevice size:ByteCount ptr:hStream") \
	X(cuMemcpyDtoHAsync_v2_ptsz, PFN_cuMemcpyDtoHAsync_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstHost ptr:srcDevice size:ByteCount ptr:hStream") \
	X(cuMemcpyDtoD_v2, PFN_cuMemcpyDtoD_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcDevice size:ByteCount") \
	X(cuMemcpyDtoD_v2_ptds, PFN_cuMemcpyDtoD_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcDevice size:ByteCount") \
	X(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcDevice size:ByteCount ptr:hStream") \
	X(cuMemcpyDtoDAsync_v2_ptsz, PFN_cuMemcpyDtoDAsync_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:srcDevice size:ByteCount ptr:hStream") \
	X(cuMemcpyPeer, PFN_cuMemcpyPeer_v4000, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:dstContext ptr:srcDevice ptr:srcContext size:ByteCount") \
	X(cuMemcpyPeer_ptds, PFN_cuMemcpyPeer_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:dstContext ptr:srcDevice ptr:srcContext size:ByteCount") \
	X(cuMemcpyPeerAsync, PFN_cuMemcpyPeerAsync_v4000, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:dstContext ptr:srcDevice ptr:srcContext size:ByteCount " \
	  "ptr:hStream") \
	X(cuMemcpyPeerAsync_ptsz, PFN_cuMemcpyPeerAsync_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice ptr:dstContext ptr:srcDevice ptr:srcContext size:ByteCount " \
	  "ptr:hStream") \
	X(cuMemcpy2D_v2, PFN_cuMemcpy2D_v3020, COPY, COPY_STRUCT, NONE, "extent2:pCopy") \
	X(cuMemcpy2D_v2_ptds, PFN_cuMemcpy2D_v7000_ptds, COPY, COPY_STRUCT, NONE, \
	  "extent2:pCopy") \
	X(cuMemcpy2DUnaligned_v2, PFN_cuMemcpy2DUnaligned_v3020, COPY, COPY_STRUCT, NONE, \
	  "extent2:pCopy") \
	X(cuMemcpy2DUnaligned_v2_ptds, PFN_cuMemcpy2DUnaligned_v7000_ptds, COPY, \
	  COPY_STRUCT, NONE, "extent2:pCopy") \
	X(cuMemcpy2DAsync_v2, PFN_cuMemcpy2DAsync_v3020, COPY, COPY_STRUCT, NONE, \
	  "extent2:pCopy ptr:hStream") \
	X(cuMemcpy2DAsync_v2_ptsz, PFN_cuMemcpy2DAsync_v7000_ptsz, COPY, COPY_STRUCT, NONE, \
	  "extent2:pCopy ptr:hStream") \
	X(cuMemcpy3D_v2, PFN_cuMemcpy3D_v3020, COPY, COPY_STRUCT, NONE, "extent3:pCopy") \
	X(cuMemcpy3D_v2_ptds, PFN_cuMemcpy3D_v7000_ptds, COPY, COPY_STRUCT, NONE, \
	  "extent3:pCopy") \
	X(cuMemcpy3DAsync_v2, PFN_cuMemcpy3DAsync_v3020, COPY, COPY_STRUCT, NONE, \
	  "extent3:pCopy ptr:hStream") \
	X(cuMemcpy3DAsync_v2_ptsz, PFN_cuMemcpy3DAsync_v7000_ptsz, COPY, COPY_STRUCT, NONE, \
	  "extent3:pCopy ptr:hStream") \
	X(cuMemsetD8_v2, PFN_cuMemsetD8_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:uc size:N") \
	X(cuMemsetD8_v2_ptds, PFN_cuMemsetD8_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:uc size:N") \
	X(cuMemsetD16_v2, PFN_cuMemsetD16_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:us elem2:N") \
	X(cuMemsetD16_v2_ptds, PFN_cuMemsetD16_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:us elem2:N") \
	X(cuMemsetD32_v2, PFN_cuMemsetD32_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:ui elem4:N") \
	X(cuMemsetD32_v2_ptds, PFN_cuMemsetD32_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:ui elem4:N") \
	X(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:uc size:N ptr:hStream") \
	X(cuMemsetD8Async_ptsz, PFN_cuMemsetD8Async_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:uc size:N ptr:hStream") \
	X(cuMemsetD16Async, PFN_cuMemsetD16Async_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:us elem2:N ptr:hStream") \
	X(cuMemsetD16Async_ptsz, PFN_cuMemsetD16Async_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:us elem2:N ptr:hStream") \
	X(cuMemsetD32Async, PFN_cuMemsetD32Async_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:ui elem4:N ptr:hStream") \
	X(cuMemsetD32Async_ptsz, PFN_cuMemsetD32Async_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice hex:ui elem4:N ptr:hStream") \
	X(cuMemsetD2D8_v2, PFN_cuMemsetD2D8_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:uc size:Width times:Height") \
	X(cuMemsetD2D8_v2_ptds, PFN_cuMemsetD2D8_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:uc size:Width times:Height") \
	X(cuMemsetD2D16_v2, PFN_cuMemsetD2D16_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:us elem2:Width times:Height") \
	X(cuMemsetD2D16_v2_ptds, PFN_cuMemsetD2D16_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:us elem2:Width times:Height") \
	X(cuMemsetD2D32_v2, PFN_cuMemsetD2D32_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:ui elem4:Width times:Height") \
	X(cuMemsetD2D32_v2_ptds, PFN_cuMemsetD2D32_v7000_ptds, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:ui elem4:Width times:Height") \
	X(cuMemsetD2D8Async, PFN_cuMemsetD2D8Async_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:uc size:Width times:Height ptr:hStream") \
	X(cuMemsetD2D8Async_ptsz, PFN_cuMemsetD2D8Async_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:uc size:Width times:Height ptr:hStream") \
	X(cuMemsetD2D16Async, PFN_cuMemsetD2D16Async_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:us elem2:Width times:Height ptr:hStream") \
	X(cuMemsetD2D16Async_ptsz, PFN_cuMemsetD2D16Async_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:us elem2:Width times:Height ptr:hStream") \
	X(cuMemsetD2D32Async, PFN_cuMemsetD2D32Async_v3020, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:ui elem4:Width times:Height ptr:hStream") \
	X(cuMemsetD2D32Async_ptsz, PFN_cuMemsetD2D32Async_v7000_ptsz, COPY, NONE, NONE, \
	  "ptr:dstDevice count:dstPitch hex:ui elem4:Width times:Height ptr:hStream")

#define TRACE_CALLS_MODULE(X) \
	X(cuModuleLoad, PFN_cuModuleLoad_v2000, MODULE, NONE, NONE, \
	  "out:module text:fname") \
	X(cuModuleLoadData, PFN_cuModuleLoadData_v2000, MODULE, NONE, NONE, \
	  "out:module ptr:image") \
	X(cuModuleLoadDataEx, PFN_cuModuleLoadDataEx_v2010, MODULE, NONE, NONE, \
	  "out:module ptr:image uint:numOptions") \
	X(cuModuleLoadFatBinary, PFN_cuModuleLoadFatBinary_v2000, MODULE, NONE, NONE, \
	  "out:module ptr:fatCubin") \
	X(cuModuleUnload, PFN_cuModuleUnload_v2000, MODULE, NONE, NONE, "ptr:hmod") \
	X(cuModuleGetFunction, PFN_cuModuleGetFunction_v2000, MODULE, NONE, NONE, \
	  "out:hfunc ptr:hmod text:name") \
	X(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000, MODULE, NONE, NONE, \
	  "out:library ptr:code") \
	X(cuLibraryLoadFromFile, PFN_cuLibraryLoadFromFile_v12000, MODULE, NONE, NONE, \
	  "out:library text:fileName") \
	X(cuLibraryUnload, PFN_cuLibraryUnload_v12000, MODULE, NONE, NONE, "ptr:library") \
	X(cuLibraryGetKernel, PFN_cuLibraryGetKernel_v12000, MODULE, NONE, NONE, \
	  "out:pKernel ptr:library text:name") \
	X(cuLibraryGetModule, PFN_cuLibraryGetModule_v12000, MODULE, NONE, NONE, \
	  "out:pMod ptr:library") \
	X(cuKernelGetFunction, PFN_cuKernelGetFunction_v12000, MODULE, NONE, NONE, \
	  "out:pFunc ptr:kernel") \
	X(cuLinkCreate_v2, PFN_cuLinkCreate_v6050, MODULE, NONE, NONE, "uint:numOptions") \
	X(cuLinkComplete, PFN_cuLinkComplete_v5050, MODULE, NONE, NONE, \
	  "ptr:state out:cubinOut out:sizeOut")

#define TRACE_CALLS_LAUNCH(X) \
	X(cuLaunchKernel, PFN_cuLaunchKernel_v4000, LAUNCH, NONE, NONE, \
	  "function:f uint:gridDimX uint:gridDimY uint:gridDimZ uint:blockDimX " \
	  "uint:blockDimY uint:blockDimZ uint:sharedMemBytes ptr:hStream") \
	X(cuLaunchKernel_ptsz, PFN_cuLaunchKernel_v7000_ptsz, LAUNCH, NONE, NONE, \
	  "function:f uint:gridDimX uint:gridDimY uint:gridDimZ uint:blockDimX " \
	  "uint:blockDimY uint:blockDimZ uint:sharedMemBytes ptr:hStream") \
	X(cuLaunchKernelEx, PFN_cuLaunchKernelEx_v11060, LAUNCH, LAUNCH_CONFIG, NONE, \
	  "function:f uint:gridDimX uint:gridDimY uint:gridDimZ uint:blockDimX " \
	  "uint:blockDimY uint:blockDimZ uint:sharedMemBytes ptr:hStream") \
	X(cuLaunchKernelEx_ptsz, PFN_cuLaunchKernelEx_v11060_ptsz, LAUNCH, LAUNCH_CONFIG, \
	  NONE, "function:f uint:gridDimX uint:gridDimY uint:gridDimZ uint:blockDimX " \
	  "uint:blockDimY uint:blockDimZ uint:sharedMemBytes ptr:hStream") \
	X(cuLaunchCooperativeKernel, PFN_cuLaunchCooperativeKernel_v9000, LAUNCH, NONE, \
	  NONE, "function:f uint:gridDimX uint:gridDimY uint:gridDimZ uint:blockDimX " \
	  "uint:blockDimY uint:blockDimZ uint:sharedMemBytes ptr:hStream") \
	X(cuLaunchCooperativeKernel_ptsz, PFN_cuLaunchCooperativeKernel_v9000_ptsz, LAUNCH, \
	  NONE, NONE, "function:f uint:gridDimX uint:gridDimY uint:gridDimZ " \
	  "uint:blockDimX uint:blockDimY uint:blockDimZ uint:sharedMemBytes ptr:hStream") \
	X(cuLaunchHostFunc, PFN_cuLaunchHostFunc_v10000, LAUNCH, NONE, NONE, \
	  "ptr:hStream ptr:fn ptr:userData") \
	X(cuLaunchHostFunc_ptsz, PFN_cuLaunchHostFunc_v10000_ptsz, LAUNCH, NONE, NONE, \
	  "ptr:hStream ptr:fn ptr:userData") \
	X(cuGraphLaunch, PFN_cuGraphLaunch_v10000, LAUNCH, NONE, NONE, \
	  "ptr:hGraphExec ptr:hStream") \
	X(cuGraphLaunch_ptsz, PFN_cuGraphLaunch_v10000_ptsz, LAUNCH, NONE, NONE, \
	  "ptr:hGraphExec ptr:hStream")

#define TRACE_CALLS_CONTEXT(X) \
	X(cuInit, PFN_cuInit_v2000, CTX, NONE, NONE, "hex:Flags") \
	X(cuCtxCreate_v2, PFN_cuCtxCreate_v3020, CTX, CONTEXT_CREATE, NONE, \
	  "out:pctx hex:flags device:dev") \
	X(cuCtxCreate_v3, PFN_cuCtxCreate_v11040, CTX, CONTEXT_CREATE, NONE, \
	  "out:pctx ptr:paramsArray int:numParams hex:flags device:dev") \
	X(cuCtxCreate_v4, UNTYPED, CTX, CONTEXT_CREATE, NONE, \
	  "out:pctx ptr:ctxCreateParams hex:flags device:dev") \
	X(cuCtxDestroy, UNTYPED, CTX, CONTEXT_DESTROY, NONE, "ptr:ctx") \
	X(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000, CTX, CONTEXT_DESTROY, NONE, "ptr:ctx") \
	X(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000, CTX, CONTEXT_SET, NONE, "ptr:ctx") \
	X(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000, CTX, CONTEXT_PUSH, NONE, \
	  "ptr:ctx") \
	X(cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000, CTX, CONTEXT_POP, NONE, \
	  "out:pctx") \
	X(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000, CTX, \
	  PRIMARY_RETAIN, NONE, "out:pctx device:dev") \
	X(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000, CTX, \
	  PRIMARY_RELEASE, NONE, "device:dev") \
	X(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000, CTX, \
	  PRIMARY_RESET, NONE, "device:dev")

/* Calls of gpumem/driver.h that are not traced: questions, events and streams. A new call
 * there must be added to this list or the other (tests/bpf/decode.c). */
#define TRACE_UNTRACED(X) \
	X(cuCtxDisablePeerAccess) X(cuCtxEnablePeerAccess) X(cuCtxGetCurrent) \
	X(cuCtxGetDevice) X(cuCtxGetLimit) X(cuCtxGetStreamPriorityRange) \
	X(cuCtxSetLimit) X(cuCtxSynchronize) X(cuDeviceCanAccessPeer) X(cuDeviceGet) \
	X(cuDeviceGetAttribute) X(cuDeviceGetCount) X(cuDeviceGetDefaultMemPool) \
	X(cuDeviceGetMemPool) X(cuDeviceGetName) X(cuDeviceGetPCIBusId) \
	X(cuDeviceGetUuid_v2) X(cuDevicePrimaryCtxGetState) X(cuDeviceTotalMem_v2) \
	X(cuDriverGetVersion) X(cuEventCreate) X(cuEventDestroy_v2) \
	X(cuEventElapsedTime) X(cuEventQuery) X(cuEventRecord) X(cuEventSynchronize) \
	X(cuFuncGetAttribute) X(cuFuncGetModule) X(cuFuncGetName) X(cuFuncGetParamInfo) \
	X(cuFuncSetAttribute) X(cuGetErrorName) X(cuGetErrorString) \
	X(cuLogsRegisterCallback) X(cuMemGetAccess) X(cuMemGetAddressRange_v2) X(cuMemGetAllocationGranularity) \
	X(cuMemGetAllocationPropertiesFromHandle) X(cuMemGetInfo_v2) \
	X(cuMemHostGetDevicePointer_v2) X(cuMemPoolGetAttribute) \
	X(cuMemPoolSetAttribute) X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) \
	X(cuModuleEnumerateFunctions) X(cuModuleGetFunctionCount) \
	X(cuModuleGetGlobal_v2) X(cuOccupancyAvailableDynamicSMemPerBlock) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	X(cuOccupancyMaxPotentialBlockSize) X(cuPointerGetAttribute) X(cuStreamCreate) \
	X(cuStreamCreateWithPriority) X(cuStreamDestroy_v2) X(cuStreamGetPriority) \
	X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamWaitEvent)

/* clang-format on */
