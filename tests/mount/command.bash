#!/bin/bash
# The command gpumem: lists, verbs, files into the GPU and back.
. "${BASH_SOURCE%/*}/lib.bash"

export GPUMEM_MOUNT=${M-}
unset COLUMNS

gpumem()
{
	"${AS[@]}" "$(dirname "$(dirname "$GPUMEMD")")/tools/gpumem/gpumem" "$@"
}
gpumem_path=$(dirname "$(dirname "$GPUMEMD")")/tools/gpumem/gpumem

# ends STATUS REGEX ARG...: `gpumem ARG...` exits with STATUS, prints nothing on stdout and
# a sentence that matches REGEX on stderr.
ends()
{
	local said status=0
	said=$(gpumem "${@:3}" 2>&1 >"$T/out") || status=$?
	[ "$status" = "$1" ] || fail "line ${BASH_LINENO[0]}: status $status, not $1: $said"
	[ ! -s "$T/out" ] || fail "line ${BASH_LINENO[0]}: on stdout: $(<"$T/out")"
	[[ $said =~ $2 ]] || fail "line ${BASH_LINENO[0]}: expected like: $2" "got: $said"
}

# on_terminal ARG...: prints the output for a terminal of 80 columns, without colours.
on_terminal()
{
	local words
	printf -v words ' %q' "$@"
	script -qec "stty cols ${columns:-80}; $gpumem_path$words" /dev/null </dev/null |
		sed 's/\x1b\[[0-9;]*[a-zA-Z]//g; s/\r$//'
}

# A folder for files; cases run in the mount.
files()
{
	rm -rf "$T/files"
	mkdir "$T/files"
	cd "$T/files"
}

# ---- ls ----

test_a_pipe_gets_bytes_between_tabs()
{
	gpumem alloc x 4M tag=v3 >/dev/null
	gpumem alloc h 1M kind=host >/dev/null
	is "$(gpumem | grep -P '^x\t')" "$(printf 'x\t%s\t0\tdevice\t4194304\tnever\t\tlive\tv3' \
		"$(<owners/$UID/name)")"
	is "$(gpumem ls | cut -f 1 | tail -n 2 | tr '\n' ' ')" 'x h '
	is "$(gpumem ls | head -n 1 | cut -f 1,2,3)" $'GPU\tNAME\tUSED'
	like "$(gpumem ls)" $'\n'"$(<owners/$UID/name)"$'\t4194304(\t0)*\t1048576\t5242880\t2\n'
}

test_a_terminal_gets_sizes_for_people_in_its_width()
{
	local shown
	gpumem alloc x 1536K >/dev/null
	gpumem alloc a_name_that_is_much_too_long_for_any_terminal_of_eighty_columns 1M \
		tag=a_tag_that_is_much_too_long_for_it_too >/dev/null
	shown=$(on_terminal ls)
	like "$shown" $'\nx +[a-z0-9]+ +0 device 1.5 MiB never'
	like "$shown" '\[[#-]{20}\] +[0-9]+%'
	gpumem alloc odd 1048577 >/dev/null
	like "$(on_terminal ls)" $'\nodd +[a-z0-9]+ +0 device 1.0 MiB never'
	is "$(awk 'length($0) > 80' <<<"$shown")" ''
	columns=200
	like "$(on_terminal ls)" 'of_eighty_columns .* a_tag_that_is_much_too_long_for_it_too'
}

test_many_gpus_fit_a_terminal()
{
	needs_software 'have eight GPUs'
	local shown
	mkdir "$T/many"
	broker_start "$T/many" --driver "${GPUMEM_DRIVER:-software}:devices=8:memory=512M:machine=many-${T##*.}"
	local -x GPUMEM_MOUNT=$T/many/mnt
	unlike "$(on_terminal ls)" 'USER|OWNER'
	gpumem alloc a 100M device=1 >/dev/null
	gpumem alloc b 101M device=7 >/dev/null
	gpumem alloc c 1M kind=host >/dev/null
	shown=$(on_terminal ls)
	is "$(awk 'length($0) > 80' <<<"$shown")" ''
	like "$shown" $'\n[a-z0-9]+ +host +1 MiB\n[a-z0-9]+ +1 100 MiB\n[a-z0-9]+ +7 101 MiB\n'
	broker_stop "$T/many"
}

test_json_is_one_object_with_numbers()
{
	gpumem alloc x 4M tag=v3 >/dev/null
	gpumem alloc h 4K kind=host >/dev/null
	exec 5<>allocations/x/lease
	gpumem ls --json | python3 -c '
import json, os, sys
shown = json.load(sys.stdin)
gpus = shown["gpus"]
assert [gpu["gpu"] for gpu in gpus] == list(range(int(sys.argv[2]))), gpus
assert gpus[0]["used"] >= 4 << 20, gpus
(user,) = shown["users"]
assert (user["gpu0"], user["host"]) == (4 << 20, 4096), user
x, h = shown["allocations"]
assert (x["name"], x["gpu"], x["size"], x["tag"]) == ("x", 0, 4 << 20, "v3"), x
assert x["holders"] == f"bash({sys.argv[1]})" and x["written"] == "leased", x
assert (h["name"], h["gpu"], h["kind"], h["holders"]) == ("h", None, "host", None), h
' $$ "$(ls devices | wc -l)"
	is "$(gpumem ls --json | python3 -m json.tool | grep -c '"name": "x"')" 1
}

# A program may have any name, or none.
test_holders_without_a_name_are_shown_as_such()
{
	local pid=$BASHPID
	gpumem alloc x 4K >/dev/null
	gpumem alloc y 4K >/dev/null
	printf '\0' >/proc/$pid/comm
	exec 5<>allocations/x/lease
	printf ' a  b' >/proc/$pid/comm
	exec 6<>allocations/y/lease
	gpumem alloc z 4K >/dev/null
	printf 'c(1) root' >/proc/$pid/comm
	exec 7<>allocations/z/lease
	is "$(gpumem ls --json | python3 -c 'import json, sys
for row in json.load(sys.stdin)["allocations"]: print(row["name"], row["holders"])' | sort)" \
		"x ?($pid)"$'\n'"y  a  b($pid)"$'\n'"z c_1_ root($pid)"
}

test_json_without_allocations_is_still_json()
{
	is "$(gpumem ls --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["allocations"])')" '[]'
}

