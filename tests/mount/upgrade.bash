#!/bin/bash
# A newer program follows the broker without a stop; one that is no good does not.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"

# upgrade SENTENCE: returns when the keeper has said what became of the upgrade.
upgrade()
{
	local n
	n=$(wc -l <"$T/own/stderr")
	kill -HUP "$(<"$T/own/pid")"
	eventually "tail -n +$((n + 1)) '$T/own/stderr' | grep -qE '^gpumemd: (upgraded|no upgrade): '"
	like "$(tail -n +$((n + 1)) "$T/own/stderr")" "$1"
}

# upgraded: to another file, which serves.
upgraded()
{
	local old new
	old=$(broker_pid)
	upgrade "^gpumemd: upgraded: broker [0-9]+ runs $GPUMEMD\$"
	new=$(broker_pid)
	[ "$old" != "$new" ] || fail "broker $old is still there"
	is "$(stat -L -c %i "/proc/$new/exe")" "$(stat -c %i "$GPUMEMD")"
}

# end_upgraded: as broker_stop, after upgrades that the keeper has told of.
end_upgraded()
{
	sed -i '/^gpumemd: \(upgraded\|no upgrade\): /d' "$T/own/stderr"
	end
}

test_a_newer_program_follows_and_all_is_there()
{
	local before lease inode
	installed
	keep
	say alloc 'x 4M tag=hello'
	say alloc 'h 64K kind=host'
	say fill 'x i32:7'
	exec {lease}<>"$O/allocations/x/lease"
	inode=$(stat -L -c %i "/proc/$$/fd/$lease")
	before=$(everything)
	replace "$GPUMEMD"
	upgraded
	is "$(everything)" "$before"
	is "$(value_of "$O/status" leases)" 1
	replace "$GPUMEMD"
	upgraded
	is "$(od -A n -t d4 -N 4 "$O/allocations/x/data" | xargs)" 7
	is "$(stat -L -c %i "/proc/$$/fd/$lease")" "$inode"
	exec {lease}>&-
	# The next one that dies is followed by the newer program.
	die
	is "$(stat -L -c %i "/proc/$(broker_pid)/exe")" "$(stat -c %i "$GPUMEMD")"
	end_upgraded
}

test_freed_host_memory_that_a_program_has_mapped_is_charged_after_an_upgrade()
{
	local program
	needs_root 'no other broker lets programs map'
	installed
	keep
	say alloc 'x 4M kind=host'
	maps_freed "$T/mapped" &
	program=$!
	eventually '[ -e "$T/mapped" ]'
	replace "$GPUMEMD"
	upgraded
	is "$(held_of_host)" $((4 << 20))
	rm "$T/mapped"
	wait "$program"
	eventually '[ "$(held_of_host)" = 0 ]'
	end_upgraded
}

test_an_upgrade_is_asked_for_during_another()
{
	local keeper
	installed
	keep
	say alloc 'x 4M'
	keeper=$(<"$T/own/pid")
	wait_for_standby
	kill -HUP "$keeper"
	# It goes when an upgrade begins.
	eventually '! standby_pid'
	kill -HUP "$keeper"
	eventually "[ \$(grep -c '^gpumemd: upgraded: ' '$T/own/stderr') = 2 ]"
	is "$(ls "$O/allocations")" x
	end_upgraded
}

test_the_broker_goes_on_when_the_new_program_ends_at_once()
{
	local old events
	installed
	keep
	say alloc 'x 4M'
	old=$(broker_pid)
	exec {events}<"$O/events_pipe"
	replace /bin/true
	upgrade '^gpumemd: no upgrade: the new program ended with status 0 before it was ready; the broker goes on$'
	is "$(broker_pid)" "$old"
	say alloc 'y 4M'
	is "$(ls "$O/allocations" | xargs)" 'x y'
	# What was open stays open.
	like "$(head -n 1 <&"$events")" ' alloc allocations/y '
	exec {events}<&-
	rm "$GPUMEMD"
	upgrade "^gpumemd: no upgrade: $GPUMEMD: No such file or directory; the broker goes on\$"
	is "$(broker_pid)" "$old"
	# One that dies is followed by the program that was good.
	die
	is "$(ls "$O/allocations" | xargs)" 'x y'
	end_upgraded
}

