#!/bin/bash
# Names. Names chosen by traced programs reach a terminal only as harmless text. Names of
# allocations come from the worker's own broker, or are missing.
. "${BASH_SOURCE%/*}/lib.bash"

# Names of a program and a function that would colour the screen, ring the bell, set the
# title, and imitate lines of the tool. Letters beyond ASCII are harmless.
program=$'\e[31mX\nY\a\xc2\x9bé'
function="'\\x1b]0;pwn\\x07\"\\xff\\x7f\\nzz\\xc3\\xa9\\xe2\\x80\\xae"
calls="$prepare
cuMemAlloc_v2 &a 4096
cuModuleGetFunction &f 0 $function"

# named OPTION...: runs this program under the tool.
named()
{
	cp "$C" "$T/$program"
	C=$T/$program trace "$@" <<<"$calls"
}

# harmless FILE: the file has only text and ends of lines.
harmless()
{
	! LC_ALL=C grep -aqP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' "$1" ||
		fail "$1 is more than text:" "$(cat -v "$1")"
	iconv -f UTF-8 -t UTF-8 "$1" >"$T/utf8" || fail "$1 is not UTF-8:" "$(cat -v "$1")"
}

shown='\x1b[31mX\x0aY\x07\xc2\x9bé'

test_lines_have_names_without_their_escapes()
{
	named
	harmless "$T/out"
	# a heading, five calls, the end of the process
	is "$(wc -l <"$T/out")" 7
	is "$(grep -cF " $shown " "$T/out")" 6
	like "$(grep cuModuleGetFunction "$T/out")" ' name=\\x1b\]0;pwn\\x07"\\xff\\x7f\\x0azzé\\xe2\\x80\\xae$'
}

test_tables_have_names_without_their_escapes()
{
	local mode
	for mode in --top --summary; do
		named "$mode"
		harmless "$T/out"
		is "$(grep -cF " $shown " "$T/out")" 1
	done
}

test_leaks_have_names_without_their_escapes()
{
	named --leaks
	harmless "$T/out"
	like "$(sed -n 1p "$T/out")" '^process [0-9]+ \(\\x1b\[31mX\\x0aY\\x07\\xc2\\x9bé\) ended'
	is "$(wc -l <"$T/out")" 3
}

test_stacks_have_names_without_their_escapes()
{
	(
		eventually "grep -q cuMemFree_v2 '$T/out'"
		touch "$T/read"
	) &
	# (the kernel writes an end of line in the name of a file as \012)
	program=${program/$'\n'/}
	cp "$C" "$T/$program"
	C=$T/$program trace -s -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemFree_v2 \$a
		wait $T/read
	EOF
	harmless "$T/out"
	like "$(grep -m1 caller_call "$T/out")" '^ +caller_call\+0x[0-9a-f]+ \(\\x1b\[31mXY\\x07\\xc2\\x9bé\) caller\.c:'
}

test_columns_stand_below_each_other_whatever_the_letters()
{
	cp "$C" "$T/éé"
	C=$T/éé trace -e mem <<<"$calls"
	like "$(grep cuMemAlloc "$T/out")" ' éé {14}cuMemAlloc_v2 '
}

test_libraries_have_names_without_their_escapes()
{
	local at=$T/$'\e[31m\a'
	mkdir "$at"
	cp "$L" "$at/libcuda.so.1"
	"$GPUMEM_TRACE" -v --library "$at/libcuda.so.1" -d 0.01 >"$T/out" 2>"$T/err"
	harmless "$T/err"
	like "$(<"$T/err")" 'probing .*/\\x1b\[31m\\x07/libcuda.so.1'
	"$GPUMEM_TRACE" --list --library "$at/libcuda.so.1" >"$T/out"
	harmless "$T/out"
	"$GPUMEM_TRACE" --library "$at/none.so" 2>"$T/err" && fail 'there is no such library'
	harmless "$T/err"
}

# broker NAME: starts a broker on $T/NAME, with the driver library that the tool traces.
brokers=()
broker()
{
	mkdir "$T/$1"
	"$GPUMEMD" -f --driver "software:machine=${T##*.}.$1" "$T/$1" >"$T/$1.log" 2>&1 &
	brokers+=($!)
	mounted+=("$T/$1")
	eventually "[ -e '$T/$1/control/alloc' ]"
}

brokers_end()
{
	umount_all
	local pid
	for pid in "${brokers[@]}"; do
		wait "$pid"
	done
}