names_of()
{
	gpumem ls "$@" | sed '1,/^NAME\tOWNER/d' | cut -f 1 | tr '\n' ' '
}

test_lists_are_sorted_and_chosen()
{
	needs_devices 2
	gpumem alloc b 1M >/dev/null
	gpumem alloc a 2M >/dev/null
	gpumem alloc c 4M device=1 >/dev/null
	gpumem alloc d 3M kind=host >/dev/null
	gpumem fill b u8:1 >/dev/null
	is "$(names_of)" 'c d a b '
	is "$(names_of --sort name)" 'a b c d '
	is "$(names_of --sort gpu)" 'd a b c '
	is "$(names_of --sort kind)" 'c a b d '
	is "$(names_of -g 1)" 'c '
	is "$(names_of -u "$UID")" 'c d a b '
	is "$(names_of -u 4242)" ''
	is "$(gpumem -g 1 --sort name | head -n 2 | tail -n 1 | cut -f 1)" 1
	ends 2 "there is no GPU 99" ls -g 99
	ends 2 "'x' is not the number of a GPU" ls -g x
	ends 2 "there is no user 'nobody-has-this'" ls -u nobody-has-this
	ends 2 '--sort color is not one of size, name' ls --sort color
}

test_what_may_not_be_read_is_unknown()
{
	needs_root 'several users'
	[ "${GPUMEM_AS-root}" = root ] || skip 'one user only'
	local AS=()
	gpumem alloc x 4M >/dev/null
	gpumem alloc open 1M mode=0644 >/dev/null
	AS=(setpriv --reuid=1001 --regid=1001 --clear-groups)
	like "$(gpumem ls)" $'\nx\troot\t\t\t4194304\t20[0-9TZ:-]+\t\t\t'
	like "$(gpumem ls)" $'\nopen\troot\t0\tdevice\t1048576\tnever\t\tlive\t'
	gpumem ls --json | python3 -c '
import json, sys
shown = json.load(sys.stdin)
assert shown["users"][0]["unknown"] == 4 << 20, shown["users"]
assert shown["allocations"][0]["kind"] is None, shown["allocations"]
'
}

# calls ARG...: how many system calls the command makes. It is traced, and the leak sanitizer
# can't work then.
calls()
{
	ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" \
		python3 "$here/calls.py" "${AS[@]}" "$gpumem_path" "$@"
}

# Else another user makes `ls` slow for everybody. Each name is a question to the broker, and
# in others' folders it is asked for their sizes alone.
test_a_list_asks_little_about_allocations_of_others()
{
	local few few_of_mine
	needs_root 'several users'
	[ "${GPUMEM_AS-root}" = root ] || skip 'one user only'
	local AS=(setpriv --reuid=1001 --regid=1001 --clear-groups)
	by 1001 run 'mkdir allocations/mine; echo "mine/x 1M" >control/alloc'
	by 1002 run 'mkdir allocations/other'
	few=$(calls ls) few_of_mine=$(calls ls -u 1001)
	by 1002 run 'seq -f "other/%g 1" 300 >control/alloc; mkdir -m 777 allocations/other/folder'
	[ "$(calls ls)" -lt $((few + 400)) ] || fail "$few calls, and $(calls ls) with 300 of another"
	[ "$(calls ls -u 1001)" -lt $((few_of_mine + 30)) ] ||
		fail "$few_of_mine calls, and $(calls ls -u 1001) with 300 of another"
	is "$(names_of -u 1001)" 'mine/ '
	by 1001 run 'echo "other/folder/x 2M" >control/alloc; mkdir allocations/other/folder/empty'
	gpumem ls -r -u 1001 >"$T/said"
	is "$(sed -n '/^NAME/,/^$/p' "$T/said" | cut -f 1,5 | xargs)" \
		'NAME SIZE other/folder/x 2097152 mine/x 1048576'
	is "$(sed -n '/^FOLDER/,$p' "$T/said" | cut -f 1,4,5 | xargs)" \
		'FOLDER ALLOCATIONS SIZE other/ 1 2097152 other/folder/ 1 2097152 mine/ 1 1048576 other/folder/empty/ 0 0'
	is "$(names_of -u 1001)" 'other/ mine/ '
	is "$(names_of)" 'other/ mine/ '
}

# ---- verbs ----

test_a_verb_prints_the_answer()
{
	like "$(gpumem alloc x 4M tag=v3)" $'\nsize_bytes 4194304\n'
	gpumem fill x u8:7
	is "$(od -A n -t u1 -N 1 allocations/x/data)" '   7'
	gpumem free x
	[ ! -e allocations/x ]
}

test_a_refused_verb_has_the_sentence_and_status_1()
{
	gpumem alloc x 4M >/dev/null
	ends 1 '^gpumem: allocation x is there already \(4 MiB\)$' alloc x 4M
	ends 1 "^gpumem: '1.5x' is not a size" alloc y 1.5x
	ends 1 'there is no folder two: mkdir allocations/two makes it' alloc two/words 4M
	ends 1 "can't be a name" alloc two+words 4M
}

test_every_verb_of_the_mount_is_a_subcommand()
{
	local verb
	cd control
	for verb in *; do
		like "$(gpumem "$verb" --help)" "^usage: gpumem $verb \\[?[A-Z]"
		ends 2 "^usage: gpumem $verb \\[?[A-Z]" "$verb"
	done
	cd ..
	ends 2 "^gpumem: 'nothing' is not one of: ls, .*, alloc.*; --help explains them" nothing
	ends 2 "is not one of" ../control/alloc x 4M
	ends 2 "is not one of" ''
	ends 2 'an argument is missing' alloc ''
	ends 2 'an argument is missing' free ' '
}

test_words_of_other_programs_lead_to_the_right_one()
{
	is "$(gpumem help)" "$(gpumem --help)"
	is "$(gpumem help put)" "$(gpumem put --help)"
	ends 2 "^gpumem: 'nothing' has no page: try gpumem nothing --help$" help nothing
	ends 2 "^gpumem: there is no 'rm': try gpumem free NAME$" rm x
	ends 2 "^gpumem: there is no 'cat': try gpumem get NAME -$" cat x
}

