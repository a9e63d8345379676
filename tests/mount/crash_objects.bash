#!/bin/bash
# The broker dies: what is neither memory nor a lease is there in the next one, too.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"
. "${BASH_SOURCE%/*}/cgroups.bash"

# ptx NAME...: prints PTX with a kernel of each name.
ptx()
{
	local name
	printf '%s\n' '.version 7.0' '.target sm_52' '.address_size 64'
	for name; do
		printf '.visible .entry %s(\n.param .u32 a,\n.param .u64 b\n)\n{\n\tret;\n}\n' "$name"
	done
}

# All of modules that is promised to stay: ids of files, times and the image, too.
modules()
{
	cd "$O/modules"
	ls -ilnR --time-style=full-iso
	find . -type f ! -name launch ! -name attributes -exec sha256sum {} + | sort -k 2
	cd "$M"
}

# A machine may have one device or several.
last_device()
{
	echo $(($(ls "$O/devices" | wc -l) - 1))
}

test_modules_outlive_the_broker()
{
	local before last
	needs_kernels
	keep
	last=$(last_device)
	mkdir "$O"/modules/{saxpy,empty,broken,folder} "$O/modules/folder/order"
	cp "$GPUMEM_KERNELS/saxpy.ptx" "$O/modules/saxpy/image"
	cp "$GPUMEM_KERNELS/order.ptx" "$O/modules/folder/order/image"
	{ ptx f && echo frobnicate; } >"$T/broken"
	! cp "$T/broken" "$O/modules/broken/image" 2>/dev/null || fail 'it was loaded'
	echo "$last" >"$O/modules/empty/device"
	chmod 600 "$O/modules/saxpy/image"
	mv "$O/modules/folder" "$O/modules/below"
	chmod 750 "$O/modules/below"
	before=$(modules)
	like "$(<"$O/modules/broken/log")" 'frobnicate|line'
	survives_twice modules "$before"
	is "$(<"$O/modules/broken/state") $(<"$O/modules/empty/device")" "failed $last"
	is "$(value_of "$O/status" modules)" 4
	# They are loaded again at their next use.
	say alloc 'x 4096xf32'
	say alloc 'y 4096xf32'
	say fill 'x f32:1.5'
	echo 'elements=4096 u32:4096 f32:2 in:x y' >"$O/modules/saxpy/functions/saxpy/launch"
	is "$(od -A n -t f4 -w4 -v "$O/allocations/y/data" | sort -u | tr -d ' ')" 3
	say launch 'below/order add grid=1 block=1 in:x i32:1 y'
	like "$(<"$O/modules/saxpy/functions/saxpy/attributes")" 'num_regs [0-9]'
	rmdir "$O"/modules/below/order "$O"/modules/*
	is "$(ls "$O/modules")" ''
	end
}

test_a_function_is_the_same_in_the_next_broker()
{
	keep
	mkdir "$O/modules/m"
	ptx f g "$(printf 'k%.0s' {1..700})" >"$O/modules/m/image"
	cd "$O/modules/m/functions/g"
	is "$(<params)" $'0 0 4\n1 8 8'
	die
	is "$(<params) $(<name)" $'0 0 4\n1 8 8 g'
	is "$(wc -c <"$(ls -d ../k*)/name")" 701
	ptx g >"$O/modules/m/image"
	denied ESTALE 'cat params'
	cd "$M"
	die
	is "$(ls "$O/modules/m/functions")" g
	end
}

test_functions_found_by_name_are_kept()
{
	local before
	is_software || skip 'no driver of hardware lacks this call'
	inject 'fail=cuModuleGetFunctionCount@*=CUDA_ERROR_NOT_SUPPORTED'
	keep
	mkdir "$O/modules/m"
	ptx f g >"$O/modules/m/image"
	is "$(<"$O/modules/m/functions/g/name")" g
	before=$(modules)
	die
	diff <(modules) - <<<"$before"
	is "$(<"$O/modules/m/functions/f/name")" f
	is "$(ls "$O/modules/m/functions" | xargs)" 'f g'
	end
}

test_what_modules_had_is_given_back()
{
	local before ids
	keep
	mkdir "$O/modules/m"
	ptx f >"$O/modules/m/image"
	die
	before=$(kept)
	for i in 1 2 3; do
		ptx f$i g$i >"$O/modules/m/image"
		mkdir "$O/modules/n$i"
		cp "$O/modules/m/image" "$O/modules/n$i/image"
		ids+=$(stat -c ' %i' "$O/modules/n$i" "$O/modules/n$i/functions/f$i")
		[ "$i" = 2 ] || rmdir "$O/modules/n$i"
		die
		is "$(ls "$O/modules/m/functions" | xargs)" "f$i g$i"
	done
	is "$(ls "$O/modules" | xargs)" 'm n2'
	rmdir "$O/modules/n2"
	is "$(xargs -n 1 <<<"$ids" | sort -u | wc -l)" 6
	kept_again "$before"
	end
}

# dies_after N: the broker dies at the Nth crash point from now on.
dies_after()
{
	local points
	points=$(od -A n -t u8 -N 8 "$T/own/plan")
	printf '%016x\n' $((points + $1)) | fold -w 2 | tac | sed 's/^/\\x/' | tr -d '\n' >"$T/at"
	printf "$(<"$T/at")" | dd of="$T/own/plan" bs=1 seek=8 conv=notrunc status=none
}

# Records of modules, images and functions.
n_of_modules()
{
	records | grep -cE '^(module|image|function) ' || :
}

n_deaths()
{
	od -A n -t u8 -j 80 -N 8 "$T/own/plan" | tr -d ' '
}

# They are freed some hundreds at a time, when no module shows them any more. A rmdir under
# way is an error, and perhaps done.
test_many_functions_end_as_a_whole()
{
	local before n
	grep -q GPUMEM_CRASH "$GPUMEMD" || skip 'a build with -Dcrash_points=true has it'
	mkdir -p "$T/own"
	head -c 4096 /dev/zero >"$T/own/plan"
	GPUMEM_CRASH=$T/own/plan keep
	ptx f{1..600} >"$T/many"
	before=$(kept)
	for n in {1..18}; do
		mkdir "$O/modules/m"
		cp "$T/many" "$O/modules/m/image"
		is "$(n_of_modules)" 602
		dies_after $((n + 6))
		rmdir "$O/modules/m" 2>/dev/null || rmdir "$O/modules/m" 2>/dev/null || :
		eventually "[ \"\$(n_deaths)\" = $n ]"
		is "$(ls "$O/modules")" ''
		kept_again "$before"
		is "$(n_of_modules)" 0
	done
	end
}

# A load that nobody was told of is not there, and the module as before.
test_a_load_under_way_is_an_error()
{
	local status=0 waiting
	is_software || skip 'the driver of hardware loads at once'
	keep
	mkdir "$O/modules/m"
	ptx f >"$O/modules/m/image"
	eventually "[ \"\$(value_of '$O/owners/$(id -u)/current' operations)\" = 0 ]" # the first load
	inject 'delay=cuModuleLoadDataEx@*=60s'
	ptx g >"$T/g"
	cp "$T/g" "$O/modules/m/image" 2>"$T/said" &
	waiting=$!
	eventually "[ \"\$(value_of '$O/owners/$(id -u)/current' operations)\" = 1 ]"
	die
	wait "$waiting" || status=$?
	is "$(ls "$O/modules/m/functions") $(<"$O/modules/m/state")" 'f loaded'
	[ "$status" != 0 ] || fail 'it was done'
	like "$(<"$T/said")" "${message[ESTALE]}"
	: >"$T/inject"
	ptx g >"$O/modules/m/image"
	is "$(ls "$O/modules/m/functions")" g
	end
}

# while_away COMMAND...: the broker stops, the command runs, and the broker dies.
while_away()
{
	local broker
	broker=$(broker_pid)
	stop "$broker"
	"$@"
	kill -KILL "$broker"
	timeout 20 cat "$O/version" >/dev/null || fail "the mount does not answer" "$(<"$T/own/stderr")"
}

# end_of PROCESS [CGROUP]: both go.
end_of()
{
	kill -KILL "$1"
	wait "$1" || :
	[ $# = 1 ] || eventually "rmdir '$2'"
}

gone()
{
	eventually "[ ! -e '$O/allocations/$1' ]"
}

test_memory_with_until_exit_ends_with_its_process()
{
	local first second before
	keep
	before=$(n_kept)
	cd "$O"
	writer 'x 4M until=exit'
	first=$writer
	writer 'y 4K until=exit'
	second=$writer
	writer 'p.part 4096 until=exit'
	cd "$M"
	say publish 'p.part p'
	kill -KILL "$writer"
	say fill 'x i32:7'
	die
	is "$(<"$O/allocations/x/until") $(<"$O/allocations/y/until") $(<"$O/allocations/p/until")" 'exit exit none'
	while_away end_of "$second"
	gone y
	is "$(od -A n -t d4 -N 4 "$O/allocations/x/data" | xargs)" 7
	kill -KILL "$first"
	gone x
	is "$(ls "$O/allocations")" p
	rmdir "$O/allocations/p"
	eventually "[ \"\$(n_kept)\" = $before ]"
	end
}

test_memory_with_until_cgroup_ends_with_its_cgroup()
{
	local first
	keep
	group_new one
	mkdir "$G/two"
	cd "$O"
	writer 'x 4K until=cgroup' "$G/one"
	first=$writer
	writer 'y 4K until=cgroup' "$G/two"
	cd "$M"
	die
	is "$(<"$O/allocations/x/until") $(<"$O/allocations/y/until")" 'cgroup cgroup'
	while_away end_of "$writer" "$G/two"
	gone y
	is "$(ls "$O/allocations")" x
	kill -KILL "$first"
	gone x
	end
}

# freed CGROUP: frees what came from there; prints the answer in a line.
freed()
{
	exec 3<>"$O/control/free"
	echo "cgroup=$1" >&3
	xargs <&3
	exec 3<&-
}

# Their working directory is the mount.
end_writers()
{
	cat "$G"/*/cgroup.procs | xargs kill -KILL
	eventually '[ -z "$(cat "$G"/*/cgroup.procs)" ]'
}

