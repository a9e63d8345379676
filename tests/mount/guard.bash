#!/bin/bash
# Guards: kernels that use an element too many, behind the end or before the start.
. "${BASH_SOURCE%/*}/lib.bash"

page=$((2 << 20))

loaded()
{
	needs_kernels
	mkdir modules/bounds
	cp "$GPUMEM_KERNELS/bounds.ptx" modules/bounds/image
}

# faults KERNEL ELEMENTS ARG...: the launch fails, as an address is wrong.
faults()
{
	refused EFAULT "kernel bounds/$1 failed .*CUDA_ERROR_ILLEGAL_ADDRESS" \
		"echo 'bounds $1 elements=$2 ${*:3}' >control/launch"
}

# runs KERNEL ELEMENTS ARG...: the launch succeeds.
runs()
{
	echo "bounds $1 elements=$2 ${*:3}" >control/launch || fail "$* failed"
}

# neighbour NAME SIZE KIND: an allocation of known bytes, which new memory has only after
# the first use. untouched NAME...: has them still.
neighbour()
{
	echo "$1 $2 kind=$3" >control/alloc
	echo "$1 u8:5" >control/fill
}

untouched()
{
	local name
	for name; do
		is "$(tr -d '\005' <"allocations/$name/data" | wc -c)" 0
	done
}

# mapped X Y: the worker has both mapped, and uses nothing of them.
mapped()
{
	runs load_behind 1 u32:0 "in:$1" "in:$2"
}

# The first floats of an allocation.
floats()
{
	od -A n -t f4 -v -N $((${2-4} * 4)) "allocations/$1/data" | xargs
}

test_without_a_guard_the_neighbour_is_overwritten()
{
	loaded
	echo 'x 4096' >control/alloc
	echo 'y 4096' >control/alloc
	[ "$(($(<allocations/x/address) + 4096))" = "$(($(<allocations/y/address)))" ] ||
		skip 'x and y are no neighbours'
	echo 'y f32:5' >control/fill
	runs store_behind 1025 u32:1024 x
	is "$(floats y 2)" '1024 5'
}

test_a_store_behind_the_end_faults()
{
	local kind size n
	loaded
	for kind in device host; do
		for size in 4 4000 4096 $((1 << 20)) $page 3000004 $((2 * page)); do
			n=$((size / 4))
			neighbour before $size $kind
			echo "x $size kind=$kind guard=1" >control/alloc
			neighbour behind $size $kind
			is "$(<allocations/x/guard)" 1
			runs store_behind $n u32:$((n - 1)) x
			mapped before behind
			faults store_behind $((n + 1)) u32:$n x
			untouched before behind
			is "$(od -A n -t f4 -j $((size - 4)) allocations/x/data | awk '{ print $1 + 0 }')" $((n - 1))
			printf '%s\n' before x behind >control/free
		done
	done
}

test_a_byte_behind_the_end_is_enough()
{
	local size
	loaded
	for size in 1 17 4095 4097 1000003; do
		echo "x $size guard=1" >control/alloc
		runs store_byte_behind "$size" u32:$((size - 1)) x
		faults store_byte_behind $((size + 1)) u32:"$size" x
		echo x >control/free
	done
}

test_a_load_and_an_atomic_behind_the_end_fault()
{
	loaded
	echo 'x 4000 guard=1' >control/alloc
	echo 'y 4000' >control/alloc
	runs load_behind 999 u32:999 in:x y
	faults load_behind 1000 u32:1000 in:x y
	faults add_behind 1001 u32:1000 x
}

test_both_ends_are_guarded_where_whole_pages_are()
{
	local kind size
	loaded
	for kind in device host; do
		for size in $page $((3 * page)); do
			neighbour before $page $kind
			echo "x $size kind=$kind guard=2" >control/alloc
			neighbour behind $page $kind
			is "$(<allocations/x/guard)" 2
			runs store_behind $((size / 4)) u32:$((size / 4 - 1)) x
			mapped before behind
			faults store_behind $((size / 4 + 1)) u32:$((size / 4)) x
			mapped before behind
			faults store_before 1 u32:1 x
			mapped before behind
			faults load_before 1 u32:1 in:x behind
			untouched before behind
			printf '%s\n' before x behind >control/free
		done
	done
}

# With guard=1 the bytes before the start are the block's own: nobody's.
test_a_store_before_the_start_harms_nobody_with_guard_1()
{
	loaded
	neighbour before 4096 device
	echo 'x 4096 guard=1' >control/alloc
	runs store_before 1 u32:1 x
	untouched before
	is_zero allocations/x/data
}

