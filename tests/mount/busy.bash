#!/bin/bash
# Mallory keeps the broker or Linux busy, with long lists, long texts and locks. Bob's work
# must take no longer than before.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/two_users.bash"

# The kernel interrupts each read of theirs. libfuse would look for each along the list of
# all, with the lock held that each request needs: bob's calls took two to four seconds.
test_thousands_of_waiting_readers_that_are_killed()
{
	local user worst
	undying
	bob_is_ready
	by $mallory run 'echo "hers 64K mode=644" >control/alloc'
	mallory_spins_on hers
	for user in $mallory 1003; do
		py $user >"$T/readers.$user" <<-'EOF' &
			become(int(sys.argv[1]))
			libc.prctl(1, signal.SIGKILL)
			print(os.getpid(), flush=True)
			threading.stack_size(65536)
			fd = os.open("allocations/hers/data", os.O_RDONLY)
			for i in range(7000):
			    threading.Thread(target=os.pread, args=(fd, 1, 0), daemon=True).start()
			print("waiting", flush=True)
			signal.pause()
		EOF
		eventually "grep -q waiting '$T/readers.$user'" 60
	done
	worst=$(py $bob "$(head -qn 1 "$T/readers."*)" <<-'EOF'
		for pid in sys.argv[2].split():
		    os.kill(int(pid), signal.SIGKILL)
		os.setresuid(int(sys.argv[1]), int(sys.argv[1]), int(sys.argv[1]))
		worst, until = 0, time.monotonic() + 8
		while time.monotonic() < until:
		    begin = time.monotonic()
		    os.close(os.open("status", os.O_RDONLY))
		    worst = max(worst, time.monotonic() - begin)
		    time.sleep(0.002)
		print(int(worst * 1000))
	EOF
	)
	wait
	echo "# an open of bob took $worst ms at most"
	[ "$worst" -lt 1000 ] || fail "an open of bob took $worst ms"
}

# Linux tells a caller's groups as a text alone. In a user namespace anybody may have as many.
# Each text takes 20 ms: 100 reads of bob took 25 s and more where a thread of the view read it.
# mallory_with_many_groups FILE CODE: 25 of her processes open the file and repeat the code.
mallory_with_many_groups()
{
	py >"$T/mallory" <<-EOF &
		os.setgroups(range(100000, 160000))
		os.setresgid(1001, 1001, 1001)
		os.setresuid(1001, 1001, 1001)
		libc.prctl(1, signal.SIGKILL)
		print(os.getpid(), flush=True)
		for i in range(24):
		    pid = os.fork()
		    if not pid:
		        libc.prctl(1, signal.SIGKILL)
		        break
		    print(pid, flush=True)
		fd = os.open("$1", os.O_WRONLY)
		while True:
		    $2
	EOF
	eventually "[ \$(wc -l <'$T/mallory') = 25 ]"
}

mallory_with_many_groups_ends()
{
	local pid
	kill -KILL $(<"$T/mallory")
	for pid in $(<"$T/mallory"); do
		eventually "[ ! -e /proc/$pid ]"
	done
}

test_callers_with_sixty_thousand_groups()
{
	bob_is_ready
	mallory_with_many_groups control/alloc 'os.close(os.open("control/alloc", os.O_WRONLY))'
	bob_notices_nothing
	mallory_with_many_groups_ends
}

# Each of a line's names is checked against the groups, with the lock that all need.
test_lines_of_many_names_with_sixty_thousand_groups()
{
	local alone
	bob_is_ready
	mkdir allocations/common
	chmod 777 allocations/common
	alone=$(reads_of_bob)
	echo "common/taken 4" >control/alloc
	by $mallory run 'seq -f "common/%.0f 4" 300 >control/alloc'
	py >"$T/mallory" <<-'EOF' &
		os.setgroups(range(100000, 160000))
		os.setresgid(1001, 1001, 1001)
		os.setresuid(1001, 1001, 1001)
		libc.prctl(1, signal.SIGKILL)
		fd = os.open("control/publish", os.O_WRONLY)
		pairs = b" ".join(b"common/%d common/x%d" % (i, i) for i in range(1, 150))
		print("publishes", flush=True)
		while True:
		    attempt(os.write, fd, pairs + b" common/300 common/taken\n")
	EOF
	eventually "grep -q publishes '$T/mallory'"
	bob_reads_as_before "$alone" 1000
	kill -KILL $!
}

# A close that waits looks for a signal, and Linux tells signals in the same text.
test_closes_with_sixty_thousand_groups()
{
	local alone
	bob_is_ready
	alone=$(reads_of_bob)
	by $mallory run 'echo "hers 64K" >control/alloc'
	mallory_with_many_groups allocations/hers/tensors 'os.pwrite(fd, b"{}", 0); attempt(os.close, os.dup(fd))'
	bob_reads_as_before "$alone" 5000
	mallory_with_many_groups_ends
}

# The process that until=exit means is asked of Linux, too.
test_ends_of_processes_with_sixty_thousand_groups()
{
	local alone
	bob_is_ready
	alone=$(reads_of_bob)
	by $mallory run 'echo "hers 4K" >control/alloc'
	mallory_with_many_groups control/alloc 'attempt(os.write, fd, b"hers 4K until=exit\n"); time.sleep(0.01)'
	bob_reads_as_before "$alone" 5000
	mallory_with_many_groups_ends
}

# mallory_has_many_uids [OPTION...]: starts a broker for this case alone. The uids from
# 200000 on are mallory's.
mallory_has_many_uids()
{
	needs_root 'many users'
	echo 'mallory:200000:65536' >"$T/subuid"
	broker_start "$T/own" --driver "$(driver own)" --subuid "$T/subuid" "$@"
	cd "$T/own/mnt"
}

