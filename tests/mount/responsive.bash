#!/bin/bash
# A busy GPU or a hung worker delays only files that need them.
. "${BASH_SOURCE%/*}/lib.bash"

# All files that need no worker answer within 10 s.
answers()
{
	timeout 10 bash -ec '
		ls -l . allocations streams devices control >/dev/null
		cat version status errors events allocations/x/status owners/*/status >/dev/null
		cat devices/*/name control/alloc allocations/x/size_bytes >/dev/null
		echo "other 4096" >control/alloc
		mv allocations/other allocations/another
		rmdir allocations/another
		mkdir streams/other
		rmdir streams/other' || fail "the tree did not answer in time"
}

# dd opens, duplicates and closes the file before the first write.
test_closing_what_has_written_nothing_waits_for_nothing()
{
	echo 'x 4096' >control/alloc
	is_zero allocations/x/data
	slow 30s
	echo 'x u8:1 wait=0' >control/fill
	exec 3<>allocations/x/data
	timeout 10 bash -c 'exec 4>&3; exec 4>&-' || fail 'a close waited for the fill'
	inject
	printf '\2' >&3
	exec 3>&-
	is "$(od -A n -t u1 -N 2 allocations/x/data | xargs)" '2 1'
}

# A look-up in the user database (LDAP, perhaps) may take any time.
test_the_tree_answers_while_the_user_database_does_not()
{
	local uid readers=()
	needs_root 'users'
	touch "$T/slow-users"
	SLOW_USERS=$T/slow-users LD_PRELOAD=${GPUMEMD%/fuse/*}/tests/mount/libslow_users.so \
		ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 \
		broker_start "$T/own" --driver "$(driver own)"
	cd "$T/own/mnt"
	echo 'x 4096' >control/alloc
	for uid in $(seq 1001 1008); do
		by $uid run "echo 'of$uid 4096' >control/alloc"
	done
	for uid in $(seq 1001 1008); do
		timeout 10 cat "owners/$uid/name" >/dev/null &
		readers+=($!)
	done
	answers
	by 1001 timeout 20 bash -c 'echo "worker 4096 kind=direct" >control/alloc'
	is "$(timeout 10 cat owners/1001/name)" 1001
	rm "$T/slow-users"
	eventually '[ "$(<owners/1001/name)" = somebody ]'
	wait "${readers[@]}"
	touch "$T/slow-users"
	by 1009 run 'echo "of1009 4096" >control/alloc'
	cd "$M"
	broker_stop "$T/own"
}

test_the_tree_answers_while_a_copy_is_under_way()
{
	local copy
	echo 'x 4096' >control/alloc
	echo 'y 4096' >control/alloc
	slow 30s
	echo 'x from=y' >control/copy &
	copy=$!
	until_it_waits $copy
	answers
	kill -0 $copy
	kill -KILL $copy
	wait $copy || true
	inject
}

test_the_tree_answers_while_the_driver_makes_memory()
{
	local i
	echo 'x 4096' >control/alloc
	inject 'delay=cuMemCreate@*=5s'
	for i in $(seq 12); do
		echo "large$i 4M" >control/alloc &
		until_it_waits $!
	done
	timeout 3 ls allocations >/dev/null || fail 'ls waited for the driver'
	answers
	inject
	wait
	is "$(ls allocations | wc -l)" 13
}

test_the_tree_answers_while_data_waits()
{
	local readers=() i
	echo 'x 4M' >control/alloc
	slow 30s
	echo 'x u8:1 wait=0' >control/fill
	for _ in $(seq 12); do
		cat allocations/x/data >/dev/null &
		readers+=($!)
	done
	for i in "${readers[@]}"; do
		until_it_waits $i
	done
	answers
	kill -KILL "${readers[@]}"
	wait || true
	inject
}

test_the_tree_answers_while_every_line_waits()
{
	local writers=() i
	echo 'x 4M' >control/alloc
	slow 30s
	for _ in $(seq 24); do
		echo 'x u8:1' >control/fill &
		writers+=($!)
	done
	for i in "${writers[@]}"; do
		until_it_waits $i
	done
	answers
	kill -KILL "${writers[@]}"
	wait || true
	inject
}

# Linux locks an inode from a write to its reply, and for each chmod, even one that fails.
# Each look-up of a control file has an inode of its own, so nobody waits for the lock.
test_a_line_that_waits_keeps_nobody_from_its_file()
{
	local call
	echo 'x 4M' >control/alloc
	slow 30s
	echo 'x u8:1' >control/fill &
	until_it_waits $!
	for call in 'chmod 600 control/fill' 'sync control/fill' 'echo "y u8:1" >control/fill'; do
		timeout 20 bash -c "$call" 2>/dev/null || [ $? != 124 ] || fail "it waited: $call"
	done
	kill -KILL $!
	wait || true
	inject
}

test_the_tree_answers_while_the_mover_is_stopped()
{
	local mover reader
	needs_software 'stop a worker'
	undying
	echo 'x 4M' >control/alloc
	cat allocations/x/data >/dev/null
	mover=$(workers_of "$T/main" mover)
	[ -n "$mover" ]
	stop $mover
	cat allocations/x/data >"$T/read" &
	reader=$!
	until_it_waits $reader
	answers
	kill -CONT $mover
	wait $reader
	is "$(stat -c %s "$T/read")" 4194304
}

test_the_tree_answers_while_an_owners_worker_is_stopped()
{
	local worker reader
	needs_software 'stop a worker'
	undying
	echo 'x 4M' >control/alloc
	echo 'mine 4M kind=direct' >control/alloc
	worker=$(workers_of "$T/main" "$(id -u)")
	[ -n "$worker" ]
	stop $worker
	cat allocations/mine/data >"$T/read" &
	reader=$!
	until_it_waits $reader
	answers
	cmp -n 4194304 allocations/x/data /dev/zero
	kill -CONT $worker
	wait $reader
	is "$(stat -c %s "$T/read")" 4194304
}

# The kernel has a single background queue for requests without a waiting process: readahead
# into the page cache, and RELEASE.
test_reads_ahead_hold_back_no_closing()
{
	echo 'x 32M' >control/alloc
	slow 30s
	echo 'x u8:1 wait=0' >control/fill
	py <<-'EOF'
		fd = os.open("allocations/x/data", os.O_RDONLY)
		for mebibyte in range(32):
		    os.posix_fadvise(fd, mebibyte << 20, 1 << 20, os.POSIX_FADV_WILLNEED)
	EOF
	exec 3<>control/alloc
	echo 'mine 1M until=close' >&3
	[ -d allocations/mine ]
	exec 3>&-
	eventually '[ ! -d allocations/mine ]' 10
	inject
}

# The kernel comes after the write in the order of uses.
test_close_waits_for_nothing_queued_after_the_last_write()
{
	needs_kernels
	mkdir modules/faults && cp "$GPUMEM_KERNELS/faults.ptx" modules/faults/image
	echo 'x 64K' >control/alloc
	is "$(py <<-'EOF'
		fd = os.open("allocations/x/data", os.O_WRONLY)
		os.pwrite(fd, b"x" * 4096, 8192)
		os.write(control("launch"), b"faults endless grid=1 block=1 wait=0 x+32")
		signal.alarm(5)
		show(os.fsync, fd)
		show(os.close, fd)
	EOF
	)" $'None\nNone'
	echo 1 >"owners/$("${AS[@]}" id -u)/reset"
}

test_close_waits_for_the_writes_of_its_descriptor_alone()
{
	local seconds
	needs_software 'be slow'
	echo 'x 64K' >control/alloc
	inject 'delay=cuMemcpyHtoDAsync_v2@1=3s'
	seconds=$(py <<-'EOF'
		first, second = [os.open("allocations/x/data", os.O_WRONLY) for _ in range(2)]
		os.pwrite(first, b"x" * 4096, 0)
		time.sleep(0.2)  # the slow call is of the first write
		os.pwrite(second, b"x" * 4096, 8192)
		begin = time.monotonic()
		os.close(second)
		print(int(time.monotonic() - begin), end=" ")
		os.close(first)
		print(int(time.monotonic() - begin))
	EOF
	)
	[[ $seconds =~ ^[01]\ [23]$ ]] || fail "closed after $seconds s"
}

main "$@"
