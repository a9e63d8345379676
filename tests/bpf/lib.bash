# The harness of the bpf suite: the real gpumem-trace on a driver library, and a program
# whose calls are known (caller.c).
#
# A topic is a file of functions test_NAME, one behaviour each:
#
#	. "${BASH_SOURCE%/*}/lib.bash"
#	test_a_free_is_seen() { trace --json <<EOF ... }
#	main "$@"
#
# A case fails when a command or a check in it fails, or when a sanitizer reports
# anything. The output is TAP; a case's output follows its `not ok`.
#
# Environment: GPUMEM_TRACE, the tool; GPUMEM_CALLER, the program; GPUMEM_LIBRARY, the
# software GPU; GPUMEM_PROLOGUES, the library of awkward prologues; GPUMEMD, the broker; GPUMEM_CLIENT,
# a program of libgpumem.

set -u
export LC_ALL=C.UTF-8

: "${GPUMEM_TRACE:?the tool to test, e.g. build/bpf/gpumem-trace}"
C=${GPUMEM_CALLER-}
here=$(dirname "$(realpath "$0")")
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
case_limit=${GPUMEM_CASE_LIMIT:-60}

# ---- calls ----

# Calls: $prepare makes a context; $vmm makes a CUmemAllocationProp of device 0 and an access
# descriptor; $import exports memory, imports it and maps it at $r.
prepare='cuInit 0
cuDevicePrimaryCtxRetain &ctx 0
cuCtxSetCurrent $ctx'
vmm='word prop 0 1
word prop 2 1
word access 0 1
word access 2 3'
import='word prop 1 1
cuMemCreate &h 2097152 &prop 0
cuMemExportToShareableHandle &fd $h 1 0
cuMemImportFromShareableHandle &i $fd 1
cuMemMap $r 2097152 0 $i 0'

# ---- checks ----

. "$here/../checks.bash"

# refused REGEX COMMAND...: exits with status 1 and a single sentence that matches REGEX.
refused()
{
	local said status=0 like=$1
	shift
	said=$("$@" 2>&1 >/dev/null) || status=$?
	is "$status" 1
	like "$said" "$like"
	like "$said" '^gpumem-trace: '
	is "$(wc -l <<<"$said")" 1
}

# eventually COMMAND: the bounded wait for an event.
eventually()
{
	local deadline=$((SECONDS + 20))
	until eval "$1" 2>/dev/null; do
		[ "$SECONDS" -lt "$deadline" ] ||
			fail "line ${BASH_LINENO[0]}: waited in vain for: $1" \
				"$(head -c 2000 "$T/err")" "$(head -c 4000 "$T/out")"
		sleep 0.02
	done
}

# trace OPTION... <<CALLS: runs a program with these calls under the tool. The tool must
# print nothing on stderr. $T/out gets the tool's output, $T/calls the program's.
trace()
{
	cat >"$T/script"
	"$GPUMEM_TRACE" --library "$L" "$@" -- \
		bash -c 'exec "$0" "$1" <"$2" >"$3"' "$C" "$L" "$T/script" "$T/calls" \
		>"$T/out" 2>"$T/err" || fail "the tool ended with $?" "$(<"$T/err")"
	[ ! -s "$T/err" ] || fail "the tool said:" "$(<"$T/err")"
}

# begin OPTION...: starts the tool alone, in the background. attached: waits until the tool
# has attached its probes.
begin()
{
	# left by an earlier tool
	rm -f "$T/err"
	"$GPUMEM_TRACE" -v "$@" >"$T/out" 2>"$T/err" &
	tool=$!
}

attached()
{
	eventually "grep -q 'attached in' '$T/err'"
}

# start OPTION...: begin and attached, on this case's library. stop: ends the tool like
# Ctrl-C.
start()
{
	begin --library "$L" "$@"
	attached
}

stop()
{
	local pid=$tool
	kill -INT "$pid"
	tool=
	wait "$pid" || fail "the tool ended with $?" "$(<"$T/err")"
}

# ends: the tool does, by itself.
ends()
{
	local pid=$tool
	tool=
	wait "$pid" || fail "the tool ended with $?" "$(<"$T/err")"
}

# Mounts of a case, and the processes of fake_mount.py behind some of them.
mounted=()
pretenders=()
umount_all()
{
	[ "${#pretenders[@]}" = 0 ] || kill -KILL "${pretenders[@]}"
	local at
	# a stuck reader of the mount ends when it notices the killed server
	for at in ${mounted[@]+"${mounted[@]}"}; do
		eventually "umount '$at'"
	done
	pretenders=()
	mounted=()
}

# Ends all processes and mounts that a failed case left.
cleanup()
{
	[ -z "${tool-}" ] || kill -KILL "$tool"
	[ -z "${lessee-}" ] || kill -KILL "$lessee"
	umount_all
}

# call <<CALLS: the program alone.
call()
{
	"$C" "$L" >"$T/calls"
}

# check <<EOF: runs Python over the output of --json; events.py defines the names.
check()
{
	python3 -c "from events import *
load('$T/out')
$(cat)" || fail "$(head -c 4000 "$T/out")"
}

# ---- running ----

run_case()
{
	T=$(mktemp -d "/tmp/gpumem-trace.XXXXXX")
	local status=0
	export GPUMEM_SOFTGPU=machine=${T##*.}
	timeout -k 5 "$case_limit" bash "$0" --case "$1" "$T" \
		>"$T/said" 2>&1 </dev/null || status=$?
	[ "$status" != 124 ] || echo "it took longer than $case_limit s" >>"$T/said"
	if [ -e "$T/err" ] && grep -q 'Sanitizer' "$T/err"; then
		status=1
		cat "$T/err" >>"$T/said"
	fi
	case $status in
	0) echo "ok $2 - ${1#test_}" ;;
	77) echo "ok $2 - ${1#test_} # SKIP $(tail -n 1 "$T/said")" ;;
	*)
		echo "not ok $2 - ${1#test_}"
		sed 's/^/# /' "$T/said"
		;;
	esac
	rm -rf "$T"
}

main()
{
	local cases n=0
	if [ "${1-}" = --case ]; then
		T=$3
		trap cleanup EXIT
		set -e
		# separate copies: a probe sees all users of a file, other cases too
		mkdir "$T/prologues"
		L=$T/libcuda.so.1
		P=$T/prologues/libcuda.so.1
		[ -z "${GPUMEM_LIBRARY-}" ] || cp "$GPUMEM_LIBRARY" "$L"
		[ -z "${GPUMEM_PROLOGUES-}" ] || cp "$GPUMEM_PROLOGUES" "$P"
		"$2"
		exit
	fi
	mapfile -t cases < <(declare -F | awk '{ print $3 }' | grep '^test_')
	[ $# = 0 ] || cases=("${@/#/test_}")
	echo "1..${#cases[@]}"
	for name in "${cases[@]}"; do
		n=$((n + 1))
		run_case "$name" "$n"
	done
}
