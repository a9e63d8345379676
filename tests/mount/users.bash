#!/bin/bash
# Owners, groups and modes between users of one broker that root started.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"

alice=1001 bob=1002

# Users without a passwd entry need no setup.
grouped()
{
	local AS=(setpriv "--reuid=$1" "--regid=$1" "--groups=$2")
	shift 2
	"$@"
}

# An owner of a file may take a lease of Linux, and each open by another waits for 45 s.
test_no_lease_of_linux_on_what_everybody_reads()
{
	needs_root 'two users'
	by $alice run 'mkdir streams/s; echo "x 4K mode=644" >control/alloc'
	is "$(py $alice <<-'EOF'
		import fcntl
		become(int(sys.argv[1]))
		signal.signal(signal.SIGIO, signal.SIG_IGN)
		n = 0
		for top in ["allocations/x", "streams/s", f"owners/{os.getuid()}"]:
		    for folder, _, files in os.walk(top):
		        for file in files:
		            path = f"{folder}/{file}"
		            if os.stat(path).st_mode & 0o777 != 0o444:
		                continue
		            n += 1
		            fd = os.open(path, os.O_RDONLY)
		            try:
		                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
		                print(path)
		            except PermissionError:
		                pass
		print(n > 20)
	EOF
	)" True
}

test_an_allocation_belongs_to_whom_allocated_it()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc'
	is "$(<allocations/x/owner)" $alice
	is "$(stat -c '%u %g' allocations/x/data)" "$alice $alice"
	is "$(<owners/$alice/allocations)" 1
	is "$(<owners/$alice/bytes)" 4096
}

test_every_user_can_allocate_every_kind()
{
	local kind
	needs_root 'several users'
	for kind in $kinds; do
		by $alice run "echo '$kind 1M kind=$kind' >control/alloc && yes | head -c 1M >allocations/$kind/data"
		by $alice run "cmp allocations/$kind/data <(yes | head -c 1M)"
	done
}

test_data_is_its_owners_alone_unless_he_says_otherwise()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc; echo secret >allocations/x/data'
	by $bob denied EACCES 'cat allocations/x/data'
	by $bob denied EACCES 'echo mine >allocations/x/data'
	is "$(head -c 6 allocations/x/data)" secret
}

test_names_and_attributes_are_visible_to_all()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc'
	is "$(by $bob run 'ls allocations')" x
	like "$(by $bob run 'cat events')" 'x'
}

test_mode_opens_data_for_reading()
{
	local kind
	needs_root 'several users'
	for kind in $kinds; do
		by $alice run "echo 'x 4096 kind=$kind mode=644' >control/alloc; echo shared >allocations/x/data"
		is "$(by $bob run 'head -c 6 allocations/x/data')" shared
		by $bob denied EACCES 'echo mine >allocations/x/data'
		by $bob refused EACCES 'x' 'echo "x u8:1" >control/fill'
		by $alice run 'rmdir allocations/x'
	done
}

test_chmod_opens_and_closes_data()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc; echo shared >allocations/x/data'
	by $alice run 'chmod 666 allocations/x'
	by $bob run 'echo other >allocations/x/data'
	is "$(by $alice run 'head -c 5 allocations/x/data')" other
	by $alice run 'chmod 600 allocations/x'
	by $bob denied EACCES 'cat allocations/x/data'
}

# The kernel may use what it was told of a file for a moment, but not past a chmod.
test_a_closed_mode_is_in_force_for_who_has_just_looked()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc'
	is "$(python3 - $alice $bob 2>&1 <<-'EOF'
		import os, sys

		alice, bob = map(int, sys.argv[1:])
		os.setgroups([])
		os.setresgid(bob, bob, 0)
		for turn in range(200):
		    os.seteuid(alice)
		    os.chmod("allocations/x", 0o666)
		    os.seteuid(0)
		    os.seteuid(bob)
		    for entry in os.scandir("allocations/x"):
		        entry.stat()
		    for name in ["data", "lease", "tensors"]:
		        os.close(os.open("allocations/x/" + name, os.O_RDONLY))
		    os.seteuid(0)
		    os.seteuid(alice)
		    os.chmod("allocations/x", 0o400)
		    os.seteuid(0)
		    os.seteuid(bob)
		    for name in ["data", "lease", "tensors"]:
		        try:
		            os.close(os.open("allocations/x/" + name, os.O_RDONLY))
		            print(turn, name, "was opened")
		        except PermissionError:
		            pass
		    os.seteuid(0)
		    for name in ["data", "lease", "tensors", "map"]:
		        mode = os.stat("allocations/x/" + name).st_mode
		        if mode & 0o222:
		            print(turn, name, "has mode", oct(mode))
		EOF
	)" ''
}

# The kernel checks the mode before it sends the request, and an open may wait its turn. The
# kernel holds locks of shared folders while attributes are set, so that waits for no turn.
test_an_open_that_waits_is_refused_after_a_chmod()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096 mode=666" >control/alloc; echo "y 4096 mode=666" >control/alloc'
	by $alice run 'echo first >allocations/y/data'
	# Bob's groups take long to read, so his requests wait for each other.
	ALICE=$alice BOB=$bob py >"$T/bob" <<-'EOF'
		begin, change = os.pipe()
		changer = os.fork()
		if changer == 0:
		    become(int(os.environ["ALICE"]))
		    os.read(begin, 1)
		    os.chmod("allocations/x", 0o600)
		    os.chmod("allocations/y", 0o600)
		    os._exit(0)
		os.setgroups(range(100000, 160000))
		bob = int(os.environ["BOB"])
		os.setresgid(bob, bob, bob)
		os.setresuid(bob, bob, bob)
		libc.prctl(1, signal.SIGKILL)
		def open_one(): os.close(os.open("control/alloc", os.O_WRONLY))
		stop = threading.Event()
		def decoy():
		    while not stop.is_set(): open_one()
		def late(what, call, *args): os.write(1, f"{what} {attempt(call, *args)}\n".encode())
		open_one()
		threads = [threading.Thread(target=decoy) for i in range(400)]
		for thread in threads: thread.start()
		while threads_that_wait() < 300: time.sleep(0.001)
		os.utime("allocations")
		os.utime("control/fill")
		os.utime("allocations/y/data")
		os.truncate("allocations/y/data", 0)
		for arguments in [("data", os.open, "allocations/x/data", os.O_RDONLY),
		                  ("tensors", os.open, "allocations/x/tensors", os.O_RDONLY)]:
		    threads.append(threading.Thread(target=late, args=arguments))
		    threads[-1].start()
		late_tasks = [thread.native_id for thread in threads[400:]]
		while threads_that_wait(late_tasks) < 2 and all(t.is_alive() for t in threads[400:]):
		    time.sleep(0.001)
		os.write(change, b"x")
		os.waitpid(changer, 0)
		stop.set()
		for thread in threads: thread.join()
	EOF
	is "$(sort "$T/bob" | xargs)" 'data EACCES tensors EACCES'
	is "$(by $alice run 'head -c 5 allocations/y/data | tr -d "\0"')" ''
	by $alice run 'rmdir allocations/x allocations/y'
}

# The memory is in a block of the broker's, and her own worker has to unmap the block.
test_nobody_waits_long_for_memory_that_its_owners_stopped_worker_keeps()
{
	local worker before
	needs_software 'stop a worker'
	undying
	loaded_by $alice saxpy
	by $alice run 'echo "full 400M" >control/alloc; echo "kept 4M" >control/alloc'
	by $alice run 'echo "saxpy saxpy elements=64 u32:64 f32:2 kept kept" >control/launch'
	worker=$(<owners/$alice/worker)
	stop "$worker"
	before=$SECONDS
	by $alice run 'rmdir allocations/kept'
	by $bob refused ENOMEM 'uid 1001' 'echo "large 300M" >control/alloc'
	[ $((SECONDS - before)) -le 5 ] || fail "bob waited for $((SECONDS - before)) s"
	kill -CONT "$worker"
	by $alice run 'rmdir allocations/full modules/saxpy'
}

# Her memory was the broker's, and his is made in his own process.
test_a_process_of_a_user_gets_what_another_freed()
{
	needs_root 'several users'
	needs_software 'fill a device'
	by $alice run 'echo "full 500M" >control/alloc'
	by $bob run 'echo "small 64K kind=direct" >control/alloc'
	by $bob run 'echo "large 300M kind=direct wait=20" >control/alloc' &
	sleep 0.5 # the line waits now
	by $alice run 'rmdir allocations/full'
	wait $! || fail "bob's line fails:" "$(by $bob run 'tail -n 1 errors')"
	by $bob run 'rmdir allocations/large allocations/small'
}

# loaded_by UID NAME [FILE]: loads tests/kernels/FILE.cu as a module NAME of the user.
loaded_by()
{
	needs_root 'several users'
	needs_kernels
	by "$1" run "mkdir 'modules/$2' && cp '$GPUMEM_KERNELS/${3-$2}.ptx' 'modules/$2/image'"
}

# used_endlessly_by UID ARG: launches an endless kernel of the user on ARG.
used_endlessly_by()
{
	[ -d modules/faults ] || loaded_by "$1" faults
	by "$1" run "echo 'faults endless grid=1 block=1 wait=0 $2' >control/launch"
}

# kernels_end_of UID: ends the user's kernels and collects their failure, which a later line
# of the user would otherwise report.
kernels_end_of()
{
	by "$1" run "echo 1 >owners/$1/reset; ! echo default >control/synchronize" 2>/dev/null
}

# in_background_by UID COMMAND...: the process is $!, so a case can send signals.
in_background_by()
{
	setpriv "--reuid=$1" "--regid=$1" --groups="$1,2000" "${@:2}" &
}

# look_by UID WHEN: the tree and the files of x answer this user within 10 s.
look_by()
{
	by "$1" run 'timeout 10 bash -c "ls -l allocations/. allocations/x; stat allocations/x/data
		cat allocations/x/state; exec 5<allocations/x/data; cat status" >/dev/null 2>&1
		[ $? != 124 ]' || fail "uid $1 had to wait while: $2"
}

# changes_wait_for_no_kernel CHANGE...: alice makes the changes one by one, and none may
# wait. A change stuck in the Linux kernel ends by no signal, so the case looks from outside.
changes_wait_for_no_kernel()
{
	local change changing
	for change in "$@"; do
		in_background_by $alice bash -c "$change"
		changing=$!
		look_by $bob "$change"
		look_by $alice "$change"
		eventually "[ ! -e /proc/$changing ]" 5
		wait $changing || fail "it failed: $change"
	done
}

test_changes_of_what_its_owners_kernel_uses_hold_up_nobody()
{
	needs_root 'several users'
	by $alice run 'echo "x 64" >control/alloc; echo secret >allocations/x/data'
	used_endlessly_by $alice x+32
	changes_wait_for_no_kernel 'chmod 644 allocations/x' 'chgrp 2000 allocations/x/data' \
		'chmod 600 allocations/x/data' 'chmod 666 allocations/x' 'truncate -s 8 allocations/x/data' \
		': >allocations/x/data' 'chmod 600 allocations/x' 'rmdir allocations/x'
	kernels_end_of $alice
}

test_changes_of_what_another_users_kernel_uses_hold_up_nobody()
{
	needs_root 'several users'
	by $alice run 'echo "x 64 mode=666" >control/alloc; echo shown >allocations/x/data'
	used_endlessly_by $bob x+32
	changes_wait_for_no_kernel 'chmod 666 allocations/x' 'truncate -s 8 allocations/x/data' \
		': >allocations/x/data' 'chgrp 2000 allocations/x' 'chmod 606 allocations/x/data' \
		'chmod 600 allocations/x' 'chmod 644 allocations/x' 'rmdir allocations/x'
	kernels_end_of $bob
}

