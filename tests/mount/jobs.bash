#!/bin/bash
# Memory that ends with its process or its cgroup, memory of a cgroup freed by an epilog,
# and lines that wait for memory.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/cgroups.bash"

# processes FOLDER: whether the cgroup has any (the size of the file is 0 in any case).
processes()
{
	grep -q . "$1/cgroup.procs"
}

# ---- until=exit ----

test_until_exit_frees_when_the_process_that_wrote_the_line_ends()
{
	local kind
	for kind in $kinds; do
		writer "x 1M kind=$kind until=exit"
		is "$(<allocations/x/until)" exit
		is "$(<allocations/x/state)" live
		kill -KILL "$writer"
		gone x
	done
	bash -c 'echo "x 4096 until=exit" >control/alloc; [ -e allocations/x ]'
	gone x
}

test_until_exit_outlives_the_descriptor_and_other_processes()
{
	writer 'x 4096 until=exit'
	echo hello >allocations/x/data
	bash -c 'echo "other 4096 until=exit" >control/alloc'
	gone other
	is "$(head -c 5 allocations/x/data)" hello
	kill "$writer"
	gone x
}

# A write of 4096 bytes without a newline waits for close(2).
test_a_line_that_close_does_is_the_writers()
{
	py <<-'EOF'
		fd = os.open("control/alloc", os.O_WRONLY)
		child = os.fork()
		if not child:
		    os.write(fd, b"x 4096 until=exit".ljust(4096))
		    os.kill(os.getpid(), signal.SIGSTOP)
		os.waitpid(child, os.WUNTRACED)
		os.close(os.dup(fd))
		assert open("allocations/x/until").read() == "exit\n"
		os.kill(child, signal.SIGKILL)
		os.waitpid(child, 0)
		while os.path.exists("allocations/x"):
		    time.sleep(0.01)
		# A thread that has ended names no process any more: its number may come again.
		thread = threading.Thread(target=lambda: os.write(fd, b"y 4096 until=exit".ljust(4096)))
		thread.start()
		thread.join()
		while len(os.listdir("/proc/self/task")) > 1:
		    time.sleep(0.01)
		try:
		    os.close(fd)
		    raise AssertionError("not refused")
		except OSError as error:
		    assert error.errno == errno.ESRCH, error
		assert not os.path.exists("allocations/y")
	EOF
}

test_until_exit_is_the_whole_process_and_not_the_thread()
{
	py <<-'EOF'
		def write():
		    os.write(control("alloc"), b"x 4096 until=exit")
		thread = threading.Thread(target=write)
		thread.start()
		thread.join()
		open("allocations/x/data", "rb").read()
		# The first thread may end before the others.
		def last():
		    while open(f"/proc/{os.getpid()}/task/{os.getpid()}/stat").read().split()[2] != "Z":
		        time.sleep(0.01)
		    os.write(control("alloc"), b"y 4096 until=exit")
		    open("allocations/x/data", "rb").read()
		    open("allocations/y/data", "rb").read()
		    open(os.environ["T"] + "/well", "w")
		    os._exit(0)
		threading.Thread(target=last).start()
		libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
	EOF
	[ -e "$T/well" ]
	gone x
	gone y
}

test_until_exit_of_a_child_is_the_childs()
{
	bash -c 'echo "parent 4096 until=exit" >control/alloc
		bash -c "echo \"child 4096 until=exit\" >control/alloc"
		until [ ! -e allocations/child ]; do sleep 0.02; done
		[ -e allocations/parent ]'
	gone parent
}

