#!/bin/bash
# Workers die, are killed or hang; the broker and its memory live on.
. "${BASH_SOURCE%/*}/lib.bash"

mover()
{
	workers_of "$T/main" mover
}

own()
{
	workers_of "$T/main" "$(id -u)"
}

may_kill()
{
	needs_software 'lose a worker'
}

test_an_owners_worker_runs_as_he_does()
{
	needs_root 'another user'
	undying
	by 1001 run 'echo "x 4096 kind=direct" >control/alloc'
	is "$(awk '/^Uid:/ { print $2, $3, $4, $5 }' "/proc/$(workers_of "$T/main" 1001)/status")" \
		'1001 1001 1001 1001'
}

test_no_worker_runs_for_device_and_host_memory_but_the_mover()
{
	local before
	before=$(own)
	[ -z "$before" ] || skip 'an owner of this mount has a worker already'
	echo 'x 4096' >control/alloc
	echo 'y 4096 kind=host' >control/alloc
	cat allocations/*/data >/dev/null
	is "$(own)" ''
}

# Users may put millions of locks (fcntl(2)) on a file of which the broker has a descriptor,
# and the close(2) of each copy takes a while. So who starts a process has no copies.
test_a_worker_is_started_by_a_thread_without_the_brokers_descriptors()
{
	local thread worker
	[ -e /proc/self/task/$BASHPID/children ] || skip 'needs a kernel that lists children'
	undying
	echo 'x 4096 kind=direct' >control/alloc
	echo 'h 4096 kind=host' >control/alloc
	for worker in $(mover) $(own); do
		thread=$(grep -lw $worker /proc/"$(<"$T/main/pid")"/task/*/children)
		is "$(find "${thread%/children}/fd" ! -lname 'socket:*' -lname '?*' -printf '%l\n')" /dev/null
	done
}

test_durable_memory_survives_the_mover()
{
	local before
	may_kill
	echo 'x 3000000' >control/alloc
	yes | head -c 3000000 >allocations/x/data
	undying
	before=$(mover)
	kill -KILL $before
	eventually "[ -n \"\$(mover)\" ] && [ \"\$(mover)\" != $before ]"
	dying
	cmp allocations/x/data <(yes | head -c 3000000)
	echo 'x u8:1' >control/fill
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 1
}

test_address_and_bytes_stay_when_the_mover_starts_again()
{
	local address
	may_kill
	echo 'x 4M' >control/alloc
	address=$(<allocations/x/address)
	undying
	kill -KILL $(mover)
	dying
	is_zero allocations/x/data
	is "$(<allocations/x/address)" "$address"
}

test_a_transfer_during_which_the_mover_dies_is_eio_or_done()
{
	local reader status=0
	may_kill
	echo 'x 4M' >control/alloc
	undying
	slow 30s
	cat allocations/x/data >"$T/read" 2>"$T/said" &
	reader=$!
	until_it_waits $reader
	inject
	kill -KILL $(mover)
	wait $reader || status=$?
	if [ "$status" != 0 ]; then
		like "$(<"$T/said")" "${message[EIO]}"
		like "$(tail -n 1 errors)" ' EIO .*x.*worker|mover'
	fi
	cmp -n 4194304 allocations/x/data /dev/zero
}

test_a_line_during_which_the_worker_dies_is_eio_with_a_sentence()
{
	local status=0 writer
	may_kill
	echo 'mine 4M kind=direct' >control/alloc
	slow 30s
	echo 'mine u8:1' >control/fill 2>"$T/said" &
	writer=$!
	until_it_waits $writer
	kill -KILL $(own)
	inject
	wait $writer || status=$?
	[ "$status" != 0 ]
	like "$(<"$T/said")" "${message[EIO]}"
	like "$(tail -n 1 errors)" ' control/fill EIO .*worker'
}

test_what_lived_in_the_worker_is_lost()
{
	local kind
	may_kill
	for kind in direct async; do
		echo "x 4096 kind=$kind" >control/alloc
		cat allocations/x/data >/dev/null
		kill -KILL $(own)
		eventually '[ "$(<allocations/x/state)" = lost ]'
		refused ESTALE 'x' 'cat allocations/x/data'
		refused ESTALE 'x' 'echo "x u8:1" >control/fill'
		rmdir allocations/x
		is "$(ls allocations)" ''
	done
}