test_a_dry_run_prints_a_line_that_a_shell_does()
{
	is "$(gpumem alloc -n x 4M)" "echo 'x 4M' >$M/control/alloc"
	is "$(gpumem -n alloc x 4M)" "echo 'x 4M' >$M/control/alloc"
	[ ! -e allocations/x ]
	eval "$(gpumem -n alloc x 4M "tag=it's")"
	is "$(<allocations/x/tag)" "it's"
}

test_a_file_is_found_from_the_working_directory()
{
	files
	mkdir -p 'a folder'
	cd 'a folder'
	head -c 4096 /dev/urandom >$'f \\040\n1'
	gpumem alloc x 4096 >/dev/null
	like "$(gpumem load x path=$'f \\040\n1')" '^bytes 4096'
	cmp "$M/allocations/x/data" $'f \\040\n1'
	gpumem save x path=copy offset=1K >/dev/null
	cmp <(tail -c 3072 $'f \\040\n1') copy
	is "$(gpumem -n load x path=copy length=1)" "printf '%s\n' 'x path=$(pwd | sed 's/ /\\040/')/copy length=1' >$M/control/load"
	ends 1 'none: No such file or directory' load x path=none
}

test_a_newline_begins_no_second_command()
{
	ends 2 "can't have a newline" alloc x $'4M\ny 4M'
	is "$(ls allocations)" ''
}

test_wrong_use_is_status_2()
{
	ends 2 'invalid option' ls -q
	ends 2 'unrecognized option' ls --colour
	ends 2 "option '--sort' needs a value" ls --sort
	ends 2 "option '-s' needs a value" ls -s
	ends 2 "option '--json=3' takes no value" ls --json=3
	ends 2 "ls takes no 'x'" ls x
	ends 2 'put has no option --json' --json put x
	ends 2 'put needs a FILE' put
	ends 2 'get needs a NAME' get
}

test_help_fits_80_columns_and_has_an_example()
{
	local command help
	for command in '' ls put get run top doctor; do
		help=$(gpumem $command --help)
		is "$(awk 'length($0) > 80' <<<"$help")" ''
		like "$help" $'\nexamples?:\n  gpumem '
	done
	like "$(gpumem --version)" '^gpumem [0-9.]+$'
}

test_without_a_mount_there_is_a_sentence()
{
	local -x GPUMEM_MOUNT=$T/sanitizer
	ends 1 "is not a mount of gpumemd" ls
	ends 1 "is not a mount of gpumemd" alloc x 4M
}

test_a_dead_mount_is_said_so()
{
	local dead=$T/dead/mnt
	mkdir "$T/dead"
	broker_start "$T/dead" --driver "$(driver dead)"
	kill -KILL "$(<"$T/dead/pid")"
	eventually "[ -s '$T/dead/status' ]"
	GPUMEM_MOUNT=$dead ends 1 \
		"^gpumem: the gpumemd of $dead has ended: .fusermount3 -u $dead. takes the dead mount away$" ls
	unmount "$dead"
}

test_a_mount_that_does_not_answer_hangs_nothing()
{
	local said
	mkdir "$T/other"
	broker_start "$T/other" --driver "$(driver other)"
	local -x GPUMEM_MOUNT=$T/other/mnt
	gpumem ls >/dev/null
	stop "$(<"$T/other/pid")"
	ends 1 "^gpumem: $T/other/mnt has not answered for 5 seconds" ls
	# Of several mounts the command says the one. (Others' may come and go meanwhile.)
	if [ "$(id -u)" = 0 ]; then
		said=$(env -u GPUMEM_MOUNT unshare -m bash -c '
			grep " fuse.gpumemd " /proc/self/mounts | cut -d " " -f 2 | grep -vxF -e "$1" -e "$2" |
				xargs -r -n 1 umount -l
			"$3" ls 2>&1' - "$M" "$T/other/mnt" "$gpumem_path") && fail "one can't be told from the other: $said"
		like "$said" "^gpumem: $T/other/mnt has not answered for 5 seconds"
	fi
	kill -CONT "$(<"$T/other/pid")"
	gpumem ls >/dev/null
	broker_stop "$T/other"
}

# Of another user, which could hang every command.
test_a_strangers_mount_that_does_not_answer_is_not_asked()
{
	needs_root 'several users'
	pretend silent 4004
	alone env -u GPUMEM_MOUNT "$gpumem_path" ls >/dev/null
}

# Files of others have such names, and `gpumem put *` says them on a terminal.
test_names_reach_the_terminal_without_control_characters()
{
	files
	local name=$'c\e]0;owned\a\u202e'
	ends 1 '^gpumem: c.x1b.0;owned.x07.xe2.x80.xae: No such file or directory$' put "$name"
	ends 1 '^gpumem: c.x1b.0;owned.x07.xe2.x80.xae: ' run "$name"
	ends 2 "^gpumem: 'c.x1b.0;owned.x07" get "$name"
	ends 2 "^gpumem: 'c.x1b.0;owned.x07" "$name"
	ends 2 "^gpumem: unrecognized option '--c.x1b.0;owned.x07" put "--$name"
	ends 2 "^gpumem: invalid option -- '.x1b'$" put -$'\e]0'
	ends 2 "^gpumem: unrecognized option '--c.x1b.0;owned.x07" "--$name"
	ends 1 '^gpumem: größe: No such file or directory$' put größe
}

test_lines_to_be_typed_have_no_control_characters()
{
	local line name=$'d\e]0;ow\'ned\a\u202e'
	files
	echo hello >"$name"
	line=$(gpumem put -n "$name" d)
	is "$line" "echo 'd 6' >$M/control/alloc && cp \$'d\\033]0;ow\\'ned\\007\\342\\200\\256' $M/allocations/d/data"
	bash -ec "$line"
	is "$(<"$M/allocations/d/data")" hello
}

# Everybody may make names in `allocations`, and knows which pids come next.
test_names_of_the_command_can_not_be_taken_before()
{
	files
	echo hello >f
	(
		i=$BASHPID
		for i in $(seq "$i" $((i + 200))); do echo "put.$i.f 1"; done >"$M/control/alloc"
	)
	gpumem put f >/dev/null
	is "$(<"$M/allocations/f/data")" hello
}

# ---- put and get ----

test_a_file_goes_there_and_back()
{
	files
	head -c 20000001 /dev/urandom >'a file.bin'
	is "$(gpumem put 'a file.bin')" a_file.bin
	is "$(<"$M/allocations/a_file.bin/size_bytes")" 20000001
	gpumem get a_file.bin back
	cmp 'a file.bin' back
	gpumem get a_file.bin - | cmp - 'a file.bin'
	gpumem get a_file.bin
	cmp 'a file.bin' a_file.bin
	mkdir folder
	gpumem get a_file.bin folder
	cmp 'a file.bin' folder/a_file.bin
	is "$(ls -A folder)" a_file.bin
}

# rights_of FILE: prints the mode, and the group.
rights_of()
{
	stat -c '%a %g' "$1"
}

test_a_new_file_has_the_mode_of_its_allocation()
{
	files
	umask 022
	gpumem alloc x 4K >/dev/null
	gpumem alloc open 4K mode=0666 >/dev/null
	gpumem get x
	gpumem get open
	is "$(stat -c %a x) $(stat -c %a open)" '600 644'
	umask 077
	gpumem get open masked
	is "$(stat -c %a masked)" 600
}

test_a_file_that_is_replaced_keeps_its_rights()
{
	files
	umask 022
	gpumem alloc x 4K >/dev/null
	gpumem alloc open 4K mode=0666 >/dev/null
	touch private shared
	chmod 600 private
	chmod 664 shared
	gpumem get open private
	gpumem get x shared
	is "$(stat -c %a private) $(stat -c %a shared)" '600 664'
}

test_a_file_that_is_replaced_keeps_its_group()
{
	needs_root 'several groups'
	[ "${GPUMEM_AS-root}" = root ] || skip 'one user only'
	files
	chmod 777 .
	gpumem alloc x 4K mode=0644 >/dev/null
	touch mine others
	chgrp 4005 mine
	chmod 640 mine others
	gpumem get x mine
	is "$(rights_of mine)" '640 4005'
	# who may not give the group gives it no rights
	AS=(setpriv --reuid=4001 --regid=4001 --clear-groups)
	gpumem get x others
	is "$(rights_of others)" '600 4001'
}

# access_list FILE [set]: prints the access list's bytes; or sets one that lets the user
# 4001 read.
access_list()
{
	python3 - "$@" <<-'EOF'
		import os, struct, sys
		name, everybody = "system.posix_acl_access", 2 ** 32 - 1
		entries = (1, 6, everybody), (2, 4, 4001), (4, 0, everybody), (16, 4, everybody), (32, 0, everybody)
		if sys.argv[2:]:
		    os.setxattr(sys.argv[1], name, struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries))
		print(os.getxattr(sys.argv[1], name))
	EOF
}

