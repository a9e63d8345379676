#!/bin/bash
# The broker dies, its keeper starts the next: the mount, the memory and the leases go on.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"

# ticket_works DESCRIPTOR [TICKET]: an open lease has a text, and its ticket fetches memory.
ticket_works()
{
	py "$1" "$O/socket" "${2-}" <<'EOF'
import os, socket, sys
lease, path, ticket = int(sys.argv[1]), sys.argv[2], sys.argv[3]
text = os.pread(lease, 4096, 0).decode()
ticket = ticket or text.split("ticket ")[1].split()[0]
assert f"ticket {ticket}\n" in text, text
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
    s.connect(os.readlink(path))
    s.send(ticket.encode())
    answer, fds, _, _ = socket.recv_fds(s, 1, 1)
assert answer == b"\0" and len(fds) == 1, (answer, fds)
os.write(lease, b"hold w\n")
os.write(lease, b"release\n")
EOF
}

test_memory_and_names_outlive_the_broker()
{
	local before
	keep
	say alloc 'big 8M tag=weights'
	say alloc 'small 4K'
	say alloc 'small2 4K map=readers'
	say alloc 'onhost 2M kind=host'
	say alloc 'onhost2 100 kind=host'
	say alloc 'guarded 64K guard=1'
	for i in big small small2 onhost onhost2 guarded; do
		head -c "$(<"$O/allocations/$i/size_bytes")" /dev/urandom >"$O/allocations/$i/data"
	done
	chmod 640 "$O/allocations/big"
	mkdir -m 750 "$O/allocations/folder" "$O/allocations/folder/below"
	mv "$O/allocations/small2" "$O/allocations/folder/below/renamed"
	mv "$O/allocations/folder" "$O/allocations/models"
	echo 1 >"$O/allocations/onhost/sealed"
	before=$(everything)
	survives_twice everything "$before"
	is "$(ls "$O/allocations" | xargs)" 'big guarded models onhost onhost2 small'
	# All of it can be used and freed, and made again.
	say fill 'big i32:7'
	is "$(od -A n -t d4 -N 4 "$O/allocations/big/data" | xargs)" 7
	rmdir "$O"/allocations/models/below/* "$O"/allocations/models/below "$O"/allocations/*
	say alloc 'big 8M'
	is "$(<"$O/allocations/big/state")" live
	end
}

test_what_was_freed_stays_freed_and_its_memory_is_back()
{
	local before
	keep
	say alloc 'x 4M'
	say alloc 'z 4K'
	before=$(<"$O/devices/0/memory_used_bytes")
	for i in 1 2 3 4; do
		say alloc 'y 16M'
		say fill 'y i32:1'
		rmdir "$O/allocations/y"
		die
		is "$(ls "$O/allocations" | xargs)" 'x z'
	done
	eventually "[ \"\$(<'$O/devices/0/memory_used_bytes')\" = $before ]"
	is "$(value_of "$O/status" device_bytes)" $(((4 << 20) + 4096))
	end
}

# Else a record of the memory would stay, and the next block at that address contradict it.
test_memory_that_was_being_freed_is_given_back()
{
	local address
	keep
	say alloc 'x 4M'
	say fill 'x i32:1'
	address=$(<"$O/allocations/x/address")
	stop "$(value_of "$O/status" mover)" # which is to unmap it
	rmdir "$O/allocations/x"
	die
	is "$(ls "$O/allocations")" ''
	say alloc 'y 4M'
	is "$(<"$O/allocations/y/address")" "$address"
	die
	is "$(ls "$O/allocations")" y
	end
}

test_a_move_for_a_lease_is_paid_for_until_it_ends()
{
	local held reader
	keep
	held=$O/owners/$UID/current
	say alloc 'x 4K'
	say fill 'x i32:7'
	is "$(value_of "$held" device:0)" $((2 << 20))
	stop "$(value_of "$O/status" mover)"
	cat "$O/allocations/x/lease" >/dev/null 2>&1 &
	reader=$!
	eventually "[ \"\$(value_of '$held' device:0)\" = $((4 << 20)) ]"
	die
	wait "$reader" || true
	eventually "[ \"\$(value_of '$held' device:0)\" = $((2 << 20)) ]"
	is "$(od -A n -t d4 -N 4 "$O/allocations/x/data" | xargs)" 7
	end
}

test_freed_memory_with_a_lease_keeps_its_name()
{
	local lease
	keep
	say alloc 'x 4M'
	exec {lease}<>"$O/allocations/x/lease"
	cat <&$lease >/dev/null
	rmdir "$O/allocations/x"
	for _ in 1 2; do
		die
		like "$(py "$lease" <<<'import os, sys; print(os.pread(int(sys.argv[1]), 4096, 0).decode())')" \
			$'(^|\n)name x\n'
	done
	is "$(grep -c ' free allocations/' "$O/events")" 1
	exec {lease}>&-
	end
}

# What the next broker notes of it before it dies, too, is not that it lives.
test_what_ends_with_the_broker_ends_when_two_die()
{
	local lease control kind reader
	keep_planned
	say alloc 'y 4K'
	say alloc 'x 4K'
	exec {control}>"$O/control/alloc"
	for kind in device host managed direct async; do
		echo "x$kind 4M kind=$kind until=close" >&"$control"
	done
	# A move for the lease is under way.
	stop "$(value_of "$O/status" mover)"
	exec {lease}<>"$O/allocations/x/lease"
	head -c 4096 <&$lease >/dev/null 2>&1 &
	reader=$!
	eventually "[ \"\$(value_of '$O/owners/$UID/current' device:0)\" -ge $((16 << 20)) ]"
	rmdir "$O/allocations/x"
	dies_twice 'keeper: a descriptor is sent'
	wait "$reader" || true
	is "$(ls "$O/allocations")" y
	exec {lease}>&- {control}>&-
	eventually "[ \"\$(value_of '$O/owners/$UID/current' device:0)\" = $((2 << 20)) ]"
	end
}

test_ids_and_addresses_are_given_once()
{
	local ids
	keep
	say alloc 'x 4M'
	die
	say alloc 'y 4M'
	die
	say alloc 'z 4M'
	ids=$(sort -u "$O"/allocations/*/id | wc -l)
	is "$ids" 3
	is "$(sort -u "$O"/allocations/*/address | wc -l)" 3
	is "$(stat -c %i "$O"/allocations/* | sort -u | wc -l)" 3
	end
}

