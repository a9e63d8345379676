#!/bin/bash
# Two hostile users (hostile.py) do random operations on the broker and on each other's
# objects, while a third user works. At the end the broker must be as before.
#
# Environment: GPUMEM_HOSTILE_SECONDS, the duration (30); GPUMEM_HOSTILE_SEED.
hostile_seconds=${GPUMEM_HOSTILE_SECONDS:-30}
export GPUMEM_CASE_LIMIT=${GPUMEM_CASE_LIMIT:-$((hostile_seconds + 240))}
. "${BASH_SOURCE%/*}/lib.bash"

users='64001 64002 64003'

# Lists the open files of a process and the files of /dev/shm, without their numbers. (The
# software GPU's account of a killed worker stays, empty, for the next worker.)
descriptors_of()
{
	{
		find "/proc/$1/fd" -mindepth 1 -printf '%l\n'
		find "/dev/shm/gpumem-softgpu.${T##*.}-own" -type f ! -name sums ! -name joined
	} | sed -E 's/:\[[0-9]*\]//; s/-[0-9]+-[0-9]+$//' | sort
}

# left_behind PID BEFORE: lists files that were not in BEFORE. A read of `status` makes the
# software GPU remove files of killed processes.
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

# Runs each user's first commands, which make some permanent objects. The list of files
# after these is the start to compare with.
warm_up()
{
	local uid kind device
	for uid in $users; do
		for kind in $kinds; do
			for device in 0 1; do
				[ "$kind" != host ] || device=0
				by "$uid" run "echo 'warm 1000 kind=$kind device=$device' >control/alloc"
				by "$uid" run 'cat allocations/warm/data >/dev/null'
				# The user's ticket socket stays.
				[ "$kind" != host ] || by "$uid" run 'cat allocations/warm/lease >/dev/null'
				by "$uid" run 'rmdir allocations/warm'
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