test_failures_of_copies_and_truncation_name_who_and_what()
{
	may_kill
	echo 'd 4K kind=direct' >control/alloc
	echo 'v 4K' >control/alloc
	kill -KILL "$(<"owners/$(id -u)/worker")"
	eventually '[ "$(<allocations/d/state)" = lost ]'
	fails 'truncate -s 0 allocations/d/data'
	like "$("${AS[@]}" tail -n 1 errors)" 'pid=[1-9][0-9]* allocations/d/data ESTALE'
	fails 'cp allocations/d/data allocations/v/data'
	like "$("${AS[@]}" tail -n 1 errors)" 'pid=[1-9][0-9]* allocations/./data ESTALE'
}

test_nothing_that_was_read_ahead_of_lost_memory_is_told()
{
	local kind
	may_kill
	for kind in direct async managed; do
		echo "x 4M kind=$kind" >control/alloc
		is "$(py "$(own)" <<-'EOF'
			fd = os.open("allocations/x/data", os.O_RDONLY)
			for at in range(2):
			    os.pread(fd, 1 << 20, at << 20)
			os.kill(int(sys.argv[1]), signal.SIGKILL)
			while open("allocations/x/state").read() != "lost\n":
			    time.sleep(0.02)
			show(os.pread, fd, 1 << 20, 2 << 20)
		EOF
		)" ESTALE
		rmdir allocations/x
	done
}

test_the_next_command_has_a_new_worker()
{
	local kind before
	may_kill
	for kind in direct async; do
		echo "x 4096 kind=$kind" >control/alloc
		before=$(own)
		kill -KILL $before
		eventually '[ "$(<allocations/x/state)" = lost ]'
		echo "y 4096 kind=$kind" >control/alloc
		[ "$(own)" != "$before" ]
		echo 'y u8:5' >control/fill
		is "$(od -A n -t u1 -N 1 allocations/y/data | xargs)" 5
		rmdir allocations/x allocations/y
	done
}

test_durable_memory_survives_its_owners_worker()
{
	may_kill
	echo 'mine 4096 kind=direct' >control/alloc
	echo 'x 4096' >control/alloc
	echo 'h 4096 kind=host' >control/alloc
	echo kept >allocations/x/data
	echo kept >allocations/h/data
	kill -KILL $(own)
	eventually '[ "$(<allocations/mine/state)" = lost ]'
	is "$(head -c 4 allocations/x/data)" kept
	is "$(head -c 4 allocations/h/data)" kept
	is "$(<allocations/x/state)" live
}

test_restarts_are_counted()
{
	local before
	may_kill
	echo 'x 4096 kind=direct' >control/alloc
	before=$(<"owners/$(id -u)/restarts")
	kill -KILL $(own)
	eventually '[ "$(<allocations/x/state)" = lost ]'
	echo 'y 4096 kind=direct' >control/alloc
	is "$(<"owners/$(id -u)/restarts")" $((before + 1))
}

test_an_owners_worker_that_dies_is_an_event()
{
	may_kill
	echo 'x 4096 kind=direct' >control/alloc
	kill -KILL $(own)
	eventually '[ "$(<allocations/x/state)" = lost ]'
	like "$(tail -n 3 events)" "$(id -u)|worker"
}

test_one_owners_worker_is_no_others_concern()
{
	may_kill
	needs_root 'several users'
	by 1001 run 'echo "hers 4096 kind=direct" >control/alloc; echo kept >allocations/hers/data'
	echo 'mine 4096 kind=direct' >control/alloc
	kill -KILL $(own)
	eventually '[ "$(<allocations/mine/state)" = lost ]'
	is "$(<allocations/hers/state)" live
	is "$(by 1001 run 'head -c 4 allocations/hers/data')" kept
}

test_a_worker_that_dies_in_every_call_does_not_take_the_broker_along()
{
	may_kill
	inject 'kill=cuMemAlloc_v2@*'
	refused EIO 'worker' 'echo "x 4096 kind=direct" >control/alloc'
	refused EIO 'worker' 'echo "x 4096 kind=direct" >control/alloc'
	is "$(ls allocations)" ''
	inject
	echo 'x 4096 kind=direct' >control/alloc
	is_zero allocations/x/data
}

