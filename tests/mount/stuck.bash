# A file system that has taken a request and never answers, for the cases of several topics.

# A file system with the files `stuckN` and `clinging` (brittle.c), on $T/fs.
stuck_mount()
{
	local i
	mkdir "$T/files" "$T/fs"
	chmod 755 "$T"
	# One request each: the file system has ten threads.
	for i in clinging stuck{1..4}; do
		head -c 65536 /dev/zero >"$T/files/$i"
	done
	ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" "$build/tests/mount/brittle" "$T/files" "$T/fs" &
	stuck_server=$!
	trap 'stuck_end; cleanup_case' EXIT
	eventually 'is_mounted "$T/fs"'
}

# The server ends: so do all waits for it.
stuck_end()
{
	kill -KILL $stuck_server
	wait $stuck_server || true
	cd "$M"
	eventually 'unmount "$T/fs"'
	rm -r "$T/files" "$T/fs"
	trap cleanup_case EXIT
}

# in_hand NAME: waits until the file system has taken a request of the file.
in_hand()
{
	eventually "[ -e '$T/files/$1.in_hand' ]"
}

# hangs VERB NAME [N]: a line with the file stuckN waits.
hangs()
{
	"${AS[@]}" bash -c "echo '$2 path=$T/fs/stuck${3-1}' >control/$1" 2>/dev/null &
	hanging=$!
	in_hand "stuck${3-1}"
}

# files_process UID [BROKER]: the processes that open files for this user.
files_process()
{
	workers_of "$T/${2-main}" "files-$1"
}

# all_hang NAME: as many loads into NAME hang as a user may have, and nobody waits for them.
all_hang()
{
	local i uid
	uid=$("${AS[@]}" id -u)
	for i in 1 2 3 4; do
		hangs load "$1" $i
		kill $hanging
		fails 'wait $hanging'
		# It is given up, and has no name any more, when it has not answered for a while.
		eventually '[ -z "$(files_process "$uid")" ]'
	done
}
