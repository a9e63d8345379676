#!/bin/bash
# libgpumem: programs that map allocations (docs/sharing.md).
. "${BASH_SOURCE%/*}/lib.bash"

wild=$(realpath "$here/../../docs/kernels/wild.ptx")

# program FILE ARGUMENT...: a CUDA program of the build, on the broker's driver.
program()
{
	on_driver "$build/$1" "${@:2}"
}

# client [MOUNT] <<EOF: runs tests/client and prints its answer to each line.
client()
{
	program tests/client/client "$@"
}

# client_start: starts a tests/client that stays alive. ask LINE sends lines to this client.
client_start()
{
	coproc CLIENT { client; }
	ask_fd=${CLIENT[1]} answer_fd=${CLIENT[0]} client_pid=$CLIENT_PID
	local said
	read -r -u "$answer_fd" -t 20 said
	is "$said" ok
}

# ask LINE: prints the answer of the client that client_start started.
ask()
{
	local said
	echo "$1" >&"$ask_fd"
	read -r -u "$answer_fd" -t 20 said || fail "no answer to: $1"
	printf '%s\n' "$said"
}

# The commands in the head of the example, as they stand there, on this mount and with
# the program of the build.
test_the_example_of_the_documentation_works()
{
	local docs said
	[ -e "${GPUMEMD%/fuse/*}/docs/examples/saxpy" ] || skip "the CUDA Toolkit's cuda.h is not here"
	docs=$(realpath "$here/../../docs")
	sed -n '/^\/\*$/,/^ \*\/$/s/^ \*\t//p' "$docs/examples/saxpy.c" >"$T/sanitizer/lines"
	like "$(sed -n 2p "$T/sanitizer/lines")" '^cc saxpy.c -o saxpy '
	sed -i "1,2d; s#/mnt/gpu#$M#g; s#^\./saxpy#program docs/examples/saxpy#; s#saxpy\.ptx#$docs/kernels/saxpy.ptx#" \
		"$T/sanitizer/lines"
	said=$(. "$T/sanitizer/lines")
	rm "$T/sanitizer/lines"
	is "$(head -n 1 <<<"$said" | tr -s ' ')" '0000000 3 3'
	eventually '[ -z "$(<leases)" ]'
	# the file has 30 lines
	[ "$(sed -n '/^{$/,/^}$/p' "$docs/examples/saxpy.c" | grep -cv '^[{}]\?$')" -le 30 ]
}

# ticket_socket N: a ticket socket at $T/sanitizer/tickets that ends N connections without
# an answer, as a broker does that dies (or the user has too many), and hands the next on.
ticket_socket()
{
	cat >"$T/sanitizer/tickets.py" <<-'EOF'
		import os, socket, sys
		path, real, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
		listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		listener.bind(path)
		os.chmod(path, 0o666)
		listener.listen()
		for _ in range(n):
		    connection, _ = listener.accept()
		    connection.recv(100)
		    connection.close()
		connection, _ = listener.accept()
		with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as broker:
		    broker.connect(real)
		    broker.send(connection.recv(100))
		    answer, fds, _, _ = socket.recv_fds(broker, 1, 1)
		    socket.send_fds(connection, [answer], fds)
	EOF
	"${AS[@]}" python3 "$T/sanitizer/tickets.py" "$T/sanitizer/tickets" "$(readlink socket)" "$1" &
	eventually '[ -S "$T/sanitizer/tickets" ]'
}

test_a_ticket_is_sent_again_when_the_broker_dies_before_the_answer()
{
	local said
	echo 'x 1M kind=host' >control/alloc
	ticket_socket 3
	said=$(GPUMEM_SOCKET=$T/sanitizer/tickets client <<<'map 0 x')
	rm "$T"/sanitizer/tickets*
	is "$(tail -n 1 <<<"$said")" ok
	ticket_socket 4
	said=$(GPUMEM_SOCKET=$T/sanitizer/tickets client <<<'map 0 x')
	rm "$T"/sanitizer/tickets*
	like "$said" 'ECONNRESET the ticket socket closed without an answer, 4 times: the broker died, or this user has too many connections$'
}

test_names_may_have_folders()
{
	mkdir -p allocations/a/b
	echo 'a/b/x 1M kind=host' >control/alloc
	echo 'a/b/x u8:7' >control/fill
	client_start
	is "$(ask 'map 0 a/b/x')" ok
	like "$(ask 'info 0')" '^ok a/b/x host live'
	mv allocations/a allocations/c
	like "$(ask 'info 0')" '^ok c/b/x host live'
	like "$(ask 'map 1 a/b/x')" '^ENOENT there is no allocation a/b/x'
	local name
	for name in a//x /x a/ ../x a/../x; do
		like "$(ask "map 1 $name")" "^ENOENT '$name' is not the name of an allocation"
	done
}

