#!/bin/bash
# Every kind of argument is decoded rightly, in both versions of a call, whatever the
# driver's calls open with.
. "${BASH_SOURCE%/*}/lib.bash"
test_prefetch_and_advise_of_both_versions()
{
	L=$P
	trace --json -e managed <<-EOF
		cuMemAllocManaged &m 65536 1
		cuMemPrefetchAsync \$m 4096 0 0
		cuMemPrefetchAsync \$m 4096 0xffffffff 7
		cuMemPrefetchAsync_ptsz \$m 4096 3 0
		cuMemPrefetchAsync_v2 \$m 8192 0x100000001 0 5
		cuMemPrefetchAsync_v2 \$m 8192 2 0 0
		cuMemPrefetchAsync_v2_ptsz \$m 8192 0x100000003 0 0
		cuMemAdvise \$m 4096 1 0
		cuMemAdvise \$m 4096 3 0xffffffff
		cuMemAdvise_v2 \$m 4096 5 0x200000001
		cuMemAdvise_v2 \$m 4096 4 4
		cuStreamAttachMemAsync 9 \$m 4096 2
	EOF
	check <<-EOF
		m = one("cuMemAllocManaged")["dptr"]
		a, b = calls("cuMemPrefetchAsync")
		has(a, devPtr=m, count=4096, dstDevice="device:0", hStream="0x0")
		has(b, dstDevice="cpu", hStream="0x7")
		has(one("cuMemPrefetchAsync_ptsz"), dstDevice="device:3")
		a, b = calls("cuMemPrefetchAsync_v2")
		has(a, devPtr=m, count=8192, location="device:1", flags="0x0", hStream="0x5")
		has(b, location="cpu")
		has(one("cuMemPrefetchAsync_v2_ptsz"), location="numa:1")
		a, b = calls("cuMemAdvise")
		has(a, advice="set_read_mostly", device="device:0")
		has(b, advice="set_preferred_location", device="cpu")
		a, b = calls("cuMemAdvise_v2")
		has(a, advice="set_accessed_by", location="device:2")
		has(b, advice="unset_preferred_location", location="numa:current")
		has(one("cuStreamAttachMemAsync"), hStream="0x9", dptr=m, length=4096, flags="0x2")
		has(S["cuMemPrefetchAsync"], calls=2, bytes=8192)
	EOF
}

test_sizes_that_are_products_or_stand_in_structs()
{
	L=$P
	trace --json -e mem,copy <<-EOF
		cuMemAllocPitch_v2 &a &pitch 1000 30 4
		cuMemsetD2D32_v2 \$a 1024 7 100 20
		cuMemcpyHtoD_v2_ptds \$a 0x1000 777
		cuMemFree_v2 \$a
	EOF
	check <<-EOF
		has(one("cuMemAllocPitch_v2"), pPitch=1024, WidthInBytes=1000, Height=30, ElementSizeBytes=4,
		    bytes=30720, held=30720, kind="device")
		has(S["cuMemsetD2D32_v2"], bytes=8000)
		has(one("cuMemsetD2D32_v2"), dstPitch=1024, ui="0x7", Width=100, Height=20)
		has(one("cuMemcpyHtoD_v2_ptds"), ByteCount=777, srcHost="0x1000")
		has(one("cuMemFree_v2"), freed=30720, held=0)
	EOF
}

test_copies_of_rectangles()
{
	L=$P
	trace --json -e copy <<-EOF
		word copy 28 300
		word copy 30 40
		cuMemcpy2D_v2 &copy
		word cube 44 100
		word cube 46 20
		word cube 48 3
		cuMemcpy3D_v2 &cube
	EOF
	check <<-EOF
		has(one("cuMemcpy2D_v2"), bytes=12000)
		has(one("cuMemcpy3D_v2"), bytes=6000)
		has(S["cuMemcpy3D_v2"], calls=1, bytes=6000)
	EOF
}

