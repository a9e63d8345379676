#!/bin/bash
# Fairness: mallory uses up her share of one of the broker's resources. Bob's work must take
# no longer than before.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/stuck.bash"
. "${BASH_SOURCE%/*}/two_users.bash"

test_writers_that_wait_for_a_kernel()
{
	bob_is_ready
	by $mallory run 'echo "hers 64K" >control/alloc'
	mallory_spins_on hers
	mallory_writes allocations/hers/data 1200 8192 >"$T/mallory" &
	eventually "grep -q waiting '$T/mallory'"
	bob_notices_nothing
}

test_writers_that_wait_for_a_stopped_worker()
{
	local worker
	needs_software 'stop a worker'
	undying
	bob_is_ready
	by $mallory run 'echo "hers 64K kind=direct" >control/alloc'
	worker=$(<owners/$mallory/worker)
	stop "$worker"
	mallory_writes allocations/hers/data 200 8192 >"$T/mallory" &
	eventually "grep -q waiting '$T/mallory'"
	bob_notices_nothing
}

# Whoever finds the device full waits for memory that is coming back, but for a moment only
# where a user can delay that as long as the user likes.
test_direct_memory_that_is_freed_in_a_stopped_worker()
{
	local worker began
	needs_software 'stop a worker'
	undying
	bob_is_ready
	by $mallory run 'echo "hers 300M kind=direct" >control/alloc'
	worker=$(<owners/$mallory/worker)
	stop "$worker"
	by $mallory run 'rmdir allocations/hers'
	began=$SECONDS
	by $bob refused ENOMEM 'still in use by uid 1001' 'echo "more 300M" >control/alloc'
	[ $((SECONDS - began)) -lt 15 ] || fail "bob waits $((SECONDS - began)) s for the answer"
	bob_notices_nothing
	kill -CONT "$worker"
	eventually 'by $bob run "echo more 300M >control/alloc" 2>/dev/null'
	by $bob run 'rmdir allocations/more'
}

test_the_share_of_waiting_writes()
{
	local worker
	needs_software 'stop a worker'
	undying
	bob_is_ready
	by $mallory run 'echo "hers 1M kind=direct" >control/alloc'
	worker=$(<owners/$mallory/worker)
	stop "$worker"
	mallory_writes allocations/hers/data 300 1048576 >"$T/mallory" &
	eventually "grep -q waiting '$T/mallory'"
	eventually "grep -q 'allocations/hers/data EBUSY uid $mallory has .* of writes waiting and asks for .* more: the limit is 256 MiB' errors"
	bob_notices_nothing
}

# mallory_asks FILE THREADS: each thread reads the file once. Prints as mallory_writes does.
mallory_asks()
{
	py $mallory "$@" <<-'EOF'
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		path, n = sys.argv[2], int(sys.argv[3])
		fd = [os.open(path, os.O_RDONLY) for _ in range(n)]
		in_threads("asked", n, lambda i: os.pread(fd[i], 4096, 0))
	EOF
}

# comes_to LINE: the last line that mallory prints becomes LINE.
comes_to()
{
	(eventually "[ \"\$(tail -n 1 '$T/mallory')\" = \"$1\" ]") ||
		fail "mallory printed:" "$(<"$T/mallory")"
}

# mallory_reads FILE THREADS: each thread reads 1 MiB at a time, over and over.
mallory_reads()
{
	py $mallory "$@" <<-'EOF'
		import threading
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		threading.stack_size(65536)
		fd = os.open(sys.argv[2], os.O_RDONLY)
		def read():
		    memory = [bytearray(1 << 20)]
		    while True:
		        os.preadv(fd, memory, 0)
		for _ in range(int(sys.argv[3])):
		    threading.Thread(target=read, daemon=True).start()
		print("reading", flush=True)
		signal.pause()
	EOF
}

# All users share the slots of the mover's staging area.
test_readers_that_wait_for_slots()
{
	bob_is_ready
	by $mallory run 'echo "hers 1M" >control/alloc'
	mallory_reads allocations/hers/data 300 >"$T/mallory" &
	eventually "grep -q reading '$T/mallory'"
	bob_notices_nothing
}

