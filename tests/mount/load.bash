#!/bin/bash
# control/load and control/save: files into allocations and back.
. "${BASH_SOURCE%/*}/lib.bash"

me=$(id -u)

# file NAME SIZE: makes $T/NAME of random bytes, readable by everybody.
file()
{
	head -c "$2" /dev/urandom >"$T/$1"
	chmod 644 "$T/$1"
}

# tells VERB LINE: the answer of a line.
tells()
{
	run "exec 3<>control/$1; echo '$2' >&3 && cat <&3"
}

# Starts a load of $T/f into x, 1 s a piece, and waits until a piece is loaded.
slow_load()
{
	slow "${1-1s}"
	"${AS[@]}" bash -c "echo 'x path=$T/f' >control/load" 2>"$T/load_said" &
	loader=$!
	eventually '[[ $(cat allocations/x/progress) =~ ^[1-9][0-9]*\ of ]]'
}

test_a_whole_file_is_loaded_into_each_kind()
{
	local kind
	file f 9000001
	for kind in $kinds; do
		echo "x 9000001 kind=$kind" >control/alloc
		like "$(tells load "x path=$T/f")" '^bytes 9000001'$'\n''elapsed_ns [0-9]+$'
		cmp allocations/x/data "$T/f"
		is "$(<allocations/x/progress)" none
		rmdir allocations/x
	done
}

test_a_whole_allocation_of_each_kind_is_saved()
{
	local kind
	file f 9000001
	for kind in $kinds; do
		echo "x 9000001 kind=$kind" >control/alloc
		cp "$T/f" allocations/x/data
		like "$(tells save "x path=$T/saved")" '^bytes 9000001'
		cmp "$T/f" "$T/saved"
		rm "$T/saved"
		rmdir allocations/x
	done
}

test_ranges_are_loaded_and_nothing_else()
{
	local kind place
	file f 9000000
	for kind in $kinds; do
		echo "x 9000000 kind=$kind" >control/alloc
		for place in '0 1 1' '1 0 8999999' '4095 4097 5000000' '4096 8192 4096' '8999999 8999999 1'; do
			set -- $place
			echo 'x u8:7' >control/fill
			echo "x path=$T/f offset=$1 file_offset=$2 length=$3" >control/load
			cmp allocations/x/data <(head -c "$1" /dev/zero | tr '\0' '\7'
				tail -c +$(($2 + 1)) "$T/f" | head -c "$3"
				head -c $((9000000 - $1 - $3)) /dev/zero | tr '\0' '\7') || fail "$kind $place"
		done
		rmdir allocations/x
	done
}

test_a_range_is_saved_as_a_file_of_its_own()
{
	file f 6000000
	echo 'x 6000000' >control/alloc
	cp "$T/f" allocations/x/data
	echo "x path=$T/saved offset=1000 length=5000001" >control/save
	cmp "$T/saved" <(tail -c +1001 "$T/f" | head -c 5000001)
	refused EINVAL "no key 'file_offset'" "echo 'x path=$T/saved file_offset=1' >control/save"
}

test_a_file_shorter_than_the_allocation_leaves_the_rest()
{
	file f 1000
	echo 'x 4096' >control/alloc
	echo 'x u8:9' >control/fill
	like "$(tells load "x path=$T/f")" '^bytes 1000'
	cmp allocations/x/data <(cat "$T/f"; head -c 3096 /dev/zero | tr '\0' '\11')
}

test_what_is_not_in_the_page_cache_is_loaded_too()
{
	local folder=$T
	[ "$(stat -f -c %T "$T")" != tmpfs ] || folder=$(mktemp -d /var/tmp/gpumem.XXXXXX)
	head -c 20000001 /dev/urandom >"$folder/f"
	sync "$folder/f"
	dd if="$folder/f" iflag=nocache count=0 status=none
	echo 'x 20000001' >control/alloc
	echo 'h 20000001 kind=host' >control/alloc
	echo "x path=$folder/f" >control/load
	cmp allocations/x/data "$folder/f"
	dd if="$folder/f" iflag=nocache count=0 status=none
	echo "h path=$folder/f offset=1 file_offset=5 length=19999996" >control/load
	cmp -n 19999996 <(tail -c +2 allocations/h/data) <(tail -c +6 "$folder/f")
	[ "$folder" = "$T" ] || rm -r "$folder"
}

