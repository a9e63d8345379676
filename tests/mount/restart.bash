#!/bin/bash
# A restart of the service: no process is there for a moment, and memory, mount and leases stay.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"

# manage MAX [OPTION]...: the service of a manager who holds MAX descriptors (manager.py).
# The options stand in a file, as in /etc/default/gpumemd.
manage()
{
	local max=$1 program=$GPUMEMD
	shift
	mkdir -p "$T/own"
	rm -f "$T/own/service"
	printf '%s ' "$@" --driver "$(driver own)" >"$T/own/options"
	cat >"$T/manage" <<END
#!/bin/bash
exec python3 '$here/manager.py' '$T/own' '$here/../../tools/systemd/gpumemd@.service' $max /bin/bash -c 'exec "\$0" \$(<"$T/own/options") "\$@"' '$program' "\$@"
END
	chmod +x "$T/manage"
	GPUMEMD=$T/manage broker_start "$T/own"
	O=$T/own/mnt
	eventually "grep -q ^ready '$T/own/service'"
}

# service_restart: as systemctl does, which returns when the service is ready.
service_restart()
{
	local n
	n=$(grep -c ^ready "$T/own/service")
	kill -USR2 "$(<"$T/own/pid")"
	eventually "[ \$(grep -c ^ready '$T/own/service') -gt $n ]"
}

keeper_pid()
{
	awk '$1 == "started" { pid = $2 } END { print pid }' "$T/own/service"
}

# standby_pid: as in keep.bash, where the manager has started the keeper.
standby_pid()
{
	pgrep -x -P "$(keeper_pid)" gpumemd-standby
}

# stored: prints the ends with their status, each READY=1, and how many descriptors the
# manager held then.
stored()
{
	awk '$1 != "started" { printf "%s;", $0 }' "$T/own/service"
}

# service_stop: as systemctl does. Mount, memory and processes are gone.
service_stop()
{
	kill -TERM "$(<"$T/own/pid")"
	eventually "[ -s '$T/own/status' ]"
	is "$(<"$T/own/status")" "${1-0}"
	! is_mounted "$O" || fail 'the mount is still there'
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
}

# on_stderr SENTENCE...: nothing else was said.
on_stderr()
{
	is "$(cat "$T/own/stderr")" "$(printf 'gpumemd: %s\n' "$@")"
	: >"$T/own/stderr"
}

test_a_restart_keeps_all()
{
	local before lease broker keeper
	manage 16 --keep
	is "$(stored)" 'ready 0;'
	say alloc 'x 4M tag=hello'
	say alloc 'h 64K kind=host'
	say fill 'x i32:7'
	exec {lease}<>"$O/allocations/x/lease"
	before=$(everything)
	broker=$(broker_pid)
	keeper=$(keeper_pid)
	service_restart
	is "$(everything)" "$before"
	is "$(value_of "$O/status" leases)" 1
	[ "$(keeper_pid)" != "$keeper" ] || fail 'the keeper is the same'
	[ ! -e "/proc/$keeper" ] && [ ! -e "/proc/$broker" ] || fail 'the old ones are still there'
	# What the manager held is gone: freed memory is free.
	service_restart
	is "$(everything)" "$before"
	is "$(stored)" 'ready 0;ended 0 1;ready 0;ended 0 1;ready 0;'
	die
	is "$(everything)" "$before"
	exec {lease}>&-
	: >"$T/own/stderr"
	service_stop
}

# A package has replaced the program: a standby of the old one ends with its keeper.
test_a_standby_of_the_old_program_is_gone_after_a_restart()
{
	local before standby
	installed
	manage 16 --keep
	say alloc 'x 4M tag=hello'
	say fill 'x i32:7'
	before=$(everything)
	wait_for_standby
	standby=$(standby_pid)
	replace "$GPUMEMD"
	service_restart
	[ ! -e "/proc/$standby" ] || fail 'the standby is still there'
	is "$(runs_installed "$(broker_pid)")" yes
	is "$(everything)" "$before"
	wait_for_standby
	standby=$(standby_pid)
	is "$(runs_installed "$standby")" yes
	die
	is "$(broker_pid)" "$standby"
	is "$(everything)" "$before"
	is "$(stored)" 'ready 0;ended 0 1;ready 0;'
	: >"$T/own/stderr"
	service_stop
}

