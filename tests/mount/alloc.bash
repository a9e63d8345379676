#!/bin/bash
# Allocating and freeing memory of every kind; the attributes of allocations.
. "${BASH_SOURCE%/*}/lib.bash"

test_an_allocation_appears_with_its_attributes()
{
	echo 'x 4096xf32' >control/alloc
	is "$(ls allocations)" x
	is "$(<allocations/x/size_bytes)" 16384
	is "$(<allocations/x/kind)" device
	is "$(<allocations/x/device)" 0
	is "$(<allocations/x/owner)" "$(id -u)"
	like "$(<allocations/x/id)" '^[0-9]+$'
	like "$(<allocations/x/address)" '^0x[0-9a-f]+$'
	like "$(<allocations/x/generation)" '^[0-9]+$'
	is "$(<allocations/x/state)" live
	like "$(<allocations/x/created)" '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$'
}

test_every_kind_can_be_allocated()
{
	local kind
	for kind in $kinds; do
		echo "$kind 1M kind=$kind" >control/alloc
		is "$(<"allocations/$kind/kind")" "$kind"
		is "$(<"allocations/$kind/size_bytes")" 1048576
		is "$(<"allocations/$kind/state")" live
		like "$(<"allocations/$kind/address")" '^0x[0-9a-f]+$'
	done
	is "$(cat allocations/*/address | sort -u | wc -l)" "$(wc -w <<<"$kinds")"
	for kind in $kinds; do
		echo "$kind" >control/free
	done
	is "$(ls allocations)" ''
}

test_sizes_are_bytes_powers_of_1024_or_counts_of_a_type()
{
	local size
	for size in 1=1 4095=4095 2k=2048 2K=2048 3m=3145728 3M=3145728 10xu8=10 10xi16=20 \
		10xbf16=20 10xf16=20 10xf32=40 10xu32=40 10xi64=80 10xf64=80; do
		echo "x ${size%%=*}" >control/alloc || fail "refused: ${size%%=*}"
		is "${size%%=*} $(<allocations/x/size_bytes)" "${size%%=*} ${size#*=}"
		echo x >control/free
	done
}

test_options_come_in_any_order()
{
	echo 'x 4096 tag=first mode=640 kind=host device=0' >control/alloc
	is "$(<allocations/x/tag)" first
	is "$(<allocations/x/kind)" host
	is "$(stat -c %a allocations/x/data)" 640
}

test_blanks_around_a_line_do_no_harm()
{
	printf '  x \t 4096  \n\n\n' >control/alloc
	is "$(<allocations/x/size_bytes)" 4096
}

test_names_may_be_64_characters_of_the_set()
{
	local name
	for name in a _ A.b-c_9 9 "$(printf 'n%.0s' {1..64})"; do
		echo "$name 256" >control/alloc
		[ -d "allocations/$name" ] || fail "$name is not there"
	done
}

test_every_device_can_be_allocated_on()
{
	local device
	needs_devices 2
	for device in $(ls devices); do
		echo "d$device 2M device=$device" >control/alloc
		is "$(<"allocations/d$device/device")" "$device"
		is "$(<"devices/$device/allocations")" 1
	done
}

test_the_answer_is_the_status_of_the_object()
{
	local answer
	exec 3<>control/alloc
	echo 'x 4096 tag=mine' >&3
	answer=$(cat <&3)
	is "$answer" "$(<allocations/x/status)"
	like "$answer" 'size_bytes 4096'
}

test_ids_are_never_used_again()
{
	local first
	echo 'x 4096' >control/alloc
	first=$(<allocations/x/id)
	echo x >control/free
	echo 'x 4096' >control/alloc
	[ "$(<allocations/x/id)" -gt "$first" ]
}

test_rmdir_frees()
{
	local kind
	for kind in $kinds; do
		echo "$kind 4096 kind=$kind" >control/alloc
		rmdir "allocations/$kind"
		[ ! -e "allocations/$kind" ]
	done
	is "$(value_of status allocations)" 0
}