# said KERNEL ELEMENTS WHAT WHERE ARG...: the sentence of the fault says what was done where.
# Only the software GPU tells.
said()
{
	refused EFAULT "kernel bounds/$1 failed \\(cuEvent[A-Z][a-z]+: CUDA_ERROR_ILLEGAL_ADDRESS\\): $3, $4, block [0-9]+,0,0, thread [0-9]+,0,0$" \
		"echo 'bounds $1 elements=$2 ${*:5}' >control/launch"
}

# line_of NAME: the place of the comment `LINE NAME` in the source.
line_of()
{
	echo "bounds\\.cu:$(grep -n "// LINE $1\$" "$here/../kernels/bounds.cu" | cut -d : -f 1)"
}

test_the_sentence_names_what_was_done_and_how_far_from_what()
{
	local x z
	needs_software 'name an address'
	loaded
	echo 'x 4000 guard=1' >control/alloc
	echo 'y 4000' >control/alloc
	echo "z $page guard=2" >control/alloc
	x=$(($(<allocations/x/address)))
	z=$(($(<allocations/z/address)))
	said store_behind 1001 "a store of 4 bytes at $(printf 0x%x $((x + 4000))), right behind the end of x \\(4000 bytes\\)" \
		"$(line_of store_behind)" u32:1000 x
	said store_behind 1001 "a store of 4 bytes at $(printf 0x%x $((x + 4000))), right behind the end of x \\(4000 bytes\\)" \
		"$(line_of store_behind)" u32:1000 x+16
	said load_behind 1000 "a load of 4 bytes at $(printf 0x%x $((x + 4000))), right behind the end of x \\(4000 bytes\\)" \
		"$(line_of load_behind), inlined at bounds\\.cu:[0-9]+" u32:1000 in:x y
	said load_before 1 "a load of 4 bytes at $(printf 0x%x $((z - 4))), 4 bytes before the start of z \\($page bytes\\)" \
		"$(line_of load_before)" u32:1 in:z y
	said store_before 1 "a store of 4 bytes at $(printf 0x%x $((z - 4))), 4 bytes before the start of z \\($page bytes\\)" \
		"$(line_of store_before)" u32:1 z
	said store_byte_behind 4001 "a store of 1 byte at $(printf 0x%x $((x + 4000))), right behind the end of x \\(4000 bytes\\)" \
		"$(line_of store_byte_behind)" u32:4000 x
	said add_behind 1001 "an atomic operation of 4 bytes at $(printf 0x%x $((x + 4000))), right behind the end of x \\(4000 bytes\\)" \
		"[a-z_]+.hpp:[0-9]+, inlined at $(line_of add_behind)" u32:1000 x
}

test_what_is_near_an_address_is_named_and_nothing_far()
{
	needs_software 'name an address'
	loaded
	echo 'x 4000 guard=1' >control/alloc
	mkdir modules/faults && cp "$GPUMEM_KERNELS/faults.ptx" modules/faults/image
	refused EFAULT 'ILLEGAL_ADDRESS\): a store of 4 bytes at 0x10, line [0-9]+ of the PTX, block 0,0,0, thread 0,0,0$' \
		'echo "faults wild grid=1 block=1 u64:16" >control/launch'
	refused EFAULT "ILLEGAL_ADDRESS\\): a store of 4 bytes at $(printf 0x%x $(($(<allocations/x/address) + 4100))), 100 bytes behind the end of x \\(4000 bytes\\), line" \
		"echo 'faults wild grid=1 block=1 u64:$(($(<allocations/x/address) + 4100))' >control/launch"
	refused EFAULT "MISALIGNED_ADDRESS\\): a misaligned store of 4 bytes at $(printf 0x%x $(($(<allocations/x/address) + 1))), byte 1 of x \\(4000 bytes\\), line" \
		'echo "faults misaligned grid=1 block=1 x" >control/launch'
}

# The allocations of others are not the kernel's business.
test_the_sentence_names_no_allocation_that_its_owner_may_not_read()
{
	local address
	needs_root 'another user'
	needs_software 'name an address'
	loaded
	echo "theirs $page guard=1" >control/alloc
	address=$(($(<allocations/theirs/address) + page))
	by 1234 run 'mkdir modules/mine && cp "$GPUMEM_KERNELS/faults.ptx" modules/mine/image'
	by 1234 refused EFAULT "a store of 4 bytes at $(printf 0x%x $address), line" \
		"echo 'mine wild grid=1 block=1 u64:$address' >control/launch"
	chmod 644 allocations/theirs
	by 1234 refused EFAULT "a store of 4 bytes at $(printf 0x%x $address), right behind the end of theirs \\(" \
		"echo 'mine wild grid=1 block=1 u64:$address' >control/launch"
}