# All users share the mover. Mallory's fills would keep the mover busy for 16 s.
test_fills_that_wait_for_the_mover()
{
	local write
	slow 40ms
	bob_is_ready
	by $mallory run 'seq -f "hers%.0f 64K" 2000 >control/alloc'
	by $mallory run 'seq -f "hers%.0f u8:1 wait=0" 2000 >control/fill'
	# The very first write, since the best of three may come when all is done.
	write=$(work_of_bob | value_of /dev/stdin write)
	[ "$write" -le 1000 ] || fail "bob's write takes $write ms"
	bob_notices_nothing
}

# Each looks at all that are queued before it, under the lock that every request takes:
# bob's ls took ten times as long behind 16000 fills of parts.
test_the_share_of_operations()
{
	bob_is_ready
	by $mallory run 'echo "hers 64K" >control/alloc'
	mallory_spins_on hers
	by $mallory run 'seq -f "hers u8:1 offset=%.0f length=1 wait=0" 10000 >control/fill' 2>"$T/stderr" &&
		fail 'there is no end of operations'
	like "$(<"$T/stderr")" 'busy'
	like "$(by $mallory run 'tail -n 1 errors')" \
		'control/fill EBUSY .*uid 1001 has 8192 operations queued'
	bob_notices_nothing
	# they are queued no more in the cases after this one
	by $mallory run "echo 1 >owners/$mallory/reset"
	eventually '! grep -q busy allocations/hers/state' 40
}

# Each once noted all that were queued before: gigabytes, and a lock held for long.
test_loads_that_wait_for_a_kernel()
{
	local before grown
	bob_is_ready
	by $mallory run 'echo "hers 64K" >control/alloc'
	mallory_spins_on hers
	before=$(value_of "/proc/$(<"$T/main/pid")/status" VmRSS:)
	by $mallory run 'yes "hers path=/etc/passwd length=1 wait=0" | head -n 8000 >control/load'
	grown=$(($(value_of "/proc/$(<"$T/main/pid")/status" VmRSS:) - before))
	[ "$grown" -le 200000 ] || fail "8000 loads take $grown KiB"
	bob_notices_nothing
	# each leaves a line in errors, which is not to be in the cases after this one
	by $mallory run "echo 1 >owners/$mallory/reset"
	eventually '! grep -q busy allocations/hers/state' 30
}

# mallory_queues [N]: holds her memory, queues N writes to parts of hers and N reads of all
# of it, and says how far she came.
mallory_queues()
{
	py $mallory "$@" <<-'EOF'
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		lease = os.open("allocations/hers/lease", os.O_RDWR)
		os.read(lease, 4096)
		os.write(lease, b"hold w")
		def queue(verb, lines):
		    text = "".join(lines).encode()
		    fd = os.open(f"control/{verb}", os.O_WRONLY)
		    while text:
		        text = text[os.write(fd, text):]
		n = int(sys.argv[2])
		fills = [f"hers u8:1 offset={i} length=1 wait=0\n" for i in range(n)]
		queue("fill", fills)
		saves = attempt(queue, "save", ["hers path=/nowhere/file wait=0\n"] * n)
		print("queued", saves, flush=True)
		signal.pause()
	EOF
}

# mallory_waits: a lease holds memory that she has freed, below a limit of her own, so her
# allocations wait for it. Signals end 100 of them.
mallory_waits()
{
	py $mallory <<-'EOF'
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		for line in b"source 4K", b"large 32M":
		    os.write(control("alloc"), line)
		lease = os.open("allocations/source/lease", os.O_RDWR)
		os.read(lease, 4096)
		os.write(lease, b"hold w")
		os.write(control("copy"), b"large from=source length=4K wait=0")
		os.write(control("free"), b"large")
		with open(f"owners/{os.getuid()}/max", "w") as limits:
		    limits.write("device:0 32M\n")

		signal.signal(signal.SIGALRM, lambda *_: None)
		signal.siginterrupt(signal.SIGALRM, True)
		# Again and again: one may come before the write.
		signal.setitimer(signal.ITIMER_REAL, 0.001, 0.01)
		fd = os.open("control/alloc", os.O_WRONLY)
		for i in range(100):
		    line = b"w%d 4M" % i
		    if libc.write(fd, line, len(line)) >= 0:
		        sys.exit("an allocation had room")
		signal.setitimer(signal.ITIMER_REAL, 0)
		print("ended", flush=True)
		signal.pause()
	EOF
}