# With as many folders and bytes as a name may have.
test_the_longest_name_is_mapped()
{
	local folder=allocations name i
	name=$(printf 'x%.0s' {1..64})
	for i in {1..8}; do
		folder+=/$name
		mkdir "$folder"
	done
	folder=${folder#allocations/}
	echo "$folder/$name 1M" >control/alloc
	is "$(client <<<"map 0 $folder/$name" | tail -n 1)" ok
}

test_programs_have_the_same_memory_at_the_same_address()
{
	echo 'x 64M' >control/alloc
	client_start
	is "$(ask context)" ok
	is "$(ask 'map 1 x w')" ok
	like "$(ask 'info 1')" '^ok x device live device=0 same=1 size=67108864 mapped=67108864'
	is "$(ask 'poke 1 67108863 7')" 'ok 7'
	is "$(client <<'EOF'
context
map 1 x
peek 1 67108863
poke 1 0 1
EOF
	)" $'ok\nok\nok\nok 7\ncuda 1'
	is "$(tail -c 1 allocations/x/data | od -A n -t u1 | tr -d ' ')" 7
	is "$(ask 'unmap 1')" ok
	is "$(<leases)" ''
}

test_host_memory_is_mapped_and_can_be_registered()
{
	echo 'h 1M kind=host' >control/alloc
	is "$(client <<'EOF'
map 1 h w
poke 1 5 9
unmap 1
context
map 1 h register
peek 1 5
unmap 1
EOF
	)" $'ok\nok\nok 9\nok\nok\nok\nok 9\nok'
}

test_a_second_map_of_an_allocation_shares_the_first()
{
	local kind
	for kind in device host; do
		echo "x 4096 kind=$kind" >control/alloc
		client_start
		is "$(ask context)" ok
		is "$(ask 'map 1 x w')" ok
		is "$(ask 'map 2 x')" ok
		is "$(ask 'map 3 x w')" ok
		is "$(ask 'poke 1 1 5')" 'ok 5'
		is "$(ask 'unmap 1')" ok
		like "$(ask 'info 2')" "^ok x $kind live device=-?[01] same=1 "
		is "$(ask 'peek 2 1')" 'ok 5'
		is "$(ask 'unmap 3')" ok
		is "$(ask 'peek 2 1')" 'ok 5'
		is "$(wc -l <leases)" 1
		is "$(ask 'unmap 2')" ok
		is "$(<leases)" ''
		is "$(ask 'map 1 x')" ok
		is "$(ask 'unmap 1')" ok
		exec {ask_fd}>&-
		wait "$client_pid"
		rmdir allocations/x
	done
}

test_the_references_of_a_shared_map_count_for_its_last_unmap()
{
	echo 'x 4096' >control/alloc
	is "$(client <<'EOF'
context
map 1 x
map 2 x
ref 1
unmap 1
unmap 2
unref 2
unmap 2
EOF
	)" $'ok\nok\nok\nok\nok\nok\nEBUSY 1 others have references to x\nok\nok'
	is "$(client <<'EOF'
context
map 1 x
map 2 x
unref 1
peek 2 0
unmap 2
map 1 x
EOF
	)" $'ok\nok\nok\nok\nok\nok 0\nok\nok'
}

test_a_map_with_more_access_needs_another_address()
{
	echo 'x 4096' >control/alloc
	echo 'h 4096 kind=host' >control/alloc
	like "$(client <<'EOF'
context
map 1 x
map 2 x w
map 2 x w any
info 2
poke 2 1 5
peek 1 1
map 3 h
map 4 h register
unmap 3
map 4 h register
EOF
	)" $'^ok\nok\nok\nEADDRINUSE x is mapped for reading only in this program: close that map first, or map it with GPUMEM_ANY_ADDRESS \\(in Python any_address=True\\)\nok\nok x device live device=0 same=0 [^\n]*\nok 5\nok 5\nok\nEADDRINUSE h is mapped without GPUMEM_REGISTER [^\n]*\nok\nok$'
}

test_a_map_with_any_address_is_not_shared()
{
	echo 'x 4096' >control/alloc
	like "$(client <<'EOF'
context
map 1 x
map 2 x any
info 2
begin 1
begin 2
EOF
	)" $'^ok\nok\nok\nok\nok x device live device=0 same=0 [^\n]*\nok\nok$'
}

test_maps_that_share_have_one_place_in_the_order()
{
	echo 'x 4096' >control/alloc
	like "$(client <<'EOF'
context
map 1 x w
map 2 x
begin 1
begin 2
unmap 2
end 1
begin 1 w
end 1
EOF
	)" $'^ok\nok\nok\nok\nok\nEBUSY [^\n]*\nok\nok\nok\nok$'
}

