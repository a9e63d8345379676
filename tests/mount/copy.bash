#!/bin/bash
# Copies between allocations: by cp, by copy_file_range(2), by control/copy.
. "${BASH_SOURCE%/*}/lib.bash"

# Makes two allocations of SIZE and writes text to `a`.
two()
{
	echo "a $1 kind=${2-device}" >control/alloc
	echo "b $1 kind=${3-device} device=${4-0}" >control/alloc
	seq 1000000 | head -c "$1" >"$T/text"
	cp "$T/text" allocations/a/data
}

test_cp_copies_every_kind_to_every_kind()
{
	local from to
	for from in $kinds; do
		for to in $kinds; do
			two 1500001 "$from" "$to"
			cp allocations/a/data allocations/b/data
			cmp "$T/text" allocations/b/data || fail "$from to $to"
			rmdir allocations/a allocations/b
		done
	done
}

test_a_line_copies_every_kind_to_every_kind()
{
	local from to
	for from in $kinds; do
		for to in $kinds; do
			two 1500001 "$from" "$to"
			echo 'b from=a' >control/copy
			cmp "$T/text" allocations/b/data || fail "$from to $to"
			rmdir allocations/a allocations/b
		done
	done
}

test_copies_cross_devices()
{
	local from to
	needs_devices 2
	for from in $kinds; do
		for to in $kinds; do
			two 1500001 "$from" "$to" 1
			cp allocations/a/data allocations/b/data
			cmp "$T/text" allocations/b/data || fail "cp, $from to $to"
			: >allocations/b/data
			echo 'b from=a' >control/copy
			cmp "$T/text" allocations/b/data || fail "copy, $from to $to"
			rmdir allocations/a allocations/b
		done
	done
}

test_copy_file_range_takes_the_whole_range_at_once()
{
	two 8000000
	is "$(py <<-'EOF'
		a = os.open("allocations/a/data", os.O_RDONLY)
		b = os.open("allocations/b/data", os.O_WRONLY)
		show(os.copy_file_range, a, b, 8000000)
		show(os.copy_file_range, a, b, 1000, 7999500, 0)
		show(os.copy_file_range, a, b, 1000, 8000000, 0)
	EOF
	)" $'8000000\n500\n0'
}

test_copy_file_range_past_the_target_is_enospc()
{
	two 10000
	is "$(py <<-'EOF'
		a = os.open("allocations/a/data", os.O_RDONLY)
		b = os.open("allocations/b/data", os.O_WRONLY)
		show(os.copy_file_range, a, b, 1000, 0, 10000)
	EOF
	)" ENOSPC
	like "$(tail -n 1 errors)" ' ENOSPC .*b.*10000'
}

test_cp_into_a_smaller_allocation_is_enospc()
{
	echo 'a 10000' >control/alloc
	echo 'b 5000' >control/alloc
	yes | head -c 10000 >allocations/a/data
	denied ENOSPC 'cp allocations/a/data allocations/b/data'
}

test_cp_into_a_larger_allocation_leaves_zeros_behind()
{
	echo 'a 5000' >control/alloc
	echo 'b 10000' >control/alloc
	yes | head -c 5000 >allocations/a/data
	yes n | head -c 10000 >allocations/b/data
	cp allocations/a/data allocations/b/data
	cmp allocations/b/data <(yes | head -c 5000; head -c 5000 /dev/zero)
}

test_cp_to_itself_is_refused_by_cp()
{
	two 10000
	fails 'cp allocations/a/data allocations/a/data'
	cmp "$T/text" allocations/a/data
}

test_offsets_and_lengths_are_taken()
{
	two 1000000
	cp "$T/text" "$T/model"
	truncate -s 0 "$T/model" && truncate -s 1000000 "$T/model"
	dd if="$T/text" of="$T/model" bs=1 skip=777 seek=12345 count=5001 conv=notrunc status=none
	echo 'b+12345 from=a+777 length=5001' >control/copy
	cmp "$T/model" allocations/b/data
}

test_without_a_length_what_follows_the_offset_is_copied()
{
	two 10000
	echo 'b from=a+4000' >control/copy
	cmp <(tail -c +4001 "$T/text") <(head -c 6000 allocations/b/data)
	cmp <(tail -c +6001 allocations/b/data) <(head -c 4000 /dev/zero)
}

test_sizes_in_a_copy_may_have_suffixes()
{
	two 10000
	echo 'b+1K from=a+2K length=1k' >control/copy
	cmp <(dd if=allocations/b/data bs=1K skip=1 count=1 status=none) \
		<(dd if="$T/text" bs=1K skip=2 count=1 status=none)
}

test_a_copy_within_one_allocation()
{
	two 10000
	echo 'a from=a+5000 length=5000' >control/copy
	cmp <(tail -c +5001 "$T/text") <(head -c 5000 allocations/a/data)
}

test_ranges_that_overlap_are_copied_as_memmove_or_refused()
{
	two 10000
	if echo 'a+100 from=a length=5000' 2>/dev/null >control/copy; then
		cmp <(head -c 5000 "$T/text") <(dd if=allocations/a/data bs=100 skip=1 count=50 status=none)
	else
		cmp "$T/text" allocations/a/data
	fi
}

test_copy_ranges_are_checked()
{
	two 10000
	refused ERANGE 'rest of b \(5000 bytes\)' "echo 'b+5000 from=a length=5001' >control/copy"
	refused ERANGE 'a.*10000' "echo 'b from=a+5000 length=5001' >control/copy"
	refused ERANGE 'a.*10000' "echo 'b from=a+10001' >control/copy"
	refused EOVERFLOW '64 bits' "echo 'b+18446744073709551615 from=a length=2' >control/copy"
	refused EINVAL 'length' "echo 'b from=a length=0' >control/copy"
	is_zero allocations/b/data
}

test_copy_names_are_checked()
{
	two 10000
	refused ENOENT 'nothing' "echo 'b from=nothing' >control/copy"
	refused ENOENT 'nothing' "echo 'nothing from=a' >control/copy"
	refused EINVAL 'from' "echo 'b' >control/copy"
}

test_a_copy_that_does_not_wait_is_seen_by_the_next_read()
{
	two 4000000
	echo 'b from=a wait=0' >control/copy
	cmp "$T/text" allocations/b/data
	echo default >control/synchronize
}

test_copies_on_streams_are_ordered_by_what_they_touch()
{
	local i
	two 1000000
	echo 'c 1000000' >control/alloc
	mkdir streams/s streams/t
	for i in 1 2 3 4 5 6 7 8; do
		echo "a u32:$i" >control/fill
		echo 'b from=a stream=s wait=0' >control/copy
		echo 'c from=b stream=t wait=0' >control/copy
		is "$(od -A n -t u4 -N 4 allocations/c/data | xargs)" "$i"
	done
	echo s >control/synchronize
	echo t >control/synchronize
}

test_the_bytes_of_a_chain_arrive()
{
	local kind
	seq 300000 | head -c 1000003 >"$T/text"
	echo 'start 1000003' >control/alloc
	cp "$T/text" allocations/start/data
	last=start
	for kind in host direct device async host; do
		echo "to$kind.$last 1000003 kind=$kind" >control/alloc 2>/dev/null ||
			fail "$(tail -n 1 errors)"
		cp "allocations/$last/data" "allocations/to$kind.$last/data"
		last=to$kind.$last
	done
	cmp "$T/text" "allocations/$last/data"
}

main "$@"
