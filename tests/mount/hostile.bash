#!/bin/bash
# Two users who do whatever they can to the broker, to each other and to a third one, and
# what must be so behind them (hostile.py).
#
# Environment: GPUMEM_HOSTILE_SECONDS, how long they go on (30); GPUMEM_HOSTILE_SEED.
hostile_seconds=${GPUMEM_HOSTILE_SECONDS:-30}
export GPUMEM_CASE_LIMIT=${GPUMEM_CASE_LIMIT:-$((hostile_seconds + 240))}
. "${BASH_SOURCE%/*}/lib.bash"

users='64001 64002 64003'

# What a process has open and what memory lies in /dev/shm, without the numbers of each.
# (The account of a user whose worker was killed stays, without memory, for the next one.)
descriptors_of()
{
	{
		find "/proc/$1/fd" -mindepth 1 -printf '%l\n'
		find "/dev/shm/gpumem-softgpu.${T##*.}-own" -type f ! -name sums ! -name joined
	} | sed -E 's/:\[[0-9]*\]//; s/-[0-9]+-[0-9]+$//' | sort
}

# left_behind PID BEFORE: what is there now and was not before. The software GPU takes away
# what a killed process has left when it is asked how much is used.
left_behind()
{
	cat devices/*/memory_used_bytes >/dev/null
	comm -13 <(echo "$2") <(descriptors_of "$1")
}

no_worker_runs()
{
	local uid
	for uid in $users; do
		[ -z "$(workers_of "$T/own" "$uid")" ] || return 1
	done
}

# What each user's first commands make for good is there: the start to compare with.
warm_up()
{
	local uid kind device
	for uid in $users; do
		for kind in $kinds; do
			for device in 0 1; do
				[ "$kind" != host ] || device=0
				by "$uid" run "echo 'warm 1000 kind=$kind device=$device' >control/alloc"
				by "$uid" run 'cat allocations/warm/data >/dev/null && rmdir allocations/warm'
			done
		done
	done
	eventually no_worker_runs
}

test_two_hostile_users_hurt_nobody()
{
	local pid before
	needs_root 'three users'
	needs_software 'lose a worker'
	broker_start "$T/own" --driver "$(driver own)" --worker-idle 1
	cd "$T/own/mnt"
	warm_up
	pid=$(<"$T/own/pid")
	before=$(descriptors_of "$pid")
	python3 "$here/hostile.py" "$hostile_seconds" ${GPUMEM_HOSTILE_SEED-} ||
		fail 'somebody was hurt' "$(cat status)" "$(tail -n 3 errors)"
	is "$(ls allocations modules)" $'allocations:\n\nmodules:'
	eventually '[ "$(value_of status bytes)" = 0 ]'
	eventually no_worker_runs
	(eventually '[ -z "$(left_behind "$pid" "$before")" ]') ||
		fail 'left behind:' "$(left_behind "$pid" "$before")"
	cd /
	broker_stop "$T/own"
}

main "$@"