# A reader behind the change waits for the GPU kernel, and a signal ends this wait.
test_who_waits_behind_a_change_can_be_killed()
{
	local command waiting pid
	needs_root 'several users'
	by $alice run 'echo "x 64 mode=666" >control/alloc; echo shown >allocations/x/data'
	used_endlessly_by $alice x+32
	changes_wait_for_no_kernel ': >allocations/x/data' 'chmod 660 allocations/x' 'chmod 666 allocations/x'
	waiting=()
	for command in 'exec cat allocations/x/data' 'echo mine 1<>allocations/x/data'; do
		in_background_by $bob bash -c "$command"
		waiting+=($!)
		until_it_waits $!
	done
	for pid in ${waiting[@]}; do
		kill -KILL $pid
		wait $pid || true
	done
	kernels_end_of $alice
}

test_a_mode_is_in_force_when_chmod_returns()
{
	needs_root 'several users'
	by $alice run 'echo "x 64" >control/alloc; echo secret >allocations/x/data'
	used_endlessly_by $alice x+32
	changes_wait_for_no_kernel 'chmod 640 allocations/x' 'chgrp 2000 allocations/x/data'
	is "$(stat -c '%a %g' allocations/x/data)" '640 2000'
	grouped $bob 2000 run 'exec 5<allocations/x/data'
	by $bob denied EACCES 'exec 5<allocations/x/data'
	changes_wait_for_no_kernel 'chmod 600 allocations/x'
	grouped $bob 2000 denied EACCES 'exec 5<allocations/x/data'
	kernels_end_of $alice
	eventually '[ "$(<allocations/x/state)" = live ]'
	is "$(stat -c '%a %g' allocations/x/data)" '600 2000'
	grouped $bob 2000 denied EACCES 'cat allocations/x/data'
}

# words_of FILE: prints the first two numbers.
words_of()
{
	od -A n -t d4 -N 8 "$1" | xargs
}

# x moves to a block of its own. Its neighbour in the shared block does not move and stays
# unreadable for bob.
test_small_memory_stands_alone_before_another_users_kernel_has_it()
{
	local address neighbour
	needs_root 'several users'
	by $alice run 'echo "x 64" >control/alloc; echo "near 64" >control/alloc; echo secret >allocations/near/data'
	by $alice run "printf '\\3' | dd of=allocations/x/data conv=notrunc status=none"
	address=$(<allocations/x/address) neighbour=$(<allocations/near/address)
	is $((neighbour - address)) 256
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	by $alice run 'chmod 644 allocations/x'
	is "$(by $bob run 'head -c 1 allocations/x/data | od -A n -t u1')" '   3'
	is "$(<allocations/x/address)" "$address"
	by $bob run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	is "$(words_of allocations/mine/data)" '4 0'
	[ "$(<allocations/x/address)" != "$address" ]
	is "$(<allocations/x/generation)" 2
	is "$(<allocations/near/address) $(<allocations/near/generation)" "$neighbour 1"
	is "$(by $alice run 'head -c 1 allocations/x/data | od -A n -t u1')" '   3'
	by $bob refused EFAULT 'order/add' \
		"echo 'order add grid=1 block=1 u64:$neighbour i32:0 mine' >control/launch"
	by $bob run '! echo default >control/synchronize' 2>/dev/null || true
}

# Each of bob's launches has one of alice's allocations move to a block of its own.
test_a_reader_uses_up_nothing_of_the_owners_limit()
{
	local alice=1021 before x
	needs_root 'several users'
	by $alice run 'for x in {1..8}; do echo "x$x 64"; done >control/alloc; chmod 644 allocations/x{1..7}'
	before=$(value_of owners/$alice/current device:0)
	is "$before" $((16 << 20))
	echo "device:0 $before" >owners/$alice/max
	by $alice refused EDQUOT 'allocation x8 shares a block' 'chmod 644 allocations/x8'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	by $bob run 'for x in {1..7}; do echo "order add grid=1 block=1 in:x$x i32:1 mine"; done >control/launch'
	is "$(<allocations/x7/generation)" 2
	is "$(value_of owners/$alice/current device:0)" "$before"
	by $bob refused EACCES 'x8 ' 'echo "order add grid=1 block=1 in:x8 i32:1 mine" >control/launch'
	by $alice run 'rmdir allocations/x{1..8}'
	eventually '[ "$(value_of owners/'$alice'/current device:0)" = 0 ]'
	is "$(value_of owners/$alice/peak device:0)" "$before"
	echo default >owners/$alice/max
}

# The device has no room for the block: what was charged stays, for the next launch.
test_a_move_that_fails_keeps_the_owners_charge()
{
	local alice=1022 before
	needs_root 'several users'
	needs_software 'fill a device'
	loaded_by $bob order
	by $alice run 'echo "x 64" >control/alloc; echo "near 64" >control/alloc; chmod 644 allocations/x'
	by $bob run 'echo "mine 64" >control/alloc'
	before=$(value_of owners/$alice/current device:0)
	is "$before" $((4 << 20))
	# The first refusal has spare blocks given back.
	for _ in 1 2 3; do
		while by $bob run 'echo "full$RANDOM$RANDOM 2M wait=0" >control/alloc' 2>/dev/null; do :; done
	done
	by $bob refused ENOMEM 'allocation x shares a block' 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	is "$(value_of owners/$alice/current device:0)" "$before"
	by $alice refused ENOMEM 'allocation near shares a block' 'cat allocations/near/lease'
	is "$(value_of owners/$alice/current device:0) $(value_of owners/$alice/peak device:0)" "$before $before"
	by $bob run 'rmdir allocations/full*'
	by $bob run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	is "$(value_of owners/$alice/current device:0)" "$before"
	by $alice run 'rmdir allocations/x allocations/near'
	eventually '[ "$(value_of owners/'$alice'/current device:0)" = 0 ]'
}

test_the_next_broker_knows_who_has_paid_for_a_move()
{
	needs_root 'several users'
	keep
	cd "$O"
	by $alice run 'for x in x y z; do echo "$x 64"; done >control/alloc; chmod 644 allocations/{x,y,z}'
	by $alice run 'cat allocations/y/lease >/dev/null; chmod 600 allocations/z'
	is "$(value_of owners/$alice/current device:0)" $((6 << 20))
	die
	is "$(value_of owners/$alice/current device:0)" $((6 << 20))
	by $alice run 'chmod 600 allocations/{x,y}'
	is "$(value_of owners/$alice/current device:0)" $((4 << 20))
	die
	is "$(value_of owners/$alice/current device:0)" $((4 << 20))
	by $alice run 'rmdir allocations/{x,y,z}'
	eventually '[ "$(value_of owners/'$alice'/current device:0)" = 0 ]'
	cd "$M"
	end
}

# The move only reads x, so the move need not wait for a kernel that reads x.
test_a_kernel_that_reads_keeps_nobody_from_reading_with_another()
{
	needs_root 'several users'
	by $alice run "echo 'x 64' >control/alloc; printf '\\3' | dd of=allocations/x/data conv=notrunc status=none"
	used_endlessly_by $alice in:x+32
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	changes_wait_for_no_kernel 'chmod 644 allocations/x'
	by $bob run 'timeout 20 bash -c "echo order add grid=1 block=1 in:x i32:1 mine >control/launch"'
	is "$(words_of allocations/mine/data)" '4 0'
	is "$(<allocations/x/used_by)" $alice
	is "$(by $alice run 'timeout 10 head -c 1 allocations/x/data | od -A n -t u1')" '   3'
	kernels_end_of $alice
}

test_small_memory_that_is_closed_again_does_not_move()
{
	local address
	needs_root 'several users'
	by $alice run 'echo "x 64" >control/alloc; echo secret >allocations/x/data'
	address=$(<allocations/x/address)
	used_endlessly_by $alice x+32
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	changes_wait_for_no_kernel 'chmod 644 allocations/x'
	is "$(<allocations/x/address)" "$address"
	by $bob run 'echo "order add grid=1 block=1 in:x i32:0 mine wait=0" >control/launch'
	changes_wait_for_no_kernel 'chmod 600 allocations/x'
	kernels_end_of $alice
	by $bob refused EACCES 'allocation x of uid 1001 was shut off from uid 1002, with mode 0600, before kernel order/add began' \
		'echo default >control/synchronize'
	is_zero allocations/mine/data
}

# How a process has mapped host memory is seen from outside.
test_memory_is_taken_away_while_its_owners_kernel_goes_on()
{
	local address worker
	needs_root 'several users'
	undying
	by $alice run 'echo "h 4096 kind=host mode=666" >control/alloc'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc; echo "order add grid=1 block=1 in:h i32:1 mine" >control/launch'
	address=$(<allocations/h/address)
	worker=$(<owners/$bob/worker)
	grep -q "^${address#0x}-" /proc/$worker/maps
	used_endlessly_by $alice h+32
	changes_wait_for_no_kernel 'chmod 600 allocations/h'
	eventually "! grep -q '^${address#0x}-' /proc/$worker/maps"
	is "$(<allocations/h/used_by)" $alice
	kernels_end_of $alice
	is "$(<owners/$bob/worker)" "$worker"
}

# The interrupted write leaves the order, so the second read does not wait for that write.
test_a_write_that_was_interrupted_keeps_nobody_from_reading()
{
	local writing
	needs_root 'several users'
	by $alice run 'echo "x 64 mode=644" >control/alloc; echo shown >allocations/x/data'
	used_endlessly_by $bob in:x+32
	in_background_by $alice dd if=/etc/passwd of=allocations/x/data bs=8 count=1 conv=notrunc status=none
	writing=$!
	until_it_waits $writing
	kill -TERM $writing
	fails 'wait $writing'
	is "$(by $alice run 'timeout 10 head -c 5 allocations/x/data')" shown
	kernels_end_of $bob
	eventually '[ "$(<allocations/x/state)" = live ]'
	is "$(head -c 5 allocations/x/data)" shown
}

test_a_truncation_has_its_place_when_it_returns()
{
	local reading
	needs_root 'several users'
	by $alice run 'echo "x 64 mode=666" >control/alloc; yes | head -c 16 >allocations/x/data'
	used_endlessly_by $bob x+32
	changes_wait_for_no_kernel 'truncate -s 8 allocations/x/data'
	by $alice run 'cat allocations/x/data' >"$T/read" &
	reading=$!
	eventually "pgrep -P $reading -x cat || [ \"\$(</proc/$reading/comm)\" = cat ]"
	until_it_waits $(pgrep -P $reading -x cat || echo $reading)
	kernels_end_of $bob
	wait $reading
	cmp "$T/read" <(yes | head -c 8; head -c 56 /dev/zero)
}

# The zeroing of a truncation may fail later; a reader of these bytes gets the error.
test_a_truncation_that_fails_shows_nothing_old()
{
	local reading
	needs_software 'go wrong'
	needs_root 'several users'
	by $alice run 'echo "x 64 mode=666" >control/alloc; yes secret | head -c 32 >allocations/x/data'
	used_endlessly_by $bob x+32
	changes_wait_for_no_kernel 'truncate -s 7 allocations/x/data'
	inject 'fail=cuMemsetD8Async@*=CUDA_ERROR_INVALID_VALUE'
	in_background_by $alice head -c 9 allocations/x/data >"$T/read" 2>&1
	reading=$!
	until_it_waits $reading
	kernels_end_of $bob
	fails 'wait $reading'
	like "$(<"$T/read")" 'Input/output error'
	like "$(by $alice run 'tail -n 2 errors')" 'allocations/x/data EIO zeroing of allocation x .*cuMemsetD8Async'
	by $alice refused EIO 'zeroing of allocation x .*cuMemsetD8Async' 'cat allocations/x/data'
	inject
	is "$(by $alice run 'tr "\0" . <allocations/x/data | head -c 9')" $'secret\n..'
}

