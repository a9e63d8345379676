#!/bin/bash
# Files on a file system that has taken a request and never answers: Linux ends no process
# that waits for it.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/stuck.bash"

me=$(id -u)

test_a_load_that_hangs_holds_no_memory_of_others()
{
	local before
	needs_root 'users'
	undying
	stuck_mount
	broker_start "$T/short" --driver "$(driver short)" --give-back-timeout 1
	cd "$T/short/mnt"
	by 1001 run "echo 'mine 32M' >control/alloc"
	before=$(<devices/0/memory_used_bytes)
	by 1002 run "echo 'theirs 32M mode=0644' >control/alloc"
	# The worker of 1001 has it mapped from now on.
	mkdir -m 777 "$T/out"
	by 1001 run "echo 'theirs path=$T/out/f' >control/save"
	by 1001 hangs load mine
	stop "$(<owners/1001/worker)"
	by 1002 run 'chmod 600 allocations/theirs'
	eventually '[ "$(<allocations/theirs/state)" = live ]'
	by 1002 run 'rmdir allocations/theirs'
	eventually "[ \$(<devices/0/memory_used_bytes) -lt $((before + (32 << 20))) ]"
	fails 'wait $hanging'
	cd "$M"
	broker_stop "$T/short"
	stuck_end
}

test_memory_of_others_that_a_hanging_load_fills_comes_back()
{
	local before
	needs_root 'users'
	stuck_mount
	broker_start "$T/short" --driver "$(driver short)" --give-back-timeout 1
	cd "$T/short/mnt"
	before=$(<devices/0/memory_used_bytes)
	by 1002 run "echo 'theirs 32M mode=0666' >control/alloc"
	by 1001 hangs load theirs
	by 1002 run 'chmod 600 allocations/theirs'
	fails 'wait $hanging'
	eventually '[ "$(<allocations/theirs/state)" = live ]'
	by 1002 run "echo 'theirs u8:7' >control/fill && rmdir allocations/theirs"
	eventually "[ \$(<devices/0/memory_used_bytes) -lt $((before + (32 << 20))) ]"
	cd "$M"
	broker_stop "$T/short"
	stuck_end
}

test_a_signal_reset_and_rmdir_end_what_hangs()
{
	local before
	stuck_mount
	before=$(<devices/0/memory_held_bytes)
	echo 'x 32M' >control/alloc
	hangs load x 1
	kill $hanging
	fails 'wait $hanging'
	eventually '[ "$(<allocations/x/state)" = live ]'
	hangs load x 2
	echo 1 >"owners/$me/reset"
	fails 'wait $hanging'
	eventually '[ "$(<allocations/x/state)" = live ]'
	is_zero allocations/x/data
	hangs load x 3
	rmdir allocations/x
	kill $hanging
	fails 'wait $hanging'
	eventually "[ \$(<devices/0/memory_held_bytes) -lt $((before + (32 << 20))) ]"
	stuck_end
}

test_the_next_load_works_beside_one_that_hangs()
{
	stuck_mount
	head -c 9000000 /dev/urandom >"$T/f"
	echo 'x 32M' >control/alloc
	echo 'y 9000000' >control/alloc
	hangs load x
	echo "y path=$T/f" >control/load
	cmp allocations/y/data "$T/f"
	kill $hanging
	fails 'wait $hanging'
	echo "y path=$T/f" >control/load
	echo "y path=$T/g" >control/save
	cmp "$T/f" "$T/g"
	rm "$T/g"
	stuck_end
}

test_the_end_of_the_broker_waits_for_no_file_system()
{
	local begin
	stuck_mount
	broker_start "$T/other" --driver "$(driver other)"
	cd "$T/other/mnt"
	echo 'x 32M' >control/alloc
	hangs load x
	kill $hanging
	fails 'wait $hanging'
	cd "$M"
	begin=$SECONDS
	broker_stop "$T/other"
	[ $((SECONDS - begin)) -lt 5 ] || fail "the end took $((SECONDS - begin)) s"
	stuck_end
}

test_so_many_processes_may_hang_and_no_more()
{
	undying
	stuck_mount
	head -c 4096 /dev/urandom >"$T/f"
	echo 'x 32M' >control/alloc
	all_hang x
	eventually '[ "$(<allocations/x/state)" = live ]'
	refused EBUSY "uid $me has 4 processes that open files and asks for 1 more: the limit is 4; .*wait for a file system that does not answer" "echo 'x path=$T/f' >control/load"
	stuck_end
	eventually "echo 'x path=$T/f' >control/load"
	cmp -n 4096 allocations/x/data "$T/f"
}

test_a_file_that_cannot_be_closed_holds_up_nothing()
{
	stuck_mount
	head -c 4096 /dev/urandom >"$T/f"
	echo 'x 32M' >control/alloc
	echo "x path=$T/fs/clinging" >control/load
	in_hand clinging
	echo "x path=$T/f" >control/load
	cmp -n 4096 allocations/x/data "$T/f"
	stuck_end
}

# ---- the process that opens files ----

# killed_amid LINE: the process of files is killed amid a line of control/load or control/save.
killed_amid()
{
	local hanging
	slow 1s
	"${AS[@]}" bash -c "$1" 2>/dev/null &
	hanging=$!
	eventually '[[ $(cat allocations/x/progress) =~ ^[1-9][0-9]*\ of ]]'
	kill -KILL "$(files_process "$me")"
	inject
	fails 'wait $hanging'
}

test_a_killed_process_of_files_fails_the_load_and_the_next_works()
{
	head -c 40000000 /dev/urandom >"$T/f"
	echo 'x 50000000' >control/alloc
	echo 'x u8:7' >control/fill
	killed_amid "echo 'x path=$T/f' >control/load"
	like "$(tail -n 1 errors)" 'control/load EIO load of x failed: the process that has .*/f open has ended; .* of 38.1 MiB .* are loaded, the rest is zero'
	is "$(tail -c 1 allocations/x/data | od -A n -t u1 | xargs)" 7
	echo "x path=$T/f" >control/load
	cmp -n 40000000 allocations/x/data "$T/f"
}

test_a_killed_process_of_files_leaves_the_old_file()
{
	echo old >"$T/saved"
	echo 'x 40000000' >control/alloc
	killed_amid "echo 'x path=$T/saved' >control/save"
	like "$(tail -n 1 errors)" 'control/save EIO save of x failed: the process that has .*/saved open has ended; the file is as it was'
	is "$(<"$T/saved")" old
	echo "x path=$T/saved" >control/save
	is "$(stat -c %s "$T/saved")" 40000000
}

test_a_process_of_files_has_no_memory_of_the_gpu()
{
	local process
	needs_root 'a look into a process that is undumpable'
	undying
	echo 'x 32M' >control/alloc
	echo 'h 32M kind=host' >control/alloc
	head -c 4096 /dev/zero >"$T/f"
	echo "x path=$T/f" >control/load
	echo "h path=$T/f" >control/load
	process=$(files_process "$me")
	unlike "$(<"/proc/$process/maps")" 'libcuda|nvidia|gpumem-host'
}

test_a_process_of_files_ends_when_it_is_idle()
{
	broker_start "$T/other" --driver "$(driver other)" --worker-idle 1
	cd "$T/other/mnt"
	echo 'x 4096' >control/alloc
	head -c 4096 /dev/urandom >"$T/f"
	echo "x path=$T/f" >control/load
	eventually '[ -z "$(files_process "$me" other)" ]'
	echo "x path=$T/f" >control/load
	cmp allocations/x/data "$T/f"
	cd "$M"
	broker_stop "$T/other"
}

main "$@"