test_memory_that_nobody_touched_is_still_zero()
{
	keep
	say alloc 'x 4K'
	say fill 'x i32:-1'
	rmdir "$O/allocations/x"
	say alloc 'x 4K' # the cell of the first
	die
	is_zero "$O/allocations/x/data"
	end
}

# truncated NAME: 4 MiB of text that nobody may see any more.
truncated()
{
	say alloc "$1 4M"
	yes secret | dd of="$O/allocations/$1/data" bs=4M iflag=fullblock count=1 conv=notrunc status=none
	: >"$O/allocations/$1/data"
}

test_zeros_are_owed_across_the_end_of_the_broker()
{
	local mover
	keep
	truncated x
	die
	is_zero "$O/allocations/x/data"
	say alloc 'a 4M'
	say fill 'a i32:7'
	rmdir "$O/allocations/x"
	truncated x
	mover=$(pgrep -P "$(broker_pid)" -f -- "--name mover")
	stop "$mover"
	say copy 'x from=a wait=0'
	die
	is_zero "$O/allocations/x/data"
	: >"$O/allocations/x/data"
	say copy 'x from=a'
	die
	cmp "$O/allocations/a/data" "$O/allocations/x/data"
	end
}

test_memory_of_a_worker_is_lost_and_says_so()
{
	keep
	say alloc 'x 1M kind=managed'
	say fill 'x i32:1'
	die
	is "$(<"$O/allocations/x/state")" lost
	is "$(<"$O/allocations/x/generation")" 2
	! cat "$O/allocations/x/data" >/dev/null 2>&1 || fail 'lost memory was read'
	like "$(tail -n 1 "$O/errors")" 'ESTALE allocation x is lost: the worker that held it ended with the broker'
	rmdir "$O/allocations/x"
	say alloc 'x 1M kind=managed'
	say fill 'x i32:1'
	rmdir "$O/allocations/x"
	end
}