test_shared_memory_is_not_suspended()
{
	echo 'x 4096' >control/alloc
	like "$(client <<'EOF'
context
map 1 x w
map 2 x
suspend 1
peek 2 0
unmap 2
suspend 1
map 2 x
resume 1
map 2 x
peek 2 0
EOF
	)" $'^ok\nok\nok\nok\nEBUSY x is mapped 2 times in this program: close the other maps first\nok 0\nok\nok\nEADDRINUSE x is suspended in this program: [^\n]*\nok\nok\nok 0$'
}

test_what_is_published_at_the_name_is_not_the_mapped_one()
{
	local said
	echo 'x 4096' >control/alloc
	echo 'new 4096' >control/alloc
	echo 'new u8:2' >control/fill
	said=$(client <<'EOF'
context
map 1 x
command control/publish new x
map 2 x
peek 1 0
peek 2 0
EOF
	)
	is "$said" $'ok\nok\nok\nok \nok\nok 0\nok 2'
}

test_a_map_says_when_its_allocation_has_been_freed()
{
	echo 'x 4M' >control/alloc
	is "$(client <<'EOF'
context
map 1 x w
poke 1 0 5
command control/free x
info 1
peek 1 0
unmap 1
EOF
	)" $'ok\nok\nok\nok 5\nok \nok x device freed device=0 same=1 size=4194304 mapped=4194304 generation=1\nok 5\nok'
	eventually '[ "$(value_of status freed_leased_bytes)" = 0 ]'
}

test_a_child_after_fork_has_no_leases()
{
	echo 'x 4M' >control/alloc
	like "$(client <<'EOF'
context
map 1 x
fork
info 1
map 2 x
unmap 1
command control/alloc y 1
exit
info 1
EOF
	)" $'^ok\nok\nok\nECHILD x is mapped in the parent only.*\nECHILD .*\nECHILD .*\nECHILD .*\nok x device live'
}

test_a_hold_orders_programs_and_lines()
{
	echo 'x 4096' >control/alloc
	client_start
	is "$(ask context)" ok
	is "$(ask 'map 1 x w')" ok
	is "$(ask 'begin 1 w')" ok
	echo 'x u8:9' >control/fill &
	eventually 'grep -q busy allocations/x/state'
	is "$(ask 'poke 1 0 7')" 'ok 7'
	is "$(ask 'peek 1 0')" 'ok 7'
	is "$(ask 'end 1')" ok
	wait $!
	is "$(ask 'peek 1 0')" 'ok 9'
	like "$(ask 'end 1')" '^EINVAL x was not begun'
}

test_a_hold_waits_for_the_end_of_the_one_before()
{
	echo 'x 4096' >control/alloc
	client_start
	is "$(ask context)" ok
	is "$(ask 'map 1 x w')" ok
	for hold in w r w; do
		is "$(ask "begin 1 $hold")" ok
		is "$(ask 'busy 200')" ok
		is "$(ask 'end 1')" ok
	done
	is "$(ask 'begin 1 w')" ok
	is "$(ask 'busy 1000')" ok
	is "$(ask 'end 1')" ok
	is "$(ask 'alarm 50')" ok
	like "$(ask 'begin 1 w')" '^EINTR '
	is "$(ask 'unmap 1')" ok
}

test_a_hold_can_be_given_up_after_a_fault_of_the_program()
{
	echo 'x 4M' >control/alloc
	client_start
	is "$(ask context)" ok
	is "$(ask 'map 1 x w')" ok
	is "$(ask 'begin 1 w')" ok
	inject 'fail=cuLaunchHostFunc@*=CUDA_ERROR_ILLEGAL_ADDRESS'
	is "$(ask 'end 1')" ok
	echo 'x u8:9' >control/fill
	is "$(ask 'unmap 1')" ok
}

test_a_map_for_reading_can_hold_for_reading()
{
	echo 'x 4096' >control/alloc
	is "$(client <<'EOF'
context
map 1 x
begin 1 w
begin 1
end 1
EOF
	)" $'ok\nok\nok\nEACCES hold w needs a lease that was opened for writing\nok\nok'
}

test_suspended_memory_comes_back_at_the_same_pointer()
{
	echo 'x 4M' >control/alloc
	like "$(client <<'EOF'
context
map 1 x w
poke 1 0 5
suspend 1
info 1
command control/fill x u8:6
resume 1
info 1
peek 1 1
suspend 1
command control/free x
resume 1
command control/alloc x 4M
resume 1
resume 1 follow
peek 1 0
EOF
	)" $'^ok\nok\nok\nok 5\nok\nok x device suspended .*\nok \nok\nok x device live device=0 same=1 .*\nok 6\nok\nok \nESTALE .*\nok id [0-9]+\nESTALE x is another allocation now .*\nok\nok 0$'
}

