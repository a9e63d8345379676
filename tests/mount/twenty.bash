#!/bin/bash
# Twenty users on one machine: limits, a hostile one among them, folders, a job that ends
# with its cgroup, somebody who leaves, and metrics that are read all the while.
export GPUMEM_CASE_LIMIT=${GPUMEM_CASE_LIMIT:-240}
. "${BASH_SOURCE%/*}/lib.bash"

first=64101 job=64118 leaver=64119 mallory=64120 team=64100

# What each may have: of each device, and of all else.
device_limit=16M
limits='host 8M allocations 20 modules 4 streams 4 leases 8 operations 64'
mallorys_limits='host 4M allocations 30 modules 3 streams 4 leases 5 operations 50'

# ---- what a user does ----

# did WORD: tells the test how far this user has come.
did()
{
	echo "$1" >>"$T/did/$UID"
}

# timed WORD COMMAND...: notes how long the command takes.
timed()
{
	local begin=${EPOCHREALTIME/./}
	"${@:2}"
	echo "$1 $(((${EPOCHREALTIME/./} - begin) / 1000))" >>"$T/did/times.$UID"
}

# bytes_of UID SIZE: prints bytes that nobody else has.
bytes_of()
{
	yes "these are the bytes of user $1" | head -c "$2"
}

settle()
{
	local my=$1 gpu=$2
	mkdir allocations/$my modules/$my modules/$my/saxpy
	echo "$my/weights 4M device=$gpu" >control/alloc
	bytes_of $UID 4M >allocations/$my/weights/data
	echo "$my/host 100K kind=host" >control/alloc
	bytes_of $UID 100K >allocations/$my/host/data
	seq -f "$my/%.0f 1024xf32 device=$gpu" 2 >control/alloc
	echo "$my/1 f32:1" >control/fill
	echo "$gpu" >modules/$my/saxpy/device
	cp "$here/../../docs/kernels/saxpy.ptx" modules/$my/saxpy/image
	echo "$my/scratch 64K device=$gpu until=${3-exit}" >control/alloc
	exec 9<>allocations/$my/weights/lease
	cat <&9 >/dev/null
}

# y = 2 x + y, so $my/2 counts the rounds by twos.
work_a_round()
{
	local my=$1 gpu=$2
	timed ls ls allocations/$my >/dev/null
	timed alloc bash -c "echo '$my/tmp 1M device=$gpu' >control/alloc"
	timed write bash -c "yes $UID | head -c 64K 1<>allocations/$my/tmp/data"
	cmp allocations/$my/tmp/data <(yes $UID | head -c 64K; head -c 960K /dev/zero)
	timed launch bash -c "echo '$my/saxpy saxpy elements=1024 u32:1024 f32:2 in:$my/1 $my/2' >control/launch"
	echo "$my/tmp from=shared/model length=512K" >control/copy
	cmp -n 512K allocations/$my/tmp/data allocations/shared/model/data
	timed free rmdir allocations/$my/tmp
}

# user GPU [UNTIL]: the whole session of one user, in a shell of that user's.
user()
{
	local my=u$UID gpu=$1
	set -Ee
	trap 'echo "line $LINENO failed ($?): $BASH_COMMAND"; tail -n 1 errors' ERR
	settle "$my" "$@"
	eventually '[ -e allocations/shared/model ]' 60
	work_a_round "$my" "$gpu"
	did settled
	eventually "[ -e '$T/did/attack' ]" 120
	work_a_round "$my" "$gpu"
	refused EDQUOT "uid $UID has .* of the memory of device $gpu and asks for 64 MiB more" \
		"echo '$my/much 64M device=$gpu' >control/alloc"
	work_a_round "$my" "$gpu"
	did worked
	eventually "[ -e '$T/did/evening' ]" 120
	cmp allocations/$my/weights/data <(bytes_of $UID 4M)
	cmp allocations/$my/host/data <(bytes_of $UID 100K)
	is "$(od -A n -t f4 -v -w4 allocations/$my/2/data | sort -u | xargs)" 6
	exec 9>&-
	rmdir allocations/$my/{weights,host,1,2,scratch} allocations/$my modules/$my/saxpy modules/$my
	did left
}
export -f user settle work_a_round bytes_of timed did eventually fail is refused run substituted
export here

# ---- what root does ----

# as UID COMMAND...: in a session of its own; all are in the group $team.
as()
{
	exec setsid setpriv --reuid="$1" --regid=$team --clear-groups "${@:2}"
}

# starts UID ARGUMENT...: begins the session of a user. ${process[UID]} is the shell.
declare -A process
starts()
{
	(as "$1" bash -c 'user "$@"' - "${@:2}" >"$T/did/said.$1" 2>&1) &
	process[$1]=$!
}