# A service manager hears nobody but the main process (NotifyAccess=main).
test_the_manager_hears_what_is_held()
{
	manage 16 --keep
	eventually "grep -qE '^STATUS=[0-9]+ devices?, 0 allocations of 0 bytes, ' '$T/own/said'"
	say alloc 'x 4M'
	service_restart
	eventually "grep -qxE 'STATUS=[0-9]+ devices?, 1 allocation of 4 MiB, 1 user' '$T/own/said'"
	service_stop
	is "$(tail -n 2 "$T/own/said" | xargs)" 'STOPPING=1 STATUS=Ending: work under way has 5 seconds'
	is "$(stored)" 'ready 0;ended 0 1;ready 0;ended 0 0;'
}

test_a_stop_frees_all()
{
	manage 16 --keep
	say alloc 'x 4M'
	service_restart
	is "$(ls "$O/allocations")" x
	service_stop
	is "$(cat "$T/own/stderr")" ''
	is "$(tail -n 1 "$T/own/service")" 'ended 0 0'
}

# systemd counts the starts of a restart, and gives up at a limit of the unit.
test_many_restarts_one_after_another_keep_all()
{
	local before i
	manage 16 --keep
	say alloc 'x 4M'
	say fill 'x i32:7'
	before=$(everything)
	for i in {1..8}; do
		service_restart
	done
	is "$(everything)" "$before"
	service_stop
}

# The driver's library is being replaced, say. The time that a start may take is no limit.
test_a_start_that_is_tried_again_asks_the_manager_for_time()
{
	local before
	grep -q GPUMEM_CRASH "$GPUMEMD" || skip 'a build with -Dcrash_points=true has it'
	mkdir -p "$T/own"
	head -c 4096 /dev/zero >"$T/own/plan"
	GPUMEM_CRASH=$T/own/plan manage 16 --keep
	say alloc 'x 4M'
	before=$(everything)
	next_dies_at 1
	kill -USR2 "$(<"$T/own/pid")"
	eventually "[ \$(grep -c '^EXTEND_TIMEOUT_USEC=12[0-9]......$' '$T/own/said') -ge 3 ]"
	next_dies_at 0
	eventually "[ \$(grep -c ^ready '$T/own/service') = 2 ]"
	is "$(everything)" "$before"
	: >"$T/own/stderr"
	service_stop
}

test_callers_wait_while_no_process_is_there()
{
	local reader keeper
	manage 16 --keep
	say alloc 'x 4M'
	say fill 'x i32:7'
	keeper=$(keeper_pid)
	: >"$T/own/hold"
	kill -USR2 "$(<"$T/own/pid")"
	eventually "[ ! -e /proc/$keeper ]"
	od -A n -t d4 -N 4 "$O/allocations/x/data" >"$T/read" &
	reader=$!
	eventually "grep -qE 'fuse|request_wait_answer' /proc/$reader/wchan"
	rm "$T/own/hold"
	wait "$reader" || fail 'the read failed'
	is "$(xargs <"$T/read")" 7
	service_stop
}

# One descriptor of the manager's is enough for all of them.
test_more_blocks_than_the_manager_holds()
{
	local i before
	manage 1 --keep
	for ((i = 0; i < 520; i++)); do
		say alloc "h$i 4K kind=host"
	done
	say fill 'h519 i32:7'
	before=$(cat "$O"/allocations/*/address | sha256sum)
	service_restart
	is "$(ls "$O/allocations" | wc -l)" 520
	is "$(cat "$O"/allocations/*/address | sha256sum)" "$before"
	is "$(od -A n -t d4 -N 4 "$O/allocations/h519/data" | xargs)" 7
	is "$(stored)" 'ready 0;ended 0 1;ready 0;'
	service_stop
}

test_a_manager_that_holds_nothing_has_a_clean_end_and_a_fresh_start()
{
	manage 0 --keep
	say alloc 'x 4M'
	service_restart
	is "$(ls "$O/allocations")" ''
	is "$(stored)" 'ready 0;ended 0 0;ready 0;'
	on_stderr 'this restart frees all memory: no service manager holds it meanwhile (Broken pipe)'
	service_stop
}

test_without_keep_a_restart_is_a_clean_end_and_a_fresh_start()
{
	manage 16
	say alloc 'x 4M'
	service_restart
	is "$(ls "$O/allocations")" ''
	is "$(stored)" 'ready 0;ended 0 0;ready 0;'
	is "$(cat "$T/own/stderr")" ''
	service_stop
}

test_keep_is_taken_out_of_the_options()
{
	manage 16 --keep
	say alloc 'x 4M'
	sed -i 's/--keep //' "$T/own/options"
	service_restart
	is "$(ls "$O/allocations")" ''
	on_stderr 'the memory of the last broker is freed: --keep is not among the options any more'
	service_restart
	service_stop
}