# Whoever has subordinate uids could else have the shares of thousands of users.
test_only_some_uids_of_a_user_have_something_at_a_time()
{
	local uid what
	mallory_has_many_uids --worker-idle 1
	for uid in {200000..200030}; do
		by $uid run "echo 'x$uid 4K' >control/alloc"
	done
	by 200031 run 'mkdir streams/s'
	by 200032 denied EUSERS 'echo "x 4K" >control/alloc'
	like "$(tail -n 1 errors)" \
		'uid=200000 .* owners EUSERS uid 200032 is turned away: 32 other uids of its range, which begins at uid 200000'
	for what in 'cat status' 'mkdir streams/t' 'rmdir streams/s' 'cat events_pipe'; do
		by 265535 denied EUSERS "$what"
	done
	is "$(by 200032 run 'ls allocations | wc -l')" 31
	by 200000 run 'echo "y 4K" >control/alloc'
	by $bob run 'echo "bobs 4K" >control/alloc'
	by 265536 run 'echo "other 4K" >control/alloc'
	# 200031 has nothing any more, and is forgotten after ten times --worker-idle.
	by 200031 run 'rmdir streams/s'
	eventually 'by 200032 run "echo x 4K >control/alloc" 2>/dev/null' 30
	cd "$M"
	broker_stop "$T/own"
}

# Each of them is unknown until it opens something, and may then turn out to have many. Each
# thread has a uid and groups of its own: to Linux these are a thread's.
test_many_uids_with_sixty_thousand_groups()
{
	local alone slack=800
	mallory_has_many_uids
	by $bob run 'echo "bobs 4K" >control/alloc'
	alone=$(reads_of_bob)
	mkfifo "$T/go"
	py "$T/go" >"$T/mallory" <<-'EOF' &
		libc.prctl(1, signal.SIGKILL)
		uids = range(200000, 200350)
		begin, opened = threading.Event(), threading.Semaphore(0)
		def become(uid, n_groups):
		    setgroups, setresuid, setresgid = 116, 117, 119
		    groups = (ctypes.c_uint * n_groups)(*range(100000, 100000 + n_groups))
		    assert libc.syscall(setgroups, n_groups, groups) == 0
		    assert libc.syscall(setresgid, uid, uid, uid) == 0
		    assert libc.syscall(setresuid, uid, uid, uid) == 0
		def opens(uid, n_groups, event):
		    become(uid, n_groups)
		    os.write(1, b"ready\n")
		    event.wait()
		    attempt(os.open, "control/alloc", os.O_WRONLY)
		    opened.release()
		def start(n_groups, event):
		    for uid in uids:
		        threading.Thread(target=opens, args=(uid, n_groups, event), daemon=True).start()
		at_once = threading.Event()
		at_once.set()
		start(0, at_once)
		for _ in uids:
		    opened.acquire()
		start(60000, begin)
		open(sys.argv[1]).read()
		begin.set()
		signal.pause()
	EOF
	eventually "[ \$(wc -l <'$T/mallory') = 700 ]" 60
	echo go >"$T/go"
	# The thread sanitizer makes the reading of groups several times as long.
	! grep -q libtsan "/proc/$(<"$T/main/pid")/maps" || slack=4000
	bob_reads_as_before "$alone" "$slack"
	kill -KILL $!
	cd "$M"
	broker_stop "$T/own"
}

# A load was taken out of the middle of a queue. All behind it were compared with all before
# it, under the lock that every request takes: 11 s for 1800 of each.
test_a_load_that_is_interrupted_in_a_long_queue()
{
	needs_root 'two users'
	by $mallory run 'echo "hers 64K" >control/alloc'
	head -c 65536 /dev/urandom >"$T/file"
	py $mallory "$T/file" <<-'EOF' >"$T/said" || fail "$(<"$T/said")"
		def line(verb, text):
		    fd = os.open(f"control/{verb}", os.O_WRONLY)
		    while text:
		        text = text[os.write(fd, text):]
		def lines(verb, form):
		    line(verb, "".join(form.format(i) + "\n" for i in range(2000)).encode())
		def wait_until_it_waits(pid):
		    while "request_wait" not in open(f"/proc/{pid}/wchan").read():
		        time.sleep(0.01)
		def load_as_mallory(text):
		    pid = os.fork()
		    if pid == 0:
		        become(int(sys.argv[1]))
		        signal.signal(signal.SIGINT, lambda *_: None)
		        print(raw_write(control("load"), text), flush=True)
		        os._exit(0)
		    return pid
		os.setresuid(-1, int(sys.argv[1]), -1)
		lease = os.open("allocations/hers/lease", os.O_RDWR)
		os.read(lease, 4096)
		os.write(lease, b"hold w")
		lines("save", "hers path=/nowhere/file wait=0")
		os.setresuid(-1, 0, -1)
		load = load_as_mallory(f"hers path={sys.argv[2]}".encode())
		wait_until_it_waits(load)
		os.setresuid(-1, int(sys.argv[1]), -1)
		lines("fill", "hers u8:7 offset={} length=1 wait=0")
		os.setresuid(-1, 0, -1)
		longest = 0
		os.kill(load, signal.SIGINT)
		end = time.monotonic() + 1
		while time.monotonic() < end:
		    begin = time.monotonic()
		    open("status").read()
		    longest = max(longest, time.monotonic() - begin)
		os.waitpid(load, 0)
		if longest > 1:
		    print(f"status of another user took {longest} s")
		    sys.exit(1)
		os.close(lease)
	EOF
	is "$(<"$T/said")" EINTR
	eventually '! grep -q busy allocations/hers/state' 40
	cmp <(od -An -v -tx1 -w1 allocations/hers/data | sort | uniq -c | tr -s ' ') \
		<(printf ' 63536 00\n 2000 07\n') || fail 'the load that was interrupted was done'
}

