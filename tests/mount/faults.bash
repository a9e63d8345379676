#!/bin/bash
# Kernels that fault or never end, workers that are killed, a broker that ends meanwhile:
# memory that is kept or lost, and the reports.
. "${BASH_SOURCE%/*}/lib.bash"

me=$(id -u)
O=${T-}/own/mnt

# loaded [NAME]: loads tests/kernels/NAME.cu as module NAME (faults).
loaded()
{
	local name=${1-faults}
	needs_kernels
	[ -d "modules/$name" ] || mkdir "modules/$name"
	cp "$GPUMEM_KERNELS/$name.ptx" "modules/$name/image"
}

own()
{
	workers_of "$T/main" "$me"
}

sum()
{
	sha256sum <"allocations/$1/data"
}

# endless NAME [WORD...]: launches an endless kernel on the allocation; only the end of the
# worker stops such a kernel.
endless()
{
	echo "faults endless grid=1 block=1 wait=0 ${*:2} $1" >control/launch
}

# fault: a kernel stores where nothing is.
fault()
{
	fails "echo 'faults wild grid=1 block=1 u64:0x10' >control/launch"
}

# Makes everything that survives the end of a worker: device, slab, host and managed memory
# with known bytes, advice and attachment. Also makes direct and async memory, which is lost.
fill_the_house()
{
	local name
	echo 'device 5M' >control/alloc
	echo 'small 4096' >control/alloc
	echo 'host 1M kind=host' >control/alloc
	echo 'managed 3M kind=managed' >control/alloc
	echo 'onhost 64K kind=managed attach=host' >control/alloc
	for name in device small host managed onhost; do
		head -c "$(<"allocations/$name/size_bytes")" /dev/urandom >"$T/$name"
		cat "$T/$name" >"allocations/$name/data"
		cat "allocations/$name/address" >"$T/$name.address"
	done
	echo device:0 >allocations/managed/prefetch
	echo set_read_mostly >allocations/managed/advise
	echo 'set_preferred_location cpu offset=0 length=1M' >allocations/managed/advise
	cat allocations/managed/{advise,last_prefetch} >"$T/advice"
	echo 'direct 4096 kind=direct' >control/alloc
	echo 'async 4096 kind=async' >control/alloc
}

# the_house_stands REGEX: the memory of fill_the_house is intact after the worker has ended
# once, for a reason that matches REGEX.
the_house_stands()
{
	local name
	for name in device small host; do
		cmp "$T/$name" "allocations/$name/data"
		is "$(<"allocations/$name/state") $(<"allocations/$name/generation")" 'live 1'
		cmp "$T/$name.address" "allocations/$name/address"
	done
	for name in managed onhost; do
		cmp "$T/$name" "allocations/$name/data"
		is "$(<"allocations/$name/state") $(<"allocations/$name/generation")" 'live 2'
	done
	is "$(cat allocations/managed/{advise,last_prefetch})" "$(<"$T/advice")"
	is "$(<allocations/managed/attach)$(<allocations/onhost/attach)" globalhost
	for name in direct async; do
		is "$(<"allocations/$name/state") $(<"allocations/$name/generation")" 'lost 2'
		refused ESTALE "allocation $name is lost: the worker that held it $1.*; free it" \
			"cat allocations/$name/data"
	done
}

test_a_fault_loses_nothing_that_can_be_kept()
{
	local worker restarts
	undying
	loaded
	fill_the_house
	worker=$(own)
	restarts=$(<"owners/$me/restarts")
	refused EFAULT 'kernel faults/wild failed .*CUDA_ERROR_ILLEGAL_ADDRESS' \
		'echo "faults wild grid=1 block=1 u64:0x10" >control/launch'
	the_house_stands 'lost its contexts .*CUDA_ERROR_ILLEGAL_ADDRESS'
	eventually "[ ! -e /proc/$worker ]"
	eventually "[ \"\$(<owners/$me/restarts)\" = $((restarts + 1)) ]"
	like "$(<events)" "worker_end owners/$me run=[0-9]+ reason=\"lost its contexts .*CUDA_ERROR_ILLEGAL_ADDRESS"
	like "$(<events)" 'restore allocations/managed id=[0-9]+ generation=2'
	like "$(<events)" 'lost allocations/direct id=[0-9]+ reason="lost its contexts'
}