# The worker sends so many bytes and no more, and a sentence has a limit, too.
test_a_long_message_is_cut()
{
	local long
	needs_software 'name an address'
	needs_kernels
	long=$(printf 'n%.0s' {1..255})
	mkdir modules/bounds
	sed "s#[^/\"]*\.cu\"#$long\"#; s#[^/\"]*\.hpp\"#$long\"#" "$GPUMEM_KERNELS/bounds.ptx" >modules/bounds/image
	echo 'x 4000 guard=1' >control/alloc
	refused EFAULT "right behind the end of x \\(4000 bytes\\), n{255}:[0-9]+, inlined at n+" \
		'echo "bounds add_behind elements=1001 u32:1000 x" >control/launch'
}

test_a_launch_that_nobody_waits_for_has_the_sentence_too()
{
	needs_software 'name an address'
	loaded
	echo 'x 4000 guard=1' >control/alloc
	echo 'bounds store_behind elements=1001 wait=0 u32:1000 x' >control/launch
	fails 'echo default >control/synchronize'
	like "$(cat errors)" 'kernel bounds/store_behind failed .*right behind the end of x \(4000 bytes\), bounds\.cu:'
}

test_the_address_is_as_aligned_as_the_size()
{
	local size address
	for size in 1 4 12 4000 4096 1000000 $page; do
		echo "x $size guard=1" >control/alloc
		address=$(($(<allocations/x/address)))
		is $(((address + size) % page)) 0
		is $((address % (size & -size))) 0
		echo x >control/free
	done
}

test_what_can_not_be_guarded_is_refused()
{
	local kind
	for kind in direct async managed; do
		refused EOPNOTSUPP "guard=1 is for kind=device and kind=host: the driver itself places kind=$kind" \
			"echo 'x 4096 kind=$kind guard=1' >control/alloc"
	done
	refused EINVAL 'guard=3 is not one of 1, 2' "echo 'x 4096 guard=3' >control/alloc"
	refused EINVAL 'guard=yes is not one of 1, 2' "echo 'x 4096 guard=yes' >control/alloc"
	refused EINVAL 'guard=2 needs a multiple of 2M, .*pages.*, and 3M is none: guard=1 takes any size' \
		"echo 'x 3M guard=2' >control/alloc"
	refused EINVAL 'guard=2 needs a multiple of 4K, .*pages.*, and 5000 is none: guard=1' \
		"echo 'x 5000 kind=host guard=2' >control/alloc"
	[ ! -e allocations/x ]
}

test_guard_is_an_attribute()
{
	local n
	echo 'x0 4096' >control/alloc
	echo 'x1 4096 guard=1' >control/alloc
	echo "x2 $page guard=2" >control/alloc
	for n in 0 1 2; do
		is "$(<"allocations/x$n/guard")" $n
		is "$(value_of "allocations/x$n/status" guard)" $n
	done
}

# Bytes move as ever, at an address inside of a mapping.
test_data_fills_and_copies_are_exact()
{
	local kind other size
	for kind in device host; do
		for other in device host managed; do
			for size in 1 4095 4097 3000001; do
				echo "x $size kind=$kind guard=1" >control/alloc
				echo "y $size kind=$other" >control/alloc
				is_zero allocations/x/data
				head -c "$size" /dev/urandom >"$T/bytes"
				cat "$T/bytes" >allocations/x/data
				cmp "$T/bytes" allocations/x/data
				echo 'y from=x' >control/copy
				cmp "$T/bytes" allocations/y/data
				echo 'x u8:7' >control/fill
				is "$(tr -d '\007' <allocations/x/data | wc -c)" 0
				cp allocations/y/data allocations/x/data
				cmp "$T/bytes" allocations/x/data
				: >allocations/x/data
				is_zero allocations/x/data
				printf '%s\n' x y >control/free
			done
		done
	done
}

test_files_are_loaded_and_saved()
{
	local kind
	mkdir -m 1777 "$T/files"
	head -c 3000001 /dev/urandom >"$T/files/bytes"
	for kind in device host; do
		echo "x 3000001 kind=$kind guard=1" >control/alloc
		echo "x path=$T/files/bytes" >control/load
		cmp "$T/files/bytes" allocations/x/data
		echo "x path=$T/files/$kind" >control/save
		cmp "$T/files/bytes" "$T/files/$kind"
		echo x >control/free
	done
}