test_launches_with_grid_block_stream_and_name()
{
	L=$P
	trace --json -e launch <<-EOF
		cuLibraryLoadData &l 0
		cuLibraryGetKernel &k \$l 'saxpy
		cuLaunchKernel \$k 4 3 2 256 1 1 1024 9 0 0
		cuKernelGetFunction &f \$k
		cuLaunchKernel 0x1234 1 1 1 32 1 1 0 0 0 0
		word config 0 5
		word config 1 6
		word config 2 7
		word config 3 64
		word config 4 2
		word config 5 1
		word config 6 48
		word config 8 0x77
		cuLaunchKernelEx &config \$k 0 0
	EOF
	check <<-EOF
		a, b = calls("cuLaunchKernel")
		has(a, f="saxpy", gridDimX=4, gridDimY=3, gridDimZ=2, blockDimX=256, blockDimY=1,
		    blockDimZ=1, sharedMemBytes=1024, hStream="0x9")
		has(b, f="0x1234", gridDimX=1, blockDimX=32)
		has(one("cuLaunchKernelEx"), f="saxpy", gridDimX=5, gridDimY=6, gridDimZ=7,
		    blockDimX=64, blockDimY=2, blockDimZ=1, sharedMemBytes=48, hStream="0x77")
		same([row["call"] for row in E if row["call"] != "exit"],
		     ["cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernelEx"])
	EOF
}

test_modules_and_strings()
{
	L=$P
	trace --json -e module <<-EOF
		cuModuleLoad &m '/tmp/with"quote.cubin
		cuLibraryLoadData &l 0x4000
	EOF
	check <<-EOF
		has(one("cuModuleLoad"), fname='/tmp/with"quote.cubin')
		has(one("cuLibraryLoadData"), code="0x4000")
	EOF
}

test_old_versions_have_pointers_of_32_bits()
{
	L=$P
	trace --json -e mem <<-EOF
		cuMemAlloc &a 0x700001000
		cuMemFree \$a
	EOF
	check <<-EOF
		a = one("cuMemAlloc")
		has(a, bytesize=4096, held=4096)
		same(int(a["dptr"], 16) < 1 << 32, True)
		has(one("cuMemFree"), dptr=a["dptr"], freed=4096, held=0)
	EOF
}

test_managed_registered_and_ipc_memory()
{
	L=$P
	trace --json -e mem,managed,pool <<-EOF
		cuMemAllocManaged &m 65536 1
		cuMemHostRegister_v2 0x10000 8192 0
		cuIpcOpenMemHandle_v2 &i 1
		cuMemAllocAsync_ptsz &p 512 0
		cuMemFreeAsync_ptsz \$p 0
		cuIpcCloseMemHandle \$i
		cuMemHostUnregister 0x10000
		fakeResult 999
		cuMemFree_v2 \$m
		cuMemFree_v2 \$m
	EOF
	check <<-EOF
		has(one("cuMemHostRegister_v2"), kind="registered", held=8192, p="0x10000")
		has(one("cuMemHostUnregister"), kind="registered", freed=8192, held=0)
		has(one("cuIpcOpenMemHandle_v2"), kind="imported", held=0)
		has(one("cuIpcCloseMemHandle"), kind="imported", freed=0)
		has(one("cuMemFreeAsync_ptsz"), kind="pool", freed=512)
		bad, good = calls("cuMemFree_v2")
		lacks(bad, "freed", "kind")
		has(good, kind="managed", freed=65536, held=0)
		has(one("exit"), freed=0, n_freed=0)
	EOF
}

test_a_context_ends_what_was_made_in_it()
{
	L=$P
	trace --json <<-EOF
		cuCtxCreate_v2 &one 0 0
		cuMemAlloc_v2 &a 4096
		cuCtxCreate_v2 &two 0 0
		cuMemAllocManaged &m 8192 1
		cuMemAllocAsync &p 512 0
		cuMemHostAlloc &h 1024 0
		cuCtxDestroy_v2 \$two
		cuMemAlloc_v2 &b 2048
		cuCtxDestroy_v2 \$one
	EOF
	check <<-EOF
		two, one_ = calls("cuCtxDestroy_v2")
		has(two, freed=9216, n_freed=2)
		has(calls("cuMemAlloc_v2")[1], held=6144)
		has(one_, freed=6144, n_freed=2)
		has(one("exit"), freed=512, pool=512)
	EOF
}