# allocate NAME [FOLDER/]: makes direct and device allocations at broker NAME until the tool
# has shown both with names. The tool limits the time for reading names, so names may come
# late.
allocate()
{
	local n=0 maps in=${2-}
	until grep -Eq 'cuMemAlloc_v2[" ].*name"?[:=]"?'"${in}direct-$1" "$T/out" &&
		grep -Eq 'cuMemMap[" ].*name"?[:=]"?'"${in}device-$1" "$T/out"; do
		[ $((n += 1)) -lt 50 ] || fail 'no names' "$(head -c 4000 "$T/out")"
		maps=$(grep -c 'cuMemMap[" ]' "$T/out") || true
		echo "${in}direct-$1-$n 64K kind=direct" >"$T/$1/control/alloc"
		echo "${in}device-$1-$n 2M" >"$T/$1/control/alloc"
		head -c 4096 /dev/zero >"$T/$1/allocations/${in}device-$1-$n/data"
		eventually "[ \"\$(grep -c 'cuMemMap[\\\" ]' '$T/out')\" -gt $maps ]"
	done
}

test_the_brokers_allocations_have_their_names()
{
	export GPUMEM_SOFTGPU=
	L=$GPUMEM_LIBRARY # the broker's
	broker mnt
	start -e mem,vmm
	allocate mnt
	stop
	like "$(grep 'cuMemMap .* name=' "$T/out")" ' name=device-mnt-[0-9]+$'
	brokers_end
}

test_names_have_their_folders()
{
	export GPUMEM_SOFTGPU=
	L=$GPUMEM_LIBRARY
	broker mnt
	mkdir -p "$T/mnt/allocations/a/b"
	start -e mem,vmm
	allocate mnt a/b/
	stop
	like "$(grep 'cuMemMap .* name=' "$T/out")" ' name=a/b/device-mnt-[0-9]+$'
	brokers_end
}

test_names_are_of_the_workers_own_broker_where_addresses_are_the_same()
{
	export GPUMEM_SOFTGPU=
	L=$GPUMEM_LIBRARY
	broker first
	broker second
	start --json -e mem,vmm
	for at in first second; do
		allocate "$at"
		echo "('$at', $(<"$T/$at/owners/0/worker"), $(awk '$1 == "mover" { print $2 }' "$T/$at/status"))," >>"$T/pids"
	done
	stop
	is "$(cat "$T/first/allocations/device-first-1/address")" \
		"$(cat "$T/second"/allocations/device-second-*/address | sort | head -1)"
	check <<-EOF
		for at, direct, mover in [$(<"$T/pids")]:
		    rows = [row for row in calls("cuMemAlloc_v2") + calls("cuMemMap") if row["pid"] in (direct, mover)]
		    names = {row.get("name", "-%s-" % at).split("-")[1] for row in rows}
		    same(names, {at}, rows)
	EOF
	brokers_end
}

test_what_a_worker_held_when_it_ended_has_its_name()
{
	export GPUMEM_SOFTGPU=
	L=$GPUMEM_LIBRARY
	broker mnt
	start --leaks
	echo 'scratch 64K kind=direct' >"$T/mnt/control/alloc"
	echo 'stays 4M' >"$T/mnt/control/alloc"
	echo 'stays u8:1' >"$T/mnt/control/fill"
	# the tool looks up the worker's broker when any process ends
	call <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
	EOF
	eventually "grep -q '(caller) ended holding' '$T/out'"
	kill -KILL "$(<"$T/mnt/owners/0/worker")"
	eventually "grep -q '(gpumem-0) ended holding' '$T/out'"
	stop
	like "$(grep ' 65536 device' "$T/out")" ' cuMemAlloc_v2 scratch$'
	# memory in the broker's address range has a name; the range itself has none
	like "$(grep ' cuMemMap' "$T/out")" ' 4194304 imported .* cuMemMap stays$'
	is "$(grep -c 'stays$' "$T/out")" 1
	like "$(grep ' reserved ' "$T/out" | grep -v ^process)" ' cuMemAddressReserve$'
	brokers_end
}

# leased: a broker with allocations to be leased.
leased()
{
	export GPUMEM_SOFTGPU=
	L=$GPUMEM_LIBRARY
	broker mnt
	echo 'weights 3M' >"$T/mnt/control/alloc"
	echo 'cache 6M' >"$T/mnt/control/alloc"
	echo 'pinned 1M kind=host' >"$T/mnt/control/alloc"
}

