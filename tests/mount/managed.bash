#!/bin/bash
# Managed memory: alloc, prefetch, advice, attach, and the driver's reports.
. "${BASH_SOURCE%/*}/lib.bash"

page=$(getconf PAGESIZE)

own()
{
	workers_of "$T/main" "$(id -u)"
}

# ranges FILE KEY: prints the ranges of KEY, `OFFSET+LENGTH VALUE` a line.
ranges()
{
	sed -n "s/^$2\[\([0-9+]*\)\]/\1/p" "$1"
}

# pages NAME: prints the place of each 2 MiB page, device:N or node:N; a plus marks a copy.
# The software GPU keeps these places in a file.
pages()
{
	local address where bit places
	address=$(<"allocations/$1/address")
	for where in $(od -A n -v -t u4 -w8 \
		/dev/shm/gpumem-softgpu."${T##*.}"-main/*/managed-*-"${address#0x}" |
		awk '{ print $1 }'); do
		places=
		for bit in {0..31}; do
			((where >> bit & 1)) || continue
			((bit < 16)) && places+="+device:$bit" || places+="+node:$((bit - 16))"
		done
		echo "${places#+}"
	done | xargs
}

test_managed_memory_alone_has_its_files()
{
	local file
	echo 'x 4096' >control/alloc
	echo 'y 4096xf32 kind=managed' >control/alloc
	for file in prefetch advise attach last_prefetch; do
		[ -e "allocations/y/$file" ]
		[ ! -e "allocations/x/$file" ]
		ls allocations/y | grep -qx $file
		unlike " $(ls allocations/x | xargs) " " $file "
	done
	is "$(<allocations/y/kind)" managed
	is "$(<allocations/y/size_bytes)" 16384
	is "$(<allocations/y/state)" live
	is "$(value_of allocations/y/status attach)" global
	is "$(value_of allocations/x/status attach)" ''
}

test_new_memory_reads_as_zeros_whatever_stood_there_before()
{
	local i
	for i in 1 2 3; do
		echo 'y 5M kind=managed' >control/alloc
		is_zero allocations/y/data
		echo 'y u8:0xff' >control/fill
		rmdir allocations/y
	done
	echo 'y 5M kind=managed attach=host' >control/alloc
	is_zero allocations/y/data
}

test_bytes_are_the_same_wherever_they_are()
{
	local place places='cpu device:0'
	[ "$(ls devices | wc -l)" -lt 2 ] || places+=' device:1 cpu device:0 device:1'
	echo 'y 3000000 kind=managed' >control/alloc
	yes | head -c 3000000 >allocations/y/data
	for place in $places; do
		echo $place >allocations/y/prefetch
		cmp allocations/y/data <(yes | head -c 3000000)
		printf x | dd of=allocations/y/data conv=notrunc bs=1 seek=2999999 status=none
		is "$(tail -c 1 allocations/y/data)" x
		printf y | dd of=allocations/y/data conv=notrunc bs=1 seek=2999999 status=none
		yes | head -c 3000000 >allocations/y/data
	done
}

test_copies_go_to_and_from_every_kind_on_every_device()
{
	local kind device
	yes | head -c 300000 >"$T/bytes"
	echo 'y 300000 kind=managed' >control/alloc
	for kind in $kinds; do
		for device in $(ls devices); do
			echo "x 300000 kind=$kind device=$device" >control/alloc
			cat "$T/bytes" >allocations/y/data
			echo 'x from=y' >control/copy
			echo 'y u8:0' >control/fill
			echo 'y from=x' >control/copy
			cmp allocations/y/data "$T/bytes"
			rmdir allocations/x
		done
	done
}

test_the_pages_are_where_they_were_sent()
{
	needs_software 'show its pages'
	echo 'y 8M kind=managed' >control/alloc
	echo device:1 >allocations/y/prefetch
	is "$(pages y)" 'device:1 device:1 device:1 device:1'
	echo 'device:0 offset=2M length=2M' >allocations/y/prefetch
	is "$(pages y)" 'device:1 device:0 device:1 device:1'
	echo 'cpu offset=6M' >allocations/y/prefetch
	is "$(pages y)" 'device:1 device:0 device:1 node:0'
}

test_data_moves_no_pages()
{
	local before
	needs_software 'show its pages'
	echo 'y 8M kind=managed' >control/alloc
	echo device:1 >allocations/y/prefetch
	echo 'device:0 offset=2M length=2M' >allocations/y/prefetch
	echo 'cpu offset=6M' >allocations/y/prefetch
	before=$(pages y)
	cat allocations/y/data >/dev/null
	od -A n -j 3M -N 100 allocations/y/data >/dev/null
	is "$(pages y)" "$before"
	yes | head -c 8M | dd of=allocations/y/data bs=1M conv=notrunc iflag=fullblock status=none
	is "$(pages y)" "$before"
	: >allocations/y/data
	is "$(pages y)" "$before"
	is_zero allocations/y/data
	fallocate -z -o 1M -l 6M allocations/y/data
	is "$(pages y)" "$before"
	yes | head -c 8M >allocations/y/data
	is "$(pages y)" "$before"
	cmp allocations/y/data <(yes | head -c 8M)
}

# ---- prefetch ----

test_prefetch_is_what_the_driver_reports()
{
	local device
	echo 'y 4M kind=managed' >control/alloc
	is "$(<allocations/y/last_prefetch)" none
	for device in $(ls devices); do
		echo device:$device >allocations/y/prefetch
		is "$(<allocations/y/last_prefetch)" device:$device
		is "$(value_of devices/$device/status managed_prefetched_bytes)" 4194304
	done
	echo 'y cpu' >control/prefetch
	is "$(<allocations/y/last_prefetch)" cpu
	is "$(value_of devices/0/status managed_prefetched_bytes)" 0
}

test_a_node_of_the_host_is_a_place_too()
{
	echo 'y 4M kind=managed' >control/alloc
	echo numa:0 >allocations/y/prefetch
	is "$(<allocations/y/last_prefetch)" numa:0
	echo 'set_preferred_location numa:0' >allocations/y/advise
	# The driver of CUDA 13.0 accepts numa:0 and then reports none.
	like "$(value_of allocations/y/advise preferred_location)" '^(numa:0|none)$'
	is "$(value_of status managed_prefetched_cpu_bytes)" 4194304
	is "$(value_of status managed_preferred_cpu_bytes)" 4194304
}

test_a_range_is_prefetched_alone()
{
	echo 'y 4M kind=managed' >control/alloc
	echo cpu >allocations/y/prefetch
	echo 'device:0 offset=1M length=2M' >allocations/y/prefetch
	is "$(<allocations/y/last_prefetch)" "mixed
last_prefetch[0+1048576] cpu
last_prefetch[1048576+2097152] device:0
last_prefetch[3145728+1048576] cpu"
	is "$(value_of devices/0/status managed_prefetched_bytes)" 2097152
	is "$(value_of status managed_prefetched_cpu_bytes)" 2097152
	is "$(value_of status managed_prefetched_device_bytes)" 2097152
}

test_a_range_stands_for_whole_pages()
{
	echo "y $((3 * page)) kind=managed" >control/alloc
	echo "device:0 offset=$((page + 1)) length=1" >allocations/y/prefetch
	is "$(ranges allocations/y/last_prefetch last_prefetch)" "0+$page none
$page+$page device:0
$((2 * page))+$page none"
	is "$(value_of devices/0/status managed_prefetched_bytes)" $page
}

test_prefetch_without_waiting_is_done_by_synchronize()
{
	echo 'y 4M kind=managed' >control/alloc
	echo 'device:0 wait=0' >allocations/y/prefetch
	echo default >control/synchronize
	is "$(<allocations/y/last_prefetch)" device:0
}

test_prefetches_keep_their_order_across_streams()
{
	local i
	mkdir streams/a streams/b
	echo 'y 4M kind=managed' >control/alloc
	for i in {1..10}; do
		echo 'device:0 stream=a wait=0' >allocations/y/prefetch
		echo 'cpu stream=b wait=0' >allocations/y/prefetch
	done
	echo b >control/synchronize
	is "$(<allocations/y/last_prefetch)" cpu
	is "$(value_of status managed_prefetched_cpu_bytes)" 4194304
	is "$(value_of status managed_prefetched_device_bytes)" 0
}

test_an_interrupted_prefetch_is_queued_and_has_succeeded()
{
	local program
	needs_software 'be slow'
	echo 'y 4M kind=managed' >control/alloc
	inject "delay=cuMemPrefetchAsync_v2@*=3s"
	python3 -c "from syscalls import *
signal.signal(signal.SIGINT, lambda *_: None)
start = time.monotonic()
result = raw_write(control('prefetch'), b'y device:0')
print(result, time.monotonic() - start < 2, flush=True)" >"$T/result" &
	program=$!
	until_it_waits $program
	kill -INT $program
	wait $program
	is "$(<"$T/result")" '10 True'
	inject
	echo default >control/synchronize
	is "$(<allocations/y/last_prefetch)" device:0
}

# ---- advise ----

test_all_six_advices_are_taken_and_read_back()
{
	local y=allocations/y/advise
	echo 'y 4M kind=managed' >control/alloc
	is "$(<$y)" "read_mostly 0
preferred_location none
accessed_by none"
	echo set_read_mostly >$y
	is "$(head -1 $y)" 'read_mostly 1'
	echo 'set_preferred_location device:0' >$y
	echo 'set_accessed_by cpu' >$y
	echo 'set_accessed_by device:0' >$y
	is "$(<$y)" "read_mostly 1
preferred_location device:0
accessed_by cpu,device:0"
	is "$(value_of devices/0/status managed_preferred_bytes)" 4194304
	echo unset_read_mostly >$y
	echo unset_preferred_location >$y
	echo 'unset_accessed_by cpu' >$y
	is "$(<$y)" "read_mostly 0
preferred_location none
accessed_by device:0"
	is "$(value_of devices/0/status managed_preferred_bytes)" 0
	echo 'unset_accessed_by device:0' >$y
	is "$(value_of $y accessed_by)" none
	echo 'y set_preferred_location cpu' >control/advise
	is "$(value_of $y preferred_location)" cpu
}

test_a_location_names_its_device()
{
	needs_devices 2
	echo 'y 4M kind=managed' >control/alloc
	echo 'y set_preferred_location device:1' >control/advise
	echo 'y set_accessed_by device:1' >control/advise
	echo 'y set_accessed_by device:0' >control/advise
	is "$(<allocations/y/advise)" "read_mostly 0
preferred_location device:1
accessed_by device:0,device:1"
	is "$(value_of devices/1/status managed_preferred_bytes)" 4194304
	is "$(value_of devices/0/status managed_preferred_bytes)" 0
}

test_ranges_that_differ_have_a_line_each()
{
	echo 'y 8M kind=managed' >control/alloc
	echo 'set_read_mostly offset=2M length=1M' >allocations/y/advise
	echo 'set_preferred_location cpu offset=1M length=3M' >allocations/y/advise
	echo 'set_preferred_location device:0 offset=6M' >allocations/y/advise
	is "$(<allocations/y/advise)" "read_mostly mixed
preferred_location mixed
accessed_by none
read_mostly[0+2097152] 0
read_mostly[2097152+1048576] 1
read_mostly[3145728+5242880] 0
preferred_location[0+1048576] none
preferred_location[1048576+3145728] cpu
preferred_location[4194304+2097152] none
preferred_location[6291456+2097152] device:0"
	is "$(value_of status managed_preferred_cpu_bytes)" 3145728
	is "$(value_of status managed_preferred_device_bytes)" 2097152
	echo unset_read_mostly >allocations/y/advise
	is "$(value_of allocations/y/advise read_mostly)" 0
}

test_many_ranges_are_all_shown()
{
	local i lines=
	echo "y $((200 * page)) kind=managed" >control/alloc
	for ((i = 0; i < 200; i += 2)); do
		lines+="y set_read_mostly offset=$((i * page)) length=1"$'\n'
	done
	# One write(2) of more than 4096 bytes is one batch.
	printf %s "$lines" | dd of=control/advise bs=64K iflag=fullblock conv=notrunc status=none
	is "$(ranges allocations/y/advise read_mostly | wc -l)" 200
	is "$(ranges allocations/y/advise read_mostly | tail -n 1)" "$((199 * page))+$page 0"
}

test_after_4096_ranges_the_rest_is_mixed()
{
	local said
	echo "y $((8200 * page)) kind=managed" >control/alloc
	for ((i = 0; i < 8200; i += 2)); do
		echo "y set_read_mostly offset=$((i * page)) length=1"
	done | dd of=control/advise bs=1M iflag=fullblock conv=notrunc status=none
	said=$(<allocations/y/advise)
	is "$(head -n 1 <<<"$said")" 'read_mostly mixed'
	is "$(grep -c '^read_mostly\[' <<<"$said")" 4097
	is "$(grep '^read_mostly\[' <<<"$said" | tail -n 1)" \
		"read_mostly[$((4096 * page))+$((4104 * page))] mixed"
}

test_advice_of_one_allocation_is_not_its_neighbours()
{
	local i
	for i in {1..8}; do
		echo "y$i 100 kind=managed" >control/alloc
	done
	echo set_read_mostly >allocations/y4/advise
	echo device:0 >allocations/y4/prefetch
	for i in 1 2 3 5 6 7 8; do
		is "$(head -1 allocations/y$i/advise)" 'read_mostly 0'
		is "$(<allocations/y$i/last_prefetch)" none
	done
}

test_what_is_shown_is_the_drivers_word()
{
	needs_software 'forget'
	echo 'y 4M kind=managed' >control/alloc
	echo set_read_mostly >allocations/y/advise
	inject 'fail=cuMemRangeGetAttributes@*=CUDA_ERROR_INVALID_VALUE'
	refused EINVAL 'y.*cuMemRangeGetAttributes: CUDA_ERROR_INVALID_VALUE' 'cat allocations/y/advise'
	refused EINVAL 'y.*cuMemRangeGetAttributes' 'cat allocations/y/last_prefetch'
	like "$(tail -n 1 errors)" ' allocations/y/last_prefetch EINVAL '
	inject
	is "$(head -1 allocations/y/advise)" 'read_mostly 1'
}

test_advice_the_driver_refuses_is_not_counted()
{
	needs_software 'refuse'
	echo 'y 4M kind=managed' >control/alloc
	inject 'fail=cuMemAdvise_v2@*=CUDA_ERROR_INVALID_DEVICE' \
		'fail=cuMemPrefetchAsync_v2@*=CUDA_ERROR_OUT_OF_MEMORY'
	refused ENODEV 'cuMemAdvise_v2: CUDA_ERROR_INVALID_DEVICE' \
		'echo "set_preferred_location cpu" >allocations/y/advise'
	refused ENOMEM 'cuMemPrefetchAsync_v2: CUDA_ERROR_OUT_OF_MEMORY' \
		'echo device:0 >allocations/y/prefetch'
	inject
	is "$(value_of status managed_preferred_cpu_bytes)" 0
	is "$(value_of status managed_prefetched_device_bytes)" 0
	is "$(value_of allocations/y/advise preferred_location)" none
}

test_what_is_said_of_parts_that_differ_is_said_part_by_part()
{
	local y=allocations/y/advise
	needs_software 'refuse'
	echo 'y 8M kind=managed' >control/alloc
	echo 'set_preferred_location cpu offset=4M length=2M' >$y
	inject 'fail=cuMemAdvise_v2@2=CUDA_ERROR_INVALID_DEVICE'
	refused ENODEV 'cuMemAdvise_v2: CUDA_ERROR_INVALID_DEVICE' \
		"echo 'unset_preferred_location offset=3M length=2M' >$y"
	inject
	is "$(grep 'preferred_location\[' $y)" "preferred_location[0+4194304] none
preferred_location[4194304+2097152] cpu
preferred_location[6291456+2097152] none"
	inject 'fail=cuMemAdvise_v2@3=CUDA_ERROR_INVALID_DEVICE'
	refused ENODEV 'cuMemAdvise_v2' "echo 'set_preferred_location device:0 offset=3M length=4M' >$y"
	inject
	is "$(grep 'preferred_location\[' $y)" "preferred_location[0+3145728] none
preferred_location[3145728+3145728] device:0
preferred_location[6291456+2097152] none"
	is "$(value_of devices/0/status managed_preferred_bytes)" 3145728
	is "$(value_of status managed_preferred_cpu_bytes)" 0
}

# ---- attach ----

test_attach_is_said_at_the_start_and_changed_later()
{
	local a=allocations/y/attach
	echo 'z 4K kind=managed' >control/alloc
	is "$(<allocations/z/attach)" global
	echo 'y 4K kind=managed attach=host' >control/alloc
	is "$(<$a)" host
	is "$(value_of allocations/y/status attach)" host
	echo global >$a
	is "$(<$a)" global
	mkdir streams/s
	echo 'single stream=s' >$a
	is "$(<$a) $(<allocations/y/stream)" 'single s'
	refused EBUSY 's' 'rmdir streams/s'
	echo host >$a
	is "$(<$a)" host
	is "$(<allocations/y/stream)" none
	rmdir streams/s
	echo single >$a
	is "$(<$a) $(<allocations/y/stream)" 'single default'
	is_zero allocations/y/data
}

# ---- kernels ----

test_the_session_of_the_interface()
{
	needs_kernels
	echo 'x 4096xf32' >control/alloc
	echo 'y 4096xf32 kind=managed' >control/alloc
	is "$(cat allocations/x/size_bytes allocations/y/kind)" $'16384\nmanaged'
	echo 'x f32:1.5' >control/fill
	mkdir modules/saxpy
	cp "$GPUMEM_KERNELS/saxpy.ptx" modules/saxpy/image
	echo device:0 >allocations/y/prefetch
	echo set_read_mostly >allocations/y/advise
	is "$(head -1 allocations/y/advise)" 'read_mostly 1'
	echo 'elements=4096 u32:4096 f32:2 in:x y' >modules/saxpy/functions/saxpy/launch
	is "$(od -A d -t f4 -N 8 allocations/y/data)" '0000000               3               3
0000008'
	rmdir allocations/x modules/saxpy
}

test_kernels_of_every_device_use_it_and_its_pages_come_to_them()
{
	local device
	needs_kernels
	needs_devices 2
	echo 'x 3M kind=managed' >control/alloc
	echo 'y 3M kind=managed' >control/alloc
	echo 'x f32:1' >control/fill
	for device in 0 1; do
		mkdir modules/s$device
		echo $device >modules/s$device/device
		cp "$GPUMEM_KERNELS/saxpy.ptx" modules/s$device/image
		echo "s$device saxpy elements=786432 u32:786432 f32:1 in:x y" >control/launch
		! is_software || is "$(pages y)" "device:$device device:$device"
	done
	is "$(od -A n -t f4 -w4 -v allocations/y/data | sort -u | tr -d ' ')" 2
}

test_another_owners_kernel_does_not_reach_it()
{
	needs_root 'several users'
	needs_kernels
	by 1001 run 'echo "y 4096 kind=managed mode=666" >control/alloc'
	mkdir modules/saxpy
	cp "$GPUMEM_KERNELS/saxpy.ptx" modules/saxpy/image
	refused EXDEV 'y of kind managed.*1001' \
		'echo "saxpy saxpy elements=1 u32:1 f32:1 in:y y" >control/launch'
}

# ---- control files ----

test_a_fresh_read_is_the_state_or_the_usage()
{
	echo 'y 4M kind=managed' >control/alloc
	like "$(<allocations/y/prefetch)" '^LOCATION '
	like "$(<control/prefetch)" '^NAME LOCATION '
	like "$(<control/advise)" '^NAME ADVICE '
	is "$(py <<-'EOF'
		fd = os.open("allocations/y/advise", os.O_RDWR)
		show(os.read, fd, 11)
		os.write(fd, b"set_read_mostly\n")
		show(os.read, fd, 100)
		show(os.write, fd, b"set_nothing\n")
		print(answer(fd), end="")
		fd = os.open("allocations/y/advise", os.O_RDWR)
		os.write(fd, b"unset_read_mostly\n")
		print(answer(fd), end="")
		fd = os.open("allocations/y/advise", os.O_RDONLY)
		text = b""
		while part := os.read(fd, 5):
		    text += part
		print(text.decode(), end="")
	EOF
	)" "read_mostly

EINVAL
'set_nothing' is not an advice: use set_read_mostly, set_preferred_location, set_accessed_by or the same with unset_
read_mostly 0
preferred_location none
accessed_by none"
}

test_state_is_read_while_a_command_waits()
{
	local writer
	needs_software 'be slow'
	echo 'y 4M kind=managed' >control/alloc
	inject 'delay=cuMemsetD8Async@*=6s'
	echo 'y u8:1' >control/fill &
	writer=$!
	until_it_waits $writer
	is "$(value_of allocations/y/advise read_mostly)" 0
	is "$(<allocations/y/last_prefetch)" none
	is "$(<allocations/y/attach)" global
	until_it_waits $writer
	inject
	wait $writer
}

# ---- who may ----

test_who_may_write_may_move_and_advise()
{
	needs_root 'several users'
	by 1001 run 'echo "y 4M kind=managed mode=644" >control/alloc'
	is "$(by 1002 run 'head -1 allocations/y/advise')" 'read_mostly 0'
	by 1002 denied EACCES 'echo cpu >allocations/y/prefetch'
	by 1002 denied EACCES 'echo set_read_mostly >allocations/y/advise'
	by 1002 denied EACCES 'echo host >allocations/y/attach'
	by 1002 refused EACCES 'y' 'echo "y cpu" >control/prefetch'
	by 1002 refused EACCES 'y' 'echo "y set_read_mostly" >control/advise'
	by 1001 run 'chmod 666 allocations/y'
	by 1002 run 'echo device:0 >allocations/y/prefetch'
	by 1002 run 'echo set_read_mostly >allocations/y/advise'
	by 1002 run 'echo host >allocations/y/attach'
	is "$(by 1002 run 'cat allocations/y/last_prefetch')" device:0
	by 1002 run 'mkdir streams/his'
	by 1002 refused EXDEV '1002.*1001' 'echo single stream=his >allocations/y/attach'
	by 1002 run 'rmdir streams/his'
	by 1001 run 'rmdir allocations/y'
}

# ---- totals ----

test_totals_go_down_with_what_is_freed()
{
	echo 'a 3M kind=managed' >control/alloc
	echo 'b 5M kind=managed' >control/alloc
	echo 'a device:0 length=2M' >control/prefetch
	echo 'b device:0 offset=1M' >control/prefetch
	echo 'b set_preferred_location cpu' >control/advise
	eventually '[ "$(value_of status managed_bytes)" = 8388608 ]'
	is "$(value_of devices/0/status managed_bytes)" 8388608
	is "$(value_of devices/0/status managed_prefetched_bytes)" 6291456
	is "$(value_of status managed_preferred_cpu_bytes)" 5242880
	rmdir allocations/b
	is "$(value_of devices/0/status managed_prefetched_bytes)" 2097152
	is "$(value_of status managed_preferred_cpu_bytes)" 0
	eventually '[ "$(value_of status managed_bytes)" = 3145728 ]'
	rmdir allocations/a
	is "$(value_of devices/0/status managed_prefetched_bytes)" 0
	eventually '[ "$(value_of status managed_bytes)" = 0 ]'
}

# After some hundred changes of ranges and some frees, three records must agree: the driver's
# report, the totals, and a model with an entry for each page.
test_totals_agree_with_the_driver_after_many_changes()
{
	py "$page" <<-'EOF'
		import random
		page = int(sys.argv[1])
		random.seed(7)
		fds = {verb: control(verb) for verb in ("alloc", "free", "prefetch", "advise")}
		n_devices = len(os.listdir("devices"))
		places = ["cpu"] + [f"device:{n}" for n in range(n_devices)]
		models = {}

		def say(verb, line):
		    os.write(fds[verb], line.encode() + b"\n")

		def change(name, verb, words, key, value):
		    pages, size = models[name]
		    offset = random.randrange(size)
		    length = random.randint(1, size - offset)
		    say(verb, f"{name} {words} offset={offset} length={length}")
		    for i in range(offset // page, (offset + length - 1) // page + 1):
		        pages[i][key] = value(pages[i][key])

		def text(name, file):
		    with open(f"allocations/{name}/{file}") as f:
		        return f.read().splitlines()

		def told(name, key):
		    """The value of each page, as the driver tells it."""
		    lines = text(name, "last_prefetch" if key == "last_prefetch" else "advise")
		    n = len(models[name][0])
		    values = [None] * n
		    for line in lines:
		        if line.startswith(key + "["):
		            where, value = line[len(key) + 1:].split("] ")
		            offset, length = map(int, where.split("+"))
		            for i in range(offset // page, (offset + length - 1) // page + 1):
		                values[i] = value
		    if None in values:
		        first = lines[0] if key == "last_prefetch" else \
		            next(line for line in lines if line.startswith(key + " ")).split(" ", 1)[1]
		        values = [first] * n
		    return values

		def shown(file, key):
		    with open(file) as f:
		        return int(next(line.split()[1] for line in f if line.startswith(key + " ")))

		def compare():
		    sums = {}
		    for name, (pages, size) in models.items():
		        for key in ("read_mostly", "preferred_location", "accessed_by", "last_prefetch"):
		            expected = [",".join(p[key]) or "none" if key == "accessed_by" else p[key]
		                        for p in pages]
		            assert told(name, key) == expected, (name, key)
		        for i, p in enumerate(pages):
		            for key in ("preferred_location", "last_prefetch"):
		                sums[key, p[key]] = sums.get((key, p[key]), 0) + min(page, size - i * page)
		    for key, word in (("preferred_location", "preferred"), ("last_prefetch", "prefetched")):
		        for n in range(n_devices):
		            got = shown(f"devices/{n}/status", f"managed_{word}_bytes")
		            assert got == sums.get((key, f"device:{n}"), 0), (key, n)
		        assert shown("status", f"managed_{word}_cpu_bytes") == sums.get((key, "cpu"), 0), key

		for step in range(600):
		    name = f"n{random.randrange(4)}"
		    if name not in models:
		        size = random.randint(1, 40 * page)
		        say("alloc", f"{name} {size} kind=managed")
		        models[name] = [dict(read_mostly="0", preferred_location="none", accessed_by=[],
		                             last_prefetch="none") for _ in range(-(-size // page))], size
		        continue
		    place = random.choice(places)
		    kind = random.randrange(41)
		    if kind == 40:
		        say("free", name)
		        del models[name]
		    elif kind < 12:
		        change(name, "prefetch", place, "last_prefetch", lambda _: place)
		    elif kind < 16:
		        change(name, "advise", "set_read_mostly", "read_mostly", lambda _: "1")
		    elif kind < 20:
		        change(name, "advise", "unset_read_mostly", "read_mostly", lambda _: "0")
		    elif kind < 26:
		        change(name, "advise", "set_preferred_location " + place, "preferred_location",
		               lambda _: place)
		    elif kind < 30:
		        change(name, "advise", "unset_preferred_location", "preferred_location",
		               lambda _: "none")
		    elif kind < 36:
		        change(name, "advise", "set_accessed_by " + place, "accessed_by",
		               lambda old: [p for p in places if p in old or p == place])
		    else:
		        change(name, "advise", "unset_accessed_by " + place, "accessed_by",
		               lambda old: [p for p in old if p != place])
		    if step % 60 == 59:
		        compare()
		for name in list(models):
		    say("free", name)
		    del models[name]
		compare()
	EOF
}

# ---- the end of the worker ----

test_what_is_lost_is_nowhere_and_says_so()
{
	needs_software 'lose a worker'
	echo 'y 4M kind=managed' >control/alloc
	echo device:0 >allocations/y/prefetch
	kill -KILL $(own)
	eventually '[ "$(<allocations/y/state)" = lost ]'
	is "$(value_of devices/0/status managed_prefetched_bytes)" 0
	refused ESTALE 'y' 'cat allocations/y/data'
	refused ESTALE 'y' 'echo cpu >allocations/y/prefetch'
	refused ESTALE 'y' 'echo set_read_mostly >allocations/y/advise'
	refused ESTALE 'y' 'echo host >allocations/y/attach'
	refused ESTALE 'y' 'cat allocations/y/advise'
	refused ESTALE 'y' 'cat allocations/y/last_prefetch'
	is "$(<allocations/y/attach)" global
}

test_a_fault_in_the_worker_costs_nothing_but_the_address()
{
	local advise prefetch
	needs_software 'fault'
	echo 'd 4K kind=direct' >control/alloc
	echo 'y 5M kind=managed attach=host' >control/alloc
	yes | head -c 5M >allocations/y/data
	echo 'set_read_mostly offset=1M length=1M' >allocations/y/advise
	echo 'set_preferred_location device:1' >allocations/y/advise
	echo 'set_accessed_by cpu' >allocations/y/advise
	echo 'set_accessed_by device:0 length=4K' >allocations/y/advise
	echo cpu >allocations/y/prefetch
	echo 'device:1 offset=2M length=1M' >allocations/y/prefetch
	advise=$(<allocations/y/advise) prefetch=$(<allocations/y/last_prefetch)
	like "$prefetch" '^mixed'
	inject 'fail=cuMemsetD8Async@*=CUDA_ERROR_ILLEGAL_ADDRESS'
	fails "echo 'd u8:1' >control/fill"
	inject
	is "$(<allocations/y/advise)" "$advise"
	is "$(<allocations/y/last_prefetch)" "$prefetch"
	is "$(<allocations/y/attach)" host
	is "$(<allocations/y/state)" live
	is "$(<allocations/y/generation)" 2
	is "$(<allocations/d/state)" lost
	cmp allocations/y/data <(yes | head -c 5M)
	is "$(value_of devices/1/status managed_preferred_bytes)" 5242880
	is "$(value_of devices/1/status managed_prefetched_bytes)" 1048576
	is "$(value_of status managed_prefetched_cpu_bytes)" 4194304
}

test_a_descriptor_that_outlives_its_memory_is_stale()
{
	echo 'y 4M kind=managed' >control/alloc
	exec 3<>allocations/y/advise 4<>allocations/y/prefetch
	rmdir allocations/y
	refused ESTALE 'y has been freed' 'echo set_read_mostly >&3'
	like "$(tail -n 1 errors)" ' allocations/y/advise ESTALE '
	refused ESTALE 'y has been freed' 'echo cpu >&4'
}

# ---- other devices and drivers ----

test_without_concurrent_access_nothing_is_sent_or_attached()
{
	local why='device 0 lacks CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS'
	needs_software 'be without'
	broker_start "$T/plain" --driver "$(driver plain):concurrent=0"
	cd "$T/plain/mnt"
	is "$(<devices/0/state) $(<devices/0/concurrent_managed_access)" 'limited 0'
	echo 'y 4M kind=managed' >control/alloc
	yes | head -c 4M >allocations/y/data
	cmp allocations/y/data <(yes | head -c 4M)
	refused EOPNOTSUPP "prefetch: $why" 'echo device:0 >allocations/y/prefetch'
	refused EOPNOTSUPP "prefetch: $why" 'echo cpu >allocations/y/prefetch'
	refused EOPNOTSUPP "set_preferred_location: $why" \
		'echo set_preferred_location device:0 >allocations/y/advise'
	refused EOPNOTSUPP "set_accessed_by: $why" \
		'echo set_accessed_by device:0 >allocations/y/advise'
	refused EOPNOTSUPP "attach to the host alone: $why" 'echo host >allocations/y/attach'
	refused EOPNOTSUPP "attach to a single stream: $why" 'echo single >allocations/y/attach'
	refused EOPNOTSUPP "attach to the host alone: $why" 'echo "z 4K kind=managed attach=host" >control/alloc'
	echo set_read_mostly >allocations/y/advise
	is "$(head -1 allocations/y/advise)" 'read_mostly 1'
	is "$(<allocations/y/last_prefetch)" none
	cd /
	broker_stop "$T/plain"
}

test_an_older_driver_is_asked_by_its_own_calls()
{
	local library=${GPUMEMD%/fuse/gpumemd}/tools/softgpu/required/libcuda.so.1
	needs_software 'be old'
	GPUMEM_SOFTGPU="devices=2:memory=512M:machine=${T##*.}-old" \
		broker_start "$T/old" --driver "$library"
	cd "$T/old/mnt"
	echo 'y 4M kind=managed' >control/alloc
	echo device:1 >allocations/y/prefetch
	is "$(<allocations/y/last_prefetch)" device:1
	echo 'cpu offset=1M length=1M' >allocations/y/prefetch
	is "$(head -n 3 allocations/y/last_prefetch | tail -n 1)" 'last_prefetch[1048576+1048576] cpu'
	echo set_read_mostly >allocations/y/advise
	echo set_preferred_location device:1 >allocations/y/advise
	echo set_accessed_by cpu >allocations/y/advise
	echo set_accessed_by device:0 >allocations/y/advise
	is "$(<allocations/y/advise)" "read_mostly 1
preferred_location device:1
accessed_by cpu,device:0"
	echo unset_preferred_location >allocations/y/advise
	is "$(value_of allocations/y/advise preferred_location)" none
	refused EOPNOTSUPP 'numa:0.*cuMemPrefetchAsync_v2' 'echo numa:0 >allocations/y/prefetch'
	refused EOPNOTSUPP 'numa:0.*cuMemAdvise_v2' \
		'echo set_preferred_location numa:0 >allocations/y/advise'
	cd /
	broker_stop "$T/old"
}

test_more_than_there_can_be_is_enomem()
{
	needs_software 'have too little'
	refused ENOMEM 'y of 1 TiB.*cuMemAllocManaged: CUDA_ERROR_OUT_OF_MEMORY' \
		'echo "y 1T kind=managed" >control/alloc'
	# More than a device has.
	echo 'y 600M kind=managed' >control/alloc
	tail -c 8 allocations/y/data | cmp - <(head -c 8 /dev/zero)
	is "$(<devices/0/memory_held_bytes)" 0
}

# ---- bad input ----

test_every_bad_prefetch_has_its_errno()
{
	echo 'y 4M kind=managed' >control/alloc
	echo 'x 4M' >control/alloc
	echo 'h 4M kind=host' >control/alloc
	refused EINVAL 'LOCATION is missing' 'echo y >control/prefetch'
	refused EINVAL 'LOCATION is missing' 'echo offset=1 >allocations/y/prefetch'
	refused EINVAL 'NAME is missing' 'echo offset=1 >control/prefetch'
	refused EINVAL 'gpu0.*cpu, numa:N or device:N' 'echo gpu0 >allocations/y/prefetch'
	refused EINVAL 'device:' 'echo device: >allocations/y/prefetch'
	refused EINVAL 'device:-1' 'echo device:-1 >allocations/y/prefetch'
	refused EINVAL 'device:4096' 'echo device:4096 >allocations/y/prefetch'
	refused EINVAL 'cpu:0' 'echo cpu:0 >allocations/y/prefetch'
	refused ENOENT 'no device 99' 'echo device:99 >allocations/y/prefetch'
	refused ENOENT 'no NUMA node 999' 'echo numa:999 >allocations/y/prefetch'
	refused ENOENT 'no allocation nobody' 'echo "nobody cpu" >control/prefetch'
	refused EINVAL 'x.*kind=device.*managed' 'echo "x cpu" >control/prefetch'
	refused EINVAL 'h.*kind=host.*managed' 'echo "h device:0" >control/prefetch'
	refused ERANGE 'offset 4M is past .* y' 'echo cpu offset=4M >allocations/y/prefetch'
	refused ERANGE 'y \(4 MiB\) has no room for 4 MiB at offset 1' 'echo cpu offset=1 length=4M >allocations/y/prefetch'
	refused EOVERFLOW '64 bits' \
		'echo cpu offset=1 length=18446744073709551615 >allocations/y/prefetch'
	refused EINVAL 'length=0' 'echo cpu length=0 >allocations/y/prefetch'
	refused EINVAL 'wait=2' 'echo cpu wait=2 >allocations/y/prefetch'
	refused EINVAL "no key 'device'" 'echo cpu device=1 >allocations/y/prefetch'
	refused EINVAL 'cpu' 'echo cpu cpu >allocations/y/prefetch'
	refused ENOENT 'no stream nothing' 'echo cpu stream=nothing >allocations/y/prefetch'
	like "$(tail -n 1 errors)" ' allocations/y/prefetch ENOENT '
	is "$(<allocations/y/last_prefetch)" none
}

test_every_bad_advice_has_its_errno()
{
	local advice
	echo 'y 4M kind=managed' >control/alloc
	echo 'x 4M kind=direct' >control/alloc
	refused EINVAL 'ADVICE is missing' 'echo y >control/advise'
	refused EINVAL 'ADVICE is missing' 'echo length=1 >allocations/y/advise'
	refused EINVAL "'read_mostly' is not an advice" 'echo read_mostly >allocations/y/advise'
	refused EINVAL 'SET_READ_MOSTLY' 'echo SET_READ_MOSTLY >allocations/y/advise'
	for advice in set_preferred_location set_accessed_by unset_accessed_by; do
		refused EINVAL "$advice needs a location" "echo $advice >allocations/y/advise"
		refused EINVAL "$advice needs a location" \
			"echo $advice offset=1M >allocations/y/advise"
	done
	for advice in set_read_mostly unset_read_mostly unset_preferred_location; do
		refused EINVAL "$advice takes no location, not 'device:0'" \
			"echo $advice device:0 >allocations/y/advise"
	done
	for advice in set_accessed_by unset_accessed_by; do
		refused EINVAL "$advice takes cpu or device:N, not 'numa:0'" \
			"echo $advice numa:0 >allocations/y/advise"
	done
	refused EINVAL 'nowhere' 'echo set_preferred_location nowhere >allocations/y/advise'
	refused ENOENT 'no device 99' 'echo set_preferred_location device:99 >allocations/y/advise'
	refused ENOENT 'no NUMA node 999' 'echo set_preferred_location numa:999 >allocations/y/advise'
	refused ENOENT 'nobody' 'echo "nobody set_read_mostly" >control/advise'
	refused EINVAL 'x.*kind=direct.*managed' 'echo "x set_read_mostly" >control/advise'
	refused ERANGE 'offset 4M is past .* y' 'echo set_read_mostly offset=4M >allocations/y/advise'
	refused ERANGE 'y \(4 MiB\) has no room for 5 MiB' 'echo set_read_mostly length=5M >allocations/y/advise'
	refused EOVERFLOW '64 bits' \
		'echo set_read_mostly offset=1 length=18446744073709551615 >allocations/y/advise'
	refused EINVAL 'length=0' 'echo set_read_mostly length=0 >allocations/y/advise'
	refused EINVAL "there is no key 'wait': offset, length" 'echo set_read_mostly wait=0 >allocations/y/advise'
	refused EINVAL 'cpu' 'echo set_preferred_location cpu cpu >allocations/y/advise'
	is "$(<allocations/y/advise)" "read_mostly 0
preferred_location none
accessed_by none"
}

test_every_bad_attachment_has_its_errno()
{
	echo 'y 4M kind=managed' >control/alloc
	refused EINVAL 'attach=host.*kind=managed' 'echo "z 4K attach=host" >control/alloc'
	refused EINVAL 'attach=global.*kind=host' 'echo "z 4K kind=host attach=global" >control/alloc'
	refused EINVAL 'single.*global, host' 'echo "z 4K kind=managed attach=single" >control/alloc'
	refused EINVAL 'stream=default.*async.*managed' \
		'echo "z 4K kind=managed stream=default" >control/alloc'
	refused ENOENT 'no device 99' 'echo "z 4K kind=managed device=99" >control/alloc'
	refused EINVAL 'device.*global, host, single' 'echo device >allocations/y/attach'
	refused EINVAL 'single is missing' 'echo stream=default >allocations/y/attach'
	refused EINVAL "there is no key 'offset': stream, wait" 'echo global offset=1 >allocations/y/attach'
	refused ENOENT 'no stream nothing' 'echo single stream=nothing >allocations/y/attach'
	refused EINVAL 'wait=no' 'echo global wait=no >allocations/y/attach'
	is "$(<allocations/y/attach)" global
	is "$(ls allocations)" y
}

main "$@"