test_patterns_of_all_sizes_fill_a_guarded_allocation()
{
	local bytes
	for bytes in 2 4 8; do
		echo "x 1001xu$((bytes * 8)) guard=1" >control/alloc
		echo "x u$((bytes * 8)):515" >control/fill
		is "$(od -A n -t u$bytes -w$bytes -v allocations/x/data | sort -u | xargs)" 515
		echo x >control/free
	done
}

test_a_fault_keeps_bytes_address_and_guard()
{
	local address
	loaded
	echo 'x 4000 guard=1' >control/alloc
	head -c 4000 /dev/urandom >"$T/bytes"
	cat "$T/bytes" >allocations/x/data
	echo 'y 4000 guard=1' >control/alloc
	echo 'y from=x' >control/copy
	address=$(<allocations/x/address)
	faults load_behind 1000 u32:1000 in:y x
	is "$(<allocations/x/address)" "$address"
	cmp "$T/bytes" <(cat allocations/y/data)
	faults add_behind 1001 u32:1000 x
}

test_chmod_keeps_the_guard_and_moves_nothing()
{
	local address
	needs_root 'another user'
	loaded
	echo 'x 4000 guard=1' >control/alloc
	address=$(<allocations/x/address)
	chmod 666 allocations/x
	by 1234 run 'mkdir modules/theirs && cp "$GPUMEM_KERNELS/bounds.ptx" modules/theirs/image'
	by 1234 refused EFAULT 'kernel theirs/store_behind failed .*CUDA_ERROR_ILLEGAL_ADDRESS' \
		'echo "theirs store_behind elements=1001 u32:1000 x" >control/launch'
	by 1234 run 'echo "theirs store_behind elements=1000 u32:999 x" >control/launch'
	is "$(floats x)" '0 1 2 3'
	is "$(<allocations/x/address)" "$address"
	is "$(<allocations/x/generation)" 1
}

test_mmap_of_guarded_host_memory_is_refused_unless_it_starts_with_its_file()
{
	needs_root 'passthrough'
	[ "$(uname -r | awk -F. '{ print ($1 > 6 || ($1 == 6 && $2 >= 9)) }')" = 1 ] ||
		skip 'mmap of host memory needs Linux 6.9'
	echo 'plain 8K kind=host' >control/alloc
	echo 'whole 8K kind=host guard=1' >control/alloc
	echo 'part 5000 kind=host guard=1' >control/alloc
	is "$(py <<-'EOF'
		def word(name):
		    fd = os.open(f"allocations/{name}/data", os.O_RDWR)
		    os.pwrite(fd, b"abcd", 0)
		    return mmap.mmap(fd, 4)[:4].decode()
		import mmap
		show(word, "plain")
		show(word, "whole")
		show(word, "part")
	EOF
	)" $'abcd\nabcd\nENODEV'
}

test_leases_begin_with_the_allocation()
{
	local kind size offset
	for kind in device host; do
		echo "x 5000 kind=$kind guard=1" >control/alloc
		head -c 5000 /dev/urandom >"$T/bytes"
		cat "$T/bytes" >allocations/x/data
		like "$(<allocations/x/lease)" '^version 2'
		offset=$(($(<allocations/x/address) - $(value_of allocations/x/lease mapped_address)))
		is $((offset + 5000)) "$(value_of allocations/x/lease mapped_bytes)"
		is $(($(value_of allocations/x/lease mapped_address) % 4096)) 0
		echo x >control/free
	done
}

test_programs_map_guarded_memory_at_its_address()
{
	local kind
	for kind in device host; do
		echo "x 5000 kind=$kind guard=1" >control/alloc
		yes abc | head -c 5000 >allocations/x/data
		on_driver "$build/tests/client/client" >"$T/answers" <<-'EOF'
			context
			map 1 x w
			info 1
			peek 1 1
			poke 1 4999 77
			suspend 1
			resume 1
			peek 1 4999
			map 2 x any
			info 2
			peek 2 4999
			exit
		EOF
		like "$(grep -c 'same=1 size=5000 ' "$T/answers")" 1
		is "$(grep '^ok [0-9]' "$T/answers" | xargs)" 'ok 98 ok 77 ok 77 ok 77'
		is "$(sed '/^ok/d' "$T/answers")" ''
		eventually '[ -z "$(<leases)" ]'
		is "$(tail -c 1 allocations/x/data)" M
		echo x >control/free
	done
}

test_guarded_memory_comes_back()
{
	local i
	needs_software 'have little memory'
	for i in {1..20}; do
		echo "x 100M guard=1" >control/alloc
		echo "y 100M guard=2" >control/alloc
		printf '%s\n' x y >control/free
	done
}

