#!/bin/bash
# What gpumemd tells the administrator: warnings on stderr or in the system's journal, and
# the service manager's status.
. "${BASH_SOURCE%/*}/lib.bash"

# own [OPTION...]: starts a broker of the case's own in $T/own and goes to its mount.
own()
{
	rm -rf --one-file-system "$T/own"
	mkdir -m 777 "$T/own"
	broker_start "$T/own" --driver "$(driver own)" "$@"
	cd "$T/own/mnt"
}

# says REGEX: waits for a line on stderr of the case's own broker.
says()
{
	eventually "grep -qE -- '$1' '$T/own/stderr'" 30 || fail "no line like $1:" "$(<"$T/own/stderr")"
}

# kernel NAME: loads docs/kernels/NAME.ptx as module NAME.
kernel()
{
	mkdir "modules/$1"
	cp "$here/../../docs/kernels/$1.ptx" "modules/$1/image"
}

test_a_worker_that_dies_and_what_is_lost_are_warnings()
{
	own
	echo 'd 4K kind=direct' >control/alloc
	echo 'e 8K kind=direct' >control/alloc
	echo 'kept 4K' >control/alloc
	kill -KILL "$(<owners/$UID/worker)"
	says "^gpumemd: warning: the worker of uid $UID was killed by signal 9\$"
	says "^gpumemd: warning: uid $UID has lost 2 allocations of 12 KiB: the worker was killed by signal 9\\. Lost: d, e\$"
	is "$(wc -l <"$T/own/stderr")" 2
}

test_a_fault_is_a_warning()
{
	own
	kernel wild
	refused EFAULT 'kernel wild/wild failed' 'echo "wild wild grid=1 block=1" >control/launch'
	says "^gpumemd: warning: the worker of uid $UID lost its contexts .*ILLEGAL_ADDRESS"
}

test_the_movers_death_is_a_warning()
{
	undying
	own
	echo 'x 4K' >control/alloc
	echo 'x u8:1' >control/fill
	kill -KILL "$(value_of status mover)"
	says '^gpumemd: warning: the mover, which moves all users. data, was killed by signal 9'
}

test_a_worker_that_can_not_be_started_is_an_error()
{
	needs_software 'start no worker'
	own
	printf 'kill=cuCtxCreate_v4@*\nkill=cuCtxCreate_v2@*\nkill=cuDevicePrimaryCtxRetain@*\nkill=cuMemAlloc_v2@*\n' >"$T/inject.new"
	mv "$T/inject.new" "$T/inject"
	for _ in 1 2 3 4; do
		fails "echo 'd 4K kind=direct' >control/alloc"
	done
	says "^gpumemd: error: the worker of uid $UID .*not started again until owners/$UID/reset is written"
	is "$(<owners/$UID/state)" failed
	rm "$T/inject"
}

test_broken_hardware_is_an_error()
{
	needs_software 'have broken hardware'
	own
	echo 'x 4K' >control/alloc
	echo 'fail=cuMemsetD8Async@1=CUDA_ERROR_ECC_UNCORRECTABLE' >"$T/inject.new"
	mv "$T/inject.new" "$T/inject"
	echo 'x u8:1' 2>/dev/null >control/fill || true
	says '^gpumemd: error: device 0 \(gpumem software GPU, 0000:01:00.0\) is gone or broken .*ECC_UNCORRECTABLE'
	rm "$T/inject"
}

# A user may have the own worker say so, whatever the device does.
test_a_users_worker_that_calls_a_device_broken_is_named()
{
	needs_software 'have broken hardware'
	own
	echo 'fail=cuMemAlloc_v2@1=CUDA_ERROR_ECC_UNCORRECTABLE' >"$T/inject.new"
	mv "$T/inject.new" "$T/inject"
	fails "echo 'd 4K kind=direct' >control/alloc"
	says "^gpumemd: error: the worker of uid $UID says that device 0 \\(gpumem software GPU, 0000:01:00.0\\) is gone or broken .*ECC_UNCORRECTABLE"
	rm "$T/inject"
}

# Five are said, the others are counted.
test_a_limit_that_is_hit_often_is_said_a_few_times()
{
	own
	py 2>"$T/own/said" <<-'EOF'
		readers = []
		for i in range(300):
		    try:
		        readers.append(os.open("events_pipe", os.O_RDONLY))
		    except OSError as error:
		        assert error.errno == errno.EMFILE, error
		assert len(readers) == 256, len(readers)
	EOF
	says "^gpumemd: warning: events_pipe: uid $UID has 256 .*the limit is 256\$"
	cd /
	broker_stop "$T/own"
	is "$(grep -c '^gpumemd: warning: events_pipe' "$T/own/stderr")" 5
	like "$(tail -n 1 "$T/own/stderr")" "^gpumemd: warning: 39 more such of uid $UID; the last: events_pipe"
	is "$(wc -l <"$T/own/stderr")" 6
}