# Else anybody can make the allocation whose id a program or a script has.
test_memory_is_not_taken_for_that_of_a_later_mount()
{
	needs_root 'two users'
	local id
	broker_start "$T/own" --driver "$(driver own)"
	by 1001 run "echo 'x 2M kind=host mode=600' >'$T/own/mnt/control/alloc'"
	local AS=(setpriv --reuid=1001 --regid=1001 --clear-groups)
	client_start
	AS=()
	is "$(ask "open $T/own/mnt")" ok
	is "$(ask 'map 1 x w')" ok
	is "$(ask 'suspend 1')" ok
	id=$(<"$T/own/mnt/allocations/x/id")
	kill -TERM "$(<"$T/own/pid")"
	broker_ended "$T/own"
	broker_start "$T/own" --driver "$(driver own)"
	by 1002 run "echo 'x 2M kind=host mode=666' >'$T/own/mnt/control/alloc'"
	cd "$T/own/mnt"
	by 1001 refused ESTALE 'x is another allocation now' "echo 'x u8:7 id=$id' >control/fill"
	cd /
	like "$(ask 'resume 1')" '^ESTALE x is another allocation now'
	# What alice writes is not for bob, who has taken the name.
	like "$(ask 'resume 1 follow')" '^ESTALE x belongs to uid 1002 now'
	by 1002 run "echo x >'$T/own/mnt/control/free'"
	by 1001 run "echo 'x 2M kind=host mode=600' >'$T/own/mnt/control/alloc'"
	is "$(ask 'resume 1 follow')" ok
	kill "$client_pid"
	wait "$client_pid" || true
	broker_stop "$T/own"
}

test_a_map_follows_what_is_published_at_its_name()
{
	local said
	echo 'x 4M' >control/alloc
	echo 'x u8:1' >control/fill
	echo 'new 4M' >control/alloc
	echo 'new u8:2' >control/fill
	said=$(client <<'EOF'
context
map 1 x
peek 1 0
command control/publish new x
info 1
peek 1 0
suspend 1
resume 1 follow
info 1
peek 1 0
EOF
	)
	like "$said" $'^ok\nok\nok\nok 1\nok \nok x device replaced .*\nok 1\nok\nok\nok x device live .*\nok 2$'
}

test_a_referenced_map_is_not_unmapped()
{
	echo 'x 4M' >control/alloc
	is "$(client <<'EOF'
context
map 1 x
ref 1
unmap 1
unref 1
unmap 1
EOF
	)" $'ok\nok\nok\nok\nEBUSY 1 others have references to x\nok\nok'
}

test_what_cannot_be_mapped_says_why()
{
	local kind
	echo 'x 4096' >control/alloc
	for kind in managed direct async; do
		echo "$kind 4096 kind=$kind" >control/alloc
		like "$(client <<<"map 1 $kind")" "EOPNOTSUPP kind=$kind can't be leased"
	done
	like "$(client <<<'map 1 nosuch')" 'ENOENT there is no allocation nosuch$'
	like "$(client <<<'map 1 ../x')" "ENOENT '../x' is not the name"
	like "$(client /nowhere </dev/null)" '^ENOENT /nowhere is not a mount of gpumemd'
	like "$(client "$M/status" </dev/null)" '^ENOENT .*/status is not a mount of gpumemd'
	like "$(client <<<'command control/fill x nonsense')" 'EINVAL .*nonsense'
	like "$(client <<<'command control/nosuch x')" 'ENOENT'
}

test_a_failure_never_has_the_sentence_of_an_earlier_one()
{
	like "$(client <<'EOF'
command control/synchronize other
command control/nosuch x
map 1 nosuch
command streams/nosuch/synchronize 1
EOF
	)" $'ENOENT there is no stream other\nENOENT .*control/nosuch: No such file.*\nENOENT there is no allocation nosuch\nENOENT .*streams/nosuch/synchronize: No such file'
}

# opens UID [MOUNT]: prints the result of gpumem_open(NULL) for that user, without MOUNT.
opens()
{
	alone bash -c '[ -z "$1" ] || umount -l "$1"; exec "${@:2}"' - "${2-}" env "ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0" "LD_LIBRARY_PATH=$build/tools/softgpu" \
		setpriv "--reuid=$1" "--regid=$1" --clear-groups "$build/tests/client/client" </dev/null
}

test_mounts_that_a_user_may_not_enter_do_not_count()
{
	needs_root 'several users'
	mkdir "$T/run"
	chown 1 "$T/run"
	XDG_RUNTIME_DIR=$T/run by 1 broker_start "$T/own" --driver "$(driver own)"
	is "$(opens 4002)" ok
	is "$(opens 0)" ok
	like "$(opens 1)" '^ENOTUNIQ 2 brokers are mounted here: set GPUMEM_MOUNT to one of /[^,]+, /[^,]+$'
	broker_stop "$T/own"
}