test_the_cgroup_of_memory_outlives_the_broker()
{
	local long
	keep
	# Longer than a record of a text.
	long=$(printf 'long%.0s' {1..30})
	group_new one
	mkdir "$G/$long" "$G/gone"
	cd "$O"
	writer 'x 4096' "$G/one"
	writer 'y 4096 kind=host' "$G/one"
	writer 'z 4M' "$G/$long"
	writer 'p.part 1M until=exit' "$G/$long"
	writer 'ended 4096' "$G/gone"
	cd "$M"
	say alloc 'mine 4096'
	kill -KILL $(<"$G/gone/cgroup.procs")
	eventually "rmdir '$G/gone'"
	say publish 'p.part p'
	mv "$O/allocations/y" "$O/allocations/renamed"
	[ "$(id -u)" != 0 ] || chown 1001 "$O/allocations/z"
	for _ in 1 2; do
		die
		cd "$O/allocations"
		is "$(cat {x,renamed,z,p,ended}/cgroup | xargs)" "$P/one $P/one $P/$long $P/$long $P/gone"
		is "$(<mine/cgroup)" "$(awk -F : '$1 == 0 { print $3 }' /proc/self/cgroup)"
		cd "$M"
	done
	is "$(freed "$P/one")" 'freed 2 bytes 8192'
	is "$(freed "$P/gone")" 'freed 1 bytes 4096'
	# What is made now is of the same cgroup.
	cd "$O"
	writer 'w 4096' "$G/$long"
	cd "$M"
	die
	is "$(freed "$P/$long")" 'freed 3 bytes 5246976'
	die
	is "$(ls "$O/allocations") $(freed "$P")" 'mine freed 0 bytes 0'
	end_writers
	end
}

