#!/bin/bash
# Launches: kernels run by a line, checked before, in order, with their errors.
. "${BASH_SOURCE%/*}/lib.bash"

# loaded NAME [FILE]: loads tests/kernels/FILE.cu as module NAME.
loaded()
{
	needs_kernels
	mkdir "modules/$1"
	cp "$GPUMEM_KERNELS/${2-$1}.ptx" "modules/$1/image"
}

# words TYPE NAME [N]: prints the numbers in an allocation on one line.
words()
{
	od -A n -v -t "$1" -N "${3:-64}" "allocations/$2/data" | tr -s ' \n' ' ' | sed 's/^ //;s/ $//'
}

test_saxpy_from_a_shell()
{
	echo 'x 4096xf32' >control/alloc
	echo 'y 4096xf32' >control/alloc
	echo 'x f32:1.5' >control/fill
	loaded saxpy
	is "$(ls modules/saxpy/functions)" saxpy
	echo 'elements=4096 u32:4096 f32:2 in:x y' >modules/saxpy/functions/saxpy/launch
	is "$(words f4 y 8)" '3 3'
	echo 'saxpy saxpy grid=16 block=256 u32:4096 f32:2 in:x y' >control/launch
	is "$(od -A n -t f4 -w4 -v allocations/y/data | sort -u | tr -d ' ')" 6
}

# They need no nvcc: tools/quickstart shows them.
test_the_kernels_of_the_docs_run_and_fault()
{
	local kernels=$here/../../docs/kernels
	mkdir modules/saxpy modules/wild
	cp "$kernels/saxpy.ptx" modules/saxpy/image
	cp "$kernels/wild.ptx" modules/wild/image
	echo 'x 4K' >control/alloc
	echo 'x f32:1.5' >control/fill
	echo 'elements=1024 u32:1024 f32:2 in:x x' >modules/saxpy/functions/saxpy/launch
	refused EFAULT 'kernel wild/wild failed .*CUDA_ERROR_ILLEGAL_ADDRESS' \
		'echo "wild wild grid=1 block=1" >control/launch'
	is "$(words f4 x 8)" '4.5 4.5'
	echo 'elements=1024 u32:1024 f32:1 in:x x' >modules/saxpy/functions/saxpy/launch
	is "$(words f4 x 8)" '9 9'
}

test_the_answer_says_how_long_and_how()
{
	local answer
	loaded order
	echo 'x 64' >control/alloc
	exec 3<>control/launch
	echo 'order slow_set grid=1 block=1 x i32:5 u64:20000000' >&3
	answer=$(cat <&3)
	is "$(awk '{ print $1 }' <<<"$answer" | tr '\n' ' ')" 'elapsed_ns grid block stream '
	[ "$(awk '$1 == "elapsed_ns" { print $2 }' <<<"$answer")" -ge 20000000 ]
	like "$answer" $'grid 1,1,1\nblock 1,1,1\nstream default$'
	echo 'order slow_set elements=1 wait=0 x i32:6 u64:1' >&3
	is "$(cat <&3)" $'grid 1,1,1\nblock 256,1,1\nstream default'
	exec 3>&-
}

test_a_launch_waits_for_its_end_and_without_wait_for_nothing()
{
	loaded order
	echo 'x 64' >control/alloc
	echo 'order slow_set grid=1 block=1 x i32:1 u64:50000000' >control/launch
	is "$(<allocations/x/state)" live
	echo 'order slow_set grid=1 block=1 wait=0 x i32:2 u64:2000000000' >control/launch
	is "$(<allocations/x/state)" busy
	is "$(<streams/default/state)" busy
	is "$(words d4 x 4)" 2
	is "$(<allocations/x/state)" live
}