# mallory_has_processes CODE: 16 processes repeat CODE as long as there is modules/go, and
# each prints a line after the first time.
mallory_has_processes()
{
	py $mallory <<-EOF
		become(int(sys.argv[1]))
		for i in range(16):
		    if not os.fork():
		        libc.prctl(1, signal.SIGKILL)
		        $1
		        os.write(1, b"began\\n")
		        while os.path.isdir("modules/go"):
		            $1
		        os._exit(0)
		while attempt(os.wait) != "ECHILD":
		    pass
	EOF
}

# A text of 1.7 MB takes 0.1 s. Threads of the view made one for each reader, and others
# were 30 times slower.
test_readers_of_the_metrics_of_a_thousand_users()
{
	local alone among
	undying # the next broker of each death would look at a thousand users
	bob_is_ready
	mkdir modules/go
	py <<-'EOF'
		for uid in range(20000, 21000):
		    os.setegid(uid)
		    os.seteuid(uid)
		    alloc = control("alloc")
		    os.write(alloc, b"u%d 1 kind=host" % uid)
		    os.close(alloc)
		    os.seteuid(0)
		    os.setegid(0)
	EOF
	mallory_has_processes 'pass' >"$T/mallory" &
	eventually "[ \$(grep -c began '$T/mallory') = 16 ]"
	alone=$(reads_of_bob)
	rmdir modules/go
	wait $!
	mkdir modules/go
	mallory_has_processes 'open("metrics").read()' >"$T/mallory" &
	eventually "[ \$(grep -c began '$T/mallory') = 16 ]" 60
	among=$(reads_of_bob)
	rmdir modules/go
	wait $!
	rmdir allocations/u*
	echo "# 100 reads: $alone ms beside 16 processes, $among ms beside 16 readers"
	[ "$among" -lt $((5 * alone + 500)) ] ||
		fail "100 reads: $alone ms beside 16 processes, $among ms beside 16 readers"
}

# Six thousand owners free their memory at once. A walk along all owners for each of them
# took the thread that keeps time limits half a minute.
test_time_limits_while_many_owners_give_blocks_back()
{
	local begin
	undying # the next broker of each death would look at all owners
	bob_is_ready
	needs_kernels
	by $bob run "echo 'flag 4K' >control/alloc; mkdir modules/hung && cp '$GPUMEM_KERNELS/faults.ptx' modules/hung/image"
	py <<-'EOF'
		for action in (lambda uid: os.write(alloc, b"u%d 16 kind=host" % uid),
		               lambda uid: os.rmdir("allocations/u%d" % uid)):
		    for uid in range(20000, 26000):
		        libc.setfsgid(uid)
		        libc.setfsuid(uid)
		        alloc = control("alloc")
		        action(uid)
		        os.close(alloc)
		        libc.setfsuid(0)
		        libc.setfsgid(0)
	EOF
	begin=$SECONDS
	by $bob refused ETIMEDOUT 'was ended' 'echo "hung endless grid=1 block=1 timeout=2 flag" >control/launch'
	echo "# a limit of 2 s took $((SECONDS - begin)) s"
	[ $((SECONDS - begin)) -lt 12 ] || fail "a limit of 2 s took $((SECONDS - begin)) s"
}

# The same of the lists of leases. One measurement on a loaded machine says little: with a
# text for each reader, all five of a build with a sanitizer are slow.
test_readers_of_long_lists_of_leases()
{
	local alone among file holder try
	undying # leases end with their broker
	bob_is_ready
	by $mallory run 'echo "hers 4K kind=host" >control/alloc'
	py $mallory >"$T/holder" <<-'EOF' &
		import resource
		most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
		resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		held = [os.open("allocations/hers/lease", os.O_RDONLY) for _ in range(2000)]
		print("holds", flush=True)
		signal.pause()
	EOF
	holder=$!
	eventually "grep -q holds '$T/holder'" 120
	mkdir modules/go
	mallory_has_processes 'pass' >"$T/alone" &
	eventually "[ \$(grep -c began '$T/alone') = 16 ]" 60
	alone=$(reads_of_bob)
	rmdir modules/go
	wait $!
	for file in leases allocations/hers/leases; do
		mkdir modules/go
		mallory_has_processes "fd = os.open('$file', os.O_RDONLY); os.pread(fd, 1 << 17, 0); os.close(fd)" >"$T/${file////.}" &
		eventually "[ \$(grep -c began '$T/${file////.}') = 16 ]" 120
		for try in 1 2 3 4 5; do
			among=$(reads_of_bob)
			[ "$among" -ge $((5 * alone + 500)) ] || break
		done
		rmdir modules/go
		wait $!
		echo "# 100 reads: $alone ms beside 16 processes, $among ms beside 16 readers of $file ($try)"
		[ "$among" -lt $((5 * alone + 500)) ] ||
			fail "100 reads: $alone ms beside 16 processes, $among ms beside 16 readers of $file"
	done
	kill $holder
	eventually '[ -z "$(<leases)" ]' 60
}

# The very first write of bob's, since the best of three may come when all is done.
bob_writes_at_once()
{
	local quiet write
	quiet=$(value_of "$T/quiet" write)
	write=$(work_of_bob | value_of /dev/stdin write)
	echo "# bob's write takes $write ms, $quiet ms when he is alone"
	[ "$write" -le $((3 * quiet + 500)) ] ||
		fail "bob's write takes $write ms, $quiet ms when he is alone"
}

test_a_small_write_beside_large_copies()
{
	bob_is_ready
	inject 'delay=cuMemcpyDtoDAsync_v2@*=2s'
	by $mallory run 'echo "hers 128K" >control/alloc
		for i in {1..12}; do mkdir streams/s$i && echo "hers$i 128K" >control/alloc || exit; done
		for i in {1..12}; do echo "hers$i from=hers stream=s$i wait=0" >control/copy || exit; done'
	bob_writes_at_once
	like "$(by $mallory run 'cat allocations/hers*/state')" busy
	bob_notices_nothing
	inject
}