# The memory of mallory's line would come from mallory's worker, which never answers.
test_lines_that_wait_for_memory_do_not_wait_for_a_stopped_worker()
{
	local worker
	needs_software 'stop a worker'
	undying
	bob_is_ready
	by $mallory run 'echo "hers 64K kind=direct" >control/alloc; echo "full 500M" >control/alloc'
	worker=$(<owners/$mallory/worker)
	by $mallory run 'echo "hers-too 100M kind=direct wait=60" >control/alloc' 2>"$T/mallory" &
	sleep 1 # the line waits now
	stop "$worker"
	by $bob run 'echo "large 300M wait=25" >control/alloc' &
	by $mallory run 'rmdir allocations/full'
	wait $! || fail "bob's line fails:" "$(by $bob run 'tail -n 1 errors')"
	by $bob run 'rmdir allocations/large'
	kill -CONT "$worker"
	eventually '[ -d allocations/hers-too ]'
	by $mallory run 'rmdir allocations/hers-too allocations/hers'
}

# mallory_queues_up LINE...: writes each LINE to `alloc`, all at once, and prints who waits.
mallory_queues_up()
{
	py $mallory "$@" <<-'EOF'
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		lines = [(control("alloc"), line.encode()) for line in sys.argv[2:]]
		in_threads("queued", len(lines), lambda i: os.write(*lines[i]))
	EOF
}

# turns_with_bob N: mallory has N lines waiting. Bob's comes last, and has one of the first
# two pieces of 2 MiB that are freed.
turns_with_bob()
{
	eventually "[ \$(value_of status waiting) = $1 ]"
	by $bob run 'echo "last 2M wait=60" >control/alloc' &
	eventually "[ \$(value_of status waiting) = $(($1 + 1)) ]"
	rmdir "allocations/full1"
	eventually "[ \$(value_of status waiting) = $1 ]"
	rmdir "allocations/full2"
	eventually "[ \$(value_of status waiting) = $(($1 - 1)) ]"
	wait $! || fail "bob's line fails:" "$(by $bob run 'tail -n 1 errors')"
	is "$(ls -d allocations/hers* | wc -l)" 1
	by $bob run 'rmdir allocations/last'
}

test_turns_of_users_that_wait_for_memory()
{
	needs_software 'fill a device'
	needs_root 'two users'
	trap 'mallory_ends; rmdir allocations/full*; cleanup_case' EXIT
	for i in 1 2; do echo "full$i 2M"; done >control/alloc
	while echo "full$RANDOM$RANDOM 64M wait=0" >control/alloc; do :; done 2>/dev/null
	while echo "full$RANDOM$RANDOM 2M wait=0" >control/alloc; do :; done 2>/dev/null
	mallory_queues_up "hers"{1..40}" 2M wait=60" >"$T/mallory" &
	turns_with_bob 40
}

# Mallory's kernel holds 60 MiB that were freed. Each piece of bob's had all 400 lines try.
test_hundreds_of_lines_that_wait_for_held_memory()
{
	needs_software 'fill a device'
	bob_is_ready
	by $mallory run 'echo "flag 4K" >control/alloc; echo "held 60M" >control/alloc'
	needs_kernels
	by $mallory run "mkdir modules/spin && cp '$GPUMEM_KERNELS/faults.ptx' modules/spin/image"
	by $mallory run "echo 'spin endless grid=1 block=1 wait=0 held' >control/launch
		rmdir allocations/held"
	py $mallory >"$T/mallory" <<-'EOF' &
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		lines = [control("alloc") for _ in range(400)]
		in_threads("waiting", 400, lambda i: os.write(lines[i], f"large{i} 480M".encode()))
	EOF
	comes_to 'waiting {}'
	bob_notices_nothing
	is "$(tail -n 1 "$T/mallory")" 'waiting {}'
	echo 1 >owners/$mallory/reset
	# The memory is there, for one of them.
	comes_to "waiting {'ENOMEM': 399}"
	is "$(ls -d allocations/large* | wc -l)" 1
}

test_waits_for_freed_memory_end_with_a_signal()
{
	bob_is_ready
	mallory_waits >"$T/mallory" 2>&1 &
	comes_to ended
	is "$(value_of owners/$mallory/current allocations)" 1
	bob_notices_nothing
	echo default >owners/$mallory/max
}