test_a_worker_that_dies_again_and_again_has_failed_until_it_is_reset()
{
	may_kill
	inject 'kill=cuMemAlloc_v2@*'
	refused EIO 'was killed by signal 9' 'echo "x 4096 kind=direct" >control/alloc'
	eventually '! (echo "x 4096 kind=direct" >control/alloc) 2>/dev/null &&
		tail -n 1 errors | grep -q "failed again and again; writing 1 to owners/$UID/reset"'
	is "$(<"owners/$UID/state")" failed
	is "$(<"owners/$UID/failure")" 'the worker was killed by signal 9'
	echo 'kept 4096' >control/alloc
	inject
	refused EIO 'failed again and again' 'echo "x 4096 kind=direct" >control/alloc'
	echo 1 >"owners/$UID/reset"
	echo 'x 4096 kind=direct' >control/alloc
	is "$(<"owners/$UID/state")" running
}

test_reset_ends_the_worker_and_keeps_what_is_durable()
{
	local worker restarts
	echo 'kept 4096' >control/alloc
	echo sound >allocations/kept/data
	echo 'gone 4096 kind=direct' >control/alloc
	worker=$(own)
	restarts=$(<"owners/$UID/restarts")
	echo 1 >"owners/$UID/reset"
	[ ! -e "/proc/$worker" ]
	is "$(<"owners/$UID/restarts")" $((restarts + 1))
	is "$(<allocations/gone/state)" lost
	is "$(head -c 5 allocations/kept/data)" sound
	refused EINVAL "'2' is not 1" "echo 2 >owners/$UID/reset"
	echo 1 >"owners/$UID/reset"
}

test_memory_of_the_dead_comes_back()
{
	may_kill
	for _ in 1 2 3; do
		echo 'x 300M kind=direct' >control/alloc
		kill -KILL $(own)
		eventually '[ "$(<allocations/x/state)" = lost ]'
		rmdir allocations/x
	done
}

test_workers_can_not_be_traced_or_read_by_their_owner()
{
	local worker
	needs_root 'another user'
	undying
	by 1001 run 'echo "x 4096 kind=direct" >control/alloc'
	worker=$(<owners/1001/worker)
	by 1001 denied EACCES "exec 3</proc/$worker/mem"
	by 1001 denied EACCES "ls /proc/$worker/fd"
}

# A machine may see many users.
test_owners_with_nothing_are_dropped()
{
	local ours uid
	needs_root 'many users'
	broker_start "$T/own" --driver "$(driver own)" --worker-idle 1
	cd "$T/own/mnt"
	by 1001 run 'echo "stays 4K" >control/alloc'
	by 1002 run 'mkdir streams/stays'
	by 1003 run 'echo "shared 4K mode=644" >control/alloc'
	ours=$(ls "/proc/$(<"$T/own/pid")/fd" | wc -l)
	py <<-'EOF'
		for uid in range(2000, 2100):
		    if os.fork() == 0:
		        become(uid)
		        kinds = ("device", "host") + (("direct",) if uid % 20 == 0 else ())
		        for kind in kinds:
		            os.write(control("alloc"), b"x%d 100 kind=%s" % (uid, kind.encode()))
		            open(f"allocations/x{uid}/data", "rb").read()
		            os.write(control("copy"), b"x%d from=shared length=100" % uid)
		            os.stat(f"owners/{uid}")
		            os.rmdir(f"allocations/x{uid}")
		        os._exit(0)
		    assert os.wait()[1] == 0, uid
	EOF
	eventually '! ls owners | grep -q "^20"' 40
	is "$(ls owners | grep -vE '^(0|default)$' | xargs)" '1001 1002 1003'
	[ "$(ls "/proc/$(<"$T/own/pid")/fd" | wc -l)" -le $((ours + 5)) ]
	by 2000 run 'echo "x 100 kind=direct" >control/alloc'
	is "$(<owners/2000/allocations)" 1
	cd /
	broker_stop "$T/own"
}