test_a_mount_that_a_user_may_not_enter_is_said_to_be_there()
{
	needs_root 'several users'
	broker_start "$T/own" --driver "$(driver own)"
	chmod 700 "$T/own"
	is "$(opens 4003 "$M")" 'EACCES no broker is mounted here for this user: Permission denied'
	broker_stop "$T/own"
}

# Of others neither names nor answers are taken. The second mount never answers.
test_mounts_of_other_users_do_not_count()
{
	needs_root 'several users'
	pretend liar 4003 version 9 socket here
	pretend silent 4004
	is "$(opens 4002)" ok
	is "$(opens 0)" ok
	umount -l "$T/silent/mnt"
	like "$(opens 4003)" '^ENOTUNIQ 2 brokers'
	umount -l "$T/liar/mnt"
	is "$(opens 4003)" ok
}

test_a_mount_of_another_user_alone_is_none()
{
	needs_root 'several users'
	pretend liar 4003 version 9 socket here
	is "$(opens 4002 "$M")" \
		"ENOENT no broker of root's or of your own is mounted here: start gpumemd"
	is "$(opens 4003 "$M")" ok
}

# The mounter chooses the length of a line, and 4096 bytes may end before the number.
test_a_mount_of_another_user_with_a_long_line_does_not_count()
{
	needs_root 'several users'
	local before=" $T/liar/mnt fuse.gpumemd rw,relatime,user_id="
	SOURCE=$(printf "%$((4095 - ${#before}))s" | tr ' ' x) pretend liar 4003 version 9 socket here
	is "$(opens 4002 "$M")" \
		"ENOENT no broker of root's or of your own is mounted here: start gpumemd"
	is "$(opens 4003 "$M")" ok
}

test_a_dead_mount_does_not_count()
{
	needs_root 'a namespace of mounts'
	mkdir "$T/dead"
	broker_start "$T/dead" --driver "$(driver dead)"
	ls "$T/dead/mnt" >/dev/null
	like "$(opens 0)" '^ENOTUNIQ 2 brokers'
	kill -KILL "$(<"$T/dead/pid")"
	eventually "[ -s '$T/dead/status' ]"
	is "$(opens 0)" ok
	like "$(client "$T/dead/mnt" </dev/null)" '^ENOTCONN the gpumemd of .*/dead/mnt has ended'
	unmount "$T/dead/mnt"
}

test_a_hidden_device_is_said_so()
{
	needs_software 'hide a device without a toolkit'
	echo 'x 4096 device=1' >control/alloc
	hidden=$(driver)
	hidden=${hidden#*:}
	like "$(hidden=${hidden/devices=2/devices=1} client <<<'map 1 x')" \
		'ENODEV its device GPU-[0-9a-f-]+ is not among the 1 that this program sees'
}

test_a_fault_of_one_program_does_not_hurt_another()
{
	echo 'x 64M' >control/alloc
	client_start
	is "$(ask context)" ok
	is "$(ask 'map 1 x w')" ok
	is "$(ask 'poke 1 5 7')" 'ok 7'
	is "$(client <<EOF
context
map 1 x w
poke 1 6 8
fault $wild
peek 1 6
EOF
	)" $'ok\nok\nok\nok 8\ncuda 700\ncuda 700'
	is "$(ask 'peek 1 5')" 'ok 7'
	is "$(ask 'peek 1 6')" 'ok 8'
	is "$(ask 'poke 1 67108863 9')" 'ok 9'
	is "$(tail -c 1 allocations/x/data | od -A n -t u1 | tr -d ' ')" 9
	# the client with the fault has dropped its leases and takes them again
	eventually '[ "$(wc -l <leases)" = 1 ]'
	is "$(client <<'EOF'
context
map 1 x
peek 1 6
EOF
	)" $'ok\nok\nok\nok 8'
}

test_a_fault_of_a_worker_does_not_hurt_a_lease()
{
	echo 'x 4M' >control/alloc
	mkdir modules/w
	cat "$wild" >modules/w/image
	client_start
	is "$(ask context)" ok
	is "$(ask 'map 1 x w')" ok
	is "$(ask 'poke 1 5 7')" 'ok 7'
	refused EFAULT ILLEGAL_ADDRESS 'echo "w wild grid=1 block=1" >control/launch'
	is "$(ask 'peek 1 5')" 'ok 7'
	undying
	kill -KILL "$(value_of status mover)"
	dying
	is "$(ask 'poke 1 6 8')" 'ok 8'
	is "$(od -A n -t u1 -j 5 -N 2 allocations/x/data | tr -s ' ')" ' 7 8'
	echo 1 >owners/$UID/reset
	like "$(ask 'info 1')" '^ok x device live .* generation=1$'
	is "$(ask 'peek 1 6')" 'ok 8'
	is "$(ask 'unmap 1')" ok
}