# Each of 4000 reads waits for each of 4000 writes: noted one by one, these were gigabytes.
test_the_share_of_waits()
{
	local before grown most=200000
	bob_is_ready
	# The thread sanitizer keeps up to four bytes of its own for each byte in use.
	! grep -q libtsan "/proc/$(<"$T/main/pid")/maps" || most=$((5 * most))
	by $mallory run 'echo "hers 64K" >control/alloc'
	before=$(value_of "/proc/$(<"$T/main/pid")/status" VmRSS:)
	mallory_queues 4000 >"$T/mallory" 2>&1 &
	comes_to 'queued EBUSY'
	grown=$(($(value_of "/proc/$(<"$T/main/pid")/status" VmRSS:) - before))
	[ "$grown" -le "$most" ] || fail "4000 fills and 4000 saves take $grown KiB"
	like "$(by $mallory run 'tail -n 1 errors')" \
		'control/save EBUSY .*uid 1001 has [0-9]+ waits of operations for one another and asks for .* more: the limit is 1048576'
	bob_notices_nothing
	kill %1
	eventually '! grep -q busy allocations/hers/state' 40
}

test_the_share_of_paths()
{
	local path
	bob_is_ready
	by $mallory run 'echo "hers 64" >control/alloc'
	mallory_spins_on hers
	path=$(printf '/%.0s' {1..4000})
	by $mallory run "yes 'hers path=$path wait=0' | head -n 5000 >control/save" 2>"$T/stderr" &&
		fail 'there is no end of paths'
	like "$(<"$T/stderr")" 'busy'
	like "$(by $mallory run 'tail -n 1 errors')" \
		'control/save EBUSY .*uid 1001 has 16\.0 MiB \([0-9]+ bytes\) of paths of loads and saves queued and asks for 4001 bytes more: the limit is 16 MiB'
	bob_notices_nothing
	by $mallory run "echo 1 >owners/$mallory/reset"
	eventually '! grep -q busy allocations/hers/state' 40
	by $mallory run 'echo "hers path=/etc/passwd length=1" >control/load'
}

test_the_share_of_processes_that_wait_for_a_file_system()
{
	undying
	bob_is_ready
	stuck_mount
	by $mallory run 'echo "hers 64K" >control/alloc'
	by $mallory all_hang hers
	by $mallory refused EBUSY 'uid 1001 has 4 processes that open files' 'echo "hers path=/etc/passwd" >control/load'
	bob_notices_nothing
	stuck_end
}

# `advise` is asked of the driver: the read waits for a worker and counts as no operation.
test_the_share_of_questions_to_a_driver()
{
	local worker
	needs_software 'stop a worker'
	undying
	bob_is_ready
	by $mallory run 'echo "hers 64K kind=managed" >control/alloc'
	worker=$(<owners/$mallory/worker)
	stop "$worker"
	mallory_asks allocations/hers/advise 1100 >"$T/mallory" &
	comes_to "asked {'EBUSY': 76}"
	like "$(by $mallory run 'tail -n 1 errors')" \
		'allocations/hers/advise EBUSY uid 1001 has 1024 reads that wait for an answer'
	bob_notices_nothing
	is "$(tail -n 1 "$T/mallory")" "asked {'EBUSY': 76}"
}

# `memory_used_bytes` is asked of the mover: reads are limited in the same way, and the
# failure names the file.
test_the_share_of_questions_to_the_mover()
{
	local mover
	needs_software 'stop the mover'
	undying
	bob_is_ready
	mover=$(value_of status mover)
	stop "$mover"
	mallory_asks devices/0/memory_used_bytes 1100 >"$T/mallory" &
	comes_to "asked {'EBUSY': 76}"
	kill -CONT "$mover"
	like "$(by $mallory run 'tail -n 1 errors')" \
		' devices/0/memory_used_bytes EBUSY uid 1001 has 1024 reads that wait for an answer'
	bob_notices_nothing
}

# The broker of this case may open few files.
test_the_share_of_descriptors()
{
	needs_root 'two users'
	(ulimit -n 2000; broker_start "$T/own" --driver "$(driver own)")
	cd "$T/own/mnt"
	by $mallory run 'for i in $(seq 2000); do echo "hers$i 4K kind=host"; done >control/alloc' \
		2>/dev/null && fail 'there is no end of descriptors'
	by $bob run 'echo "x 4M" >control/alloc; echo hello 1<>allocations/x/data'
	by $bob run 'echo "y 1M kind=host" >control/alloc; echo "z 1M kind=direct" >control/alloc'
	is "$(by $bob run 'head -c 5 allocations/x/data')" hello
	like "$(by $mallory run 'tail -n 1 errors')" \
		'EMFILE allocation hers2000: uid 1001 has 250 descriptors of the broker'
	by $mallory run 'for i in $(seq 250); do echo "hers$i"; done >control/free'
	eventually "by $mallory run 'echo \"hers 4K kind=host\" >control/alloc'"
	cd "$M"
	broker_stop "$T/own"
}

