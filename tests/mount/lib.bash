# The harness of the mount suite: real shell tools on a real mount.
#
# A topic is a file of functions test_NAME, one behaviour each, that read like a session
# at a shell in the root of the mount:
#
#	. "${BASH_SOURCE%/*}/lib.bash"
#	test_a_new_allocation_reads_as_zeros() { ... }
#	main "$@"
#
# A topic starts one broker, on its own mount point and its own software machine, runs
# each case in a process of its own under a time limit, frees what the case left, and
# ends the broker. A case fails when a command or a check in it fails, when the broker
# says anything on stderr but warnings, or when a sanitizer reports anything in any
# process. The output is TAP. A case's output follows its `not ok`; after an `ok` only
# lines with `# `.
#
# Environment: GPUMEMD, the broker; GPUMEM_DRIVER, its driver (software); GPUMEM_AS=user
# starts the broker as an ordinary user, and the broker then serves this user alone;
# GPUMEM_KERNELS, the folder of tests/kernels as PTX; GPUMEM_CASE=REGEX runs only matching
# cases. GPUMEM_CRASH_EVERY=N: the topic's broker has a keeper, and kills itself at every Nth
# of its crash points (broker/base/crash.h) at which no user has anything to lose by it;
# crash_every.excluded has the cases that are left out.
#
# A case waits for an event (`eventually`), never for a time.

set -u
export LC_ALL=C.UTF-8
umask 022

: "${GPUMEMD:?the broker to test, e.g. build/fuse/gpumemd}"
topic_file=$(realpath "$0")
topic=$(basename "$topic_file" .bash)
here=$(dirname "$topic_file")
case_limit=${GPUMEM_CASE_LIMIT:-120}
AS=()
build=$(dirname "$(dirname "$GPUMEMD")")
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

declare -A message=(
	[E2BIG]='Argument list too long' [EACCES]='Permission denied' [EBUSY]='busy'
	[EDQUOT]='Disk quota exceeded' [EEXIST]='File exists' [EFBIG]='File too large' [EINTR]='Interrupted system call'
	[EINVAL]='Invalid argument' [EIO]='Input/output error' [EISDIR]='Is a directory'
	[ENAMETOOLONG]='File name too long' [ENODEV]='No such device'
	[ENOEXEC]='Exec format error'
	[ENOTDIR]='Not a directory' [ENOTEMPTY]='Directory not empty'
	[ENOENT]='No such file or directory' [ENOMEM]='Cannot allocate memory'
	[ENOSPC]='No space left on device' [EOPNOTSUPP]='Operation not supported'
	[EOVERFLOW]='Value too large for defined data type'
	[EPERM]='Operation not permitted' [ERANGE]='Numerical result out of range'
	[ESTALE]='Stale file handle' [EUSERS]='Too many users' [EXDEV]='Invalid cross-device link'
	[EFAULT]='Bad address' [ETIMEDOUT]='Connection timed out'
)

# ---- checks, for cases ----

. "$here/../checks.bash"

# eventually COMMAND [SECONDS]: the bounded wait for an event.
eventually()
{
	local deadline=$((SECONDS + ${2:-20}))
	until eval "$1" 2>/dev/null; do
		[ "$SECONDS" -lt "$deadline" ] ||
			fail "line ${BASH_LINENO[0]}: waited ${2:-20} s in vain for: $1"
		sleep 0.02
	done
}

# newest_event [N]: the newest line of `events`, or the Nth newest. Where the broker has died
# (GPUMEM_CRASH_EVERY) the starts of the next one's workers are newer, and are left out.
newest_event()
{
	grep -v ' worker_start ' events | tail -n "${1:-1}" | head -n 1
}

# by UID CHECK...: another user's turn (the broker's must be root's).
by()
{
	local AS=(setpriv "--reuid=$1" "--regid=$1" --clear-groups)
	shift
	"$@"
}

# run COMMAND: runs COMMAND as the current user (`by UID`, `$AS`).
run()
{
	"${AS[@]}" bash -c "$1"
}