# all_did WORD UID...: waits until each of them has come so far.
all_did()
{
	local uid
	for uid in "${@:2}"; do
		eventually "grep -qsx $1 '$T/did/$uid' || ! kill -0 ${process[$uid]}" 120
		grep -qsx "$1" "$T/did/$uid" ||
			fail "user $uid did not come to '$1':" "$(<"$T/did/said.$uid")" "$(tail -n 5 errors)"
	done
}

limit_everybody()
{
	local device of_devices=
	for device in $(ls devices); do
		of_devices+="device:$device $device_limit "
	done
	echo "$of_devices $limits" >owners/default/max
	mkdir owners/$mallory
	echo "$of_devices $mallorys_limits" >owners/$mallory/max
	mkdir allocations/shared
	chgrp $team allocations/shared
	chmod 775 allocations/shared
}

# The hierarchy of cgroups (version 2) where one can be made; else the job is one without.
make_cgroup()
{
	cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)/gpumem-twenty-${T##*.}
	mkdir "$cgroup" 2>/dev/null || cgroup=
	[ "$cgroup" ] || echo '# no cgroup of version 2 can be made here: no job ends with one'
}

start_the_job()
{
	if [ "$cgroup" ]; then
		(echo "$BASHPID" >"$cgroup/cgroup.procs" &&
			as $job bash -c 'user "$@"' - $((job % n_devices)) cgroup >"$T/did/said.$job" 2>&1) &
		process[$job]=$!
	else
		starts $job $((job % n_devices))
	fi
}

# What others may not do, tried by one of the team.
mallory_may_not()
{
	local AS=(setpriv --reuid=$mallory --regid=$team --clear-groups) his=u$first worker
	denied EACCES "cat allocations/$his/weights/data"
	denied EACCES "echo mine >allocations/$his/weights/data"
	refused EACCES "may not write" "echo '$his/weights u8:1' >control/fill"
	refused EPERM "" "rmdir allocations/shared/model"
	refused EPERM "" "mv allocations/shared/model allocations/shared/mine"
	refused EACCES 'may not write' "echo 'shared/model u8:1' >control/fill"
	denied EPERM "chmod 666 allocations/$his/weights"
	denied EACCES "echo 1 >owners/$first/reset"
	denied EACCES "echo 'host 0' >owners/$first/max"
	refused EPERM 'only root raises it' "echo 'host max' >owners/$mallory/max"
	worker=$(<owners/$first/worker)
	run "kill -KILL $worker" 2>/dev/null && fail "the worker of another user was killed"
	is "$(run 'exec 3<>control/free; echo "cgroup=/gpumem-twenty-'${T##*.}'" >&3; cat <&3')" \
		$'freed 0\nbytes 0'
}

# From here on there is no limit that mallory has not run into.
mallory_attacks()
{
	# That user need not be able to start Python.
	(exec setsid python3 "$here/twenty.py" $mallory $team >"$T/did/said.$mallory" 2>&1) &
	process[$mallory]=$!
	eventually "! grep -q ' 0\$' owners/$mallory/max_events || ! kill -0 ${process[$mallory]}" 120
	kill -0 "${process[$mallory]}" || fail 'mallory has ended:' "$(<"$T/did/said.$mallory")"
	: >"$T/did/attack"
}

# The cgroup ends in the middle of everything, and an epilog frees what it has left.
the_job_ends()
{
	local my=u$job
	[ "$cgroup" ] || return 0
	is "$(<allocations/$my/scratch/cgroup)" "/${cgroup##*/}"
	kill -KILL $(<"$cgroup/cgroup.procs")
	eventually "rmdir '$cgroup'"
	eventually "[ ! -e allocations/$my/scratch ]" 60
	cmp allocations/$my/weights/data <(bytes_of $job 4M)
	exec 3<>control/free
	echo "cgroup=/${cgroup##*/}" >&3
	like "$(cat <&3)" '^freed [0-9]+'
	exec 3>&-
	is "$(ls allocations/$my)" ''
	rmdir modules/$my/saxpy modules/$my allocations/$my
}

# Somebody has left: one allocation is for another user, the rest goes.
the_leaver_leaves()
{
	local my=u$leaver
	kill -KILL -- "-${process[$leaver]}"
	eventually "[ ! -e allocations/$my/scratch ]" 60
	eventually "[ ! -s allocations/$my/weights/leases ]" 60
	chown $first allocations/$my/weights
	mv allocations/$my/weights allocations/shared/inherited
	is "$(stat -c %u allocations/shared/inherited)" $first
	# A line that was under way at the kill may come true late.
	eventually "find allocations/$my modules/$my -depth -type d -not -path '*/functions*' -exec rmdir {} + ; \
		[ ! -e allocations/$my ] && [ ! -e modules/$my ]" 60
	by $first cmp allocations/shared/inherited/data <(bytes_of $leaver 4M)
}