test_every_type_arrives_as_it_was_given()
{
	loaded order
	echo 'to 120' >control/alloc
	echo 'order values grid=1 block=1 out:to i8:-3 u8:0xff i16:-300 u16:65535 i32:-70000' \
		'u32:4000000000 i64:-5000000000 u64:18446744073709551615 f16:1.5 bf16:-2' \
		'f32:-0.5 f64:nan hex:410000000000000000000000000008c0010002000a000000' >control/launch
	is "$(words d8 to 56)" '-3 255 -300 65535 -70000 4000000000 -5000000000'
	is "$(od -A n -v -t x8 -j 56 -w8 allocations/to/data | tr -d ' ' | tr '\n' ' ')" \
		'ffffffffffffffff 0000000000003e00 000000000000c000 00000000bf000000 7ff8000000000000 0000000000000041 c008000000000000 000000000000000a '
}

test_dimensions_and_shared_memory_arrive_as_they_were_given()
{
	loaded order
	echo 'to 32' >control/alloc
	echo 'order shape grid=3,2,4 block=8,4,2 shared=1K to' >control/launch
	is "$(words u4 to 32)" '3 2 4 8 4 2 1024 7'
	echo 'order shape grid=2 block=33 shared=64K to' >control/launch
	is "$(words u4 to 32)" '2 1 1 33 1 1 65536 7'
	echo 'order shape elements=1000 shared=16 to' >control/launch
	is "$(words u4 to 32)" '4 1 1 256 1 1 16 7'
	echo 'order shape elements=1000 block=128 shared=16 to' >control/launch
	is "$(words u4 to 32)" '8 1 1 128 1 1 16 7'
}

test_offsets_point_into_an_allocation()
{
	loaded order
	echo 'x 64' >control/alloc
	echo 'order add grid=1 block=1 in:x+4 i32:7 out:x+8' >control/launch
	echo 'order add grid=1 block=1 in:x+8 i32:7 x+0x10' >control/launch
	is "$(words d4 x 20)" '0 0 7 0 14'
}

test_all_kinds_are_arguments()
{
	local kind
	loaded order
	for kind in $kinds; do
		echo "x 4K kind=$kind" >control/alloc
		printf 'AAAA' | dd of=allocations/x/data conv=notrunc status=none
		echo 'order add grid=1 block=1 in:x i32:1 x+8' >control/launch
		is "$(words d4 x 12)" '1094795585 0 1094795586'
		rmdir allocations/x
	done
}

test_one_stream_goes_in_order()
{
	local i
	loaded order
	echo 'x 64' >control/alloc
	for i in 1 2 3 4 5 6 7 8; do
		echo 'order add grid=1 block=1 wait=0 in:x i32:1 x'
	done | dd of=control/launch bs=64K iflag=fullblock status=none
	is "$(words d4 x 4)" 8
}

test_a_queue_of_a_thousand()
{
	loaded order
	echo 'x 64' >control/alloc
	yes 'order add grid=1 block=1 wait=0 in:x i32:1 x' | head -1000 |
		dd of=control/launch bs=64K iflag=fullblock status=none
	echo default >control/synchronize
	is "$(words d4 x 4)" 1000
}

test_order_holds_across_streams()
{
	local i
	loaded order
	mkdir streams/a streams/b
	echo 'x 64' >control/alloc
	echo 'y 64' >control/alloc
	for i in 1 2 3 4 5; do
		echo "order slow_set grid=1 block=1 stream=a wait=0 x i32:$i u64:30000000" >control/launch
		echo 'order add grid=1 block=1 stream=b wait=0 in:x i32:100 y' >control/launch
		echo 'order add grid=1 block=1 stream=a wait=0 in:y i32:1000 x' >control/launch
	done
	is "$(words d4 y 4) $(words d4 x 4)" '105 1105'
	is "$(<streams/a/state) $(<streams/b/state)" 'idle idle'
}

# Both launches declare the memory `in:`, so both may run at once. Each kernel waits for
# the other.
test_independent_kernels_run_side_by_side()
{
	loaded order
	mkdir streams/a streams/b
	echo 'x 64' >control/alloc
	echo 'order meet grid=1 block=1 stream=a wait=0 in:x i32:0 i32:1' >control/launch
	echo 'order meet grid=1 block=1 stream=b timeout=20 in:x i32:1 i32:0' >control/launch
	echo a >control/synchronize
	is "$(words d4 x 8)" '1 1'
}