# refused ERRNO REGEX COMMAND: COMMAND fails with ERRNO. The newest line of `errors` is this
# failure, with a sentence that matches REGEX.
refused()
{
	local before line said
	before=$("${AS[@]}" tail -n 1 errors)
	said=$(run "$3" 2>&1 >/dev/null) && fail "line ${BASH_LINENO[0]}: succeeded: $3"
	[[ $said == *"${message[$1]}"* ]] ||
		fail "line ${BASH_LINENO[0]}: $3" "expected: $1, ${message[$1]}" "got: $said"
	line=$("${AS[@]}" tail -n 1 errors)
	[ "$line" != "$before" ] ||
		fail "line ${BASH_LINENO[0]}: $3" "left no line in errors; the newest: $line"
	[[ $line =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\ (uid=[0-9]+\ )?pid=[0-9]+\ [^\ ]+\ $1\ (.+)$ ]] ||
		fail "line ${BASH_LINENO[0]}: $3" "expected: TIME pid=N FILE $1 sentence" "errors: $line"
	[[ ${BASH_REMATCH[2]} =~ $2 ]] ||
		fail "line ${BASH_LINENO[0]}: $3" "expected a sentence like: $2" "errors: $line"
}

# denied ERRNO COMMAND: the kernel itself refuses, so `errors` has no line.
denied()
{
	local said
	said=$(run "$2" 2>&1 >/dev/null) && fail "line ${BASH_LINENO[0]}: succeeded: $2"
	[[ $said == *"${message[$1]}"* ]] ||
		fail "line ${BASH_LINENO[0]}: $2" "expected: $1, ${message[$1]}" "got: $said"
}

# py [ARG...] <<EOF: exact system calls, in Python; syscalls.py has `show` and friends.
py()
{
	"${AS[@]}" python3 -c "from syscalls import *
$(cat)" "$@"
}

# Prints a python3 that has numpy, if any. The python3 of PATH may not be the system's.
python_with_numpy()
{
	local python
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import numpy' 2>/dev/null && break
	done
	echo "$python"
}

# Prints a python3 that has the Prometheus project's parser; fails if none has.
python_with_prometheus()
{
	local python
	for python in /usr/bin/python3 python3; do
		"$python" -c 'import prometheus_client' 2>/dev/null && echo "$python" && return
	done
	return 1
}

# A library built with a sanitizer needs the sanitizer's own library loaded first.
sanitizers()
{
	ldd "$build/broker/client/libgpumem.so.0" | awk '/lib(a|ub|t)san/ { printf "%s ", $3 }'
}

# value_of FILE KEY: prints the number behind KEY in a flat keyed file.
value_of()
{
	awk -v key="$2" '$1 == key { print $2 }' "$1"
}

is_zero()
{
	cmp -n "$(stat -c %s "$1")" "$1" /dev/zero
}

is_software()
{
	[[ ${GPUMEM_DRIVER:-software} == software* ]]
}

needs_software()
{
	is_software || skip "only the software GPU can be told to: $1"
}

needs_devices()
{
	[ "$(ls devices | wc -l)" -ge "$1" ] || skip "needs $1 devices"
}

needs_kernels()
{
	[ -e "${GPUMEM_KERNELS-}/saxpy.ptx" ] || skip 'nvcc is not there to compile kernels'
}

needs_root()
{
	[ "$(id -u)" = 0 ] || skip "needs root: $1"
}