# Bob's write takes as long as one piece of hers. She has sent all that there is room for.
test_a_small_write_beside_a_large_one()
{
	inject 'delay=cuMemcpyHtoDAsync_v2@*=300ms'
	bob_is_ready
	by $mallory run 'echo "hers 100M" >control/alloc'
	mallory_writes allocations/hers/data 100 1048576 apart >"$T/mallory" &
	eventually "grep -q waiting '$T/mallory'"
	bob_writes_at_once
	like "$(by $mallory run 'cat allocations/hers/state')" busy
	bob_notices_nothing
	inject
}

# Between the pieces of what one user moves the other's are.
test_large_transfers_in_pieces_are_whole()
{
	bob_is_ready
	by $mallory run 'echo "hers 66M" >control/alloc; echo "too 66M" >control/alloc'
	by $mallory run 'echo "hers u64:81985529216486895 wait=0" >control/fill'
	work_of_bob >/dev/null
	by $mallory run 'echo "too+3 from=hers length=69206013 wait=0" >control/copy'
	work_of_bob >/dev/null
	by $mallory run 'cmp -i 8:0 -n 69206008 allocations/hers/data allocations/hers/data'
	by $mallory run 'cmp -i 3:0 -n 69206013 allocations/too/data allocations/hers/data'
}

# 100 reads of bob's, in milliseconds.
reads_of_bob()
{
	py $bob <<-'EOF'
		become(int(sys.argv[1]))
		fd = os.open("allocations/bobs/data", os.O_RDONLY)
		begin = time.monotonic()
		for _ in range(100):
		    os.pread(fd, 4096, 0)
		print(int((time.monotonic() - begin) * 1000))
	EOF
}

# bob_reads_as_before ALONE MORE: five times ALONE, what reads_of_bob took when bob was
# alone, and MORE milliseconds at most.
bob_reads_as_before()
{
	local among
	among=$(reads_of_bob)
	echo "# 100 reads: $1 ms alone, $among ms now"
	[ "$among" -lt $((5 * $1 + $2)) ] || fail "100 reads: $1 ms alone, $among ms now"
}

# The kernel says once that there was a signal: the broker looks again and again whether
# one ends the wait.
test_waits_with_a_signal_that_ends_no_wait()
{
	local alone
	bob_is_ready
	alone=$(reads_of_bob)
	py $mallory >"$T/mallory" <<-'EOF' &
		import threading
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		signal.signal(signal.SIGURG, lambda *_: None)
		os.write(control("alloc"), b"held 4K")
		lease = os.open("allocations/held/lease", os.O_RDWR)
		os.write(lease, b"hold w")
		data = os.open("allocations/held/data", os.O_RDONLY)
		threading.stack_size(1 << 16)
		threads = [threading.Thread(target=os.pread, args=(data, 1, 0), daemon=True)
		           for _ in range(2000)]
		for thread in threads:
		    thread.start()
		time.sleep(1)
		for thread in threads:
		    signal.pthread_kill(thread.ident, signal.SIGURG)
		print("interrupted", flush=True)
		signal.pause()
	EOF
	eventually "grep -q interrupted '$T/mallory'"
	bob_reads_as_before "$alone" 500
}

# An endless kernel uses `flag`, and a kernel of the module `many` has 501 arguments.
mallory_has_a_kernel_of_501_arguments()
{
	py >"$T/many.ptx" <<-'EOF'
		args = ", ".join(f".param .u64 p{i}" for i in range(501))
		print(".version 7.0\n.target sm_70\n.address_size 64")
		print(f".visible .entry many({args})\n{{\nret;\n}}")
	EOF
	chmod a+r "$T/many.ptx"
	# A GPU loads no module into a context in which a kernel runs.
	by $mallory run "mkdir modules/many && cp '$T/many.ptx' modules/many/image"
	by $mallory run 'cat modules/many/functions/many/params >/dev/null'
	by $mallory run 'echo "flag 4K" >control/alloc'
	mallory_spins_on flag
}

# Each line is ordered behind those that wait, under the lock that all of the broker takes.
test_launches_with_an_allocation_in_500_arguments()
{
	local alone
	bob_is_ready
	alone=$(reads_of_bob)
	mallory_has_a_kernel_of_501_arguments
	by $mallory run 'echo "x 4K" >control/alloc'
	py $mallory >"$T/mallory" <<-'EOF' &
		become(int(sys.argv[1]))
		for i in range(120):
		    os.mkdir(f"streams/s{i}")
		    os.write(control("launch"), (f"many many grid=1 block=1 stream=s{i} wait=0 flag "
		                                 + "in:x " * 500).encode())
		    if i == 60:
		        print("many", flush=True)
		print("all", flush=True)
	EOF
	eventually "grep -q many '$T/mallory'" 60
	bob_reads_as_before "$alone" 500
	eventually "grep -q all '$T/mallory'" 60
}

# Each launch was compared with all that read before it, under the lock that every request
# takes: 25 ms for 500 allocations and 200 streams.
test_launches_that_read_500_allocations()
{
	local alone
	bob_is_ready
	alone=$(reads_of_bob)
	mallory_has_a_kernel_of_501_arguments
	py $mallory >"$T/mallory" <<-'EOF' &
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		os.write(control("alloc"), "".join(f"x{i} 256\n" for i in range(500)).encode())
		reads = " ".join(f"in:x{i}" for i in range(500))
		for i in range(250):
		    os.mkdir(f"streams/s{i}")
		def launch(i):
		    os.write(control("launch"), f"many many grid=1 block=1 stream=s{i % 250} wait=0 "
		                                f"flag {reads}\n".encode())
		for i in range(60):
		    launch(i)
		print("many", flush=True)
		i = 60
		while attempt(launch, i) != "EBUSY":
		    i += 1
		print("most", i, flush=True)
		signal.pause()
	EOF
	eventually "grep -q most '$T/mallory'" 60
	is "$(tail -n 1 "$T/mallory")" 'most 65'
	like "$(by $mallory run 'tail -n 1 errors')" \
		'control/launch EBUSY .*uid 1001 has 32[0-9]+ allocations in operations queued and asks for 501 more: the limit is 32768'
	bob_reads_as_before "$alone" 500
}