test_a_path_may_have_blanks_written_in_octal()
{
	file 'a b\c' 4096
	echo 'x 4096' >control/alloc
	echo "x path=$T/a\\040b\\134c" >control/load
	cmp allocations/x/data "$T/a b\\c"
	refused EINVAL 'no byte .000' "printf '%s\\n' 'x path=/a\\000b' >control/load"
}

test_only_absolute_paths_of_regular_files_are_opened()
{
	local verb
	echo 'x 4096' >control/alloc
	echo 'y 4096' >control/alloc
	mkfifo "$T/fifo"
	ln -s "$T/nowhere" "$T/dangling"
	for verb in load save; do
		refused EINVAL 'path=FILE is missing' "echo x >control/$verb"
		refused EINVAL 'path=f is not absolute' "echo 'x path=f' >control/$verb"
		refused EISDIR "$T is a folder" "echo 'x path=$T' >control/$verb"
		refused EINVAL 'fifo is not a regular file' "echo 'x path=$T/fifo' >control/$verb"
		refused EINVAL '/dev/zero is not a regular file' "echo 'x path=/dev/zero' >control/$verb"
		refused EINVAL 'in a mount of gpumemd.*control/copy' "echo 'x path=$M/allocations/x/data' >control/$verb"
		refused EINVAL 'in a mount of gpumemd' "echo 'x path=$M/allocations/y/data' >control/$verb"
		refused ENOENT "uid $me can't .*$T/nowhere/f: No such file" "echo 'x path=$T/nowhere/f' >control/$verb"
		refused ENOENT 'dangling: No such file' "echo 'x path=$T/dangling' >control/$verb"
		refused ENOENT 'no allocation none' "echo 'none path=$T/f' >control/$verb"
	done
	refused EINVAL 'in a mount of gpumemd' "echo 'x path=$M/allocations/new' >control/save"
	refused ENOENT 'none: No such file' "echo 'x path=$T/none' >control/load"
	is_zero allocations/x/data
}

test_ranges_are_checked()
{
	file f 10000
	: >"$T/empty"
	echo 'x 4096' >control/alloc
	refused ERANGE 'f \(10000 bytes\) does not fit into x \(4 KiB\): length=4K loads a part' "echo 'x path=$T/f' >control/load"
	refused ERANGE 'the rest of .*f \(5.*does not fit into the rest of x' "echo 'x path=$T/f file_offset=5000 offset=1' >control/load"
	refused ERANGE 'f has 1000 bytes, length=2000 is more' "echo 'x path=$T/f file_offset=9000 length=2000' >control/load"
	refused ERANGE 'nothing to load at file_offset=10000' "echo 'x path=$T/f file_offset=10000' >control/load"
	refused ERANGE 'empty has 0 bytes: there is nothing to load' "echo 'x path=$T/empty' >control/load"
	refused ERANGE 'no room for 5000 bytes' "echo 'x path=$T/f length=5000' >control/load"
	refused EOVERFLOW 'past all files' "echo 'x path=$T/f file_offset=18446744073709551615' >control/load"
	is_zero allocations/x/data
	echo "x path=$T/f length=4K" >control/load
	cmp -n 4096 allocations/x/data "$T/f"
}

test_only_the_file_of_file_id_is_loaded()
{
	local id word
	file f 4096
	file another 4096
	id=$(stat -c %d:%i "$T/f")
	echo 'x 4096' >control/alloc
	echo "x path=$T/f file_id=$id" >control/load
	cmp allocations/x/data "$T/f"
	ln -sfn "$T/another" "$T/name"
	refused ESTALE "name is another file than that of file_id=" \
		"echo 'x path=$T/name file_id=$id' >control/load"
	cmp allocations/x/data "$T/f"
	for word in 1 1: :1 1:0 1:2:3 1:x -1:2 "$id:"; do
		refused EINVAL "file_id=$word is not DEVICE:INODE" "echo 'x path=$T/f file_id=$word' >control/load"
	done
	refused EINVAL "no key 'file_id'" "echo 'x path=$T/f file_id=$id' >control/save"
}