test_a_file_that_is_replaced_keeps_its_access_list()
{
	local list
	files
	gpumem alloc x 4K >/dev/null
	touch file
	list=$(access_list file set 2>/dev/null) || skip 'a file system with access lists'
	gpumem get x file
	is "$(access_list file)" "$list"
	is "$(stat -c %a file)" 640
}

test_a_file_is_never_more_open_than_at_the_end()
{
	needs_software 'be slow'
	files
	umask 022
	gpumem alloc x 64M >/dev/null
	gpumem fill x u8:1
	slow 200ms
	"$gpumem_path" get x file >said 2>&1 &
	eventually 'ls -A | grep -q "^\.file\."'
	is "$(stat -c %a .file.*)" 600
	inject
	wait $!
	is "$(stat -c %a file)" 600
}

test_put_takes_a_name_and_keys_of_alloc()
{
	files
	echo hello >-f
	is "$(gpumem put ./-f x kind=host mode=0640 tag=t)" x
	is "$(<"$M/allocations/x/kind") $(<"$M/allocations/x/tag")" 'host t'
	is "$(stat -c %a "$M/allocations/x/data")" 640
	is "$(gpumem put -- -f kind=managed)" _f
	is "$(<"$M/allocations/_f/kind")" managed
	is "$(gpumem put -n ./-f 'y')" "echo 'y 6' >$M/control/alloc && cp ./-f $M/allocations/y/data"
}

# safetensors FILE [HEADER]: makes a file of two tensors, in all 300000 bytes, and blanks
# behind the header.
safetensors()
{
	local metadata='"__metadata__":{"format":"pt"}' a b
	a='"a":{"dtype":"F32","shape":[50000],"data_offsets":[0,200000]}'
	b='"b.weight":{"dtype":"BF16","shape":[100,500],"data_offsets":[200000,300000]}'
	python3 - "$1" "${2-{$metadata,$a,$b\}   }" <<-'EOF'
		import os, struct, sys
		header = sys.argv[2].encode()
		with open(sys.argv[1], "wb") as file:
		    file.write(struct.pack("<Q", len(header)) + header + os.urandom(300000))
	EOF
}

test_a_safetensors_file_goes_there_and_back()
{
	files
	safetensors model.safetensors
	is "$(gpumem put model.safetensors m mode=0640)" m
	is "$(<"$M/allocations/m/size_bytes")" 300000
	cmp "$M/allocations/m/data" <(tail -c 300000 model.safetensors)
	is "$(jq -r '."b.weight".dtype' "$M/allocations/m/tensors")" BF16
	is "$(<"$M/allocations/m/sealed")" 1
	is "$(ls "$M/allocations")" m
	gpumem get m back.safetensors
	cmp model.safetensors back.safetensors
	gpumem get m - | cmp - model.safetensors
	gpumem get --plain m bytes
	cmp bytes "$M/allocations/m/data"
	gpumem put --plain model.safetensors whole >/dev/null
	cmp model.safetensors "$M/allocations/whole/data"
	is "$(<"$M/allocations/whole/sealed") $(<"$M/allocations/whole/tensors")" '0 '
	cp model.safetensors other.bin
	gpumem put other.bin >/dev/null
	is "$(<"$M/allocations/other.bin/sealed")" 1
}

test_the_shells_lines_for_a_safetensors_file()
{
	files
	safetensors 'a model.safetensors'
	bash -ec "$(gpumem put -n 'a model.safetensors' m)"
	is "$(<"$M/allocations/m/sealed")" 1
	bash -ec "$(gpumem get -n m 'the back')"
	cmp 'a model.safetensors' 'the back'
	bash -ec "$(gpumem get -n m -)" | cmp - 'the back'
}

