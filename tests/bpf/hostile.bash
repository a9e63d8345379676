#!/bin/bash
# Other users' processes, whose mappings, paths and files are made to harm the tool.
. "${BASH_SOURCE%/*}/lib.bash"

# another ARGUMENT... <<CODE: runs Python as another user, in the folder $T/other, until
# another_ends. The program makes the folder `ready`.
another()
{
	[ "$(id -u)" = 0 ] || skip 'takes two users'
	chmod 755 "$T"
	mkdir -m 777 "$T/other"
	cat >"$T/another.py"
	(cd "$T/other" && PATH=/usr/bin:/bin exec setpriv --reuid=64302 --regid=64302 \
		--clear-groups python3 "$T/another.py" "$@") &
	lessee=$!
	eventually "[ -e '$T/other/ready' ]"
}

another_ends()
{
	kill "$lessee"
	wait "$lessee" || true
	lessee=
}

# A path that is as long as the buffer of a reader who reads maps by pieces of 4199
# characters. The next piece begins with `../cwd/link`, which leads from map_files to a file.
test_no_path_in_the_mappings_leads_the_tool_to_another_file()
{
	echo bait >"$T/bait"
	chmod 644 "$T/bait"
	another "$T/bait" <<-'EOF'
		import mmap, os, signal, sys
		top = os.getcwd()
		kept = []
		for shift in range(-3, 4):
		    os.chdir(top)
		    os.mkdir("t%d" % shift)
		    os.chdir("t%d" % shift)
		    left = 4199 - 73 - 1 - len(os.getcwd()) + shift  # a name begins at column 73
		    while left > 263:
		        os.mkdir("d" * 200)
		        os.chdir("d" * 200)
		        left -= 201
		    if left > 250:
		        os.mkdir("d" * 100)
		        os.chdir("d" * 100)
		        left -= 101
		    for name in ("e" * (left - 1) + "..", "cwd", "link "):
		        os.mkdir(name)
		        os.chdir(name)
		    with open("libcuda.so.1", "wb") as library:
		        library.write(b"x" * 4096)
		    file = os.open("libcuda.so.1", os.O_RDONLY)
		    kept.append(mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ))
		os.chdir(top)
		os.symlink(sys.argv[1], "link")
		os.mkdir("ready")
		signal.pause()
	EOF
	cat >"$T/watch.py" <<-'EOF'
		import ctypes, os, subprocess, sys
		libc = ctypes.CDLL(None)
		IN_OPEN, IN_NONBLOCK = 0x20, 0x800
		queue = libc.inotify_init1(IN_NONBLOCK)
		assert libc.inotify_add_watch(queue, sys.argv[1].encode(), IN_OPEN) > 0
		subprocess.run(sys.argv[2:], timeout=50, capture_output=True)
		try:
		    os.read(queue, 4096)
		    sys.exit("it was opened")
		except BlockingIOError:
		    pass
	EOF
	python3 "$T/watch.py" "$T/bait" "$GPUMEM_TRACE" --summary -d 0.1 ||
		fail 'the tool opened a file of the choice of another user'
	another_ends
}

# with_library PATH: starts a program that has mapped the library at PATH, until the end of the
# case.
with_library()
{
	"$C" "$1" >"$T/calls" <<-EOF &
		cuInit 0
		pid $1.ready
		wait $T/never
	EOF
	pretenders+=($!)
	eventually "[ -s '$1.ready' ]"
}

