# Cgroups (version 2) of a case's own, and processes in them that allocate.

# The folder of the cgroup hierarchy, version 2. Skips where this user can't make one in it.
hierarchy()
{
	awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts
}

# group_new NAME: makes cgroup NAME of this case. Its folder is $G/NAME, its path $P/NAME.
group_new()
{
	G=$(hierarchy)/gpumem-test-${T##*.} P=/gpumem-test-${T##*.}
	mkdir -p "$G/$1" 2>/dev/null || skip "cgroups (version 2) can't be made in '$(hierarchy)' by uid $(id -u)"
	trap groups_remove EXIT
}

groups_remove()
{
	local folder
	cleanup_case
	find "$G" -depth -type d | while read -r folder; do
		xargs -r kill -KILL <"$folder/cgroup.procs"
		eventually 'rmdir "$folder"'
	done
}

# writer LINE [CGROUP]: a process that writes a line of alloc and lives on; its pid is $writer.
# Returns when the line is answered.
writer()
{
	rm -f "$T/answered"
	bash -c '
		[ ! "$2" ] || echo $$ >"$2/cgroup.procs"
		echo "$1" >control/alloc
		: >"$3/answered"
		exec sleep 1000' - "$1" "${2-}" "$T" &
	writer=$!
	eventually "[ -e '$T/answered' ]"
}

gone()
{
	eventually "[ ! -e allocations/$1 ]"
}