test_a_safetensors_file_that_lies_is_not_put()
{
	files
	safetensors long.safetensors '{"a":{"dtype":"F32","shape":[75001],"data_offsets":[0,300004]}}'
	ends 1 "long.safetensors: tensor 'a': data_offsets end at 300004, the allocation at 300000 .--plain" \
		put long.safetensors
	safetensors short.safetensors '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}'
	ends 1 '2 elements of 32 bits are not the 4 bytes' put short.safetensors
	safetensors words.safetensors 'hello'
	ends 1 "a safetensors header begins with '\{'" put words.safetensors
	safetensors model.safetensors
	head -c 100 model.safetensors >cut.safetensors
	ends 1 'cut.safetensors is cut off: its header has [0-9]+ bytes, the whole file 100' put cut.safetensors
	head -c 200000 model.safetensors >half.safetensors
	ends 1 "data_offsets end at" put half.safetensors
	echo 'no such thing' >text.safetensors
	ends 1 'does not begin like a safetensors file; --plain' put text.safetensors
	is "$(ls "$M/allocations")" ''
	gpumem put --plain text.safetensors >/dev/null
	is "$(<"$M/allocations/text.safetensors/data")" 'no such thing'
	echo 'no such thing' >text
	gpumem put text >/dev/null
	is "$(<"$M/allocations/text/sealed")" 0
}

test_a_put_that_fails_leaves_nothing()
{
	files
	ends 1 'missing: No such file or directory' put missing
	ends 1 'is not a regular file' put /
	touch empty
	ends 1 'is empty' put empty
	truncate -s 2T large
	ends 1 '^gpumem: allocation large of 2 TiB: ' put large
	truncate -s 1M file
	ends 1 "unknown|no key|not one of" put file x key=value
	ends 2 "can't be a name" put file 'a b'
	ends 2 "'b' is not KEY=VALUE" put file a b
	is "$(ls "$M/allocations")" ''
	gpumem put file x >/dev/null
	ends 1 'allocation x is there already' put file x
	is "$(ls "$M/allocations")" x
}

test_a_name_shows_only_when_all_is_there()
{
	needs_software 'be slow'
	files
	head -c 32M /dev/urandom >file
	slow 200ms
	gpumem put file >said 2>&1 &
	eventually "ls '$M/allocations' | grep -q '^put\.'"
	[ ! -e "$M/allocations/file" ]
	inject
	wait $!
	is "$(<said)" file
	is "$(ls "$M/allocations")" file
}

test_an_interrupted_put_leaves_nothing()
{
	needs_software 'be slow'
	local signal status
	files
	head -c 32M /dev/urandom >file
	for signal in INT TERM; do
		slow 300ms
		env --default-signal=INT "$gpumem_path" put file >said 2>&1 &
		eventually "ls '$M/allocations' | grep -q '^put\.'"
		kill -$signal $!
		status=0
		wait $! || status=$?
		inject
		is "$status" $((128 + $(kill -l $signal)))
		is "$(<said)" ''
		is "$(ls "$M/allocations")" ''
	done
}

# As ^Z and fg do to a program that waits for the mount; TSTP needs a terminal's session.
stopped_and_continued()
{
	eventually "grep -qE 'fuse|request_wait_answer' /proc/$1/wchan"
	kill -STOP "$1"
	eventually "grep -q '^State:.T' /proc/$1/status"
	kill -CONT "$1"
}

test_a_put_and_a_get_go_on_after_a_stop()
{
	needs_software 'be slow'
	local pid
	files
	head -c 32M /dev/urandom >file
	slow 300ms
	"$gpumem_path" put file >said 2>&1 &
	pid=$!
	eventually "ls '$M/allocations' | grep -q '^put\.'"
	stopped_and_continued $pid
	stopped_and_continued $pid
	wait $pid || fail "put: $(<said)"
	"$gpumem_path" get file back >said 2>&1 &
	pid=$!
	eventually 'ls -A | grep -q "^\.back\."'
	stopped_and_continued $pid
	wait $pid || fail "get: $(<said)"
	inject
	cmp file back
	is "$(ls "$M/allocations")" file
}

test_a_file_that_shrinks_while_it_is_read_leaves_nothing()
{
	needs_software 'be slow'
	local status=0
	files
	head -c 64M /dev/urandom >file
	slow 200ms
	"$gpumem_path" put file >said 2>&1 &
	eventually "ls '$M/allocations' | grep -q '^put\.'"
	truncate -s 1M file
	inject
	wait $! || status=$?
	is "$status" 1
	like "$(<said)" '^gpumem: file(: it ended after [0-9]+ of 67108864 bytes| has changed while it was read)$'
	is "$(ls "$M/allocations")" ''
}

test_an_interrupted_get_leaves_the_old_file()
{
	needs_software 'be slow'
	local status=0
	files
	echo old >file
	gpumem alloc x 64M >/dev/null
	gpumem fill x u8:1
	slow 200ms
	env --default-signal=INT "$gpumem_path" get x file >said 2>&1 &
	eventually 'ls -A | grep -q "^\.file\."'
	kill -INT $!
	wait $! || status=$?
	inject
	is "$status" 130
	is "$(<said)$(<file)" old
	is "$(ls -A | tr '\n' ' ')" 'file said '
}

test_a_get_goes_where_a_symbolic_link_leads()
{
	echo 'x 4' >control/alloc
	printf back >allocations/x/data
	mkdir "$T/links" "$T/far"
	echo old >"$T/far/file"
	ln -s ../far/file "$T/links/link"
	ln -s nowhere "$T/links/dangling"
	cd "$T/links"
	gpumem get x link
	is "$(readlink link) $(<../far/file)" '../far/file back'
	is "$(gpumem get x /dev/stdout | cat)" back
	ends 1 'dangling: a symbolic link to a file that is not there$' get x dangling
	is "$(ls -A . ../far | xargs)" '.: dangling link ../far: file'
}

test_a_get_that_fails_leaves_the_old_file()
{
	local status=0
	files
	echo old >file
	ends 1 "there is no allocation 'x'" get x file
	ends 2 "is not the name of an allocation" get ../x file
	is "$(<file)" old
	gpumem alloc x 8M >/dev/null
	ends 1 'folder/file: No such file or directory' get x folder/file
	(ulimit -f 1000; trap '' XFSZ; gpumem get x file) 2>said || status=$?
	is "$status" 1
	like "$(<said)" '^gpumem: file: File too large$'
	is "$(ls -A | tr '\n' ' ')" 'file said '
	is "$(<file)" old
	ends 1 'No space left' get x /dev/full
}