# The user could keep the page of a probe from Linux, which keeps all fork(2) waiting.
test_a_library_in_a_file_system_of_a_user_is_left_out()
{
	[ "$(id -u)" = 0 ] || skip 'needs root: mounts'
	local place why="its file system is a user's, who could keep all processes waiting"
	mkdir "$T"/{files,served,low,over,a}
	for place in files low a; do
		cp "$P" "$T/$place/libcuda.so.1"
	done
	mounted+=("$T/served")
	ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" "$GPUMEM_BRITTLE" "$T/files" "$T/served" &
	pretenders+=($!)
	eventually "[ -e '$T/served/libcuda.so.1' ]"
	with_library "$T/served/libcuda.so.1"
	# Another namespace has this mount alone.
	unshare --user --map-root-user --mount bash -c \
		'mount -t overlay -o lowerdir="$1/low:$1/a" overlay "$1/over" && exec "$2" "$1/over/libcuda.so.1"' \
		- "$T" "$C" >"$T/calls" <<-EOF &
		cuInit 0
		pid $T/low/ready
		wait $T/never
	EOF
	pretenders+=($!)
	eventually "[ -s '$T/low/ready' ]"
	with_library "$T/a/libcuda.so.1"
	begin --json -d 0.1
	ends
	like "$(<"$T/err")" "left out $T/served/libcuda.so.1: $why"
	like "$(<"$T/err")" "left out $T/over/libcuda.so.1: $why"
	unlike "$(<"$T/err")" "probing $T/(served|over)/"
	like "$(<"$T/err")" "probing $T/a/"
	begin --library "$T/served/libcuda.so.1" --json -d 0.1
	ends
	like "$(<"$T/err")" "probing $T/served/"
}

test_only_libraries_of_the_processes_asked_for_are_probed()
{
	mkdir "$T/a" "$T/b"
	cp "$P" "$T/a/libcuda.so.1"
	cp "$P" "$T/b/libcuda.so.1"
	with_library "$T/a/libcuda.so.1"
	with_library "$T/b/libcuda.so.1"
	begin --json -d 0.1 -p "$(<"$T/b/libcuda.so.1.ready")"
	ends
	like "$(<"$T/err")" "probing $T/b/"
	unlike "$(<"$T/err")" "$T/a/"
	begin --json -d 0.1 -u "$(id -u)"
	ends
	like "$(<"$T/err")" "probing $T/a/"
	like "$(<"$T/err")" "probing $T/b/"
}

test_only_libraries_of_the_user_asked_for_are_probed()
{
	mkdir "$T/a"
	cp "$P" "$T/a/libcuda.so.1"
	with_library "$T/a/libcuda.so.1"
	begin --json -d 0.1 -u 64303
	local pid=$tool
	tool=
	wait "$pid" || true # without a library there is nothing to do
	unlike "$(<"$T/err")" "$T/a/"
}

# For each frame outside of the code that is known, the code may have been loaded since.
test_a_process_with_thousands_of_mappings_is_not_read_for_each_call()
{
	local i before
	start -s
	{
		echo 'mappings 30000'
		for i in {1..100}; do
			echo "stray 0x1000000${i}001"
			echo 'cuMemAlloc_v2 &p 16'
		done
		echo "pid $T/called"
		echo "wait $T/never"
	} | "$C" "$L" >"$T/calls" &
	pretenders+=($!)
	eventually "[ -s '$T/called' ]"
	before=$SECONDS
	stop
	[ $((SECONDS - before)) -lt 10 ] || fail "the tool ended $((SECONDS - before)) s after Ctrl-C"
}

# maps_libraries UID N: starts a program of the user with N copies of the library mapped,
# $T/UID/libcuda.so.*, until the end of the case.
maps_libraries()
{
	[ "$(id -u)" = 0 ] || skip 'needs root: another user'
	chmod 755 "$T"
	install -m 644 "$P" "$T/copied"
	mkdir "$T/$1"
	chown "$1" "$T/$1"
	PATH=/usr/bin:/bin setpriv --reuid="$1" --regid="$1" --clear-groups \
		python3 - "$T/$1" "$2" "$T/copied" <<-'EOF' &
		import mmap, shutil, sys, time
		folder, n, library = sys.argv[1:]
		maps = []
		for i in range(int(n)):
		    path = f"{folder}/libcuda.so.{i}"
		    shutil.copy(library, path)
		    with open(path, "rb") as file:
		        maps.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
		open(folder + "/ready", "w")
		time.sleep(100)
	EOF
	pretenders+=($!)
	eventually "[ -e '$T/$1/ready' ]"
}

# Each file is read as a whole.
test_a_user_with_many_libraries_keeps_no_other_from_being_traced()
{
	maps_libraries 64301 50
	mkdir "$T/a"
	cp "$P" "$T/a/libcuda.so.1"
	with_library "$T/a/libcuda.so.1"
	begin --json -d 0.1
	ends
	like "$(<"$T/err")" "probing $T/a/"
	is "$(grep -c "probing $T/64301/" "$T/err")" 16
	is "$(grep "left out $T/64301/" "$T/err" | cut -d : -f 3)" ' Too many open files'
}