# Bob's kernel is queued behind alice's, so bob's worker has not mapped x yet.
test_what_is_queued_when_a_mode_is_closed_does_not_get_the_memory()
{
	local address
	needs_root 'several users'
	by $alice run 'echo "x 64 mode=644" >control/alloc; echo secret >allocations/x/data'
	used_endlessly_by $alice x+32
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc; echo "order add grid=1 block=1 in:x i32:0 mine wait=0" >control/launch'
	changes_wait_for_no_kernel 'chmod 600 allocations/x'
	kernels_end_of $alice
	by $bob refused EACCES 'allocation x of uid 1001 was shut off from uid 1002, with mode 0600, before kernel order/add began' \
		'echo default >control/synchronize'
	is_zero allocations/mine/data
	address=$(<allocations/x/address)
	by $bob refused EFAULT 'order/add' \
		"echo 'order add grid=1 block=1 u64:$address i32:0 mine' >control/launch"
	is_zero allocations/mine/data
	by $bob run '! echo default >control/synchronize' 2>/dev/null || true
}

# patient: starts a broker for this case alone, with a give-back limit of 1 s instead of 10.
patient()
{
	needs_root 'several users'
	broker_start "$T/own" --driver "$(driver own)" --give-back-timeout 1
	cd "$T/own/mnt"
}

# stop_worker_of UID: a user may stop the user's own worker.
stop_worker_of()
{
	stop "$(<"owners/$1/worker")"
}

test_a_stopped_worker_does_not_keep_what_is_taken_from_it()
{
	patient
	needs_software 'stop a worker'
	by $alice run 'echo "g 300M mode=644" >control/alloc; echo "h 4096 kind=host mode=644" >control/alloc'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc; echo "order add grid=1 block=1 in:g i32:1 mine" >control/launch'
	stop_worker_of $bob
	changes_wait_for_no_kernel 'chmod 600 allocations/g'
	eventually '[ "$(<owners/$bob/restarts)" = 1 ]'
	eventually '[ "$(<allocations/g/state)" = live ]'
	like "$(by $bob run 'tail -n 1 errors')" \
		'owners/1002/worker ETIMEDOUT the worker of uid 1002 was ended: it did not give memory back within 1 s'
	by $alice run 'chmod 644 allocations/g'
	by $bob run 'echo "order add grid=1 block=1 in:g i32:1 mine" >control/launch'
	by $bob run 'echo "order add grid=1 block=1 in:h i32:1 mine" >control/launch'
	stop_worker_of $bob
	by $alice run 'rmdir allocations/g'
	# An alloc gives up after three times the limit, so a busy machine may need several.
	eventually "by $alice run 'timeout 30 bash -c \"echo x 400M >control/alloc\"'"
	eventually '[ "$(<owners/$bob/restarts)" = 2 ]'
	is "$(by $bob run 'head -c 1 allocations/mine/data | od -A n -t u1')" '   1'
	cd "$M"
	broker_stop "$T/own"
}

# The time limit is 1 s for all of them together.
test_twelve_stopped_workers_keep_freed_memory_no_longer_than_one()
{
	local user
	patient
	needs_software 'stop a worker'
	by $alice run 'echo "g 4M mode=666" >control/alloc'
	for user in {1002..1013}; do
		loaded_by $user "order$user" order
		by $user run "echo 'order$user add grid=1 block=1 in:g i32:1 g' >control/launch"
		stop_worker_of $user
	done
	by $alice run 'rmdir allocations/g'
	eventually '[ "$(<owners/$alice/bytes)" = 0 ]' 8
	is "$(cat owners/{1002..1013}/restarts | xargs)" '1 1 1 1 1 1 1 1 1 1 1 1'
	cd "$M"
	broker_stop "$T/own"
}

test_a_kernel_that_uses_what_was_shut_off_is_ended()
{
	patient
	by $alice run 'echo "pub 64 mode=644" >control/alloc; echo shown >allocations/pub/data'
	is "$(<allocations/pub/used_by)" none
	used_endlessly_by $bob in:pub+32
	is "$(<allocations/pub/used_by) $(<allocations/pub/used_by_kernel)" "$bob faults/endless"
	is "$(value_of allocations/pub/status used_by)" $bob
	changes_wait_for_no_kernel 'chmod 600 allocations/pub'
	by $alice run 'echo mine! | timeout 30 dd of=allocations/pub/data conv=notrunc status=none'
	is "$(<allocations/pub/used_by)" none
	like "$(by $bob run 'tail -n 1 errors')" \
		'ETIMEDOUT the worker of uid 1002 was ended: kernel faults/endless still used allocation pub 1 s after that was shut off'
	by $bob refused EIO 'faults/endless was ended' 'echo default >control/synchronize'
	is "$(head -c 5 allocations/pub/data)" mine!
	cd "$M"
	broker_stop "$T/own"
}

# Bob's process has time to save what is his.
test_a_worker_that_is_ended_for_what_was_shut_off_saves_its_own_memory()
{
	local change restarts=0
	patient
	loaded_by $bob order
	for change in 'chmod 600 allocations/pub' 'echo 1 >allocations/pub/sealed'; do
		by $alice run 'echo "pub 64 mode=666" >control/alloc'
		by $bob run 'printf "%s\n" "mine 64" "m 8M kind=managed" >control/alloc
			echo "m u8:77" >control/fill'
		# Bob's worker has pub for writing from now on.
		by $bob run 'echo "order add grid=1 block=1 in:pub i32:1 mine" >control/launch'
		used_endlessly_by $bob in:pub
		restarts=$((restarts + 1))
		by $alice run "$change"
		eventually '[ "$(<owners/$bob/restarts)" = $restarts ]'
		is "$(by $bob head -c 2 allocations/m/data)" MM
		is "$(<allocations/m/state)" live
		by $bob refused EIO 'faults/endless was ended' 'echo default >control/synchronize'
		by $alice rmdir allocations/pub
		by $bob rmdir allocations/m allocations/mine modules/faults
	done
	cd "$M"
	broker_stop "$T/own"
}

# The last process began after the chmod, and has never had the memory.
test_memory_that_was_shut_off_waits_for_no_later_process()
{
	local process resetting i
	local -a processes all_resetting
	needs_software 'stop a worker'
	undying
	by $alice run 'echo "x 4096 mode=644" >control/alloc'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc
		echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	for i in {1..3}; do
		by $bob run "echo 'm$i 64 kind=managed' >control/alloc"
		reset_stopped_worker_of $bob
		processes+=($process)
		all_resetting+=($resetting)
		by $alice run 'chmod 600 allocations/x'
	done
	kill -KILL "${processes[@]:0:2}"
	by $alice run 'echo mine! | timeout 30 dd of=allocations/x/data conv=notrunc,fsync status=none'
	[ -e /proc/$process ] || fail 'the write waited for a process without the memory'
	kill -KILL $process
	wait "${all_resetting[@]}"
}

# holds_mine: bob holds his own memory `mine` as long as $holder lives.
holds_mine()
{
	in_background_by $bob bash -c 'exec 5<>allocations/mine/lease; head -c 4096 <&5 >/dev/null
		echo "hold w" >&5; exec sleep 1000'
	holder=$!
	eventually 'grep -q hold=w allocations/mine/leases'
}

# Bob's worker would keep x for writing for good, if the work began after the seal.
test_work_of_guests_that_waits_to_write_what_is_sealed_is_turned_away()
{
	local holder kind what work
	needs_root 'several users'
	loaded_by $bob order
	mkdir -p -m 777 "$T/theirs"
	by $bob run "printf '\\5\\0\\0\\0' >'$T/theirs/five'; echo 'mine 4K' >control/alloc"
	for kind in device host; do
		for work in 'launch:order add grid=1 block=1 in:mine i32:1 x' "load:x path=$T/theirs/five"; do
			what=${work%%:*}
			by $alice run "echo 'x 64 kind=$kind mode=666' >control/alloc; echo 'x i32:3' >control/fill"
			holds_mine
			by $bob run "echo 'order add grid=1 block=1 in:x i32:1 mine wait=0' >control/launch
				echo '${work#*:} wait=0' >control/$what"
			by $alice run 'echo 1 >allocations/x/sealed'
			is "$work $kind: $(words_of allocations/x/data)" "$work $kind: 3 3"
			kill $holder
			if [ "$what" = launch ]; then
				by $bob refused EPERM "x of uid $alice was sealed before kernel order/add began" \
					'echo default >control/synchronize'
			else
				by $bob run 'echo default >control/synchronize'
				like "$(grep control/load errors | tail -n 1)" \
					"uid=$bob .* EPERM allocation x of uid $alice was sealed before the load began"
			fi
			is "$work $kind: $(words_of allocations/mine/data)" "$work $kind: 4 0"
			by $bob refused EFAULT 'order/add' \
				"echo 'order add grid=1 block=1 in:mine i32:7 u64:$(<allocations/x/address)' >control/launch"
			is "$work $kind: $(words_of allocations/x/data)" "$work $kind: 3 3"
			by $alice run 'rmdir allocations/x'
			by $bob run 'echo "mine u8:0" >control/fill'
		done
	done
}

# Bob's worker has x for writing, and `in:` is a word of his.
test_who_had_it_for_writing_has_sealed_memory_for_reading()
{
	local kind
	needs_root 'several users'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	for kind in device host; do
		by $alice run "echo 'x 64 kind=$kind mode=666' >control/alloc; echo 'x i32:3' >control/fill"
		by $bob run 'echo "order add grid=1 block=1 in:mine i32:5 x" >control/launch'
		is "$kind: $(words_of allocations/x/data)" "$kind: 5 3"
		by $alice run 'echo 1 >allocations/x/sealed'
		by $bob refused EFAULT 'order/add' 'echo "order add grid=1 block=1 in:mine i32:7 in:x" >control/launch'
		is "$kind: $(words_of allocations/x/data)" "$kind: 5 3"
		by $bob run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
		is "$kind: $(words_of allocations/mine/data)" "$kind: 6 0"
		by $alice run 'rmdir allocations/x'
		by $bob run 'echo "mine u8:0" >control/fill'
	done
}

test_a_read_of_what_is_sealed_waits_for_kernels_of_guests_that_may_still_write()
{
	local withdrawn
	patient
	for withdrawn in 'chmod 600 allocations/pub' :; do
		by $alice run 'echo "pub 64 mode=666" >control/alloc; echo shown >allocations/pub/data'
		used_endlessly_by $bob in:pub+32
		by $alice run "$withdrawn; echo 1 >allocations/pub/sealed"
		is "$(by $alice run 'timeout 30 head -c 5 allocations/pub/data')" shown
		is "$(<allocations/pub/used_by)" none
		like "$(by $bob run 'tail -n 1 errors')" 'ETIMEDOUT the worker of uid 1002 was ended: kernel faults/endless still used allocation pub 1 s after that was (shut off|sealed)'
		by $alice run 'rmdir allocations/pub'
	done
	cd "$M"
	broker_stop "$T/own"
}

# The kernel has the address alone, so nothing but the worker's mapping tells of it. It ends
# as it would, or with a fault: NVIDIA's driver takes device memory from a running kernel.
test_a_read_of_what_is_sealed_waits_while_memory_is_taken_away()
{
	local kind address sealed
	needs_root 'several users'
	loaded_by $bob order
	for kind in device host; do
		by $alice run "echo 'x 64 kind=$kind mode=666' >control/alloc"
		address=$(<allocations/x/address)
		by $bob run "echo 'order slow_set grid=1 block=1 x i32:5 u64:0' >control/launch
			echo 'order slow_set grid=1 block=1 u64:$address i32:9 u64:2000000000 wait=0' >control/launch"
		by $alice run 'chmod 644 allocations/x; echo 1 >allocations/x/sealed'
		sealed=$(words_of allocations/x/data)
		by $bob run 'echo default >control/synchronize' 2>/dev/null || true
		is "$kind: $(words_of allocations/x/data)" "$kind: $sealed"
		by $alice run 'rmdir allocations/x'
	done
}

# journal_of NAME: prints the record of an allocation of the broker at $T/own.
journal_of()
{
	local broker
	broker=$(<"$T/own/mnt/pid")
	"$GPUMEMD" --check-journal "$(find "/proc/$broker/fd" -lname '*gpumem-records*')" | grep "^allocation [0-9]*: $1: "
}