test_a_terminal_sees_a_bar_with_a_rate()
{
	files
	truncate -s 16M file
	local shown
	shown=$(on_terminal put file)
	like "$shown" '\[#+\] 16 MiB of 16 MiB  .*B/s  [0-9.]+ s'
	like "$shown" $'\n''file'
}

# ---- run ----

test_run_launches_a_kernel_and_shows_what_it_printed()
{
	needs_kernels
	files
	gpumem run "$GPUMEM_KERNELS/print.ptx" greet grid=1 block=1 i32:7 >said 2>time
	is "$(<said)" 'block 0 thread 0: 7 words  1.75 123456789abc c%'
	like "$(<time)" '^greet: [0-9]+\.[0-9]{3} ms, grid 1.*, block 1'
	gpumem run "$GPUMEM_KERNELS/print.ptx" greet grid=1 block=1 i32:7 >said 2>time
	is "$(<said)" 'block 0 thread 0: 7 words  1.75 123456789abc c%'
	is "$(ls "$M/modules")" ''
}

test_run_needs_no_name_of_the_only_kernel()
{
	needs_kernels
	gpumem alloc x 1024xf32 >/dev/null
	gpumem fill x f32:1 >/dev/null
	gpumem run "$GPUMEM_KERNELS/saxpy.ptx" elements=1024 u32:1024 f32:2 in:x x 2>/dev/null
	is "$(od -A n -t f4 -N 4 allocations/x/data | tr -d ' ')" 3
	gpumem run "$GPUMEM_KERNELS/saxpy.ptx" saxpy elements=1024 u32:1024 f32:2 in:x x 2>/dev/null
	is "$(od -A n -t f4 -N 4 allocations/x/data | tr -d ' ')" 9
}

test_run_takes_a_gpu()
{
	needs_kernels
	needs_devices 2
	gpumem alloc y 4K device=1 >/dev/null
	gpumem run -g 1 "$GPUMEM_KERNELS/saxpy.ptx" elements=4 u32:4 f32:2 in:y y 2>/dev/null
}

test_run_compiles_and_finds_functions_by_their_names()
{
	needs_kernels
	PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null || skip 'nvcc is not here'
	files
	cat >k.cu <<-'EOF'
	__global__ void add(int *x, int n) { for (int i = 0; i < n; i++) x[i] += i; }
	__global__ void add_more(int *x) { x[0] += 100; }
	template <typename T> __global__ void any(T *x) { x[0] = 5; }
	template __global__ void any<int>(int *);
	template __global__ void any<float>(float *);
	EOF
	gpumem alloc x 4xi32 >/dev/null
	local -x TMPDIR=$T/files/tmp
	mkdir tmp
	gpumem run k.cu add grid=1 block=1 x i32:4 2>/dev/null
	gpumem run k.cu add_more grid=1 block=1 x 2>/dev/null
	is "$(od -A n -t d4 "$M/allocations/x/data" | tr -s ' ')" ' 100 1 2 3'
	ends 1 "'any' is the name of several kernels of k.cu: .*any" run k.cu any grid=1 block=1 x
	ends 1 "k.cu has no kernel 'sub': it has .*add" run k.cu sub grid=1 block=1 x
	ends 1 "k.cu has .*add.*: name one" run k.cu
	echo 'not C' >bad.cu
	ends 1 'error:.*nvcc could not compile bad.cu' run bad.cu
	is "$(ls -A tmp)" ''
	is "$(ls "$M/modules")" ''
}

test_a_run_that_fails_leaves_nothing()
{
	needs_kernels
	files
	ends 2 'run needs a KERNEL' run
	ends 2 'there is no GPU 99' run -g 99 "$GPUMEM_KERNELS/saxpy.ptx"
	ends 2 'leave wait=0 out' run "$GPUMEM_KERNELS/saxpy.ptx" wait=0
	ends 1 'missing.ptx: No such file' run missing.ptx
	echo '.version 8.0 nonsense' >bad.ptx
	ends 1 "^gpumem: bad.ptx can't be loaded: " run bad.ptx
	ends 1 "^gpumem: /etc/passwd can't be loaded: .*PTX" run /etc/passwd
	truncate -s 1T huge.ptx
	ends 1 '^gpumem: huge.ptx: File too large$' run huge.ptx
	ends 1 'a launch needs grid= and block=, or elements=' run "$GPUMEM_KERNELS/saxpy.ptx" u32:4
	ends 2 'an argument is missing' run "$GPUMEM_KERNELS/saxpy.ptx"
	ends 2 'an argument is missing' run "$GPUMEM_KERNELS/saxpy.ptx" saxpy
	ends 2 'an argument is missing' run "$GPUMEM_KERNELS/saxpy.ptx" saxpy ' ' ''
	ends 1 'ILLEGAL_ADDRESS' run "$here/../../docs/kernels/wild.ptx" grid=1 block=1
	is "$(ls "$M/modules")" ''
}

test_an_interrupted_run_says_that_the_kernel_runs_on()
{
	needs_kernels
	local status=0
	files
	gpumem alloc x 4096 >/dev/null
	env --default-signal=INT "$gpumem_path" run "$GPUMEM_KERNELS/faults.ptx" endless grid=1 block=1 x >said 2>&1 &
	eventually "grep -q 1 '$M'/modules/run.*/launches"
	kill -INT $!
	wait $! || status=$?
	is "$status" 130
	like "$(<said)" "the kernel runs on; .echo 1 >$M/owners/$UID/reset. ends all"
	echo 1 >"$M/owners/$UID/reset"
	eventually "rmdir '$M'/modules/run.*"
}

# ---- top and doctor ----

test_top_shows_the_screen_and_q_leaves()
{
	files
	gpumem alloc first 4M >/dev/null
	mkfifo keys
	TERM=xterm script -qefc "stty cols 100 rows 30; $gpumem_path top" shown <keys >/dev/null &
	exec 6>keys
	eventually 'grep -q first shown && grep -q "q: quit" shown'
	gpumem alloc second 4M >/dev/null
	eventually 'grep -q second shown'
	printf s >&6
	eventually 'grep -q 'nam' shown'
	printf q >&6
	exec 6>&-
	wait $!
	like "$(gpumem top --once)" $'\nsecond\t'
	ends 2 'top needs a terminal' top
}