# Calls come faster than they are read, so there is always one more to show.
test_calls_without_end_do_not_keep_the_tool()
{
	local i before
	for i in 1 2; do
		printf '%s\n' "$prepare" quiet 'loop 1000000000' \
			'cuMemAlloc_v2 &a 16' 'cuMemFree_v2 $a' end | "$C" "$L" >/dev/null &
		pretenders+=($!)
	done
	before=$SECONDS
	python3 -c 'import os, time
while os.read(0, 65536):
    time.sleep(0.05)' < <(exec "$GPUMEM_TRACE" --library "$L" -d 1)
	[ $((SECONDS - before)) -lt 40 ] || fail "the tool ended after $((SECONDS - before)) s"
}

# The kernel puts no probe on `hlt`.
test_a_library_that_takes_no_probes_keeps_no_other_from_being_traced()
{
	mkdir "$T/a" "$T/b"
	cp "$P" "$T/a/libcuda.so.1"
	cp "$P" "$T/b/libcuda.so.1"
	printf '\xf4' | dd of="$T/a/libcuda.so.1" bs=1 conv=notrunc status=none \
		seek=$((16#$(nm -D "$P" | awk '$3 == "cuMemAlloc_v2" { print $1 }')))
	with_library "$T/a/libcuda.so.1"
	with_library "$T/b/libcuda.so.1"
	begin --json -d 0.1
	ends
	like "$(<"$T/err")" "left out $T/a/libcuda.so.1: Operation not supported"
	like "$(<"$T/err")" "probing $T/b/"
}

# Without CAP_SYS_ADMIN the kernel opens no file by its mapping, and the path may lead to
# another file by now.
test_by_its_path_a_library_is_probed_only_if_it_is_the_one_mapped()
{
	chmod 755 "$T"
	mkdir -m 777 "$T/same" "$T/other"
	cp "$P" "$T/same/libcuda.so.1"
	cp "$P" "$T/other/libcuda.so.1"
	chmod 755 "$T"/*/libcuda.so.1
	cat >"$T/map.py" <<-'EOF'
		import mmap, os, signal, sys
		kept = []
		for path in sys.argv[1:]:
		    file = os.open(path, os.O_RDONLY)
		    kept.append(mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ))
		print("mapped", flush=True)
		signal.pause()
	EOF
	local user=(env PATH=/usr/bin:/bin setpriv --reuid=64302 --regid=64302 --clear-groups)
	"${user[@]}" python3 "$T/map.py" "$T/same/libcuda.so.1" "$T/other/libcuda.so.1" >"$T/mapped" &
	lessee=$!
	eventually "[ -s '$T/mapped' ]"
	rm "$T/other/libcuda.so.1"
	cp "$P" "$T/other/libcuda.so.1 (deleted)"
	chmod 755 "$T/other/libcuda.so.1 (deleted)"
	has_way_of_caps || skip 'this kernel has no uprobe_multi links'
	"${user[@]}" --inh-caps=+bpf,+perfmon --ambient-caps=+bpf,+perfmon \
		"$GPUMEM_TRACE" -v --json -d 0.1 >"$T/out" 2>"$T/err" || fail "$(<"$T/err")"
	like "$(<"$T/err")" "probing $T/same/"
	unlike "$(<"$T/err")" "probing $T/other/"
	like "$(<"$T/err")" "left out $T/other/.*: Stale file handle"
	another_ends
}

has_way_of_caps()
{
	"$GPUMEM_TRACE" --summary --library "$P" --attach multi -d 0.01 >/dev/null 2>&1
}

test_a_fifo_is_no_library()
{
	mkdir "$T/fifo"
	mkfifo "$T/fifo/libcuda.so.1"
	refused 'not an ELF library' timeout 20 "$GPUMEM_TRACE" --library "$T/fifo/libcuda.so.1"
}

# enlarge FILE TYPE SIZE: the ELF section of a type begins at the end of the file, and has this
# size; its bytes are a hole.
enlarge()
{
	python3 - "$@" <<-'EOF'
		import os, struct, sys
		path, kind, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		with open(path, "r+b") as file:
		    header = file.read(64)
		    at, = struct.unpack_from("<Q", header, 0x28)
		    length, n = struct.unpack_from("<HH", header, 0x3a)
		    end = os.path.getsize(path) + 4095 & ~4095
		    for i in range(n):
		        file.seek(at + i * length)
		        section = bytearray(file.read(length))
		        if struct.unpack_from("<I", section, 4)[0] != kind:
		            continue
		        struct.pack_into("<QQ", section, 0x18, end, size)
		        file.seek(at + i * length)
		        file.write(section)
		        break
		    else:
		        sys.exit("no such section")
		    file.truncate(end + size)
	EOF
}

test_a_library_with_giant_sections_is_left_out()
{
	local type
	mkdir "$T/whole"
	cp "$P" "$T/whole/libcuda.so.1"
	with_library "$T/whole/libcuda.so.1"
	for type in 11 3; do # SHT_DYNSYM and SHT_STRTAB, of which the first is the symbols'
		mkdir "$T/$type"
		cp "$P" "$T/$type/libcuda.so.1"
		with_library "$T/$type/libcuda.so.1"
		enlarge "$T/$type/libcuda.so.1" "$type" $((1 << 30))
		begin --json -d 0.1
		ends
		like "$(<"$T/err")" "left out $T/$type/libcuda.so.1: File too large"
		like "$(<"$T/err")" "probing $T/whole/"
		refused 'File too large' "$GPUMEM_TRACE" --library "$T/$type/libcuda.so.1"
	done
}

# ---- processes that do not answer ----

# no_flush: a mount at $T/no_flush, where nobody's close of the file `f` ever ends. Linux lets no
# process be looked into while it is in execve(2), and there closes files.
no_flush()
{
	[ "$(id -u)" = 0 ] || skip 'needs root: another user'
	chmod 755 "$T"
	mkdir "$T/no_flush"
	mounted+=("$T/no_flush")
	NO_FLUSH=1 python3 "$here/../fake_mount.py" "$T/no_flush" 64302 f text &
	pretenders+=($!)
	eventually "grep -q ' $T/no_flush ' /proc/self/mounts"
	cat >"$T/exec.py" <<-'EOF'
		import ctypes, os, sys, time
		if len(sys.argv) > 2:
		    assert ctypes.CDLL(sys.argv[2]).cuInit(0) == 0
		os.open(sys.argv[1] + "/f", os.O_RDONLY | os.O_CLOEXEC)
		os.execv("/bin/true", ["true"])
	EOF
}

# stuck UID [LIBRARY]: a process of the user is in execve(2), without end. Before that it has
# called the library. Sets stuck.
stuck()
{
	PATH=/usr/bin:/bin setpriv --reuid="$1" --regid="$1" --clear-groups \
		python3 "$T/exec.py" "$T/no_flush" ${2+"$2"} &
	stuck=$!
	pretenders+=("$stuck")
	eventually "timeout 0.2 cat '/proc/$stuck/maps' >'$T/maps'; [ \$? = 124 ]"
}

test_a_process_that_does_not_answer_keeps_no_other_from_being_traced()
{
	no_flush
	stuck 64302
	mkdir "$T/a"
	cp "$P" "$T/a/libcuda.so.1"
	with_library "$T/a/libcuda.so.1"
	begin --json -d 0.1
	eventually "grep -q 'detached in' '$T/err'"
	ends
	like "$(<"$T/err")" "gpumem-trace: left out process $stuck, which does not answer"
	like "$(<"$T/err")" "probing $T/a/"
}

test_a_user_whose_processes_do_not_answer_is_waited_for_no_more()
{
	local i before
	no_flush
	for i in {1..12}; do
		stuck 64302
	done
	stuck 64303
	mkdir "$T/a"
	cp "$P" "$T/a/libcuda.so.1"
	with_library "$T/a/libcuda.so.1"
	begin --json -d 0.1
	eventually "grep -q 'detached in' '$T/err'"
	ends
	is "$(grep -c 'which does not answer' "$T/err")" 4
	like "$(<"$T/err")" 'left out the other processes of user 64302: 3 do not answer'
	like "$(<"$T/err")" "left out process $stuck, which does not answer"
	like "$(<"$T/err")" "probing $T/a/"
}

test_the_uids_of_a_range_are_waited_for_like_one_user()
{
	local uid
	no_flush
	for uid in {64302..64307}; do
		stuck "$uid"
	done
	mkdir "$T/a"
	cp "$P" "$T/a/libcuda.so.1"
	with_library "$T/a/libcuda.so.1"
	echo 'nobody:64302:6' >"$T/subuid"
	# Only this tool sees the range.
	cat >"$T/tool" <<-EOF
		#!/bin/sh
		exec unshare -m sh -c 'mount --bind $T/subuid /etc/subuid && exec "\$0" "\$@"' \\
			'$GPUMEM_TRACE' "\$@"
	EOF
	chmod 755 "$T/tool"
	GPUMEM_TRACE=$T/tool begin --json -d 0.1
	eventually "grep -q 'detached in' '$T/err'"
	ends
	is "$(grep -c 'which does not answer' "$T/err")" 3
	like "$(<"$T/err")" 'left out the other processes of user 643'
	like "$(<"$T/err")" "probing $T/a/"
}

test_a_traced_process_that_does_not_answer_is_asked_no_more()
{
	no_flush
	L=$P # Python can't load the other one where that has a sanitizer
	chmod 755 "$T/prologues" "$L"
	start --json -s -e mem,ctx
	kill -STOP "$tool"
	stuck 64302 "$L"
	kill -CONT "$tool"
	eventually "grep -q '\"cuInit\"' '$T/out'"
	others_have_names
	stop
	like "$(<"$T/err")" "no names any more for frames of process $stuck: the look-up took too long"
	says_unnamed
}

# A library takes a descriptor.
test_users_with_many_libraries_leave_descriptors_for_others()
{
	local uid
	for uid in 64301 64302 64303 64304; do
		maps_libraries "$uid" 16
	done
	ulimit -Sn 64
	begin --json -d 0.1 -- bash -c "ulimit -n >'$T/limit'"
	ends
	is "$(grep -c "probing $T/643" "$T/err")" 64
	# the command has the limit of before
	is "$(<"$T/limit")" 64
}

# ---- names of frames ----

# split_caller NAME: makes $T/NAME/caller, a copy of the program, whose names are in
# $T/NAME/caller.debug alone.
split_caller()
{
	[ "$(id -u)" = 0 ] || skip 'takes two users'
	chmod 755 "$T" "$L"
	mkdir "$T/$1"
	objcopy --only-keep-debug "$C" "$T/$1/caller.debug"
	objcopy --strip-all --add-gnu-debuglink="$T/$1/caller.debug" "$C" "$T/$1/caller"
	chown -R 64302:64302 "$T/$1"
}

# caller_as UID PROGRAM <<CALLS: in the background, until the end of the case.
caller_as()
{
	PATH=/usr/bin:/bin setpriv --reuid="$1" --regid="$1" --clear-groups "$2" "$L" \
		>"$T/calls" <<<"$(cat)" &
	pretenders+=($!)
}

# seen CALL PATTERN: there is a line of such a call, whose stack is like this.
seen()
{
	eventually "grep '\"$1\"' '$T/out' | grep -qE '\"stack\":\[$2'"
}

bare='"0x[0-9a-f]+"[],]'

# The names of other processes are still there.
others_have_names()
{
	call <<-EOF &
		cuInit 0
		cuMemHostAlloc &h 4096 0
		wait $T/end
	EOF
	pretenders+=($!)
	seen cuMemHostAlloc '"caller_call\+0x'
}

# The tool said that a process has no names, and nothing else.
says_unnamed()
{
	local said='no names any more for frames of process [0-9]+: the look-up (failed|took too long)'
	like "$(grep -v 'probing\|attached in\|detached in' "$T/err")" "^gpumem-trace: $said$"
}

# children: the processes of the tool, which look up names. Another one reads mappings.
children()
{
	pgrep -P "$tool" -f '^gpumem-trace: names'
}

test_a_file_of_names_that_is_cut_short_is_the_end_of_its_own_names()
{
	split_caller other
	start --json -s -e mem,ctx
	caller_as 64302 "$T/other/caller" <<-EOF
		cuInit 0
		wait $T/cut
		loop 1
		cuDevicePrimaryCtxRetain &ctx 0
		end
		wait $T/end
	EOF
	seen cuInit '"caller_call\+0x'
	truncate -s 0 "$T/other/caller.debug"
	touch "$T/cut"
	seen cuDevicePrimaryCtxRetain "$bare"
	others_have_names
	stop
	says_unnamed
}

test_a_fifo_of_names_is_not_waited_for_long()
{
	split_caller other
	rm "$T/other/caller.debug"
	mkfifo -m 666 "$T/other/caller.debug"
	start --json -s -e mem,ctx
	caller_as 64302 "$T/other/caller" <<-EOF
		cuInit 0
		wait $T/end
	EOF
	seen cuInit "$bare"
	others_have_names
	stop
	says_unnamed
}

test_a_user_whose_names_are_late_often_is_waited_for_no_more()
{
	local i
	split_caller other
	rm "$T/other/caller.debug"
	mkfifo -m 666 "$T/other/caller.debug"
	start --json -s -e mem,ctx
	for i in {1..4}; do
		caller_as 64302 "$T/other/caller" <<-EOF
			cuInit 0
			wait $T/end
		EOF
		eventually "[ \"\$(grep -cE '\"cuInit\".*\"stack\":\[$bare' '$T/out')\" = $i ]"
	done
	others_have_names
	stop
	is "$(grep -c 'frames of process' "$T/err")" 3
	like "$(<"$T/err")" 'no names any more for frames of user 64302: 3 look-ups failed'
}

# lengthen FILE: .symtab has three million entries, all zeros.
lengthen()
{
	python3 - "$1" <<-'EOF'
		import os, struct, sys
		with open(sys.argv[1], "r+b") as file:
		    header = file.read(64)
		    at, = struct.unpack_from("<Q", header, 0x28)
		    length, n = struct.unpack_from("<HH", header, 0x3a)
		    end = file.seek(0, os.SEEK_END)
		    for i in range(n):
		        file.seek(at + i * length)
		        section = bytearray(file.read(length))
		        if struct.unpack_from("<I", section, 4) == (2,):  # SHT_SYMTAB
		            struct.pack_into("<QQ", section, 0x18, end, 24 * 3000000)
		            struct.pack_into("<I", section, 0x2c, 1)
		            file.seek(at + i * length)
		            file.write(section)
		    file.truncate(end + 24 * 3000000)
	EOF
}

# Each look-up is in time.
test_a_user_whose_names_take_long_is_waited_for_a_part_of_the_time()
{
	local i
	split_caller other
	lengthen "$T/other/caller.debug"
	start --json -s -e mem,ctx
	for i in {1..60}; do
		! grep -q 'not all frames of user 64302' "$T/err" || break
		caller_as 64302 "$T/other/caller" <<-EOF
			cuInit 0
		EOF
		eventually "[ \"\$(grep -c '\"cuInit\"' '$T/out')\" = $i ]"
	done
	like "$(<"$T/err")" 'not all frames of user 64302 have names: the look-ups take too long'
	others_have_names
	stop
}

# swell FILE: .debug_str is 2 GiB of zeros, it says, and is compressed. The file has half a GiB
# of them.
swell()
{
	python3 - "$1" <<-'EOF'
		import os, struct, sys, zlib
		with open(sys.argv[1], "r+b") as file:
		    header = file.read(64)
		    at, = struct.unpack_from("<Q", header, 0x28)
		    length, n, names = struct.unpack_from("<HHH", header, 0x3a)
		    def section(i):
		        file.seek(at + i * length)
		        return bytearray(file.read(length))
		    start, size = struct.unpack_from("<QQ", section(names), 0x18)
		    file.seek(start)
		    name = file.read(size).index(b"\0.debug_str\0") + 1
		    swollen, = (i for i in range(n) if struct.unpack_from("<I", section(i)) == (name,))
		    packer = zlib.compressobj(1)
		    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(512)) + packer.flush()
		    end = file.seek(0, os.SEEK_END)
		    file.write(struct.pack("<IIQQ", 1, 0, 2 << 30, 1) + packed)
		    new = section(swollen)
		    struct.pack_into("<Q", new, 0x8, 0x800)  # SHF_COMPRESSED
		    struct.pack_into("<QQ", new, 0x18, end, 24 + len(packed))
		    file.seek(at + swollen * length)
		    file.write(new)
	EOF
}

test_a_file_of_names_that_swells_takes_no_memory_of_the_tool()
{
	split_caller other
	[[ $(objdump -h "$T/other/caller.debug") == *.debug_str* ]] || skip 'built without -g'
	swell "$T/other/caller.debug"
	start --json -s -e mem,ctx
	caller_as 64302 "$T/other/caller" <<-EOF
		cuInit 0
		wait $T/end
	EOF
	seen cuInit '"'
	others_have_names
	local most
	most=$(awk '/^VmHWM/ { print $2 }' "/proc/$tool/status")
	[ "$most" -lt 400000 ] || fail "the tool took $most KiB"
	stop
}

test_a_process_that_stops_the_look_up_of_its_names_waits_for_no_more()
{
	split_caller other
	start --json -s -e mem,ctx
	caller_as 64302 "$T/other/caller" <<-EOF
		cuInit 0
		wait $T/stopped
		loop 1
		cuDevicePrimaryCtxRetain &ctx 0
		loop 1
		cuCtxSetCurrent \$ctx
		end
		end
		wait $T/end
	EOF
	seen cuInit '"caller_call\+0x'
	is "$(children | wc -l)" 1
	setpriv --reuid=64302 --regid=64302 --clear-groups kill -STOP "$(children)"
	touch "$T/stopped"
	seen cuDevicePrimaryCtxRetain "$bare"
	seen cuCtxSetCurrent "$bare"
	others_have_names
	stop
	says_unnamed
}

# confined PID UID: the process has the rights of a user, and nothing of the tool's.
confined()
{
	local status
	status=$(sed -nE 's/\s+/ /g; /^(Uid|Gid|Groups|NoNewPrivs|Cap[A-Z][a-z]+):/ p' "/proc/$1/status" |
		grep -v '^CapBnd')
	is "$status" "Uid: $2 $2 $2 $2
Gid: $2 $2 $2 $2
Groups: 
CapInh: 0000000000000000
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapAmb: 0000000000000000
NoNewPrivs: 1"
	unlike "$(ls -l "/proc/$1/fd")" 'anon_inode|pipe|/out|/err'
	unlike "$(<"/proc/$1/maps")" 'anon_inode:'
	like "$(<"/proc/$1/environ")" '^$'
	like "$(<"/proc/$1/limits")" 'Max file size +0 +0 '
	# another process of the user can't look into it
	fails "setpriv --reuid=$2 --regid=$2 --clear-groups cat /proc/$1/maps"
}

test_names_are_looked_up_with_the_rights_of_the_traced_user_alone()
{
	split_caller other
	start --json -s -e mem,ctx
	caller_as 64302 "$T/other/caller" <<-EOF
		cuInit 0
		wait $T/end
	EOF
	seen cuInit '"caller_call\+0x'
	confined "$(children)" 64302
}

# Files of root's processes may be another's, as in a container.
test_names_of_processes_of_root_are_looked_up_without_rights()
{
	[ "$(id -u)" = 0 ] || skip 'takes root'
	start --json -s -e mem,ctx
	others_have_names
	confined "$(children)" 65534
}

test_names_of_many_processes_are_looked_up_by_a_few()
{
	local i
	start --json -s -e mem,ctx
	for i in {1..24}; do
		"$C" "$L" >"$T/calls.$i" <<-EOF &
			cuInit 0
			wait $T/again
			loop 1
			cuDevicePrimaryCtxRetain &ctx 0
			end
			wait $T/end
		EOF
		pretenders+=($!)
		eventually "[ \"\$(grep -c '\"cuInit\"' '$T/out')\" = $i ]"
	done
	[ "$(children | wc -l)" -le 16 ] || fail "$(children | wc -l) children"
	touch "$T/again"
	eventually "[ \"\$(grep -c '\"cuDevicePrimaryCtxRetain\"' '$T/out')\" = 24 ]"
	[ "$(children | wc -l)" -le 16 ] || fail "$(children | wc -l) children"
	stop
	unlike "$(<"$T/out")" '"stack":\["0x'
}

main "$@"
