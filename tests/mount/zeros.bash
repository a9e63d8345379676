#!/bin/bash
# Owed zeros: what a truncation or a former owner left behind is never seen, also where
# the operation that should have written over it fails.
. "${BASH_SOURCE%/*}/lib.bash"

fill_fails='fail=cuMemsetD32Async@1=CUDA_ERROR_INVALID_VALUE'
copy_fails='fail=cuMemcpyDtoDAsync_v2@1=CUDA_ERROR_INVALID_VALUE'
zeros_fail='fail=cuMemsetD8Async@*=CUDA_ERROR_INVALID_VALUE'

# truncated NAME [SIZE]: an allocation of 4 MiB of text, truncated to SIZE.
truncated()
{
	echo "$1 4M" >control/alloc
	yes secret | dd of="allocations/$1/data" bs=4M iflag=fullblock count=1 conv=notrunc status=none
	truncate -s "${2-0}" "allocations/$1/data"
}

mover()
{
	workers_of "$T/main" mover
}

test_a_truncation_runs_nothing()
{
	needs_software 'go wrong'
	truncated x
	inject "$zeros_fail"
	: >allocations/x/data
	truncate -s 100 allocations/x/data
	refused EIO 'zeroing of allocation x .*failed' 'head -c 1 allocations/x/data'
	inject
	is_zero allocations/x/data
}

test_copies_and_fills_of_all_that_is_owed_need_no_zeros()
{
	needs_software 'go wrong'
	echo 'a 4M' >control/alloc
	yes | dd of=allocations/a/data bs=4M iflag=fullblock count=1 conv=notrunc status=none
	truncated used
	for i in 1 2 3; do echo "new$i 4M" >control/alloc; done
	inject "$zeros_fail"
	echo 'new1 from=a' >control/copy
	cp allocations/a/data allocations/new2/data
	cp allocations/a/data allocations/used/data
	echo 'new3 f32:1' >control/fill
	inject
	for i in new1 new2 used; do
		cmp allocations/a/data "allocations/$i/data"
	done
	is "$(od -A n -v -t f4 -w4 allocations/new3/data | sort -u | tr -d ' ')" 1
}

test_copies_one_after_the_other_need_no_zeros()
{
	needs_software 'go wrong'
	echo 'a 4M' >control/alloc
	yes | dd of=allocations/a/data bs=4M iflag=fullblock count=1 conv=notrunc status=none
	truncated x
	inject "$zeros_fail"
	for i in 0 1 2; do echo "x+${i}M from=a+${i}M length=1M wait=0"; done >control/copy
	echo default >control/synchronize
	refused EIO 'zeroing of allocation x .*failed' 'tail -c 1M allocations/x/data'
	cmp -n 3145728 <(dd if=allocations/x/data bs=1M count=3 status=none) allocations/a/data
	inject
	is "$(tail -c 1M allocations/x/data | tr -d '\0' | wc -c)" 0
}

test_a_fill_that_fails_leaves_zeros()
{
	needs_software 'go wrong'
	truncated x
	inject "$fill_fails"
	refused EINVAL 'fill of allocation x .*cuMemsetD32Async.* failed' 'echo "x f32:1" >control/fill'
	is_zero allocations/x/data
}

test_a_copy_that_fails_leaves_zeros()
{
	needs_software 'go wrong'
	echo 'a 4M' >control/alloc
	is_zero allocations/a/data
	truncated x
	inject "$copy_fails"
	refused EINVAL 'copy of allocation x from a .*cuMemcpyDtoDAsync.* failed' 'echo "x from=a" >control/copy'
	is_zero allocations/x/data
}

# Memory that was just freed stands for memory of another user.
test_a_new_allocation_whose_first_fill_fails_shows_nothing_old()
{
	local address
	needs_software 'go wrong'
	echo 'x 64K' >control/alloc
	yes secret | head -c 64K >allocations/x/data
	address=$(<allocations/x/address)
	echo 'beside 64K' >control/alloc
	rmdir allocations/x
	eventually 'echo "y 64K" >control/alloc && [ "$(<allocations/y/address)" = '"$address"' ] ||
		! rmdir allocations/y'
	inject "$fill_fails"
	refused EINVAL 'fill of allocation y .*failed' 'echo "y f32:1" >control/fill'
	is_zero allocations/y/data
}