test_a_saved_file_replaces_the_old_one_when_it_is_complete()
{
	file old 100
	echo 'x 9000000' >control/alloc
	cp "$T/old" "$T/f"
	chmod 640 "$T/f"
	ln -s f "$T/link"
	slow 1s
	echo "x path=$T/link" >control/save &
	eventually "[ \"\$(cat allocations/x/progress)\" != none ]"
	cmp "$T/f" "$T/old"
	inject
	wait $!
	[ -L "$T/link" ]
	is "$(stat -c '%s %a' "$T/f")" '9000000 640'
	is "$(find "$T" -maxdepth 1 -name '.*' -type f)" ''
}

test_a_file_that_is_saved_twice_at_a_time_has_its_name()
{
	echo 'x 4K' >control/alloc
	mkdir "$T/twice"
	save() { for _ in {1..200}; do echo "x path=$T/twice/f" || return; done >control/save; }
	save &
	save
	wait $!
	is "$(ls -A "$T/twice")" f
}

test_a_new_file_is_as_open_as_the_allocation()
{
	echo 'x 4096' >control/alloc
	echo 'y 4096 mode=0666' >control/alloc
	echo "x path=$T/x" >control/save
	echo "y path=$T/y" >control/save
	is "$(stat -c %a "$T/x" "$T/y" | xargs)" '600 644'
}

test_progress_is_shown_while_it_runs()
{
	local before
	file f 40000000
	echo 'x 40000000 mode=0644' >control/alloc
	slow_load
	like "$(<allocations/x/progress)" '^[0-9]+ of 40000000$'
	eventually '[[ $(cat allocations/x/progress) =~ ^[1-9][0-9]*\ of\ 40000000$ ]]'
	is "$(<allocations/x/state)" busy
	inject
	wait $loader
	is "$(<allocations/x/progress)" none
	cmp allocations/x/data "$T/f"
}

test_later_uses_wait_for_a_load_and_it_for_earlier_ones()
{
	file f 9000000
	echo 'x 9000000' >control/alloc
	echo 'y 9000000' >control/alloc
	slow 300ms
	echo 'x u8:7 wait=0' >control/fill
	echo "x path=$T/f wait=0" >control/load
	echo 'y from=x wait=0' >control/copy
	echo 'x u8:1 offset=0 length=1 wait=0' >control/fill
	echo "y path=$T/saved wait=0" >control/save
	inject
	cmp allocations/y/data "$T/f"
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 1
	eventually "cmp '$T/saved' '$T/f'"
}

test_a_failure_of_a_load_that_nobody_waits_for_is_in_errors()
{
	echo 'x 4096' >control/alloc
	echo "x path=$T/none wait=0" >control/load
	eventually "tail -n 1 errors | grep -q 'control/load ENOENT .*$T/none'"
}

test_ctrl_c_ends_a_load_and_the_rest_is_zero()
{
	local loaded
	file f 60000000
	echo 'x 60000000' >control/alloc
	echo 'x u8:7' >control/fill
	slow 500ms
	python3 -c "from syscalls import *
signal.signal(signal.SIGINT, lambda *_: None)
print(raw_write(control('load'), b'x path=$T/f'), flush=True)" >"$T/result" &
	loader=$!
	eventually '[[ $(cat allocations/x/progress) =~ ^[1-9][0-9]*\ of ]]'
	kill -INT $loader
	wait $loader
	is "$(<"$T/result")" EINTR
	inject
	eventually 'tail -n 1 errors | grep -q "control/load EINTR load of x was interrupted; .* are loaded, the rest is zero"'
	loaded=$(cmp allocations/x/data "$T/f" | sed -n 's/.* byte \([0-9]*\),.*/\1/p')
	[ "${loaded:=0}" -gt 1 ] || fail "differs at ${loaded}"
	cmp -n $((60000000 - (loaded - 1 + 4194304))) <(tail -c +$((loaded + 4194304)) allocations/x/data) /dev/zero
	# and the next begins anew
	echo "x path=$T/f" >control/load
	cmp allocations/x/data "$T/f"
}