test_the_broker_goes_on_when_the_new_program_dies_before_it_is_ready()
{
	local old before lease point where=
	installed
	keep_planned
	say alloc 'x 4M'
	say fill 'x i32:7'
	exec {lease}<>"$O/allocations/x/lease"
	old=$(broker_pid)
	before=$(everything)
	# Half of a program, as a full disk leaves.
	head -c 100000 "$GPUMEMD" >"$T/half" && chmod +x "$T/half"
	cp "$GPUMEMD" "$T/whole"
	replace "$T/half"
	upgrade '^gpumemd: no upgrade: the new program (was killed by signal 11|ended with status [0-9]+) before it was ready; the broker goes on$'
	is "$(broker_pid)" "$old"
	# A good one that dies before it has read its records, and on its first change of them.
	replace "$T/whole"
	for point in 1 2; do
		next_dies_at $point
		upgrade '^gpumemd: no upgrade: the new program was killed by signal 9 before it was ready; the broker goes on$'
		where+="$(died_at);"
		is "$(broker_pid)" "$old"
		is "$(everything)" "$before"
		is "$(value_of "$O/status" leases)" 1
	done
	is "$where" 'resume: before the records are opened;records: a store;'
	next_dies_at 0
	upgraded
	is "$(everything)" "$before"
	exec {lease}>&-
	end_upgraded
}