# As long as nothing else has started the owner's next worker.
test_memory_that_was_lost_with_the_broker_can_be_freed()
{
	local broker
	keep
	say alloc 'm 1M kind=managed'
	say alloc 'd 1M kind=direct'
	die
	broker=$(broker_pid)
	rmdir "$O/allocations/m" "$O/allocations/d"
	is "$(broker_pid)" "$broker"
	is "$(ls "$O/allocations")" ''
	is "$(value_of "$O/status" bytes)" 0
	end
}

# A user's own socket is where the text of before says, and has whoever came meanwhile.
test_a_ticket_of_another_user_stays_good()
{
	local lease text
	needs_root 'another user'
	keep
	say alloc 'x 4M mode=0644 map=readers'
	mkfifo "$T/go"
	exec 9<>"$T/go"
	py "$O" 3<"$T/go" >"$T/said" <<-'EOF' &
		import os, socket, sys
		become(1001)
		lease = os.open(f"{sys.argv[1]}/allocations/x/lease", os.O_RDONLY)
		text = dict(line.split(" ", 1) for line in os.pread(lease, 4096, 0).decode().splitlines())
		early = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		print(text["socket"], flush=True)
		os.read(3, 1)
		early.connect(text["socket"])
		early.send(text["ticket"].encode())
		print(socket.recv_fds(early, 1, 1)[0], flush=True)
	EOF
	lease=$!
	eventually "[ -s '$T/said' ]"
	is "$(<"$T/said")" "$(readlink "$O/socket").u1001"
	die
	echo >&9
	wait $lease
	like "$(<"$T/said")" "b'.x00'$"
	end
}

test_an_open_lease_stays_good()
{
	local ticket lease
	keep
	say alloc 'x 4M'
	say fill 'x i32:5'
	exec {lease}<>"$O/allocations/x/lease"
	ticket=$(awk '$1 == "ticket" { print $2 }' <&"$lease")
	like "$ticket" ':'
	die
	is "$(value_of "$O/status" leases)" 1
	# The text anew, by the descriptor of old; the ticket is good.
	ticket_works "$lease" "$ticket"
	# A free waits for the lease, as ever, also over another death.
	rmdir "$O/allocations/x"
	is "$(value_of "$O/status" freed_leased_bytes)" $((4 << 20))
	die
	is "$(value_of "$O/status" freed_leased_bytes)" $((4 << 20))
	is "$(ls "$O/allocations")" ''
	exec {lease}>&-
	eventually "[ \"\$(value_of '$O/status' freed_leased_bytes)\" = 0 ]"
	end
}

# A change that it was not told of, or the end of its hold.
test_a_lease_has_something_new_to_read_in_the_next_broker()
{
	local lease
	keep
	say alloc 'x 2M'
	exec {lease}<>"$O/allocations/x/lease"
	py "$lease" >"$T/said" <<-'EOF'
		lease = int(sys.argv[1])
		poll = select.poll()
		poll.register(lease, select.POLLPRI)
		os.read(lease, 4096)
		os.write(lease, b"hold w\n")
		os.pread(lease, 4096, 0)
		show(poll.poll, 0)
	EOF
	is "$(<"$T/said")" '[]'
	die
	py "$lease" >"$T/said" <<-'EOF'
		lease = int(sys.argv[1])
		poll = select.poll()
		poll.register(lease, select.POLLPRI)
		print(len(poll.poll(0)))
		print("hold none" in os.pread(lease, 4096, 0).decode())
		show(poll.poll, 0)
	EOF
	is "$(<"$T/said")" $'1\nTrue\n[]'
	exec {lease}>&-
	end
}

