#!/bin/bash
# A second broker process is ready before the broker dies, and serves at once when it does.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"

# answered_ms PID...: kills the processes, and prints the time to the next answered line.
answered_ms()
{
	local from=${EPOCHREALTIME/./}
	kill -KILL "$@"
	until echo default >"$O/control/synchronize"; do :; done 2>/dev/null
	echo $(((${EPOCHREALTIME/./} - from) / 1000))
}

test_a_line_is_answered_sooner_than_the_driver_starts()
{
	local with without
	inject 'delay=cuInit@*=2s'
	keep
	wait_for_standby
	with=$(answered_ms "$(broker_pid)")
	wait_for_standby
	without=$(answered_ms "$(standby_pid)" "$(broker_pid)")
	[ $((with * 2)) -lt "$without" ] ||
		fail "answered after $with ms with a standby, and after $without ms without"
	end
}

test_all_is_there_and_the_next_standby_comes()
{
	local before lease standby
	keep
	say alloc 'x 4M tag=hello'
	say alloc 'h 64K kind=host'
	say fill 'x i32:7'
	exec {lease}<>"$O/allocations/x/lease"
	before=$(everything)
	for _ in 1 2 3; do
		wait_for_standby
		standby=$(standby_pid)
		die
		is "$(broker_pid)" "$standby"
		is "$(everything)" "$before"
		is "$(value_of "$O/status" leases)" 1
	done
	exec {lease}>&-
	end
}

# It would keep freed memory from being free, and a mount from its end.
test_the_standby_holds_nothing_of_users()
{
	local n
	keep
	say alloc 'x 4M'
	say alloc 'h 64K kind=host'
	n=$(n_kept)
	wait_for_standby
	is "$(find "/proc/$(standby_pid)/fd" -lname '*gpumem-records*' -o -lname /dev/fuse)" ''
	is "$(find "/proc/$(broker_pid)/fd" -lname '*gpumem-records*' -o -lname /dev/fuse | wc -l)" 2
	is "$(n_kept)" "$n"
	end
}

test_a_standby_that_is_killed_is_followed_by_another()
{
	local standby signal broker
	keep
	say alloc 'x 4M'
	broker=$(broker_pid)
	for signal in KILL TERM; do
		wait_for_standby
		standby=$(standby_pid)
		kill -$signal "$standby"
		wait_for_standby "$standby"
	done
	is "$(broker_pid)" "$broker"
	die
	is "$(ls "$O/allocations")" x
	end
}

test_broker_and_standby_are_killed_at_once()
{
	keep
	say alloc 'x 4M'
	wait_for_standby
	kill -KILL "$(standby_pid)"
	die
	wait_for_standby
	kill -KILL "$(broker_pid)" "$(standby_pid)"
	is "$(timeout 20 ls "$O/allocations")" x
	end
}

test_brokers_die_before_a_standby_is_there()
{
	keep
	say alloc 'x 4M'
	wait_for_standby
	die
	die
	is "$(ls "$O/allocations")" x
	end
}

# A broker that dies while its standby calls cuInit is followed by this standby.
test_a_standby_that_is_not_ready_is_used()
{
	local keeper standby
	inject 'delay=cuInit@*=2s'
	keep
	keeper=$(<"$T/own/pid")
	eventually "[ \$(pgrep -c -P $keeper) = 2 ]"
	standby=$(pgrep -P "$keeper" | grep -vx "$(broker_pid)")
	[ -z "$(standby_pid)" ] || fail 'the standby is ready'
	die
	is "$(broker_pid)" "$standby"
	end
}

test_an_upgrade_drops_the_standby_of_the_old_program()
{
	local old
	installed
	keep
	say alloc 'x 4M'
	wait_for_standby
	old=$(standby_pid)
	replace "$GPUMEMD"
	kill -HUP "$(<"$T/own/pid")"
	eventually "grep -q '^gpumemd: upgraded: ' '$T/own/stderr'"
	fails "[ -e /proc/$old ]"
	is "$(runs_installed "$(broker_pid)")" yes
	wait_for_standby
	is "$(runs_installed "$(standby_pid)")" yes
	die
	is "$(runs_installed "$(broker_pid)")" yes
	is "$(ls "$O/allocations")" x
	end '^gpumemd: upgraded: '
}

test_a_standby_follows_an_upgrade_that_fails()
{
	installed
	keep
	say alloc 'x 4M'
	wait_for_standby
	replace /bin/true
	kill -HUP "$(<"$T/own/pid")"
	eventually "grep -q '^gpumemd: no upgrade: ' '$T/own/stderr'"
	wait_for_standby
	is "$(runs_installed "$(standby_pid)")" no
	die
	is "$(ls "$O/allocations")" x
	end '^gpumemd: no upgrade: '
}

test_no_standby_is_left_after_the_end()
{
	keep
	wait_for_standby
	end
	keep
	wait_for_standby
	kill -TERM "$(<"$T/own/pid")"
	broker_ended "$T/own"
	keep
	wait_for_standby
	kill -KILL "$(<"$T/own/pid")"
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
	unmount "$O"
}

main "$@"