# Memory that is lost with the broker is freed by the job's epilog, too.
test_memory_that_was_lost_has_its_cgroup()
{
	keep
	group_new job
	cd "$O"
	writer 'm 4096 kind=managed' "$G/job"
	writer 'c 4096 until=close' "$G/job"
	cd "$M"
	die
	is "$(ls "$O/allocations") $(<"$O/allocations/m/cgroup")" "m $P/job"
	is "$(freed "$P/job")" 'freed 1 bytes 4096'
	is "$(ls "$O/allocations")" ''
	end_writers
	end
}

test_what_kernels_printed_outlives_the_broker()
{
	local output before
	needs_kernels
	keep
	output=$O/owners/$UID/output
	mkdir "$O/modules/print"
	cp "$GPUMEM_KERNELS/print.ptx" "$O/modules/print/image"
	say launch 'print greet grid=1 block=2 i32:9'
	before=$(<"$output")
	is "$(wc -l <<<"$before")" 2
	die
	is "$(<"$output")" "$before"
	say launch 'print greet grid=1 block=1 i32:8'
	is "$(head -n 2 "$output")" "$before"
	like "$(tail -n 1 "$output")" '^block 0 thread 0: 8 words'
	# More than is kept: the last 64 KiB, without the rest of a line.
	say launch 'print greet grid=8 block=256 i32:7'
	before=$(<"$output")
	like "$(wc -c <<<"$before")" '^65[0-9]{3}$'
	die
	is "$(<"$output")" "$before"
	die
	is "$(<"$output")" "$before"
	say launch 'print greet grid=1 block=1 i32:6'
	like "$(tail -n 1 "$output")" '^block 0 thread 0: 6 words'
	is "$(tail -n 101 "$output" | head -n 100)" "$(tail -n 100 <<<"$before")"
	end
}