test_an_operation_that_does_not_end_is_cut_off()
{
	local lease address
	manage 16 --keep --hang-timeout 2
	say alloc 'x 4M'
	say fill 'x i32:7'
	address=$(<"$O/allocations/x/address")
	exec {lease}<>"$O/allocations/x/lease"
	cat <&"$lease" >/dev/null
	echo 'hold w' >&"$lease"
	service_restart
	on_stderr 'restart: 1 operation of users was not done after 2 seconds, and is cut off'
	is "$(<"$O/allocations/x/address")" "$address"
	is "$(od -A n -t d4 -N 4 "$O/allocations/x/data" | xargs)" 7
	is "$(grep -c 'hold=none' "$O/leases")" 1
	exec {lease}>&-
	service_stop
}

# A newer program whose broker always dies: that of before goes on, and a keeper that is
# killed meanwhile loses nothing.
test_the_next_broker_dies_before_it_is_ready()
{
	local before old
	grep -q GPUMEM_CRASH "$GPUMEMD" || skip 'a build with -Dcrash_points=true has it'
	installed
	mkdir -p "$T/own"
	head -c 4096 /dev/zero >"$T/own/plan"
	GPUMEM_CRASH=$T/own/plan manage 16 --keep
	say alloc 'x 4M tag=hello'
	say fill 'x i32:7'
	before=$(everything)
	old=$(stat -L -c %i "/proc/$(broker_pid)/exe")
	replace "$GPUMEMD"
	next_dies_at 1
	kill -USR2 "$(<"$T/own/pid")"
	eventually "[ \$(grep -c '^gpumemd: the broker was killed by signal 9$' '$T/own/stderr') -ge 3 ]"
	is "$(grep -c '^gpumemd: the new program ended before it had the records: the one before goes on$' "$T/own/stderr")" 1
	kill -KILL "$(keeper_pid)"
	eventually "[ \$(grep -c ^started '$T/own/service') = 3 ]"
	eventually "[ \$(grep -c '^gpumemd: the broker was killed by signal 9$' '$T/own/stderr') -ge 6 ]"
	next_dies_at 0
	eventually "[ \$(grep -c ^ready '$T/own/service') = 2 ]"
	is "$(everything)" "$before"
	is "$(stat -L -c %i "/proc/$(broker_pid)/exe")" "$old"
	is "$(stored)" 'ready 0;ended 0 1;ended -9 1;ready 0;'
	# A third restart has the newer program in both processes.
	service_restart
	is "$(stat -L -c %i "/proc/$(broker_pid)/exe")" "$(stat -c %i "$GPUMEMD")"
	# An ordinary user may not look into a keeper.
	[ "$(id -u)" != 0 ] ||
		is "$(stat -L -c %i "/proc/$(keeper_pid)/exe")" "$(stat -c %i "$GPUMEMD")"
	is "$(everything)" "$before"
	service_stop
}

# before_start FOLDER: what the unit does before each start.
before_start()
{
	local line
	line=$(sed -n 's/^ExecStartPre=//p' "$here/../../tools/systemd/gpumemd@.service" |
		sed 's/\$\$/$/g; s/ %f$/ "$0"/')
	bash -c "$line" "$1"
}

test_the_folder_is_made_for_root_alone()
{
	before_start "$T/new folder/mnt"
	is "$(stat -c %a "$T/new folder/mnt")" 700
	before_start "$T/new folder/mnt"
}

test_a_locked_folder_above_the_mount_keeps_no_restart()
{
	local locker status=0
	needs_root 'keep a lock'
	: >"$T/locked.go"
	py "$(dirname "$M")" "$T/locked.go" <<<'keep_lock_while(*sys.argv[1:])' >"$T/locker" &
	locker=$!
	eventually "grep -q kept '$T/locker'"
	before_start "$M" &
	timeout 5 tail --pid=$! -f /dev/null || status=$?
	rm "$T/locked.go"
	wait $! $locker
	is $status 0
}

test_a_stop_before_the_next_broker_is_ready()
{
	grep -q GPUMEM_CRASH "$GPUMEMD" || skip 'a build with -Dcrash_points=true has it'
	mkdir -p "$T/own"
	head -c 4096 /dev/zero >"$T/own/plan"
	GPUMEM_CRASH=$T/own/plan manage 16 --keep
	say alloc 'x 4M'
	next_dies_at 1
	kill -USR2 "$(<"$T/own/pid")"
	eventually "[ \$(grep -c '^gpumemd: the broker was killed by signal 9$' '$T/own/stderr') -ge 3 ]"
	service_stop 1
}

main "$@"