# Mallory is thrown out: her processes, her kernels, all that is hers.
mallory_is_thrown_out()
{
	local path
	kill -0 "${process[$mallory]}" || fail 'mallory gave up:' "$(<"$T/did/said.$mallory")"
	kill -KILL -- "-${process[$mallory]}"
	eventually "echo 1 >owners/$mallory/reset" 60
	eventually "find allocations modules streams -mindepth 1 -depth -type d -user $mallory \
		-not -path '*/functions*' -not -name 'default*' -exec rmdir {} + ; \
		[ -z \"\$(find allocations modules streams -mindepth 1 -user $mallory -not -path 'streams/default*')\" ]" 60
}

# nobody_was_above: of all that ever was, nothing is above its limit.
nobody_was_above()
{
	local uid key limit most
	for uid in $(seq $first $mallory); do
		while read -r key limit most; do
			[ "$most" -le "$limit" ] || fail "uid $uid had $most of $key, of $limit"
			[ "$most" -gt 0 ] || [ "$uid" != $mallory ] || fail "mallory never had any of $key"
		done < <(join <(sort owners/$uid/max) <(sort owners/$uid/peak))
	done
}

# nobody_noticed UID...: no failure but their own, and no worker lost.
nobody_noticed()
{
	local uid
	for uid; do
		is "$uid: $(grep -c " uid=$uid " errors) $(<owners/$uid/restarts)" "$uid: 1 0"
	done
	is "$(grep -vE "uid $mallory|limit" "$T/own/stderr" || true)" ''
}

nothing_is_held()
{
	local device
	eventually '[ "$(value_of status bytes)" = 0 ]' 60
	eventually '! grep -v " 0\$" owners/*/current' 60
	for device in $(ls devices); do
		eventually "[ \$(<devices/$device/memory_held_bytes) = 0 ]" 60
	done
	! is_software || eventually '[ "$(cat devices/*/memory_used_bytes)" = "$used_before" ]' 60
}

everybody_goes()
{
	local uid
	set +eE
	for uid in "${!process[@]}"; do
		kill -KILL -- "-${process[$uid]}"
	done
	[ -z "${cgroup-}" ] || [ ! -e "$cgroup" ] || eventually "rmdir '$cgroup'"
	cleanup_case
} 2>/dev/null

test_twenty_users_one_of_them_hostile()
{
	local uid n_devices scraper scrapes python cgroup used_before others
	needs_root 'twenty users'
	python=$(python_with_prometheus) || skip 'the package python3-prometheus-client is not installed'
	trap everybody_goes EXIT
	mkdir -m 1777 "$T/did"
	broker_start "$T/own" --driver "$(driver own)" --limits "$T/limits"
	cd "$T/own/mnt"
	n_devices=$(ls devices | wc -l)
	used_before=$(cat devices/*/memory_used_bytes)
	limit_everybody
	make_cgroup

	"$python" "$here/metrics.py" watch metrics "$T/did" >"$T/did/said.metrics" 2>&1 &
	scraper=$!
	for uid in $(seq $first $leaver); do
		[ "$uid" = $job ] || starts "$uid" $((uid % n_devices))
	done
	start_the_job
	bytes_of 0 1M >"$T/did/model"
	echo 'model.part 1M mode=644' >control/alloc
	cat "$T/did/model" >allocations/model.part/data
	echo 'model.part shared/model' >control/publish
	all_did settled $(seq $first $leaver)

	mallory_may_not
	mallory_attacks
	others=$(seq $first $((job - 1)))
	[ "$cgroup" ] || others+=" $job"
	the_job_ends
	the_leaver_leaves
	all_did worked $others
	mallory_is_thrown_out
	: >"$T/did/evening"
	all_did left $others
	rmdir allocations/shared/{inherited,model}
	rmdir allocations/shared

	kill -0 $scraper || fail 'the scraper has ended:' "$(<"$T/did/said.metrics")"
	: >"$T/did/night"
	wait $scraper || fail 'metrics:' "$(<"$T/did/said.metrics")"
	is "$(ls -A allocations modules)" $'allocations:\n\nmodules:'
	nothing_is_held
	nobody_was_above
	nobody_noticed $others
	tail -n 1 "$T/did/said.metrics"
	cat "$T/did"/times.* | awk '$2 > most[$1] { most[$1] = $2 }
		END { printf "# the slowest, in ms:"; for (word in most) printf " %s %d", word, most[word]; print "" }'
	cd /
	broker_stop "$T/own"
}

main "$@"