# Each look-up of a lease has an inode of its own, which the next broker must know.
test_the_file_of_a_lease_is_known_to_the_next_broker()
{
	local lease before
	keep
	say alloc 'x 2M'
	exec {lease}<>"$O/allocations/x/lease"
	before=$(stat -L -c '%i %a %F' "/proc/$$/fd/$lease")
	for _ in 1 2; do
		die
		is "$(stat -L -c '%i %a %F' "/proc/$$/fd/$lease")" "$before"
		ticket_works "$lease"
		# Another lease of the same inode.
		like "$(<"/proc/$$/fd/$lease")" 'hold none'
	done
	exec {lease}>&-
	eventually "[ \"\$(value_of '$O/status' leases)\" = 0 ]"
	end
}

# Nothing has changed: it waits. The next broker tells of what changes there.
test_a_poll_of_a_lease_goes_on_in_the_next_broker()
{
	local waiter
	keep
	say alloc 'x 2M'
	: >"$T/said"
	py "$O/allocations/x/lease" >"$T/said" <<-'EOF' &
		lease = os.open(sys.argv[1], os.O_RDONLY)
		poll = select.poll()
		poll.register(lease, select.POLLPRI)
		os.read(lease, 4096)
		print(os.getpid(), flush=True)
		while not (events := poll.poll(60000)): pass
		print(bool(events[0][1] & select.POLLPRI), "state freed" in os.pread(lease, 4096, 0).decode())
	EOF
	waiter=$!
	eventually "grep -q '^7 ' \"/proc/\$(<'$T/said')/syscall\""
	die
	die
	is "$(wc -l <"$T/said")" 1
	rmdir "$O/allocations/x"
	wait $waiter
	is "$(tail -n 1 "$T/said")" 'True True'
	end
}

test_a_line_under_way_is_an_error_and_is_not_done_twice()
{
	local first second waiting status=0
	keep
	say alloc 'x 4M'
	exec {first}<>"$O/allocations/x/lease"
	cat <&"$first" >/dev/null
	echo 'hold w' >&"$first"
	(echo 'x i32:1' >"$O/control/fill") 2>"$T/said" &
	waiting=$!
	# The hold is the other one.
	eventually '[ "$(value_of "$O/owners/$(id -u)/current" operations)" = 2 ]'
	die
	wait "$waiting" || status=$?
	is "$status" 1
	like "$(<"$T/said")" "${message[EIO]}"
	like "$(tail -n 1 "$O/errors")" " control EIO the broker died while this was under way: look whether it was done"
	# The hold ended with its broker, the lease did not.
	is "$(awk '$1 == "hold" { print $2 }' "$O/allocations/x/lease")" none
	is_zero "$O/allocations/x/data"
	exec {first}>&-
	end
}

# On hardware a kernel goes on for some milliseconds when its worker is dead.
test_a_kernel_of_the_last_broker_stores_nothing_later()
{
	local kind
	keep
	mkdir "$O/modules/m"
	cat >"$O/modules/m/image" <<'EOF'
.version 8.0
.target sm_80
.address_size 64
.visible .entry count(.param .u64 at)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<1>;
	ld.param.u64 %rd0, [at];
	cvta.to.global.u64 %rd1, %rd0;
again:
	ld.volatile.global.u32 %r0, [%rd1];
	add.u32 %r0, %r0, 1;
	st.volatile.global.u32 [%rd1], %r0;
	bra again;
}
EOF
	for kind in host device; do
		say alloc "x 4K kind=$kind"
		say launch 'm count grid=1 block=1 x wait=0'
		sleep 0.5                 # the kernel runs
		is_software || sleep 3 # and a standby is ready
		is "$(py "$O" "$(broker_pid)" <<'EOF'
import os, signal, sys, time
path = sys.argv[1] + "/allocations/x/data"
os.kill(int(sys.argv[2]), signal.SIGKILL)
until = time.monotonic() + 5
while True:
    try:
        data = os.open(path, os.O_RDWR)
        os.pwrite(data, bytes(4), 0)
        break
    except OSError:
        assert time.monotonic() < until