# A process with a number that another just had: clone3(2) can choose it.
test_a_process_with_the_number_of_one_that_has_ended_is_another()
{
	needs_root 'processes with a chosen number'
	trap 'kill -CONT "$(<"$T/main/pid")"; cleanup_case' EXIT
	py "$T" "$(<"$T/main/pid")" <<-'EOF'
		def child(pid, line, lives):
		    args = (ctypes.c_uint64 * 11)()
		    wanted = ctypes.c_int(pid)
		    args[4] = signal.SIGCHLD
		    if pid:
		        args[8], args[9] = ctypes.addressof(wanted), 1
		    here, there = os.pipe()
		    born = libc.syscall(435, args, 88)
		    if born < 0:
		        raise OSError(ctypes.get_errno(), "clone3")
		    if born == 0:
		        os.close(here)
		        with open("control/alloc", "wb", 0) as file:
		            file.write(line)
		        os.write(there, b"x")
		        while lives:
		            signal.pause()
		        os._exit(0)
		    os.close(there)
		    return born, here

		broker = int(sys.argv[2])
		first, said = child(0, b"first 4096 until=exit", True)
		assert os.read(said, 1) == b"x"
		# The broker hears of the end and of the next line at once.
		os.kill(broker, signal.SIGSTOP)
		os.kill(first, signal.SIGKILL)
		os.waitpid(first, 0)
		second, said = child(first, b"second 4096 until=exit", True)
		assert second == first
		os.kill(broker, signal.SIGCONT)
		assert os.read(said, 1) == b"x"
		while os.path.exists("allocations/first"):
		    time.sleep(0.01)
		assert os.path.exists("allocations/second")
		third, said = child(0, b"third 4096 until=exit", False)
		assert os.read(said, 1) == b"x"
		os.waitpid(third, 0)
		while os.path.exists("allocations/third"):
		    time.sleep(0.01)
		assert os.path.exists("allocations/second")
		os.kill(second, signal.SIGKILL)
		os.waitpid(second, 0)
		while os.path.exists("allocations/second"):
		    time.sleep(0.01)
	EOF
}

test_published_memory_outlives_the_process()
{
	writer 'x.part 4096 until=exit'
	echo 'x.part x' >control/publish
	is "$(<allocations/x/until)" none
	writer 'other 4096 until=exit'
	pkill -KILL -P $$ sleep
	gone other
	[ -e allocations/x ]
}

test_a_thousand_allocations_of_a_process_take_one_descriptor()
{
	local broker before
	broker=$(<"$T/main/pid")
	echo 'block 4096' >control/alloc
	before=$(open_files_of "$broker" | wc -l)
	bash -c "seq -f 'x%.0f 256 until=exit' 1000 >control/alloc; exec sleep 1000" &
	seq -f 'y%.0f 256 until=exit' 1000 >"$T/lines"
	bash -c 'while read -r line; do echo "$line"; done <"$1/lines" >control/alloc; : >"$1/done"; exec sleep 1000' - "$T" &
	eventually "[ -e '$T/done' ]"
	eventually '[ "$(ls allocations | wc -l)" = 1001 ]'
	[ "$(open_files_of "$broker" | wc -l)" -le $((before + 10)) ] ||
		fail "$(open_files_of "$broker" | wc -l) descriptors, $before before"
	kill %2
	eventually '[ "$(ls allocations)" = block ]'
	# A spare block for small allocations is kept.
	eventually "[ \$(open_files_of $broker | wc -l) -le $((before + 2)) ]"
}

test_a_line_that_fails_leaves_nothing_behind()
{
	local broker before i
	broker=$(<"$T/main/pid")
	writer 'x 4096'
	before=$(open_files_of "$broker" | wc -l)
	for i in {1..50}; do
		bash -c 'echo "x 4096 until=exit" >control/alloc' 2>/dev/null && fail 'x was there'
	done
	eventually "[ \$(open_files_of $broker | wc -l) -le $before ]"
}

test_until_takes_one_of_three_words()
{
	refused EINVAL "until=never is not one of close, exit, cgroup" 'echo "x 4K until=never" >control/alloc'
	echo 'x 4K' >control/alloc
	is "$(<allocations/x/until)" none
	exec 3>control/alloc
	echo 'y 4K until=close' >&3
	is "$(<allocations/y/until)" close
	exec 3>&-
	gone y
}

# ---- until=cgroup ----

# Whoever lists a folder may keep its lock, and no signal ends the wait of others for it.
test_a_cgroup_whose_lock_is_kept_keeps_nobody_else()
{
	local locker writers=()
	needs_root 'keep a lock'
	group_new job
	mkfifo "$T/go"
	for i in {1..8}; do
		bash -c 'echo $$ >"$1/cgroup.procs"; read <"$2"; echo "x$3 4096 until=cgroup" >control/alloc' \
			- "$G/job" "$T/go" $i 2>>"$T/refused" &
		writers+=($!)
	done
	eventually "[ \$(wc -l <'$G/job/cgroup.procs') = 8 ]"
	py "$G/job" "$T/go" <<<'keep_lock_while(*sys.argv[1:])' &
	locker=$!
	sleep 2
	yes | head -n 8 >"$T/go"
	for _ in {1..5}; do
		timeout 2 ls allocations >/dev/null
		sleep 0.3
	done
	echo 'y 4096' >control/alloc
	for writer in "${writers[@]}"; do
		fails "wait $writer"
	done
	is "$(ls allocations)" y
	like "$(<errors)" 'ETIMEDOUT until=cgroup: .*/job has not been found for 2 s'
	like "$(<errors)" 'EBUSY until=cgroup: .*/job is not looked for while earlier searches wait'
	rm "$T/go"
	wait $locker
	writer 'x 4096 until=cgroup' "$G/job"
}