# ---- gpumem run --check ----

gpumem()
{
	"${AS[@]}" env GPUMEM_MOUNT="$M" "$build/tools/gpumem/gpumem" "$@"
}

# checked STATUS REGEX ARG...: `gpumem run --check bounds.ptx ARG...` ends with STATUS and a
# sentence like REGEX, and leaves nothing behind.
checked()
{
	local said status=0
	said=$(gpumem run --check "$GPUMEM_KERNELS/bounds.ptx" "${@:3}" 2>&1) || status=$?
	[ "$status" = "$1" ] || fail "line ${BASH_LINENO[0]}: status $status, not $1: $said"
	[[ $said =~ $2 ]] || fail "line ${BASH_LINENO[0]}: expected like: $2" "got: $said"
	eventually '[ -z "$(ls modules)" ] && ! ls allocations | grep check'
}

test_run_check_sees_an_element_too_many()
{
	local kind
	needs_kernels
	for kind in $kinds; do
		echo "x 4000 kind=$kind" >control/alloc
		echo 'x u8:7' >control/fill
		checked 0 '^store_behind: .* ms, grid' store_behind elements=4 u32:3 x
		is "$(floats x)" '0 1 2 3'
		checked 1 'kernel run.[0-9]+/store_behind failed .*ILLEGAL_ADDRESS' \
			store_behind elements=1001 u32:1000 x
		# a fault loses direct and async memory, whatever the kernel did
		if [[ $kind == direct || $kind == async ]]; then
			is "$(<allocations/x/state)" lost
		else
			is "$(floats x)" '0 1 2 3'
			is "$(tail -c 3984 allocations/x/data | tr -d '\007' | wc -c)" 0
		fi
		echo x >control/free
	done
}

test_run_check_names_the_allocation_that_was_meant()
{
	needs_kernels
	echo 'x 4000' >control/alloc
	echo "z $page" >control/alloc
	if is_software; then
		checked 1 'a store of 4 bytes at 0x[0-9a-f]+, right behind the end of x \(4000 bytes\), bounds\.cu:[0-9]+, block' \
			store_behind elements=1001 u32:1000 x
		checked 1 'a load of 4 bytes at 0x[0-9a-f]+, 4 bytes before the start of z \(2097152 bytes\), ' \
			load_before elements=1 u32:1 in:z x
	else
		checked 1 'ILLEGAL_ADDRESS\).*; guarded were z \(both ends\), x \(the end\)$' \
			load_before elements=1 u32:1 in:z x
	fi
}

# As on hardware: the driver of this case's broker has no log that would name an address.
test_run_check_says_what_was_guarded()
{
	needs_software 'name no address'
	needs_kernels
	(broker_start "$T/silent" --driver "$(driver silent):fail=cuLogsRegisterCallback@*=CUDA_ERROR_NOT_SUPPORTED")
	M=$T/silent/mnt
	cd "$M"
	echo 'x 4000' >control/alloc
	echo "z $page" >control/alloc
	checked 1 'failed \(cuEvent[A-Z][a-z]+: CUDA_ERROR_ILLEGAL_ADDRESS\); guarded were z \(both ends\), x \(the end\)$' \
		load_before elements=1 u32:1 in:z x
	cd /
	broker_stop "$T/silent"
}

test_run_check_copies_back_what_may_have_been_written()
{
	needs_kernels
	echo 'x 4096' >control/alloc
	echo 'y 4096' >control/alloc
	echo 'x f32:2' >control/fill
	echo 'y f32:1' >control/fill
	# of y the kernel writes what follows the first 16 bytes
	checked 0 '^load_behind: ' load_behind elements=1000 u32:1000 in:x out:y+16
	is "$(floats y 6)" '1 1 1 1 2 2'
	# once as `in:` and once to write is one allocation
	checked 0 '^load_before: ' load_before elements=10 u32:10 in:x+8 x+40
	is "$(floats x)" '2 2 2 2'
}

test_run_check_needs_a_right_to_read()
{
	needs_kernels
	needs_root 'another user'
	echo 'x 4096 mode=622' >control/alloc
	by 1234 checked 1 "^gpumem: x can't be copied for --check: Permission denied" store_behind elements=4 u32:4 out:x
}

test_run_check_passes_other_words_on()
{
	needs_kernels
	checked 1 'there is no allocation nothing' store_behind elements=4 u32:4 nothing
	checked 1 "there is no key 'key'" store_behind elements=4 key=1 u32:4 u64:16
	checked 1 'Bad address|ILLEGAL_ADDRESS' store_behind elements=4 u32:4 u64:16
}

main "$@"