# Under the lock that every request takes, each of the guest's operations was looked for
# among the followers of all before it: one look of bob took 12 s.
test_a_chmod_turns_away_four_thousand_operations()
{
	needs_kernels
	bob_is_ready
	by $mallory run 'echo "hers 4M mode=666" >control/alloc'
	py $mallory $bob 2001 "$GPUMEM_KERNELS/saxpy.ptx" <<-'EOF' >"$T/worst"
		owner, reader, guest = (int(argument) for argument in sys.argv[1:4])
		def as_user(uid, work):
		    pid = os.fork()
		    if not pid:
		        become(uid)
		        libc.prctl(1, signal.SIGKILL)
		        work()
		        os._exit(0)
		    return pid
		def lines(verb, made):
		    fd, text = control(verb), "".join(made).encode()
		    while text:
		        text = text[os.write(fd, text):]
		def hold():
		    lease = os.open("allocations/hers/lease", os.O_RDWR)
		    os.read(lease, 4096)
		    os.write(lease, b"hold w\n")
		    os.write(told, b"h")
		    signal.pause()
		def queue():
		    os.mkdir("modules/guests")
		    with open("modules/guests/image", "wb") as image:
		        image.write(open(sys.argv[4], "rb").read())
		    for i in range(2001):
		        os.mkdir(f"streams/s{i}")
		    launch = "guests saxpy grid=1 block=1 wait=0 stream=s{} i32:0 f32:0 {}hers {}hers\n"
		    lines("launch", [launch.format(i, "in:", "in:") for i in range(2000)])
		    lines("launch", [launch.format(2000, "", "")])
		    lines("fill", [f"hers u8:1 offset={8 * i} length=1 wait=0\n" for i in range(2000)])
		def worst_look():
		    fd, worst, end = os.open("status", os.O_RDONLY), 0, time.monotonic() + 4
		    while time.monotonic() < end:
		        begin = time.monotonic()
		        os.stat("allocations/bobs")
		        os.pread(fd, 4096, 0)
		        worst = max(worst, time.monotonic() - begin)
		        time.sleep(0.005)
		    print(int(worst * 1000), flush=True)
		hear, told = os.pipe()
		holder = as_user(owner, hold)
		os.read(hear, 1)
		assert os.waitpid(as_user(guest, queue), 0)[1] == 0
		looks = as_user(reader, worst_look)
		time.sleep(1)
		os.waitpid(as_user(owner, lambda: os.chmod("allocations/hers", 0o600)), 0)
		os.waitpid(looks, 0)
		os.kill(holder, signal.SIGKILL)
		os.waitpid(holder, 0)
	EOF
	[ "$(<"$T/worst")" -lt 2000 ] || fail "a look takes $(<"$T/worst") ms"
}

# For each of the guest's kernels that have begun, all of these were looked at under the lock
# that every request takes, for a withdrawal from the guest: a chmod took 4 s.
test_chmods_beside_eight_thousand_kernels_of_a_guest()
{
	local owner=2001 taken
	bob_is_ready
	needs_kernels
	by $owner run 'echo "theirs 4K mode=666" >control/alloc'
	by $mallory run "mkdir modules/hers && cp '$GPUMEM_KERNELS/saxpy.ptx' modules/hers/image"
	by $mallory run 'cat modules/hers/functions/saxpy/params >/dev/null'
	by $mallory run 'echo "flag 4K" >control/alloc'
	mallory_spins_on flag
	py $mallory <<-'EOF'
		become(int(sys.argv[1]))
		launch = "hers saxpy grid=1 block=1 stream=s{} wait=0 i32:0 f32:0 in:flag in:theirs\n"
		for i in range(32):
		    os.mkdir(f"streams/s{i}")
		    for _ in range(10):
		        os.write(control("launch"), (launch.format(i) * 25).encode())
	EOF
	taken=$(py $owner <<-'EOF'
		become(int(sys.argv[1]))
		begin = time.monotonic()
		for i in range(10):
		    os.chmod("allocations/theirs", (0o600, 0o666)[i % 2])
		print(int((time.monotonic() - begin) * 1000))
	EOF
	)
	echo "# ten changes: $taken ms"
	[ "$taken" -lt 2000 ] || fail "ten changes take $taken ms"
	bob_notices_nothing
}

# mallory_rewrites: four processes, each with a number i; each repeats write(), which the
# program on stdin defines, as long as there is modules/go, and prints after the first.
mallory_rewrites()
{
	py $mallory <<-EOF
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		for i in range(3):
		    if not os.fork():
		        libc.prctl(1, signal.SIGKILL)
		        break
		else:
		    i = 3
		$(cat)
		write()
		os.write(1, b"written\n")
		while os.path.isdir("modules/go"):
		    write()
		while i == 3 and attempt(os.wait) != "ECHILD":
		    pass
	EOF
}

# bob_reads_beside_rewrites: bob reads as before beside mallory_rewrites, whose stdin this is.
bob_reads_beside_rewrites()
{
	local alone code
	code=$(cat)
	bob_is_ready
	mkdir modules/go
	alone=$(reads_of_bob)
	mallory_rewrites >"$T/mallory" <<<"$code" &
	eventually "[ \$(grep -c written '$T/mallory') = 4 ]" 60
	bob_reads_as_before "$alone" 2000
	bob_notices_nothing
	rmdir modules/go
	wait
}