# Jobs of other users begin meanwhile, which takes another search.
test_searches_that_wait_for_a_lock_keep_no_search_of_another_user()
{
	local locker writers=() i other=1001
	needs_root 'keep a lock'
	group_new job
	group_new other
	py "$G/job" "$T/locker.go" >"$T/locker" <<-'EOF' &
		while not os.path.exists(sys.argv[2]):
		    time.sleep(0.05)
		keep_lock_while(*sys.argv[1:])
	EOF
	locker=$!
	mkfifo "$T/searches.go"
	for i in {1..4}; do
		bash -c 'echo $$ >"$1/cgroup.procs"; read <"$2"; echo "x$3 4096 until=cgroup" >control/alloc' \
			- "$G/job" "$T/searches.go" $i 2>/dev/null &
		writers+=($!)
	done
	eventually "[ \$(wc -l <'$G/job/cgroup.procs') = 4 ]"
	: >"$T/locker.go"
	eventually "grep -q kept '$T/locker'"
	yes | head -n 4 >"$T/searches.go"
	eventually 'pgrep -f -- "^gpumem-worker --open|worker/gpumem-worker --open" >/dev/null'
	# A search takes 2 ms. Those that wait for the lock take 2 s.
	bash -c 'echo $$ >"$1/cgroup.procs"; exec setpriv --reuid="$2" --regid="$2" --clear-groups \
		bash -c "now() { echo \$((\${EPOCHREALTIME/./} / 1000)); }
			 began=\$(now); echo z 4096 until=cgroup >control/alloc; echo \$((\$(now) - began))
			 exec sleep 1000"' - "$G/other" $other >"$T/took" &
	eventually '[ -s "$T/took" ]'
	[ "$(<"$T/took")" -lt 1000 ] || fail "the other user's line took $(<"$T/took") ms"
	rm "$T/locker.go"
	for i in "${writers[@]}"; do
		wait "$i" || true
	done
	wait $locker
}

# The signal comes while the line is put off.
test_a_signal_during_the_search_for_a_cgroup_ends_the_wait_behind_it()
{
	local locker program
	needs_root 'keep a lock'
	full
	group_new job
	mkfifo "$T/go"
	bash -c 'echo $$ >"$1/cgroup.procs"; read <"$2"; echo "x 200M until=cgroup wait=100" >control/alloc' \
		- "$G/job" "$T/go" &
	program=$!
	eventually "[ \$(wc -l <'$G/job/cgroup.procs') = 1 ]"
	py "$G/job" "$program" <<-'EOF' &
		processes = keep_lock(sys.argv[1])
		with open(f"{os.environ['T']}/go", "w") as go:
		    go.write("\n")
		time.sleep(0.7)
		os.kill(int(sys.argv[2]), signal.SIGKILL)
		time.sleep(0.3)
		for process in processes:
		    os.kill(process, signal.SIGKILL)
	EOF
	locker=$!
	wait $locker
	timeout 10 tail --pid=$program -f /dev/null
	waiting 0
	[ ! -e allocations/x ]
}

test_until_cgroup_frees_when_the_last_process_of_the_cgroup_ends()
{
	local other
	group_new job
	writer 'x 4096 until=cgroup' "$G/job"
	is "$(<allocations/x/until) $(<allocations/x/cgroup)" "cgroup $P/job"
	other=$writer
	writer 'y 4096' "$G/job"
	kill -KILL "$other"
	wait "$other" || :
	writer 'z 4096 until=cgroup' "$G/job"
	[ -e allocations/x ]
	kill -KILL $(<"$G/job/cgroup.procs")
	gone x
	gone z
	[ -e allocations/y ]
}

test_processes_below_a_cgroup_count()
{
	group_new job/step
	writer 'x 4096 until=cgroup' "$G/job"
	(exec sleep 1000) &
	echo $! >"$G/job/step/cgroup.procs"
	echo "$writer" >"$(hierarchy)/cgroup.procs"
	processes "$G/job" && fail 'the writer has not left'
	writer 'y 4096 until=exit'
	kill "$writer"
	gone y
	[ -e allocations/x ]
	kill %2
	gone x
}