# detach_others: in a mount namespace of one's own, takes away the mounts of other topics:
# their brokers could not end while a namespace keeps them.
detach_others()
{
	local place type
	while read -r _ place type _; do
		[ "$type" != fuse.gpumemd ] || [[ $place = "$T"/* ]] || umount -l "$place"
	done <<<"$(</proc/self/mounts)"
}
export -f detach_others

# alone COMMAND...: in a mount namespace without the mounts of other topics. Needs root.
alone()
{
	unshare -m bash -c 'detach_others; "$@"' - "$@"
}

# pretend NAME UID [FILE TEXT]...: mounts something that looks like a broker's, by the user
# UID, on $T/NAME/mnt. Needs root. broker_kill takes it away.
pretend()
{
	mkdir -p "$T/$1/mnt"
	setsid python3 "$here/../fake_mount.py" "$T/$1/mnt" "${@:2}" </dev/null >/dev/null 2>&1 &
	echo $! | tee "$T/$1/pid" >"$T/$1/session"
	eventually "is_mounted '$T/$1/mnt'"
}

kinds='device host direct async managed'

# ---- the software GPU's faults ----

# inject RULE...: from now on, in every process (none: no more); the grammar is in
# tools/softgpu/options.h.
inject()
{
	needs_software 'go wrong'
	printf '%s\n' "$@" >"$T/inject.new"
	mv "$T/inject.new" "$T/inject"
}

# slow TIME: each copy, fill and transfer takes TIME longer.
slow()
{
	local call rules=()
	for call in cuMemcpyAsync cuMemcpy{HtoD,DtoH,DtoD}Async_v2 cuMemcpyPeerAsync \
		cuMemsetD{8,16,32}Async cuMemsetD2D{8,16,32}Async; do
		rules+=("delay=$call@*=$1")
	done
	inject "${rules[@]}"
}

# Waits until process $1 waits for the mount's answer to a read, a write, a copy, or to a
# change of size, mode or group.
until_it_waits()
{
	eventually "grep -qE 'fuse|request_wait_answer' /proc/$1/wchan &&
		grep -qE '^(0|1|326|76|77|90|92|260|268|452) ' /proc/$1/syscall"
}

# ---- brokers ----

# driver [NAME]: prints the option --driver for a separate software machine NAME.
driver()
{
	if is_software; then
		printf '%s:devices=2:memory=512M:machine=%s-%s:control=%s' \
			"${GPUMEM_DRIVER:-software}" "${T##*.}" "${1-main}" "$T/inject"
	else
		printf %s "$GPUMEM_DRIVER"
	fi
}

# on_driver COMMAND...: runs a program that uses the mount and the broker's driver.
on_driver()
{
	local settings=() software
	if is_software; then
		software=$(driver)
		settings=("GPUMEM_SOFTGPU=${hidden-${software#*:}}" "LD_LIBRARY_PATH=$build/tools/softgpu")
	fi
	"${AS[@]}" env GPUMEM_MOUNT="$M" ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" \
		"${settings[@]}" "$@"
}

# crash_plan FOLDER: the broker there is to kill itself at every GPUMEM_CRASH_EVERYth point.
crash_plan()
{
	[ -e "$1/plan" ] || head -c 4096 /dev/zero >"$1/plan"
	printf "\\x$(printf %x $((GPUMEM_CRASH_EVERY % 256)))\\x$(printf %x $((GPUMEM_CRASH_EVERY / 256)))" |
		dd of="$1/plan" bs=1 seek=72 conv=notrunc status=none
}

# crash_deaths FOLDER: prints how often it has.
crash_deaths()
{
	od -A n -t u8 -j 80 -N 8 "$1/plan" | tr -d ' '
}

# undying: from here to `dying`, or to the end of the case, the topic's broker does not kill
# itself: for what a case does with the process of a worker, which ends with its broker.
undying()
{
	[ -n "${GPUMEM_CRASH_EVERY-}" ] || return 0
	GPUMEM_CRASH_EVERY=0 crash_plan "$T/main"
	cat "$M/version" >/dev/null
	eventually "[ -n \"\$(workers_of '$T/main' mover)\" ]"
}

dying()
{
	[ -z "${GPUMEM_CRASH_EVERY-}" ] || crash_plan "$T/main"
}

# broker_start FOLDER OPTION...: starts a broker on FOLDER/mnt and returns once the mount
# answers. FOLDER/stderr has the broker's messages, FOLDER/pid its process, FOLDER/session
# its session, and FOLDER/status, after the end, its exit status.
broker_start()
{
	local folder=$1 settings=() as=("${AS[@]}")
	shift
	[ "$(id -u)" != 0 ] || [ -n "${AS[*]}" ] || as=("${as_unit[@]}")
	mkdir -p "$folder/mnt"
	[ -z "${AS[*]}" ] || chown "$("${AS[@]}" id -u)" "$folder/mnt"
	rm -f "$folder"/{pid,session,status}
	if [ -n "${GPUMEM_CRASH_EVERY-}" ] && [ "$folder" = "$T/main" ]; then
		crash_plan "$folder"
		settings=("GPUMEM_CRASH=$folder/plan")
		set -- --keep "$@"
	fi
	env --default-signal=INT,QUIT setsid bash -c '
		"${@:2}" >"$1/stdout" 2>"$1/stderr" &
		echo $$ >"$1/session"
		echo $! >"$1/pid"
		wait $!
		echo $? >"$1/status"' - "$folder" "${as[@]}" env "${settings[@]}" "$GPUMEMD" -f "$@" "$folder/mnt" </dev/null &
	eventually "[ -s '$folder/pid' ] && [ -s '$folder/session' ]"
	# The kernel may still have names of a dead mount in its cache, so a file is read.
	eventually "\"\${AS[@]}\" cat '$folder/mnt/version' >/dev/null || [ -e '$folder/status' ]"
	[ ! -e "$folder/status" ] ||
		fail "the broker did not start: $*" "status $(<"$folder/status")" "$(<"$folder/stderr")"
}

# The broker of root gets no more privileges than the unit of systemd gives.
unit_capabilities=$(sed -n 's/^CapabilityBoundingSet=//p' \
	"$here/../../tools/systemd/gpumemd@.service" | tr A-Z a-z | sed 's/ *cap_/,+/g')
as_unit=(setpriv --bounding-set="-all$unit_capabilities" --inh-caps=-all --no-new-privs)

is_mounted()
{
	grep -qF " $1 fuse" /proc/self/mounts
}

unmount()
{
	if [ "$(id -u)" = 0 ]; then
		umount "$1"
	else
		fusermount3 -u "$1"
	fi
}

# workers_of FOLDER [NAME]: lists the broker's workers: all, `mover`, or a user's (NAME=UID).
workers_of()
{
	local parents process argv
	parents=$(<"$1/pid")
	# Broker and standby, which has no workers.
	[ ! -e "$1/plan" ] || parents=$(pgrep -d '|' -P "$parents")
	for process in /proc/[0-9]*; do
		mapfile -d '' -t argv <"$process/cmdline" || continue
		[[ " ${argv[*]} " == *" --name ${2-*} "* ]] || [ "$#" = 1 ] || continue
		[[ ! " ${argv[*]} " =~ \ --parent\ ($parents)\  ]] || echo "${process#/proc/}"
	done 2>/dev/null
}

# processes_of FOLDER: lists the broker's session (setsid above) and workers.
processes_of()
{
	local session process stat
	workers_of "$1"
	session=$(<"$1/session")
	for process in /proc/[0-9]*; do
		stat=$(<"$process/stat") || continue
		set -- ${stat##*) }
		[ "$4" != "$session" ] || [ "$1" = Z ] || echo "${process#/proc/}"
	done 2>/dev/null
}

# broker_ended FOLDER: waits for the end of a broker that was told to end. The exit status
# is 0, no process is left, and nothing was reported.
broker_ended()
{
	eventually "[ -s '$1/status' ]"
	is "$(<"$1/status")" 0
	eventually "[ -z \"\$(processes_of '$1')\" ]"
	is_silent "$1"
}

# broker_stop FOLDER: unmounts, as a user would, and waits for the broker's end. Programs that
# the case has killed may still have files of the mount.
broker_stop()
{
	(eventually "unmount '$1/mnt'") ||
		fail "the mount could not be unmounted: $(unmount "$1/mnt" 2>&1)"
	broker_ended "$1"
}

# The leak sanitizer prints this line when a thread ends during the check: no report.
no_report='^==[0-9]+==Unable to get registers from thread [0-9]+\.$'

# What gpumemd tells the administrator of users' work: the subject of journal.bash, and in
# other cases no fault.
warnings='^gpumemd: (warning|error): '
[ -z "${GPUMEM_CRASH_EVERY-}" ] || warnings+='|^gpumemd: the broker was killed by signal 9$'

# stop PID: SIGSTOP takes one thread after the other, and one that still runs could answer.
stop()
{
	kill -STOP "$1"
	eventually "! grep -h ^State: /proc/$1/task/*/status | grep -qv T"
}

# is_silent FOLDER: but for warnings, neither the broker nor any sanitizer printed
# anything. An empty file is no report: a process that is killed during its exit may leave
# an empty file.
is_silent()
{
	! grep -qvE "$warnings" "$1/stderr" ||
		fail "the broker wrote on stderr:" "$(head -c 4000 "$1/stderr")"
	[ -z "$(find "$T/sanitizer" -type f -exec grep -hvE -m 1 "$no_report" {} + || :)" ] ||
		fail "a sanitizer reports:" "$(head -qn 60 "$T"/sanitizer/*)"
}

# broker_kill FOLDER: removes mount and processes of a broker in any state.
broker_kill()
{
	local pids
	[ -e "$1/session" ] || return 0
	if is_mounted "$1/mnt"; then
		umount -l "$1/mnt" 2>/dev/null || fusermount3 -uz "$1/mnt"
	fi
	pids=$(processes_of "$1")
	[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
	return 0
}

# ---- topics ----

cases()
{
	sed -n 's/^test_\([a-z0-9_]*\)().*/\1/p' "$topic_file" | grep -E -e "${GPUMEM_CASE:-.}"
}

run_case()
{
	local reason
	if [ -n "${GPUMEM_CRASH_EVERY-}" ]; then
		reason=$(sed -n "s/^$topic $1 //p" "$here/crash_every.excluded")
		[ -z "$reason" ] || skip "$reason"
	fi
	set -eE
	trap 'echo "line $LINENO failed ($?): $BASH_COMMAND" >&2' ERR
	trap cleanup_case EXIT
	cd "$M"
	"test_$1"
}

# Ends the jobs of a case, and the brokers that the case started in $T/NAME.
cleanup_case()
{
	local folder
	set +e
	cd /
	for folder in "$T"/*/; do
		[ "$folder" = "$T/main/" ] || broker_kill "${folder%/}"
	done
	kill $(jobs -p) 2>/dev/null || true
}

# Frees all objects that a case left in the topic's mount.
sweep()
{
	local object
	rm -f "$T/inject"
	# The next broker of each death would look at each of thousands.
	[ $(($(value_of "$M/status" allocations) + $(value_of "$M/status" streams))) -lt 500 ] || undying
	# Running kernels would keep their memory, streams and modules.
	if grep -qs busy "$M"/{streams,allocations}/*/state; then
		for object in "$M"/owners/*/reset; do
			echo 1 >"$object"
		done
	fi
	# What is in folders first. The folders of functions go with their modules.
	find "$M"/{allocations,modules} -mindepth 1 -depth -type d -not -path '*/functions*' \
		-exec rmdir {} +
	# A free may still be under way on a stream.
	for object in "$M"/streams/*; do
		[ ! -d "$object" ] || [[ ${object##*/} == default* ]] || eventually "rmdir '$object'"
	done
}