# chmod and a lease move a small allocation to a block of its own. Each such block takes a
# descriptor of the owner's share.
test_descriptors_of_moves_and_leases()
{
	local i
	needs_root 'two users'
	(ulimit -n 1024; broker_start "$T/moves" --driver "$(driver moves)")
	cd "$T/moves/mnt"
	by $mallory run 'for i in $(seq 130); do echo "hers$i 4K"; done >control/alloc'
	by $mallory run 'chmod 644 allocations/hers{1..130}' 2>"$T/stderr" && fail 'there is no end of moves'
	# One descriptor belongs to the shared block.
	is "$(grep -c 'Too many open files' "$T/stderr")" 3
	like "$(by $mallory run 'tail -n 1 errors')" \
		'allocations/hers130 EMFILE uid 1001 has 128 descriptors of the broker'
	by $mallory run 'exec 5<allocations/hers1/lease' 2>/dev/null && fail 'a lease takes none'
	for i in 1 2; do
		by $mallory run "echo hers$i >control/free"
	done
	eventually "by $mallory run 'exec 5<allocations/hers3/lease && read -r <&5'"
	by $mallory run 'for i in $(seq 3 130); do echo "hers$i"; done >control/free'
	by $mallory run 'echo "again 4K" >control/alloc; chmod 644 allocations/again'
	cd "$M"
	broker_stop "$T/moves"
}

# has_lease UID: a program of UID has a lease, so UID has a ticket socket.
has_lease()
{
	by "$1" run 'echo "leased.$UID 4K kind=host" >control/alloc'
	py "$1" <<-'EOF' &
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		lease = os.open(f"allocations/leased.{sys.argv[1]}/lease", os.O_RDONLY)
		signal.pause()
	EOF
	eventually "[ -S '$(by "$1" run 'readlink socket')' ]"
}

# Eight full shares would be all descriptors of the broker.
test_descriptors_are_kept_for_workers()
{
	local uid
	needs_root 'nine users'
	(ulimit -n 1024; broker_start "$T/kept" --driver "$(driver kept)")
	cd "$T/kept/mnt"
	for uid in $(seq 2001 2008); do
		has_lease $uid
	done
	for uid in $(seq 2001 2008); do
		by $uid run 'for i in $(seq 128); do echo "of'$uid'-$i 4K kind=host"; done >control/alloc' \
			2>/dev/null || :
	done
	like "$(by 2008 run 'tail -n 1 errors')" 'EMFILE .*the broker has no descriptors left'
	by $bob run 'echo "y 1M kind=direct" >control/alloc; echo hello 1<>allocations/y/data'
	is "$(by $bob run 'head -c 5 allocations/y/data')" hello
	by $bob run 'echo "z 4M" >control/alloc' 2>/dev/null && fail 'all descriptors can be taken'
	like "$(by $bob run 'tail -n 1 errors')" \
		'EMFILE allocation z: the broker has no descriptors left: it keeps the last ones for workers'
	# Connections to the ticket socket take none of the last ones either.
	for uid in $(seq 2001 2008); do
		tickets_of $uid 64 >"$T/tickets.$uid" &
		eventually "grep -q b '$T/tickets.$uid'"
		is "$(<"$T/tickets.$uid")" "64 {b'\\x18'}"
	done
	by $bob run 'echo "more 1M kind=direct" >control/alloc; echo hello 1<>allocations/more/data'
	kill $(jobs -p)
	by 2001 run 'echo of2001-1 >control/free'
	eventually "by $bob run 'echo \"z 4M\" >control/alloc'"
	cd "$M"
	broker_stop "$T/kept"
}