test_a_writer_that_moves_leaves_its_memory_with_the_cgroup()
{
	group_new one
	mkdir "$G/two"
	writer 'x 4096 until=cgroup' "$G/one"
	echo "$writer" >"$G/two/cgroup.procs"
	gone x
	writer 'y 4096 until=cgroup' "$G/two"
	kill -KILL "$writer"
	writer 'z 4096 until=exit'
	kill -KILL "$writer"
	gone z
	[ -e allocations/y ]
}

# The kernel may drop the last event of a cgroup that is removed at once.
test_a_cgroup_that_is_removed_at_once_has_ended()
{
	local i
	for i in {1..20}; do
		group_new "job$i"
		writer 'x 4096 until=cgroup' "$G/job$i"
		echo "$writer" >"$(hierarchy)/cgroup.procs"
		rmdir "$G/job$i"
		gone x
		kill "$writer"
	done
}

test_a_cgroup_made_again_is_another()
{
	group_new job
	writer 'x 4096 until=cgroup' "$G/job"
	trap 'kill -CONT "$(<"$T/main/pid")"; groups_remove' EXIT
	stop "$(<"$T/main/pid")"
	kill -KILL "$writer"
	wait "$writer" || :
	rmdir "$G/job"
	mkdir "$G/job"
	# Nothing of the environment makes bash look at the mount, which stands.
	(cd / && exec env -i M="$M" bash -c 'echo $$ >"$1/cgroup.procs"; echo "y 4096 until=cgroup" >"$M/control/alloc"; exec sleep 1000' - "$G/job") &
	eventually "processes '$G/job'"
	kill -CONT "$(<"$T/main/pid")"
	gone x
	eventually '[ -e allocations/y ]'
	kill $!
	gone y
}

test_a_cgroup_whose_name_has_blanks_is_one_word()
{
	group_new 'job 1\2'
	writer 'x 4096 until=cgroup' "$G/job 1\\2"
	is "$(<allocations/x/cgroup)" "$P/job\\0401\\1342"
	is "$(value_of allocations/x/status cgroup)" "$P/job\\0401\\1342"
	exec 3<>control/free
	printf '%s\n' "cgroup=$(<allocations/x/cgroup)" >&3
	is "$(cat <&3)" $'freed 1\nbytes 4096'
}

test_the_root_of_all_cgroups_never_ends()
{
	local root
	root=$(sed -n 's/^0::\/$/\//p' /proc/self/cgroup)
	[ "$root" ] || skip 'this process is in a cgroup'
	refused EINVAL 'in /, the root of all cgroups, which never ends' 'echo "x 4K until=cgroup" >control/alloc'
}

