#!/bin/bash
# Attaching: choice of libraries, ways to attach, users, and error sentences.
. "${BASH_SOURCE%/*}/lib.bash"

calls="$prepare
cuMemAlloc_v2 &a 4096
thread
cuCtxSetCurrent \$ctx
cuMemAlloc_v2 &b 8192
end
cuMemFree_v2 \$a
cuMemcpyHtoD_v2 \$b 1 0"

# has_way WAY: whether this kernel supports --attach WAY.
has_way()
{
	"$GPUMEM_TRACE" --summary --library "$L" --attach "$1" -e module -d 0.01 >/dev/null 2>"$T/refused" && return
	like "$(<"$T/refused")" 'could not be attached'
	false
}

same_by()
{
	trace --json -e mem,copy --attach "$1" <<-EOF
		cuMemAlloc_v2 &a 4096
		thread
		cuMemAlloc_v2 &b 8192
		end
		cuMemFree_v2 \$a
		cuMemcpyHtoD_v2_ptds \$b 1 100
	EOF
	check <<-EOF
		a, b = calls("cuMemAlloc_v2")
		has(b, held=12288)
		has(one("cuMemFree_v2"), freed=4096, held=8192)
		has(one("exit"), freed=8192, n_freed=1)
		has(S["cuMemcpyHtoD_v2_ptds"], calls=1, bytes=100)
	EOF
	trace --summary --attach "$1" <<-EOF
		cuMemcpyHtoD_v2_ptds \$b 1 100
		fakeResult 999
		cuLaunchKernel 1 1 1 1 1 1 1 0 0 0 0
	EOF
	like "$(grep ^cuMemcpyHtoD_v2_ptds "$T/out")" '^cuMemcpyHtoD_v2_ptds +1 +0 +100 '
	like "$(grep ^cuLaunchKernel "$T/out")" '^cuLaunchKernel +1 +1 +0 '
}

test_sessions_links_and_perf_uprobes_show_the_same()
{
	L=$P
	for way in session multi perf; do
		if has_way "$way"; then
			same_by "$way"
		else
			[ "$way" != perf ] || fail 'not even perf uprobes'
		fi
	done
}

test_the_way_and_the_library_are_said_with_v()
{
	has_way multi || skip 'this kernel has no uprobe_multi links'
	"$GPUMEM_TRACE" -v --library "$L" --attach multi -d 0.01 >"$T/out" 2>"$T/err"
	like "$(<"$T/err")" "probing $L"
	like "$(<"$T/err")" '[0-9]+ calls by uprobe_multi links, attached in [0-9.]+ s'
	like "$(<"$T/err")" 'detached in [0-9.]+ s'
}

# callers FOLDER...: starts a program for the library of each folder. The programs wait for
# $T/go before they allocate.
callers()
{
	local at
	for at in "$@"; do
		"$C" "$at/libcuda.so.1" >"$T/calls" <<-EOF &
			cuInit 0
			pid $at/ready
			wait $T/go
			cuDevicePrimaryCtxRetain &ctx 0
			cuCtxSetCurrent \$ctx
			cuMemAlloc_v2 &a 4096
		EOF
	done
	for at in "$@"; do
		eventually "[ -s '$at/ready' ]"
	done
}

test_a_library_is_found_by_the_processes_that_have_it()
{
	# attached once, although two processes have two paths to the library
	mkdir "$T/same"
	ln "$T/libcuda.so.1" "$T/same/libcuda.so.1"
	callers "$T" "$T/same"
	begin --json -e mem
	attached
	is "$(grep -c "probing $T/" "$T/err")" 1
	touch "$T/go"
	eventually "[ \"\$(grep -c '\"pid\":\($(<"$T/ready")\|$(<"$T/same/ready")\),.*\"exit\"' '$T/out')\" = 2 ]"
	stop
	check <<-EOF
		ours = [row for row in calls("cuMemAlloc_v2") if row["pid"] in ($(<"$T/ready"), $(<"$T/same/ready"))]
		same([row["held"] for row in ours], [4096, 4096])
	EOF
}