test_a_load_that_waits_for_its_turn_leaves_the_memory_as_it_was()
{
	file f 4096
	echo 'x 4096' >control/alloc
	slow 2s
	echo 'x u8:7 wait=0' >control/fill
	python3 -c "from syscalls import *
signal.signal(signal.SIGINT, lambda *_: None)
print(raw_write(control('load'), b'x path=$T/f'), flush=True)" >"$T/result" &
	until_it_waits $!
	kill -INT $!
	wait $!
	is "$(<"$T/result")" EINTR
	inject
	is "$(od -A n -t u1 allocations/x/data | tr -s ' ' '\n' | sort -u | xargs)" '* 7'
}

test_a_file_that_becomes_shorter_is_told()
{
	file f 60000000
	echo 'x 60000000' >control/alloc
	echo 'x u8:7' >control/fill
	slow_load
	truncate -s 50000000 "$T/f"
	inject
	fails 'wait $loader'
	like "$(tail -n 1 errors)" 'control/load ENODATA load of x failed: .*/f has become shorter and ends at byte 50000000; 47.7 MiB .* of 57.2 MiB .* are loaded, the rest is zero'
	cmp -n 50000000 allocations/x/data "$T/f"
	cmp -n 10000000 <(tail -c +50000001 allocations/x/data) /dev/zero
}

test_a_worker_that_is_killed_fails_the_load_and_its_range_is_zero()
{
	file f 40000000
	echo 'x 50000000' >control/alloc
	echo 'x u8:7' >control/fill
	slow_load
	kill -KILL "$(<"owners/$me/worker")"
	fails 'wait $loader'
	like "$(tail -n 1 errors)" 'control/load EIO load of x: the worker was killed by signal 9 before it was done; 0 bytes of 38.1 MiB .* are loaded, the rest is zero'
	inject
	cmp -n 40000000 allocations/x/data /dev/zero
	is "$(tail -c 1 allocations/x/data | od -A n -t u1 | xargs)" 7
	echo "x path=$T/f" >control/load
	cmp -n 40000000 allocations/x/data "$T/f"
}

# Mode 0660 with the saver's own group would let other users in.
test_a_saved_file_lets_nobody_in_whom_the_old_one_kept_out()
{
	needs_root 'groups'
	mkdir "$T/theirs"
	: >"$T/theirs/f"
	chown 1001:1 "$T/theirs" "$T/theirs/f"
	chmod 660 "$T/theirs/f"
	echo 'x 4096 mode=0644' >control/alloc
	echo "x path=$T/theirs/f" >control/save
	is "$(stat -c '%g %a %s' "$T/theirs/f")" '1 660 4096'
	chown 1001:1 "$T/theirs/f"
	chmod 755 "$T"
	by 1001 run "echo 'x path=$T/theirs/f' >control/save"
	is "$(stat -c '%u %a %s' "$T/theirs/f")" '1001 600 4096'
}

test_a_worker_that_is_killed_leaves_no_half_saved_file()
{
	echo 'x 40000000' >control/alloc
	rm -f "$T/saved"
	slow 1s
	echo "x path=$T/saved" >control/save 2>"$T/said_save" &
	eventually '[[ $(cat allocations/x/progress) =~ ^[1-9][0-9]*\ of ]]'
	kill -KILL "$(<"owners/$me/worker")"
	fails 'wait $!'
	inject
	like "$(tail -n 1 errors)" 'control/save EIO save of x: the worker was killed by signal 9 before it was done; the file is as it was'
	[ ! -e "$T/saved" ]
	is "$(find "$T" -maxdepth 1 -name '.*' -type f)" ''
}