test_a_worker_that_has_failed_is_not_started_by_the_next_broker()
{
	local i
	keep
	inject 'kill=cuMemAlloc_v2@*'
	cd "$O"
	for i in 1 2 3; do
		refused EIO 'was killed by signal 9' 'echo "x 4096 kind=direct" >control/alloc'
		eventually "[ \$(<owners/$UID/restarts) = $i ]"
		[ "$i" != 1 ] || { cd "$M" && die && cd "$O"; }
	done
	is "$(<"owners/$UID/state")" failed
	for i in 1 2; do
		cd "$M"
		die
		cd "$O"
		is "$(<"owners/$UID/state")" failed
		is "$(<"owners/$UID/failure")" 'the worker was killed by signal 9'
		refused EIO 'failed again and again' 'echo "x 4096 kind=direct" >control/alloc'
		is "$(<"owners/$UID/restarts")" 3
	done
	inject
	echo 1 >"owners/$UID/reset"
	is "$(<"owners/$UID/state")" idle
	cd "$M"
	die
	is "$(<"$O/owners/$UID/state")" idle
	say alloc 'x 4096 kind=direct'
	is "$(<"$O/owners/$UID/state")" running
	rmdir "$O/allocations/x"
	end 'the worker of uid'
}

# All of streams that is promised to stay: ids of files and times, too.
streams()
{
	cd "$O/streams"
	ls -ilnR --time-style=full-iso
	grep -r . --include={device,priority,state,error,owner,id} | sort
	cd "$M"
}

# The group of a user's memory may be somebody else's choice.
test_the_next_broker_takes_no_group_of_memory_for_its_owners()
{
	local user=1071
	needs_root 'several users'
	keep
	say alloc 'thesis 4M'
	chown $user:4 "$O/allocations/thesis"
	mkdir "$O/allocations/home"
	chown $user:4 "$O/allocations/home"
	die
	cd "$O"
	by $user run 'echo "y 4K kind=direct" >control/alloc'
	is "$(sed -n 's/^Groups:\s*//p' "/proc/$(<owners/$user/worker)/status" | xargs)" $user
	by $user run "rmdir allocations/y"
	cd "$M"
	end
}

test_streams_outlive_the_broker()
{
	local before last
	keep
	last=$(last_device)
	mkdir "$O"/streams/{a,b,c,gone}
	echo -5 >"$O/streams/a/priority"
	echo "$last" >"$O/streams/b/device"
	rmdir "$O/streams/gone"
	say alloc 'x 4096'
	say fill 'x u8:7 stream=a'
	before=$(streams)
	survives_twice streams "$before"
	is "$(value_of "$O/status" streams)" 3
	cd "$O"
	refused EBUSY 'stream a is in use' 'echo 3 >streams/a/priority'
	[ "$last" = 0 ] || refused EXDEV "stream b is on device $last" 'echo "x u8:8 stream=b" >control/fill'
	denied EEXIST 'mkdir streams/c'
	cd "$M"
	say fill 'x u8:8 stream=a'
	echo 4 >"$O/streams/c/priority"
	say fill 'x u8:9 stream=c'
	say synchronize a
	rmdir "$O"/streams/{a,b,c}
	die
	is "$(ls "$O/streams")" default
	mkdir "$O/streams/a"
	is "$(<"$O/streams/a/priority")" 0
	end
}

# What nobody waits for is told at the next synchronize, as when a worker ends.
test_work_that_was_queued_is_a_failure_of_its_stream()
{
	keep
	mkdir "$O"/streams/{s,t,done}
	say alloc 'x 4096'
	say alloc 'y 4096'
	say fill 'y u8:1 stream=done wait=0'
	say synchronize done
	slow 60s
	say fill 'x u8:7 stream=s wait=0'
	say fill 'y u8:7 wait=0'
	{ say fill 'x u8:8 stream=t' 2>/dev/null || true; } &
	eventually "[ \"\$(<'$O/streams/t/state')\" = busy ]"
	die
	wait $!
	: >"$T/inject"
	is "$(<"$O/streams/s/state") $(<"$O/streams/s/error")" 'failed EIO'
	is "$(<"$O/streams/default/state") $(<"$O/streams/default/error")" 'failed EIO'
	# A line that was waited for has its own answer.
	is "$(<"$O/streams/t/state") $(<"$O/streams/done/state")" 'idle idle'
	like "$(<"$O/events")" 'failed streams/s errno=EIO'
	die
	cd "$O"
	refused EIO 'the broker died before .* of stream s' 'echo s >control/synchronize'
	refused EIO 'of stream default' 'echo default >control/synchronize'
	cd "$M"
	say synchronize s
	die
	is "$(<"$O/streams/s/state") $(<"$O/streams/s/error")" 'idle none'
	is "$(<"$O/streams/default/state")" idle
	end
}

