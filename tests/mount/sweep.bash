#!/bin/bash
# Runs every verb and file operation while the n-th call of a driver function fails or kills
# its process. Each failure must name the failed call, nothing may be left over, and a
# second pass without faults must succeed. By default only the first call of every third
# function, beginning at any; GPUMEM_SWEEP=N tries calls 1 to N of all and stops early when
# call n is never made. A call takes seconds: raise GPUMEM_CASE_LIMIT.
. "${BASH_SOURCE%/*}/lib.bash"

me=$(id -u)

# Driver functions that commands call. Functions that give memory back are left out, since
# the broker rightly reports their failures at its end.
calls='cuMemCreate cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemMap
	cuMemSetAccess cuMemAlloc_v2 cuMemAllocAsync cuMemFree_v2 cuMemFreeAsync cuMemAllocManaged
	cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize
	cuStreamAttachMemAsync cuStreamWaitEvent cuEventCreate cuEventRecord cuEventQuery
	cuEventSynchronize cuMemcpyAsync cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2
	cuMemcpyDtoDAsync_v2 cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async
	cuMemPrefetchAsync_v2 cuMemAdvise_v2 cuMemRangeGetAttributes cuModuleLoadDataEx
	cuModuleGetFunctionCount cuModuleEnumerateFunctions cuFuncGetName cuFuncGetParamInfo
	cuModuleUnload cuLaunchKernel cuMemHostRegister_v2 cuMemHostUnregister cuMemGetInfo_v2
	cuDevicePrimaryCtxRetain cuCtxSetCurrent'

# everything PREFIX: prints every verb and file operation, a shell line each. All names of
# objects begin with PREFIX.
everything()
{
	local name
	cat <<-END
		echo '$1d 3M' >control/alloc
		echo '$1s 4096' >control/alloc
		echo '$1h 8192 kind=host' >control/alloc
		echo '$1x 4096 kind=direct' >control/alloc
		mkdir streams/$1
		echo '$1a 4096 kind=async stream=$1' >control/alloc
		echo '$1m 1M kind=managed' >control/alloc
		echo '$1d f32:1 wait=0' >control/fill
		head -c 3M /dev/zero >allocations/$1d/data
		echo '$1m u8:2 stream=$1' >control/fill
		echo '$1x from=$1m length=4096' >control/copy
		echo '$1h from=$1x length=4096' >control/copy
		cp allocations/$1m/data allocations/$1d/data
		head -c 9000 allocations/$1d/data
		cat allocations/$1x/data
		echo '$1d path=$T/$1.file' >control/save
		echo '$1d path=$T/$1.file' >control/load
		echo '$1m path=$T/$1.file length=100K' >control/load
		fallocate -z -l 100 allocations/$1s/data
		chmod 644 allocations/$1s
		echo '$1n 4096' >control/alloc
		echo {} >allocations/$1n/tensors
		echo '$1n $1p' >control/publish
		echo device:0 >allocations/$1m/prefetch
		echo set_read_mostly >allocations/$1m/advise
		cat allocations/$1m/advise
		echo host >allocations/$1m/attach
		echo global >allocations/$1m/attach
		mkdir modules/$1
		cp $GPUMEM_KERNELS/fill.ptx modules/$1/image
		cat modules/$1/functions/fill/attributes
		echo 'elements=16 stream=$1 wait=0 $1d f32:1 u32:16' >modules/$1/functions/fill/launch
		echo 'elements=16 $1m f32:1 u32:16' >modules/$1/functions/fill/launch
		echo $1 >control/synchronize
		df .
		rmdir modules/$1
	END
	for name in d s h x a m p; do
		echo "rmdir allocations/$1$name"
	done
	# the free of async memory may still be under way on the stream
	echo "echo $1 >control/synchronize"
	echo "rmdir streams/$1"
}

