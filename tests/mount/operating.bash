#!/bin/bash
# The recipes of docs/operating.md, as far as they can be run without the programs that they
# are for. What the page has its reader type is the subject of docs.bash.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/cgroups.bash"

examples=$here/../../docs/examples

# slurm prolog|epilog JOB: runs a script as slurmd does, with an environment of its own.
slurm()
{
	env -i SLURM_JOB_ID="$2" SLURM_JOB_UID=1001 GPUMEM_MOUNT="$M" GPUMEM_SLURM_SCOPE="$P" \
		/bin/bash "$examples/slurm-$1"
}

test_the_epilog_of_slurm_frees_what_the_job_has_left()
{
	group_new job_7/step_0/task_0
	mkdir -p "$G/job_77"
	writer 'kept 4K'
	writer 'left 4K' "$G/job_7/step_0/task_0"
	writer 'too 8K kind=host' "$G/job_7"
	writer 'others 4K' "$G/job_77"
	kill -KILL $(cat "$G"/job_7/step_0/task_0/cgroup.procs "$G/job_7/cgroup.procs")
	is "$(slurm epilog 7)" 'gpumem: job 7: freed 2 bytes 12288'
	is "$(ls allocations | xargs)" 'kept others'
	is "$(slurm epilog 7)" 'gpumem: job 7: freed 0 bytes 0'
}

test_the_prolog_of_slurm_frees_what_a_job_of_this_number_has_left()
{
	group_new job_7
	writer 'left 4K' "$G/job_7"
	is "$(slurm prolog 7)" ''
	gone left
}

test_a_node_without_a_broker_fails_in_the_prolog_alone()
{
	local M=$T/nothing P=/system.slice/slurmstepd.scope said status=0
	said=$(slurm prolog 7 2>&1) || status=$?
	is "$status" 1
	like "$said" "gpumem: no broker answers at $M"
	is "$(slurm epilog 7)" ''
}

test_the_unit_of_a_user_is_one_for_systemd()
{
	command -v systemd-analyze >/dev/null || skip 'systemd is not installed'
	mkdir -p "$T/units"
	cp "$examples/gpu-job.service" "$T/units"
	is "$(HOME=$T/units XDG_RUNTIME_DIR=$T/units systemd-analyze verify --user --man=no "$T/units/gpu-job.service" 2>&1)" ''
}

# The line of ExecStopPost runs in the unit's cgroup, whose other processes have ended.
test_the_unit_of_a_user_frees_what_it_has_left()
{
	local line
	group_new unit
	line=$(sed -n "s/^ExecStopPost=\/bin\/sh -c '\(.*\)'\$/\1/p" "$examples/gpu-job.service")
	[ "$line" ] || fail 'there is no ExecStopPost'
	line=${line//\$\$/\$} # as systemd reads it
	writer 'left 4K' "$G/unit"
	writer 'kept 4K'
	kill -KILL $(<"$G/unit/cgroup.procs")
	bash -c 'echo $$ >"$1/cgroup.procs"; exec /bin/sh -c "$2"' - "$G/unit" "${line//\/mnt\/gpu/$M}"
	is "$(ls allocations)" kept
}

# Namespaces of mounts, processes and names as a container has them, with the folder above the
# mount as by `-v /mnt:/mnt:rslave`.
container_begins()
{
	mkdir -p "$T/own/mnt" "$T/container"
	mount --bind "$T/own" "$T/own"
	mount --make-shared "$T/own"
	trap 'container_ends; cleanup_case; umount -l "$T/own"' EXIT
	# Its working folder would keep the mount of this topic.
	(cd / && exec unshare --mount --pid --ipc --uts --fork --kill-child --propagation slave bash -c '
		detach_others
		mount --rbind "$1/own" "$1/container"
		mount -t proc proc /proc
		echo ready >"$1/ready"
		exec sleep 1000' - "$T") &
	container=$!
	eventually "[ -e '$T/ready' ]"
}

container_ends()
{
	kill -KILL $container $(pgrep -P $container)
}

# inside COMMAND: a command of uid 1001 in the container.
inside()
{
	local process
	process=$(pgrep -P $container)
	nsenter -t "$process" --mount --pid --ipc --uts --wd=/ \
		setpriv --reuid=1001 --regid=1001 --clear-groups bash -c "$1"
}

test_a_container_uses_the_mount_and_sees_the_next_one()
{
	needs_root 'mount namespaces'
	needs_software 'a broker that is started anew'
	container_begins
	broker_start "$T/own" --driver "$(driver own)" --socket "$T/tickets"
	inside "cd '$T/container/mnt' && echo 'x 4K' >control/alloc && echo inside >allocations/x/data"
	is "$(head -c 6 "$T/own/mnt/allocations/x/data") $(<"$T/own/mnt/allocations/x/owner")" 'inside 1001'
	inside "echo 'y 4K until=exit' >'$T/container/mnt/control/alloc'"
	eventually "[ ! -e '$T/own/mnt/allocations/y' ]"
	inside "cd '$T/container/mnt' && exec 3<>allocations/x/lease && cat <&3" >"$T/lease"
	like "$(<"$T/lease")" $'\n''state live'
	broker_stop "$T/own"
	broker_start "$T/own" --driver "$(driver own)" --socket "$T/tickets"
	is "$(inside "ls '$T/container/mnt/allocations'; cat '$T/container/mnt/version'")" "$(<"$T/own/mnt/version")"
	broker_stop "$T/own"
}

test_the_pod_is_one()
{
	"${AS[@]}" /usr/bin/python3 -c 'import yaml' 2>/dev/null || skip 'the package python3-yaml is not installed'
	/usr/bin/python3 - "$examples/pod.yaml" <<-'EOF'
		import sys
		import yaml

		pod, = yaml.safe_load_all(open(sys.argv[1]))
		assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod"), pod
		volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]}
		container, = pod["spec"]["containers"]
		mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
		# The mount and the tickets are where they are on the node: leases name their paths.
		assert {name: mount["mountPath"] for name, mount in mounts.items()} == volumes, mounts
		assert sorted(volumes.values()) == ["/mnt", "/run/gpumem"], volumes
		assert mounts["mnt"]["mountPropagation"] == "HostToContainer"
		assert {"name": "GPUMEM_MOUNT", "value": "/mnt/gpu"} in container["env"]
		assert pod["spec"]["securityContext"]["runAsUser"] != 0
	EOF
}

test_alerts_ask_for_what_is_there()
{
	local python
	python=$(python_with_prometheus) || skip 'the package python3-prometheus-client is not installed'
	"$python" -c 'import yaml' 2>/dev/null || skip 'the package python3-yaml is not installed'
	echo 'x 4K' >control/alloc
	echo "device:0 $(<devices/0/memory_total_bytes)" >owners/$UID/max
	"$python" "$here/metrics.py" alerts metrics "$examples/alerts.yml"
}

test_promtool_takes_the_alerts()
{
	command -v promtool >/dev/null || skip "promtool, of Debian's package prometheus, is not here, or not this user's to run"
	like "$(promtool check rules "$examples/alerts.yml")" 'SUCCESS: 5 rules'
}

main "$@"