# taken_from_bob: alice takes x from a kernel of bob's. A launch that bob's worker has not been
# told of yet is turned away: x is open again then, for the next try.
taken_from_bob()
{
	used_endlessly_by $bob in:x+32
	by $alice run 'chmod 600 allocations/x'
	journal_of x | grep -q 'may still have it' || ! by $alice run 'chmod 666 allocations/x'
}

# Bob's worker has x until its kernel has ended. If the broker dies meanwhile, the next one
# has to know, whatever the mode is by then.
test_the_next_broker_knows_from_whom_memory_is_being_taken()
{
	needs_root 'several users'
	broker_start "$T/own" --keep --driver "$(driver own)" --give-back-timeout 60
	cd "$T/own/mnt"
	by $alice run 'echo "x 64 mode=666" >control/alloc; echo shown >allocations/x/data'
	unlike "$(journal_of x)" 'may still have it'
	eventually taken_from_bob
	like "$(journal_of x)" 'mode 0600.*may still have it'
	kernels_end_of $bob
	eventually '! journal_of x | grep -q "may still have it"'
	cd "$M"
	broker_stop "$T/own"
}

test_a_lease_for_writing_waits_until_memory_is_taken_away()
{
	needs_root 'several users'
	broker_start "$T/own" --keep --driver "$(driver own)" --give-back-timeout 60
	cd "$T/own/mnt"
	by $alice run 'echo "x 64 mode=666" >control/alloc; echo shown >allocations/x/data'
	eventually taken_from_bob
	by $alice run 'timeout 20 head -c 10 allocations/x/lease >/dev/null'
	! by $alice run 'timeout 1 head -c 10 <>allocations/x/lease' || fail 'it did not wait'
	kernels_end_of $bob
	by $alice run 'timeout 20 head -c 10 <>allocations/x/lease >/dev/null'
	cd "$M"
	broker_stop "$T/own"
}

# So have those after the next one.
test_all_next_brokers_know_from_whom_memory_is_being_taken()
{
	needs_root 'several users'
	keep --give-back-timeout 60
	cd "$O"
	by $alice run 'echo "x 64 mode=666" >control/alloc'
	eventually taken_from_bob
	die
	by $alice run 'echo changed >allocations/x/tag'
	like "$(journal_of x)" 'mode 0600.*may still have it'
	cd "$M"
	end
}