test_a_loader_that_is_killed_stops_its_load_and_the_next_starts_clean()
{
	file f 40000000
	echo 'x 40000000' >control/alloc
	slow_load
	kill -KILL $loader
	fails 'wait $loader'
	inject
	echo "x path=$T/f" >control/load
	cmp allocations/x/data "$T/f"
}

test_two_loaders_at_once_take_turns()
{
	file f 20000000
	file g 20000000
	echo 'x 20000000' >control/alloc
	slow_load 200ms
	echo "x path=$T/g" >control/load
	inject
	wait $loader
	cmp allocations/x/data "$T/g"
}

test_many_loads_at_once_share_the_lanes()
{
	local i
	file f 30000000
	for i in 1 2 3 4 5 6 7 8; do
		echo "x$i 30000000" >control/alloc
		echo "x$i path=$T/f wait=0" >control/load
	done
	for i in 1 2 3 4 5 6 7 8; do
		cmp "allocations/x$i/data" "$T/f"
	done
}

test_an_allocation_may_be_freed_during_its_load()
{
	file f 20000000
	echo 'x 20000000' >control/alloc
	slow_load 200ms
	rmdir allocations/x
	[ ! -e allocations/x ]
	inject
	wait $loader
	eventually '[ "$(value_of status device_bytes)" = 0 ]'
}

test_a_reset_ends_a_load()
{
	file f 40000000
	echo 'x 40000000' >control/alloc
	echo 'x u8:7' >control/fill
	slow_load
	inject
	echo 1 >"owners/$me/reset"
	! wait $loader || cmp allocations/x/data "$T/f"
	[ ! -s "$T/load_said" ] || is_zero allocations/x/data
}

# brittle_mount: mounts the files of $T/files on $T/brittle (brittle.c).
brittle_mount()
{
	mkdir "$T/files" "$T/brittle"
	ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" "$build/tests/mount/brittle" "$T/files" "$T/brittle" &
	eventually 'is_mounted "$T/brittle"'
}

brittle_unmount()
{
	unmount "$T/brittle"
	wait
	rm -r "$T/files" "$T/brittle"
}

test_a_file_that_cannot_be_read_is_told_with_the_place()
{
	brittle_mount
	file files/broken 20000000
	echo 'x 20000000' >control/alloc
	echo 'x u8:7' >control/fill
	refused EIO 'load of x failed at byte 8388608 of .*/brittle/broken: Input/output error; 8 MiB of 19.1 MiB .* are loaded, the rest is zero' "echo 'x path=$T/brittle/broken' >control/load"
	cmp -n 8388608 allocations/x/data "$T/files/broken"
	cmp -n 11611392 <(tail -c +8388609 allocations/x/data) /dev/zero
	brittle_unmount
}

# The kernel would take ENOSYS for an answer about all closes of the mount.
test_a_file_without_reads_is_told_and_concerns_no_other_call()
{
	brittle_mount
	file files/error-38 4096
	echo 'x 4096' >control/alloc
	refused EOPNOTSUPP 'load of x failed at byte 0 of .*: Operation not supported' "echo 'x path=$T/brittle/error-38' >control/load"
	is "$(py "$T/brittle/error-38" <<-'EOF'
		def told_by_close(path, text):
		    fd = os.open(path, os.O_WRONLY)
		    os.write(fd, text)
		    try:
		        os.close(fd)
		    except OSError as error:
		        print(errno.errorcode[error.errno])
		# A line that fills its write and has no end is run by the close.
		told_by_close("control/load", f"x path={sys.argv[1]}".rjust(4096).encode())
		# of a length that the write does not look at
		told_by_close("allocations/x/tensors", b"{".ljust(200000))
	EOF
	)" $'ENOTSUP\nEINVAL'
	brittle_unmount
}