test_only_what_is_owed_becomes_zeros()
{
	needs_software 'go wrong'
	truncated x 1M
	inject "$fill_fails"
	refused EINVAL 'fill of allocation x .*failed' 'echo "x f32:1 length=2M" >control/fill'
	cmp allocations/x/data <(yes secret | head -c 1M; head -c 3M /dev/zero)
}

test_a_copy_that_ends_its_worker_each_time_leaves_zeros()
{
	needs_software 'go wrong'
	echo 'a 4M' >control/alloc
	is_zero allocations/a/data
	truncated x
	inject 'kill=cuMemcpyDtoDAsync_v2@1'
	refused EIO 'copy of allocation x from a: the worker was killed by signal 9 before it answered' \
		'echo "x from=a" >control/copy'
	is_zero allocations/x/data
}

test_a_copy_between_what_can_not_be_mapped_leaves_zeros()
{
	local mover
	needs_software 'go wrong'
	echo 'a 4M' >control/alloc
	is_zero allocations/a/data
	truncated x
	undying
	mover=$(mover)
	kill -KILL "$mover"
	eventually "[ \"\$(mover)\" != $mover ] && [ -n \"\$(mover)\" ]"
	inject 'fail=cuMemMap@1=CUDA_ERROR_OUT_OF_MEMORY'
	refused ENOMEM 'cuMemMap: CUDA_ERROR_OUT_OF_MEMORY' 'echo "x from=a" >control/copy'
	inject
	is_zero allocations/x/data
}

# The copy begins behind the zeroing of its source, and is refused.
test_a_copy_from_what_could_not_be_zeroed_leaves_zeros()
{
	local reader mover
	needs_software 'go wrong'
	truncated a
	truncated x
	undying
	mover=$(mover)
	inject 'fail=cuMemsetD8Async@1=CUDA_ERROR_INVALID_VALUE'
	stop "$mover"
	cat allocations/a/data >"$T/read" 2>"$T/said" &
	reader=$!
	until_it_waits $reader
	echo 'x from=a wait=0' >control/copy
	kill -CONT "$mover"
	fails 'wait $reader'
	refused EIO 'zeroing of allocation a .*failed' 'echo default >control/synchronize'
	is_zero allocations/x/data
	is_zero allocations/a/data
}

test_a_copy_within_an_allocation_reads_no_owed_zeros()
{
	truncated x
	echo 'x from=x+2M length=2M' >control/copy
	is_zero allocations/x/data
}

# behind_a_failing_fill RULE...: a reader behind a fill that fails with RULE; $reader
behind_a_failing_fill()
{
	local mover
	needs_software 'go wrong'
	undying
	truncated x
	mover=$(mover)
	inject "$@"
	stop "$mover"
	echo 'x f32:1 wait=0' >control/fill
	cat allocations/x/data >"$T/read" 2>"$T/said" &
	reader=$!
	until_it_waits $reader
	kill -CONT "$mover"
}

test_a_reader_behind_a_fill_that_fails_reads_zeros()
{
	behind_a_failing_fill "$fill_fails"
	wait $reader
	is "$(stat -c %s "$T/read")" 4194304
	is_zero "$T/read"
	fails 'echo default >control/synchronize'
}

test_where_the_zeros_fail_too_a_reader_is_told()
{
	behind_a_failing_fill "$fill_fails" "$zeros_fail"
	fails 'wait $reader'
	like "$(<"$T/said")" 'Input/output error'
	is "$(stat -c %s "$T/read")" 0
	like "$(grep data errors | tail -n 1)" \
		'allocations/x/data EIO fill of allocation x .*cuMemsetD32Async.*; but its zeroing of allocation x .*cuMemsetD8Async.* failed'
	refused EIO 'zeroing of allocation x .*failed' 'head -c 1 allocations/x/data'
	inject
	is_zero allocations/x/data
	fails 'echo default >control/synchronize'
}

# The program has the memory mapped: nothing tells the broker of its next look.
test_a_truncation_of_leased_memory_is_done_at_once()
{
	needs_software 'go wrong'
	truncated x
	exec 5<>allocations/x/lease
	like "$(head -n 1 <&5)" '^version 1'
	inject "$zeros_fail"
	: >allocations/x/data
	eventually 'tail -n 1 errors | grep -q "allocations/x/data EIO zeroing of allocation x .*failed"'
	exec 5>&-
	inject
	is_zero allocations/x/data
}

main "$@"