# nvml LINE...: the answers of the stand-in for NVML, which top then loads.
nvml()
{
	printf '%s\n' "$@" >"$T/processes"
	export NVML_PROCESSES=$T/processes LD_LIBRARY_PATH=$build/tests/mount/nvml
}

# The list of programs that `top --once ARG...` prints beneath the others.
programs()
{
	gpumem top --once "$@" | sed -n '/^PROGRAM\t/,$p' | tail -n +2
}

test_top_shows_programs_outside_of_gpumem()
{
	needs_software 'know which programs use a GPU'
	local first second me i
	undying
	first=$(<devices/0/uuid) second=$(<devices/1/uuid) me=$(id -un)
	gpumem alloc x 4M kind=direct >/dev/null
	gpumem fill x u8:1
	sleep 60 &
	tail -f /dev/null &
	nvml "$first C $(jobs -p %1) 1048576" "$first G $(jobs -p %2) 3145728" \
		"$first G $(jobs -p %1) 4096" "$second C $(jobs -p %1) -" "$second C 4194304 7" \
		"$first C $(value_of status mover) 5" "$first C $(<"owners/$UID/worker") 6"
	is "$(programs)" "$(printf '%s\t%s\t%s\t%s\t%s\n' \
		tail "$(jobs -p %2)" "$me" 0 3145728 \
		sleep "$(jobs -p %1)" "$me" 0 1048576 \
		sleep "$(jobs -p %1)" "$me" 1 '' \
		'?' 4194304 '' 1 7)"
	is "$(programs -g 1 | cut -f 1-4 | head -n 1)" "sleep"$'\t'"$(jobs -p %1)"$'\t'"$me"$'\t1'
	is "$(programs -g 1 | wc -l)" 2
	is "$(programs -u daemon)" ''
	is "$(programs -u "$UID" | wc -l)" 3
	like "$(on_terminal top --once)" $'\nPROGRAM +PID USER +GPU +MEMORY\ntail +[0-9]+ [a-z]+ +0 +3 MiB\n'
	unlike "$(gpumem ls)" PROGRAM
	kill %1 %2
}

test_top_lists_any_number_of_programs()
{
	needs_software 'know which programs use a GPU'
	local uuid lines
	uuid=$(<devices/0/uuid)
	mapfile -t lines < <(seq -f "$uuid C %.0f 1" 5000001 5000300)
	nvml "${lines[@]}" "$(<devices/1/uuid)"
	is "$(programs | wc -l)" 300
}

test_top_says_why_it_knows_no_programs()
{
	needs_software 'have no NVML'
	local none='Programs outside of gpumem are not shown'
	nvml "$(<devices/0/uuid)"
	like "$(gpumem top --once)" $'\n'"$none"' of GPU 1 .Not Found.$'
	unset NVML_PROCESSES
	like "$(gpumem top --once)" $'\n'"$none"': libnvidia-ml.so.1: Driver Not Loaded$'
	mkdir -p "$T/broken"
	echo nonsense >"$T/broken/libnvidia-ml.so.1"
	LD_LIBRARY_PATH=$T/broken
	like "$(gpumem top --once)" $'\n'"$none"': no NVML .*libnvidia-ml.so.1: '
}

test_doctor_says_what_to_do()
{
	local said
	[ -w /dev/fuse ] || skip '/dev/fuse'
	type fusermount3 >/dev/null || skip 'fusermount3'
	said=$(gpumem doctor) || fail "$said"
	like "$said" $'\nok +mount +[^\n]*'"$M"
	like "$said" $'\nok +tickets +'
	like "$said" $'\nok +lease +'
	unlike "$said" 'FAILED'
	is "$(ls allocations)" ''
	local -x GPUMEM_MOUNT=/
	fails 'said=$(gpumem doctor)'
	like "$said" $'\nFAILED +mount +/ is not a mount of gpumemd'
}

# doctor_of_a_lie FILE TEXT...: what doctor says of a folder that looks like a mount.
doctor_of_a_lie()
{
	rm -rf "$T/lie"
	mkdir "$T/lie"
	ln -s "${socket-/nowhere/socket}" "$T/lie/socket"
	while [ "$#" != 0 ]; do
		printf '%s\n' "$2" >"$T/lie/$1"
		shift 2
	done
	GPUMEM_MOUNT=$T/lie timeout 20 "${AS[@]}" env "LD_DEBUG=${debug-}" "$gpumem_path" doctor 2>&1
}

