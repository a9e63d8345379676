#!/bin/bash
# The modes: each prints the truth about a program whose calls are known.
. "${BASH_SOURCE%/*}/lib.bash"

calls="$prepare
cuMemAlloc_v2 &a 4096
cuMemAlloc_v2 &b 1048576
cuMemAlloc_v2 &c 0x1000000000000
cuMemAllocAsync &p 65536 0
cuMemHostAlloc &h 8192 0
cuMemcpyHtoD_v2 \$a \$h 4096
cuMemcpyHtoD_v2 \$a \$h 4095
cuMemFree_v2 \$a
cuMemFree_v2 12345"

# row WORD: prints the columns of the row of $T/out that begins with WORD.
row()
{
	awk -v word="$1" '$1 == word { $1 = $1; print; exit }' "$T/out"
}

test_summary_has_calls_failures_bytes_and_histograms()
{
	trace --summary <<<"$calls"
	like "$(row cuMemAlloc_v2)" '^cuMemAlloc_v2 3 1 1052672 [0-9.]+ [0-9.]+$'
	like "$(row cuMemFree_v2)" '^cuMemFree_v2 2 1 4096 '
	like "$(row cuMemcpyHtoD_v2)" '^cuMemcpyHtoD_v2 2 0 8191 '
	like "$(row cuInit)" '^cuInit 1 0 0 '
	is "$(row CUDA_ERROR_OUT_OF_MEMORY)" 'CUDA_ERROR_OUT_OF_MEMORY 1'
	is "$(row CUDA_ERROR_INVALID_VALUE)" 'CUDA_ERROR_INVALID_VALUE 1'
	awk '/^cuMemcpyHtoD_v2$/ { on = 1 } on && /bytes : count/ { on = 2 } on == 2' "$T/out" >"$T/sizes"
	like "$(sed -n 2p "$T/sizes")" '^ *2048 -> 4095 +1 \|\*{40}\|$'
	like "$(sed -n 3p "$T/sizes")" '^ *4096 -> 8191 +1 \|\*{40}\|$'
	# the process at its end: nothing held, and its peak
	like "$(grep ' caller ' "$T/out")" '^[0-9]+ +caller +0 +1118208 .* 0 ended$'
}

test_summary_counts_launches_and_copies_without_their_events()
{
	L=$P
	trace --summary <<-EOF
		loop 1000
		cuLaunchKernel 1 1 1 1 1 1 1 0 0 0 0
		end
		cuMemsetD2D32_v2 0 1024 7 100 20
	EOF
	like "$(row cuLaunchKernel)" '^cuLaunchKernel 1000 0 0 '
	like "$(row cuMemsetD2D32_v2)" '^cuMemsetD2D32_v2 1 0 8000 '
}

test_summary_every_so_often_shows_what_came_in_between()
{
	(
		eventually "[ \"\$(grep -c '^no calls' '$T/out')\" -ge 2 ]"
		touch "$T/go"
	) &
	trace --summary 0.3 <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		wait $T/go
		cuMemFree_v2 \$a
	EOF
	is "$(grep -c '^cuMemAlloc_v2 .* 1 *0 *4096 ' "$T/out")" 1
	is "$(grep -c '^cuMemFree_v2 .* 1 *0 *4096 ' "$T/out")" 1
	# held between the two calls
	like "$(grep -m1 ' caller ' "$T/out")" ' caller +4096 +4096 +4096 '
}

test_leaks_lists_what_a_process_ended_with_oldest_first()
{
	trace --leaks <<<"$calls"
	like "$(sed -n 1p "$T/out")" '^process [0-9]+ \(caller\) ended holding 3 allocations: device 1048576 pool 65536 pinned 8192$'
	like "$(sed -n 3p "$T/out")" '^ +[0-9.]+ +1048576 device +0x[0-9a-f]+ +[0-9]+ +cuMemAlloc_v2$'
	like "$(sed -n 4p "$T/out")" ' 65536 pool .* cuMemAllocAsync$'
	like "$(sed -n 5p "$T/out")" ' 8192 pinned .* cuMemHostAlloc$'
	is "$(wc -l <"$T/out")" 5
}

test_leaks_of_a_program_that_frees_all_are_none()
{
	trace --leaks <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemFree_v2 \$a
	EOF
	is "$(<"$T/out")" 'no process holds memory allocated since the start'
	trace --leaks --size 1G <<<"$calls"
	is "$(<"$T/out")" 'no process holds memory of that size allocated since the start'
	start --leaks 0.1
	eventually "[ \"\$(grep -c '^no process holds memory' '$T/out')\" -ge 2 ]"
	stop
}