test_a_library_that_vanishes_while_it_is_attached_disturbs_nothing()
{
	mkdir "$T/other"
	cp "$L" "$T/other/libcuda.so.1"
	callers "$T" "$T/other"
	local other=$!
	begin --json -e mem
	# the tool has listed the processes and now loads its BPF programs
	eventually "ls -l /proc/$tool/fd | grep -q bpf-map"
	kill -STOP "$tool"
	kill -KILL "$other"
	rm "$T/other/libcuda.so.1"
	kill -CONT "$tool"
	attached
	like "$(<"$T/err")" "probing $T/libcuda.so.1"
	unlike "$(<"$T/err")" 'perf uprobes'
	touch "$T/go"
	eventually "grep -q '\"pid\":$(<"$T/ready"),.*\"exit\"' '$T/out'"
	stop
	check <<<"same([row['held'] for row in calls('cuMemAlloc_v2') if row['pid'] == $(<"$T/ready")], [4096])"
}

test_a_library_that_was_removed_is_probed_in_the_processes_that_have_it()
{
	mkdir "$T/removed"
	cp "$L" "$T/removed/libcuda.so.1"
	"$C" "$T/removed/libcuda.so.1" >"$T/calls" <<-EOF &
		cuInit 0
		pid $T/ready
		wait $T/go
		cuDevicePrimaryCtxRetain &ctx 0
		cuCtxSetCurrent \$ctx
		cuMemAlloc_v2 &a 4096
	EOF
	eventually "[ -s '$T/ready' ]"
	rm "$T/removed/libcuda.so.1"
	begin --json -e mem
	attached
	like "$(<"$T/err")" "probing $T/removed/libcuda.so.1 \(deleted\)"
	touch "$T/go"
	eventually "grep -q '\"pid\":$(<"$T/ready"),.*\"exit\"' '$T/out'"
	stop
	check <<<"same([row['held'] for row in calls('cuMemAlloc_v2') if row['pid'] == $(<"$T/ready")], [4096])"
}

# Another user has mapped a library, and its path is a FIFO now; or has a lease of Linux on
# the library, for which an open waits 45 s.
test_nobody_makes_the_tool_wait_for_a_library()
{
	local how other
	[ "$(id -u)" = 0 ] || skip 'takes two users'
	for how in fifo lease; do
		chmod 755 "$T"
		mkdir "$T/$how"
		chmod 777 "$T/$how"
		PATH=/usr/bin:/bin setpriv --reuid=64302 --regid=64302 --clear-groups python3 - "$T/$how" "$how" <<-'EOF' &
			import fcntl, mmap, os, signal, sys
			path = sys.argv[1] + "/libcuda.so.1"
			with open(path, "wb") as library:
			    library.write(b"x" * 4096)
			file = os.open(path, os.O_RDONLY)
			mapped = mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
			if sys.argv[2] == "fifo":
			    os.unlink(path)
			    os.mkfifo(path + " (deleted)")
			else:
			    signal.signal(signal.SIGIO, signal.SIG_IGN)
			    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
			os.mkdir(sys.argv[1] + "/ready")
			signal.pause()
		EOF
		other=$!
		eventually "[ -e '$T/$how/ready' ]"
		# 1: no other process has a library
		timeout 20 "$GPUMEM_TRACE" --summary -d 0.1 >"$T/out" 2>"$T/err" || is $? 1
		kill "$other"
		wait "$other" || true
	done
}

test_a_program_that_starts_later_is_seen_through_the_file()
{
	start --json -e mem
	call <<<"$calls"
	call <<<"$calls"
	stop
	check <<<'same([row["held"] for row in calls("cuMemAlloc_v2")], [4096, 12288, 4096, 12288])'
}

test_the_command_and_its_children_and_nobody_else()
{
	cat >"$T/script" <<<"$calls"
	"$GPUMEM_TRACE" --json -e mem --library "$L" -- bash -c \
		'"$0" "$1" <"$2"; (setsid "$0" "$1" <"$2"); "$0" "$1" <"$2"; exit 7' "$C" "$L" "$T/script" \
		>"$T/all" 2>"$T/err" &
	local tool=$!
	call <<<"$calls"
	local status=0
	wait "$tool" || status=$?
	is "$status" 7 # the command's
	grep '^{' "$T/all" >"$T/out"
	check <<<'same([row["held"] for row in calls("cuMemAlloc_v2")], [4096, 12288] * 3)'
}