test_a_program_without_a_context_maps_too()
{
	echo 'x 4M' >control/alloc
	like "$(client <<'EOF'
map 1 x w
info 1
suspend 1
resume 1
unmap 1
EOF
	)" $'^ok\nok\nok x device live device=0 same=1 [^\n]*\nok\nok\nok$'
}

test_threads_map_side_by_side()
{
	echo 'x 4M' >control/alloc
	is "$(client <<'EOF'
context
threads 8 x w any
threads 8 x w
EOF
	)" $'ok\nok\nok\nok'
	eventually '[ -z "$(<leases)" ]'
	is "$(od -A n -t u1 -N 8 allocations/x/data | tr -s ' ')" ' 0 1 2 3 4 5 6 7'
}

test_a_signal_ends_the_wait_of_a_program()
{
	needs_software 'be slow'
	echo 'x 8M' >control/alloc
	slow 20s
	echo 'x u8:7 wait=0' >control/fill
	like "$(client <<'EOF'
alarm 200
map 1 x
EOF
	)" $'^ok\nok\nEINTR '
	inject
	eventually '[ -z "$(<leases)" ]'
}

test_another_version_of_leases_is_said_so()
{
	local version
	mkdir -p "$T/fake/allocations/x"
	ln -s "$T/nowhere" "$T/fake/socket"
	for version in $'version 3\n' ''; do
		printf '%slease 1\nticket 1:0\nsocket %s\n' "$version" "$T/nowhere" >"$T/fake/allocations/x/lease"
		like "$(client "$T/fake" <<<'map 1 x')" \
			"EPROTO the broker's leases are of version [03], this library knows those up to 2"
	done
	# whose mount it is may be unknown, and the sentence goes to a terminal
	printf 'version 1\nlease 1\nticket 1:0\nsocket /no\e[31mwhere\n' >"$T/fake/allocations/x/lease"
	like "$(client "$T/fake" <<<'map 1 x')" "ENOENT the broker's ticket socket /no.x1b.31mwhere: No such file"
	# unknown flags of the client's own version are ignored
	printf 'version 1\nnews of some kind\nlease 1\nticket 1:0\nsocket %s\n' "$T/nowhere" \
		>"$T/fake/allocations/x/lease"
	like "$(client "$T/fake" <<<'map 1 x')" "ENOENT the broker's ticket socket $T/nowhere: No such file"
}

# lie BYTE N: makes the folder $T/fake, which looks like a mount. Its ticket socket answers
# each ticket with BYTE and N descriptors of 64 KiB of memory.
lie()
{
	cat >"$T/sanitizer/lie.py" <<-'EOF'
		import os, socket, sys
		path, byte, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		memory = os.memfd_create("memory")
		os.ftruncate(memory, 65536)
		listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		listener.bind(path)
		listener.listen()
		while True:
		    connection, _ = listener.accept()
		    connection.recv(100)
		    socket.send_fds(connection, [bytes([byte])], [memory] * n)
		    connection.close()
	EOF
	mkdir -p "$T/fake/allocations/x"
	ln -sf "$T/fake/tickets" "$T/fake/socket"
	rm -f "$T/fake/tickets"
	"${AS[@]}" python3 "$T/sanitizer/lie.py" "$T/fake/tickets" "$@" &
	eventually '[ -S "$T/fake/tickets" ]'
	rm "$T/sanitizer/lie.py"
	lie_of_lease
}

# lie_of_lease [LINE]...: the text of a lease of host memory; a LINE replaces the same key's.
lie_of_lease()
{
	printf '%s\n' 'version 2' 'lease 1' 'state live' 'ticket 1:0' "socket $T/fake/tickets" 'name x' \
		'id 1' 'generation 1' 'kind host' 'address 0x10000000' 'size_bytes 4096' \
		'mapped_address 0x10000000' 'mapped_bytes 65536' "$@" >"$T/fake/allocations/x/lease"
}

# Pointer and size would be outside of what is mapped.
test_a_lease_that_does_not_fit_is_refused()
{
	local wrong
	lie 0 1
	client_start
	is "$(ask close)$(ask "open $T/fake")" okok
	for wrong in 'size_bytes 65537' 'size_bytes 0xffffffffffffffff' 'address 0xfffffff' 'address 0x1000f001' \
		'address 0x10010000' 'address 0xffffffffffffffff' 'mapped_bytes 4095' 'mapped_address 0x10000001'; do
		lie_of_lease "$wrong"
		like "$wrong: $(ask 'map 1 x any')" ": EPROTO the lease of x does not fit into its mapping"
	done
	lie_of_lease 'kind device' 'range_address 0x20000000' 'range_bytes 65536'
	like "$(ask 'map 1 x any')" '^EPROTO the lease of x does not fit into its mapping'
	lie_of_lease 'mapped_bytes 65537'
	like "$(ask 'map 1 x any')" '^EPROTO x: the broker sent 65536 bytes of memory for a mapping of 65537$'
	lie_of_lease 'address 0x1000f000'
	is "$(ask 'map 1 x w any')" ok
	is "$(ask 'poke 1 4095 7')" 'ok 7'
	lie_of_lease 'address 0x1000f000' 'size_bytes 4097'
	is "$(ask 'suspend 1')" ok
	like "$(ask 'resume 1')" '^EPROTO the lease of x does not fit into its mapping'
}

