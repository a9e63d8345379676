#!/bin/bash
# Start and stop: exit codes and messages; nothing is left behind.
. "${BASH_SOURCE%/*}/lib.bash"

# A broker of a case's own.
start()
{
	broker_start "$T/own" "$@" --driver "$(driver own)"
	O=$T/own/mnt
}


test_gpumemd_returns_0_once_the_mount_answers()
{
	local pid
	mkdir -p "$T/own/mnt"
	"$GPUMEMD" --driver "$(driver own)" "$T/own/mnt" >"$T/own/stdout" 2>&1
	is "$(<"$T/own/stdout")" ''
	echo 'x 4096' >"$T/own/mnt/control/alloc"
	is "$(ls "$T/own/mnt/allocations")" x
	unmount "$T/own/mnt"
	eventually "! is_mounted '$T/own/mnt'"
}

test_a_folder_laid_out_by_another_user_stops_no_broker()
{
	needs_root 'several users'
	local owner socket
	unset XDG_RUNTIME_DIR
	for owner in 1 2 3 6 7 8 9; do # fusermount3 wants users with names
		! by 4002 run "mkdir /tmp/gpumem-$owner" || break
	done
	by $owner start
	socket=$(by $owner run "readlink '$O/socket'")
	like "$socket" "^/tmp/gpumem-$owner-[A-Za-z0-9]{6}/"
	is "$(stat -c '%u %a' "${socket%/*}")" "$owner 711"
	broker_stop "$T/own"
	# The next broker uses the same folder for its socket.
	by $owner start
	is "$(by $owner run "readlink '$O/socket'")" "$socket"
	broker_stop "$T/own"
	rmdir /tmp/gpumem-$owner "${socket%/*}"
}

test_help_and_version_are_said_and_are_success()
{
	like "$("$GPUMEMD" --help)" 'gpumemd .*MOUNTPOINT'
	like "$("$GPUMEMD" --version)" '[0-9]+\.[0-9]+\.[0-9]+'
	is "$("$GPUMEMD" -fV)" "$("$GPUMEMD" --vers)"
}

test_a_driver_that_is_not_there_is_said_with_the_way_out()
{
	local said status=0
	mkdir "$T/none"
	said=$("$GPUMEMD" --driver /nowhere/libcuda.so.1 "$T/none" 2>&1) || status=$?
	is "$status" 1
	like "$said" '/nowhere/libcuda\.so\.1'
	like "$said" '--driver software'
	is "$(wc -l <<<"$said")" 1
	fails 'is_mounted "$T/none"'
}

test_a_library_that_is_no_driver_is_said()
{
	local said status=0
	mkdir -p "$T/none"
	said=$("$GPUMEMD" --driver libc.so.6 "$T/none" 2>&1) || status=$?
	is "$status" 1
	like "$said" 'libc\.so\.6'
	fails 'is_mounted "$T/none"'
}

test_options_of_the_software_gpu_are_checked()
{
	local said status=0
	needs_software 'be misled'
	mkdir -p "$T/none"
	said=$("$GPUMEMD" --driver software:devices=none "$T/none" 2>&1) || status=$?
	is "$status" 1
	like "$said" 'devices=none'
	fails 'is_mounted "$T/none"'
}

# software_is_refused MACHINE REGEX: the start fails with a sentence that matches REGEX, and
# nothing is mounted.
software_is_refused()
{
	local said status=0
	mkdir -p "$T/none"
	said=$("$GPUMEMD" --driver "software:machine=$1" "$T/none" 2>&1) || status=$?
	is "$status" 1
	like "$said" "$2"
	fails 'is_mounted "$T/none"'
}

test_what_others_lay_out_for_the_software_gpu_is_left_alone()
{
	local machine=${T##*.}-evil
	local evil=/dev/shm/gpumem-softgpu.$machine laid=/dev/shm/$machine
	needs_software 'be misled'
	needs_root 'other users'
	mkdir "$T/victim"
	echo mine | tee "$T/victim/a.conf" "$T/victim/sums" >"$T/victim/0-4096-1-1"
	by 1001 run "ln -s $T/victim $evil"
	start
	broker_stop "$T/own"
	software_is_refused "$machine" "$evil is a symbolic link"
	rm "$evil"
	# Another program of the software GPU clears an empty machine away: no machine before
	# the files are there.
	by 1001 run "mkdir -m 1777 $laid; ln -s $T/victim/a.conf $laid/sums
		ln -s $T/victim/a.conf $laid/0-4096-1-1; ln -s $T/victim/a.conf $laid/managed-1-0
		mv $laid $evil"
	software_is_refused "$machine" "$evil belongs to uid 1001"
	start
	broker_stop "$T/own"
	rm -rf "$evil"
	mkdir -m 1777 "$laid"
	touch "$laid/no_file_of_a_machine"
	mv "$laid" "$evil"
	by 1001 run "ln -s $T/victim $evil/0-0; mkdir -m 777 $evil/0-1; touch $evil/0-2"
	broker_start "$T/own" --driver "software:machine=$machine"
	echo 'x 4M' >"$T/own/mnt/control/alloc"
	is "$(cd "$evil" && ls 0-3)" "$(printf '%s\n' "$(cd "$evil/0-3" && echo 0-*)" ask counted counting joined sums)"
	broker_stop "$T/own"
	is "$(cd "$evil" && echo *)" '0-0 0-1 0-2 no_file_of_a_machine'
	rm -rf "$evil"
	is "$(cat "$T"/victim/*)" $'mine\nmine\nmine'
}

# A user may write the totals in the user's own folder. Root does not trust these and counts.
test_totals_of_the_software_gpu_that_are_spoiled_are_counted_anew()
{
	local machine=/dev/shm/gpumem-softgpu.${T##*.}-own
	needs_software 'be misled'
	needs_root 'other users'
	start
	echo 'x 100M' >"$O/control/alloc"
	by 1001 run "mkdir $machine/1001-0 && head -c 1M /dev/urandom >$machine/1001-0/sums"
	echo 'y 100M' >"$O/control/alloc"
	is "$(<"$O/devices/0/memory_held_bytes")" 209715200
	[ "$(<"$O/devices/0/memory_used_bytes")" -ge 209715200 ]
	by 1001 run "truncate -s 0 $machine/1001-0/sums"
	echo 'z 100M' >"$O/control/alloc"
	broker_stop "$T/own"
}

# A program that locks every file of a folder, as far as permitted, until end of input.
lock_all='
import fcntl, os, sys
for folder, _, files in os.walk(sys.argv[1]):
    for path in [folder] + [os.path.join(folder, file) for file in files]:
        try:
            fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
print("locked", flush=True)
sys.stdin.read()'

test_locks_of_another_user_on_the_software_gpu_hold_up_nobody()
{
	local go
	needs_software 'be locked'
	needs_root 'other users'
	start
	echo 'x 4M' >"$O/control/alloc"
	mkfifo -m 644 "$T/go"
	by 1001 run "exec python3 -c '$lock_all' /dev/shm/gpumem-softgpu.${T##*.}-own <$T/go" \
		>"$T/locked" &
	exec {go}>"$T/go"
	eventually "grep -q locked '$T/locked'"
	timeout 10 bash -c "echo 'y 4M' >'$O/control/alloc'"
	is "$(timeout 10 ls "$O/allocations" | xargs)" 'x y'
	timeout 10 rmdir "$O/allocations/x"
	exec {go}>&-
	wait $!
	broker_stop "$T/own"
}

test_a_mount_point_that_a_broker_has_is_said()
{
	local said status=0
	said=$("$GPUMEMD" --driver "$(driver second)" "$M" 2>&1) || status=$?
	is "$status" 1
	like "$said" 'a broker is mounted there already; `fusermount3 -u '
	is "$(grep -cF " $M fuse" /proc/self/mounts)" 1
	cat version
}

test_what_its_end_would_free_is_said()
{
	local said
	echo 'x 4K' >control/alloc
	fails 'said=$("$GPUMEMD" --driver "$(driver second)" "$M" 2>&1)'
	like "$said" 'ends it and frees its 1 allocation$'
	echo 'y 4K' >control/alloc
	fails 'said=$("$GPUMEMD" --driver "$(driver second)" "$M" 2>&1)'
	like "$said" 'ends it and frees its 2 allocations$'
}

test_a_word_too_many_is_said()
{
	local said status=0
	mkdir -p "$T/none"
	said=$("$GPUMEMD" --driver "$(driver own)" "$T/nowhere" "$T/none" 2>&1) || status=$?
	is "$status" 1
	like "$said" "$T/none' is one word too many"
	fails 'is_mounted "$T/none"'
}

test_a_limit_on_the_size_of_files_is_said()
{
	local said status=0
	needs_software 'need files of its own'
	mkdir -p "$T/none"
	said=$(ulimit -f 1; "$GPUMEMD" --driver "$(driver own)" "$T/none" 2>&1) || status=$?
	is "$status" 1
	like "$said" '^gpumemd: .*File too large'
	fails 'is_mounted "$T/none"'
}

test_a_missing_mount_point_is_said()
{
	local said status=0
	said=$("$GPUMEMD" --driver "$(driver own)" "$T/nowhere" 2>&1) || status=$?
	is "$status" 1
	like "$said" "$T/nowhere"
	status=0
	said=$("$GPUMEMD" --driver "$(driver own)" 2>&1) || status=$?
	[ "$status" != 0 ]
	like "$said" 'MOUNTPOINT|mount point|[Uu]sage'
}

test_an_unknown_option_is_said()
{
	local said status=0
	said=$("$GPUMEMD" --colour "$T" 2>&1) || status=$?
	[ "$status" != 0 ]
	like "$said" 'colour'
}

test_every_option_can_be_given_with_o()
{
	needs_software 'be a second one'
	broker_start "$T/own" -o "driver=$(driver own)"
	is "$(ls "$T/own/mnt/devices" | xargs)" '0 1'
	broker_stop "$T/own"
}

test_umount_ends_the_broker_and_frees_everything()
{
	start
	echo 'x 100M' >"$O/control/alloc"
	echo 'h 10M kind=host' >"$O/control/alloc"
	echo 'd 10M kind=direct' >"$O/control/alloc"
	broker_stop "$T/own"
	start
	is "$(ls "$O/allocations")" ''
	is "$(<"$O/devices/0/memory_held_bytes")" 0
	! is_software || [ "$(<"$O/devices/0/memory_used_bytes")" -lt 67108864 ]
	broker_stop "$T/own"
}

test_fusermount3_ends_the_broker()
{
	start
	fusermount3 -u "$O"
	broker_ended "$T/own"
}

test_sigterm_ends_the_broker_and_unmounts()
{
	start
	echo 'x 100M' >"$O/control/alloc"
	kill -TERM "$(<"$T/own/pid")"
	broker_ended "$T/own"
	fails 'is_mounted "$O"'
}

test_sigint_ends_the_broker_and_unmounts()
{
	start
	kill -INT "$(<"$T/own/pid")"
	broker_ended "$T/own"
	fails 'is_mounted "$O"'
}

test_sigterm_while_lines_wait_ends_the_broker()
{
	local writer
	start
	echo 'x 4096' >"$O/control/alloc"
	slow 30s
	echo 'x u8:1' 2>/dev/null >"$O/control/fill" &
	writer=$!
	until_it_waits $writer
	kill -TERM "$(<"$T/own/pid")"
	wait $writer || true
	inject
	eventually "[ -s '$T/own/status' ]"
	fails 'is_mounted "$O"'
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
}

# A traced process stays a zombie until its tracer has waited for the end.
test_a_worker_that_can_not_be_ended_does_not_keep_the_broker()
{
	local mover tracer
	needs_root 'hold a process'
	start
	mover=$(workers_of "$T/own" mover)
	py "$mover" "$T/held" 2>"$T/said" <<-EOF &
		import ctypes, signal
		seize = 0x4206
		assert ctypes.CDLL(None).ptrace(seize, int(sys.argv[1]), None, None) == 0
		open(sys.argv[2], "w").write(str(os.getpid()))
		signal.pause()
	EOF
	eventually "[ -s '$T/held' ]"
	tracer=$(<"$T/held")
	kill -TERM "$(<"$T/own/pid")"
	eventually "[ -s '$T/own/status' ]" 40
	kill $tracer
	is "$(<"$T/own/status")" 1
	like "$(<"$T/own/stderr")" "worker processes that were killed have not ended: $mover"
	fails 'is_mounted "$O"'
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
}

# Lines that end within the grace period succeed.
test_sigterm_lets_lines_end_that_do_in_time()
{
	local writer
	needs_software 'be slow'
	start
	echo 'x 4096' >"$O/control/alloc"
	is_zero "$O/allocations/x/data"
	slow 1s
	echo 'x u8:1' >"$O/control/fill" &
	writer=$!
	until_it_waits $writer
	kill -TERM "$(<"$T/own/pid")"
	wait $writer
	inject
	broker_ended "$T/own"
}

test_who_reads_what_the_starter_writes_is_let_go()
{
	local said folder=$T/daemon
	mkdir "$folder"
	# a worker with the pipe still open would keep cat waiting
	said=$("${AS[@]}" timeout 20 "$GPUMEMD" --driver "$(driver daemon)" "$folder" 2>&1 </dev/null | timeout 20 cat)
	is "$said" ''
	[ -e "$folder/version" ]
	echo 'd 4K kind=direct' >"$folder/control/alloc"
	umount "$folder" 2>/dev/null || fusermount3 -u "$folder"
	eventually "[ ! -e '$folder/version' ]"
}

test_a_worker_with_nothing_to_hold_ends()
{
	start --worker-idle 1
	echo 'd 1M kind=direct' >"$O/control/alloc"
	[ "$(<"$O/owners/$UID/worker")" != 0 ]
	rmdir "$O/allocations/d"
	eventually "[ \"\$(<'$O/owners/$UID/worker')\" = 0 ]"
	is "$(<"$O/owners/$UID/restarts")" 0
	echo 'd 1M kind=direct' >"$O/control/alloc"
	is "$(<"$O/allocations/d/state")" live
}

test_a_killed_broker_leaves_no_worker_behind()
{
	start
	echo 'd 1M kind=direct' >"$O/control/alloc"
	[ -n "$(workers_of "$T/own")" ]
	kill -KILL "$(<"$T/own/pid")"
	eventually "[ -z \"\$(processes_of '$T/own')\" ]"
}

test_an_unmount_is_refused_while_a_file_is_open()
{
	start
	exec 3<"$O/version"
	fails 'unmount "$O"'
	is "$(cat <&3)" "$(<"$O/version")"
	exec 3<&-
	broker_stop "$T/own"
}

# After a lazy unmount, open files keep the old broker alive. When the last file is closed,
# the old broker must not unmount the next broker.
test_the_late_end_of_a_broker_leaves_the_next_one_there()
{
	start
	exec 3<"$O/version"
	umount -l "$O" 2>/dev/null || fusermount3 -uz "$O"
	mkdir "$T/next"
	ln -s "$O" "$T/next/mnt"
	broker_start "$T/next" --driver "$(driver next)" 3<&-
	echo 'precious 4096' >"$O/control/alloc"
	exec 3<&-
	broker_ended "$T/own"
	is "$(ls "$O/allocations")" precious
	unmount "$O"
	broker_ended "$T/next"
}

test_sigterm_ends_a_broker_that_another_mount_namespace_keeps()
{
	local pid holder
	needs_root 'mount namespaces'
	start
	pid=$(<"$O/pid")
	unshare -m --propagation private bash -c 'cd /; echo ready; exec sleep 1000' >"$T/holder" &
	holder=$!
	eventually "grep -q ready '$T/holder'"
	umount "$O"
	is "$(nsenter -m -t $holder cat "$O/pid")" $pid
	kill -TERM $pid
	broker_ended "$T/own"
	kill $holder
}

test_brokers_do_not_know_each_other()
{
	start
	echo 'x 4096' >"$O/control/alloc"
	is "$(ls "$M/allocations")" ''
	broker_stop "$T/own"
}

test_mount_t_fuse_gpumemd_works()
{
	needs_root 'mount(8)'
	needs_software 'be a second one'
	[ -n "${GPUMEM_MOUNT_HELPER-}" ] || skip 'the build made no mount helper'
	mkdir -p "$T/own/mnt"
	# mount(8) looks only in /sbin, so the helper is run as mount(8) does
	PATH=$(dirname "$GPUMEMD"):$PATH \
		"$GPUMEM_MOUNT_HELPER" none "$T/own/mnt" -o "rw,driver=$(driver own)"
	eventually "is_mounted '$T/own/mnt'"
	like "$(grep -F " $T/own/mnt " /proc/self/mounts)" 'fuse\.gpumemd'
	ls "$T/own/mnt/devices" >/dev/null
	umount "$T/own/mnt"
}

test_quickstart_shows_a_session_and_leaves_the_mount()
{
	local said line build=${GPUMEMD%/fuse/gpumemd}
	needs_software 'be started beside others'
	mkdir -p "$T/clone/tools"
	cp -r "$here/../../docs" "$T/clone"
	cp "$here"/../../tools/{quickstart,common.bash} "$T/clone/tools"
	said=$(GPUMEM_BUILD=$build "$T/clone/tools/quickstart" 2>&1 </dev/null) || fail "$? $said"
	for line in 'bytes on the GPU' 'the same' 'read_mostly 1' 'saxpy' \
		'EFAULT kernel wild' ' ENOMEM allocation toolarge' 'Yours now' "mount.* $T/clone/mnt"; do
		like "$said" "$line"
	done
	is "$(ls "$T/clone/mnt/allocations")" ''
	is "$(ls "$T/clone/mnt/modules")" ''
	unmount "$T/clone/mnt"
	eventually "! is_mounted '$T/clone/mnt'"
}

test_root_serves_all_users_and_others_only_themselves()
{
	local options
	options=$(grep -F " $M " /proc/self/mounts)
	if [ "$(id -u)" = 0 ]; then
		like "$options" 'allow_other'
		like "$options" 'default_permissions'
		is "$(by 1001 run 'ls -d allocations')" allocations
	else
		unlike "$options" 'allow_other'
	fi
	like "$options" ' fuse\.gpumemd '
	like "$options" 'nosuid.*nodev|nodev.*nosuid'
}

main "$@"
