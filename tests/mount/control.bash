#!/bin/bash
# Control files: streams of lines in and answers out, by the exact write.
. "${BASH_SOURCE%/*}/lib.bash"

test_a_fresh_read_prints_the_usage()
{
	local verb
	for verb in alloc free fill copy synchronize; do
		[ -n "$(<"control/$verb")" ] || fail "control/$verb says nothing"
	done
	like "$(<control/alloc)" 'NAME SIZE.*kind='
	like "$(<control/free)" 'NAME'
	like "$(<control/fill)" 'NAME .*VALUE'
	like "$(<control/copy)" 'DST.*from=SRC'
	like "$(<control/synchronize)" 'STREAM'
}

test_the_answer_comes_on_the_same_descriptor_again_and_again()
{
	local answer i
	exec 3<>control/alloc
	for i in 1 2 3; do
		echo "x$i ${i}M" >&3
		answer=$(cat <&3)
		like "$answer" "size_bytes $((i * 1048576))"
		is "$(cat <&3)" ''
	done
}

test_a_descriptor_answers_only_its_own_writes()
{
	exec 3<>control/alloc 4<>control/alloc
	echo 'x 1M' >&3
	echo 'y 2M' >&4
	like "$(cat <&3)" 'size_bytes 1048576'
	like "$(cat <&4)" 'size_bytes 2097152'
}

test_a_failure_leaves_its_sentence_to_be_read()
{
	local sentence
	exec 3<>control/alloc
	fails "echo 'x 0' >&3"
	sentence=$(cat <&3)
	[ -n "$sentence" ]
	like "$(tail -n 1 errors)" "EINVAL ${sentence//[^a-zA-Z0-9 ]/.}\$"
	is "$(cat <&3)" ''
	echo 'x 4096' >&3
	like "$(cat <&3)" 'size_bytes 4096'
}

test_a_batch_is_one_write_done_in_order()
{
	cat >control/alloc <<-EOF
		one 4096
		two 8192

		three 100
	EOF
	is "$(ls allocations | xargs)" 'one three two'
	[ "$(<allocations/one/id)" -lt "$(<allocations/two/id)" ]
	[ "$(<allocations/two/id)" -lt "$(<allocations/three/id)" ]
}

test_answers_of_a_batch_have_an_empty_line_between_them()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		os.write(fd, b"one 4096\ntwo 8192\nthree 100\n")
		answers = answer(fd).split("\n\n")
		print(len(answers), [open(f"allocations/{name}/status").read().strip() == text.strip()
		                     for name, text in zip(("one", "two", "three"), answers)])
	EOF
	)" '3 [True, True, True]'
}

test_a_batch_stops_at_the_line_that_fails()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		lines = b"one 4096\ntwo 8192\none 100\nfour 100\n"
		show(os.write, fd, lines)
		show(os.write, fd, lines[18:])
		show(lambda: os.path.isdir("allocations/four"))
		show(os.write, fd, b"five 100\n")
	EOF
	)" $'18\nEEXIST\nFalse\n9'
	is "$(ls allocations | xargs)" 'five one two'
	is "$(<allocations/one/size_bytes)" 4096
	is "$(<allocations/two/size_bytes)" 8192
	like "$(tail -n 1 errors)" 'control/alloc.* EEXIST .*one'
}

test_errors_names_the_line_of_a_batch()
{
	py <<-'EOF'
		show(os.write, control("alloc"), b"one 4096\n\ntwo 8192\nbad! 100\n")
	EOF
	like "$(tail -n 1 errors)" 'line 4|:4'
}

test_cat_of_a_batch_that_fails_in_the_middle_fails_and_does_nothing_twice()
{
	local failures
	failures=$(value_of status failures)
	printf 'one 4096\ntwo 8192\nbad! 1\nfour 1\n' >"$T/batch"
	denied EINVAL 'cat "$T/batch" >control/alloc'
	is "$(ls allocations | xargs)" 'one two'
	is "$(value_of status failures)" $((failures + 1))
}

test_a_first_line_that_fails_is_the_writes_error()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		show(os.write, fd, b"one 0\ntwo 4096\n")
		show(os.write, fd, b"three 4096\n")
	EOF
	)" $'EINVAL\n11'
	is "$(ls allocations)" three
}

test_an_unterminated_line_is_done_at_once()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		show(os.write, fd, b"one 4096")
		show(lambda: os.path.isdir("allocations/one"))
		show(os.write, fd, b"one 4096")
	EOF
	)" $'8\nTrue\nEEXIST'
	refused EEXIST one 'echo -n "one 4096" >control/alloc'
	refused EEXIST one 'printf "one 4096" >control/alloc'
}

test_a_line_cut_by_a_buffer_of_4096_waits_for_the_rest()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		lines = b"one 4096\n" + b"\n" * 4076 + b"two 1638400 mode=640\n"
		show(os.write, fd, lines[:4096])
		show(os.listdir, "allocations")
		show(os.write, fd, lines[4096:])
		show(lambda: open("allocations/two/size_bytes").read())
	EOF
	)" "4096
['one']
10
1638400"
	is "$(stat -c %a allocations/two/data)" 640
}