test_doctor_loads_no_library_that_a_mount_names()
{
	needs_software 'be a library that any user may load'
	local said debug=files library=$build/tools/softgpu/libcuda.so.1
	said=$(GPUMEM_MOUNT=/ LD_LIBRARY_PATH=${library%/*} LD_DEBUG=$debug "$gpumem_path" doctor 2>&1) || [ "$?" = 1 ]
	like "$said" "calling init: $library"$'\n'
	said=$(doctor_of_a_lie version 9 driver_path "$library" driver_version 12.9) || [ "$?" = 1 ]
	unlike "$said" "calling init: [^"$'\n'"]*libcuda"
	like "$said" $'\nok +driver +'"$library for CUDA 12.9"$'\n'
	said=$(doctor_of_a_lie version 9 driver_path /lib/x driver_version 11.8) || [ "$?" = 1 ]
	like "$said" $'\nFAILED +driver +/lib/x for CUDA 11.8: 12.2 is the oldest that works'
	said=$(doctor_of_a_lie version 9) || [ "$?" = 1 ]
	like "$said" $'\nFAILED +driver +'"$T/lie/driver_path: No such file or directory"$'\n'
}

test_doctor_of_a_mount_that_lies_ends()
{
	local said status=0 socket=no_slash
	said=$(doctor_of_a_lie version $'\e[31m9') || status=$?
	is "$status" 1
	like "$said" $'\nok +mount +'"$T/lie, gpumem .x1b.31m9"$'\n'
	like "$said" $'\nFAILED +tickets +no_slash: '
}

# The socket of a user who is not the broker's is made at the first lease.
test_doctor_of_a_user_without_a_socket()
{
	needs_root 'several users'
	like "$(by 1003 gpumem doctor)" $'\nok +tickets +[^\n]*\.u1003(, from the first lease on)?\n'
}

test_doctor_names_all_mounts()
{
	local said
	needs_root 'a namespace of mounts'
	mkdir "$T/beside"
	broker_start "$T/beside" --driver "$(driver beside)"
	fails 'said=$(alone env -u GPUMEM_MOUNT "$gpumem_path" doctor)'
	like "$said" $'\nFAILED +mount +2 brokers are mounted here: set GPUMEM_MOUNT to one of /'
	like "$said" " $M(,|"$'\n'')'
	like "$said" " $T/beside/mnt(,|"$'\n'')'
	broker_stop "$T/beside"
}

# While folders are exchanged. The command is traced, and the leak sanitizer can't work then.
exchanging()
{
	ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" python3 "$here/exchange.py" "$@" >"$T/said" ||
		fail "$(<"$T/said")"
}

hostile_folders()
{
	needs_root 'several users'
	[ "${GPUMEM_AS-root}" = root ] || skip 'one user only'
	rm -rf "$T/files"
	mkdir -m 755 "$T/files"
	chmod 755 "$T"
	mkdir -m 777 allocations/hostile
	chown 4001:4001 allocations/hostile
	setpriv --reuid=4001 --regid=4001 --clear-groups mkdir -m 777 allocations/hostile/{a,b,c}
	chmod 777 allocations/hostile/{a,b,c}
}

test_put_never_writes_to_another_allocation()
{
	hostile_folders
	printf '\70\0\0\0\0\0\0\0{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}   secret!!' >"$T/files/tensors"
	printf 'secret!!' >"$T/files/bytes"
	for file in bytes tensors; do
		exchanging put 4002 hostile/{a,b} "$gpumem_path" put "$T/files/$file" hostile/a/x
		unlike "$(<"$T/said")" 'has bytes|is not what|failed|allocations x'
		like "$(<"$T/said")" $'calls ([6-9]|..+) done [1-9].*\ncalls ([6-9]|..+) done [1-9]'
	done
}

test_get_never_takes_halves_of_two_allocations()
{
	hostile_folders
	mkdir -m 777 "$T/files/out"
	echo 'hostile/a/x 8 mode=0644' >control/alloc
	echo 'hostile/b/x 8 mode=0644' >control/alloc
	printf '{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}' >allocations/hostile/a/x/tensors
	printf '{"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' >allocations/hostile/b/x/tensors
	printf aaaaaaaa >allocations/hostile/a/x/data
	printf bbbbbbbb >allocations/hostile/b/x/data
	exchanging get 4002 hostile/{a,b} "$gpumem_path" get hostile/a/x "$T/files/out/x"
	unlike "$(<"$T/said")" 'half|failed'
	like "$(<"$T/said")" $'calls [2-9].* done [1-9].*\ncalls [2-9].* done [1-9]'
}

test_a_list_has_the_size_and_the_status_of_one_allocation()
{
	hostile_folders
	by 4001 run 'echo hostile/c/a 8 mode=0644 tag=small >control/alloc
		echo hostile/c/b 16 mode=0644 tag=large >control/alloc'
	exchanging ls 4002 hostile/c/{a,b} "$gpumem_path" ls -r --json
	unlike "$(<"$T/said")" 'mixed|failed'
	like "$(<"$T/said")" $'calls ([4-9]|..+) done [1-9].*\ncalls ([4-9]|..+) done [1-9]'
}

# ---- completion ----

completion=$(dirname "$(dirname "$GPUMEMD")")/tools/gpumem/completion

# completes WORD...: prints bash's completions of the last word.
completes()
{
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_gpumem
	printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}

test_bash_completes_subcommands_verbs_names_and_options()
{
	. "$completion/gpumem"
	gpumem alloc weights 4K >/dev/null
	gpumem alloc words 4K >/dev/null
	files
	touch file.cu
	is "$(completes gpumem a)" 'advise alloc '
	is "$(completes gpumem p)" 'prefetch publish put '
	is "$(completes gpumem get w)" 'weights words '
	is "$(completes gpumem free we)" 'weights '
	is "$(completes gpumem run f)" 'file.cu '
	is "$(completes gpumem run file.cu we)" 'weights '
	is "$(completes gpumem ls --s)" '--sort '
	is "$(completes gpumem ls --sort w)" 'written '
	is "$(completes gpumem load weights path = f)" 'file.cu '
	is "$(completes gpumem load weights path =)" 'file.cu '
	local -x GPUMEM_MOUNT=/
	is "$(completes gpumem get w)" ' '
	ends 2 'complete needs one of verbs, names' complete
}

# The words are another user's, whose mount it may be.
test_no_shell_runs_what_a_mount_names()
{
	local name
	. "$completion/gpumem"
	files
	mkdir -p lie/allocations lie/control
	touch lie/socket lie/version
	for name in '$(touch${IFS}ran)' '`touch${IFS}ran`' 'x;touch ran' $'a\e[31m' "it's" '{a,b}' '~' '*'; do
		echo 1 >"lie/allocations/$name"
		echo 1 >"lie/control/$name"
	done
	echo 1 >lie/allocations/weights
	touch lie/control/alloc
	local -x GPUMEM_MOUNT=$T/files/lie
	is "$(gpumem complete names)" weights
	is "$(gpumem complete verbs)" alloc
	is "$(completes gpumem free we)" 'weights '
	is "$(completes gpumem al)" 'alloc '
	# whatever the command printed
	gpumem()
	{
		printf '%s\n' '$(touch${IFS}ran)' '`touch${IFS}ran`' '*' words
	}
	is "$(completes gpumem free w)" 'words '
	is "$(completes gpumem w)" 'words '
	is "$(completes gpumem free '')" '$(touch${IFS}ran) * `touch${IFS}ran` words '
	is "$(ls)" lie
}

test_other_shells_read_their_completions()
{
	local shells=0
	gpumem alloc weights 4K >/dev/null
	if command -v zsh >/dev/null; then
		zsh -n "$completion/_gpumem"
		shells=1
	fi
	if command -v fish >/dev/null; then
		PATH=$(dirname "$gpumem_path"):$PATH HOME=$T fish --no-config -c "
			source $completion/gpumem.fish
			complete -C 'gpumem put'
			complete -C 'gpumem al'
			complete -C 'gpumem free wei'" >"$T/out"
		like "$(<"$T/out")" $'^put\t.*\nalloc.*\nweights'
		shells=1
	fi
	[ "$shells" = 1 ] || skip 'zsh and fish are not here'
}

main "$@"