# Others would wait for the lock of a folder that is named, and the broker with them.
test_a_folder_of_proc_whose_lock_is_kept_keeps_no_open()
{
	needs_root 'keep a lock'
	py <<-'EOF'
		import subprocess
		opener = subprocess.Popen(["bash", "-c", "read; exec 5<>control/load; echo opened"],
		                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
		processes = keep_lock(f"/proc/{opener.pid}")
		opener.stdin.write(b"\n")
		opener.stdin.flush()
		answered = select.select([opener.stdout], [], [], 5)[0]
		for process in processes:
		    os.kill(process, signal.SIGKILL)
		assert answered, "the open waits for the lock"
	EOF
}

# A publish that fails leaves all as it was.
test_a_publish_that_fails_takes_nothing_from_guests()
{
	local holder
	patient
	by $alice run 'printf "%s\n" "x 64 mode=666" "leased 64" >control/alloc; echo shown >allocations/x/data'
	used_endlessly_by $bob in:x+32
	in_background_by $alice bash -c 'exec 5<>allocations/leased/lease; head -c 4096 <&5 >/dev/null; exec sleep 1000'
	holder=$!
	eventually 'grep -q hold=none allocations/leased/leases'
	for _ in {1..20}; do
		by $alice refused EBUSY 'may write allocation leased' 'echo "x y leased z" >control/publish'
	done
	is "$(by $alice run 'timeout 5 head -c 5 allocations/x/data')" shown
	is "$(<allocations/x/used_by)" $bob
	is "$(<allocations/x/sealed)" 0
	kill $holder
	kernels_end_of $bob
	cd "$M"
	broker_stop "$T/own"
}

# read_without_group KIND: bob's worker maps x for reading, since a process of bob's without
# the group runs a kernel. Only processes with the group may write x.
read_without_group()
{
	grouped $alice 2000 run "echo 'x 64 kind=$1 mode=664' >control/alloc; chgrp 2000 allocations/x
		echo 'x i32:3' >control/fill"
	by $bob run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
}

test_a_group_may_write_what_the_worker_has_for_reading()
{
	local kind
	needs_root 'several users'
	loaded_by $bob order
	by $bob run 'printf "%s\n" "mine 64" "d 64 kind=direct" >control/alloc; echo precious >allocations/d/data'
	for kind in device host; do
		read_without_group $kind
		grouped $bob 2000 run 'echo "order add grid=1 block=1 in:mine i32:1 x" >control/launch'
		is "$kind: $(words_of allocations/x/data)" "$kind: 5 3"
		by $alice run 'rmdir allocations/x'
	done
	is "$(by $bob run 'head -n 1 allocations/d/data')" precious
}

# Both begin, and wait for room in the staging area before x is mapped for either. A small x
# moves to a block of its own before they begin.
test_a_load_writes_beside_a_save_that_may_only_read()
{
	local i size
	needs_software 'be slow'
	needs_root 'several users'
	mkdir -p -m 777 "$T/theirs"
	by $bob run "printf '\\5\\0\\0\\0' >'$T/theirs/five'; printf 'm%d 64\n' {1..8} >control/alloc"
	for size in 64 4M; do
		grouped $alice 2000 run "echo 'x $size mode=664' >control/alloc; chgrp 2000 allocations/x
			head -c 4 allocations/x/data >/dev/null"
		slow 1s
		for i in {1..8}; do by $bob run "echo 'm$i path=$T/theirs/five wait=0' >control/load"; done
		by $bob run "echo 'x path=$T/theirs/saved$size length=32 wait=0' >control/save"
		grouped $bob 2000 run "echo 'x path=$T/theirs/five offset=32' >control/load"
		inject
		is "$(od -A n -t d4 -j 32 -N 8 allocations/x/data | xargs)" '5 0'
		eventually "[ \"\$(stat -c %s '$T/theirs/saved$size')\" = 32 ]"
		by $alice run 'rmdir allocations/x'
	done
}

# with_group_behind_kernel NS: of two kernels of bob's one runs so long, and the other wants
# to write x. To unmap host memory the driver waits until no kernel runs.
with_group_behind_kernel()
{
	read_without_group host
	by $bob run "echo 'order slow_set grid=1 block=1 out:other i32:7 u64:$1 stream=s wait=0' >control/launch"
	sleep 0.5 # nothing tells when a kernel begins on the GPU
	grouped $bob 2000 run 'echo "order add grid=1 block=1 in:mine i32:1 x wait=0" >control/launch'
}

# A free and a chmod give the worker the time that any worker has. A publish gives more.
test_a_kernel_that_wants_to_write_waits_for_its_owners_kernels()
{
	patient
	loaded_by $bob order
	by $bob run 'printf "%s\n" "mine 64" "other 64" "d 64 kind=direct" >control/alloc
		mkdir streams/s; echo precious >allocations/d/data
		echo "order slow_set grid=1 block=1 out:other i32:7 u64:0 stream=s" >control/launch'
	with_group_behind_kernel 3500000000
	by $bob run 'echo default >control/synchronize'
	is "$(words_of allocations/x/data)" '5 3'
	by $alice run 'rmdir allocations/x'
	with_group_behind_kernel 3500000000
	by $alice run 'echo "y 64" >control/alloc; echo "y x" >control/publish'
	by $bob run 'echo default >control/synchronize'
	is "$(<owners/$bob/restarts) $(by $bob run 'head -n 1 allocations/d/data')" '0 precious'
	by $alice run 'rmdir allocations/x'
	with_group_behind_kernel 600000000000
	changes_wait_for_no_kernel 'chmod 600 allocations/x'
	eventually '[ "$(<owners/$bob/restarts)" = 1 ]'
	like "$(by $bob run 'tail -n 1 errors')" \
		'ETIMEDOUT the worker of uid 1002 was ended: it did not give memory back within 1 s'
	by $bob refused EACCES 'order/add did not run: kernels of uid 1002 may not write allocation x' \
		'echo default >control/synchronize'
	by $alice run 'rmdir allocations/x'
	with_group_behind_kernel 600000000000
	by $alice run 'rmdir allocations/x'
	eventually '[ "$(<owners/$alice/bytes)" = 0 ]'
	cd "$M"
	broker_stop "$T/own"
}

# turned_away WHAT COMMAND [STREAM]: bob's COMMAND queues work with alice's `pub` that waits for what
# bob alone can end. A chmod ends that work, and no other: nobody waits for bob. STREAM
# tells of the end.
turned_away()
{
	by $alice run 'chmod 644 allocations/pub'
	by $bob run "$2"
	is "$2: $(<allocations/pub/used_by)" "$2: $bob"
	changes_wait_for_no_kernel 'chmod 600 allocations/pub'
	by $alice run 'echo mine! | timeout 10 dd of=allocations/pub/data conv=notrunc status=none' ||
		fail "$1: alice waits for uid $(<allocations/pub/used_by)"
	is "$2: $(<allocations/pub/used_by)" "$2: none"
	[ -z "${3-}" ] || by $bob refused EACCES "$why $1 began" "echo $3 >control/synchronize"
}

test_work_that_waits_ends_when_its_user_loses_the_right()
{
	local holder why='allocation pub of uid 1001 was shut off from uid 1002, with mode 0600, before'
	patient
	loaded_by $bob order
	by $alice run 'echo "pub 64 mode=644" >control/alloc; echo shown >allocations/pub/data'
	by $bob run 'echo "mine 64" >control/alloc; echo kept >allocations/mine/data; mkdir streams/other'
	holds_mine
	turned_away 'the copy' 'echo "mine from=pub wait=0" >control/copy' default
	turned_away 'the copy' '/usr/bin/python3 -c "import os
os.copy_file_range(os.open(\"allocations/pub/data\", os.O_RDONLY), os.open(\"allocations/mine/data\", os.O_RDWR), 4)"'
	like "$(by $bob run 'tail -n 1 errors')" "allocations/mine/data EIO $why the copy began"
	turned_away 'kernel order/add' 'echo "order add grid=1 block=1 in:pub i32:1 mine wait=0" >control/launch' default
	# What comes behind on the stream keeps its order.
	turned_away 'the copy' 'for i in 1 2 3; do echo "mine from=pub stream=other wait=0" >control/copy; done
		echo "mine u8:7 length=16 stream=other wait=0" >control/fill'
	kill $holder
	by $bob refused EACCES "$why the copy began" 'echo other >control/synchronize'
	is "$(by $bob run 'od -A n -t u1 -N 4 allocations/mine/data')" '   7   7   7   7'
	used_endlessly_by $bob mine+32
	turned_away 'the copy' 'echo "mine from=pub wait=0" >control/copy'
	# Both wait for the kernel: the copy for its memory, the launch for the stream.
	by $alice run 'chmod 666 allocations/pub'
	by $bob run 'echo "pub from=mine wait=0" >control/copy; echo "order add grid=1 block=1 in:pub i32:1 pub wait=0" >control/launch'
	changes_wait_for_no_kernel 'chmod 600 allocations/pub'
	by $alice run 'echo mine! | timeout 10 dd of=allocations/pub/data conv=notrunc status=none'
	is "$(<owners/$bob/restarts)" 0
	kernels_end_of $bob
	cd "$M"
	broker_stop "$T/own"
}

# Bob has both rights by a supplementary group, and keeps the one that the work needs.
test_work_that_waits_goes_on_while_its_user_has_the_right()
{
	local holder waiting
	needs_root 'several users'
	needs_software 'prefetch everywhere'
	grouped $alice 2000 run 'printf "%s mode=660\n" "pub 64" "to 64" "m 4096 kind=managed" >control/alloc
		chgrp 2000 allocations/{pub,to,m}; echo shown >allocations/pub/data'
	by $bob run 'echo "mine 64" >control/alloc'
	holds_mine
	grouped $bob 2000 run 'echo "mine from=pub wait=0" >control/copy; echo "to u8:7 wait=0" >control/fill'
	in_background_by $bob bash -c 'echo cpu >allocations/m/prefetch'
	waiting=$!
	until_it_waits $waiting
	changes_wait_for_no_kernel 'chmod 640 allocations/pub' 'chmod 620 allocations/to' 'chmod 620 allocations/m'
	kill $holder
	by $bob run 'echo default >control/synchronize'
	wait $waiting
	is "$(by $bob run 'head -n 1 allocations/mine/data') $(od -A n -t u1 -N 2 allocations/to/data)" 'shown    7   7'
}

# Bob's groups matter for one of the two files: he owns the other.
test_a_copy_range_has_the_rights_of_a_supplementary_group()
{
	needs_root 'several users'
	grouped $alice 2000 run 'echo "pub 64 mode=660" >control/alloc; chgrp 2000 allocations/pub
		echo shown >allocations/pub/data'
	by $bob run 'echo "mine 64" >control/alloc'
	grouped $bob 2000 run 'for copy in pub:mine mine:pub; do
		/usr/bin/python3 -c "import os, sys
os.copy_file_range(os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_RDWR), 5, 0, 8)" \
			allocations/{${copy%:*},${copy#*:}}/data; done'
	is "$(tr "\0" . <allocations/mine/data | head -c 14)" ........shown.
	is "$(tr "\0" . <allocations/pub/data | head -c 14 | tr "\n" .)" shown.........
}

# Each piece is done again that bob's next process would lack.
test_a_copy_of_anothers_memory_outlives_resets()
{
	local i copy
	needs_root 'two users'
	needs_software 'be slow'
	by $alice run 'echo "pub 8M mode=644" >control/alloc; echo "pub u8:7" >control/fill'
	by $bob run 'echo "mine 8M kind=managed" >control/alloc'
	for i in {1..6}; do
		by $bob run 'echo "mine u8:1" >control/fill'
		slow 10ms
		in_background_by $bob bash -c 'echo "mine from=pub" >control/copy'
		copy=$!
		sleep 0.0$((i + 2))
		by $bob run "echo 1 >owners/$bob/reset"
		wait $copy
		inject
		is "$(by $bob run 'tr -d "\7" <allocations/mine/data | wc -c')" 0
	done
}

# Bob has copies of carol's memory under way, as many as he may, and carol's worker is
# stopped. His copy of alice's memory waits for the end of one of these.
test_copies_that_wait_for_room_end_when_their_user_loses_the_right()
{
	local carol=1003 i
	patient
	needs_software 'stop a worker'
	by $alice run 'echo "pub 64 kind=managed mode=644" >control/alloc; echo shown >allocations/pub/data'
	by $carol run 'echo "hers 64 kind=managed mode=644" >control/alloc; echo hers >allocations/hers/data'
	by $bob run 'for i in $(seq 20); do mkdir streams/s$i; echo "m$i 64 kind=managed"; done >control/alloc'
	stop_worker_of $carol
	by $bob run 'for i in $(seq 18); do echo "m$i from=hers stream=s$i wait=0"; done >control/copy'
	by $bob run 'for i in 19 20; do echo "m$i from=pub stream=s$i wait=0"; done >control/copy'
	is "$(<allocations/pub/used_by)" $bob
	changes_wait_for_no_kernel 'chmod 600 allocations/pub'
	by $alice run 'echo mine! | timeout 10 dd of=allocations/pub/data conv=notrunc status=none'
	is "$(<allocations/pub/used_by)" none
	is "$(<owners/$alice/restarts) $(<owners/$bob/restarts) $(<owners/$carol/restarts)" '0 0 0'
	for i in 19 20; do
		by $bob refused EACCES 'allocation pub of uid 1001 was shut off from uid 1002, with mode 0600' \
			"echo s$i >control/synchronize"
	done
	by $carol run "kill -CONT \$(<owners/$carol/worker)"
	for i in $(seq 18); do
		by $bob run "echo s$i >control/synchronize"
		is "$(by $bob run "head -c 4 allocations/m$i/data")" hers
	done
	cd "$M"
	broker_stop "$T/own"
}

# ended_by_chmod WHAT NAME COMMAND: bob's COMMAND waits for alice's kernel, which uses NAME and
# goes on. Her chmod ends it.
ended_by_chmod()
{
	local waiting
	by $alice run "chmod 666 allocations/$2"
	in_background_by $bob bash -c "$3" 2>"$T/said"
	waiting=$!
	until_it_waits $waiting
	changes_wait_for_no_kernel "chmod 600 allocations/$2"
	eventually "[ ! -e /proc/$waiting ]" 10
	fails "wait $waiting" || fail "$3 succeeded"
	like "$(<"$T/said")" 'Permission denied'
	like "$(by $bob run 'tail -n 1 errors')" \
		"EACCES allocation $2 of uid $alice was shut off from uid $bob, with mode 0600, before the $1 began"
	is "$(<allocations/$2/used_by_kernel)" faults/endless
}

test_files_and_places_that_wait_end_when_their_user_loses_the_right()
{
	needs_root 'several users'
	needs_software 'prefetch everywhere'
	mkdir -p -m 777 "$T/theirs"
	by $bob run "echo loaded >'$T/theirs/f'"
	by $alice run 'printf "%s\n" "pub 4096 mode=666" "m 4096 kind=managed mode=666" >control/alloc
		echo kept | tee allocations/pub/data >allocations/m/data'
	used_endlessly_by $alice pub+32
	used_endlessly_by $alice m+32
	ended_by_chmod save pub "echo 'pub path=$T/theirs/saved' >control/save"
	ended_by_chmod load pub "echo 'pub path=$T/theirs/f' >control/load"
	ended_by_chmod prefetch m 'echo cpu >allocations/m/prefetch'
	ended_by_chmod advice m 'echo set_read_mostly >allocations/m/advise'
	ended_by_chmod attachment m 'echo host >allocations/m/attach'
	kernels_end_of $alice
	[ ! -e "$T/theirs/saved" ]
	is "$(by $alice run 'head -qc 5 allocations/pub/data allocations/m/data')" $'kept\nkept'
}

# bob's copy has begun, and the stopped worker, whose memory is its target, never answers.
stopped_copy()
{
	by $bob run 'echo "mine 64 kind=direct" >control/alloc'
	stop_worker_of $bob
	by $bob run 'echo "mine from=pub length=64 wait=0" >control/copy'
	is "$(<allocations/pub/used_by)" $bob
	sleep 0.3 # the worker is asked a moment after the line is answered
}

test_a_copy_into_a_stopped_worker_ends_when_its_user_loses_the_right()
{
	local why='ETIMEDOUT the worker of uid 1002 was ended: a copy still used allocation'
	patient
	needs_software 'stop a worker'
	by $alice run 'echo "pub 64 mode=644" >control/alloc; echo shown >allocations/pub/data'
	stopped_copy
	changes_wait_for_no_kernel 'chmod 600 allocations/pub'
	by $alice run 'echo mine! | timeout 30 dd of=allocations/pub/data conv=notrunc status=none'
	eventually "by $bob run 'tail -n 1 errors' | grep -q '$why pub 1 s after that was shut off'"
	by $bob refused EIO 'copy' 'echo default >control/synchronize'
	is "$(<owners/$bob/restarts) $(<allocations/mine/state)" '1 lost'
	by $alice run 'rmdir allocations/pub; echo "pub 4M mode=644" >control/alloc'
	by $bob run 'rmdir allocations/mine'
	stopped_copy
	by $alice run 'rmdir allocations/pub'
	eventually '[ "$(<devices/0/memory_held_bytes)" -lt 4194304 ]'
	like "$(by $bob run 'tail -n 1 errors')" "$why pub 2 s after that was freed"
	cd "$M"
	broker_stop "$T/own"
}

# copied_with_bob COPY: alice's COPY begins, and the stopped worker of bob never answers. Her
# memory comes back after she has freed it.
copied_with_bob()
{
	by $alice run 'echo "mine 4M" >control/alloc; echo kept >allocations/mine/data'
	by $bob run 'echo "theirs 64 kind=direct mode=666" >control/alloc'
	stop_worker_of $bob
	by $alice run "echo '$1 length=64 wait=0' >control/copy; rmdir allocations/mine"
	eventually '[ "$(<owners/$alice/bytes)" = 0 ]'
	like "$(by $bob run 'tail -n 1 errors')" \
		'ETIMEDOUT the worker of uid 1002 was ended: a copy still used allocation mine 2 s after that was freed'
	by $bob run 'rmdir allocations/theirs'
	by $alice run '! echo default >control/synchronize' 2>"$T/said"
}

test_freed_memory_does_not_wait_for_own_copies_through_a_stopped_worker()
{
	patient
	needs_software 'stop a worker'
	copied_with_bob 'mine from=theirs'
	copied_with_bob 'theirs from=mine'
	is "$(<owners/$alice/restarts) $(<owners/$bob/restarts)" '0 2'
	cd "$M"
	broker_stop "$T/own"
}

# As many copies as bob may have wait for his stopped worker, and one behind these for room.
test_copies_behind_those_that_wait_for_a_stopped_worker_end_with_the_right()
{
	patient
	needs_software 'stop a worker'
	by $alice run 'printf "%s 64 mode=644\n" pub other >control/alloc
		echo shown | tee allocations/pub/data >allocations/other/data'
	by $bob run 'mkdir streams/{1..40}; printf "mine%s 64 kind=direct\n" {1..40} >control/alloc'
	stop_worker_of $bob
	by $bob run 'for i in {1..39}; do echo "mine$i from=other stream=$i wait=0"; done >control/copy
		echo "mine40 from=pub stream=40 wait=0" >control/copy'
	is "$(<allocations/pub/used_by)" $bob
	changes_wait_for_no_kernel 'chmod 600 allocations/pub'
	by $alice run 'echo mine! | timeout 30 dd of=allocations/pub/data conv=notrunc status=none'
	by $bob refused EACCES 'allocation pub of uid 1001 was shut off from uid 1002' 'echo 40 >control/synchronize'
	is "$(<owners/$bob/restarts)" 0
	cd "$M"
	broker_stop "$T/own"
}

# given_back: alice frees pub, and the memory comes back whatever bob has queued.
given_back()
{
	by $alice run 'rmdir allocations/pub'
	eventually '[ "$(<devices/0/memory_held_bytes)" -lt 4194304 ]'
}

test_freed_memory_does_not_wait_for_what_others_have_queued()
{
	local holder why='allocation pub of uid 1001 was freed before'
	patient
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc; echo kept >allocations/mine/data'
	holds_mine
	by $alice run 'echo "pub 4M mode=644" >control/alloc'
	by $bob run 'echo "mine from=pub length=64 wait=0" >control/copy'
	given_back
	by $bob refused ESTALE "$why the copy began" 'echo default >control/synchronize'
	by $alice run 'echo "pub 4M mode=644" >control/alloc'
	by $bob run 'echo "order add grid=1 block=1 in:pub i32:1 mine wait=0" >control/launch'
	given_back
	by $bob refused ESTALE "$why kernel order/add began" 'echo default >control/synchronize'
	is "$(<owners/$bob/restarts)" 0
	kill $holder
	is "$(by $bob run 'head -c 4 allocations/mine/data')" kept
	by $alice run 'echo "pub 4M mode=644" >control/alloc'
	used_endlessly_by $bob in:pub+32
	by $bob run 'echo "order add grid=1 block=1 in:pub i32:1 mine wait=0" >control/launch'
	given_back
	like "$(by $bob run 'tail -n 1 errors')" \
		'ETIMEDOUT the worker of uid 1002 was ended: kernel faults/endless still used allocation pub 1 s after that was freed'
	by $bob refused EIO 'faults/endless was ended' 'echo default >control/synchronize'
	cd "$M"
	broker_stop "$T/own"
}

# A publish replaces memory for those who come later, and ends nobody's work.
test_work_with_memory_that_is_replaced_goes_on()
{
	patient
	loaded_by $bob order
	by $alice run "printf '%s\n' 'v1 4096 mode=644' 'v2 4096 mode=644' >control/alloc; echo 'v1 i32:3' >control/fill
		echo 'v1 pub' >control/publish"
	by $bob run 'echo "mine 64" >control/alloc
		echo "order slow_set grid=1 block=1 out:mine i32:7 u64:2500000000 wait=0" >control/launch
		echo "order add grid=1 block=1 in:pub i32:1 mine wait=0" >control/launch'
	by $alice run 'echo "v2 pub" >control/publish'
	by $bob run 'echo default >control/synchronize'
	is "$(<owners/$bob/restarts) $(words_of allocations/mine/data)" '0 4 0'
	cd "$M"
	broker_stop "$T/own"
}

test_a_copy_with_old_descriptors_needs_the_right_of_now()
{
	local copier
	needs_root 'several users'
	by $alice run 'echo "pub 64 mode=644" >control/alloc; echo shown >allocations/pub/data'
	by $bob run 'echo "mine 64" >control/alloc'
	in_background_by $bob /usr/bin/python3 -c "import errno, os, sys, time
source = os.open('allocations/pub/data', os.O_RDONLY)
target = os.open('allocations/mine/data', os.O_RDWR)
print('open', flush=True)
while os.stat('allocations/pub').st_mode & 0o44:
    time.sleep(0.02)
print(os.read(source, 5).decode())
try:
    os.copy_file_range(source, target, 4)
except OSError as error:
    print(errno.errorcode[error.errno])" >"$T/copied"
	copier=$!
	eventually 'grep -q open "$T/copied"'
	changes_wait_for_no_kernel 'chmod 600 allocations/pub'
	wait "$copier"
	is "$(<"$T/copied")" $'open\nshown\nEACCES'
	like "$(by $bob run 'tail -n 1 errors')" 'EACCES allocation pub of uid 1001, with mode 0600, is shut off from uid 1002'
}

# reset_stopped_worker_of UID: the user stops the own worker, and resets it. Sets process, which
# lives while it is to save memory, and resetting.
reset_stopped_worker_of()
{
	process=$(<"owners/$1/worker")
	stop_worker_of "$1"
	in_background_by "$1" bash -c "echo 1 >owners/$1/reset"
	resetting=$!
	eventually "[ \$(<owners/$1/worker) != $process ]"
}

# The kernel gets the address as a number, so the order does not know that it uses x.
test_a_worker_that_was_reset_sees_nothing_written_after_a_chmod()
{
	local process resetting
	needs_software 'stop a worker'
	undying
	by $alice run 'echo "x 4096 mode=644" >control/alloc; echo shown >allocations/x/data'
	loaded_by $bob order
	loaded_by $bob faults
	by $bob run 'echo "mine 64" >control/alloc; echo "m 64 kind=managed" >control/alloc'
	by $bob run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	by $bob run "echo 'faults endless grid=1 block=1 u64:$(($(<allocations/x/address) + 64)) wait=0' >control/launch"
	reset_stopped_worker_of $bob
	changes_wait_for_no_kernel 'chmod 600 allocations/x'
	is "$(<allocations/x/state)" busy
	by $alice run 'echo mine! | timeout 30 dd of=allocations/x/data conv=notrunc,fsync status=none'
	[ ! -e /proc/$process ] || fail 'the process that was reset could have seen it'
	is "$(<allocations/x/state)" live
	wait $resetting
	by $bob run '! echo default >control/synchronize' 2>/dev/null
}

# Bob's next process has x for reading, since his program is not in the group any more.
test_a_read_of_what_is_sealed_waits_for_a_process_that_was_reset()
{
	local process resetting
	needs_software 'stop a worker'
	undying
	grouped $alice 2000 run 'echo "x 4096 mode=664" >control/alloc; chgrp 2000 allocations/x'
	loaded_by $bob order
	by $bob run 'printf "%s\n" "mine 64" "m 64 kind=managed" >control/alloc'
	grouped $bob 2000 run 'echo "order add grid=1 block=1 in:mine i32:1 x" >control/launch'
	reset_stopped_worker_of $bob
	by $bob run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	by $alice run 'echo 1 >allocations/x/sealed'
	is "$(words_of allocations/x/data)" '1 0'
	[ ! -e /proc/$process ] || fail 'the process that was reset could have written it'
	wait $resetting
}

# Bob's process would have five seconds for the managed memory that it is to save.
test_a_guests_process_that_was_reset_and_is_stopped_is_ended_for_freed_memory()
{
	local process resetting began kind key
	patient
	needs_software 'stop a worker'
	loaded_by $bob order
	for kind in device host; do
		key=$kind
		[ $kind = host ] || key=device:0
		by $alice run "echo 'x 20M kind=$kind mode=644' >control/alloc"
		by $bob run "printf '%s\n' 'mine 64' 'm 64 kind=managed' >control/alloc
			echo 'order add grid=1 block=1 in:x i32:1 mine' >control/launch"
		reset_stopped_worker_of $bob
		began=$SECONDS
		by $alice run 'rmdir allocations/x'
		eventually "[ \$(value_of owners/$alice/current $key) -lt 20971520 ]"
		[ ! -e /proc/$process ] || fail "$kind: the process that was reset has it still"
		[ $((SECONDS - began)) -lt 4 ] || fail "$kind: it took $((SECONDS - began)) s"
		by $bob run 'rmdir allocations/{m,mine}'
	done
	cd "$M"
	broker_stop "$T/own"
}

# Else a user fills a device with memory that counts for nobody.
test_memory_freed_under_a_process_that_was_reset_counts_until_its_end()
{
	local process resetting kind key
	needs_software 'stop a worker'
	undying
	loaded_by $bob order
	for kind in device host; do
		key=$kind
		[ $kind = host ] || key=device:0
		by $bob run "printf '%s\n' 'x 20M kind=$kind' 'm 64 kind=managed' >control/alloc
			echo 'order slow_set grid=1 block=1 x i32:1 u64:0' >control/launch"
		reset_stopped_worker_of $bob
		by $bob run 'rmdir allocations/x'
		while [ "$(value_of owners/$bob/current $key)" -ge 20971520 ]; do
			sleep 0.05
		done
		[ ! -e /proc/$process ] || fail "$kind: the process that was reset has it still"
		wait $resetting
		by $bob run 'rmdir allocations/m'
	done
}

# The launch waits until the worker has mapped g, and the stopped worker never answers.
test_a_stopped_worker_does_not_keep_what_it_was_to_map()
{
	patient
	needs_software 'stop a worker'
	# g is written first, so no zeroing comes before the launch.
	by $alice run 'echo "g 4M mode=644" >control/alloc; echo shown >allocations/g/data; cmp -n 5 allocations/g/data <(echo shown)'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc; echo "order add grid=1 block=1 in:mine i32:1 mine" >control/launch'
	stop_worker_of $bob
	by $bob run 'echo "order add grid=1 block=1 in:g i32:1 mine wait=0" >control/launch'
	changes_wait_for_no_kernel 'chmod 600 allocations/g'
	eventually '[ "$(<owners/$bob/restarts)" = 1 ]'
	by $bob run '! echo default >control/synchronize' 2>/dev/null
	cd "$M"
	broker_stop "$T/own"
}

# Memory freed under somebody's kernel comes back when its owner likes: nobody else waits.
test_an_allocation_waits_for_no_kernel_of_others()
{
	needs_software 'have little memory'
	needs_root 'several users'
	broker_start "$T/own" --driver "$(driver own)" --give-back-timeout 600
	cd "$T/own/mnt"
	by $alice run 'echo "x 300M mode=644" >control/alloc; echo "y 64" >control/alloc'
	used_endlessly_by $bob in:x+32
	by $alice run 'rmdir allocations/x'
	for user in $alice 1003; do
		by $user refused ENOMEM "; 300 MiB of freed memory are still in use by uid $bob\$" \
			'timeout 15 bash -c "echo z 400M >control/alloc"'
	done
	kernels_end_of $bob
	by $alice run 'echo z 400M >control/alloc'
	cd "$M"
	broker_stop "$T/own"
}

# What waits for a kernel ends no sooner: here a copy into memory that the kernel uses.
test_an_allocation_waits_for_nothing_behind_a_kernel_of_others()
{
	needs_software 'have little memory'
	by $alice run 'printf "%s\n" "x 300M" "y 64" >control/alloc'
	used_endlessly_by $alice y+32
	by $alice run 'echo "y from=x length=64 wait=0" >control/copy; rmdir allocations/x'
	by $bob refused ENOMEM "; 300 MiB of freed memory are still in use by uid $alice\$" \
		'timeout 15 bash -c "echo z 400M >control/alloc"'
	kernels_end_of $alice
	by $bob run 'echo z 400M >control/alloc'
}

test_an_allocation_waits_for_the_same_users_kernel()
{
	local kind
	needs_software 'have little memory'
	needs_root 'several users'
	# Only root's processes see on the software GPU that root's device memory has been freed.
	broker_start "$T/own" --driver "$(driver own)"
	cd "$T/own/mnt"
	loaded_by $alice order
	for kind in direct async device; do
		by $alice run "echo 'x 300M kind=$kind' >control/alloc"
		by $alice run "echo 'order slow_set grid=1 block=1 out:x i32:7 u64:500000000 wait=0' >control/launch
			rmdir allocations/x; echo 'y 400M kind=$kind' >control/alloc; rmdir allocations/y"
	done
	cd "$M"
	broker_stop "$T/own"
}

# The wait of the same user ends, too, when the kernel does not.
test_an_allocation_does_not_wait_for_ever()
{
	needs_software 'have little memory'
	patient
	by $alice run 'echo "x 300M" >control/alloc'
	used_endlessly_by $alice x
	by $alice run 'rmdir allocations/x'
	by $alice refused ENOMEM "memory that was freed has not come back within 3 s; 300 MiB of freed memory are still in use by uid $alice\$" \
		'timeout 30 bash -c "echo y 400M >control/alloc"'
	kernels_end_of $alice
	by $bob run 'echo y 400M >control/alloc'
	cd "$M"
	broker_stop "$T/own"
}

test_a_kernel_that_may_go_on_is_not_ended()
{
	patient
	by $alice run 'echo "x 64 mode=666" >control/alloc'
	loaded_by $bob order
	by $bob run 'echo "h 4096 kind=host" >control/alloc; echo "order add grid=1 block=1 in:h i32:1 x" >control/launch'
	by $bob run 'echo "order slow_set grid=1 block=1 out:x i32:7 u64:3000000000 wait=0" >control/launch; rmdir allocations/h'
	by $alice run 'chmod 606 allocations/x'
	by $bob run 'echo default >control/synchronize'
	is "$(head -c 1 allocations/x/data | od -A n -t u1)" '   7'
	[ "$(<owners/$bob/restarts)" = 0 ] || fail "$(tail -n 3 errors)"
	cd "$M"
	broker_stop "$T/own"
}

# The kernel runs at the end of the first 2 s, has ended at the end of the second, and the
# unmapping ends in the third.
test_the_time_to_give_back_begins_at_the_end_of_the_kernels()
{
	local held
	needs_root 'several users'
	broker_start "$T/own" --driver "$(driver own)" --give-back-timeout 2
	cd "$T/own/mnt"
	inject 'delay=cuMemHostUnregister@*=2s'
	loaded_by $bob order
	by $bob run 'echo "h 4096 kind=host" >control/alloc; echo "x 64" >control/alloc'
	by $bob run 'echo "order add grid=1 block=1 in:h i32:1 x" >control/launch'
	held=$(value_of owners/$bob/current host)
	by $bob run 'echo "order slow_set grid=1 block=1 out:x i32:7 u64:3000000000 wait=0" >control/launch; rmdir allocations/h'
	eventually "[ \"\$(value_of owners/$bob/current host)\" -lt $held ]"
	[ "$(<owners/$bob/restarts)" = 0 ] || fail "$(tail -n 3 errors)"
	inject
	cd "$M"
	broker_stop "$T/own"
}

# holds_host: bob's worker has alice's host memory mapped, and a kernel runs there for 600 s,
# which does not use the memory. The driver can't unmap the memory meanwhile.
holds_host()
{
	by $alice run 'echo "h 64M kind=host mode=644" >control/alloc'
	loaded_by $bob order
	by $bob run 'printf "%s\n" "x 64" "slow 64" "d 64 kind=direct" >control/alloc'
	by $bob run 'echo "order add grid=1 block=1 in:h i32:1 x" >control/launch'
	by $bob run 'echo "order slow_set grid=1 block=1 out:slow i32:7 u64:0" >control/launch'
	by $bob run 'echo "order slow_set grid=1 block=1 out:slow i32:7 u64:600000000000 wait=0" >control/launch'
	# The worker, which carries out one request after the other, has launched it by now.
	by $bob run 'cat allocations/d/data >/dev/null'
}

test_who_keeps_freed_host_memory_of_another_pays_for_it()
{
	patient
	holds_host
	echo 'host 100M' >owners/$alice/max
	by $alice run 'rmdir allocations/h'
	by $alice run 'timeout 60 bash -c "echo y 64M kind=host >control/alloc"'
	is "$(value_of owners/$alice/current host)" $((64 << 20))
	[ "$(value_of owners/$bob/current host)" -ge $((64 << 20)) ]
	is "$(<owners/$bob/restarts) $(ls allocations | xargs)" '0 d slow x y'
	by $bob run "echo 1 >owners/$bob/reset"
	eventually "[ \$(value_of owners/$bob/current host) -lt $((64 << 20)) ]"
	cd "$M"
	broker_stop "$T/own"
}

# maps NAME: alice has the file mapped as long as $program lives.
maps()
{
	in_background_by $alice /usr/bin/python3 -c "import mmap, os, time
memory = mmap.mmap(os.open('allocations/$1/data', os.O_RDWR), 0)
time.sleep(1000)"
	program=$!
	eventually "grep -q /data /proc/$program/maps"
}

test_who_keeps_freed_host_memory_of_another_pays_until_the_worker_has_let_go()
{
	local program
	patient
	holds_host
	maps h
	by $alice run 'rmdir allocations/h'
	eventually "[ \$(value_of owners/$bob/current host) -ge $((64 << 20)) ]"
	by $bob run "echo 1 >owners/$bob/reset"
	eventually "[ \$(value_of owners/$bob/current host) -lt $((64 << 20)) ]"
	[ "$(value_of owners/$alice/current host)" -ge $((64 << 20)) ]
	kill -KILL $program
	eventually "[ \$(value_of owners/$alice/current host) = 0 ]"
	cd "$M"
	broker_stop "$T/own"
}

# Bob's process has unmapped x before.
test_memory_that_a_program_lets_go_waits_for_no_process_without_it()
{
	local process resetting program address
	needs_software 'stop a worker'
	undying
	by $alice run 'echo "x 4M kind=host mode=644" >control/alloc'
	address=$(<allocations/x/address)
	loaded_by $bob order
	by $bob run 'printf "%s\n" "mine 64" "m 64 kind=managed" >control/alloc
		echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	maps x
	by $alice run 'rmdir allocations/x'
	eventually "! grep -q '^${address#0x}' /proc/$(<owners/$bob/worker)/maps"
	reset_stopped_worker_of $bob
	kill -KILL $program
	eventually "[ \$(value_of owners/$alice/current host) = 0 ]"
	[ -e /proc/$process ] || fail 'the memory waited for a process without it'
	kill -KILL $process
	wait $resetting
}

test_who_can_not_pay_for_freed_host_memory_of_another_loses_the_worker()
{
	patient
	holds_host
	echo 'host 100M' >owners/$alice/max
	echo 'host 63M' >owners/$bob/max
	by $alice run 'rmdir allocations/h'
	by $alice run 'timeout 60 bash -c "echo y 64M kind=host >control/alloc"'
	eventually "[ \$(<owners/$bob/restarts) = 1 ]"
	like "$(by $bob run 'tail -n 1 errors')" \
		'owners/1002/worker ETIMEDOUT the worker of uid 1002 was ended: it did not give memory back within 1 s'
	cd "$M"
	broker_stop "$T/own"
}

test_chgrp_opens_data_for_a_group()
{
	needs_root 'several users'
	grouped $alice 2000 run 'echo "x 4096 mode=640" >control/alloc; echo shared >allocations/x/data; chgrp 2000 allocations/x'
	is "$(grouped $bob 2000 run 'head -c 6 allocations/x/data')" shared
	by $bob denied EACCES 'cat allocations/x/data'
	is "$(stat -c %g allocations/x/data)" 2000
}

# The group of what root gives to a user is not the user's.
test_a_gift_of_root_gives_no_group()
{
	local user=1071
	needs_root 'several users'
	echo secret >"$T/secret"
	chown 0:4 "$T/secret"
	chmod 640 "$T/secret"
	mkdir allocations/home
	chown $user:4 allocations/home
	by $user run 'echo "x 4K" >control/alloc; echo "y 4K kind=direct" >control/alloc'
	is "$(sed -n 's/^Groups:\s*//p' "/proc/$(<owners/$user/worker)/status" | xargs)" $user
	by $user refused EACCES 'secret' "echo 'x path=$T/secret' >control/load"
	rm "$T/secret"
}

# Linux does not let members of the group do what only others may.
# Who takes over a worker could write else. `mw` is a mapping that may be made writable.
test_a_worker_has_host_memory_that_it_may_only_read_for_reading()
{
	local worker
	needs_root 'several users'
	undying
	by $alice run 'echo "h 64K kind=host mode=644" >control/alloc; echo "w 64K kind=host mode=666" >control/alloc'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	by $bob run 'echo "order add grid=1 block=1 in:h i32:1 mine" >control/launch
		echo "order add grid=1 block=1 in:w i32:1 mine" >control/launch'
	worker=$(<owners/$bob/worker)
	is "$(awk -v h="$(<allocations/h/address)" -v w="$(<allocations/w/address)" '
		/^[0-9a-f]+-[0-9a-f]+ / { split($1, range, "-"); at = "0x" range[1] }
		/^VmFlags:/ && (at == h || at == w) { print (at == h ? "h" : "w"), / mw / ? "mw" : "-" }
	' "/proc/$worker/smaps" | sort)" 'h -
w mw'
}

test_a_group_may_less_with_a_kernel_than_others()
{
	local address
	needs_root 'several users'
	grouped $alice 2000 run 'echo "x 4096 mode=0646" >control/alloc; chgrp 2000 allocations/x'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	grouped $bob 2000 denied EACCES 'echo x 1<>allocations/x/data'
	grouped $bob 2000 run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	address=$(<allocations/x/address)
	grouped $bob 2000 refused EFAULT 'order/add' \
		"echo 'order add grid=1 block=1 in:mine i32:1 u64:$address' >control/launch"
	is "$(words_of allocations/x/data)" '0 0'
}

# Groups of people are supplementary groups.
test_members_of_a_group_share_memory_with_kernels_and_files()
{
	local address sum="order add grid=1 block=1"
	needs_root 'several users'
	grouped $alice 2000 run 'echo "x 4096 mode=0660" >control/alloc; chgrp 2000 allocations/x'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	by $bob refused EACCES 'allocation x' "echo '$sum in:x i32:1 mine' >control/launch"
	grouped $bob 2000 run "echo '$sum in:mine i32:7 x' >control/launch
		echo '$sum in:x i32:1 mine' >control/launch"
	is "$(words_of allocations/mine/data)" '8 0'
	mkdir -m 777 "$T/files"
	grouped $bob 2000 run "echo 'x path=$T/files/x' >control/save; echo 'x path=$T/files/x' >control/load"
	is "$(words_of "$T/files/x")" '7 0'
	rm -r "$T/files"
	address=$(<allocations/x/address)
	by $alice run 'chmod 600 allocations/x'
	grouped $bob 2000 refused EACCES 'allocation x' "echo '$sum in:x i32:1 mine' >control/launch"
	eventually '[ "$(<allocations/x/state)" = live ]' # the worker has given the memory back
	grouped $bob 2000 refused EFAULT 'order/add' "echo '$sum u64:$address i32:1 mine' >control/launch"
}

test_a_chgrp_takes_memory_from_kernels_of_the_old_group()
{
	local address sum="order add grid=1 block=1"
	needs_root 'several users'
	grouped $alice 2000 run 'echo "x 4096 mode=0640" >control/alloc; chgrp 2000 allocations/x'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	grouped $bob 2000 run "echo '$sum in:x i32:1 mine' >control/launch"
	address=$(<allocations/x/address)
	by $alice run "chgrp $alice allocations/x"
	eventually '[ "$(<allocations/x/state)" = live ]' # the worker has given the memory back
	grouped $bob 2000 refused EFAULT 'order/add' "echo '$sum u64:$address i32:1 mine' >control/launch"
}

test_a_group_that_is_shut_off_is_shut_off_from_kernels()
{
	local address
	needs_root 'several users'
	grouped $alice 2000 run 'echo "x 4096 mode=0644" >control/alloc; chgrp 2000 allocations/x'
	loaded_by $bob order
	by $bob run 'echo "mine 64" >control/alloc'
	grouped $bob 2000 run 'echo "order add grid=1 block=1 in:x i32:1 mine" >control/launch'
	address=$(<allocations/x/address)
	by $alice run 'chmod 604 allocations/x; echo secret >allocations/x/data'
	grouped $bob 2000 denied EACCES 'cat allocations/x/data'
	grouped $bob 2000 refused EFAULT 'order/add' \
		"echo 'order add grid=1 block=1 u64:$address i32:1 mine' >control/launch"
}

test_only_the_owner_and_root_may_chmod()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096 mode=666" >control/alloc'
	by $bob denied EPERM 'chmod 777 allocations/x'
	by $bob denied EPERM 'chmod 777 allocations/x/data'
	by $alice denied EPERM "chown $bob allocations/x"
	chmod 600 allocations/x
	is "$(stat -c %a allocations/x/data)" 600
}

# A user has left; root hands the memory on.
test_root_hands_memory_on()
{
	local kind file
	needs_root 'several users'
	for kind in device host; do
		by $alice run "echo 'x$kind 4M kind=$kind' >control/alloc && echo kept >allocations/x$kind/data"
		chown $bob "allocations/x$kind"
		like "$(newest_event)" "change allocations/x$kind .* owner=$bob uid=0 pid=[0-9]+\$"
		is "$(<allocations/x$kind/owner)" $bob
		for file in . data tag lease; do
			is "$(stat -c %u "allocations/x$kind/$file")" $bob
		done
		is "$(by $bob run "head -c 4 allocations/x$kind/data")" kept
		by $bob run "echo mine >allocations/x$kind/data"
		by $alice denied EACCES "cat allocations/x$kind/data"
		by $alice denied EACCES "echo foe >allocations/x$kind/data"
	done
	# What an earlier case freed counts until a worker of it has ended.
	eventually '[ "$(value_of owners/$alice/status bytes)" = 0 ]'
	is "$(value_of owners/$alice/status allocations)" 0
	is "$(value_of owners/$bob/status bytes) $(value_of owners/$bob/status allocations)" "$((8 << 20)) 2"
	by $bob run 'echo xdevice >control/free; rmdir allocations/xhost'
	is "$(ls allocations)" ''
	eventually '[ "$(value_of owners/$bob/status bytes)" = 0 ]'
}

# The old owner's program, which may end at any time, frees nothing of the new one.
test_memory_handed_on_ends_with_no_program_of_the_old_owner()
{
	local alice=1015 program
	needs_root 'several users'
	mkfifo "$T/go"
	exec 9<>"$T/go"
	by $alice run 'exec 3<>control/alloc && echo "x 4M until=close" >&3 &&
		echo "y 4M until=exit" >&3 && head -n 1 >/dev/null' <&9 &
	program=$!
	eventually '[ -e allocations/y/until ]'
	is "$(cat allocations/{x,y}/until | xargs)" 'close exit'
	chown $bob allocations/x allocations/y
	is "$(cat allocations/{x,y}/until | xargs)" 'none none'
	echo >&9
	wait $program
	is "$(ls allocations | xargs)" 'x y'
	rmdir allocations/x allocations/y
}

test_the_new_owner_can_be_written_too()
{
	needs_root 'several users'
	by $alice run 'echo "x 4M" >control/alloc'
	echo $bob >allocations/x/owner
	is "$(<allocations/x/owner)" $bob
	by $bob refused EPERM 'only root may give an allocation another owner' "echo $alice >allocations/x/owner"
	refused EINVAL "owner takes the number of a user, not 'bob'" 'echo bob >allocations/x/owner'
	chown $bob allocations/x
	is "$(<allocations/x/owner)" $bob
}

# A kernel had begun on the cell where the memory was before it got a block of its own.
test_memory_handed_on_leaves_no_cell_of_the_old_owner()
{
	# bob has never had small memory
	local alice=1031 bob=1032 address
	needs_root 'several users'
	loaded_by $alice faults
	loaded_by $alice saxpy
	by $alice run 'for name in x y out; do echo "$name 1M" >control/alloc; done
		echo "faults endless grid=1 block=1 wait=0 timeout=2 in:x" >control/launch
		cat allocations/x/lease >/dev/null; ! echo default >control/synchronize'
	eventually '[ "$(<allocations/x/state)" = live ]'
	chown $bob allocations/x
	by $bob run 'rmdir allocations/x; echo "secret 1M" >control/alloc; echo "more 1M" >control/alloc
		echo "secret u8:7" >control/fill'
	address=$(<allocations/secret/address)
	by $alice refused EFAULT 'saxpy' "echo 'saxpy saxpy grid=1 block=4 u32:4 f32:1 u64:$address out' >control/launch"
	by $bob run 'rmdir allocations/secret allocations/more'
	by $alice run 'rmdir allocations/y allocations/out'
}

# In charge, in limits, in the figures: the memory is the new owner's.
test_memory_handed_on_counts_for_the_new_owner()
{
	# who have freed nothing that may be on its way back
	local alice=1011 bob=1012
	needs_root 'several users'
	by $alice run 'echo "x 6M" >control/alloc; echo "y 4M" >control/alloc'
	by $bob run 'echo "z 2M" >control/alloc'
	echo 'device:0 8M' >owners/$bob/max
	chown $bob allocations/x
	is "$(value_of owners/$bob/current device:0) $(value_of owners/$alice/current device:0)" \
		"$((8 << 20)) $((4 << 20))"
	is "$(value_of owners/$bob/current allocations) $(value_of owners/$alice/current allocations)" '2 1'
	refused EDQUOT "uid $bob has 8 MiB of the memory of device 0 and asks for 4 MiB more" "chown $bob allocations/y"
	is "$(<allocations/y/owner)" $alice
	is "$(value_of owners/$bob/current device:0) $(value_of owners/$alice/current device:0)" \
		"$((8 << 20)) $((4 << 20))"
	is "$(value_of owners/$bob/current allocations) $(value_of owners/$alice/current allocations)" '2 1'
	echo default >owners/$bob/max
	rmdir allocations/x
	eventually '[ "$(value_of owners/'$bob'/current device:0)" = '$((2 << 20))' ]'
	is "$(value_of owners/$alice/current device:0)" $((4 << 20))
}

test_what_can_not_be_handed_on_says_why()
{
	local kind alice=1013 bob=1014
	needs_root 'several users'
	for kind in direct managed; do
		by $alice run "echo 'x$kind 4K kind=$kind' >control/alloc"
		refused EOPNOTSUPP "of kind $kind lives in the worker of uid $alice" "chown $bob allocations/x$kind"
	done
	by $alice run 'echo "small 4K" >control/alloc && echo here >allocations/small/data'
	refused EBUSY 'shares a block of memory with others of uid 1013: read allocations/small/lease' \
		"chown $bob allocations/small"
	cat allocations/small/lease >/dev/null
	chown $bob allocations/small
	is "$(by $bob run 'head -c 4 allocations/small/data')" here
	is "$(value_of owners/$bob/current device:0)" $((2 << 20))
}

test_memory_in_use_is_not_handed_on()
{
	needs_root 'several users'
	by $alice run 'echo "x 4M" >control/alloc'
	exec 3<>allocations/x/lease
	echo 'hold w' >&3
	by $alice run 'cat allocations/x/data' >/dev/null 3>&- &
	eventually '[ "$(<allocations/x/state)" = busy ]'
	refused EBUSY 'has work under way' "chown $bob allocations/x"
	exec 3>&-
	wait
	chown $bob allocations/x
}

# kernel USER DST: adds 1 to the first number of DST.
kernel_adds()
{
	by "$1" run "echo 'order$1 add grid=1 block=1 in:$2 i32:1 $2' >control/launch"
}

# Each worker has the memory mapped, as owner or as guest, when it changes hands.
test_workers_of_both_owners_go_on()
{
	local user
	needs_root 'several users'
	needs_kernels
	for user in $alice $bob; do
		by "$user" run "mkdir modules/order$user && cp '$GPUMEM_KERNELS/order.ptx' modules/order$user/image"
	done
	by $alice run 'echo "x 4M mode=666" >control/alloc'
	kernel_adds $alice x
	kernel_adds $bob x
	chown $bob allocations/x
	kernel_adds $alice x
	kernel_adds $bob x
	chmod 600 allocations/x
	by $alice refused EACCES 'may not' "echo 'order$alice add grid=1 block=1 in:x i32:1 x' >control/launch"
	kernel_adds $bob x
	chown $alice allocations/x
	by $bob refused EACCES 'may not' "echo 'order$bob add grid=1 block=1 in:x i32:1 x' >control/launch"
	kernel_adds $alice x
	is "$(by $alice run 'od -A n -t d4 -N 4 allocations/x/data' | tr -d ' ')" 6
	by $alice run 'rmdir allocations/x'
	eventually "[ \"\$(<devices/0/memory_held_bytes)\" -lt $((4 << 20)) ]"
}

test_leases_stay_when_memory_is_handed_on()
{
	needs_root 'several users'
	by $alice run 'echo "x 4M" >control/alloc'
	exec 5< <(exec setpriv --reuid=$alice --regid=$alice --clear-groups bash -c '
		exec 3<>allocations/x/lease; cat <&3; echo; echo ready; exec sleep 1000')
	local holder=$! line
	until [ "${line-}" = ready ]; do read -r -t 20 -u 5 line; done
	is "$(value_of owners/$alice/status leases) $(value_of owners/$alice/status leased_bytes)" "1 $((4 << 20))"
	chown $bob allocations/x
	is "$(value_of owners/$alice/status leases) $(value_of owners/$alice/status leased_bytes)" '1 0'
	is "$(value_of owners/$bob/status leased_bytes)" $((4 << 20))
	like "$(<allocations/x/leases)" " $alice w "
	by $alice denied EACCES 'exec 3<>allocations/x/lease'
	kill $holder
	exec 5<&-
	eventually "[ \"\$(value_of owners/$bob/status leased_bytes)\" = 0 ]"
	is "$(value_of owners/$alice/status leases) $(value_of owners/$alice/status leased_bytes)" '0 0'
}

test_only_the_owner_and_root_may_free()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096 mode=666" >control/alloc; echo "y 4096" >control/alloc'
	by $bob refused EPERM 'x.*1001|1001.*x|x' 'echo x >control/free'
	by $bob refused EPERM 'allocation x belongs to uid 1001, not to uid 1002' 'rmdir allocations/x'
	[ -d allocations/x ]
	echo x >control/free
	rmdir allocations/y
	is "$(ls allocations)" ''
}

test_only_the_owner_and_root_may_rename()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096 mode=666" >control/alloc'
	by $bob refused EPERM 'allocation x belongs to uid 1001, not to uid 1002' 'mv allocations/x allocations/y'
	mv allocations/x allocations/y
	is "$(ls allocations)" y
}

