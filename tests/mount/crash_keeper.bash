#!/bin/bash
# The keeper has room for the next broker and for all memory, whatever users do.
. "${BASH_SOURCE%/*}/lib.bash"
. "${BASH_SOURCE%/*}/keep.bash"

# Else one user's loop fills the keeper, and the next death frees the memory of all.
test_the_keeper_has_no_more_than_what_lives()
{
	local before most
	keep
	say alloc 'x 4096'
	say alloc 'y 1M'
	say fill 'y u32:7'
	before=$(n_kept)
	most=$(
		cd "$O"
		py "$(<"$T/own/pid")" <<-'EOF'
			def descriptors():
			    folder = f"/proc/{sys.argv[1]}/fd"
			    links = [attempt(os.readlink, f"{folder}/{fd}") for fd in os.listdir(folder)]
			    reserve = "/gpumemd", "/memfd:gpumem-spare (deleted)"
			    return sum(not link.endswith(reserve) for link in links)
			text = b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}'
			most = 0
			for i in range(1500):
			    fd = os.open("allocations/x/tensors", os.O_WRONLY | os.O_TRUNC)
			    os.write(fd, text)
			    os.close(fd)
			    if i % 20 == 0:
			        most = max(most, descriptors())
			print(most)
		EOF
	)
	[ "$most" -le $((before + 20)) ] || fail "the keeper had $most descriptors, and $before before"
	die
	is "$(ls "$O/allocations" | xargs)" 'x y'
	is "$(od -A n -t u4 -v -w4 "$O/allocations/y/data" | sort -u | xargs)" 7
	end
}

# limit N: the keeper may open so many files; the brokers to come raise theirs again.
limit()
{
	prlimit --pid "$(<"$T/own/pid")" --nofile="$1":
}

test_a_keeper_at_its_limit_starts_the_next_broker()
{
	local n=0
	keep
	say alloc 'x 1M'
	say fill 'x u32:7'
	# All numbers below the limit are taken.
	while [ -e "/proc/$(<"$T/own/pid")/fd/$n" ]; do
		n=$((n + 1))
	done
	limit "$n"
	kill -KILL "$(broker_pid)"
	eventually "grep -q '^gpumemd: the broker was killed by signal 9$' '$T/own/stderr'"
	is "$(timeout 20 ls "$O/allocations")" x
	# While the keeper has the last mover and a standby, the next mover may have no number.
	limit 1024
	eventually "[ \"\$(od -A n -t u4 -v -w4 '$O/allocations/x/data' | sort -u | xargs)\" = 7 ]"
	say alloc 'y 1M'
	sed -i '/the mover, .* could not be started: Too many open files; another is started$/d' "$T/own/stderr"
	die
	is "$(ls "$O/allocations" | xargs)" 'x y'
	end
}

test_a_keeper_that_can_start_no_broker_tries_again()
{
	keep
	say alloc 'x 1M'
	say fill 'x u32:7'
	limit 3
	# With a standby, which is there already.
	kill -KILL $(pgrep -P "$(<"$T/own/pid")")
	eventually "grep -q 'no broker can be started' '$T/own/stderr'"
	limit 1024
	is "$(timeout 20 od -A n -t u4 -v -w4 "$O/allocations/x/data" | sort -u | xargs)" 7
	like "$(grep started "$T/own/stderr" | sort -u)" \
		'^gpumemd: no broker can be started: Too many open files; the memory stays, and another try follows$'
	sed -i '/no broker can be started/d' "$T/own/stderr"
	end
}

# Whoever reads the words may hang, or have stopped a terminal.
test_a_stderr_that_nobody_reads_keeps_nobody_waiting()
{
	local words old
	mkdir -p "$T/own"
	rm -f "$T/own/stderr"
	mkfifo "$T/own/stderr"
	exec {words}<>"$T/own/stderr"
	keep
	say alloc 'x 1M'
	dd if=/dev/zero of="$T/own/stderr" bs=1 oflag=nonblock status=none 2>/dev/null || :
	for _ in 1 2 3; do
		old=$(broker_pid)
		kill -KILL "$old"
		timeout 20 cat "$O/version" >/dev/null || fail "the mount does not answer"
		[ "$(broker_pid)" != "$old" ] || fail "broker $old is still there"
	done
	is "$(ls "$O/allocations")" x
	rm "$T/own/stderr"
	: >"$T/own/stderr"
	end
	exec {words}>&-
}

# Else the next broker would miss a block that the records name.
test_memory_is_refused_before_the_keeper_is_full()
{
	local i said n=0
	keep
	say alloc 'x 4M'
	limit $(($(n_kept) * 2 + 128))
	for ((i = 0; i < 400; i++)); do
		said=$({ echo "x$i 2M kind=host" >"$O/control/alloc"; } 2>&1) || break
		n=$((n + 1))
	done
	like "$said" 'Too many open files'
	like "$(tail -n 1 "$O/errors")" ' EMFILE .*the broker has no descriptors left'
	die
	is "$(ls "$O/allocations" | wc -l)" $((n + 1))
	rmdir "$O"/allocations/x?*
	say alloc 'y 4M'
	sed -i '/the broker has no descriptors left/d' "$T/own/stderr"
	end
}

main "$@"