test_descriptors_that_are_not_wanted_are_closed()
{
	local before answer
	client_start
	before=$(ask descriptors)
	for answer in '0 2' '5 1' '5 2'; do
		lie $answer
		is "$(ask close)$(ask "open $T/fake")" okok
		case $answer in
		0*) is "$(ask 'map 1 x w any')$(ask 'unmap 1')" okok ;;
		*) like "$(ask 'map 1 x w any')" '^EIO the broker refused the ticket' ;;
		esac
		is "$(ask descriptors)" "$before"
		kill $!
	done
}

test_a_map_outlives_its_mount()
{
	needs_software 'start another broker'
	local second M=$T/second/mnt hidden
	broker_start "$T/second" --driver "$(driver second)"
	hidden=$(driver second)
	hidden=${hidden#*:}
	echo 'x 4M' >"$M/control/alloc"
	echo 'y 4M' >"$M/control/alloc"
	client_start
	is "$(ask context)" ok
	is "$(ask 'map 1 x w')" ok
	is "$(ask 'poke 1 5 7')" 'ok 7'
	kill -TERM "$(<"$T/second/pid")"
	broker_ended "$T/second"
	is "$(ask 'peek 1 5')" 'ok 7'
	like "$(ask 'info 1')" '^ok x device ending device=0 same=1 '
	like "$(ask 'begin 1 w')" '^ENOTCONN '
	like "$(ask 'map 2 y')" '^(ENOTCONN|ENOENT) '
	is "$(ask 'unmap 1')" ok
}

test_a_program_of_a_reader_cannot_map_for_writing()
{
	needs_root 'several users'
	AS=() # (of a broker of root's)
	echo 'x 4096 mode=644 map=readers' >control/alloc
	echo hello 1<>allocations/x/data
	like "$(by 1002 client <<'EOF'
context
map 1 x w
map 1 x
peek 1 0
begin 1 w
poke 1 0 1
EOF
	)" $'^ok\nok\nEACCES [^\n]*\nok\nok 104\nEACCES [^\n]*\ncuda [0-9]+$'
	is "$(head -c 5 allocations/x/data)" hello
}

test_torch_gets_memory_by_the_names_of_its_functions()
{
	client_start
	is "$(ask context)" ok
	is "$(ask 'malloc 1 20971520 0')" ok
	local client_pid
	client_pid=$(awk '{ print $2 }' leases)
	is "$(ask 'malloc 2 2097152 0')" ok
	is "$(ls allocations)" "torch-$client_pid.0"$'\n'"torch-$client_pid.1"
	is "$(<"allocations/torch-$client_pid.0/size_bytes")" 20971520
	is "$(ask 'peek 1 20971519')" 'ok 0'
	is "$(ask 'poke 1 20971519 7')" 'ok 7'
	is "$(tail -c 1 "allocations/torch-$client_pid.0/data" | od -A n -t u1 | tr -d ' ')" 7
	is "$(ask 'free 1')" ok
	is "$(ls allocations)" "torch-$client_pid.1"
	is "$(ask 'malloc 1 4096 0')" ok
	is "$(ls allocations)" "torch-$client_pid.1"$'\n'"torch-$client_pid.2"
	kill -KILL "$client_pid"
	eventually '[ -z "$(ls allocations)" ] && [ "$(value_of status freed_leased_bytes)" = 0 ]'
}

test_segments_of_torch_have_the_name_that_is_asked_for()
{
	echo 'kv.1 4096' >control/alloc
	export GPUMEM_TORCH_NAME=kv
	client_start
	is "$(ask context)" ok
	is "$(ask 'malloc 1 4096 0')" ok
	is "$(ask 'malloc 2 4096 0')" ok
	is "$(ls allocations)" $'kv.0\nkv.1\nkv.2'
	# whoever else freed or renamed them
	mv allocations/kv.0 allocations/other
	rmdir allocations/kv.2
	is "$(ask 'free 1')" ok
	is "$(ask 'free 2')" ok
	is "$(ls allocations)" kv.1
	is "$(<leases)" ''
	like "$(ask 'malloc 1 4096 7')" '^null this program has no such device: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE'
	like "$(ask 'malloc 1 1000000000000000 0')" '^null .*1000000000000000 bytes'
}