test_fill_needs_to_write_and_copy_to_read_and_write()
{
	needs_root 'several users'
	by $alice run 'echo "closed 4096" >control/alloc; echo "shown 4096 mode=644" >control/alloc'
	by $bob run 'echo "mine 4096" >control/alloc'
	by $bob refused EACCES 'closed' 'echo "closed u8:1" >control/fill'
	by $bob refused EACCES 'shown' 'echo "shown u8:1" >control/fill'
	by $bob refused EACCES 'closed' 'echo "mine from=closed" >control/copy'
	by $bob refused EACCES 'shown' 'echo "shown from=mine" >control/copy'
	by $bob run 'echo "mine from=shown" >control/copy'
	by $bob run 'cp allocations/shown/data allocations/mine/data'
}

test_memory_of_one_user_reads_as_zeros_for_the_next()
{
	local kind i
	needs_root 'several users'
	for kind in $kinds; do
		for i in 1 2 3; do
			by $alice run "echo 'x 4M kind=$kind' >control/alloc; yes secret | head -c 4M >allocations/x/data; rmdir allocations/x"
			by $bob run "echo 'x 4M kind=$kind' >control/alloc; cmp -n 4194304 allocations/x/data /dev/zero && rmdir allocations/x"
		done
	done
}

test_errors_are_their_users_and_roots()
{
	needs_root 'several users'
	by $alice refused EINVAL 'alicia' 'echo "alicia 0" >control/alloc'
	unlike "$(by $bob run 'cat errors')" alicia
	like "$(tail -n 1 errors)" alicia
}