# The allocations are restored one by one. Faults come before, between and after.
test_faults_while_memory_is_made_anew_lose_nothing()
{
	local i name
	needs_software 'be slow'
	loaded
	for name in m1 m2 m3 m4; do
		echo "$name 64K kind=managed" >control/alloc
		head -c 64K /dev/urandom | tee "$T/$name" >"allocations/$name/data"
		echo set_read_mostly >"allocations/$name/advise"
	done
	inject 'delay=cuMemAdvise_v2@*=30ms' 'delay=cuMemAllocManaged@*=20ms'
	for i in 1 2 3 4 5 6 7 8 9 10; do
		fault
		sleep "0.0$((i * 2 % 10))"
	done
	inject
	for name in m1 m2 m3 m4; do
		cmp "$T/$name" "allocations/$name/data"
	done
}

# A write during the checkpoint is not in the saved bytes, so the write is repeated.
test_writes_beside_a_fault_are_not_lost()
{
	local i
	loaded
	echo 'm 1M kind=managed' >control/alloc
	for i in $(seq 12); do
		echo 'faults wild grid=1 block=1 wait=0 u64:0x10' >control/launch
		echo "m u8:$i" >control/fill
		is "$(head -c 1M allocations/m/data | tr -d "$(printf '\\%03o' "$i")" | wc -c)" 0
	done
	fails 'echo default >control/synchronize'
}

test_the_next_launch_needs_no_new_load()
{
	loaded
	loaded saxpy
	echo 'x 4096xf32' >control/alloc
	echo 'y 4096xf32 kind=managed' >control/alloc
	echo 'x f32:1.5' >control/fill
	mkdir streams/mine
	fault
	is "$(<modules/faults/state) $(<modules/saxpy/state)" 'loaded loaded'
	echo 'elements=4096 stream=mine u32:4096 f32:2 in:x y' >modules/saxpy/functions/saxpy/launch
	is "$(od -A n -t f4 -N 4 allocations/y/data | xargs)" 3
	is "$(<streams/mine/state)" idle
}

test_each_kind_of_fault_has_its_error_and_its_reason()
{
	local name errno reason args
	loaded
	echo 'x 64' >control/alloc
	while read -r name errno reason args; do
		refused "$errno" "kernel faults/$name failed .*CUDA_ERROR_($reason)" \
			"echo 'faults $name grid=1 block=1 $args' >control/launch"
		echo 'x u8:1' >control/fill
	done <<-'END'
		wild EFAULT ILLEGAL_ADDRESS u64:0x10
		wild EFAULT ILLEGAL_ADDRESS u64:0x7fffffff0000
		misaligned EFAULT MISALIGNED_ADDRESS x
		trap EIO LAUNCH_FAILED|ILLEGAL_INSTRUCTION
		failing_assert EIO ASSERT i32:41
	END
	undying
	echo 'faults failing_assert grid=1 block=1 i32:42' >control/launch
	is "$(<"owners/$me/state")" running
}

test_what_was_queued_behind_a_fault_fails_and_says_so()
{
	loaded
	loaded order
	mkdir streams/a streams/b
	echo 'x 64' >control/alloc
	echo 'y 64' >control/alloc
	# y is zeroed now: a kernel that had to wait for this would begin after the fault.
	echo 'y u8:0' >control/fill
	echo 'order slow_set grid=1 block=1 stream=b wait=0 y i32:1 u64:20000000000' >control/launch
	echo 'faults wild grid=1 block=1 stream=a wait=0 u64:16' >control/launch
	echo 'order add grid=1 block=1 stream=a wait=0 in:x i32:1 x' >control/launch
	eventually '[[ $(<streams/a/state) == failed && $(<streams/b/state) == failed ]]'
	is "$(<streams/a/error)" EFAULT
	refused EFAULT 'kernel faults/wild (failed(, or one that was under way with it)?|was ended: the worker lost its contexts) .*ILLEGAL_ADDRESS' \
		'echo a >control/synchronize'
	fails 'echo b >control/synchronize'
	like "$(tail -n 1 errors)" "control/synchronize EFAULT kernel order/slow_set "
	like "$(<events)" 'failed streams/a errno=EFAULT'
	is "$(<streams/a/state) $(<streams/b/state)" 'idle idle'
	echo 'order add grid=1 block=1 stream=b in:x i32:5 x' >control/launch
}