test_the_death_of_a_process_that_opens_files_is_a_warning()
{
	own
	head -c 4K /dev/zero >"$T/own/file"
	echo 'x 4K' >control/alloc
	echo "x path=$T/own/file" >control/load
	kill -KILL "$(workers_of "$T/own" "files-$UID")"
	says "^gpumemd: warning: the process that opens files for uid $UID was killed by signal 9\$"
}

# A user may lower the limits of the own worker, again and again.
test_the_last_words_of_a_users_worker_are_a_warning()
{
	own
	for _ in {1..8}; do
		echo 'd 4K kind=direct' >control/alloc
		prlimit --pid "$(<owners/$UID/worker)" --nofile=3:3
		mkdir modules/m
		fails "cp '$here/../../docs/kernels/wild.ptx' modules/m/image"
		fails "echo 'm wild grid=1 block=1' >control/launch"
		rmdir modules/m allocations/d
	done
	says "^gpumemd: warning: the worker of uid $UID gave up: has no room for another descriptor \\(RLIMIT_NOFILE\\)\$"
	like "$(<events)" 'reason="gave up: has no room for another descriptor'
	cd /
	broker_stop "$T/own"
	unlike "$(<"$T/own/stderr")" gpumem-worker
	is "$(grep -c "^gpumemd: warning: the worker of uid" "$T/own/stderr")" 5
}

# What a user does on purpose, and what an owner may do, is no warning.
test_nothing_else_is_said()
{
	own --worker-idle 1
	echo 'x 4K' >control/alloc
	echo 'd 4K kind=direct' >control/alloc
	echo 'x f32:1' >control/fill
	refused EINVAL 'u7:1' 'echo "x u7:1" >control/fill'
	refused ENOENT 'no allocation' 'echo nothing >control/free'
	rmdir allocations/*
	echo 1 >"owners/$UID/reset"
	eventually '[ "$(<owners/'$UID'/worker)" = 0 ]' 30
	cd /
	broker_stop "$T/own"
	is "$(<"$T/own/stderr")" ''
}

# A name may have no newline; a path may, and the words of a line come back in sentences.
test_a_user_can_not_write_lines_of_their_own()
{
	own
	py <<-'EOF'
		pipes = [os.open("events_pipe", os.O_RDONLY) for i in range(256)]
		show(os.open, "events_pipe", os.O_RDONLY)
		load = control("load")
		show(os.write, load, b"x\rgpumemd: path=/tmp/a\x1b[2J\x0bgpumemd:")
	EOF
	cd /
	broker_stop "$T/own"
	is "$(sed '/^gpumemd: warning: /d' "$T/own/stderr")" ''
	is "$(tr -d '\n -~' <"$T/own/stderr")" ''
}

# The journal is where stderr is connected to it; the variable alone says nothing.
test_a_variable_of_another_program_does_not_send_words_to_the_journal()
{
	JOURNAL_STREAM=$(stat -L -c %d:%i /) own
	echo 'd 4K kind=direct' >control/alloc
	kill -KILL "$(<owners/$UID/worker)"
	says "the worker of uid $UID was killed"
}

# In a mount namespace, where this test has the journal's socket.
test_the_journal_gets_fields()
{
	needs_root 'play the journal'
	unshare -m true 2>/dev/null || skip 'no mount namespaces here'
	rm -rf --one-file-system "$T/own"
	mkdir -m 777 "$T/own"
	: >"$T/own/stderr"
	GPUMEM_INSIDE="$T/own" GPUMEM_OPTIONS="$(driver own)" alone bash -eEc '
		. "${0%/*}/lib.bash"
		T=${GPUMEM_INSIDE%/own}
		mount --make-rprivate /
		mkdir -p /run/systemd
		mount -t tmpfs none /run/systemd
		mkdir /run/systemd/journal "$GPUMEM_INSIDE/mnt"
		python3 "$here/listen.py" /run/systemd/journal/socket "$GPUMEM_INSIDE/messages" &
		listener=$!
		trap "kill $listener" EXIT
		eventually "[ -S /run/systemd/journal/socket ]"
		JOURNAL_STREAM=$(stat -c %d:%i "$GPUMEM_INSIDE/stderr") \
			"$GPUMEMD" -f --keep --driver "$GPUMEM_OPTIONS" "$GPUMEM_INSIDE/mnt" 2>>"$GPUMEM_INSIDE/stderr" &
		broker=$!
		eventually "cat \"$GPUMEM_INSIDE/mnt/version\" >/dev/null"
		cd "$GPUMEM_INSIDE/mnt"
		setpriv --reuid=1001 --regid=1001 --clear-groups bash -c "echo \"d 4K kind=direct\" >control/alloc"
		kill -KILL "$(<owners/1001/worker)"
		eventually "grep -q \"^MESSAGE=uid 1001 has lost\" \"$GPUMEM_INSIDE/messages\""
		cd /
		kill -HUP "$broker"
		eventually "grep -q ^MESSAGE=upgraded \"$GPUMEM_INSIDE/messages\""
		umount "$GPUMEM_INSIDE/mnt"
		wait "$broker"' "$topic_file" || fail "$(cat "$T/own/messages" "$T/own/stderr")"
	is "$(<"$T/own/stderr")" ''
	# the fields of a message, without those that the library adds
	is "$(awk -v RS= '/MESSAGE=the worker/' "$T/own/messages" | sort)" \
		"GPUMEM_OBJECT=owners/1001/worker
GPUMEM_UID=1001
MESSAGE=the worker of uid 1001 was killed by signal 9
MESSAGE_ID=399e117c206848308dae4c72c6496be9
PRIORITY=4
SYSLOG_IDENTIFIER=gpumemd"
	like "$(awk -v RS= '/MESSAGE=uid 1001 has lost/' "$T/own/messages")" 'GPUMEM_OBJECT=owners/1001'
	# No trouble: neither an error nor of a kind that stands for one.
	is "$(awk -v RS= '/MESSAGE=upgraded/' "$T/own/messages" | sed 's/broker [0-9]* runs .*/.../' | sort)" \
		"MESSAGE=upgraded: ...
PRIORITY=5
SYSLOG_IDENTIFIER=gpumemd"
}

