# Two users: mallory does the worst, and bob's work must take no longer than before. Sourced
# behind lib.bash, by fairness.bash and busy.bash.

mallory=1001 bob=1002

# Does each kind of bob's work once and prints `WORK MILLISECONDS` or `WORK ERRNO` for each.
work_of_bob()
{
	py $bob <<-'EOF'
		become(int(sys.argv[1]))
		def timed(name, work):
		    signal.alarm(20)
		    begin = time.monotonic()
		    try:
		        work()
		        print(name, int((time.monotonic() - begin) * 1000), flush=True)
		    except OSError as error:
		        print(name, errno.errorcode[error.errno], flush=True)

		def line(path, text):
		    fd = os.open(path, os.O_WRONLY)
		    os.write(fd, text)
		    os.close(fd)

		def alloc(size):
		    line("control/alloc", b"bobs-new " + size)
		    os.rmdir("allocations/bobs-new")

		def write():
		    fd = os.open("allocations/bobs/data", os.O_WRONLY)
		    os.pwrite(fd, b"x" * 4096, 0)
		    os.close(fd)

		timed("ls", lambda: os.listdir("allocations"))
		timed("status", lambda: open("status").read())
		timed("write", write)
		timed("small", lambda: alloc(b"4K"))
		timed("large", lambda: alloc(b"4M"))
		timed("host", lambda: alloc(b"4M kind=host"))
		if os.path.isdir("modules/bobs"):
		    timed("launch", lambda: line("control/launch",
		        b"bobs saxpy elements=64 u32:64 f32:2 bobs bobs-too"))
	EOF
}

# Prints the fastest of three rounds, so that other load of the machine counts for little.
best_of_bob()
{
	{ work_of_bob && work_of_bob && work_of_bob; } |
		awk '$2 !~ /^[0-9]+$/ { wrong[$1] = $2; best[$1] = $2; next }
			!($1 in wrong) && (!($1 in best) || $2 < best[$1]) { best[$1] = $2 }
			END { for (work in best) print work, best[work] }'
}

# bob_is_ready: makes bob's memory and, where kernels can be compiled, his module. Measures
# bob's work while bob is the only user.
bob_is_ready()
{
	needs_root 'two users'
	trap 'mallory_ends; cleanup_case' EXIT
	: >"$T/mallory" # of the last case, before anybody looks for what mallory says now
	by $bob run 'echo "bobs 4K" >control/alloc; echo "bobs-too 4K" >control/alloc'
	if [ -e "${GPUMEM_KERNELS-}/saxpy.ptx" ]; then
		by $bob run "mkdir modules/bobs && cp '$GPUMEM_KERNELS/saxpy.ptx' modules/bobs/image"
	fi
	work_of_bob >"$T/first"
	best_of_bob | sort >"$T/quiet"
}

# Whatever mallory left behind would be in the way of the next case.
mallory_ends()
{
	set +e
	cd "$M"
	kill $(jobs -p) 2>/dev/null
	[ "$(<owners/$mallory/worker)" = 0 ] || kill -CONT "$(<owners/$mallory/worker)"
	echo 1 >owners/$mallory/reset
} 2>/dev/null

# bob_notices_nothing: ten times as long at most; below a second is as good as at once.
bob_notices_nothing()
{
	local work alone now
	best_of_bob | sort >"$T/loud"
	cut -d ' ' -f 1 "$T/quiet" | cmp - <(cut -d ' ' -f 1 "$T/loud") ||
		fail 'bob got stuck:' "$(<"$T/loud")"
	while read -r work alone now; do
		[[ $now =~ ^[0-9]+$ ]] || fail "bob's $work fails: $now" "$(by $bob run 'tail -n 3 errors')"
		[ "$now" -le $((alone * 10 > 1000 ? alone * 10 : 1000)) ] ||
			fail "bob's $work takes $now ms, $alone ms when he is alone"
	done < <(join "$T/quiet" "$T/loud")
}

# mallory_writes FILE THREADS BYTES [apart]: each thread writes once, all to the start or
# each behind the last. Prints the count of failures of
# each errno when every thread waits or has failed, and whenever one more has failed.
mallory_writes()
{
	py $mallory "$@" <<-'EOF'
		become(int(sys.argv[1]))
		libc.prctl(1, signal.SIGKILL)
		path, n, size = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
		step = size if sys.argv[5:] else 0
		fd = os.open(path, os.O_WRONLY)
		in_threads("waiting", n, lambda i: os.pwrite(fd, b"m" * size, i * step))
	EOF
}

# The kernel runs until the worker is reset.
mallory_spins_on()
{
	needs_kernels
	by $mallory run "mkdir modules/spin && cp '$GPUMEM_KERNELS/faults.ptx' modules/spin/image"
	by $mallory run "echo 'spin endless grid=1 block=1 wait=0 $1' >control/launch"
}