test_rm_does_not_free()
{
	echo 'x 4096' >control/alloc
	fails 'rm allocations/x/data'
	rm -r allocations/x 2>/dev/null || true
	echo 'y 4096' >control/alloc
	fails 'rm allocations/y/size_bytes'
	[ -d allocations/y ]
}

test_freed_memory_can_be_had_again()
{
	local kind i
	needs_software 'have little memory'
	for kind in $kinds; do
		for i in 1 2 3 4; do
			echo "x 300M kind=$kind" >control/alloc || fail "$kind, round $i: $(tail -n 1 errors)"
			echo x >control/free
		done
	done
}

test_a_new_allocation_reads_as_zeros()
{
	local kind
	for kind in $kinds; do
		echo "x 3000001 kind=$kind" >control/alloc
		is_zero allocations/x/data
		yes | head -c 3000001 >allocations/x/data
		echo x >control/free
		echo "x 3000001 kind=$kind" >control/alloc
		is_zero allocations/x/data
		echo x >control/free
	done
}

test_small_allocations_share_memory_but_not_bytes()
{
	local ours
	ours=$(<devices/0/memory_held_bytes)
	py <<-'EOF'
		fd = control("alloc")
		for i in range(64):
		    os.write(fd, b"s%d 1000" % i)
		for i in range(64):
		    with open(f"allocations/s{i}/data", "r+b") as file:
		        file.write(bytes([i]) * 1000)
		for i in range(64):
		    assert open(f"allocations/s{i}/data", "rb").read() == bytes([i]) * 1000, i
	EOF
	is "$(cat allocations/s*/address | sort -u | wc -l)" 64
	[ "$(<devices/0/memory_held_bytes)" -le $((ours + (4 << 20))) ]
}

# descriptors_of PROCESS
descriptors_of()
{
	ls "/proc/$1/fd" | wc -l
}

test_small_host_allocations_share_descriptors_but_not_bytes()
{
	local broker worker ours n=20000
	broker=$(<"$T/main/pid")
	ours=$(descriptors_of "$broker")
	seq -f 'h%.0f 1 kind=host' $n >control/alloc
	is "$(ls allocations | wc -l)" $n
	[ "$(descriptors_of "$broker")" -le $((ours + 100)) ] ||
		fail "$(descriptors_of "$broker") descriptors, $ours before"
	py $n <<-'EOF'
		def write(i, text):
		    with open(f"allocations/h{i}/data", "r+b") as file:
		        file.write(text)
		some = range(1, int(sys.argv[1]), 97)
		for i in some:
		    write(i, bytes([i % 251]))
		for i in some:
		    assert open(f"allocations/h{i}/data", "rb").read() == bytes([i % 251]), i
		assert open("allocations/h2/data", "rb").read() == b"\0"
	EOF
	if [ "$(id -u)" = 0 ]; then
		echo 'd 4K kind=direct' >control/alloc
		seq -f 'd from=h%.0f' $n >control/copy
		worker=$(<owners/0/worker)
		[ "$(descriptors_of "$worker")" -le 100 ] ||
			fail "$(descriptors_of "$worker") descriptors of the worker"
	fi
	seq -f 'h%.0f' $n >control/free
	eventually '[ "$(descriptors_of "$broker")" -le $((ours + 10)) ]'
}

# Cells are of many sizes, and are given out again.
test_small_host_allocations_read_as_zeros()
{
	local size
	for size in 1 255 256 257 1000 4095 4096; do
		echo "x $size kind=host" >control/alloc
		echo "beside $size kind=host" >control/alloc
		is_zero allocations/x/data
		yes | head -c "$size" >allocations/x/data
		echo 'x u8:9' >control/fill
		is_zero allocations/beside/data
		echo 'beside from=x' >control/copy
		echo x >control/free
		echo "x $size kind=host" >control/alloc
		is_zero allocations/x/data
		is "$(od -A n -t u1 -N 1 allocations/beside/data | xargs)" 9
		echo x >control/free
		echo beside >control/free
	done
}

