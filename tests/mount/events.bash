#!/bin/bash
# events, events_pipe and errors: every event once, in order and without delay.
. "${BASH_SOURCE%/*}/lib.bash"

test_a_change_is_a_line()
{
	echo 'seen 4096' >control/alloc
	echo seen >control/free
	like "$(newest_event 2)" \
		'^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z [0-9]+ [a-z_]+ ([a-z]+/)?seen( [a-z_]+=[^ ]+)*$'
	like "$(newest_event)" ' [0-9]+ [a-z_]+ ([a-z]+/)?seen'
}

test_sequence_numbers_go_up_by_one()
{
	local i
	for i in 1 2 3 4 5; do
		echo "x$i 256" >control/alloc
	done
	awk 'NR > 1 && $2 != last + 1 { bad = 1 } { last = $2 } END { exit bad }' events
}

test_events_keeps_the_last_1024()
{
	local kept first
	py <<-'EOF'
		alloc, free = control("alloc"), control("free")
		for i in range(700):
		    os.write(alloc, b"x 256")
		    os.write(free, b"x")
	EOF
	kept=$(<events) # a worker that starts meanwhile is an event, too
	is "$(wc -l <<<"$kept")" 1024
	first=$(head -n 1 <<<"$kept" | cut -d ' ' -f 2)
	is "$(tail -n 1 <<<"$kept" | cut -d ' ' -f 2)" $((first + 1023))
}

# by_me: the last event names this user, and this shell or a program that it started.
by_me()
{
	local line
	line=$(newest_event)
	like "$line" "$1.* uid=$UID pid=[1-9][0-9]*\$"
	if [ "${2-}" = shell ]; then
		like "$line" " pid=$$\$"
	fi
}

test_events_say_who_did_it_and_in_which_process()
{
	echo 'x 4096' >control/alloc
	by_me ' alloc allocations/x ' shell
	chmod 640 allocations/x
	by_me ' change allocations/x mode=0640'
	echo readers >allocations/x/map
	by_me ' change allocations/x map=readers' shell
	mv allocations/x allocations/y
	by_me ' rename allocations/y from=x'
	echo 1 >allocations/y/sealed
	by_me ' seal allocations/y' shell
	echo y >control/free
	by_me ' free allocations/y ' shell
	mkdir streams/s
	by_me ' create streams/s'
	rmdir streams/s
	by_me ' remove streams/s'
	mkdir modules/m
	by_me ' create modules/m'
	cp "$here/../../docs/kernels/saxpy.ptx" modules/m/image
	by_me ' load modules/m '
	refused ENOEXEC 'neither a cubin' 'cp README modules/m/image'
	by_me ' failed modules/m '
	chmod 644 modules/m
	by_me ' change modules/m '
	rmdir modules/m
	by_me ' remove modules/m'
}

test_roots_errors_say_whose_they_are()
{
	needs_root 'several users'
	by 1001 refused ENOENT 'no allocation' 'echo nothing >control/free'
	like "$(tail -n 1 errors)" '^[^ ]*Z uid=1001 pid=[0-9]+ control/free ENOENT there is no allocation nothing$'
	like "$(by 1001 run 'tail -n 1 errors')" '^[^ ]*Z pid=[0-9]+ control/free ENOENT there is no allocation nothing$'
}

test_renames_and_modes_are_changes()
{
	echo 'before 4096' >control/alloc
	mv allocations/before allocations/after
	like "$(newest_event)" 'before.*after|after.*before'
	chmod 640 allocations/after
	like "$(tail -n 2 events)" 'after'
}

test_streams_are_in_events()
{
	mkdir streams/quick
	like "$(newest_event)" 'quick'
	rmdir streams/quick
	like "$(newest_event)" 'quick'
}

test_events_pipe_gives_each_change_as_it_comes()
{
	local line
	exec 3<events_pipe
	echo 'piped 4096' >control/alloc
	read -r -t 10 line <&3
	like "$line" 'piped'
	is "$line" "$(newest_event)"
	echo piped >control/free
	read -r -t 10 line <&3
	is "$line" "$(newest_event)"
}

test_events_pipe_blocks_until_there_is_something()
{
	local reader
	head -n 1 events_pipe >"$T/line" &
	reader=$!
	# an open descriptor counts as a reader
	eventually "ls -l /proc/$reader/fd | grep -q events_pipe"
	kill -0 $reader
	echo 'awaited 4096' >control/alloc
	wait $reader
	like "$(<"$T/line")" awaited
}

test_events_pipe_works_with_poll()
{
	is "$(py <<-'EOF'
		fd = os.open("events_pipe", os.O_RDONLY | os.O_NONBLOCK)
		poll = select.poll()
		poll.register(fd, select.POLLIN)
		print(poll.poll(0))
		show(os.read, fd, 4096)
		os.write(control("alloc"), b"polled 4096")
		print(poll.poll(10000) == [(fd, select.POLLIN)])
		print("polled" in os.read(fd, 4096).decode())
		print(poll.poll(0))
	EOF
	)" $'[]\nEAGAIN\nTrue\nTrue\n[]'
}

test_poll_wakes_when_a_change_comes()
{
	is "$(py <<-'EOF'
		fd = os.open("events_pipe", os.O_RDONLY)
		child = os.fork()
		if child == 0:
		    poll = select.poll()
		    poll.register(fd, select.POLLIN)
		    os._exit(0 if poll.poll(20000) else 1)
		while open(f"/proc/{child}/stat").read().split()[2] != "S":
		    pass
		os.write(control("alloc"), b"woken 4096")
		print(os.waitpid(child, 0)[1])
	EOF
	)" 0
}

test_events_pipe_says_what_was_lost()
{
	is "$(py <<-'EOF'
		fd = os.open("events_pipe", os.O_RDONLY)
		alloc, free = control("alloc"), control("free")
		for i in range(1500):
		    os.write(alloc, b"x 256")
		    os.write(free, b"x")
		text = b""
		while text.count(b"\n") < 1025:
		    text += os.read(fd, 65536)
		lines = text.decode().splitlines()
		lost = [int(line.split()[1]) for line in lines if line.startswith("lost ")]
		print(len(lost), sum(lost) + len(lines) - len(lost))
	EOF
	)" '1 3000'
}

test_two_readers_of_events_pipe_each_get_everything()
{
	local line other
	exec 3<events_pipe 4<events_pipe
	echo 'both 4096' >control/alloc
	read -r -t 10 line <&3
	read -r -t 10 other <&4
	is "$line" "$other"
}

test_a_blocked_reader_of_events_pipe_can_be_killed()
{
	local reader
	cat events_pipe >/dev/null &
	reader=$!
	eventually "ls -l /proc/$reader/fd | grep -q events_pipe"
	kill -TERM $reader
	wait $reader || [ $? = 143 ]
}

test_errors_keeps_the_last_64()
{
	py <<-'EOF'
		fd = control("alloc")
		for i in range(100):
		    attempt(os.write, fd, b"bad%d 0" % i)
	EOF
	is "$(grep -cv " uid=1001 " errors)" 64
	like "$(grep -v ' uid=1001 ' errors | head -n 1)" 'bad36'
	like "$(tail -n 1 errors)" 'bad99'
}

test_errors_says_what_the_kernel_did_not()
{
	refused EEXIST . 'echo "x 4096" >control/alloc; echo "x 1T" >control/alloc'
	like "$(tail -n 1 errors)" 'control/alloc EEXIST .*x.*4 KiB'
}

main "$@"