# A line of a long write waits; the rest of the write waits in the broker.
test_the_share_of_long_writes_that_wait()
{
	bob_is_ready
	py $mallory <<-'EOF' >"$T/mallory"
		import threading
		become(int(sys.argv[1]))
		def write(file, text):
		    fd = os.open(file, os.O_RDWR)
		    result = attempt(os.write, fd, text)
		    os.close(fd)
		    return result
		write("control/alloc", b"held 4096\n")
		lease = os.open("allocations/held/lease", os.O_RDWR)
		os.pread(lease, 4096, 0)
		os.write(lease, b"hold w")
		said = []
		lines = b"held u8:1\n".ljust(1 << 20, b"\n")
		writers = [threading.Thread(target=lambda: said.append(write("control/fill", lines)))
		           for _ in range(100)]
		for writer in writers:
		    writer.start()
		while len(said) < 36:
		    os.sched_yield()
		refused = len(said)
		os.write(lease, b"release")
		for writer in writers:
		    writer.join()
		print(refused, said.count("EDQUOT"), said.count(1 << 20))
	EOF
	is "$(<"$T/mallory")" '36 36 64'
	like "$(grep EDQUOT errors | tail -n 1)" \
		'EDQUOT uid 1001 has .* of texts in open descriptors and asks for .* more: the limit is 64 MiB'
	bob_notices_nothing
}

test_the_shares_of_modules_and_readers()
{
	bob_is_ready
	py $mallory <<-'EOF' >"$T/mallory"
		become(int(sys.argv[1]))
		readers = []
		def count(work):
		    for n in range(5000):
		        try:
		            work(n)
		        except OSError as error:
		            return n, errno.errorcode[error.errno]
		print(*count(lambda n: os.mkdir(f"modules/hers{n}")))
		print(*count(lambda n: readers.append(os.open("events_pipe", os.O_RDONLY))))
		for n in range(4096):
		    os.rmdir(f"modules/hers{n}")
		os.mkdir("modules/hers")
	EOF
	is "$(xargs <"$T/mallory")" '4096 EDQUOT 256 EMFILE'
	like "$(by $mallory run 'tail -n 2 errors')" 'EDQUOT .*uid 1001 has 4096 modules'
	like "$(by $mallory run 'tail -n 1 errors')" \
		'events_pipe EMFILE uid 1001 has 256 readers of events_pipe'
	bob_notices_nothing
}

# until_refused FORMAT: mallory makes folders, with 1, 2, ... in their names, until one is
# refused. Prints its number and the error.
until_refused()
{
	py $mallory "$1" <<-'EOF'
		become(int(sys.argv[1]))
		n = 1
		try:
		    while True:
		        os.mkdir(sys.argv[2] % n)
		        n += 1
		except OSError as error:
		    print(n, errno.errorcode[error.errno])
	EOF
}

test_the_share_of_folders()
{
	undying # the next broker of each death would look at each of thousands
	bob_is_ready
	by $mallory run 'mkdir allocations/hers'
	is "$(until_refused allocations/hers/%d)" '16384 EDQUOT'
	like "$(by $mallory run 'tail -n 1 errors')" \
		'allocations/hers/16384 EDQUOT uid 1001 has 16384 folders and asks for 1 more'
	by $bob run 'mkdir allocations/his && rmdir allocations/his'
	bob_notices_nothing
	py $mallory <<-'EOF'
		become(int(sys.argv[1]))
		for name in os.listdir("allocations/hers"):
		    os.rmdir(f"allocations/hers/{name}")
	EOF
}

# A descriptor reads on in the text that its first read made: the broker keeps the text.
# A descriptor of a control file keeps its answers until they are read.
test_the_share_of_texts()
{
	local file reader
	bob_is_ready
	by $mallory run 'seq -f "hers%060.0f 1" 600 | cat >control/alloc
		seq -f "hers%060.0f" 600 | cat >control/free'
	py $mallory <<-'EOF' >"$T/mallory" &
		import resource
		resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		held = []
		for _ in range(5000):
		    held.append(os.open("events", os.O_RDONLY))
		    result = attempt(os.read, held[-1], 1)
		    if result == "EDQUOT":
		        break
		# There is room for the lines, and none for the answers.
		lines = b"".join(b"t%d 1\n" % i for i in range(2000))
		answers = os.open("control/alloc", os.O_RDWR)
		taken = attempt(os.write, answers, lines)
		refused = attempt(os.write, answers, lines[taken:])
		print(result, os.pread(held[0], 2, 0) != b"", refused, len(os.read(answers, 16)), flush=True)
		signal.pause()
	EOF
	reader=$!
	eventually "grep -qE 'True|False' '$T/mallory'"
	is "$(<"$T/mallory")" 'EDQUOT True EDQUOT 16'
	# As root: she may have no share left for the text of errors.
	for file in events control/alloc; do
		like "$(grep "$file" errors)" \
			"$file EDQUOT uid 1001 has .* of texts in open descriptors and asks for .* more: the limit is 64 MiB"
	done
	by $bob run 'tail -n 1 events' >/dev/null
	bob_notices_nothing
	kill $reader
	eventually "by $mallory run 'head -n 1 events' >/dev/null"
	by $mallory run 'echo "theirs 1" >control/alloc'
}

