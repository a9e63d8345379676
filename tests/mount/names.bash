#!/bin/bash
# Everyday work with files: rename, modes, df, du, ls -lS, find.
. "${BASH_SOURCE%/*}/lib.bash"

test_mv_renames()
{
	local kind
	for kind in $kinds; do
		echo "x 10000 kind=$kind" >control/alloc
		yes | head -c 10000 >allocations/x/data
		id=$(<allocations/x/id)
		mv allocations/x allocations/y
		is "$(ls allocations)" y
		is "$(<allocations/y/id)" "$id"
		cmp allocations/y/data <(yes | head -c 10000)
		echo y >control/free
	done
}

test_an_open_descriptor_survives_a_rename()
{
	echo 'x 4096' >control/alloc
	exec 3<>allocations/x/data
	mv allocations/x allocations/y
	printf hello >&3
	is "$(head -c 5 allocations/y/data)" hello
}

test_mv_onto_a_taken_name_is_eexist()
{
	echo 'x 4096' >control/alloc
	echo 'y 8192' >control/alloc
	refused EEXIST 'y.*8192|y' 'mv -T allocations/x allocations/y'
	is "$(<allocations/x/size_bytes) $(<allocations/y/size_bytes)" '4096 8192'
}

test_mv_to_a_bad_name_is_refused()
{
	echo 'x 4096' >control/alloc
	refused EINVAL '[.]hidden' 'python3 -c "import os; os.rename(\"allocations/x\", \"allocations/.hidden\")"'
	refused ENAMETOOLONG '64|65' "mv allocations/x allocations/$(printf 'n%.0s' {1..65})"
	[ -d allocations/x ]
}

test_mv_out_of_allocations_deletes_nothing()
{
	echo 'x 4096' >control/alloc
	yes | head -c 4096 >allocations/x/data
	fails 'mv allocations/x streams/x'
	fails 'mv allocations/x x'
	fails 'mv allocations/x/data allocations/x/other'
	cmp allocations/x/data <(yes | head -c 4096)
}

test_a_folder_has_the_size_of_its_allocation()
{
	echo 'x 12345' >control/alloc
	is "$(stat -c %s allocations/x)" 12345
}

test_ls_ranks_allocations_by_size()
{
	echo 'small 4K' >control/alloc
	echo 'large 40M' >control/alloc
	echo 'middle 3M' >control/alloc
	is "$(ls -S allocations | xargs)" 'large middle small'
	like "$(ls -lSh allocations)" '40M.*large.*3[.]0M.*middle.*4[.]0K.*small'
}

test_ls_sorts_by_the_last_write()
{
	echo 'first 4096' >control/alloc
	echo 'second 4096' >control/alloc
	printf a | dd of=allocations/first/data conv=notrunc status=none
	is "$(ls -t allocations | head -n 1)" first
}

test_find_finds_by_size()
{
	echo 'small 4K' >control/alloc
	echo 'large 40M' >control/alloc
	is "$(find allocations -maxdepth 1 -mindepth 1 -size +1M)" allocations/large
	is "$(find allocations -name data -size -100k)" allocations/small/data
}

test_du_counts_sizes()
{
	echo 'x 4M' >control/alloc
	echo 'y 8M' >control/alloc
	is "$(du -s --apparent-size -B1M allocations/x/data | cut -f 1)" 4
	[ "$(du -sm allocations | cut -f 1)" -ge 12 ]
}

