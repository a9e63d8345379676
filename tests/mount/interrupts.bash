#!/bin/bash
# Signals during a wait: which waits end, and that nothing is done twice.
. "${BASH_SOURCE%/*}/lib.bash"

# A program that catches SIGINT and makes one system call without any library's retry.
# Prints the result, and whether the call took less than the delay.
caller()
{
	python3 -c "from syscalls import *
signal.signal(signal.SIGINT, lambda *_: None)
signal.signal(signal.SIGCHLD, lambda *_: None)
start = time.monotonic()
$1
print(result, time.monotonic() - start < ${2-4}, flush=True)" >"$T/result" &
	program=$!
	until_it_waits $program
}

test_sigint_ends_the_wait_of_a_fill_which_is_success()
{
	echo 'x 4096' >control/alloc
	slow 8s
	caller 'result = raw_write(control("fill"), b"x u8:7")'
	kill -INT $program
	wait $program
	is "$(<"$T/result")" '6 True'
	inject
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 7
}

test_sigint_ends_the_wait_of_a_copy_which_is_success()
{
	echo 'x 4096' >control/alloc
	echo 'y 4096' >control/alloc
	echo 'x u8:7' >control/fill
	slow 8s
	caller 'result = raw_write(control("copy"), b"y from=x")'
	kill -INT $program
	wait $program
	is "$(<"$T/result")" '8 True'
	inject
	is "$(od -A n -t u1 -N 1 allocations/y/data | xargs)" 7
}

test_sigint_ends_the_wait_of_data_with_eintr()
{
	echo 'x 4096' >control/alloc
	slow 8s
	echo 'x u8:7 wait=0' >control/fill
	caller 'result = raw_read(os.open("allocations/x/data", os.O_RDONLY), 100)'
	kill -INT $program
	wait $program
	is "$(<"$T/result")" 'EINTR True'
	inject
}

test_sigint_ends_the_wait_of_synchronize_with_eintr()
{
	echo 'x 4096' >control/alloc
	slow 8s
	echo 'x u8:7 wait=0' >control/fill
	caller 'result = raw_write(control("synchronize"), b"default")'
	kill -INT $program
	wait $program
	is "$(<"$T/result")" 'EINTR True'
	inject
	echo default >control/synchronize
}

test_sigchld_does_not_end_a_wait()
{
	echo 'x 4096' >control/alloc
	slow 2s
	caller 'result = raw_write(control("fill"), b"x u8:7")' 1.9
	kill -CHLD $program
	kill -CHLD $program
	kill -WINCH $program
	kill -URG $program
	wait $program
	is "$(<"$T/result")" '6 False'
	inject
}

test_a_background_job_that_ends_does_not_disturb_echo()
{
	local program
	echo 'x 4096' >control/alloc
	slow 3s
	bash -c 'sleep 1000 & echo $! >"$T/job"; echo "x u8:9" >control/fill' &
	program=$!
	until_it_waits $program
	kill "$(<"$T/job")"
	wait $program
	is "$(<streams/default/state)" idle
	inject
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 9
}

test_ctrl_c_gives_the_shell_back()
{
	local program
	echo 'x 4096' >control/alloc
	slow 20s
	env --default-signal=INT bash -c 'echo "x u8:9" >control/fill' &
	program=$!
	until_it_waits $program
	kill -INT $program
	timeout 5 tail --pid=$program -f /dev/null
	wait $program || true
	inject
}

# Their lines in /proc/PID/status are before those of the signals.
test_sigkill_ends_a_wait_of_a_user_of_many_groups()
{
	local program
	needs_root 'groups'
	setpriv --reuid=1001 --regid=1001 "--groups=$(seq -s , 2000 3000)" cat events_pipe &
	program=$!
	until_it_waits $program
	kill -KILL $program
	timeout 5 tail --pid=$program -f /dev/null
	wait $program || true
}

test_sigkill_ends_a_wait()
{
	local program
	echo 'x 4096' >control/alloc
	slow 20s
	echo 'x u8:9' >control/fill &
	program=$!
	until_it_waits $program
	kill -KILL $program
	timeout 5 tail --pid=$program -f /dev/null
	wait $program || true
	inject
}

# writes_and THEN: a program that writes data, which takes 30 s after the answer, and then
# runs THEN.
writes_and()
{
	echo 'x 4096' >control/alloc
	is_zero allocations/x/data
	rm -f "$T/wrote" # of an earlier case
	slow 30s
	python3 -c "from syscalls import *
fd = os.open('allocations/x/data', os.O_WRONLY)
os.write(fd, b'written')
print('written', flush=True)
$1" >"$T/wrote" &
	program=$!
	eventually "grep -q written '$T/wrote'"
}

# The exit of a program closes its files. Such a close waits until all written bytes are in
# the memory, and nobody can be told of a failure.
test_sigkill_ends_a_program_whose_files_wait_to_be_closed()
{
	writes_and 'signal.pause()'
	kill -KILL $program
	timeout 5 tail --pid=$program -f /dev/null
	wait $program || true
	inject
	is "$(head -c 7 allocations/x/data)" written
}