# They would be waited for, one after the other.
test_segments_of_torch_pass_over_names_that_others_took()
{
	printf 'kv.%d 1\n' {0..99} >control/alloc
	export GPUMEM_TORCH_NAME=kv
	client_start
	is "$(ask context)" ok
	is "$(ask 'malloc 1 4096 0')" ok
	is "$(ask 'malloc 2 4096 0')" ok
	local -a numbers
	mapfile -t numbers < <(ls allocations | sed 's/^kv\.//' | sort -n | tail -n 2)
	((numbers[0] > 100))
	is "${numbers[1]}" $((numbers[0] + 1))
}

test_segments_of_torch_are_counted_by_name()
{
	client_start
	is "$(ask context)" ok
	is "$(ask 'torch_name a')" ok
	is "$(ask 'malloc 1 4096 0')" ok
	is "$(ask 'torch_name b')" ok
	is "$(ask 'malloc 2 4096 0')" ok
	is "$(ls allocations)" $'a.0\nb.0'
	is "$(ask 'torch_name a')" ok
	is "$(ask 'malloc 3 4096 0')" ok
	is "$(ls allocations)" $'a.0\na.1\nb.0'
}

test_torch_gets_memory_of_the_device_that_it_names()
{
	needs_software 'have two devices'
	client_start
	is "$(ask context)" ok
	is "$(ask 'malloc 1 4096 1')" ok
	is "$(cat allocations/torch-*.0/device)" 1
	is "$(ask 'poke 1 0 7')" 'ok 7'
	is "$(ask 'free 1')" ok
}

test_an_answer_need_not_be_wanted()
{
	is "$(client <<'EOF'
line control/alloc x 4K
EOF
	)" $'ok\nok '
	is "$(ls allocations)" x
}

test_memory_of_the_session_ends_with_it()
{
	like "$(client <<'EOF'
command control/alloc x 4K until=close
command control/alloc y 4K
EOF
	)" $'^ok\nok id [0-9]+\nok id [0-9]+$'
	eventually '[ "$(ls allocations)" = y ]'
}

test_a_child_after_fork_does_not_keep_memory_of_the_session()
{
	local child_reads
	client_start
	exec {child_reads}>&"$ask_fd" # bash closes the coprocess's own at its end
	like "$(ask 'command control/alloc x 4K until=close')" '^ok id '
	echo fork >&"$ask_fd"
	like "$(ask 'command control/alloc y 4K')" '^ECHILD '
	pkill -KILL -P "$client_pid"
	eventually '[ -z "$(ls allocations)" ]'
	exec {child_reads}>&-
}

test_an_empty_path_is_none()
{
	like "$(M=/ client '' <<<exit)" '^ENOENT / is not a mount of gpumemd'
}

test_memory_of_the_session_ends_with_its_close()
{
	client_start
	like "$(ask 'command control/alloc x 4K until=close')" '^ok id '
	is "$(ls allocations)" x
	is "$(ask close)" ok
	eventually '[ -z "$(ls allocations)" ]'
	exec {ask_fd}>&-
	wait "$client_pid"
}

test_a_session_goes_on_with_a_broker_that_was_started_again()
{
	local M=$T/again/mnt
	broker_start "$T/again" --driver "$(driver again)"
	client_start
	like "$(ask 'command control/alloc x 4K until=close')" '^ok id '
	broker_kill "$T/again"
	eventually '[ -z "$(processes_of "$T/again")" ]'
	broker_start "$T/again" --driver "$(driver again)"
	like "$(ask 'command control/alloc y 4K until=close')" '^ok id '
	is "$(ls "$M/allocations")" y
	exec {ask_fd}>&-
	wait "$client_pid"
	broker_stop "$T/again"
}

# killed_at PROCESS ROUND: kills the process and its children after ROUND times 4 ms.
killed_at()
{
	read -r -t "$(printf '0.%03d' $(($2 * 4)))" <><(:) || :
	pkill -KILL -P "$1" || :
	kill -KILL "$1" 2>/dev/null || :
	wait "$1" 2>/dev/null || :
}

test_a_program_killed_at_any_moment_leaks_nothing()
{
	local round
	echo 'x 4M' >control/alloc
	for round in $(seq 0 "${GPUMEM_KILLS-50}"); do
		printf '%s\n' context 'map 1 x w' 'begin 1 w' "poke 1 $round 7" 'end 1' 'unmap 1' 'map 1 x' |
			client >/dev/null 2>&1 &
		killed_at $! "$round"
	done
	eventually '[ -z "$(<leases)" ]'
	is "$(client <<'EOF'
context
map 1 x w
begin 1 w
poke 1 100 5
end 1
unmap 1
EOF
	)" $'ok\nok\nok\nok\nok 5\nok\nok'
	is "$(od -A n -t u1 -j 100 -N 1 allocations/x/data | tr -d ' ')" 5
	rmdir allocations/x
	eventually '[ "$(value_of status freed_leased_bytes)" = 0 ]'
}

main "$@"