# lessee: starts a client of the broker. `say LINE...` sends lines to the client, `leave`
# ends the client.
lessee()
{
	rm -f "$T/lines"
	mkfifo "$T/lines"
	GPUMEM_MOUNT=$T/mnt GPUMEM_SOFTGPU=machine=${T##*.}.mnt LD_LIBRARY_PATH=$(dirname "$L") \
		ASAN_OPTIONS=detect_leaks=0 "$GPUMEM_CLIENT" <"$T/lines" >"$T/calls" &
	lessee=$!
	exec 7>"$T/lines"
	say context
}

say()
{
	printf '%s\n' "$@" >&7
}

leave()
{
	exec 7>&-
	wait $lessee
	lessee=
}

# seen_named CALL NAME [N]: waits until N lines of the client's CALLs have NAME.
seen_named()
{
	eventually "[ \"\$(grep -E '[ \"]client[ \"].*$1' '$T/out' | grep -cE 'name\"?[:=]\"?$2')\" = ${3-1} ]"
}

test_memory_mapped_through_a_lease_has_its_allocations_name()
{
	leased
	start -e mem,vmm
	lessee
	say 'map 1 weights' 'map 2 cache w' 'map 4 pinned register'
	seen_named cuMemMap weights
	seen_named cuMemMap cache
	seen_named cuMemHostRegister pinned
	# at another address
	say 'map 3 cache any'
	seen_named cuMemMap cache 2
	# the lease has ended by the time when the tool sees the call
	say 'unmap 3' 'unmap 4'
	seen_named cuMemUnmap cache
	seen_named cuMemHostUnregister pinned
	leave
	stop
	brokers_end
}

test_leased_memory_is_in_no_sum_of_its_users()
{
	leased
	start --json
	lessee
	say 'map 1 weights' 'map 2 cache w'
	seen_named cuMemMap cache
	say 'unmap 1'
	leave
	eventually "grep -q '\"client\".*\"exit\"' '$T/out'"
	stop
	check <<-EOF
		E[:] = [row for row in E if row["comm"] == "client"]
		a, b = calls("cuMemMap")
		has(a, name="weights", kind="imported", held=4194304)
		has(b, name="cache", kind="imported", held=4194304 + 6291456)
		has(one("cuMemUnmap"), name="weights", kind="imported", freed=4194304, held=6291456)
		has(one("exit"), freed=0, n_freed=0, imported=6291456)
		lacks(one("exit"), "vmm")
	EOF
	brokers_end
}

test_leaks_have_the_names_of_leased_memory()
{
	leased
	start --leaks 0.1
	lessee
	say 'map 1 weights' 'map 2 weights any'
	eventually "grep -q 'client) holds 0 allocations (and imported 8388608 ' '$T/out'"
	leave
	eventually "grep -q '(client) ended holding' '$T/out'"
	stop
	is "$(awk '/^process/ { on = /client\) ended/ } on && $3 == "imported" { print $2, $6, $7 }' "$T/out")" \
		$'4194304 cuMemMap weights\n4194304 cuMemMap weights'
	like "$(grep '(client) ended' "$T/out")" 'holding 0 allocations \(and imported 8388608 reserved'
	brokers_end
}

test_tables_have_the_allocations_that_programs_lease()
{
	local mode
	leased
	for mode in --summary --top; do
		start "$mode" 0.1
		lessee
		say 'map 1 weights' 'map 2 weights any' 'map 3 cache'
		eventually "grep -qE ' client +8388608 +8388608 weights' '$T/out'"
		eventually "grep -qE ' client +6291456 +6291456 cache' '$T/out'"
		say 'unmap 3'
		leave
		eventually "grep -qE ' client +0 +8388608 weights' '$T/out'"
		stop
		is "$(awk '$2 == "client" && NF == 5 { print $3, $4, $5 }' "$T/out" | tail -n 2)" \
			$'0 8388608 weights\n0 6291456 cache'
		like "$(grep -E ' client .* ended' "$T/out" | tail -n 1)" ' client +0 +0 .* 0 ended$'
	done
	brokers_end
}

# pretend NAME UID [FILE TEXT]...: a mount of the user UID that looks like a broker's.
pretend()
{
	mkdir -p "$T/$1"
	python3 "$here/../fake_mount.py" "$T/$@" &
	pretenders+=($!)
	mounted+=("$T/$1")
	eventually "grep -q ' $T/$1 ' /proc/self/mounts"
}

# work <<CALLS: a program with the process name of a worker.
work()
{
	cp "$C" "$T/gpumem-mover"
	"$T/gpumem-mover" "$L" >"$T/calls"
}

# importer UID: starts a program of the user that imports memory and maps it.
importer()
{
	rm -f "$T/seen"
	setpriv --reuid "$1" --clear-groups "$C" "$L" >"$T/imported" <<-EOF &
		$prepare
		$vmm
		cuMemAddressReserve &r 2097152 0 0 0
		pid $T/pid-$1
		wait $T/go-$1
		$import
		wait $T/seen
	EOF
	eventually "[ -s '$T/pid-$1' ]"
	imports=$!
}

# imported UID: lets this program go on and prints the line of its cuMemMap.
imported()
{
	touch "$T/go-$1"
	eventually "grep -q ' $(<"$T/pid-$1") .*cuMemMap' '$T/out'"
	touch "$T/seen"
	wait "$imports"
	grep " $(<"$T/pid-$1") .*cuMemMap" "$T/out"
}

test_a_mount_that_does_not_answer_stops_nobody()
{
	pretend stuck 0
	start -e mem
	work <<-EOF &
		$calls
		wait $T/seen
	EOF
	eventually "grep -q cuMemAlloc_v2 '$T/out'"
	touch "$T/seen"
	local begin=$SECONDS
	kill -TERM "$tool"
	eventually "! kill -0 $tool"
	[ $((SECONDS - begin)) -lt 5 ] || fail "it took $((SECONDS - begin)) s"
	ends
	like "$(grep cuMemAlloc_v2 "$T/out")" ' held=4096$'
}

test_a_mount_that_does_not_answer_stops_no_program_that_imports()
{
	pretend stuck 0
	start -e vmm
	importer 0
	unlike "$(imported 0)" 'name='
	stop
	umount_all
}

test_other_brokers_have_names_beside_a_mount_that_does_not_answer()
{
	export GPUMEM_SOFTGPU=
	L=$GPUMEM_LIBRARY
	pretend stuck 0
	broker mnt
	start -e mem,vmm
	allocate mnt
	stop
	brokers_end
}

# named_by UID: traces a program named like a worker, beside a mount of the user UID with a
# name for every address.
named_by()
{
	rm -f "$T/pid" "$T/go" "$T/seen"
	start -e mem
	work <<-EOF &
		$prepare
		pid $T/pid
		wait $T/go
		cuMemAlloc_v2 &a 4096
		wait $T/seen
	EOF
	eventually "[ -s '$T/pid' ]"
	pretend "of-$1" "$1" status "mover $(<"$T/pid")" allocations/forged/address 0x1000 \
		allocations/forged/size_bytes 0x7fffffffffff allocations/forged/owner 0
	touch "$T/go"
	eventually "grep -q cuMemAlloc_v2 '$T/out'"
	touch "$T/seen"
	stop
	umount_all
}

test_a_mount_of_another_user_names_nothing()
{
	named_by 0
	like "$(grep cuMemAlloc_v2 "$T/out")" ' name=forged$'
	named_by 65534
	like "$(grep cuMemAlloc_v2 "$T/out")" ' held=4096$'
	# the user behind sudo has a broker, but root's worker belongs to another
	export SUDO_UID=65534 SUDO_GID=65534
	named_by 65534
	like "$(grep cuMemAlloc_v2 "$T/out")" ' held=4096$'
}

test_a_mount_of_an_ordinary_user_names_no_leases_of_others()
{
	local user
	chmod 777 "$T"
	cp "$C" "$T/gpumem-mover"
	printf 'pid %s\nwait %s\n' "$T/mover" "$T/end" >"$T/idle"
	export SUDO_UID=65534 SUDO_GID=65534 GPUMEM_SOFTGPU=machine=${T##*.}
	# a fake broker with a fake mover
	setpriv --reuid 65534 --clear-groups bash -c "'$T/gpumem-mover' '$L' <'$T/idle'; :" &
	eventually "[ -s '$T/mover' ]"
	for user in 0 65534; do
		start -e vmm
		importer $user
		pretend "of-$user" 65534 status "mover $(<"$T/mover")" \
			leases "forged $(<"$T/pid-$user") $user r 2026-11-22T08:00:00Z hold=none caller" \
			allocations/forged/address 0x1000 allocations/forged/size_bytes 0x7fffffffffff \
			allocations/forged/owner 0
		if [ $user = 0 ]; then
			unlike "$(imported $user)" 'name='
		else
			like "$(imported $user)" ' name=forged$'
		fi
		stop
		umount_all
	done
	touch "$T/end"
	wait
}

main "$@"