test_a_file_is_saved_where_each_file_needs_a_name()
{
	brittle_mount
	file f 9000000
	echo 'x 9000000' >control/alloc
	echo "x path=$T/f" >control/load
	echo "x path=$T/brittle/saved" >control/save
	cmp "$T/files/saved" "$T/f"
	echo 'x u8:7' >control/fill
	slow 1s
	"${AS[@]}" bash -c "echo 'x path=$T/brittle/saved' >control/save" 2>/dev/null &
	eventually '[[ $(cat allocations/x/progress) =~ ^[1-9] ]]'
	like "$(ls -A "$T/files")" '^\.gpumem-[0-9-]+'$'\n''saved$'
	kill -KILL $!
	fails 'wait $!'
	inject
	eventually '[ "$(ls -A "$T/files")" = saved ]'
	cmp "$T/files/saved" "$T/f"
	is "$(stat -c %a "$T/files/saved")" 600
	brittle_unmount
}

# A file system that never answers: another broker's, which stands.
test_a_file_system_that_hangs_holds_up_that_load_alone()
{
	local stuck
	file f 4096
	broker_start "$T/other" --driver "$(driver other)"
	echo 'x 4096' >control/alloc
	echo 'x u8:7' >control/fill
	echo 'y 4096' >control/alloc
	stop "$(<"$T/other/pid")"
	echo "x path=$T/other/mnt/README" >control/load 2>/dev/null &
	stuck=$!
	until_it_waits $stuck
	echo "y path=$T/f" >control/load
	cmp allocations/y/data "$T/f"
	kill -INT $stuck
	eventually '! kill -0 $stuck'
	echo 1 >"owners/$me/reset"
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 7
	kill -CONT "$(<"$T/other/pid")"
	# The process that opened README is ended, and lets go of the mount when that answers.
	eventually 'unmount "$T/other/mnt" 2>"$T/busy"'
	broker_ended "$T/other"
}

test_buffers_are_kept_for_the_next_load_and_given_back_after_a_while()
{
	local worker
	undying
	broker_start "$T/other" --driver "$(driver other)" --worker-idle 3
	file f 9000000
	cd "$T/other/mnt"
	# it keeps the worker
	echo 'm 4096 kind=managed' >control/alloc
	worker=$(<"owners/$me/worker")
	echo 'x 9000000' >control/alloc
	echo "x path=$T/f" >control/load
	grep -q gpumem-lane "/proc/$worker/maps"
	eventually "! grep -q gpumem-lane /proc/$worker/maps"
	is "$(<"owners/$me/worker")" "$worker"
	echo "x path=$T/f" >control/load
	cmp allocations/x/data "$T/f"
	cd "$M"
	broker_stop "$T/other"
}

# ---- who may ----

test_files_are_opened_with_the_rights_of_the_caller()
{
	needs_root 'users'
	file f 4096
	echo 'x 4096 mode=0666' >control/alloc
	chmod 600 "$T/f"
	by 1001 refused EACCES "uid 1001 can't open .*/f: Permission denied" "echo 'x path=$T/f' >control/load"
	is_zero allocations/x/data
	by 1001 refused EACCES "uid 1001 can't write .*/f: Permission denied" "echo 'x path=$T/f' >control/save"
	by 1001 refused EACCES "uid 1001 can't write .*/new: Permission denied" "echo 'x path=$T/new' >control/save"
	chmod 644 "$T/f"
	by 1001 run "echo 'x path=$T/f' >control/load"
	cmp allocations/x/data "$T/f"
	mkdir -p -m 777 "$T/theirs"
	by 1001 run "echo 'x path=$T/theirs/f' >control/save"
	is "$(stat -c %u "$T/theirs/f")" 1001
}

# Its process has them open, wherever they are.
test_the_output_of_the_broker_is_no_file_to_load()
{
	echo 'x 4K' >control/alloc
	for fd in 1 2; do
		refused EACCES "can't open /proc/self/fd/$fd: Permission denied" "echo 'x path=/proc/self/fd/$fd' >control/load"
	done
}