test_many_streams_are_busy_at_once()
{
	local i
	loaded order
	for i in {1..12}; do
		mkdir "streams/s$i"
		echo "x$i 64" >control/alloc
		echo "order slow_set grid=1 block=1 stream=s$i wait=0 x$i i32:$i u64:100000000" >control/launch
	done
	for i in {1..12}; do
		echo "s$i" >control/synchronize
		is "$(words d4 "x$i" 4)" "$i"
	done
}

test_what_touches_it_waits_for_the_kernel()
{
	loaded order
	echo 'x 64' >control/alloc
	echo 'y 64' >control/alloc
	echo 'order slow_set grid=1 block=1 wait=0 x i32:1 u64:100000000' >control/launch
	echo 'y from=x' >control/copy
	is "$(words d4 y 4)" 1
	echo 'order slow_set grid=1 block=1 wait=0 x i32:2 u64:100000000' >control/launch
	printf '\3\0\0\0' | dd of=allocations/x/data conv=notrunc status=none
	is "$(words d4 x 4)" 3
	echo 'order slow_set grid=1 block=1 wait=0 x i32:4 u64:100000000' >control/launch
	rmdir allocations/x
	is "$(ls allocations)" y
	eventually '[ "$(value_of status bytes)" = 64 ]'
}

test_a_function_can_be_launched_while_its_module_is_replaced_not_removed()
{
	loaded order
	echo 'x 64' >control/alloc
	echo 'order slow_set grid=1 block=1 wait=0 x i32:1 u64:2000000000' >control/launch
	refused EBUSY 'order' 'rmdir modules/order'
	cp "$GPUMEM_KERNELS/saxpy.ptx" modules/order/image
	is "$(ls modules/order/functions)" saxpy
	is "$(words d4 x 4)" 1
	rmdir modules/order
}

test_sample_kernels_do_what_they_say()
{
	loaded fill
	loaded reduce
	loaded histogram
	loaded matmul
	echo 'x 4096xf32' >control/alloc
	echo 'elements=4096 x f32:0.25 u32:4096' >modules/fill/functions/fill/launch
	echo 'sum 4' >control/alloc
	echo "reduce $(ls modules/reduce/functions) grid=8 block=256 in:x sum u32:4096" >control/launch
	is "$(words f4 sum 4)" 1024
	echo 'text 64K' >control/alloc
	echo 'text u8:7' >control/fill
	echo 'counts 1K' >control/alloc
	echo 'histogram histogram grid=8 block=256 in:text counts u32:65536' >control/launch
	is "$(words u4 counts 36)" '0 0 0 0 0 0 0 65536 0'
	echo 'a 16K' >control/alloc
	echo 'b 16K' >control/alloc
	echo 'c 16K' >control/alloc
	echo 'a f32:2' >control/fill
	echo 'b f32:3' >control/fill
	echo 'matmul matmul grid=4,4 block=16,16 in:a in:b out:c u32:64' >control/launch
	is "$(od -A n -t f4 -w4 -v allocations/c/data | sort -u | tr -d ' ')" 384
}

test_a_cooperative_grid_waits_for_itself()
{
	loaded cooperative
	echo 'a 1K' >control/alloc
	echo 'b 1K' >control/alloc
	printf '\1' | dd of=allocations/a/data conv=notrunc status=none
	echo 'cooperative rotate grid=4 block=64 cooperative=1 a b u32:10' >control/launch
	is "$(od -A d -v -t u4 -w4 allocations/a/data | awk '$2 == 1 { print $1 / 4 }')" 246
	refused EINVAL 'COOPERATIVE_LAUNCH_TOO_LARGE' \
		'echo "cooperative rotate grid=1000000 block=64 cooperative=1 a b u32:1" >control/launch'
}