test_kernels_use_small_host_allocations()
{
	local before
	needs_kernels
	mkdir modules/saxpy && cp "$GPUMEM_KERNELS/saxpy.ptx" modules/saxpy/image
	echo 'x 64xf32 kind=host' >control/alloc
	echo 'y 64xf32 kind=host' >control/alloc
	echo 'x f32:1.5' >control/fill
	echo 'saxpy saxpy elements=64 u32:64 f32:2 in:x y' >control/launch
	is "$(od -A n -t f4 -v allocations/y/data | xargs -n 1 | uniq -c | xargs)" '64 3'
	before=$(cat allocations/{x,y}/address)
	echo 1 >"owners/$UID/reset"
	echo 'saxpy saxpy elements=64 u32:64 f32:2 in:x y' >control/launch
	is "$(od -A n -t f4 -N 4 allocations/y/data | xargs)" 6
	is "$(cat allocations/{x,y}/address)" "$before"
}

test_async_memory_belongs_to_its_stream()
{
	mkdir streams/s
	echo 'x 1M kind=async stream=s' >control/alloc
	is "$(<allocations/x/stream)" s
	is_zero allocations/x/data
	rmdir allocations/x
}

test_created_and_last_write_are_times()
{
	local before after
	before=$(date +%s)
	echo 'x 4096' >control/alloc
	printf abc | dd of=allocations/x/data conv=notrunc status=none
	after=$(date +%s)
	[ "$(date -d "$(<allocations/x/created)" +%s)" -ge $((before - 1)) ]
	[ "$(date -d "$(<allocations/x/created)" +%s)" -le "$after" ]
	[ "$(stat -c %Y allocations/x)" -ge $((before - 1)) ]
	[ "$(stat -c %Y allocations/x)" -le $((after + 1)) ]
}

test_until_close_frees_when_the_descriptor_closes()
{
	local kind
	for kind in $kinds; do
		exec 3<>control/alloc
		echo "scratch 1M kind=$kind until=close" >&3
		[ -d allocations/scratch ]
		exec 3>&-
		eventually '[ ! -e allocations/scratch ]'
	done
}

test_until_close_frees_at_once_for_a_plain_echo()
{
	echo 'scratch 1M until=close' >control/alloc
	eventually '[ ! -e allocations/scratch ]'
}

test_until_close_outlives_the_writer_while_a_child_holds_the_descriptor()
{
	mkfifo "$T/hold"
	(exec 3<>control/alloc; echo 'scratch 1M until=close' >&3; cat "$T/hold" >/dev/null &)
	[ -d allocations/scratch ]
	: >"$T/hold"
	eventually '[ ! -e allocations/scratch ]'
	rm "$T/hold"
}

test_until_close_frees_when_the_program_is_killed()
{
	local pid
	python3 -c '
import os, time
fd = os.open("control/alloc", os.O_RDWR)
os.write(fd, b"scratch 1M until=close")
time.sleep(1000)' &
	pid=$!
	eventually '[ -d allocations/scratch ]'
	kill -KILL $pid
	wait $pid || true
	eventually '[ ! -e allocations/scratch ]'
}

test_until_close_leaves_alone_what_took_the_name()
{
	exec 3<>control/alloc
	echo 'scratch 4096 until=close' >&3
	rmdir allocations/scratch
	echo 'scratch 8192' >control/alloc
	exec 3>&-
	is "$(<allocations/scratch/size_bytes)" 8192
	sync allocations/scratch/data 2>/dev/null || true
	is "$(<allocations/scratch/size_bytes)" 8192
}

test_until_close_can_be_freed_early()
{
	exec 3<>control/alloc
	echo 'scratch 4096 until=close' >&3
	echo scratch >control/free
	[ ! -e allocations/scratch ]
	exec 3>&-
}

main "$@"