worker_pids()
{
	cat "$O"/owners/*/worker
	value_of "$O/status" mover
}

test_workers_live_on_when_the_new_program_dies_before_it_is_ready()
{
	local workers
	installed
	keep_planned
	say alloc 'd 4M kind=direct'
	say fill 'd i32:7'
	workers=$(worker_pids)
	next_dies_at_place 'resume: all objects are there'
	upgrade '^gpumemd: no upgrade: the new program was killed by signal 9 before it was ready; the broker goes on$'
	is "$(worker_pids)" "$workers"
	is "$(od -A n -t d4 -N 4 "$O/allocations/d/data" | xargs)" 7
	end_upgraded
}

test_the_broker_goes_on_when_the_new_program_hangs()
{
	local old
	installed
	keep --hang-timeout 3
	say alloc 'x 4M'
	old=$(broker_pid)
	replace "$T/installed/broker/../tests/mount/idle"
	upgrade '^gpumemd: no upgrade: the new program was not ready after 3 seconds; the broker goes on$'
	is "$(broker_pid)" "$old"
	say alloc 'y 4M'
	end_upgraded
}

test_what_is_under_way_is_finished_first()
{
	local waiting
	installed
	keep
	say alloc 'x 4M'
	mkdir "$O/modules/order"
	cat "$GPUMEM_KERNELS/order.ptx" >"$O/modules/order/image"
	# Half a second, nobody waits for it.
	say launch 'order slow_set grid=1 block=1 x i32:5 u64:500000000 wait=0'
	(echo 'x i32:6' >"$O/control/fill") &
	waiting=$!
	replace "$GPUMEMD"
	upgraded
	wait "$waiting" || fail 'the fill failed' "$(<"$O/errors")"
	is "$(od -A n -t d4 -N 4 "$O/allocations/x/data" | xargs)" 6
	is "$(<"$O/errors")" ''
	end_upgraded
}

test_the_broker_goes_on_when_an_operation_does_not_end()
{
	local old lease
	installed
	keep --hang-timeout 3
	say alloc 'x 4M'
	exec {lease}<>"$O/allocations/x/lease"
	cat <&"$lease" >/dev/null
	echo 'hold w' >&"$lease"
	old=$(broker_pid)
	replace "$GPUMEMD"
	upgrade '^gpumemd: no upgrade: 1 operation of users was not done after 3 seconds; the broker goes on$'
	is "$(broker_pid)" "$old"
	is "$(grep -c 'hold=w' "$O/leases")" 1
	echo release >&"$lease"
	upgraded
	exec {lease}>&-
	end_upgraded
}

# Nobody knows whether the operation ends at all. It was begun before the upgrade.
test_others_are_served_while_an_operation_does_not_end()
{
	local lease n=0
	installed
	keep --hang-timeout 3
	say alloc 'x 4M'
	exec {lease}<>"$O/allocations/x/lease"
	cat <&"$lease" >/dev/null
	echo 'hold w' >&"$lease"
	kill -HUP "$(<"$T/own/pid")"
	sleep 0.2
	until grep -q '^gpumemd: no upgrade: ' "$T/own/stderr"; do
		cat "$O/version" >/dev/null
		n=$((n + 1))
	done
	[ "$n" -gt 10 ] || fail "$n reads were served"
	echo release >&"$lease"
	exec {lease}>&-
	end_upgraded
}

# Linux tells the groups of each caller in 20 ms. The next broker answers those that wait.
test_opens_of_a_user_with_many_groups_hold_up_no_upgrade()
{
	local opener
	needs_root 'another user'
	installed
	keep
	: >"$T/opened"
	py "$O/control/alloc" "$T/opened" <<-'EOF' >"$T/waiting" &
		opened = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
		os.setgroups(range(100000, 160000))
		os.setresuid(1001, 1001, 1001)
		libc.prctl(1, signal.SIGKILL)
		def open_once(i):
		    os.open(sys.argv[1], os.O_WRONLY)
		    os.write(opened, b".")
		in_threads("waiting", 200, open_once)
	EOF
	opener=$!
	eventually "grep -q waiting '$T/waiting'"
	replace "$GPUMEMD"
	upgraded
	[ "$(stat -c %s "$T/opened")" -lt 200 ] || fail 'the upgrade waited for all'
	eventually "[ \$(stat -c %s '$T/opened') = 200 ]"
	# The shell around it ends behind it: the mount must not be busy.
	kill -KILL "$(pgrep -P "$opener" || echo "$opener")"
	wait "$opener" || true
	end_upgraded
}

test_upgrades_under_64_threads_that_write_large_parts()
{
	local writers i
	installed
	keep
	say alloc 'x 64M kind=host'
	rm -f "$T/stop"
	py "$O/allocations/x/data" "$T/stop" "$T/began" <<-'EOF' >"$T/wrong" &
		def goes_on(n):
		    if n == 2:
		        open(sys.argv[3], "w")
		    return not os.path.exists(sys.argv[2])
		print(write_parts(sys.argv[1], 64, goes_on))
	EOF
	writers=$!
	eventually "[ -e '$T/began' ]"
	for i in 1 2 3; do
		replace "$GPUMEMD"
		upgraded
	done
	: >"$T/stop"
	wait "$writers"
	is "$(<"$T/wrong")" '[]'
	end_upgraded
}

# until_done FILE LINE: a line that an upgrade has caught between its open and its write was
# not done, says so, and is written again.
until_done()
{
	local said=$T/said.$BASHPID
	until { echo "$2" >"$O/control/$1"; } 2>"$said"; do
		grep -q "${message[ESTALE]}" "$said" || fail "$1 $2" "$(<"$said")"
	done
}

# work NAME: makes, fills and frees until the file `stop` is there, and looks at the bytes.
work()
{
	local i said
	for ((i = 1; ; i++)); do
		until_done alloc "$1 1M"
		until_done fill "$1 i32:$i"
		until said=$(od -A n -t d4 -j 65536 -N 4 "$O/allocations/$1/data" 2>/dev/null); do
			:
		done
		is "$(xargs <<<"$said")" "$i"
		until_done free "$1"
		echo "$i" >"$T/rounds.$1"
		[ ! -e "$T/stop" ] || break
	done
}

test_upgrades_under_three_shells_of_work()
{
	local workers=() i
	installed
	keep
	say alloc 'kept 4M'
	say fill 'kept i32:9'
	rm -f "$T/stop"
	for i in a b c; do
		work "$i" 2>"$T/wrong.$i" &
		workers+=($!)
	done
	for i in 1 2 3 4 5; do
		eventually "[ \$(cat '$T/rounds.a' 2>/dev/null || echo 0) -ge $((2 * i)) ]"
		replace "$GPUMEMD"
		upgraded
	done
	: >"$T/stop"
	for i in "${workers[@]}"; do
		wait "$i" || fail 'a shell has failed' "$(cat "$T"/wrong.*)"
	done
	is "$(ls "$O/allocations")" kept
	is "$(od -A n -t d4 -N 4 "$O/allocations/kept/data" | xargs)" 9
	# Nothing but that was refused.
	is "$(grep -v ESTALE "$O/errors" || true)" ""
	end_upgraded
}

main "$@"