test_what_kernels_print_can_be_read()
{
	loaded print
	echo 'print greet grid=1 block=2 i32:9' >control/launch
	is "$(cat "owners/$UID/output" | tail -n 2)" \
		$'block 0 thread 0: 9 words  2.25 123456789abc c%\nblock 0 thread 1: 9 words  2.25 123456789abc c%'
	[ "$(stat -c %a "owners/$UID/output")" = 400 ]
	unlike "$(<"owners/$UID/status")" output
}

test_bytes_that_no_text_has_are_shown_as_they_were_printed()
{
	loaded print
	echo 'print put grid=1 block=1 i32:0' >control/launch
	is "$(tail -c 13 "owners/$UID/output" | od -A n -c | xargs -0)" \
		'   b   e   f   o   r   e  \0   a   f   t   e   r  \n'
}

test_sendfile_sees_what_a_kernel_wrote_since()
{
	loaded saxpy
	echo 'x 4096xf32' >control/alloc
	echo 'y 4096xf32' >control/alloc
	echo 'x f32:1' >control/fill
	is "$(py <<-'EOF'
		fd = os.open("allocations/y/data", os.O_RDONLY | os.O_DIRECT)
		def sent():
		    out = os.memfd_create("sent")
		    os.sendfile(out, fd, 0, 4)
		    return os.pread(out, 4, 0).hex()
		print(sent())
		os.write(control("launch"), b"saxpy saxpy elements=4096 u32:4096 f32:2 in:x y")
		print(sent())
	EOF
	)" $'00000000\n00000040'
}

test_an_interrupted_launch_goes_on()
{
	loaded order
	echo 'x 64' >control/alloc
	timeout -s INT 0.5 bash -c \
		'echo "order slow_set grid=1 block=1 x i32:5 u64:4000000000" >control/launch' || true
	is "$(<allocations/x/state)" busy
	is "$(words d4 x 4)" 5
}

test_a_time_limit_ends_the_kernel_and_nothing_else()
{
	loaded faults
	echo 'x 64' >control/alloc
	echo 'other 4096' >control/alloc
	echo sound >allocations/other/data
	refused ETIMEDOUT 'kernel faults/endless was ended by its time limit of 0.3 s' \
		'echo "faults endless grid=1 block=1 timeout=0.3 x" >control/launch'
	is "$(head -c 5 allocations/other/data)" sound
	is "$(<allocations/x/state)" live
	echo 'x u8:1' >control/fill
	echo 'faults endless grid=1 block=1 timeout=0.3 x' >control/launch
}

test_a_time_limit_does_not_count_the_load_of_the_module()
{
	needs_software 'load slowly'
	loaded faults
	echo 'x 64' >control/alloc
	echo 'x u8:1' >control/fill
	# the next worker loads the module anew
	echo 1 >"owners/$UID/reset"
	inject 'delay=cuModuleLoadDataEx@*=4s'
	echo 'faults endless grid=1 block=1 timeout=2 x' >control/launch
}

# The fill keeps the kernel from being sent until after the reset.
test_a_reset_ends_what_is_queued_and_not_begun()
{
	needs_software 'be slow'
	loaded faults
	echo 'x 64' >control/alloc
	is_zero allocations/x/data
	slow 30s
	echo 'x u8:0 wait=0' >control/fill
	echo 'faults endless grid=1 block=1 wait=0 x' >control/launch
	echo 1 >"owners/$UID/reset"
	inject
	eventually '[ "$(<allocations/x/state)" = live ]'
	refused EIO 'faults/endless did not run: the worker was reset' 'echo default >control/synchronize'
}

# The driver lets go of memory only when no kernel runs.
test_what_is_freed_beside_an_endless_kernel_does_not_keep_managed_memory_from_its_rescue()
{
	local i
	loaded faults
	loaded order
	echo 'x 64' >control/alloc
	echo 'kept 1M kind=managed' >control/alloc
	echo 'kept u8:7' >control/fill
	for i in 1 2 3 4 5 6 7 8; do
		echo "h$i 4096 kind=host" >control/alloc
		echo "d$i 4096 kind=direct" >control/alloc
		echo "order add grid=1 block=1 in:d$i i32:1 h$i" >control/launch
	done
	echo 'faults endless grid=1 block=1 wait=0 x' >control/launch
	rmdir allocations/h? allocations/d?
	echo 1 >"owners/$UID/reset"
	is "$(<allocations/kept/state)" live
	is "$(od -A n -v -t u1 -w1 allocations/kept/data | sort -u | tr -d ' ')" 7
	eventually '[ "$(value_of status bytes)" = $((1048576 + 64)) ]'
}