test_allocations_are_used_with_the_rights_of_the_caller()
{
	needs_root 'users'
	file f 4096
	mkdir -p -m 777 "$T/theirs"
	echo 'x 4096' >control/alloc
	echo 'r 4096 mode=0644' >control/alloc
	echo 'm 4096 kind=managed mode=0666' >control/alloc
	by 1001 refused EACCES 'may not write allocation x' "echo 'x path=$T/f' >control/load"
	by 1001 refused EACCES 'may not read allocation x' "echo 'x path=$T/theirs/f' >control/save"
	by 1001 refused EACCES 'may not write allocation r' "echo 'r path=$T/f' >control/load"
	by 1001 run "echo 'r path=$T/theirs/f' >control/save"
	by 1001 refused EXDEV 'allocation m of kind managed lives in the worker of uid 0' "echo 'm path=$T/f' >control/load"
}

test_a_guest_who_is_shut_off_loses_the_memory_after_the_load()
{
	needs_root 'users'
	file f 20000000
	echo 'x 20000000 mode=0666' >control/alloc
	slow 300ms
	by 1001 run "echo 'x path=$T/f' >control/load" &
	eventually "[ \"\$(cat allocations/x/progress)\" != none ]"
	chmod 600 allocations/x
	by 1001 denied EACCES 'cat allocations/x/progress'
	echo 'x u8:7 offset=0 length=1 wait=0' >control/fill
	inject
	wait $!
	cmp <(tail -c +2 allocations/x/data) <(tail -c +2 "$T/f")
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 7
}

# The file is of another broker, which stands.
test_a_guest_whose_file_hangs_is_ended_when_it_is_shut_off()
{
	local hung guest
	needs_root 'users'
	undying
	broker_start "$T/other" --driver "$(driver other)"
	broker_start "$T/short" --driver "$(driver short)" --give-back-timeout 1
	cd "$T/short/mnt"
	echo 'x 4096 mode=0666' >control/alloc
	by 1001 run "echo 'mine 4096 kind=managed' >control/alloc"
	guest=$(<owners/1001/worker)
	stop "$(<"$T/other/pid")"
	by 1001 run "echo 'x path=$T/other/mnt/README' >control/load" 2>/dev/null &
	hung=$!
	eventually "[ \"\$(cat allocations/x/progress)\" != none ]"
	chmod 600 allocations/x
	fails 'wait $hung'
	by 1001 like "$(tail -n 3 errors)" "worker of uid 1001 was ended: a load still used allocation x 1 s after that was shut off"
	[ "$(<owners/1001/worker)" != "$guest" ]
	echo 'x u8:7' >control/fill
	kill -CONT "$(<"$T/other/pid")"
	cd "$M"
	broker_stop "$T/short"
	broker_stop "$T/other"
}

test_a_program_with_another_root_is_refused()
{
	needs_root 'namespaces'
	file f 4096
	rm -f "$T/g"
	echo 'x 4096' >control/alloc
	refused EXDEV 'does not see the files that the broker sees' "unshare -m bash -c \"echo 'x path=$T/f' >control/load\""
	refused EXDEV 'does not see the files that the broker sees' "unshare -m bash -c \"echo 'x path=$T/g' >control/save\""
	[ ! -e "$T/g" ]
	is_zero allocations/x/data
}

