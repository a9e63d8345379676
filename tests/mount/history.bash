#!/bin/bash
# What has happened is known after the death of the broker, too: `events`, `errors`, counters.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"

test_events_go_on_over_the_death_of_the_broker()
{
	local before last
	keep
	say alloc 'x 4K tag=hello'
	rmdir "$O/allocations/x"
	before=$(<"$O/events")
	last=$(tail -n 1 "$O/events" | cut -d ' ' -f 2)
	like "$before" ' free allocations/x '
	die
	is "$(head -n "$last" "$O/events")" "$before"
	say alloc 'y 4K'
	die
	say alloc 'z 4K'
	# Each number is there once, and no line is missing.
	is "$(cut -d ' ' -f 2 "$O/events")" "$(seq "$(wc -l <"$O/events")")"
	is "$(grep -c ' alloc allocations/[xyz] ' "$O/events")" 3
	end
}

test_the_ring_of_events_turns_over_a_death()
{
	local first
	keep
	for ((i = 0; i < 600; i++)); do
		printf 'x%s 4K\n' "$i"
	done >"$T/lines"
	cat "$T/lines" >"$O/control/alloc"
	die
	rmdir "$O"/allocations/*
	is "$(wc -l <"$O/events")" 1024
	first=$(head -n 1 "$O/events" | cut -d ' ' -f 2)
	is "$(cut -d ' ' -f 2 "$O/events")" "$(seq "$first" $((first + 1023)))"
	die
	# The mover of the next broker may have begun.
	first=$(head -n 1 "$O/events" | cut -d ' ' -f 2)
	is "$(cut -d ' ' -f 2 "$O/events")" "$(seq "$first" $((first + 1023)))"
	end
}

test_errors_go_on_over_the_death_of_the_broker()
{
	local before long
	keep
	fails 'say alloc "x 0"'
	long=$(printf 'n%.0s' {1..60})
	fails 'say free "$long/$long/$long/$long/x"'
	before=$(<"$O/errors")
	like "$before" "EINVAL .*"$'\n'".*ENOENT .*$long: .*$long"
	die
	is "$(<"$O/errors")" "$before"
	fails 'say free gone'
	is "$(wc -l <"$O/errors")" 3
	die
	is "$(head -n 2 "$O/errors")" "$before"
	like "$(tail -n 1 "$O/errors")" 'ENOENT .*gone'
	is "$(value_of "$O/status" failures)" 3
	# The ring of a user turns, and what is pushed out stays out.
	for ((i = 0; i < 80; i++)); do
		fails "say free gone$i"
	done
	before=$(<"$O/errors")
	die
	is "$(<"$O/errors")" "$before"
	is "$(wc -l <"$O/errors")" 64
	end
}

test_a_reader_of_events_is_told_to_open_them_again()
{
	local events
	keep
	exec {events}<"$O/events_pipe"
	say alloc 'x 4K'
	like "$(head -n 1 <&"$events")" ' alloc allocations/x '
	die
	! cat <&"$events" >"$T/read" 2>"$T/said" || fail 'it could be read'
	like "$(<"$T/said")" "${message[ESTALE]}"
	like "$(tail -n 1 "$O/errors")" ' events_pipe ESTALE the broker that opened this file died, and with it what the descriptor stood for: open it again$'
	exec {events}<&-
	end
}

# Else each refused line would take memory for good.
test_allocations_that_fail_leave_no_records()
{
	local records before
	keep
	records=$(find "/proc/$(broker_pid)/fd" -lname '*gpumem-records*')
	fails 'say alloc "x 100T"'
	before=$(stat -L -c %b "$records")
	for ((i = 0; i < 300; i++)); do
		fails "say alloc 'x 100T tag=hello'"
	done
	is "$(stat -L -c %b "$records")" "$before"
	end
}

# metric NAME [LABEL]: the sum of the samples that have the label.
metric()
{
	grep "^$1[{ ]" "$O/metrics" | grep -e "${2-}" | awk '{ n += $NF } END { print n + 0 }'
}

counters()
{
	local i
	for i in limit_refusals moved_bytes launches worker_restarts failures; do
		echo "$i $(metric "gpumem_${i}_total")"
	done
	# What is held is counted anew.
	grep -e '^gpumem_held_bytes' -e '^gpumem_allocations' "$O/metrics"
	grep . "$O/owners/$(id -u)"/{max_events,peak,restarts} | sed "s|$O||"
	grep restarts "$O/status"
}

# The slab of an allocation that has moved is empty, and its memory held for a while.
test_a_peak_counts_what_is_held_at_the_death()
{
	local lease peak
	keep
	peak=$O/owners/$(id -u)/peak
	say alloc 'x 4K'
	exec {lease}<>"$O/allocations/x/lease"
	cat <&"$lease" >/dev/null
	is "$(value_of "$peak" device:0)" $((4 << 20))
	die
	is "$(value_of "$peak" device:0)" $((4 << 20))
	exec {lease}>&-
	end
}

test_counters_go_on_over_the_death_of_the_broker()
{
	local before
	keep
	say alloc 'x 4M'
	say alloc 'h 64K kind=host'
	echo 'host 1M streams 4' >"$O/owners/$(id -u)/max"
	say fill 'x i32:1'
	fails 'say alloc "big 2M kind=host"'
	mkdir "$O/modules/saxpy"
	cat "$GPUMEM_KERNELS/saxpy.ptx" >"$O/modules/saxpy/image"
	say launch 'saxpy saxpy grid=1 block=256 u32:256 f32:2 in:x x'
	rmdir "$O/modules/saxpy"
	say alloc 'gone 512K kind=host'
	rmdir "$O/allocations/gone"
	echo 1 >"$O/owners/$(id -u)/reset"
	eventually "[ \"\$(<'$O/owners/$(id -u)/restarts')\" = 1 ]"
	is "$(metric gpumem_limit_refusals_total 'resource="host"')" 1
	is "$(metric gpumem_launches_total)" 1
	is "$(metric gpumem_moved_bytes_total 'operation="fill"')" $((4 << 20))
	before=$(counters)
	like "$before" 'host 1'
	die
	is "$(counters)" "$before"
	say fill 'x i32:1'
	fails 'say alloc "big 2M kind=host"'
	is "$(metric gpumem_moved_bytes_total 'operation="fill"')" $((8 << 20))
	before=$(counters)
	die
	is "$(counters)" "$before"
	is "$(metric gpumem_limit_refusals_total 'resource="host"')" 2
	sed -i '/warning: control.alloc: allocation big:/d' "$T/own/stderr"
	end
}

main "$@"