test_leaks_of_running_processes_by_stack()
{
	start --leaks -s
	"$C" "$L" >"$T/calls" <<-EOF &
		$prepare
		loop 3
		cuMemAlloc_v2 &a 4096
		end
		cuMemHostAlloc &h 8192 0
		pid $T/ready
		wait $T/end
	EOF
	eventually "[ -s '$T/ready' ]"
	sleep 0.1 # of age
	stop
	touch "$T/end"
	like "$(sed -n 1p "$T/out")" "^process $(<"$T/ready") \(caller\) holds 4 allocations: device 12288 pinned 8192$"
	like "$(sed -n 2p "$T/out")" '^  12288 bytes in 3 allocations, the oldest of 0\.[1-9][0-9]+ s, device, from cuMemAlloc_v2$'
	like "$(sed -n 3p "$T/out")" '^      caller_call\+0x[0-9a-f]+ \(caller\) caller\.c:[0-9]+$'
	like "$(grep 'from cuMemHostAlloc' "$T/out")" '^  8192 bytes in 1 allocation, '
	wait
}

test_leaks_of_virtual_memory_are_where_it_is_mapped()
{
	trace --leaks -e vmm <<-EOF
		$prepare
		word prop 0 1
		word prop 2 1
		cuMemAddressReserve &r 4194304 0 0 0
		cuMemCreate &h 2097152 &prop 0
		cuMemMap \$r 2097152 0 \$h 0
		cuMemRelease \$h
	EOF
	like "$(sed -n 1p "$T/out")" 'ended holding 1 allocation: vmm 2097152 \(and reserved 4194304\)$'
	local reserved mapped
	reserved=$(awk '$3 == "reserved" { print $4 }' "$T/out")
	mapped=$(awk '$3 == "vmm" { print $4 }' "$T/out")
	is "$mapped" "$reserved"
}

test_histograms_every_so_often_are_on_request()
{
	trace --summary 30 <<<"$calls"
	like "$(row cuInit)" '^cuInit 1 0 0 '
	is "$(sed -n '/ : count$/p' "$T/out")" ''
	trace --summary 30 --histograms <<<"$calls"
	is "$(grep -c ' nanoseconds : count$' "$T/out")" 8
}

test_each_block_of_leaks_has_its_time()
{
	trace --leaks 30 <<<"$calls"
	# a block for the memory at a process's end, and a block at the end of the tool
	is "$(grep -Ec '^20[0-9-]+T[0-9:]+Z$' "$T/out")" 1
	like "$(tail -n 2 "$T/out" | head -1)" '^20[0-9-]+T[0-9:]+Z$'
	is "$(tail -n 1 "$T/out")" 'no process holds memory allocated since the start'
}

# full OPTION...: a failed write is reported, with exit status 1.
full()
{
	local status=0
	"$GPUMEM_TRACE" --library "$L" "$@" -- "$C" "$L" <<<"$calls" >/dev/full 2>"$T/err" || status=$?
	is "$status" 1
	is "$(<"$T/err")" "gpumem-trace: ${said-standard output}: No space left on device"
}

test_what_can_not_be_written_is_said()
{
	full
	full --json
	# these modes write only at the end
	full --summary
	full --leaks
	full --top
	said=/dev/full full --chrome /dev/full
	"$C" "$L" <<<"$calls" >"$T/calls"
	for option in --help --version --list; do
		status=0
		"$GPUMEM_TRACE" --library "$L" "$option" >/dev/full 2>"$T/err" || status=$?
		is "$status" 1
		like "$(<"$T/err")" '^gpumem-trace: standard output: No space left on device$'
	done
}

test_a_write_that_fails_ends_it()
{
	"$GPUMEM_TRACE" -v --json --library "$L" >/dev/full 2>"$T/err" &
	tool=$!
	attached
	call <<<"$calls"
	local status=0
	wait "$tool" || status=$?
	tool=
	is "$status" 1
	is "$(grep -c 'No space left' "$T/err")" 1
}

test_a_reader_that_has_gone_is_no_news()
{
	local status=0
	"$GPUMEM_TRACE" --json --library "$L" -- "$C" "$L" <<<"$calls" 2>"$T/err" | true
	is "${PIPESTATUS[0]} $(<"$T/err")" "141 "
}