test_launches_by_name_of_a_kernel_need_no_listing()
{
	loaded order
	refused ENOENT "has no function 'nosuch'; it has " 'echo "order nosuch grid=1 block=1" >control/launch'
	refused ENOENT 'there is no module nosuch' 'echo "nosuch f grid=1 block=1" >control/launch'
}

test_what_does_not_fit_the_kernel_is_refused()
{
	loaded order
	echo 'x 64' >control/alloc
	refused EINVAL 'kernel order/add has 3 parameters: the line has 2 arguments' \
		'echo "order add grid=1 block=1 in:x i32:1" >control/launch'
	refused EINVAL 'has 3 parameters: the line has 4 arguments' \
		'echo "order add grid=1 block=1 in:x i32:1 x x" >control/launch'
	refused EINVAL 'argument 2, i64:1, has 8 bytes; parameter 2 of order/add has 4' \
		'echo "order add grid=1 block=1 in:x i64:1 x" >control/launch'
	refused EINVAL 'argument 2, x, has 8 bytes, an address; parameter 2 of order/add has 4' \
		'echo "order add grid=1 block=1 in:x x x" >control/launch'
	refused EINVAL "'i32:3000000000' is outside the range of i32" \
		'echo "order add grid=1 block=1 in:x i32:3000000000 x" >control/launch'
	refused EINVAL 'hex:123' 'echo "order add grid=1 block=1 in:x hex:123 x" >control/launch'
	refused EINVAL 'f33:1' 'echo "order add grid=1 block=1 in:x f33:1 x" >control/launch'
	refused ERANGE 'offset 64 is past the last byte of x, which has 64 bytes' \
		'echo "order add grid=1 block=1 in:x+64 i32:1 x" >control/launch'
	refused ENOENT "there is no allocation '1024'; for a number write i32:1024" \
		'echo "order add grid=1 block=1 in:x 1024 x" >control/launch'
	refused ENOENT "there is no allocation '0.5'; for a number write f32:0.5" \
		'echo "order add grid=1 block=1 in:x 0.5 x" >control/launch'
	refused ENOENT "there is no allocation '7'; for a number write i64:7" \
		'echo "order add grid=1 block=1 7 i32:1 x" >control/launch'
	refused EINVAL "'-1' is not an allocation; for a number write i32:-1" \
		'echo "order add grid=1 block=1 in:x -1 x" >control/launch'
	refused ENOENT 'there is no allocation y' \
		'echo "order add grid=1 block=1 in:y i32:1 x" >control/launch'
}

test_bad_shapes_are_refused()
{
	local launch='>modules/order/functions/add/launch' args='in:x i32:1 x'
	loaded order
	echo 'x 64' >control/alloc
	refused EINVAL 'grid=0 has a dimension of zero' "echo 'grid=0 block=1 $args' $launch"
	refused EINVAL 'block=1,0 has a dimension of zero' "echo 'grid=1 block=1,0 $args' $launch"
	refused EINVAL 'grid=1,2,3,4 is not X' "echo 'grid=1,2,3,4 block=1 $args' $launch"
	refused EINVAL 'needs grid= and block=, or elements=' "echo 'grid=1 $args' $launch"
	refused EINVAL "can't both be given" "echo 'grid=1 elements=4 $args' $launch"
	refused EINVAL 'elements=0' "echo 'elements=0 $args' $launch"
	refused EINVAL 'one dimension' "echo 'elements=4 block=2,2 $args' $launch"
	refused EINVAL '1025 threads is too large|block=1025,1,1 is too large' "echo 'grid=1 block=1025 $args' $launch"
	refused EINVAL 'a block of 2048 threads is too large: the device has at most 1024' "echo 'grid=1 block=64,32 $args' $launch"
	refused EINVAL 'grid=1,70000,1 is too large: the device has at most [0-9]+,65535,65535' "echo 'grid=1,70000 block=1 $args' $launch"
	refused EINVAL 'shared=1048576 is too much: the device has at most ' "echo 'grid=1 block=1 shared=1M $args' $launch"
	refused EINVAL 'cooperative=2' "echo 'grid=1 block=1 cooperative=2 $args' $launch"
	refused EINVAL 'timeout=0' "echo 'grid=1 block=1 timeout=0 $args' $launch"
	refused EINVAL 'timeout=x' "echo 'grid=1 block=1 timeout=x $args' $launch"
	refused EINVAL "there is no key 'colour': grid, block, elements," "echo 'grid=1 block=1 colour=red $args' $launch"
	refused ENOENT 'there is no stream nosuch' "echo 'grid=1 block=1 stream=nosuch $args' $launch"
	refused EINVAL 'is missing' "echo order >control/launch"
}

