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

main "$@"
