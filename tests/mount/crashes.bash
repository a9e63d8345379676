#!/bin/bash
# The broker dies at each step of its own, and the session goes on (crashes.py).
#
# A build with -Dcrash_points=true. Environment: GPUMEM_CRASHES=STRIDE takes each STRIDE-th
# point in place of a few: 1 is all of them, an hour for each case. GPUMEM_CRASHES_FIRST, the
# first of them, and GPUMEM_CRASHES_SEED are to repeat a run.
export GPUMEM_CASE_LIMIT=${GPUMEM_CASE_LIMIT:-$((${GPUMEM_CRASHES:+900}0 + 240))}
. "${BASH_SOURCE%/*}/lib.bash"

crashes()
{
	grep -q 'GPUMEM_CRASH' "$GPUMEMD" || skip 'a build with -Dcrash_points=true has it'
	needs_root 'the descriptors of a keeper are counted'
	mkdir -p "$T/own"
	head -c 4096 /dev/zero >"$T/own/plan"
	GPUMEM_CRASH=$T/own/plan broker_start "$T/own" --keep --driver "$(driver own)"
	python3 "$here/crashes.py" "$T/own" "$GPUMEMD" "$@" || fail "on stderr:" "$(<"$T/own/stderr")"
	: >"$T/own/stderr"
	broker_stop "$T/own"
}

test_the_broker_dies_once_at_any_point()
{
	crashes once "${GPUMEM_CRASHES:-149}" "${GPUMEM_CRASHES_FIRST:-1}"
}

test_the_next_broker_dies_while_it_begins()
{
	local seed=${GPUMEM_CRASHES_SEED:-$RANDOM} stride=${GPUMEM_CRASHES:-211}
	echo "# seed $seed"
	crashes twice "$stride" "${GPUMEM_CRASHES_FIRST:-$((1 + seed % stride))}" "$seed"
}

main "$@"