# The kernel tells the end of each thread. When the last two threads end at the same time,
# both seem to be the last.
test_threads_that_end_at_once_are_one_end()
{
	cat >"$T/many.py" <<-'EOF'
		import ctypes, os, sys, threading
		library = ctypes.CDLL(sys.argv[1])
		for n in range(200):
		    pid = os.fork()
		    if pid == 0:
		        context, address = ctypes.c_void_p(), ctypes.c_uint64()
		        library.cuInit(0)
		        library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
		        library.cuCtxSetCurrent(context)
		        library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
		        go = threading.Event()
		        for _ in range(24):
		            threading.Thread(target=go.wait, daemon=True).start()
		        os._exit(0)
		    os.waitpid(pid, 0)
	EOF
	local sanitizer
	sanitizer=$(ldd "$L" | awk '/lib[at]san/ { print $3 }')
	"$GPUMEM_TRACE" --json -e mem --library "$L" -- env LD_PRELOAD="$sanitizer" \
		ASAN_OPTIONS=detect_leaks=0 python3 "$T/many.py" "$L" >"$T/out" 2>"$T/err" || fail "the tool ended with $?" "$(<"$T/err")"
	check <<-'EOF'
		pids = [row["pid"] for row in E if row["call"] == "exit"]
		same(len(pids), len(set(pids)))
		same(len(pids) >= 200, True)
	EOF
}

test_the_command_runs_as_the_user_behind_sudo_with_his_environment()
{
	# sudo drops most of the environment, but the process of sudo still has all variables
	cat >"$T/sudo" <<-'EOF'
		#!/bin/bash
		env -i PATH="$PATH" SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody "$@"
		exit
	EOF
	chmod 755 "$T" "$T/sudo"
	MINE='of the user' "$T/sudo" "$GPUMEM_TRACE" --summary --library "$L" -- \
		bash -c 'id -u; id -g; id -G; echo "$MINE"; echo "${SUDO_UID-none}"' >"$T/out" 2>"$T/err"
	is "$(head -n 5 "$T/out")" $'65534\n65534\n65534\nof the user\nnone'
}

test_in_a_container_pids_are_the_containers()
{
	cat >"$T/script" <<-EOF
		$prepare
		pid $T/pid
		cuMemAlloc_v2 &a 4096
	EOF
	unshare --pid --fork --mount-proc "$GPUMEM_TRACE" --json -e mem --library "$L" -- \
		bash -c '"$0" "$1" <"$2"; :' "$C" "$L" "$T/script" >"$T/all" 2>"$T/err" || fail "$(<"$T/err")"
	grep '^{' "$T/all" >"$T/out"
	[ "$(<"$T/pid")" -lt 20 ] || fail "not a namespace of its own: $(<"$T/pid")"
	check <<-EOF
		has(one("cuMemAlloc_v2"), pid=$(<"$T/pid"), tid=$(<"$T/pid"), held=4096)
		has(one("exit"), pid=$(<"$T/pid"), freed=4096)
	EOF
}

test_a_command_that_can_not_be_run_is_said()
{
	local status=0
	"$GPUMEM_TRACE" --summary --library "$L" -- /nowhere/program >"$T/out" 2>"$T/err" || status=$?
	is "$status" 127
	like "$(<"$T/err")" '^gpumem-trace: /nowhere/program: No such file or directory$'
}

test_ctrl_c_ends_it_at_once_and_prints_what_was_asked_for()
{
	start --summary
	call <<<"$calls"
	local before after
	before=$(date +%s%N)
	stop
	after=$(date +%s%N)
	[ $(((after - before) / 1000000)) -lt 5000 ] || fail "it took $(((after - before) / 1000000)) ms"
	like "$(grep ^cuMemAlloc_v2 "$T/out" | head -1)" '^cuMemAlloc_v2 +2 +0 +12288 '
}

test_without_privileges_it_says_which()
{
	chmod 755 "$T"
	refused 'needs CAP_BPF and CAP_PERFMON, and both are missing: use sudo' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$GPUMEM_TRACE" --library "$L" -d 1
	refused 'CAP_PERFMON is missing' \
		setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+bpf --ambient-caps=+bpf \
		"$GPUMEM_TRACE" --library "$L" -d 1
}