test_df_shows_the_devices()
{
	local total free
	total=$(cat devices/*/memory_total_bytes | awk '{ total += $1 } END { printf "%d", total }')
	is "$(df -B 1 --output=size . | tail -n 1 | xargs)" "$total"
	free=$(df -B 1 --output=avail . | tail -n 1)
	echo 'x 64M' >control/alloc
	[ "$(df -B 1 --output=avail . | tail -n 1)" -le $((free - 67108864)) ]
	echo x >control/free
}

test_mode_is_0600_unless_said_otherwise()
{
	echo 'x 4096' >control/alloc
	is "$(stat -c %a allocations/x/data)" 600
	is "$(stat -c %a allocations/x/size_bytes)" 444
	echo 'y 4096 mode=0640' >control/alloc
	is "$(stat -c %a allocations/y/data)" 640
}

test_chmod_of_any_file_changes_all()
{
	echo 'x 4096' >control/alloc
	chmod 644 allocations/x/data
	is "$(stat -c %a allocations/x/data)" 644
	chmod 660 allocations/x
	is "$(stat -c %a allocations/x/data)" 660
	chmod g-w allocations/x/data
	is "$(stat -c %a allocations/x/data)" 640
}

test_the_folder_is_searched_by_whom_may_read()
{
	echo 'x 4096' >control/alloc
	chmod 640 allocations/x
	like "$(stat -c %A allocations/x)" '^drw[xt]r-x'
}

test_chmod_keeps_the_bytes()
{
	echo 'x 100000' >control/alloc
	echo 'neighbour 100000' >control/alloc
	yes | head -c 100000 >allocations/x/data
	yes n | head -c 100000 >allocations/neighbour/data
	chmod 666 allocations/x
	cmp allocations/x/data <(yes | head -c 100000)
	cmp allocations/neighbour/data <(yes n | head -c 100000)
	chmod 600 allocations/x
	cmp allocations/x/data <(yes | head -c 100000)
}

test_inode_numbers_stay_and_differ()
{
	echo 'x 4096' >control/alloc
	echo 'y 4096' >control/alloc
	is "$(stat -c %i allocations/x/data)" "$(stat -c %i allocations/x/data)"
	is "$(stat -c %i control/alloc)" "$(stat -c %i control/alloc)"
	find . -printf '%i\n' >"$T/inodes"
	is "$(sort "$T/inodes" | uniq -d)" ''
	is "$(ls -i allocations | awk '$2 == "x" { print $1 }')" "$(stat -c %i allocations/x)"
}

# exchange A B: the two have each other's name, as after the owner of a folder has worked.
exchange()
{
	py "$@" <<EOF
import ctypes
if ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2):
    sys.exit('renameat2')
EOF
}

test_a_line_with_an_id_takes_no_other_allocation()
{
	local verb x y
	mkdir allocations/{a,b}
	echo 'a/x 4096 kind=managed' >control/alloc
	echo 'b/x 4096 kind=managed' >control/alloc
	x=$(<allocations/a/x/id)
	y=$(<allocations/b/x/id)
	echo 'c 4096' >control/alloc
	head -c 4096 /dev/zero | tr '\0' x >"$T/file"
	exchange allocations/a allocations/b
	for verb in "load a/x path=$T/file" "save a/x path=$T/saved" 'fill a/x u8:1' 'copy a/x from=c' \
		'prefetch a/x cpu' 'advise a/x set_read_mostly' 'publish a/x a/y' 'free a/x'; do
		refused ESTALE "^a/x is another allocation now: its id is $y, not $x\$" \
			"echo '${verb#* } id=$x' >control/${verb%% *}"
	done
	refused ESTALE "^a/x is another allocation now: its id is $y, not $x\$" \
		"echo 'c from=a/x from_id=$x' >control/copy"
	refused ESTALE '^a/x is another' "echo 'c d a/x a/y id=$(<allocations/c/id),$x' >control/publish"
	[ ! -e "$T/saved" ] || fail 'saved'
	is "$(<allocations/a/x/id) $(<allocations/b/x/id) $(<allocations/c/sealed)" "$y $x 0"
	is_zero allocations/a/x/data
	is_zero allocations/b/x/data

	for verb in "load b/x path=$T/file" "save b/x path=$T/saved" 'fill b/x u8:1' \
		"copy b/x from=c from_id=$(<allocations/c/id)" 'prefetch b/x cpu' \
		'advise b/x set_read_mostly'; do
		echo "${verb#* } id=$x" >"control/${verb%% *}"
	done
	echo "c d b/x b/y id=$(<allocations/c/id),$x" >control/publish
	is "$(<allocations/b/y/id) $(<allocations/b/y/sealed) $(<allocations/d/sealed)" "$x 1 1"
	echo "b/y id=$x" >control/free
	is "$(ls allocations/b)" ''
}

test_an_id_is_a_number_from_1()
{
	local id
	echo 'x 4096' >control/alloc
	id=$(<allocations/x/id)
	refused EINVAL '^id=0 is not the number of an allocation$' "echo 'x u8:1 id=0' >control/fill"
	refused EINVAL '^id=x is not the number of an allocation$' "echo 'x id=x' >control/free"
	refused EINVAL '^id= is not the number of an allocation$' "echo 'x y id=$id,' >control/publish"
	refused EINVAL '^id=0 is not the number' "echo 'x y id=0' >control/publish"
	refused EINVAL '^id= has 2 numbers for 1 allocations$' "echo 'x y id=$id,$id' >control/publish"
	refused EINVAL '^id= has 1 numbers for 2 allocations$' "echo 'x y y x id=$id' >control/publish"
	refused EINVAL '^id= is for NAME, not for cgroup=PATH$' "echo 'cgroup=/a id=$id' >control/free"
	is "$(<allocations/x/id) $(<allocations/x/sealed)" "$id 0"
}

main "$@"