test_what_is_lost_is_stale_on_every_verb_until_it_is_freed()
{
	local kind line reason='is lost: the worker that held it lost its contexts'
	loaded
	loaded order
	for kind in direct async; do
		echo "x 4096 kind=$kind" >control/alloc
		echo 'y 4096' >control/alloc
		exec 3<>allocations/x/data
		fault
		for line in 'cat allocations/x/data' 'echo >allocations/x/data' 'head -c 1 <&3' \
			'echo >&3' 'truncate -s 0 allocations/x/data' 'fallocate -z -l 8 allocations/x/data' \
			'cp allocations/x/data allocations/y/data' 'cp allocations/y/data allocations/x/data' \
			'echo "x u8:1" >control/fill' 'echo "x from=y" >control/copy' \
			'echo "y from=x" >control/copy' \
			'echo "order add grid=1 block=1 in:x i32:1 y" >control/launch' \
			'echo "order add grid=1 block=1 in:y i32:1 x" >control/launch'; do
			refused ESTALE "allocation x $reason" "$line"
		done
		exec 3>&-
		is "$(<allocations/x/state)" lost
		chmod 600 allocations/x
		mv allocations/x allocations/z
		echo z >control/free
		is "$(ls allocations)" y
		rmdir allocations/y
	done
}

test_lost_managed_memory_is_stale_on_its_own_files_too()
{
	local line
	needs_software 'lose a worker'
	echo 'x 4096 kind=managed' >control/alloc
	exec 3<>allocations/x/data
	kill -KILL "$(own)"
	eventually '[ "$(<allocations/x/state)" = lost ]'
	for line in 'echo cpu >allocations/x/prefetch' 'echo "x cpu" >control/prefetch' \
		'echo set_read_mostly >allocations/x/advise' 'echo "x set_read_mostly" >control/advise' \
		'echo host >allocations/x/attach' 'cat allocations/x/last_prefetch' \
		'cat allocations/x/data' 'head -c 1 <&3' 'echo "x u8:1" >control/fill'; do
		refused ESTALE 'allocation x is lost: the worker that held it was killed by signal 9; free it' "$line"
	done
	rmdir allocations/x
	refused ESTALE 'allocation x .*has been freed' 'head -c 1 <&3'
	exec 3>&-
}

test_advice_can_be_read_while_managed_memory_is_made_anew()
{
	local i readers=()
	loaded
	for i in 1 2 3 4; do
		echo "m$i 1M kind=managed" >control/alloc
		echo set_read_mostly >"allocations/m$i/advise"
	done
	inject 'delay=cuMemAllocManaged@*=100ms'
	fault
	for i in 1 2 3 4; do
		head -n 1 "allocations/m$i/advise" >"$T/said.$i" &
		readers+=($!)
		echo cpu >"allocations/m$i/prefetch" &
		readers+=($!)
		head -c 4096 "allocations/m$i/data" | cmp -n 4096 - /dev/zero &
		readers+=($!)
	done
	for i in "${readers[@]}"; do
		wait "$i"
	done
	is "$(cat "$T"/said.? | sort -u)" 'read_mostly 1'
}

test_managed_memory_can_be_freed_while_it_is_made_anew()
{
	local i
	loaded
	for i in 1 2 3 4; do
		echo "m$i 1M kind=managed" >control/alloc
	done
	inject 'delay=cuMemAllocManaged@*=100ms'
	fault
	rmdir allocations/m?
	is "$(ls allocations)" ''
	eventually '[ "$(value_of status bytes)" = 0 ]'
}

test_managed_memory_that_cannot_be_made_anew_is_lost_and_says_why()
{
	loaded
	echo 'm 1M kind=managed' >control/alloc
	inject 'fail=cuMemAllocManaged@*=CUDA_ERROR_OUT_OF_MEMORY'
	fault
	refused ESTALE 'lost its contexts .*and it could not be made anew \(cuMemAllocManaged: CUDA_ERROR_OUT_OF_MEMORY\); free it' \
		'cat allocations/m/data'
	inject
	rmdir allocations/m
	echo 'm 1M kind=managed' >control/alloc
	is_zero allocations/m/data
}

# Ops queued behind the fault are sent to the next worker.
test_a_crowd_of_uses_beside_a_fault_ends_well()
{
	local i pids=()
	loaded
	echo 'm 4M kind=managed' >control/alloc
	echo 'd 4M' >control/alloc
	for i in 1 2 3 4; do
		for _ in 1 2 3 4 5; do
			echo "m u8:$i" >control/fill || exit
			echo 'd from=m' >control/copy || exit
			cat allocations/m/data >/dev/null || exit
		done &
		pids+=($!)
	done
	for i in 1 2 3; do
		fault
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	is "$(<allocations/m/state)" live
}