# A write after a close goes on in a copy of what the close has stored.
test_images_that_are_written_again()
{
	bob_reads_beside_rewrites <<-'EOF'
		os.mkdir(f"modules/hers{i}")
		fd = os.open(f"modules/hers{i}/image", os.O_RDWR)
		os.ftruncate(fd, 100 << 20)
		def write():
		    os.pwrite(fd, b"no image", 0)
		    assert attempt(os.close, os.dup(fd)) == "ENOEXEC"
	EOF
}

# Who has them open pays for old `tensors` and images, and not who wrote them.
test_old_contents_that_others_have_open()
{
	needs_root 'two users'
	needs_kernels
	is "$(py $bob $mallory "$GPUMEM_KERNELS/saxpy.ptx" <<-'EOF'
		bob, mallory, image = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
		def now(uid):
		    os.seteuid(0)
		    os.setegid(uid)
		    os.seteuid(uid)
		def write(path, text):
		    with open(path, "wb", buffering=0) as file:
		        while text:
		            text = text[file.write(text):]
		def has(uid, key):
		    with open(f"owners/{uid}/current") as file:
		        return dict(line.split() for line in file)[key]
		os.setgroups([])
		text = b"{}" + b" " * ((60 << 20) - 2)
		now(bob)
		os.write(control("alloc"), b"bobs 4K kind=host mode=644\n")
		os.mkdir("modules/bobs")
		fds = []
		for i in range(6):
		    now(bob)
		    write("allocations/bobs/tensors", text)
		    now(mallory)
		    fds.append(os.open("allocations/bobs/tensors", os.O_RDONLY))
		now(bob)
		write("modules/bobs/image", open(image, "rb").read())
		os.chmod("modules/bobs/image", 0o644)
		now(mallory)
		fds.append(os.open("modules/bobs/image", os.O_RDONLY))
		now(bob)
		os.rmdir("modules/bobs")
		os.rmdir("allocations/bobs")
		print(os.pread(fds[0], 3, 0), len(os.pread(fds[-1], 1 << 20, 0)) == os.path.getsize(image))
		print(has(bob, "host"), int(has(mallory, "host")) == (6 * 60 << 20) + os.path.getsize(image))
		os.write(control("alloc"), b"bobs 4K kind=host mode=644\n")
		write("allocations/bobs/tensors", text)
		now(mallory)
		for i in range(20):
		    fds.append(attempt(os.open, "allocations/bobs/tensors", os.O_RDONLY))
		print(fds.count("EDQUOT"))
		print(open("errors").read().splitlines()[-1].split(") ")[-1])
	EOF
	)" "b'{} ' True
0 True
9
of open images and tensors and asks for 60 MiB more: the limit is 1 GiB"
	eventually "[ \"\$(value_of owners/$mallory/current host)\" = 0 ]" 30
	: >allocations/bobs/tensors
	eventually '[ ! -s allocations/bobs/tensors ]' 30
}

# A write at the start of `tensors` is checked at once.
test_tensors_that_are_written_again()
{
	bob_reads_beside_rewrites <<-'EOF'
		os.write(control("alloc"), b"hers%d 1M" % i)
		fd = os.open(f"allocations/hers{i}/tensors", os.O_WRONLY)
		text = b",".join(b'"t%d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}' % (n, n, n + 1)
		                 for n in range(2000))
		text = b"{" + text + b"}"
		assert 100 << 10 < len(text) <= 128 << 10, len(text)
		def write():
		    os.pwrite(fd, text, 0)
	EOF
}

# Else the kernel sends each without waiting for the one before: a single thread had 60,000
# requests under way, and an allocation of another user took three seconds.
test_pages_that_are_read_ahead_wait_for_each_other()
{
	local connections=/sys/fs/fuse/connections
	bob_is_ready
	mountpoint -q $connections || mount -t fusectl fusectl $connections
	is "$(py $mallory "$connections/$(($(stat -c %d .) & 0xfffff))/waiting" <<-'EOF'
		def waiting():
		    with open(sys.argv[2]) as file:
		        return int(file.read())
		child = os.fork()
		if child == 0:
		    become(int(sys.argv[1]))
		    libc.prctl(1, signal.SIGKILL)
		    os.write(control("alloc"), b"hers 4K\n")
		    fd = os.open("allocations/hers/tensors", os.O_WRONLY)
		    os.write(fd, b"{}" + b" " * (60 << 20))
		    os.close(fd)
		    fd = os.open("allocations/hers/tensors", os.O_RDONLY)
		    offsets = [ctypes.c_long(n << 12) for n in range(60 << 8)]
		    page = ctypes.c_size_t(4096)
		    for _ in range(8):
		        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
		        for offset in offsets:
		            libc.readahead(fd, offset, page)
		    os._exit(0)
		most = 0
		while os.waitpid(child, os.WNOHANG) == (0, 0):
		    most = max(most, waiting())
		print("few" if most < 100 else most)
	EOF
	)" few
}

# Prints the second slowest of five allocations of 100 MiB, in milliseconds.
large_of_bob()
{
	py $bob <<-'EOF'
		become(int(sys.argv[1]))
		def alloc():
		    begin = time.monotonic()
		    os.write(control("alloc"), b"bobs-large 100M kind=host\n")
		    taken = int((time.monotonic() - begin) * 1000)
		    os.rmdir("allocations/bobs-large")
		    time.sleep(0.2)
		    return taken
		print(sorted(alloc() for _ in range(5))[3])
	EOF
}