# Each limit leaves another number of descriptors to the last worker.
test_a_worker_that_can_not_be_started_says_what_is_lacking()
{
	local limit limits uid said
	needs_root 'many users'
	limits=$(seq 110 117)
	# a worker's start takes a third of a second there
	[ -z "${GPUMEM_DRIVER-}" ] || limits=113
	for limit in $limits; do
		(ulimit -n $limit; broker_start "$T/own" --driver "$(driver own)" --worker-idle 1)
		cd "$T/own/mnt"
		for uid in $(seq 2001 2040); do
			said=$(by $uid run 'echo "of$UID 4K kind=direct" >control/alloc' 2>&1) || break
		done
		said+=$'\n'$(by $uid run 'tail -n 1 errors')
		like "$said" 'Too many open files'
		like "$said" "EMFILE .*no worker can be started: the broker has no descriptors left"
		unlike "$(<"owners/$uid/state")" failed
		# A start takes more than one worker leaves: of some it needs for a moment.
		by 2001 run 'rmdir allocations/of2001'
		by 2002 run 'rmdir allocations/of2002'
		eventually "by $uid run 'echo \"x 4K kind=direct\" >control/alloc'"
		cd /
		broker_stop "$T/own"
	done
}

# The worker of 2001 has had memory mapped that stays, and that came from the same cgroup.
test_owners_who_used_the_memory_of_others_are_dropped()
{
	needs_root 'many users'
	needs_kernels
	broker_start "$T/own" --driver "$(driver own)" --worker-idle 1
	cd "$T/own/mnt"
	by 2001 run 'echo "first 4K" >control/alloc'
	by 1001 run 'echo "stays 4K mode=666" >control/alloc'
	by 2001 run "mkdir modules/saxpy && cp '$GPUMEM_KERNELS/saxpy.ptx' modules/saxpy/image"
	by 2001 run 'echo "saxpy saxpy elements=64 u32:64 f32:2 stays stays" >control/launch'
	by 2001 run 'rmdir modules/saxpy allocations/first'
	eventually '! ls owners | grep -q 2001' 40
	# The same memory is mapped anew, and its mode can be changed.
	by 2001 run "mkdir modules/saxpy && cp '$GPUMEM_KERNELS/saxpy.ptx' modules/saxpy/image"
	by 2001 run 'echo "saxpy saxpy elements=64 u32:64 f32:2 stays stays" >control/launch'
	by 1001 run 'chmod 600 allocations/stays && rmdir allocations/stays'
	cd /
	broker_stop "$T/own"
}

# in_memory PROCESS TEXT: the process has the text, a string of its own, in its memory.
in_memory()
{
	py "$@" <<-'EOF'
		process, text = "/proc/" + sys.argv[1], sys.argv[2].encode() + b"\0"
		def ranges():
		    for line in open(process + "/maps"):
		        first, last = (int(at, 16) for at in line.split()[0].split("-"))
		        if "rw-p" in line and last - first < 64 << 20:
		            yield first, last - first
		with open(process + "/mem", "rb", 0) as memory:
		    def has_text(first, size):
		        memory.seek(first)
		        return text in memory.read(size)
		    sys.exit(not any(has_text(*range) for range in ranges()))
	EOF
}

# Variables of root's shell must not reach processes of other users.
test_a_worker_has_listed_variables_and_its_owners_home_only()
{
	local environment home
	needs_root 'another user'
	home=$(getent passwd 65534 | cut -d : -f 6)
	MYSECRET=hunter2 XCUDA_SECRET=hunter3 NVIDIA_SEEN=1 CUDA_SEEN=2 LC_SEEN=3 HOME=/root \
		broker_start "$T/own" --driver "$(driver own)"
	cd "$T/own/mnt"
	by 65534 run 'echo "x 4096 kind=direct" >control/alloc'
	environment=$(tr '\0' '\n' <"/proc/$(workers_of "$T/own" 65534)/environ")
	unlike "$environment" 'SECRET|hunter|HOME=/root'
	is "$(grep -c _SEEN= <<<"$environment")" 3
	is "$(grep -E '^(HOME|PATH)=' <<<"$environment")" "PATH=$PATH"
	# The worker looks up its home itself, so HOME is only in its memory, not in environ.
	in_memory "$(workers_of "$T/own" 65534)" "HOME=$home"
	# The driver's cache is in the home, where a file system may hang (stuck.bash).
	in_memory "$(workers_of "$T/own" 65534)" CUDA_CACHE_DISABLE=1
	cd /
	broker_stop "$T/own"
}

main "$@"