test_the_service_manager_is_told_of_the_start_the_state_and_the_end()
{
	local listener
	python3 "$here/listen.py" "$T/notify" "$T/notified" &
	listener=$!
	eventually "[ -S '$T/notify' ]"
	NOTIFY_SOCKET=$T/notify own
	eventually "grep -qx READY=1 '$T/notified'"
	eventually "grep -qE '^STATUS=$(ls devices | wc -l) devices?, 0 allocations of 0 bytes, [01] users?\$' '$T/notified'"
	echo 'x 12M' >control/alloc
	eventually "grep -qxE 'STATUS=$(ls devices | wc -l) devices?, 1 allocation of 12 MiB, 1 user' '$T/notified'" 40
	cd /
	broker_stop "$T/own"
	eventually "grep -qx STOPPING=1 '$T/notified'"
	kill "$listener"
}

test_the_catalog_and_the_manual_page_have_each_kind()
{
	local ids catalog=$build/tools/systemd/gpumem.catalog
	ids=$(sed -n 's/^-- //p' "$catalog" | sort)
	is "$(wc -l <<<"$ids")" 7
	is "$(grep -oE '^[0-9a-f]{32}' "$here/../../docs/gpumemd.8" | sort)" "$ids"
	is "$(grep -c '^Subject: ' "$catalog")" 7
	command -v journalctl >/dev/null || return 0
	rm -rf "$T/root"
	mkdir -p "$T"/root/{usr/lib/systemd/catalog,var/lib/systemd/catalog}
	cp "$catalog" "$T/root/usr/lib/systemd/catalog"
	journalctl --root="$T/root" --update-catalog 2>"$T/said-journal" || fail "$(<"$T/said-journal")"
	is "$(journalctl --root="$T/root" --list-catalog | awk '{ print $1 }' | sort)" "$ids"
	rm -rf "$T/root" "$T/said-journal"
}

test_systemd_takes_the_unit()
{
	command -v systemd-analyze >/dev/null || skip 'systemd-analyze is not installed'
	rm -rf "$T/units"
	mkdir "$T/units"
	sed "s,^ExecStart=[^ ]*,ExecStart=$GPUMEMD," "$build/tools/systemd/gpumemd@.service" >"$T/units/gpumemd@.service"
	# Units of others, and of the machine, are no matter here.
	systemd-analyze verify --man=no "$T/units/gpumemd@.service" >"$T/units/said" 2>&1 || true
	unlike "$(<"$T/units/said")" gpumemd
	systemd-analyze security --offline=true --threshold=60 --no-pager \
		"$T/units/gpumemd@.service" >"$T/units/said" 2>&1 || fail "$(<"$T/units/said")"
	rm -rf "$T/units"
}

# With what the unit leaves of root's capabilities, users have all kinds of memory.
test_the_unit_leaves_the_capabilities_that_are_needed()
{
	local set kind
	needs_root 'take capabilities away'
	set=$(sed -n 's/^CapabilityBoundingSet=//p' "$build/tools/systemd/gpumemd@.service" |
		tr ' ' '\n' | sed 's/^CAP_/+/' | paste -sd , | tr A-Z a-z)
	[ -n "$set" ] || fail 'the unit has no CapabilityBoundingSet='
	AS=(setpriv --no-new-privs "--bounding-set=-all,$set")
	own
	for kind in $kinds; do
		by 1001 run "echo 'x$kind 4K kind=$kind' >control/alloc && echo 'x$kind u8:7' >control/fill"
		is "$(by 1001 run "od -A n -t u1 -N 1 allocations/x$kind/data")" '   7'
	done
	echo 'file 4K' >control/alloc
	echo "file path=$T/own/saved" >control/save
	by 1001 run 'exec 3<>allocations/xdevice/lease; cat <&3' >/dev/null
	kill -KILL "$(<owners/1001/worker)"
	eventually '[ "$(<allocations/xdirect/state)" = lost ]'
	by 1001 run "echo 'again 4K kind=direct' >control/alloc"
	cd /
	AS=()
	broker_stop "$T/own"
}

main "$@"