test_the_share_of_streams()
{
	undying # the next broker of each death would look at each of thousands
	bob_is_ready
	# Earlier cases may have used the default stream.
	like "$(until_refused streams/hers%d)" '^409[56] ENFILE$'
	like "$(by $mallory run 'tail -n 1 errors')" 'streams/hers409[56] ENFILE uid 1001 has as many streams'
	bob_notices_nothing
	py <<-'EOF'
		for name in os.listdir("streams"):
		    if name.startswith("hers"):
		        os.rmdir(f"streams/{name}")
	EOF
}

# For each lease the broker keeps a descriptor (a pidfd) of the holder.
test_leases_take_the_share_of_descriptors()
{
	local most=$(($(ulimit -n) / 8))
	bob_is_ready
	by $mallory run 'echo "hers 4M" >control/alloc'
	py $mallory <<-'EOF' >"$T/mallory" &
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		leases = []
		try:
		    while True:
		        leases.append(os.open("allocations/hers/lease", os.O_RDWR))
		except OSError as error:
		    print(len(leases), errno.errorcode[error.errno], flush=True)
		signal.pause()
	EOF
	eventually "grep -q EMFILE '$T/mallory'"
	# Her memory takes one descriptor, spare blocks of earlier cases perhaps more.
	[ "$(cut -d ' ' -f 1 "$T/mallory")" -ge $((most - 4)) ] || fail "$(<"$T/mallory"), of $most"
	like "$(by $mallory run 'tail -n 1 errors')" \
		"allocations/hers/lease EMFILE uid 1001 has $most descriptors of the broker"
	bob_notices_nothing
}

test_an_owner_has_one_worker()
{
	local i jobs=()
	needs_kernels
	bob_is_ready
	by $mallory run 'seq -f "hers%.0f 64K kind=direct" 100 >control/alloc'
	for i in $(seq 20); do
		by $mallory run "seq -f 'hers%.0f u8:$i wait=0' 100 >control/fill" &
		jobs+=($!)
	done
	is "$(workers_of "$T/main" $mallory | wc -l)" 1
	bob_notices_nothing
	wait "${jobs[@]}"
}

test_the_share_of_open_images()
{
	bob_is_ready
	by $mallory run 'mkdir modules/big'
	py $mallory >"$T/mallory" <<-'EOF' &
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		for _ in range(6):
		    show(os.ftruncate, os.open("modules/big/image", os.O_WRONLY | os.O_TRUNC), 256 << 20)
		signal.pause()
	EOF
	eventually "[ \$(wc -l <'$T/mallory') = 6 ]"
	is "$(sort "$T/mallory" | uniq -c | xargs)" '2 EDQUOT 4 None'
	like "$(by $mallory run 'tail -n 1 errors')" \
		'modules/big/image EDQUOT uid 1001 has 1 GiB of open images and tensors and asks for .* more: the limit is 1 GiB'
	bob_notices_nothing
}

# What a close hands over is stored by the work queue, which takes a while for long texts.
test_the_share_of_texts_that_wait_to_be_stored()
{
	bob_is_ready
	by $mallory run 'echo "hers 4K" >control/alloc'
	echo 'host 100M' >owners/$mallory/max
	py $mallory >"$T/mallory" <<-'EOF'
		become(int(sys.argv[1]))
		text = b",".join(b'"%060x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i
		                 for i in range(200000))
		text = b"{" + text + b"}"
		fd = os.open("allocations/hers/tensors", os.O_RDWR)
		def rewrite():
		    for at in range(0, len(text), 1 << 20):
		        os.pwrite(fd, text[at:at + (1 << 20)], at)
		def close(fd): os.write(1, f"{attempt(os.close, fd)}\n".encode())
		for _ in range(16):
		    show(rewrite)
		    threading.Thread(target=close, args=(os.dup(fd),)).start()
	EOF
	is "$(sort "$T/mallory" | uniq)" $'EDQUOT\nNone'
	like "$(by $mallory run 'cat errors')" 'allocations/hers/tensors EDQUOT uid 1001 has .* of host memory'
	echo 'host max' >owners/$mallory/max
	bob_notices_nothing
}