test_leaks_have_an_import_once()
{
	trace --leaks -e vmm <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 4194304 0 0 0
		$import
		cuMemRelease \$i
		cuMemImportFromShareableHandle &j \$fd 1
		cuMemRelease \$h
	EOF
	like "$(sed -n 1p "$T/out")" 'ended holding 0 allocations \(and imported 2097152 reserved 4194304\)$'
	is "$(awk '$3 == "imported" { print $2, $6 }' "$T/out")" $'2097152 cuMemMap\n0 cuMemImportFromShareableHandle'
}

test_top_has_processes_by_what_they_hold_with_their_peaks()
{
	start --top
	"$C" "$L" >"$T/calls" <<-EOF &
		$prepare
		cuMemAlloc_v2 &a 1000000
		cuMemFree_v2 \$a
		cuMemAlloc_v2 &a 4096
		cuMemHostAlloc &h 512 0
		pid $T/small
		wait $T/end
	EOF
	"$C" "$L" >"$T/calls" <<-EOF &
		$prepare
		cuMemAllocAsync &p 65536 0
		pid $T/large
		wait $T/end
	EOF
	eventually "[ -s '$T/small' ] && [ -s '$T/large' ]"
	stop
	touch "$T/end"
	like "$(sed -n 1p "$T/out")" '^PID +COMM +HELD +PEAK +DEVICE +MANAGED +POOL +VMM +PINNED +REGISTERED +IMPORTED +RESERVED +BLOCKS$'
	like "$(sed -n 2p "$T/out")" "^$(<"$T/large") +caller +65536 +65536 +0 +0 +65536 +0 +0 +0 +0 +0 +1$"
	like "$(sed -n 3p "$T/out")" "^$(<"$T/small") +caller +4096 +1000000 +4096 +0 +0 +0 +512 +0 +0 +0 +2$"
	is "$(wc -l <"$T/out")" 3
	wait
}