test_privileges_are_looked_at_before_libraries()
{
	local user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	refused 'needs CAP_BPF and CAP_PERFMON' "${user[@]}" "$GPUMEM_TRACE" -d 1
	refused 'needs CAP_BPF and CAP_PERFMON' \
		"${user[@]}" "$GPUMEM_TRACE" --library /nowhere/libcuda.so.1
	# a list wants none
	chmod 755 "$T"
	like "$("${user[@]}" "$GPUMEM_TRACE" --list --library "$L")" 'cuMemAlloc_v2 +mem +found'
}

test_cap_bpf_and_cap_perfmon_are_enough_with_links()
{
	has_way multi || skip 'this kernel has no uprobe_multi links'
	chmod 755 "$T"
	setpriv --reuid=65534 --regid=65534 --clear-groups \
		--inh-caps=+bpf,+perfmon --ambient-caps=+bpf,+perfmon \
		"$GPUMEM_TRACE" --json -e mem --library "$L" -d 30 -- \
		"$C" "$L" <<<"$calls" >"$T/all" 2>"$T/err" || fail "$(<"$T/err")"
	grep '^{' "$T/all" >"$T/out"
	check <<<'same([row["held"] for row in calls("cuMemAlloc_v2")], [4096, 12288])'
}

test_what_is_no_library_or_not_there_is_said()
{
	refused '/nowhere/libcuda.so.1: No such file or directory' \
		"$GPUMEM_TRACE" --library /nowhere/libcuda.so.1
	refused 'not an ELF library' "$GPUMEM_TRACE" --library /etc/passwd
	refused 'has none of the traced calls' "$GPUMEM_TRACE" --library /lib/x86_64-linux-gnu/libc.so.6
}

test_a_process_that_is_not_there_is_said()
{
	refused 'there is no process 4194304$' "$GPUMEM_TRACE" --library "$L" -p 4194304
	refused 'there is no process 4194304$' "$GPUMEM_TRACE" --library "$L" -p "$$,4194304"
	# ended, and not waited for
	python3 -c 'if 1:
		import os, time
		pid = os.fork() or os._exit(0)
		print(pid, flush=True)
		time.sleep(60)' >"$T/dead" &
	local parent=$!
	eventually "[ -s '$T/dead' ] && grep -q '^State:.Z' /proc/\$(<'$T/dead')/status"
	refused "there is no process $(<"$T/dead")\$" "$GPUMEM_TRACE" --library "$L" -p "$(<"$T/dead")"
	kill "$parent"
	# a pid namespace without process 99
	local status=0
	unshare --pid --fork --mount-proc "$GPUMEM_TRACE" --library "$L" -p 99 2>"$T/err" || status=$?
	is "$status $(<"$T/err")" '1 gpumem-trace: there is no process 99'
}

test_in_a_container_it_ends_with_the_containers_process()
{
	cat >"$T/script" <<-EOF
		$prepare
		pid $T/pid
		wait $T/go
		cuMemAlloc_v2 &a 4096
	EOF
	cat >"$T/inside" <<-'EOF'
		"$1" "$2" <"$3/script" >"$3/calls" &
		until [ -s "$3/pid" ]; do sleep 0.02; done
		"$4" -v --json -e mem --library "$2" -p $! >"$3/out" 2>"$3/err" &
		tool=$!
		until grep -q 'attached in' "$3/err"; do sleep 0.02; done
		touch "$3/go"
		wait "$tool"
	EOF
	unshare --pid --fork --mount-proc bash "$T/inside" "$C" "$L" "$T" "$GPUMEM_TRACE" || fail "$(<"$T/err")"
	check <<<"same([(r['call'], r['pid']) for r in E], [('cuMemAlloc_v2', $(<"$T/pid")), ('exit', $(<"$T/pid"))])"
}

test_no_event_is_lost_silently()
{
	# stopped, the tool can't read: the buffer must run over, and the books stay right
	L=$P
	start --json -e mem
	kill -STOP "$tool"
	call <<-EOF
		quiet
		loop 100000
		cuMemHostAlloc &a 4096 0
		end
	EOF
	kill -CONT "$tool"
	stop
	like "$(<"$T/err")" '[0-9]+ events had no room in the ring buffer: .* the totals are right'
	check <<-EOF
		has(S["cuMemHostAlloc"], calls=100000, bytes=100000 * 4096)
		lost = sum(row["n"] for row in LOST if row["what"] == "events")
		same(len(E) + lost, 100001, "lines and lost ones")
	EOF
}

main "$@"