test_a_stream_of_another_device_is_refused()
{
	needs_devices 2
	loaded order
	mkdir streams/far
	echo 1 >streams/far/device
	echo 'x 64' >control/alloc
	refused EXDEV 'stream far is on device 1' \
		'echo "order add grid=1 block=1 stream=far in:x i32:1 x" >control/launch'
}

test_memory_of_a_peer_is_in_reach()
{
	needs_devices 2
	loaded order
	echo 'near 64' >control/alloc
	echo 'far 64 device=1' >control/alloc
	echo 'far i32:5' >control/fill
	echo 'order add grid=1 block=1 in:far i32:1 near' >control/launch
	is "$(words d4 near 4)" 6
	echo 'lone 64 device=1 kind=direct' >control/alloc
	refused EXDEV 'allocation lone of kind direct is on device 1' \
		'echo "order add grid=1 block=1 in:lone i32:1 near" >control/launch'
}

test_a_module_runs_on_its_own_device()
{
	needs_devices 2
	needs_kernels
	mkdir modules/order
	echo 1 >modules/order/device
	cp "$GPUMEM_KERNELS/order.ptx" modules/order/image
	echo 'x 64 device=1' >control/alloc
	echo 'order add grid=1 block=1 in:x i32:3 x' >control/launch
	is "$(words d4 x 4)" 3
}

test_freed_and_lost_arguments_are_refused()
{
	loaded order
	echo 'x 64' >control/alloc
	echo 'd 64 kind=direct' >control/alloc
	echo 1 >"owners/$UID/reset"
	refused ESTALE 'allocation d is lost' \
		'echo "order add grid=1 block=1 in:d i32:1 x" >control/launch'
	rmdir allocations/x
	refused ENOENT 'there is no allocation x' \
		'echo "order add grid=1 block=1 in:x i32:1 x" >control/launch'
}

test_others_may_use_what_its_mode_allows()
{
	needs_root 'several users'
	by 1001 loaded_as order
	echo 'closed 64' >control/alloc
	echo 'open 64 mode=0644' >control/alloc
	echo 'shared 64 mode=0666' >control/alloc
	echo 'theirs 64 kind=direct mode=0666' >control/alloc
	echo 'open i32:7' >control/fill
	by 1001 run 'echo "mine 64" >control/alloc'
	by 1001 run 'echo "order add grid=1 block=1 in:open i32:1 mine" >control/launch'
	is "$(words d4 mine 4)" 8
	by 1001 run 'echo "order add grid=1 block=1 in:open i32:1 shared" >control/launch'
	is "$(words d4 shared 4)" 8
	by 1001 refused EACCES 'uid 1001 may not read allocation closed' \
		'echo "order add grid=1 block=1 in:closed i32:1 mine" >control/launch'
	by 1001 refused EACCES 'uid 1001 may not write allocation open' \
		'echo "order add grid=1 block=1 in:mine i32:1 open" >control/launch'
	by 1001 refused EXDEV 'allocation theirs of kind direct lives in the worker of uid 0' \
		'echo "order add grid=1 block=1 in:theirs i32:1 mine" >control/launch'
	refused EACCES 'may not' 'echo "order add grid=1 block=1 in:mine i32:1 closed" >control/launch'
}