# Large texts of `tensors` are checked for seconds: four users kept all threads of the work
# queue, and then all of those for long tasks.
test_tensors_of_four_users()
{
	local alone among writers
	bob_is_ready
	mkdir modules/go
	alone=$(large_of_bob)
	py >"$T/mallory" <<-'EOF' &
		text = ("{" + ",".join('"%060d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}' % n
		                       for n in range(30000)) + "}").encode()
		def store(name):
		    fd = os.open(f"allocations/{name}/tensors", os.O_WRONLY | os.O_TRUNC)
		    done = 0
		    while done < len(text):
		        done += os.write(fd, text[done:done + (1 << 20)])
		    os.close(fd)
		for i in range(8):
		    if not os.fork():
		        become(21000 + i // 2)
		        libc.prctl(1, signal.SIGKILL)
		        os.write(control("alloc"), b"tensors%d 4K\n" % i)
		        store(f"tensors{i}")
		        os.write(1, b"stored\n")
		        while os.path.isdir("modules/go"):
		            store(f"tensors{i}")
		        os._exit(0)
		while attempt(os.wait) != "ECHILD":
		    pass
	EOF
	writers=$!
	eventually "[ \$(grep -c stored '$T/mallory') = 8 ]" 120
	among=$(large_of_bob)
	bob_notices_nothing
	rmdir modules/go
	wait $writers
	rmdir allocations/tensors*
	echo "# 100 MiB: $alone ms alone, $among ms beside eight writers of tensors"
	[ "$among" -lt $((5 * alone + 500)) ] ||
		fail "100 MiB: $alone ms alone, $among ms beside eight writers of tensors"
}

# A copy between an owner's worker and another worker's memory also uses the mover.
test_copies_that_wait_for_a_stopped_worker()
{
	local worker
	needs_software 'stop a worker'
	undying
	bob_is_ready
	echo 'public 1M mode=644' >control/alloc
	by $mallory run 'for i in $(seq 100); do echo "hers$i 64K kind=direct"; done >control/alloc'
	worker=$(<owners/$mallory/worker)
	stop "$worker"
	by $mallory run 'for i in $(seq 100); do echo "hers$i from=public wait=0 length=64K"; done >control/copy'
	bob_notices_nothing
}

# Bob lets mallory read one allocation of his. Copies of it pass through bob's worker, too.
test_copies_of_bobs_memory_that_wait_for_a_stopped_worker()
{
	local worker
	needs_software 'stop a worker'
	undying
	bob_is_ready
	by $bob run 'echo "public 64K kind=managed mode=644" >control/alloc'
	by $bob run 'echo "private 64K kind=managed" >control/alloc'
	by $mallory run 'for i in $(seq 20); do echo "hers$i 64K kind=managed"; done >control/alloc'
	worker=$(<owners/$mallory/worker)
	stop "$worker"
	by $mallory run 'for i in $(seq 20); do mkdir "streams/s$i"; echo "hers$i from=public stream=s$i wait=0"; done >control/copy'
	by $bob run 'timeout 5 head -c 4096 allocations/private/data | wc -c' >"$T/stdout"
	is "$(<"$T/stdout")" 4096
	bob_notices_nothing
	kill -CONT "$worker"
	eventually '! grep -q busy allocations/hers*/state'
	by $bob run 'rmdir allocations/public allocations/private'
}

# Descriptors of O_PATH have a file looked up and none open.
test_files_that_are_looked_up_and_not_open()
{
	undying # tens of thousands of requests are thousands of deaths
	is "$(py $mallory <<-'EOF'
		import resource
		resource.setrlimit(resource.RLIMIT_NOFILE, (17000, 17000))
		become(int(sys.argv[1]))
		ready, end = os.pipe()
		child = os.fork()
		for _ in range(16500):
		    os.open("control/alloc", os.O_PATH)
		if child == 0:
		    libc.prctl(1, signal.SIGKILL)
		    os.write(end, b"ready")
		    signal.pause()
		os.read(ready, 5)
		def alloc(name):
		    fd = os.open("control/alloc", os.O_RDWR)
		    os.write(fd, f"{name} 4096".encode())
		    return b"4096" in os.read(fd, 4096)
		print(alloc("hers"), alloc("hers.2"))
	EOF
	)" 'True True'
	by $bob run 'echo "bobs 4096" >control/alloc'
	is "$(ls allocations)" $'bobs\nhers\nhers.2'
}

# mallory_names PATH TEXT: mallory writes TEXT to PATH and waits, and Linux keeps the file
# locked. Then mallory makes the calls of stdin, in Python; `fd` is the descriptor. Prints
# what they print, and `answered`.
mallory_names()
{
	py $mallory "$1" "$2" "$(cat)" <<-'EOF'
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		fd = os.open(sys.argv[2], os.O_RDWR)
		threading.Thread(target=os.write, args=(fd, sys.argv[3].encode()), daemon=True).start()
		while threads_that_wait() < 1:
		    time.sleep(0.01)
		exec(sys.argv[4])
		print("answered", flush=True)
		signal.pause()
	EOF
}

# Linux locks the folder, looks the new name up, then locks the file, and then asks the
# broker for the link.
test_a_link_to_a_file_with_a_waiting_line_holds_no_folder()
{
	bob_is_ready
	by $mallory run 'echo "hers 64K" >control/alloc'
	slow 30s
	mallory_names control/fill 'hers u8:1' >"$T/mallory" <<-'EOF' &
		here = os.open(".", os.O_RDONLY)
		for name in "allocations/hers/link", "allocations/link", "modules/link", "streams/link":
		    show(lambda: os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=here, follow_symlinks=True))
	EOF
	eventually "grep -q answered '$T/mallory'" 5
	by $bob timeout 5 ls allocations modules streams >/dev/null || fail "bob's ls waits"
	is "$(<"$T/mallory")" $'EPERM\nEPERM\nEPERM\nEPERM\nanswered'
	like "$(by $mallory run 'tail -n 1 errors')" 'streams/link EPERM no files are made here'
	inject
}