test_a_user_can_not_make_room_by_another_users_name()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc'
	by $bob refused EEXIST 'x' 'echo "x 4096" >control/alloc'
}

test_streams_are_their_owners()
{
	needs_root 'several users'
	by $alice run 'mkdir streams/hers'
	by $bob refused EPERM 'stream hers belongs to uid 1001, not to uid 1002' 'rmdir streams/hers'
	by $bob run 'echo "x 4096" >control/alloc'
	fails "by $bob run 'echo \"x u8:1 stream=hers\" >control/fill'"
	by $alice run 'rmdir streams/hers; mkdir modules/hers'
	by $bob refused EPERM 'module hers belongs to uid 1001, not to uid 1002' 'rmdir modules/hers'
	by $alice run 'rmdir modules/hers'
}

test_every_owner_has_his_own_default_stream()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc; echo "x u8:1 stream=default" >control/fill; echo default >control/synchronize'
	by $bob run 'echo "y 4096" >control/alloc; echo "y u8:1 stream=default" >control/fill; echo default >control/synchronize'
	is "$(by $alice run 'ls streams')" default
}

test_a_descriptor_keeps_the_right_it_was_opened_with()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096 mode=644" >control/alloc; echo before >allocations/x/data'
	is "$(py <<-'EOF'
		child = os.fork()
		if child == 0:
		    os.setresuid(1002, 1002, 1002)
		    fd = os.open("allocations/x/data", os.O_RDONLY)
		    print(os.pread(fd, 6, 0))
		    os._exit(0)
		os.waitpid(child, 0)
	EOF
	)" "b'before'"
}

test_a_descriptor_of_reset_outlives_its_owner()
{
	local reset
	needs_root 'several users'
	broker_start "$T/own" --driver "$(driver own)" --worker-idle 1
	cd "$T/own/mnt"
	by $alice run 'echo "x 4K" >control/alloc; rmdir allocations/x'
	exec {reset}>owners/$alice/reset
	eventually "[ ! -e owners/$alice ]" 60
	refused ESTALE 'the owner had nothing for long, and is gone' "echo 1 >&$reset"
	exec {reset}>&-
	cd "$M"
	broker_stop "$T/own"
}

test_root_may_everything()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096" >control/alloc; echo hers >allocations/x/data'
	is "$(head -c 4 allocations/x/data)" hers
	echo 'x u8:0' >control/fill
	is_zero allocations/x/data
	echo x >control/free
}

main "$@"