loaded_as()
{
	needs_kernels
	run "mkdir modules/$1 && cp '$GPUMEM_KERNELS/$1.ptx' modules/$1/image"
}

# The launch declares the memory `in:`, yet the kernel writes there.
faults_when_written()
{
	by 1001 loaded_as order
	echo "open 64 $1 mode=0644" >control/alloc
	echo 'open i32:7' >control/fill
	by 1001 run 'echo "order add grid=1 block=1 in:open i32:0 in:open" >control/launch' &&
		fail 'it was written'
	like "$(by 1001 run 'tail -n 1 errors')" 'EFAULT kernel order/add failed'
	is "$(words d4 open 4)" 7
}

test_memory_that_may_only_be_read_faults_when_it_is_written()
{
	needs_root 'several users'
	faults_when_written kind=device
}

test_host_memory_that_may_only_be_read_faults_when_it_is_written()
{
	needs_root 'several users'
	faults_when_written kind=host
}

test_what_is_closed_again_is_out_of_reach()
{
	needs_root 'several users'
	by 1001 loaded_as order
	echo 'open 64 mode=0666' >control/alloc
	echo 'host 4096 kind=host mode=0666' >control/alloc
	by 1001 run 'echo "mine 64" >control/alloc'
	by 1001 run 'echo "order add grid=1 block=1 in:open i32:1 mine" >control/launch'
	by 1001 run 'echo "order add grid=1 block=1 in:host i32:1 host+8" >control/launch'
	is "$(words d4 host 12)" '0 0 1'
	chmod 600 allocations/open allocations/host
	by 1001 refused EACCES 'may not read allocation open' \
		'echo "order add grid=1 block=1 in:open i32:1 mine" >control/launch'
	chmod 644 allocations/open
	by 1001 run 'echo "order add grid=1 block=1 in:open i32:3 mine" >control/launch'
	is "$(words d4 mine 4)" 3
	rmdir allocations/open allocations/host
	is "$(by 1001 run 'cat allocations/mine/state')" live
}

# many_parameters N: a kernel `many` that writes I through its parameter I.
many_parameters()
{
	local i
	printf '.version 7.0\n.target sm_52\n.address_size 64\n.visible .entry many(\n'
	for ((i = 0; i < $1; i++)); do
		printf '.param .u64 p%d%s\n' $i "$([ $((i + 1)) = "$1" ] || echo ,)"
	done
	printf ')\n{\n.reg .b32 %%r<2>;\n.reg .b64 %%rd<3>;\n'
	for ((i = 0; i < $1; i++)); do
		printf 'ld.param.u64 %%rd1, [p%d];\ncvta.to.global.u64 %%rd2, %%rd1;\n' $i
		printf 'mov.u32 %%r1, %d;\nst.global.u32 [%%rd2], %%r1;\n' $i
	done
	printf 'ret;\n}\n'
}

# Allocation i has the arguments i and i + 300.
test_each_of_many_arguments_gets_its_address()
{
	mkdir modules/many
	many_parameters 500 >modules/many/image
	seq -f 'a%.0f 4' 0 299 >control/alloc
	echo "many many grid=1 block=1 $(echo a{0..299} a{0..199})" >control/launch
	is "$(cat allocations/a{0..299}/data | od -A n -t u4 -v -w4 | xargs)" "$(echo {300..499} {200..299})"
	seq -f 'a%.0f' 0 299 >control/free
	rmdir modules/many
}

test_another_users_module_is_not_his_to_launch()
{
	needs_root 'several users'
	loaded order
	by 1001 run 'echo "mine 64" >control/alloc'
	by 1001 refused EACCES 'module order belongs to uid 0' \
		'echo "order add grid=1 block=1 in:mine i32:1 mine" >control/launch'
}

main "$@"