# goes_wrong RULE: runs all lines under RULE. A line may fail if its message names the fault,
# or if its object does not exist because an earlier line failed. $harm counts the effects.
goes_wrong()
{
	local line call=${1#*=} restarts=$(value_of status restarts)
	inject "$1"
	harm=0
	while read -r line; do
		timeout 20 bash -c "$line" >/dev/null 2>"$T/said" || {
			[ "$?" -lt 124 ] || fail "$1: does not end: $line"
			grep -qE "$errnos" "$T/said" || fail "$1: $line: $(<"$T/said")"
			harm=$((harm + 1))
		}
	done < <(everything w)
	harm=$((harm + $(value_of status restarts) - restarts))
	tail -n 40 errors | grep -qE "${call%%@*}|worker|lost" || unnoticed+=" $1"
	inject
	echo 1 >"owners/$me/reset"
	sweep 2>/dev/null || true
	rmdir modules/w streams/w 2>/dev/null || true
	eventually '[ -z "$(ls allocations; ls modules; ls streams | grep -v "^default")" ]'
}

errnos='Input/output error|Cannot allocate memory|No such|Stale|Exec format|Bad address|Invalid argument'
errnos+='|Operation not supported|not permitted|File exists|busy|cannot fallocate|Is a directory|Not a directory'

works()
{
	local line
	while read -r line; do
		timeout 20 bash -c "$line" >/dev/null 2>"$T/said" ||
			fail "after $1: $line: $(<"$T/said")" "$(tail -n 1 errors)"
	done < <(everything v)
}

# Prints descriptors and totals, to compare before and after, when there are as many processes
# as before. Of a broker that dies only the totals: the next one has other descriptors, and no
# worker of an owner until one is used.
holdings()
{
	eventually '[ "$(value_of status bytes)" = 0 ]'
	echo 1 >"owners/$me/reset"
	if [ -n "${GPUMEM_CRASH_EVERY-}" ]; then
		echo "$(value_of status allocations) allocations, $(<devices/0/memory_held_bytes) bytes"
		return
	fi
	# beside a process of files, which ends when it has been idle
	eventually '[ "$(workers_of "$T/main" mover | wc -l)" = 1 ]'
	eventually '[ "$(workers_of "$T/main" "$me" | wc -l)" = 1 ]'
	echo "$(ls "/proc/$(<"$T/main/pid")/fd" | wc -l) descriptors," \
		"$(value_of status allocations) allocations, $(<devices/0/memory_held_bytes) bytes"
}

# descriptors may still be on their way back
held_as()
{
	local i
	for i in {1..200}; do
		[ "$(holdings)" != "$1" ] || return 0
		sleep 0.05
	done
	is "$(holdings)" "$1"
}

sweep_with()
{
	local call n harm quiet before unnoticed='' i=$((RANDOM % 3))
	needs_software 'fail on request'
	needs_kernels
	works nothing
	before=$(holdings)
	for call in $calls; do
		[ -n "${GPUMEM_SWEEP-}" ] || ((i++ % 3 == 0)) || continue
		quiet=0
		for n in $(seq "${GPUMEM_SWEEP:-$2}"); do
			goes_wrong "$(printf "$1" "$call" "$n")"
			# the broker may have repeated a failed call with success: one quiet
			# round is no proof that call n was never made
			quiet=$((harm ? 0 : quiet + 1))
			[ "$quiet" -lt 2 ] || break
		done
		echo "$call: $n" >&2
		works "$call"
	done
	held_as "$before"
	echo "not seen in errors:$unnoticed" >&2
}

test_every_call_runs_out_of_memory()
{
	sweep_with 'fail=%s@%s=CUDA_ERROR_OUT_OF_MEMORY' 1
}

# The broker has no context to lose, so its own calls can't return this error.
test_every_call_finds_the_contexts_lost()
{
	calls=${calls/cuMemCreate cuMemExportToShareableHandle/}
	sweep_with 'fail=%s@%s=CUDA_ERROR_ILLEGAL_ADDRESS' 1
}

test_every_call_is_the_last_of_its_process()
{
	# The broker itself makes these calls, and the broker must live.
	calls=${calls/cuMemCreate cuMemExportToShareableHandle/}
	sweep_with 'kill=%s@%s' 1
}

case_limit=${GPUMEM_CASE_LIMIT:-200}
main "$@"