until = time.monotonic() + 0.3
words = set()
while time.monotonic() < until:
    words.add(os.pread(data, 4, 0))
print(words == {bytes(4)})
EOF
		)" True
		rmdir "$O/allocations/x"
	done
	end
}

# Else a request that kills the broker would kill each of the next.
test_a_request_under_way_at_two_deaths_is_refused()
{
	local waiting status=0
	needs_software 'be slow'
	keep
	inject 'delay=cuMemGetInfo_v2@*=100s'
	stat -f "$O" >/dev/null 2>"$T/said" &
	waiting=$!
	eventually "grep -q request_wait_answer /proc/$waiting/wchan"
	# Requests are read one after the other: this one comes later.
	cat "$O/version" >/dev/null
	die
	eventually '[[ $(records) =~ ,\ [0-9]+\ requests?\ tried\ again ]]'
	die
	wait "$waiting" || status=$?
	is "$status" 1
	like "$(<"$T/said")" "${message[EIO]}"
	like "$(tail -n 1 "$O/errors")" ' folder EIO two brokers died while this was under way, and it is not tried again$'
	rm "$T/inject"
	stat -f "$O" >/dev/null
	end
}

test_descriptors_of_other_files_are_stale()
{
	local data
	keep
	say alloc 'x 4M'
	exec {data}<"$O/allocations/x/data"
	die
	! cat <&"$data" >/dev/null 2>"$T/said" || fail 'it could be read'
	like "$(<"$T/said")" "${message[ESTALE]}"
	exec {data}<&-
	is_zero "$O/allocations/x/data"
	end
}

# As `rm -r`, `find` and `ls` read a folder, in pieces.
test_a_listing_goes_on_in_the_next_broker()
{
	keep
	mkdir "$O/allocations/a"
	for i in {1..300}; do
		echo "a/n$i 1K"
	done | cat >"$O/control/alloc"
	py "$O" <<-'EOF'
		folder, broker = f"{sys.argv[1]}/allocations/a", f"{sys.argv[1]}/pid"
		with os.scandir(folder) as entries:
		    seen = [next(entries).name for _ in range(20)]
		    for name in seen[:10]:
		        os.rmdir(f"{folder}/{name}")
		    os.rename(f"{folder}/{seen[15]}", f"{folder}/other")
		    pid = open(broker).read()
		    os.kill(int(pid), signal.SIGKILL)
		    while attempt(lambda: open(broker).read()) == pid:
		        pass
		    seen += [entry.name for entry in entries]
		assert len(set(seen)) == len(seen), "a name is listed twice"
		missing = set(os.listdir(folder)) - set(seen) - {"other"}
		assert not missing, missing
	EOF
	end
}

# The kernel opens a file again only with the memory that it has been given for the file.
test_host_memory_that_is_mapped_at_a_death_can_be_opened_and_mapped()
{
	needs_root 'no other broker lets programs map'
	keep
	say alloc 'x 1M kind=host'
	py "$O" <<-'EOF'
		path, broker = f"{sys.argv[1]}/allocations/x/data", f"{sys.argv[1]}/pid"
		old = os.open(path, os.O_RDWR)
		memory = mmap.mmap(old, 1 << 20)
		for word in (b"first", b"again"):
		    pid = open(broker).read()
		    os.kill(int(pid), signal.SIGKILL)
		    while attempt(lambda: open(broker).read()) == pid:
		        pass
		    memory[:5] = word
		    new = os.open(path, os.O_RDWR)
		    assert os.pread(new, 5, 0) == word, os.pread(new, 5, 0)
		    assert mmap.mmap(new, 1 << 20)[:5] == word
		    os.close(new)
		memory.close()
		attempt(os.close, old)
		assert open(path, "rb").read(5) == b"again"
	EOF
	end
}