# A descriptor of a control file keeps an answer of up to 4 KiB, which is not charged.
test_the_share_of_open_files()
{
	local opener
	bob_is_ready
	py $mallory <<-'EOF' >"$T/mallory" &
		import resource
		resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		held = []
		try:
		    while True:
		        held.append(os.open("control/alloc", os.O_RDWR))
		except OSError as error:
		    print(len(held), errno.errorcode[error.errno], flush=True)
		os.close(held.pop())
		show(os.close, os.open("status", os.O_RDONLY))
		signal.pause()
	EOF
	opener=$!
	eventually "grep -q None '$T/mallory'" 60
	opener=$(pgrep -P $opener || echo $opener)
	is "$(xargs <"$T/mallory")" '16384 EMFILE None'
	like "$(tail -n 1 errors)" \
		'control/alloc EMFILE uid 1001 has 16384 files of the mount open and asks for 1 more'
	bob_notices_nothing
	kill $opener
	timeout 20 tail --pid=$opener -f /dev/null
	by $mallory run 'echo "hers 4K" >control/alloc'
}

# tickets_of UID N: opens N connections to the ticket socket, without a ticket, and says how
# many are closed at once. UID has a lease.
tickets_of()
{
	py "$@" <<-'EOF'
		import socket
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		address = os.readlink("socket")
		held, answers = [], []
		for _ in range(int(sys.argv[2])):
		    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
		    held[-1].connect(address)
		# The thread of the tickets takes them in turn: the last tells of all.
		held[-1].settimeout(20)
		answers = [held[-1].recv(1)]
		for connection in held[:-1]:
		    connection.settimeout(0)
		    try:
		        answers.append(connection.recv(1))
		    except BlockingIOError:
		        pass
		print(len(answers), set(answers), flush=True)
		signal.pause()
	EOF
}

# bob_redeems: prints how long bob takes to get the memory of a lease.
bob_redeems()
{
	py $bob <<-'EOF'
		import socket
		become(int(sys.argv[1]))
		begin = time.monotonic()
		lease = os.open("allocations/bobs/lease", os.O_RDWR)
		text = dict(line.split(" ", 1) for line in os.read(lease, 4096).decode().splitlines())
		connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		connection.settimeout(20)
		connection.connect(text["socket"])
		connection.send(text["ticket"].encode())
		answer, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
		assert answer == b"\0" and len(descriptors) == 1, answer
		print(int((time.monotonic() - begin) * 1000))
	EOF
}

test_the_share_of_connections_with_a_ticket()
{
	undying # a connection ends with its broker
	bob_is_ready
	bob_redeems >/dev/null
	has_lease $mallory
	tickets_of $mallory 100 >"$T/mallory" &
	eventually "grep -q b '$T/mallory'"
	is "$(<"$T/mallory")" "36 {b''}"
	[ "$(bob_redeems)" -lt 1000 ]
	bob_notices_nothing
}

# Each loaded image takes a descriptor of the owner's share.
test_the_share_of_loaded_images()
{
	needs_kernels
	needs_root 'two users'
	(ulimit -n 1024; broker_start "$T/images" --driver "$(driver images)")
	cd "$T/images/mnt"
	bob_is_ready
	by $mallory run "for i in \$(seq 140); do
			mkdir modules/hers\$i && cp '$GPUMEM_KERNELS/saxpy.ptx' modules/hers\$i/image || exit
		done" 2>"$T/stderr" && fail 'there is no end of images'
	like "$(<"$T/stderr")" 'Too many open files'
	like "$(by $mallory run 'tail -n 1 errors')" \
		'modules/hers12[0-9]/image EMFILE uid 1001 has 128 descriptors of the broker'
	bob_notices_nothing
	by $mallory run "rmdir modules/hers1 && mkdir modules/again &&
		cp '$GPUMEM_KERNELS/saxpy.ptx' modules/again/image"
	cd "$M"
	broker_stop "$T/images"
}

main "$@"