# A write of 4096 bytes without a newline waits for close(2).
test_a_descriptor_from_a_program_with_another_root_is_refused()
{
	needs_root 'namespaces'
	file f 4096
	rm -f "$T/g"
	echo 'x 4096' >control/alloc
	python3 - "$T/f" "$T/g" <<-'EOF'
		import ctypes, errno, os, socket, sys

		UNSHARE_MOUNTS = 0x00020000
		libc = ctypes.CDLL(None, use_errno=True)

		def line(path):
		    return f"x path={path}".encode().ljust(4096)

		# A container opens the file, writes the text and passes the descriptor.
		def handed(verb, text):
		    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		    child = os.fork()
		    if not child:
		        ours.close()
		        assert libc.unshare(UNSHARE_MOUNTS) == 0
		        fd = os.open("control/" + verb, os.O_WRONLY)
		        if text:
		            os.write(fd, text)
		        socket.send_fds(theirs, [b"x"], [fd])
		        theirs.recv(1)
		        os._exit(0)
		    theirs.close()
		    return socket.recv_fds(ours, 1, 1)[1][0], ours, child

		def refused(do):
		    try:
		        do()
		    except OSError as error:
		        assert error.errno == errno.EXDEV, error
		        return
		    raise AssertionError("not refused")

		for verb, path in ("load", sys.argv[1]), ("save", sys.argv[2]):
		    # The whole line is the container's: close runs it.
		    fd, peer, child = handed(verb, line(path))
		    refused(lambda: os.close(fd))
		    peer.close()
		    os.waitpid(child, 0)
		    # The container has opened the file; a program outside writes the line, or its end.
		    for text in b"", line(path):
		        fd, peer, child = handed(verb, text)
		        refused(lambda: os.write(fd, b"\n" if text else line(path).strip()))
		        os.close(fd)
		        peer.close()
		        os.waitpid(child, 0)
		    # The file was opened outside; the container writes the line, or its beginning.
		    fd = os.open("control/" + verb, os.O_WRONLY)
		    child = os.fork()
		    if not child:
		        assert libc.unshare(UNSHARE_MOUNTS) == 0
		        os.write(fd, line(path))
		        os.kill(os.getpid(), 19)
		        os._exit(0)
		    os.waitpid(child, os.WUNTRACED)
		    refused(lambda: os.write(fd, b"\n"))
		    os.kill(child, 9)
		    os.waitpid(child, 0)
		    # The next line is no longer the container's.
		    if verb == "load":
		        os.write(fd, line(path).strip())
		        assert open("allocations/x/data", "rb").read() == open(path, "rb").read()
		    os.close(fd)
	EOF
	like "$(tail -n 1 errors)" 'does not see the files that the broker sees'
	[ ! -e "$T/g" ]
}

test_a_disk_that_is_full_is_told_and_nothing_is_left_on_it()
{
	needs_root 'a disk'
	mkdir "$T/full"
	mount -t tmpfs -o size=5M none "$T/full"
	echo 'x 9000000' >control/alloc
	echo old >"$T/full/f"
	refused ENOSPC 'save of x failed at byte [0-9]+ of .*/full/f: No space left on device; the file is as it was' "echo 'x path=$T/full/f' >control/save"
	is "$(<"$T/full/f")" old
	is "$(ls -A "$T/full")" f
	umount "$T/full"
}

test_a_file_is_closed_when_its_line_is_answered()
{
	local i

	needs_root 'a disk'
	mkdir "$T/disk"
	echo 'x 4000000' >control/alloc
	for i in {1..10}; do
		mount -t tmpfs -o size=5M none "$T/disk"
		echo "x path=$T/disk/f" >control/save
		umount "$T/disk"
		mount -t tmpfs -o size=5M none "$T/disk"
		truncate -s 4000000 "$T/disk/f"
		echo "x path=$T/disk/f" >control/load
		umount "$T/disk"
		mount -t tmpfs -o size=5M none "$T/disk"
		truncate -s 3M "$T/disk/f"
		refused ERANGE 'length=4000000 is more' \
			"echo 'x path=$T/disk/f length=4000000' >control/load"
		umount "$T/disk"
	done
	# The kernel takes its time to free the pages of a draft.
	echo 'large 400M' >control/alloc
	mount -t tmpfs -o size=300M none "$T/disk"
	refused ENOSPC 'No space left' "echo 'large path=$T/disk/f' >control/save"
	umount "$T/disk"
}

test_small_things_of_others_go_on_while_a_load_runs()
{
	needs_root 'users'
	file f 60000000
	echo 'x 60000000' >control/alloc
	by 1001 run "echo 'y 4096' >control/alloc"
	inject 'delay=cuMemcpyHtoDAsync_v2@*=200ms'
	echo "x path=$T/f" >control/load &
	eventually '[[ $(cat allocations/x/progress) =~ ^[1-9][0-9]*\ of ]]'
	by 1001 run "echo 'y u8:7' >control/fill && cat allocations/y/data >/dev/null"
	[[ $(<allocations/x/progress) != none ]]
	inject
	wait $!
}

main "$@"
