# Sourced behind lib.bash: brokers under a keeper, and their deaths.

# keep [OPTION]...: a broker of a case's own, under a keeper.
keep()
{
	broker_start "$T/own" --keep "$@" --driver "$(driver own)"
	O=$T/own/mnt
}

broker_pid()
{
	cat "$O/pid"
}

# records: prints those of the broker.
records()
{
	"$GPUMEMD" --check-journal "$(find "/proc/$(broker_pid)/fd" -lname '*gpumem-records*')"
}

# standby_pid: prints the process that is ready to be the next broker.
standby_pid()
{
	pgrep -x -P "$(<"$T/own/pid")" gpumemd-standby
}

# wait_for_standby [PID]: until one is ready, and is not PID.
wait_for_standby()
{
	eventually "standby_pid && [ \"\$(standby_pid)\" != '${1-}' ]"
}

# die: the broker is killed, and the next one answers.
die()
{
	local old new
	old=$(broker_pid)
	kill -KILL "$old"
	timeout 20 cat "$O/version" >/dev/null || fail "the mount does not answer" "$(<"$T/own/stderr")"
	new=$(broker_pid)
	[ "$old" != "$new" ] || fail "broker $old is still there"
	like "$(tail -n 1 "$T/own/stderr")" '^gpumemd: the broker was killed by signal 9$'
}

# survives_twice COMMAND BEFORE: what the command prints is the same after two deaths.
survives_twice()
{
	die
	diff <("$1") - <<<"$2"
	die
	diff <("$1") - <<<"$2"
}

# end [REGEX]: as broker_stop, after deaths that the keeper has told, and such messages.
end()
{
	grep -vE "^gpumemd: the broker was killed by signal 9$|${1:-^$}" "$T/own/stderr" >"$T/own/rest" || true
	[ ! -s "$T/own/rest" ] || fail "on stderr:" "$(<"$T/own/rest")"
	: >"$T/own/stderr"
	broker_stop "$T/own"
}

say()
{
	echo "$2" >"$O/control/$1"
}

# maps_freed FILE: has freed memory mapped from when FILE is there until it is removed.
maps_freed()
{
	py "$O" "$1" <<-'EOF'
		path = f"{sys.argv[1]}/allocations/x"
		memory = mmap.mmap(os.open(path + "/data", os.O_RDWR), 4 << 20)
		memory[0:4] = b"kept"
		os.rmdir(path)
		with open(sys.argv[2], "w"):
		    pass
		while os.path.exists(sys.argv[2]):
		    time.sleep(0.01)
		assert memory[0:4] == b"kept"
	EOF
}

# Host memory that the owner is charged for.
held_of_host()
{
	value_of "$O/owners/$UID/current" host
}

# All of the objects that is promised to stay, bytes included.
everything()
{
	cd "$O/allocations"
	ls -lnR --time-style=full-iso
	find . -type f \( -name id -o -name kind -o -name size_bytes -o \
		-name address -o -name generation -o -name state -o -name tag -o -name owner -o \
		-name created -o -name last_write -o -name map -o -name sealed -o -name data -o -name cgroup \) \
		-exec sha256sum {} + | sort -k 2
	cd "$M"
}

# installed: a program of the case's own, in a place where it finds its parts.
installed()
{
	local built
	built=$(dirname "$(dirname "$GPUMEMD")")
	mkdir -p "$T/installed/fuse"
	ln -sfn "$built/broker" "$built/tools" "$T/installed"
	GPUMEMD=$T/installed/fuse/gpumemd
	cp "$built/fuse/gpumemd" "$GPUMEMD"
}

# replace FILE: as a package does, by a file of the same name.
replace()
{
	cp "$1" "$GPUMEMD.new"
	mv "$GPUMEMD.new" "$GPUMEMD"
}

# runs_installed PID: prints whether it runs the program that is installed now.
runs_installed()
{
	[ "$(stat -L -c %i "/proc/$1/exe")" = "$(stat -c %i "$GPUMEMD")" ] && echo yes || echo no
}

# next_dies_at POINT: a broker that begins dies at this one of its crash points; 0: none does.
next_dies_at()
{
	printf "\\x$(printf %x "$1")" | dd of="$T/own/plan" bs=1 seek=152 conv=notrunc status=none
}

# next_dies_at_place NAME: the next one that begins dies at the first of its points with this name.
next_dies_at_place()
{
	printf '%s\0' "$1" | dd of="$T/own/plan" bs=1 seek=160 conv=notrunc status=none
}

# died_at: the place of the last death.
died_at()
{
	tail -c +89 "$T/own/plan" | head -c 64 | tr '\0' '\n' | head -n 1
}

# dies_twice PLACE: the next broker dies there, too.
dies_twice()
{
	next_dies_at_place "$1"
	kill -KILL "$(broker_pid)"
	cat "$O/version" >/dev/null
	is "$(died_at)" "$1"
}

# keep_planned ARGUMENT...: as keep, with a plan of deaths.
keep_planned()
{
	grep -q GPUMEM_CRASH "$GPUMEMD" || skip 'a build with -Dcrash_points=true has it'
	mkdir -p "$T/own"
	head -c 4096 /dev/zero >"$T/own/plan"
	GPUMEM_CRASH=$T/own/plan keep "$@"
}

# Descriptors that the keeper has. It is not waited for when the broker hands over more,
# but has heard of all of them when the next broker begins. Sockets are left out: a standby
# with one comes and goes.
n_kept()
{
	kept | wc -l
}

# is_of_worker DESCRIPTOR: of the keeper. It is a pidfd of a worker, or of a process that has
# ended or is about to. Workers come and go.
is_of_worker()
{
	local pid exe
	pid=$(awk '$1 == "Pid:" { print $2 }' "${1/fd/fdinfo}" 2>/dev/null)
	[ "$pid" ] || return 1
	exe=$(readlink "/proc/$pid/exe") || return 0
	[[ $exe == */gpumem-worker* ]]
}

# What they are of: memory has its name. Descriptors of the program are left out: they are the
# keeper's reserve, which is closed while a broker starts.
kept()
{
	local file of
	open_files_of "$(<"$T/own/pid")" | grep -v ' socket:' |
		while read -r file of; do is_of_worker "$file" || echo "$of"; done | sort
}

# kept_again BEFORE: waits until the keeper has descriptors of the same as kept() said before.
kept_again()
{
	(eventually "[ \"\$(kept)\" = '$1' ]") ||
		fail "the keeper's descriptors, before and now:" "$(diff <(echo "$1") <(kept))"
}