# Without its file system, version 2 is as good as not there.
test_until_cgroup_needs_version_2()
{
	needs_root 'unmounting in a mount namespace'
	mkdir -p "$T/old/mnt"
	# Its working folder would keep the mount of this topic.
	(cd / && alone bash -c '
		while read -r _ folder type _; do
			[ "$type" != cgroup2 ] || umount "$folder" || exit 3
		done <<<"$(tac /proc/self/mounts)"
		"$GPUMEMD" -f --driver "$1" "$2/mnt" &
		until [ -e "$2/mnt/version" ]; do sleep 0.02; done
		cd "$2/mnt"
		echo "y 4K until=exit" >control/alloc
		echo "x 4K until=cgroup" >control/alloc
		tail -n 1 errors
		cat allocations/y/until
		cd /
		umount "$2/mnt"
		wait' - "$(driver old)" "$T/old" >"$T/old/said" 2>&1) || fail "$(<"$T/old/said")"
	like "$(<"$T/old/said")" 'EOPNOTSUPP until=cgroup needs cgroup version 2, .*until=exit needs none'
	like "$(<"$T/old/said")" 'exit$'
}

# ---- free cgroup=PATH ----

test_free_takes_all_that_came_from_a_cgroup_or_below()
{
	group_new job1/step
	mkdir "$G/job10"
	writer 'a 4096' "$G/job1"
	writer 'b 8192 kind=host' "$G/job1/step"
	writer 'c 4096 until=exit' "$G/job1/step"
	writer 'other 4096' "$G/job10"
	echo 'mine 4096' >control/alloc
	exec 3<>control/free
	echo "cgroup=$P/job1" >&3
	is "$(cat <&3)" $'freed 3\nbytes 16384'
	is "$(ls allocations | xargs)" 'mine other'
	echo "cgroup=$P/job1/" >&3
	is "$(cat <&3)" $'freed 0\nbytes 0'
	echo 'cgroup=/never/was' >&3
	is "$(cat <&3)" $'freed 0\nbytes 0'
}

test_an_epilog_frees_after_the_cgroup_is_gone()
{
	group_new job
	writer 'x 4096' "$G/job"
	writer 'x.part 4096' "$G/job"
	echo 'x.part y' >control/publish
	kill -KILL $(<"$G/job/cgroup.procs")
	eventually "rmdir '$G/job'"
	is "$(<allocations/x/cgroup)" "$P/job"
	echo "cgroup=$P/job" >control/free
	is "$(ls allocations)" ''
}

test_users_free_their_own_and_root_frees_all()
{
	needs_root 'several users'
	group_new job
	writer 'roots 4096' "$G/job"
	bash -c 'echo $$ >"$1/cgroup.procs"
		exec setpriv --reuid=1001 --regid=1001 --clear-groups bash -c "echo \"a 4096\" >control/alloc; echo \"b 4096\" >control/alloc"' - "$G/job"
	is "$(by 1002 run "exec 3<>control/free; echo 'cgroup=$P' >&3; cat <&3")" $'freed 0\nbytes 0'
	is "$(by 1001 run "exec 3<>control/free; echo 'cgroup=$P/job' >&3; cat <&3")" $'freed 2\nbytes 8192'
	is "$(ls allocations)" roots
	echo "cgroup=$P" >control/free
	is "$(ls allocations)" ''
}

test_free_takes_a_name_or_a_cgroup()
{
	echo 'x 4K' >control/alloc
	refused EINVAL 'NAME or cgroup=PATH, not both' 'echo "x cgroup=/a" >control/free'
	refused EINVAL "cgroup=a does not begin with '/'" 'echo "cgroup=a" >control/free'
	echo x >control/free
	is "$(ls allocations)" ''
}

# ---- wait=SECONDS ----

# The machine has 512 MiB a device; full takes all but some 60 MiB of device 0.
full()
{
	needs_software 'have little memory'
	echo 'full 448M' >control/alloc
}

waiting()
{
	eventually "[ \$(value_of status waiting) = $1 ]"
}

test_a_line_waits_for_memory()
{
	local kind
	full
	for kind in device direct async; do
		echo "x 200M kind=$kind wait=50" >control/alloc &
		waiting 1
		[ ! -e allocations/x ]
		like "$(cat status)" 'waiting 1'
		echo full >control/free
		wait $!
		is "$(<allocations/x/size_bytes)" $((200 << 20))
		echo x >control/free
		echo 'full 448M' >control/alloc
	done
	waiting 0
}

test_a_wait_ends_with_enomem_and_says_how_long_it_was()
{
	local began=$SECONDS
	full
	refused ENOMEM 'allocation x of 200 MiB: device 0 has .* free of 512 MiB.*; none has come within 1.5 s' \
		'echo "x 200M wait=1.5" >control/alloc'
	[ $((SECONDS - began)) -ge 1 ]
	is "$(value_of status waiting)" 0
	echo 'x 1M' >control/alloc
}

# A wait of 500 s would be longer than a topic may take.
test_memory_that_a_device_will_never_have_is_not_waited_for()
{
	needs_software 'have little memory'
	refused ENOMEM 'allocation x of 600 MiB: device 0 has .* free of 512 MiB' 'echo "x 600M wait=500" >control/alloc'
	unlike "$(tail -n 1 errors)" 'within'
	is "$(value_of status waiting)" 0
}

test_wait_0_does_not_wait()
{
	full
	refused ENOMEM 'allocation x of 200 MiB' 'echo "x 200M wait=0" >control/alloc'
	unlike "$(tail -n 1 errors)" 'within'
	refused EINVAL 'wait=soon is not a time: use seconds from 0 to 1000000' 'echo "x 1M wait=soon" >control/alloc'
	refused EINVAL 'wait=-1 is not a time' 'echo "x 1M wait=-1" >control/alloc'
}

test_memory_that_is_there_is_not_waited_for()
{
	full
	echo 'x 200M wait=50' >control/alloc &
	waiting 1
	echo 'y 1M wait=50' >control/alloc
	echo 'z 1M' >control/alloc
	echo 'other 300M device=1 wait=50' >control/alloc
	[ ! -e allocations/x ]
	echo full >control/free
	wait $!
}

test_who_came_first_is_served_first()
{
	local i
	full
	for i in 1 2 3; do
		echo "x$i 300M wait=50" >control/alloc &
		waiting $i
	done
	for i in 1 2 3; do
		if [ $i = 1 ]; then
			echo full >control/free
		else
			echo "x$((i - 1))" >control/free
		fi
		eventually "[ -e allocations/x$i ]"
		is "$(ls allocations)" "x$i"
	done
	waiting 0
}

# Pieces add up for the first, and nobody waits behind it for ever.
test_a_line_is_passed_over_for_10_seconds_at_most()
{
	local began
	needs_software 'have little memory'
	echo 'a 224M' >control/alloc
	echo 'b 224M' >control/alloc
	echo 'large 400M wait=50' >control/alloc &
	waiting 1
	echo 'small 100M wait=50' >control/alloc &
	waiting 2
	began=$(date +%s%N)
	echo a >control/free
	eventually '[ -e allocations/small ]'
	[ $(($(date +%s%N) - began)) -ge 8000000000 ] || fail 'small did not wait for its turn'
	echo small >control/free
	echo b >control/free
	eventually '[ -e allocations/large ]'
}

# The line's time is over while the device is asked how much is free.
test_a_signal_during_a_try_ends_the_wait_once()
{
	full
	echo 'small 16M' >control/alloc
	inject 'delay=cuMemCreate@*=2s' 'delay=cuMemGetInfo_v2@*=5s'
	py <<-'EOF'
		import subprocess
		waits = subprocess.Popen(["bash", "-c", "echo 'x 200M wait=4' >control/alloc"])
		while "waiting 1" not in open("status").read().splitlines():
		    time.sleep(0.01)
		os.rmdir("allocations/small")
		time.sleep(1)
		waits.send_signal(signal.SIGTERM)
		assert waits.wait() == -signal.SIGTERM
		time.sleep(7)
		assert "waiting 0" in open("status").read().splitlines()
	EOF
	inject
	echo full >control/free
	echo 'x 200M' >control/alloc
}

test_a_signal_ends_the_wait_and_the_name_is_free()
{
	full
	py <<-'EOF'
		import subprocess
		waits = subprocess.Popen(["bash", "-c", "echo 'x 200M wait=500' >control/alloc"])
		while "waiting 1" not in open("status").read().splitlines():
		    time.sleep(0.01)
		waits.send_signal(signal.SIGTERM)
		assert waits.wait() == -signal.SIGTERM
		os.write(control("alloc"), b"x 4096")
		assert "waiting 0" in open("status").read().splitlines()
	EOF
}

test_waiting_lines_hold_up_nobody()
{
	full
	py <<-'EOF'
		def wait(i):
		    os.write(control("alloc"), b"w%d 200M wait=500" % i)
		for i in range(200):
		    threading.Thread(target=wait, args=(i,), daemon=True).start()
		while "waiting 200" not in open("status").read().splitlines():
		    time.sleep(0.01)
		os.write(control("alloc"), b"x 4096")
		open("allocations/x/data", "wb").write(b"hello")
		assert sorted(os.listdir("allocations")) == ["full", "x"]
		os._exit(0)
	EOF
	waiting 0
}

test_host_memory_is_waited_for_too()
{
	refused ENOMEM 'of host memory' 'echo "x 900T kind=host wait=1" >control/alloc'
}

test_a_user_may_have_1024_lines_that_wait()
{
	full
	py <<-'EOF'
		said = []
		def wait(i):
		    said.append(attempt(os.write, control("alloc"), b"w%d 200M wait=500" % i))
		threading.stack_size(65536)
		for i in range(1025):
		    threading.Thread(target=wait, args=(i,), daemon=True).start()
		while not said or "waiting 1024" not in open("status").read().splitlines():
		    time.sleep(0.01)
		assert said == ["EBUSY"], said
		os._exit(0)
	EOF
	like "$(tail -n 1 errors)" "EBUSY allocation w[0-9]+: uid $UID has 1024 allocations that wait for memory and asks for 1 more: the limit is 1024"
	waiting 0
}

test_the_end_of_the_broker_ends_the_waits()
{
	local status=0
	needs_software 'have little memory'
	broker_start "$T/second" --driver "$(driver second)"
	echo 'full 448M' >"$T/second/mnt/control/alloc"
	(echo 'x 200M wait=500' >"$T/second/mnt/control/alloc") 2>"$T/said" &
	eventually "[ \$(value_of $T/second/mnt/status waiting) = 1 ]"
	kill "$(<"$T/second/pid")"
	wait $! || status=$?
	is "$status" 1
	broker_ended "$T/second"
}

main "$@"