test_a_program_that_ends_waits_for_no_file()
{
	writes_and 'os._exit(0)'
	timeout 5 tail --pid=$program -f /dev/null
	wait $program
	inject
	is "$(head -c 7 allocations/x/data)" written
}

test_sigkill_ends_the_wait_of_a_close()
{
	writes_and 'os.close(fd)'
	eventually "grep -qE 'fuse|request_wait_answer' /proc/$program/wchan"
	kill -KILL $program
	timeout 5 tail --pid=$program -f /dev/null
	wait $program || true
	inject
}

# A thread of the kernel waits in the program's place, and the end of the program for it.
test_sigkill_ends_a_program_that_synchronizes_by_libaio()
{
	writes_and "
synchronize_by_libaio(fd)
print('asked', flush=True)
signal.pause()"
	eventually "grep -q asked '$T/wrote'"
	kill -KILL $program
	timeout 10 tail --pid=$program -f /dev/null
	wait $program || true
	inject
	is "$(head -c 7 allocations/x/data)" written
	# A line that fills its write and has no end is run by the fsync.
	slow 30s
	python3 -c "from syscalls import *
fd = os.open('control/fill', os.O_WRONLY)
os.write(fd, b'x u8:9'.rjust(4096))
synchronize_by_libaio(fd)
print('asked', flush=True)
signal.pause()" >"$T/wrote" &
	program=$!
	eventually "grep -q asked '$T/wrote'"
	kill -KILL $program
	timeout 10 tail --pid=$program -f /dev/null
	wait $program || true
	inject
}

test_sigstop_stops_and_the_command_is_done_once()
{
	local program
	echo 'x 4096' >control/alloc
	slow 3s
	echo 'x u8:9' >control/fill &
	program=$!
	until_it_waits $program
	kill -STOP $program
	eventually "grep -q '^State:.*T' /proc/$program/status"
	kill -CONT $program
	wait $program
	inject
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 9
}

test_wait_0_returns_at_once()
{
	local state
	echo 'x 4096' >control/alloc
	slow 6s
	SECONDS=0
	echo 'x u8:7 wait=0' >control/fill
	[ "$SECONDS" -lt 5 ]
	state=$(<streams/default/state)
	is "$state" busy
	inject
	echo default >control/synchronize
	is "$(<streams/default/state)" idle
}

test_one_waiting_line_delays_nobody_elses()
{
	local program
	echo 'x 4096' >control/alloc
	slow 8s
	echo 'x u8:7' >control/fill &
	program=$!
	until_it_waits $program
	SECONDS=0
	echo 'y 4096' >control/alloc
	[ -n "$(<control/fill)" ]
	denied ENOENT 'echo "nothing u8:1" >control/fill'
	[ "$SECONDS" -lt 5 ]
	kill -0 $program
	kill -KILL $program
	wait $program || true
	inject
}

test_a_failure_after_the_start_is_answered_again_without_running()
{
	needs_software 'go wrong'
	echo 'x 4096' >control/alloc
	printf 'fail=%s@*=CUDA_ERROR_UNKNOWN\n' cuMemsetD{8,16,32}Async \
		cuMemsetD2D{8,16,32}Async cuMemcpyDtoDAsync_v2 cuMemcpyHtoDAsync_v2 >"$T/rules"
	is "$(py "$T" <<-'EOF'
		fd = control("fill")
		os.rename(f"{sys.argv[1]}/rules", f"{sys.argv[1]}/inject")
		show(os.write, fd, b"x u8:7")
		os.unlink(f"{sys.argv[1]}/inject")
		show(os.write, fd, b"x u8:7")
		show(lambda: open("allocations/x/data", "rb").read(1)[0])
		show(os.write, fd, b"x u8:8")
		show(lambda: open("allocations/x/data", "rb").read(1)[0])
	EOF
	)" $'EIO\nEIO\n0\n6\n8'
}

test_a_failure_that_nobody_waited_for_shows_on_synchronize_once()
{
	needs_software 'go wrong'
	mkdir streams/s
	echo 'x 4096' >control/alloc
	inject 'fail=cuMemsetD8Async@*=CUDA_ERROR_UNKNOWN' 'fail=cuMemsetD32Async@*=CUDA_ERROR_UNKNOWN' \
		'fail=cuMemsetD16Async@*=CUDA_ERROR_UNKNOWN'
	echo 'x u8:7 stream=s wait=0' >control/fill
	eventually '[ "$(<streams/s/state)" != busy ]'
	is "$(<streams/s/state) $(<streams/s/error)" 'failed EIO'
	inject
	refused EIO 'CUDA_ERROR_UNKNOWN' 'echo s >control/synchronize'
	echo s >control/synchronize
	is "$(<streams/s/state)" idle
}

main "$@"