report()
{
	local number=$1 name=$2 status=$3 stderr
	case $status in
	0)
		echo "ok $number - $name"
		grep '^# ' "$T/said" || true
		;;
	77) echo "ok $number - $name # SKIP $(tail -n 1 "$T/said")" ;;
	*)
		echo "not ok $number - $name"
		[ "$status" -lt 124 ] || echo "# ended by the time limit of $case_limit s ($status)"
		{
			head -c 8000 "$T/said"
			echo "the newest errors:"
			timeout 5 tail -n 3 "$M/errors"
			for stderr in "$T"/*/stderr; do
				[ ! -s "$stderr" ] || { echo "${stderr#"$T/"}:" && head -c 6000 "$stderr"; }
			done
		} 2>&1 | grep -av 'the broker was killed by signal 9$' | tr -d '\000' | sed 's/^/#   /'
		;;
	esac
}

run_topic()
{
	local name number=0 status died sweep_limit=20
	# Each death takes its time.
	if [ -n "${GPUMEM_CRASH_EVERY-}" ]; then
		case_limit=$((case_limit * (1 + 200 / GPUMEM_CRASH_EVERY)))
		sweep_limit=$case_limit
	fi
	T=$(mktemp -d "${TMPDIR:-/tmp}/gpumem.XXXXXX") || exit
	M=$T/main/mnt
	export T M
	chmod 755 "$T"
	mkdir -m 1777 "$T/sanitizer"
	trap 'broker_kill "$T/main"; rm -rf --one-file-system "$T"' EXIT
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}log_path=$T/sanitizer/address
	export UBSAN_OPTIONS=${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}log_path=$T/sanitizer/undefined:print_stacktrace=1
	export TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}log_path=$T/sanitizer/thread
	[ -z "${GPUMEM_CRASH_EVERY-}" ] || grep -q GPUMEM_CRASH "$GPUMEMD" ||
		{ echo '1..0 # SKIP a build with -Dcrash_points=true has it'; exit; }
	(broker_start "$T/main" --driver "$(driver)") >"$T/said" 2>&1 ||
		{ echo "Bail out! $(tr '\n' ' ' <"$T/said")"; exit 1; }
	echo "1..$(($(cases | wc -l) + 1))"
	for name in $(cases); do
		dying
		timeout -k 5 "$case_limit" bash "$topic_file" --case "$name" >"$T/said" 2>&1 </dev/null
		status=$?
		(is_silent "$T/main" && timeout "$sweep_limit" bash "$topic_file" --sweep) >>"$T/said" 2>&1 ||
			{ [ "$status" != 0 ] || status=1; }
		report $((++number)) "$name" "$status"
	done
	if [ -e "$T/main/plan" ]; then
		died=$(crash_deaths "$T/main")
		GPUMEM_CRASH_EVERY=0 crash_plan "$T/main"
	fi
	(
		broker_stop "$T/main"
		[ "${died-}" != 0 ] || fail 'the broker never died'
		echo "${died:+# the broker died $died times}"
	) >"$T/said" 2>&1
	report $((++number)) the_broker_ends_cleanly_and_said_nothing $?
}

# Other users may not be able to reach the build and these files: all run from a copy.
run_topic_from_copy()
{
	local build copy status as=()
	build=$(dirname "$(dirname "$GPUMEMD")")
	copy=$(mktemp -d "${TMPDIR:-/tmp}/gpumem.XXXXXX") || exit
	cp -r "$here/../../docs" "$copy"
	(cd "$build" && find . -type f \( -name gpumemd -o -name 'gpumem-worker*' -o \
		-name 'libcuda.so*' -o -path ./tools/gpumem/gpumem -o -path ./bpf/gpumem-trace -o -path './tools/gpumem/completion/*' -o -path ./tests/client/client -o -path ./tests/mount/brittle -o -path ./tests/mount/idle -o -path ./tests/mount/without_memory -o -path ./docs/examples/saxpy -o -path './docs/gpumem.[15]' -o -path './tools/systemd/gpumem*' \
		-o -name 'libgpumem.so.?.*' -o -name libslow_users.so -o -name libnvidia-ml.so.1 \) -exec cp --parents {} "$copy" \;)
	ln -s "$(basename "$copy"/broker/client/libgpumem.so.*)" "$copy/broker/client/libgpumem.so.0"
	mkdir -p "$copy/tests/mount"
	cp -r "$here/." "$copy/tests/mount"
	cp -r "$here"/../{checks.bash,fake_mount.py} "$here/../python" "$here/../kernels" "$copy/tests"
	cp -r "$here/../../tools/python" "$copy/tools"
	cp "$here/../../README.md" "$copy"
	cp "$here"/../../tools/{quickstart,common.bash,picture,terminal.py} "$copy/tools"
	mkdir "$copy/kernels"
	[ -z "${GPUMEM_KERNELS-}" ] || cp "$GPUMEM_KERNELS"/*.ptx "$copy/kernels"
	chmod -R a+rX "$copy"
	chmod 1777 "$copy"
	[ "${GPUMEM_AS-}" != user ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	GPUMEM_COPY=$copy GPUMEM_KERNELS=$copy/kernels TMPDIR=$copy GPUMEMD=$copy/${GPUMEMD#"$build"/} \
		"${as[@]}" bash "$copy/tests/mount/$topic.bash"
	status=$?
	rm -rf --one-file-system "$copy"
	return "$status"
}

main()
{
	case ${1-} in
	--case) run_case "$2" ;;
	--sweep) sweep ;;
	*)
		if [ "$(id -u)" = 0 ] && [ -z "${GPUMEM_COPY-}" ]; then
			run_topic_from_copy
		else
			run_topic
		fi
		;;
	esac
}

# open_files_of PROCESS: each as `/proc/PID/fd/N LINK`, without the spare ones of a keeper and
# those of the program.
open_files_of()
{
	find "/proc/$1/fd" -mindepth 1 -not -lname '*/gpumemd' -not -lname '/memfd:gpumem-spare *' -printf '%p %l\n'
}