# Linux locks the folders of both names, and then the file.
test_a_removal_of_a_file_with_a_waiting_write_holds_no_folder()
{
	bob_is_ready
	by $mallory run 'echo "hers 64K" >control/alloc'
	slow 30s
	mallory_names allocations/hers/data "$(head -c 8192 /dev/zero | tr '\0' x)" >"$T/mallory" <<-'EOF' &
		show(os.unlink, "allocations/hers/data")
		show(os.rename, "allocations/hers/data", "allocations/hers/other")
		show(os.rename, "allocations/hers/status", "allocations/hers/data")
		show(os.rename, "allocations/hers/data", "allocations/data")
		for name in os.listdir("allocations/hers"):
		    os.listdir("allocations/hers") # the kernel may know the names for a while
		    try:
		        os.unlink(f"allocations/hers/{name}")
		    except PermissionError:
		        pass
	EOF
	eventually "grep -q answered '$T/mallory'" 5
	by $bob timeout 5 ls allocations >/dev/null || fail "bob's ls waits"
	is "$(<"$T/mallory")" $'EPERM\nEPERM\nEPERM\nEPERM\nanswered'
	fails 'timeout -s KILL 5 rm -r allocations/hers 2>"$T/said"'
	like "$(<"$T/said")" "cannot remove 'allocations/hers/data': Operation not permitted"
	by $bob timeout 5 ls allocations/hers >/dev/null || fail "bob's ls of hers waits"
	like "$(by $mallory run 'cat errors')" 'allocations/hers/data EPERM files belong to their object'
	inject
}

# Where the driver lists no functions, the worker is asked for each. They take no names, and
# Linux refuses the link without locking the file.
test_a_link_beside_functions_that_are_asked_for_holds_no_folder()
{
	bob_is_ready
	inject 'fail=cuModuleGetFunctionCount@*=CUDA_ERROR_NOT_SUPPORTED'
	by $mallory run 'echo "hers 64K" >control/alloc
		mkdir modules/hers
		echo ".version 7.0 .target sm_52 .address_size 64 .visible .entry f() { ret; }" >modules/hers/image'
	slow 30s
	mallory_names control/fill 'hers u8:1' >"$T/mallory" <<-'EOF' &
		here = os.open(".", os.O_RDONLY)
		show(lambda: os.link(f"/proc/self/fd/{fd}", "modules/hers/functions/link",
		    src_dir_fd=here, follow_symlinks=True))
	EOF
	eventually "grep -q answered '$T/mallory'" 5
	is "$(<"$T/mallory")" $'EACCES\nanswered'
	inject
}

# mallory_links_by_ring: mallory_names with calls that make one link by io_uring.
mallory_links_by_ring()
{
	local calls
	calls=$(cat)
	bob_is_ready
	by $mallory run 'echo "hers 64K" >control/alloc'
	slow 30s
	mallory_names control/fill 'hers u8:1' >"$T/mallory" <<<"$calls" &
	eventually "grep -q answered '$T/mallory'" 5
	by $bob timeout 5 ls allocations >/dev/null || fail "bob's ls waits"
	like "$(<"$T/mallory")" $'^(EPERM|ENOSYS)\nanswered$'
	inject
}

# A thread of io_uring shows the number of the call that started it.
test_a_link_by_io_uring_holds_no_folder()
{
	mallory_links_by_ring <<-'EOF'
		def link():
		    ring = Ring()
		    ring.submit(ring.linkat(b"/proc/self/fd/%d" % fd, b"allocations/link"))
		    return ring.result(0)
		show(link)
	EOF
}

# The call before the link ends during pause(2), which starts the thread of io_uring.
test_a_link_by_io_uring_during_another_call_holds_no_folder()
{
	mallory_links_by_ring <<-'EOF'
		def link():
		    ring = Ring()
		    out, into = os.pipe()
		    ring.submit(ring.read(out, 1, Ring.LINK_NEXT),
		        ring.linkat(b"/proc/self/fd/%d" % fd, b"allocations/link"))
		    def end():
		        time.sleep(0.3)
		        os.write(into, b"x")
		        show(ring.result, 1)
		        print("answered", flush=True)
		    threading.Thread(target=end).start()
		    while True:
		        signal.pause()
		show(link)
	EOF
}

# During exec(2) Linux makes readers of many files of the process in /proc wait, also while
# a close waits for the broker. Threads of the view read `stat` of such processes.
test_processes_whose_exec_waits()
{
	bob_is_ready
	by $mallory run 'echo "hers 4K kind=host" >control/alloc; echo "leased 4K kind=host" >control/alloc'
	py $mallory >"$T/mallory" <<-'EOF' &
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		data = [os.open("allocations/hers/data", os.O_WRONLY) for _ in range(16)]
		hold = os.open("allocations/hers/lease", os.O_RDWR)
		os.read(hold, 4096)
		os.write(hold, b"hold w")
		def closes_later(fd):
		    if os.fork() == 0:
		        libc.prctl(1, signal.SIGKILL)
		        time.sleep(1)
		        os.close(fd)
		        signal.pause()
		def execs(i):
		    libc.prctl(1, signal.SIGKILL)
		    os.close(hold)
		    if i % 2:
		        fd = os.open("control/alloc", os.O_RDWR)
		        os.write(fd, (f"c{i} 4K until=exit" + " " * 4096)[:4096].encode())
		        closes_later(fd)
		        os.set_inheritable(fd, True)
		    else:
		        fd = os.open("allocations/leased/lease", os.O_RDWR)
		        os.read(fd, 4096)
		        closes_later(fd)
		        os.close(fd)
		    for other in data:
		        os.set_inheritable(other, other != data[i])
		    libc.fallocate(data[i], 3, ctypes.c_long(0), ctypes.c_long(100))
		    os.execv("/bin/sleep", ["sleep", "1000"])
		pids = [os.fork() or execs(i) for i in range(16)]
		time.sleep(2)
		names = [open(f"/proc/{pid}/comm").read() for pid in pids]
		print("stuck", 16 - names.count("sleep\n"), flush=True)
		signal.pause()
	EOF
	eventually "grep -q stuck '$T/mallory'"
	is "$(<"$T/mallory")" 'stuck 16'
	bob_notices_nothing
}

main "$@"