test_other_owners_notice_nothing()
{
	local worker restarts
	needs_root 'another user'
	undying
	loaded
	by 1001 run 'echo "hers 4096 kind=direct" >control/alloc; echo kept >allocations/hers/data'
	by 1001 run 'echo "herm 4096 kind=managed" >control/alloc; echo kept >allocations/herm/data'
	worker=$(<owners/1001/worker)
	restarts=$(<owners/1001/restarts)
	fault
	is "$(<owners/1001/worker) $(<owners/1001/restarts)" "$worker $restarts"
	is "$(by 1001 run 'head -qc 4 allocations/hers/data allocations/herm/data')" keptkept
	is "$(<allocations/herm/generation)" 1
	unlike "$(by 1001 run 'cat errors')" EFAULT
	by 1001 denied EACCES 'echo 1 >owners/0/reset'
}

test_a_worker_that_was_given_up_is_there_again_before_it_is_needed()
{
	local before
	undying
	loaded
	echo 'faults failing_assert grid=1 block=1 i32:42' >control/launch
	before=$(<"owners/$me/worker")
	fault
	eventually "[[ \$(<owners/$me/worker) != @(0|$before) ]]"
	before=$(<"owners/$me/worker")
	echo 1 >"owners/$me/reset"
	eventually "[[ \$(<owners/$me/worker) != @(0|$before) ]]"
}

test_device_memory_freed_after_a_fault_can_be_had_again_at_once()
{
	local total
	needs_software 'have a small memory'
	loaded
	for _ in 1 2 3; do
		echo 'big 400M' >control/alloc
		fails "echo 'faults misaligned grid=1 block=1 big' >control/launch"
		rmdir allocations/big
	done
	echo 'big 400M' >control/alloc
}

# ---- kernels that never end ----