test_a_failure_of_a_stream_is_kept_until_it_is_told()
{
	keep
	mkdir "$O/streams/s"
	say alloc 'x 4096'
	inject 'fail=cuMemsetD8Async@*=CUDA_ERROR_UNKNOWN'
	say fill 'x u8:7 stream=s wait=0'
	eventually "[ \"\$(<'$O/streams/s/state')\" = failed ]"
	: >"$T/inject"
	die
	is "$(<"$O/streams/s/state") $(<"$O/streams/s/error")" 'failed EIO'
	cd "$O"
	refused EIO CUDA_ERROR_UNKNOWN 'echo s >control/synchronize'
	cd "$M"
	die
	is "$(<"$O/streams/s/state")" idle
	rmdir "$O/streams/s"
	end
}

# header N: prints the header of a safetensors file, of N tensors.
header()
{
	python3 -c 'import json, sys
print(json.dumps({f"t{i}": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i in range(int(sys.argv[1]))}))' "$1"
}

# describe NAME N: an allocation has N tensors; cp waits until the text is taken.
describe()
{
	header "$2" >"$T/header"
	cp "$T/header" "$O/allocations/$1/tensors"
}

tensors()
{
	cd "$O/allocations"
	ls -iln ./*/tensors
	sha256sum ./*/tensors
	cd "$M"
}

test_tensors_outlive_the_broker()
{
	local before
	keep
	say alloc 'x 1M'
	say alloc 'y.part 4096'
	say alloc 'z 4096'
	say alloc 'none 4096'
	describe x 50000
	describe y.part 1
	describe z 2
	say publish 'y.part y'
	before=$(tensors)
	like "$(stat -c %s "$O/allocations/x/tensors")" '^[0-9]{7}$'
	survives_twice tensors "$before"
	cmp "$O/allocations/x/tensors" <(header 50000)
	# They are what they were: replaced, refused, removed.
	describe z 3
	! describe z 4097 2>/dev/null || fail 'the text was taken'
	cd "$O"
	refused EPERM 'sealed' 'echo {} >allocations/y/tensors'
	cd "$M"
	: >"$O/allocations/x/tensors"
	die
	is "$(stat -c %s "$O"/allocations/{none,x}/tensors | xargs)" '0 0'
	cmp "$O/allocations/z/tensors" <(header 3)
	say copy 'x from=z'
	rmdir "$O/allocations"/{none,x,y,z}
	die
	is "$(ls "$O/allocations")" ''
	end
}

test_tensors_that_end_are_given_back()
{
	local before
	needs_root 'the descriptors of a keeper are counted'
	keep
	say alloc 'x 4096'
	say alloc 'y 4096'
	die
	before=$(n_kept)
	describe x 1
	describe y 1
	describe y 2
	eventually "[ \"\$(n_kept)\" = $((before + 2)) ]"
	die
	: >"$O/allocations/x/tensors"
	eventually "[ \"\$(n_kept)\" = $((before + 1)) ]"
	# A reader keeps the text, and the next broker does not.
	exec 4<"$O/allocations/y/tensors"
	rmdir "$O/allocations/y"
	is "$(n_kept)" $((before + 1))
	die
	exec 4<&-
	eventually "[ \"\$(n_kept)\" = $before ]"
	end
}

# A text that is not closed is not there, and the old one as before.
test_tensors_that_are_being_written_are_an_error()
{
	keep
	say alloc 'x 1M'
	describe x 1
	is "$(
		cd "$O"
		py <<-'EOF'
			fd = os.open("allocations/x/tensors", os.O_WRONLY | os.O_TRUNC)
			os.write(fd, b'{}')
			os.kill(int(open("pid").read()), 9)
			show(os.close, fd)
		EOF
	)" ESTALE
	cmp "$O/allocations/x/tensors" <(header 1)
	describe x 4
	rmdir "$O/allocations/x"
	end
}

# For `metrics`: a scraper sees no counter begin anew.
test_times_of_lines_go_on_in_the_next_broker()
{
	local before
	keep
	say alloc 'x 2M'
	say fill 'x u8:1'
	before=$(grep '^gpumem_control_line_seconds' "$O/metrics")
	like "$before" 'count\{verb="fill"\} 1'
	die
	diff <(grep '^gpumem_control_line_seconds' "$O/metrics") - <<<"$before"
	say fill 'x u8:2'
	like "$(<"$O/metrics")" 'line_seconds_count\{verb="fill"\} 2'
	end
}

main "$@"