test_managed_alone_shows_its_frees_and_no_others()
{
	L=$P
	trace --json -e managed <<-EOF
		cuMemAllocManaged &m 65536 1
		cuMemAlloc_v2 &a 4096
		cuMemFree_v2 \$a
		cuMemFree_v2 \$m
	EOF
	check <<-EOF
		same([row["call"] for row in E], ["cuMemAllocManaged", "cuMemFree_v2", "exit"])
		has(one("cuMemFree_v2"), kind="managed")
	EOF
}

test_a_5_byte_nop_is_left_alone_and_an_alias_probed_once()
{
	L=$P
	"$GPUMEM_TRACE" --library "$L" --list >"$T/list"
	like "$(grep -w cuMemcpyAsync "$T/list")" 'left alone: .*5-byte nop'
	like "$(grep " cuMemcpyDtoD_v2 " "$T/list")" 'found, counted$'
	like "$(grep -w cuMemcpyDtoD_v2_ptds "$T/list")" 'found as cuMemcpyDtoD_v2$'
	like "$(grep -w cuMemCreate "$T/list")" 'absent from this driver$'
	like "$(grep -w cuMemAlloc_v2 "$T/list")" 'mem +found$'
	"$GPUMEM_TRACE" --library "$L" -e mem --list >"$T/list"
	like "$(grep -w cuModuleLoad "$T/list")" 'not asked for$'
	trace --json -e copy <<-EOF
		cuMemcpyAsync 1 2 3 4
		cuMemcpyDtoD_v2_ptds 1 2 64
	EOF
	check <<<'same([row["call"] for row in E], ["cuMemcpyDtoD_v2"])'
}

test_stacks_end_at_a_frame_that_is_in_no_code()
{
	(
		eventually "[ \"\$(grep -c cuMemHostAlloc '$T/out')\" = 5 ]"
		touch "$T/read"
	) &
	# behind the last mapping, below the first, in the kernel's half, and in data
	trace --json -s -e mem <<-EOF
		cuInit 0
		cuDevicePrimaryCtxRetain &ctx 0
		cuCtxSetCurrent \$ctx
		cuMemHostAlloc &h 4096 0
		stray 0x7ffffffff123
		cuMemHostAlloc &h 4097 0
		stray 0x1234
		cuMemHostAlloc &h 4098 0
		stray 0xffff888000001234
		cuMemHostAlloc &h 4099 0
		stray &h
		cuMemHostAlloc &h 4100 0
		wait $T/read
	EOF
	check <<-EOF
		whole, *strays = [row["stack"] for row in calls("cuMemHostAlloc")]
		same(any("main+0x" in frame for frame in whole), True, whole)
		same(len(strays), 4)
		for stack in strays:
		    same(len(stack), 2, stack)
		    same(stack[0].startswith("caller_call+0x") and "(caller)" in stack[1], True, stack)
	EOF
}

test_stacks_begin_with_the_caller_whatever_a_call_opens_with()
{
	L=$P
	(
		eventually "grep -q cuMemFree_v2 '$T/out'"
		touch "$T/read"
	) &
	trace --json -s -e mem,managed <<-EOF
		cuMemAlloc_v2 &a 4096
		cuMemAllocPitch_v2 &b &pitch 1000 30 4
		cuMemAllocManaged &m 65536 1
		cuMemHostAlloc &h 4096 0
		cuMemFree_v2 \$a
		wait $T/read
	EOF
	check <<-EOF
		rows = [row for row in E if row["call"] != "exit"]
		same(len(rows), 5)
		for row in rows:
		    same(row["stack"][0].startswith("caller_call+0x"), True, row)
		    same("caller.c:" in row["stack"][0], True, row)
		    same(any("main+0x" in frame for frame in row["stack"]), True, row)
	EOF
}

main "$@"