test_chrome_trace_has_slices_and_counters()
{
	trace --chrome "$T/trace.json" <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemAlloc_v2 &b 8192
		cuMemHostAlloc &h 512 0
		thread
		cuCtxSetCurrent \$ctx
		cuMemFree_v2 \$a
		end
		cuDevicePrimaryCtxReset_v2 0
	EOF
	is "$(<"$T/out")" ''
	python3 - "$T/trace.json" <<-'EOF'
		import json, sys
		trace = json.load(open(sys.argv[1]))
		events = trace["traceEvents"]
		slices = [e for e in events if e["ph"] == "X"]
		assert [e["name"] for e in slices] == [
		    "cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2", "cuMemAlloc_v2",
		    "cuMemHostAlloc", "cuCtxSetCurrent", "cuMemFree_v2",
		    "cuDevicePrimaryCtxReset_v2"], slices
		assert slices[3]["args"]["bytesize"] == 4096 and slices[3]["cat"] == "mem", slices[3]
		for one in slices: # of one thread at a time: they must not overlap
		    for other in slices:
		        if one is not other and one["ts"] <= other["ts"]:
		            assert one["ts"] + one["dur"] <= other["ts"], (one, other)
		counters = [(e["name"], e["args"]["bytes"]) for e in events if e["ph"] == "C"]
		assert counters[:4] == [("device", 4096), ("device", 12288), ("pinned", 512), ("device", 8192)], counters
		after = dict(counters[4:])
		assert after["device"] == 0 and after["pinned"] == 0, counters
		names = {(e["name"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
		assert len(names) == 3 and set(names.values()) == {"caller"}, names
		ends = [e for e in events if e["ph"] == "i"]
		assert [e["name"] for e in ends] == ["exit"], ends
	EOF
}

test_chrome_counters_fall_with_an_unmap_over_own_and_imported_memory()
{
	trace --chrome "$T/trace.json" <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 4194304 0 0 0
		$import
		add s \$r 2097152
		cuMemMap \$s 2097152 0 \$h 0
		cuMemRelease \$h
		cuMemUnmap \$r 4194304
	EOF
	python3 - "$T/trace.json" <<-'EOF'
		import json, sys
		events = json.load(open(sys.argv[1]))["traceEvents"]
		end = [i for i, e in enumerate(events) if e["name"] == "cuMemUnmap"][0]
		last = {e["name"]: e["args"]["bytes"] for e in events[:end + 2] if e["ph"] == "C"}
		assert last["vmm"] == 0 and last["imported"] == 0, last
	EOF
}

test_filters_by_size_and_by_failure_leave_the_books_alone()
{
	trace --json -e mem --size 8K:1M <<-EOF
		$calls
		cuMemAlloc_v2 &d 8192
		exec true
	EOF
	check <<-EOF
		same([(r["call"], r.get("bytesize")) for r in E],
		     [("cuMemAlloc_v2", 1048576), ("cuMemHostAlloc", 8192), ("cuMemAlloc_v2", 8192)])
		same([r["held"] for r in calls("cuMemAlloc_v2")], [1052672, 1056768])
	EOF
	trace --json -e mem --failed <<<"$calls"
	check <<-EOF
		same([(r["call"], r["result"]) for r in E],
		     [("cuMemAlloc_v2", "CUDA_ERROR_OUT_OF_MEMORY"), ("cuMemFree_v2", "CUDA_ERROR_INVALID_VALUE")])
	EOF
	trace -e mem --failed <<<"$calls"
	is "$(wc -l <"$T/out")" 3
	for size in 65536 64K: :9000; do
		trace --json -e mem,pool --size "$size" <<<"$calls"
		check <<<'print([r.get("bytesize") for r in E if r["call"] != "cuMemFree_v2"])' >>"$T/sizes"
	done
	is "$(<"$T/sizes")" '[1048576, 281474976710656, 65536]
[1048576, 281474976710656, 65536]
[4096, 8192]'
}

test_it_ends_with_the_last_of_its_processes()
{
	local at one two then='cuMemAddressReserve &r 2097152 0 0 0'
	for at in one two; do
		"$C" "$L" >"$T/calls" <<-EOF &
			$prepare
			pid $T/$at
			wait $T/$at.go
			cuMemAlloc_v2 &a 4096
			$then
		EOF
		then=
	done
	eventually "[ -s '$T/one' ] && [ -s '$T/two' ]"
	one=$(<"$T/one") two=$(<"$T/two")
	start --leaks -e mem,vmm -p "$one $two"
	touch "$T/one.go"
	eventually "grep -q 'process $one (caller) ended holding' '$T/out'"
	kill -0 "$tool"
	call <<-EOF # of neither
		$prepare
		cuMemAlloc_v2 &a 512
	EOF
	touch "$T/two.go"
	ends
	is "$(grep -c '^process' "$T/out")" 2
	like "$(grep "^process $one " "$T/out")" \
		'ended holding 1 allocation: device 4096 \(and reserved 2097152, and memory from before the start\)$'
	like "$(grep "^process $two " "$T/out")" 'ended holding 1 allocation: device 4096 \(and memory from before the start\)$'
	# printed only at the end
	"$C" "$L" >"$T/calls" <<-EOF &
		$prepare
		wait $T/three
		cuMemAlloc_v2 &a 4096
	EOF
	one=$!
	start --summary -p 1 -p "$one"
	stop
	start --summary -p "$one"
	touch "$T/three"
	ends
	like "$(row cuMemAlloc_v2)" '^cuMemAlloc_v2 1 0 4096 '
	like "$(grep ' caller ' "$T/out")" ' ended'
}

test_only_a_user_by_name()
{
	[ "$(id -un 65534)" = nobody ] || skip 'there is no user nobody'
	only_a_user nobody
}

test_only_a_process_or_a_user()
{
	"$C" "$L" >"$T/calls" <<-EOF &
		$prepare
		pid $T/one
		wait $T/go
		cuMemAlloc_v2 &a 4096
		pid $T/one.done
	EOF
	local one=$!
	eventually "[ -s '$T/one' ]"
	start --json -e mem -p "$(<"$T/one")"
	touch "$T/go"
	call <<-EOF
		$prepare
		cuMemAlloc_v2 &a 512
	EOF
	eventually "[ -s '$T/one.done' ]"
	wait "$one"
	ends
	check <<<"same([(r['call'], r['pid']) for r in E], [('cuMemAlloc_v2', $(<"$T/one")), ('exit', $(<"$T/one"))])"
	only_a_user 65534
}

# only_a_user USER: checks that -u USER, a name or number of nobody, shows only these calls.
only_a_user()
{
	start --json -e mem -u "$1"
	call <<-EOF
		$prepare
		cuMemAlloc_v2 &a 512
	EOF
	chmod 755 "$T"
	setpriv --reuid=65534 --regid=65534 --clear-groups "$C" "$L" >"$T/calls" <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
	EOF
	stop
	check <<<"same([r.get('bytesize') for r in E], [4096, None])"
}

main "$@"