test_a_line_cut_by_a_buffer_is_done_at_close()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		show(os.write, fd, b"\n" * 4088 + b"one 4096")
		show(os.listdir, "allocations")
		show(os.close, fd)
		show(os.listdir, "allocations")
	EOF
	)" "4096
[]
None
['one']"
}

test_the_error_of_a_line_done_at_close_comes_from_close()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		show(os.write, fd, b"\n" * 4091 + b"one 0")
		show(os.close, fd)
	EOF
	)" $'4096\nEINVAL'
}

test_tools_that_cut_lines_at_their_buffers_work()
{
	seq 600 | sed 's/.*/a& 256/' >control/alloc
	is "$(ls allocations | wc -l)" 600
	seq 600 | awk '{ print "a" $1 }' >control/free
	is "$(ls allocations)" ''
}

test_a_line_of_4096_bytes_is_the_longest()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		line = b"one" + b" " * (4096 - 7) + b"4096"
		show(lambda: len(line))
		show(os.write, fd, line + b"\n")
		line = b"two" + b" " * (4097 - 7) + b"4096"
		show(os.write, fd, line + b"\n")
		show(os.write, fd, b"three 1\n" + line + b"\nfour 1\n")
	EOF
	)" $'4096\n4097\nE2BIG\n8'
	is "$(ls allocations | xargs)" 'one three'
	like "$(tail -n 1 errors)" ' E2BIG .*4096'
}

test_a_long_line_in_pieces_is_e2big()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		show(os.write, fd, b"x" * 4096)
		show(os.write, fd, b"x" * 4096)
		show(os.write, fd, b"one 4096\n")
	EOF
	)" $'4096\nE2BIG\n9'
}

test_an_empty_write_and_blank_lines_do_nothing()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		show(os.write, fd, b"")
		show(os.write, fd, b"\n\n  \n\t\n")
		show(os.listdir, "allocations")
	EOF
	)" $'0\n7\n[]'
}

test_offsets_do_not_matter()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		show(os.pwrite, fd, b"one 4096\n", 100000)
		show(os.lseek, fd, 0, os.SEEK_SET)
		fd = os.open("control/alloc", os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
		show(os.write, fd, b"two 4096\n")
	EOF
	)" $'9\n0\n9'
	echo 'three 4096' >>control/alloc
	is "$(ls allocations | xargs)" 'one three two'
}

test_answers_can_be_read_in_pieces()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		os.write(fd, b"one 4096\n")
		text = b""
		while part := os.read(fd, 3):
		    text += part
		print(text.decode() == open("allocations/one/status").read())
	EOF
	)" True
}

test_a_command_acts_as_whoever_opened_the_file()
{
	needs_root 'another user'
	is "$(py <<-'EOF'
		fd = control("alloc")
		child = os.fork()
		if child == 0:
		    os.setresgid(1001, 1001, 1001)
		    os.setresuid(1001, 1001, 1001)
		    os.write(fd, b"x 4096")
		    os._exit(0)
		os.waitpid(child, 0)
		print(open("allocations/x/owner").read().strip())
	EOF
	)" 0
}

test_errors_name_the_process_that_wrote()
{
	local pid
	pid=$(py <<-'EOF'
		attempt(os.write, control("alloc"), b"x 0")
		print(os.getpid())
	EOF
	)
	like "$(tail -n 1 errors)" " pid=$pid control/alloc EINVAL "
}

test_every_write_of_a_builtin_is_a_line()
{
	{
		echo 'one 4096'
		echo 'two 4096'
	} >control/alloc
	is "$(ls allocations | xargs)" 'one two'
}

test_tee_writes_a_line()
{
	echo 'one 4096' | tee control/alloc >/dev/null
	[ -d allocations/one ]
}

test_lines_may_end_as_dos_ends_them_or_are_refused()
{
	printf 'one 4096\r\n' >control/alloc 2>/dev/null || like "$(tail -n 1 errors)" EINVAL
}

test_many_descriptors_at_once()
{
	is "$(py <<-'EOF'
		fds = [control("alloc") for _ in range(200)]
		for i, fd in enumerate(fds):
		    os.write(fd, b"x%d %d" % (i, i + 1))
		print(all(f"size_bytes {i + 1}\n" in answer(fd) for i, fd in enumerate(fds)))
	EOF
	)" True
}

test_writers_at_once_each_get_their_own_answer()
{
	local i
	for i in 1 2 3 4; do
		py "$i" <<-'EOF' || echo "$i failed" >>"$T/failed" &
			me = int(sys.argv[1])
			alloc, free = control("alloc"), control("free")
			for i in range(100):
			    os.write(alloc, b"w%d %d" % (me, me * 1000 + i))
			    assert f"size_bytes {me * 1000 + i}\n" in answer(alloc)
			    os.write(free, b"w%d" % me)
		EOF
	done
	wait
	[ ! -e "$T/failed" ]
	is "$(ls allocations)" ''
}

test_poll_says_writable()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		poll = select.poll()
		poll.register(fd, select.POLLOUT)
		print(poll.poll(1000)[0][1] & select.POLLOUT != 0)
	EOF
	)" True
}

main "$@"