test_mapped_memory_of_the_host_is_given_back_after_a_death()
{
	local closed open
	needs_root 'no other broker lets programs map'
	keep
	say alloc 'x 1M kind=host'
	say alloc 'y 1M kind=host'
	exec {closed}<>"$O/allocations/x/data" {open}<>"$O/allocations/y/data"
	die
	exec {closed}>&-
	die
	rmdir "$O"/allocations/*
	is "$(python3 "$here/backing.py" "$(<"$T/own/pid")")" ''
	exec {open}>&-
	end
}

# Else each death gives the owner more memory beyond the limit.
test_freed_host_memory_that_a_program_has_mapped_is_charged_by_the_next_broker()
{
	local before program
	needs_root 'no other broker lets programs map'
	keep
	# The worker's process and the file of its output are kept from now on.
	say alloc 'x 4M kind=host'
	rmdir "$O/allocations/x"
	eventually '[ "$(held_of_host)" = 0 ]'
	before=$(kept)
	say alloc 'x 4M kind=host'
	maps_freed "$T/mapped" &
	program=$!
	eventually '[ -e "$T/mapped" ]'
	is "$(held_of_host)" $((4 << 20))
	survives_twice held_of_host $((4 << 20))
	say alloc 'x 1M kind=host'
	is "$(held_of_host)" $((5 << 20))
	rm "$T/mapped"
	wait "$program"
	eventually '[ "$(held_of_host)" = $((1 << 20)) ]'
	rmdir "$O/allocations/x"
	eventually '[ "$(held_of_host)" = 0 ]'
	! grep -v ' 0$' "$O/owners/$UID/current" || fail 'it is charged still'
	kept_again "$before"
	is "$(python3 "$here/backing.py" "$(<"$T/own/pid")")" ''
	end
}

test_host_memory_that_was_being_freed_and_is_mapped_is_charged_by_the_next_broker()
{
	local image program
	needs_root 'no other broker lets programs map'
	needs_kernels
	keep
	mkdir "$O/modules/faults"
	cp "$GPUMEM_KERNELS/faults.ptx" "$O/modules/faults/image"
	image=$(held_of_host)
	say alloc 'x 4M kind=host'
	say launch 'faults endless grid=1 block=1 wait=0 x'
	maps_freed "$T/mapped" &
	program=$!
	eventually '[ -e "$T/mapped" ]'
	survives_twice held_of_host $(((4 << 20) + image))
	rm "$T/mapped"
	wait "$program"
	eventually '[ "$(held_of_host)" = "$image" ]'
	end
}

# A mount may have had millions of numbers. One that is left was never noted, or its memory
# was being freed.
test_the_next_broker_takes_back_numbers_that_are_left_and_no_others()
{
	needs_root 'no other broker lets programs map'
	needs_kernels
	keep
	say alloc 'x 1M kind=host'
	say alloc 'freed 1M kind=host'
	mkdir "$O/modules/faults"
	cp "$GPUMEM_KERNELS/faults.ptx" "$O/modules/faults/image"
	python3 "$here/backing.py" "$(<"$T/own/pid")" open
	: <"$O/allocations/freed/data"
	: <"$O/allocations/x/data"
	python3 "$here/backing.py" "$(<"$T/own/pid")" open
	say launch 'faults endless grid=1 block=1 wait=0 freed'
	rmdir "$O/allocations/freed"
	die
	# The first is before all that were noted, and x has the third.
	is "$(python3 "$here/backing.py" "$(<"$T/own/pid")" | xargs)" '1 3'
	end
}

test_memory_that_ends_with_something_ends_with_the_broker()
{
	local control kind
	keep
	exec {control}>"$O/control/alloc"
	for kind in device host managed direct async; do
		echo "x$kind 4M kind=$kind until=close" >&"$control"
	done
	say alloc 'y 4M'
	die
	is "$(ls "$O/allocations")" y
	exec {control}>&-
	end
}

test_what_changes_later_is_saved()
{
	local used written
	keep
	say alloc 'x 1M tag=first'
	say alloc 'y 1M'
	say fill 'x i32:3'
	written=$(stat -c %y "$O/allocations/x")
	od -A n -t d4 -N 4 "$O/allocations/x/data" >/dev/null
	used=$(stat -c %x "$O/allocations/x")
	echo second >"$O/allocations/x/tag"
	die
	is "$(<"$O/allocations/x/tag")" second
	is "$(stat -c %x "$O/allocations/x")" "$used"
	is "$(stat -c %y "$O/allocations/x")" "$written"
	is "$(<"$O/allocations/y/last_use")" never
	end
}

test_limits_outlive_the_broker()
{
	[ "$(id -u)" = 0 ] || skip 'only root sets limits'
	keep
	echo 'host 1M' >"$O/owners/default/max"
	mkdir "$O/owners/1234"
	echo 'device:0 64M streams 3' >"$O/owners/1234/max"
	die
	is "$(grep -v ' max$' "$O/owners/1234/max" | xargs)" 'device:0 67108864 host 1048576 streams 3'
	end
}

# As long as the records can't be used, they and all memory stay where they are.
test_a_broker_that_refuses_what_was_left_loses_nothing()
{
	local broker records began waiting
	keep
	say alloc 'x 1M'
	say fill 'x i32:9'
	broker=$(broker_pid)
	exec {records}<>"$(find "/proc/$broker/fd" -lname '*gpumem-records*')"
	# The byte behind the 16 of the name is the version.
	printf '\377' | dd bs=1 seek=16 conv=notrunc status=none of="/proc/self/fd/$records"
	began=$(date +%s%N)
	kill -KILL "$broker"
	cat "$O/allocations/x/size_bytes" >"$T/said" &
	waiting=$!
	eventually "[ \"\$(grep -c 'ended with status 1' '$T/own/stderr')\" -ge 3 ]"
	[ $(($(date +%s%N) - began)) -gt 1000000000 ] || fail 'it was tried again at once'
	like "$(sed -n 2p "$T/own/stderr")" "^gpumemd: this broker can't go on where the last one died: the records are of another version\$"
	printf '\001' | dd bs=1 seek=16 conv=notrunc status=none of="/proc/self/fd/$records"
	exec {records}>&-
	wait "$waiting"
	is "$(<"$T/said")" 1048576
	is "$(od -A n -t d4 -N 4 "$O/allocations/x/data" | xargs)" 9
	: >"$T/own/stderr"
	exec {records}<>"$O/allocations/x/lease"
	ticket_works "$records"
	exec {records}>&-
	end
}

test_a_keeper_without_a_broker_ends_with_its_mount()
{
	local broker records
	keep
	broker=$(broker_pid)
	exec {records}<>"$(find "/proc/$broker/fd" -lname '*gpumem-records*')"
	printf '\377' | dd bs=1 seek=16 conv=notrunc status=none of="/proc/self/fd/$records"
	exec {records}>&-
	kill -KILL "$broker"
	eventually "[ \"\$(grep -c 'ended with status 1' '$T/own/stderr')\" -ge 2 ]"
	kill -TERM "$(<"$T/own/pid")"
	eventually "[ -e '$T/own/status' ]"
	! is_mounted "$O" || fail 'it is still mounted'
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
}

# hangs_and_is_followed PID: the broker is killed in the end, and the next has x.
hangs_and_is_followed()
{
	is "$(timeout 60 ls "$O/allocations")" x
	[ "$1" != "$(broker_pid)" ] || fail "broker $1 is still there"
	like "$(head -n 1 "$T/own/stderr")" '^gpumemd: the broker does nothing any more, for 4 seconds, and is killed$'
	sed -i '/does nothing any more/d' "$T/own/stderr"
}

test_a_broker_that_hangs_is_followed()
{
	local broker
	keep --hang-timeout 4
	say alloc 'x 1M'
	broker=$(broker_pid)
	stop "$broker"
	hangs_and_is_followed "$broker"
	end
}

# stop_the_reader PID: of the threads of a broker, stops the one that waits for requests.
stop_the_reader()
{
	py "$1" <<-'EOF'
		SEIZE, INTERRUPT = 0x4206, 0x4207
		pid = int(sys.argv[1])
		fuse = [int(fd) for fd in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/fuse"]
		def reads(thread):
		    call = open(f"/proc/{pid}/task/{thread}/syscall").read().split()
		    return call[0] == "0" and int(call[1], 16) in fuse
		threads = [int(t) for t in os.listdir(f"/proc/{pid}/task") if reads(t)]
		assert len(threads) == 1, threads
		assert libc.ptrace(SEIZE, threads[0], None, None) == 0
		assert libc.ptrace(INTERRUPT, threads[0], None, None) == 0
		print("stopped", flush=True)
		while os.WIFSTOPPED(os.waitpid(threads[0], 0x40000000)[1]): # __WALL
		    pass
	EOF
}

test_a_broker_that_reads_no_request_is_followed()
{
	local broker
	keep --hang-timeout 4
	say alloc 'x 1M'
	broker=$(broker_pid)
	stop_the_reader "$broker" >"$T/reader" &
	eventually "grep -q stopped '$T/reader'"
	hangs_and_is_followed "$broker"
	end
}

test_names_change_all_or_none()
{
	keep
	say alloc 'a 1M'
	say alloc 'b 1M'
	say publish 'b a'
	die
	is "$(ls "$O/allocations")" a
	is "$(<"$O/allocations/a/sealed")" 1
	end
}

test_umount_and_signals_end_both()
{
	local status
	keep
	say alloc 'x 4M'
	end
	keep
	say alloc 'x 4M'
	kill -TERM "$(<"$T/own/pid")"
	broker_ended "$T/own"
	fails 'is_mounted "$O"'
}

# Else memory would be held that nobody can reach.
test_the_broker_dies_with_its_keeper()
{
	local broker
	keep
	say alloc 'x 4M'
	broker=$(broker_pid)
	kill -KILL "$(<"$T/own/pid")"
	eventually "[ ! -e /proc/$broker ]"
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
	unmount "$O"
}

test_the_starter_returns_and_the_next_broker_needs_no_folder_of_the_first()
{
	local keeper
	mkdir -p "$T/own/mnt" "$T/from"
	O=$T/own/mnt
	(cd "$T/from" && "$GPUMEMD" --keep --driver "$(driver own)" "$O")
	rmdir "$T/from"
	keeper=$(pgrep -f -- "--keep --driver .* $O\$" | head -n 1)
	echo 'x 1M' >"$O/control/alloc"
	kill -KILL "$(broker_pid)"
	is "$(ls "$O/allocations")" x
	unmount "$O"
	eventually "[ ! -e /proc/$keeper ]"
}

# It could not send again what a broker that died has not answered.
test_an_older_kernel_is_refused_at_the_start()
{
	local status=0
	mkdir -p "$T/mnt"
	setarch --uname-2.6 "$GPUMEMD" --keep --driver "$(driver own)" "$T/mnt" 2>"$T/said" || status=$?
	is "$status" 1
	like "$(<"$T/said")" '^gpumemd: --keep needs Linux 6.9 or newer, and this is Linux 2\.6\.'
}

test_the_records_can_be_looked_at()
{
	local broker fd said status=0
	keep
	say alloc 'x 4M tag=hello'
	broker=$(broker_pid)
	fd=$(find "/proc/$broker/fd" -lname '*gpumem-records*')
	said=$("$GPUMEMD" --check-journal "$fd")
	like "$said" 'allocation 1: x: id [0-9]+, 4194304 bytes at 0x[0-9a-f]+, block 1, .*tag hello'
	head -c 65536 /dev/urandom >"$T/noise"
	said=$("$GPUMEMD" --check-journal "$T/noise" 2>&1) || status=$?
	is "$status" 1
	like "$said" 'these are no records of gpumem'
	mkfifo "$T/pipe" # nobody writes
	said=$(timeout 10 "$GPUMEMD" --check-journal "$T/pipe" 2>&1) || status=$?
	is "$status" 1
	like "$said" 'these are no records of gpumem'
	end
}

main "$@"