test_the_rest_stays_usable_while_a_kernel_spins()
{
	loaded
	echo 'x 64' >control/alloc
	echo 'other 1M' >control/alloc
	echo 'shared 1M kind=host' >control/alloc
	mkdir streams/beside
	endless x
	is "$(<allocations/x/state)" busy
	timeout 20 bash -ec '
		yes | head -c 1M >allocations/other/data
		yes | head -c 1M >allocations/shared/data
		cmp allocations/other/data <(yes | head -c 1M)
		echo "shared from=other stream=beside" >control/copy
		echo "other u8:1 stream=beside" >control/fill
		cp allocations/other/data allocations/shared/data
		echo "another 64" >control/alloc
		rmdir allocations/another
		cat status errors events allocations/x/status owners/*/status >/dev/null'
	is "$(<streams/default/state)" busy
	echo 1 >"owners/$me/reset"
	is "$(<allocations/x/state)" live
}

test_reset_ends_a_kernel_that_never_ends()
{
	local launch worker
	loaded
	fill_the_house
	worker=$(own)
	echo 'flag 64' >control/alloc
	echo 'flag u32:1' >control/fill
	echo 'faults endless grid=1 block=1 flag' >control/launch
	echo 'flag u32:0' >control/fill
	echo 'faults endless grid=1 block=1 flag' 2>"$T/said" >control/launch &
	launch=$!
	until_it_waits $launch
	eventually '[ "$(<allocations/flag/state)" = busy ]'
	# The worker, which carries out one request after the other, has launched it by now.
	cat allocations/direct/data >/dev/null
	timeout 30 bash -c "echo 1 >owners/$me/reset"
	fails 'wait $launch'
	like "$(<"$T/said")" "${message[EIO]}"
	like "$(<errors)" 'EIO kernel faults/endless was ended: the worker was reset'
	[ ! -e "/proc/$worker" ]
	the_house_stands 'was reset'
}

# The kernel spins on managed memory that is being saved.
test_managed_memory_is_rescued_while_a_kernel_spins_on_it()
{
	loaded
	echo 'm 1M kind=managed' >control/alloc
	head -c 1M /dev/urandom | tee "$T/bytes" >allocations/m/data
	printf '\0\0\0\0' | dd of=allocations/m/data conv=notrunc status=none
	printf '\0\0\0\0' | dd of="$T/bytes" conv=notrunc status=none
	refused ETIMEDOUT 'kernel faults/endless was ended by its time limit of 0.5 s' \
		'echo "faults endless grid=1 block=1 timeout=0.5 m" >control/launch'
	cmp "$T/bytes" allocations/m/data
	is "$(<allocations/m/generation)" 2
	like "$(<events)" 'reason="was ended: a kernel ran longer than its time limit"'
}

test_a_time_limit_that_is_over_before_the_worker_is_up_ends_it_too()
{
	loaded
	echo 'x 64' >control/alloc
	for _ in 1 2 3; do
		refused ETIMEDOUT 'time limit of 0.001 s' \
			'echo "faults endless grid=1 block=1 timeout=0.001 x" >control/launch'
	done
	echo 'x u8:1' >control/fill
	echo 'faults endless grid=1 block=1 timeout=20 x' >control/launch
}

test_time_limits_in_a_row_lock_nobody_out()
{
	local i
	loaded
	echo 'flag 64' >control/alloc
	for i in 1 2 3 4 5; do
		refused ETIMEDOUT 'time limit of 0.1 s' \
			'echo "faults endless grid=1 block=1 timeout=0.1 flag" >control/launch'
	done
	loaded saxpy
	like "$(<"owners/$me/state")" '^(running|idle)$'
}

# A fault may end the worker during an alloc or a load: the next worker then does that.
test_what_is_made_beside_a_fault_is_made()
{
	local i
	loaded
	for i in $(seq 15); do
		echo 'faults wild grid=1 block=1 wait=0 u64:0x10' >control/launch
		echo "d$i 4096 kind=direct" >control/alloc
		echo 'faults wild grid=1 block=1 wait=0 u64:0x10' >control/launch
		echo "m$i 4096 kind=managed" >control/alloc
		echo 'faults wild grid=1 block=1 wait=0 u64:0x10' >control/launch
		loaded saxpy
		is "$(ls modules/saxpy/functions)" saxpy
	done
	fails 'echo default >control/synchronize'
}

test_the_brokers_time_limit_holds_for_every_launch()
{
	needs_kernels
	mkdir -p "$T/own"
	broker_start "$T/own" --driver "$(driver own)" --launch-timeout 1
	mkdir "$O/modules/faults"
	cp "$GPUMEM_KERNELS/faults.ptx" "$O/modules/faults/image"
	echo 'x 64' >"$O/control/alloc"
	fails "echo 'faults endless grid=1 block=1 x' 2>'$T/said' >'$O/control/launch'"
	like "$(<"$T/said")" "${message[ETIMEDOUT]}"
	like "$(tail -n 1 "$O/errors")" 'ETIMEDOUT kernel faults/endless was ended by its time limit of 1 s'
	is "$(od -A n -t d4 -N 4 "$O/allocations/x/data" | xargs)" 0
	broker_stop "$T/own"
}

# nothing_was_lost WORKER: the process still runs and has its managed and direct memory.
nothing_was_lost()
{
	is "$(own)" "$1"
	is "$(<allocations/kept/generation) $(<allocations/direct/generation)" '1 1'
	is "$(head -c 8 allocations/kept/data | od -A n -t u1)" '   7   7   7   7   7   7   7   7'
	is "$(head -c 4 allocations/direct/data | od -A n -t u1)" '   9   9   9   9'
}

something_to_lose()
{
	echo 'kept 1M kind=managed' >control/alloc
	echo 'kept u8:7' >control/fill
	echo 'direct 4096 kind=direct' >control/alloc
	echo 'direct u8:9' >control/fill
}

add='order add grid=1 block=1'

test_memory_that_cannot_be_mapped_fails_only_what_needs_it()
{
	local worker call
	needs_software 'go wrong'
	undying
	loaded order
	something_to_lose
	echo 'x 64' >control/alloc
	echo 'y 4M' >control/alloc
	echo 'h 4096 kind=host' >control/alloc
	is_zero allocations/x/data
	is_zero allocations/y/data
	worker=$(own)
	for call in cuMemImportFromShareableHandle cuMemMap cuMemSetAccess; do
		inject "fail=$call@*=CUDA_ERROR_OUT_OF_MEMORY"
		refused ENOMEM "launch of order/add failed: .*$call: CUDA_ERROR_OUT_OF_MEMORY" \
			"echo '$add in:x i32:1 y' >control/launch"
		inject
	done
	inject 'fail=cuMemHostRegister_v2@*=CUDA_ERROR_OUT_OF_MEMORY'
	refused ENOMEM 'cuMemHostRegister_v2: CUDA_ERROR_OUT_OF_MEMORY' \
		"echo '$add in:kept i32:1 h' >control/launch"
	inject
	nothing_was_lost "$worker"
	echo "$add in:x i32:5 y" >control/launch
	echo "$add in:x i32:6 h" >control/launch
	is "$(od -A n -t d4 -N 4 allocations/y/data)$(od -A n -t d4 -N 4 allocations/h/data)" \
		'           5           6'
}

test_a_stream_that_cannot_be_made_fails_only_what_needs_it()
{
	local worker
	needs_software 'go wrong'
	undying
	loaded order
	something_to_lose
	mkdir streams/s
	worker=$(own)
	inject 'fail=cuStreamCreateWithPriority@*=CUDA_ERROR_OUT_OF_MEMORY'
	refused ENOMEM 'cuStreamCreateWithPriority: CUDA_ERROR_OUT_OF_MEMORY' \
		'echo "kept u8:7 stream=s" >control/fill'
	refused ENOMEM 'launch of order/add failed: .*cuStreamCreateWithPriority: CUDA_ERROR_OUT_OF_MEMORY' \
		"echo '$add in:kept i32:1 direct stream=s' >control/launch"
	inject
	nothing_was_lost "$worker"
	echo "$add in:kept i32:1 kept stream=s" >control/launch
	is "$(od -A n -t x4 -N 4 allocations/kept/data)" ' 07070708'
}

test_a_stream_that_the_driver_does_not_destroy_costs_nothing()
{
	local worker
	needs_software 'go wrong'
	undying
	something_to_lose
	mkdir streams/s
	echo 'kept u8:7 stream=s' >control/fill
	worker=$(own)
	inject 'fail=cuStreamDestroy_v2@*=CUDA_ERROR_INVALID_HANDLE'
	eventually 'rmdir streams/s'
	echo 'kept u8:7' >control/fill
	inject
	nothing_was_lost "$worker"
	mkdir streams/s
	echo 'kept u8:7 stream=s' >control/fill
	nothing_was_lost "$worker"
}

# The first of two blocks can't be mapped. Kernels on the second block run, in their order.
test_what_stands_beside_a_refused_mapping_is_done()
{
	local worker
	needs_software 'go wrong'
	undying
	loaded order
	something_to_lose
	echo 'x 4M' >control/alloc
	echo 'y 4M' >control/alloc
	is_zero allocations/x/data
	is_zero allocations/y/data
	worker=$(own)
	inject 'delay=cuMemImportFromShareableHandle@*=50ms' \
		'fail=cuMemMap@1=CUDA_ERROR_OUT_OF_MEMORY'
	echo "$add in:kept i32:1 x wait=0" >control/launch
	echo "$add in:kept i32:2 y wait=0" >control/launch
	echo "$add in:y i32:3 kept wait=0" >control/launch
	refused ENOMEM 'cuMemMap: CUDA_ERROR_OUT_OF_MEMORY' 'echo default >control/synchronize'
	inject
	is "$(own)" "$worker"
	is "$(od -A n -t x4 -N 4 allocations/x/data)" ' 00000000'
	is "$(od -A n -t x4 -N 4 allocations/kept/data)" ' 0707070c'
}

# The old process is stopped, so its checkpoint takes seconds.
test_after_a_time_limit_the_next_worker_starts_at_once()
{
	local old given_up took
	undying
	loaded
	loaded order
	something_to_lose
	old=$(own)
	echo 'x 64' >control/alloc
	echo 'order add grid=1 block=1 in:kept i32:1 x' >control/launch
	echo 'x u8:0' >control/fill
	endless x timeout=1
	stop "$old"
	eventually 'grep -q "lost allocations/direct" events'
	given_up=${EPOCHREALTIME/./}
	eventually 'grep -q "worker_start owners/.* run=2" events'
	took=$(((${EPOCHREALTIME/./} - given_up) / 1000))
	# the housekeeper's next round by itself is a second later
	[ "$took" -lt 700 ] || fail "the next worker came after $took ms"
	[ -e "/proc/$old" ] || fail 'the old process has ended already'
	kill -CONT "$old"
	fails 'echo default >control/synchronize'
}

# The launch waits until the worker has mapped the memory; the time limit runs meanwhile.
test_a_time_limit_counts_while_a_worker_is_told_what_it_needs()
{
	local old
	undying
	loaded
	something_to_lose
	old=$(own)
	echo 'x 64' >control/alloc
	stop "$old"
	endless x timeout=1
	refused ETIMEDOUT 'was ended by its time limit of 1 s' 'echo default >control/synchronize'
	kill -CONT "$old" 2>/dev/null || true
}

test_the_mover_outlives_a_mapping_that_is_refused()
{
	local mover
	needs_software 'go wrong'
	undying
	mover=$(workers_of "$T/main" mover)
	echo 'x 4M' >control/alloc
	inject 'fail=cuMemMap@*=CUDA_ERROR_OUT_OF_MEMORY'
	refused EIO 'zeroing of allocation x .*cuMemMap: CUDA_ERROR_OUT_OF_MEMORY' \
		'head -c 4 allocations/x/data'
	inject
	is_zero allocations/x/data
	is "$(workers_of "$T/main" mover)" "$mover"
}

test_a_worker_that_hangs_in_a_mapping_still_writes_its_memory_out()
{
	needs_software 'be slow'
	loaded order
	echo 'kept 1M kind=managed' >control/alloc
	echo 'kept u8:7' >control/fill
	echo 'x 64' >control/alloc
	echo 'y 4M' >control/alloc
	is_zero allocations/x/data
	is_zero allocations/y/data
	inject 'delay=cuMemMap@*=30s'
	echo 'order add grid=1 block=1 in:x i32:1 y' 2>"$T/said" >control/launch &
	local launching=$!
	until_it_waits $launching
	echo 1 >"owners/$UID/reset"
	inject
	is "$(<allocations/kept/state)" live
	is "$(od -A n -v -t u1 -w1 allocations/kept/data | sort -u | tr -d ' ')" 7
	wait $launching || like "$(<"$T/said")" 'Input/output error'
}

test_a_stopped_worker_is_a_hung_one()
{
	needs_software 'hang'
	echo 'kept 4096' >control/alloc
	echo sound >allocations/kept/data
	echo 'm 4096 kind=managed' >control/alloc
	stop "$(own)"
	timeout 30 bash -c "echo 1 >owners/$me/reset"
	is "$(head -c 5 allocations/kept/data)" sound
	refused ESTALE 'was reset, and it could not be written out; free it' 'cat allocations/m/data'
}

# ---- workers that are killed ----

test_a_killed_worker_takes_managed_memory_along_and_says_so()
{
	local name restarts
	needs_software 'lose a worker'
	loaded
	fill_the_house
	restarts=$(<"owners/$me/restarts")
	kill -KILL "$(own)"
	eventually '[ "$(<allocations/managed/state)" = lost ]'
	for name in device small host; do
		cmp "$T/$name" "allocations/$name/data"
		is "$(<"allocations/$name/generation")" 1
	done
	for name in managed onhost direct async; do
		refused ESTALE "allocation $name is lost: the worker that held it was killed by signal 9; free it" \
			"cat allocations/$name/data"
	done
	like "$(<events)" 'lost allocations/managed id=[0-9]+ reason="was killed by signal 9"'
	is "$(<"owners/$me/restarts")" $((restarts + 1))
	echo 'small u8:0' >control/fill
	fails "echo 'faults endless grid=1 block=1 timeout=0.2 small' >control/launch"
	like "$(tail -n 1 errors)" ETIMEDOUT
}

test_a_worker_that_dies_while_it_rescues_loses_what_was_not_written()
{
	local i state
	needs_software 'lose a worker'
	loaded
	for i in 1 2 3; do
		echo "m$i 8M kind=managed" >control/alloc
		echo "$i" >"allocations/m$i/data"
	done
	echo 'x 64' >control/alloc
	endless x
	stop "$(own)"
	echo 1 >"owners/$me/reset" &
	sleep 0.1
	kill -KILL $(own) 2>/dev/null || true
	wait $!
	for i in 1 2 3; do
		state=$(<"allocations/m$i/state")
		[ "$state" = lost ] || is "$(head -c 1 "allocations/m$i/data")" "$i"
	done
	is "$(<allocations/x/state)" live
}

test_a_mover_that_is_killed_while_data_moves_is_repaired()
{
	local i writers=()
	needs_software 'lose the mover'
	undying
	for i in 1 2 3; do
		echo "x$i 20M" >control/alloc
		head -c 20M /dev/urandom >"$T/bytes.$i"
		cat "$T/bytes.$i" >"allocations/x$i/data" &
		writers+=($!)
	done
	for i in 1 2; do
		kill -KILL $(workers_of "$T/main" mover) 2>/dev/null || true
		eventually '[ -n "$(workers_of "$T/main" mover)" ]'
	done
	for i in "${writers[@]}"; do
		wait "$i"
	done
	for i in 1 2 3; do
		cmp "$T/bytes.$i" "allocations/x$i/data"
	done
}

# ---- the end of the broker ----

# Starts a broker for this case alone and an endless kernel in the broker's worker.
start_spinning()
{
	needs_kernels
	mkdir -p "$T/own"
	broker_start "$T/own" --driver "$(driver own)"
	mkdir "$O/modules/faults"
	cp "$GPUMEM_KERNELS/faults.ptx" "$O/modules/faults/image"
	echo 'x 100M' >"$O/control/alloc"
	echo 'm 1M kind=managed' >"$O/control/alloc"
	echo 'd 1M kind=direct' >"$O/control/alloc"
	(cd "$O" && endless x)
	[ "$(<"$O/allocations/x/state")" = busy ]
}

nothing_is_left()
{
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
}

test_sigterm_ends_the_broker_and_a_kernel_that_never_ends()
{
	local begin=$SECONDS
	start_spinning
	kill -TERM "$(<"$T/own/pid")"
	broker_ended "$T/own"
	[ $((SECONDS - begin)) -le 25 ]
	fails 'is_mounted "$O"'
	nothing_is_left
}

# Lines under way and lines queued behind these fail, with a sentence.
test_sigterm_fails_the_lines_that_it_ends()
{
	local waiting behind other
	start_spinning
	echo default >"$O/control/synchronize" 2>"$T/waiting" &
	waiting=$!
	until_it_waits $waiting
	echo 'x u8:7' 2>"$T/behind" >"$O/control/fill" &
	behind=$!
	until_it_waits $behind
	echo 'faults misaligned grid=1 block=1 x' 2>"$T/other" >"$O/control/launch" &
	other=$!
	until_it_waits $other
	kill -TERM "$(<"$T/own/pid")"
	! wait $waiting || fail 'the kernel that was ended succeeded'
	! wait $behind || fail 'what stood behind it succeeded'
	! wait $other || fail 'the kernel that stood behind it succeeded'
	like "$(<"$T/waiting")" 'Input/output error'
	like "$(<"$T/behind")" 'Input/output error|Stale file handle'
	like "$(<"$T/other")" 'Input/output error|Stale file handle'
	broker_ended "$T/own"
}

test_an_unmount_ends_the_broker_and_a_kernel_that_never_ends()
{
	local begin=$SECONDS
	start_spinning
	unmount "$O"
	broker_ended "$T/own"
	[ $((SECONDS - begin)) -le 25 ]
	nothing_is_left
}

test_a_broker_that_is_killed_leaves_no_worker_and_a_mount_that_can_be_taken_over()
{
	start_spinning
	kill -KILL "$(<"$T/own/pid")"
	nothing_is_left
	broker_start "$T/own" --driver "$(driver own)"
	is "$(ls "$O/allocations")" ''
	is "$(value_of "$O/status" bytes)" 0
	echo 'x 400M' >"$O/control/alloc"
	broker_stop "$T/own"
	nothing_is_left
}

test_nothing_new_is_accepted_while_the_broker_ends()
{
	local line
	start_spinning
	exec 3<>"$O/control/alloc" 4<>"$O/allocations/x/data" 5<>"$O/control/fill" \
		6<>"$O/control/launch" 7<>"$O/modules/faults/functions/trap/launch"
	kill -TERM "$(<"$T/own/pid")"
	eventually "! is_mounted '$O'"
	cd /
	for line in 'echo "y 4096" >&3' 'head -c 1 <&4' 'echo "m u8:1" >&5' \
		'echo "faults trap grid=1 block=1" >&6' 'echo "grid=1 block=1" >&7'; do
		! run "$line" 2>"$T/said" || fail "accepted: $line"
		like "$(<"$T/said")" "${message[ESTALE]}|Transport endpoint|Software caused"
	done
	exec 3>&- 4>&- 5>&- 6>&- 7>&-
	broker_ended "$T/own"
	nothing_is_left
}

main "$@"
