#!/bin/bash
# Folders of allocations and of modules: mkdir, mv, rmdir, names with `/` in lines, and
# whose names are whose.
. "${BASH_SOURCE%/*}/lib.bash"

alice=1001 bob=1002 team=2000

export GPUMEM_MOUNT=${M-}

gpumem()
{
	"${AS[@]}" "$build/tools/gpumem/gpumem" "$@"
}

# Users without a passwd entry need no setup.
grouped()
{
	local AS=(setpriv "--reuid=$1" "--regid=$1" "--groups=$2")
	shift 2
	"$@"
}

# rename2 FROM TO FLAGS: renameat2(2); prints the error.
rename2()
{
	py "$@" <<-'EOF2'
		import ctypes, os, sys
		libc = ctypes.CDLL(None, use_errno=True)
		if libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), int(sys.argv[3])):
		    print(os.strerror(ctypes.get_errno()))
	EOF2
}

# ---- making and using ----

test_a_folder_has_allocations_and_folders()
{
	mkdir allocations/alice
	is "$(ls -A allocations/alice)" ''
	echo 'alice/x 4K' >control/alloc
	mkdir allocations/alice/deep
	echo 'alice/deep/x 8K' >control/alloc
	echo 'x 16K' >control/alloc
	is "$(ls allocations | xargs)" 'alice x'
	is "$(ls allocations/alice | xargs)" 'deep x'
	is "$(cat allocations/{alice/x,alice/deep/x,x}/size_bytes | xargs)" '4096 8192 16384'
}

test_every_line_takes_names_in_folders()
{
	mkdir -p allocations/a/b
	printf '%s\n' 'a/x 4K' 'a/b/y 4K kind=host' 'a/m 4K kind=managed' >"$T/lines"
	cat "$T/lines" >control/alloc
	echo 'a/x u8:7' >control/fill
	echo 'a/b/y+1K from=a/x+2K length=1K' >control/copy
	is "$(od -An -tx1 -j1023 -N2 allocations/a/b/y/data)" ' 00 07'
	head -c 4096 /dev/zero >"$T/zeros"
	chmod 755 "$T" && chmod 644 "$T/zeros"
	echo "a/x path=$T/zeros" >control/load
	is_zero allocations/a/x/data
	echo 'a/m cpu' >control/prefetch
	echo 'a/m set_read_mostly' >control/advise
	echo 'a/x a/b/z' >control/publish
	is "$(cat allocations/a/b/z/sealed)" 1
	echo 'a/b/y' >control/free
	is "$(ls allocations/a allocations/a/b | xargs)" 'allocations/a: b m allocations/a/b: z'
}

test_a_kernel_takes_names_in_folders()
{
	needs_kernels
	mkdir -p allocations/a modules/p/saxpy
	echo 'a/x 1024xf32' >control/alloc
	echo 'a/y 1024xf32' >control/alloc
	echo 'a/x f32:1' >control/fill
	cp "$GPUMEM_KERNELS/saxpy.ptx" modules/p/saxpy/image
	echo 'p/saxpy saxpy elements=1024 u32:1024 f32:2 in:a/x a/y' >control/launch
	is "$(od -An -tf4 -N4 allocations/a/y/data | xargs)" 2
	echo 'elements=1024 u32:1024 f32:2 in:a/x a/y' >modules/p/saxpy/functions/saxpy/launch
	is "$(od -An -tf4 -N4 allocations/a/y/data | xargs)" 4
	refused ENOENT 'there is no allocation a/none' \
		"echo 'p/saxpy saxpy elements=1 u32:1 f32:2 in:a/x a/none' >control/launch"
	refused ENOENT 'there is no module p/none' 'echo "p/none f elements=1" >control/launch'
	refused EISDIR 'p is a folder' 'echo "p f elements=1" >control/launch'
	like "$(newest_event)" 'p/saxpy'
}

test_full_names_are_in_what_the_broker_says()
{
	mkdir -p allocations/a/b
	echo 'a/b/x 4K' >control/alloc
	like "$(newest_event)" ' alloc allocations/a/b/x id='
	exec 3<allocations/a/b/x/lease
	like "$(<leases)" '^a/b/x '
	like "$(cat <&3)" 'name a/b/x'
	exec 3<&-
	exec 4<>allocations/a/b/x/data
	mv allocations/a allocations/c
	like "$(newest_event)" ' rename allocations/c from=a'
	refused ERANGE 'c/b/x' "echo 'c/b/x u8:1 offset=4K length=4K' >control/fill"
	rmdir allocations/c/b/x
	like "$(newest_event)" ' free allocations/c/b/x '
	refused ESTALE 'allocation c/b/x .* has been freed' 'head -c 1 <&4'
	like "$(tail -n 1 errors)" ' allocations/c/b/x/data ESTALE '
}

test_names_in_lines_are_checked()
{
	echo 'x 4K' >control/alloc
	mkdir allocations/a
	refused ENOENT 'there is no folder none: mkdir allocations/none makes it' \
		'echo "none/x 4K" >control/alloc'
	refused ENOENT 'there is no folder a/none' 'echo "a/none/x" >control/free'
	refused ENOENT 'there is no allocation a/x' 'echo "a/x" >control/free'
	refused ENOTDIR 'x is an allocation, not a folder' 'echo "x/y 4K" >control/alloc'
	refused EISDIR 'a is a folder' 'echo "a u8:0" >control/fill'
	refused EEXIST 'a is a folder' 'echo "a 4K" >control/alloc'
	refused EISDIR 'a is a folder' 'echo "x a" >control/publish'
	refused EINVAL "'a/' can't be a name" 'echo "a/ 4K" >control/alloc'
	refused EINVAL "'../x' can't be a name|begins with '[.]'" 'echo "../x 4K" >control/alloc'
	refused ENAMETOOLONG '65 characters' "echo \"a/$(printf 'n%.0s' {1..65}) 4K\" >control/alloc"
	is "$(find allocations -maxdepth 2 -type d | sort | xargs)" 'allocations allocations/a allocations/x'
}

test_there_are_eight_levels()
{
	mkdir -p allocations/1/2/3/4/5/6/7/8
	echo '1/2/3/4/5/6/7/8/x 4K' >control/alloc
	echo '1/2/3/4/5/6/7/8/x u8:1' >control/fill
	refused ENAMETOOLONG 'at most 8 deep' 'mkdir allocations/1/2/3/4/5/6/7/8/9'
	refused ENAMETOOLONG 'more than 8 folders' 'echo 1/2/3/4/5/6/7/8/9/x 4K >control/alloc'
	mkdir -p allocations/a/b
	refused ENAMETOOLONG 'at most 8 deep' 'mv allocations/a allocations/1/2/3/4/5/6/7/'
	mv allocations/a/b allocations/1/2/3/4/5/6/7/
}

test_a_refused_rename_leaves_a_module_what_it_is()
{
	mkdir -p modules/1/2/3/4/5/6/7/8/module modules/empty
	refused ENAMETOOLONG 'at most 8 deep' 'mv modules/1 modules/empty/'
	[ -e modules/empty/image ]
	mv modules/1/2 modules/empty/
	is "$(ls modules/empty)" 2
}

test_many_long_names_fit_into_sentences()
{
	local name folder=allocations i
	name=$(printf 'n%.0s' {1..64})
	for i in {1..8}; do
		folder+=/$name
		mkdir "$folder"
	done
	folder=${folder#*/}
	echo "$folder/$name 4K" >control/alloc
	echo "$folder/o 8K" >control/alloc
	refused ERANGE "$folder/o \\(8 KiB\\) does not fit into $folder/$name \\(4 KiB\\): length=4K" \
		"echo $folder/$name from=$folder/o >control/copy"
	echo "$folder/$name $folder/p" >control/publish
	refused EPERM "$folder/p is sealed" "echo $folder/p u8:1 >control/fill"
}

# ---- moving and removing ----

test_mv_moves_between_folders()
{
	local id
	mkdir -p allocations/{a,b/c}
	echo 'a/x 4K' >control/alloc
	echo 'a/x u8:9' >control/fill
	id=$(<allocations/a/x/id)
	exec 3<allocations/a/x/data
	mv allocations/a/x allocations/b/c/
	is "$(ls allocations/a)$(ls allocations/b/c)" x
	mv allocations/b allocations/a/
	is "$(<allocations/a/b/c/x/id)" "$id"
	is "$(head -c 1 <&3 | od -An -tx1)" ' 09'
	mv allocations/a/b/c/x allocations/y
	is "$(ls allocations | xargs)" 'a y'
}

test_mv_refuses_what_rename_refuses()
{
	mkdir -p allocations/{a/b,full/f,empty}
	echo 'x 4K' >control/alloc
	echo 'a/x 8K' >control/alloc
	is "$(rename2 allocations/a allocations/a/b/c 0)" 'Invalid argument'
	refused ENOTEMPTY 'folder full is there' 'mv -T allocations/a allocations/full'
	refused EEXIST 'allocation x is there' 'mv -T allocations/a allocations/x'
	refused EEXIST 'allocation x is there' 'mv -T allocations/a/x allocations/x'
	refused EPERM 'allocations stay in allocations' 'python3 -c "import os; os.rename(\"allocations/x\", \"modules/x\")"'
	mv -T allocations/a allocations/empty
	is "$(ls allocations allocations/empty | xargs)" 'allocations: empty full x allocations/empty: b x'
}

test_renameat2_knows_its_flags()
{
	local NOREPLACE=1 EXCHANGE=2 WHITEOUT=4
	mkdir -p allocations/{a/f,b}
	echo 'a/x 4K' >control/alloc
	echo 'b/y 8K' >control/alloc
	is "$(rename2 allocations/a/x allocations/b $NOREPLACE)" 'File exists'
	rename2 allocations/a/x allocations/b/y $EXCHANGE
	is "$(cat allocations/{a/x,b/y}/size_bytes | xargs)" '8192 4096'
	rename2 allocations/a/f allocations/b/y $EXCHANGE
	is "$(ls allocations/a allocations/b | xargs)" 'allocations/a: f x allocations/b: y'
	is "$(<allocations/a/f/size_bytes)" 4096
	is "$(rename2 allocations/a allocations/a/f $EXCHANGE)" 'Invalid argument'
	is "$(rename2 allocations/a/x allocations/b/z $WHITEOUT)" 'Invalid argument'
	like "$(newest_event 2) $(newest_event)" 'rename allocations/b/y from=a/f.*rename allocations/a/f from=b/y'
}

test_rmdir_removes_only_empty_folders()
{
	mkdir -p allocations/a/b
	echo 'a/x 4K' >control/alloc
	refused ENOTEMPTY 'folder a is not empty: 2 names are in it' 'rmdir allocations/a'
	rmdir allocations/a/b allocations/a/x allocations/a
	is "$(ls allocations)" ''
}

test_a_folder_is_a_lasting_object()
{
	local inode
	mkdir -p allocations/a/b
	inode=$(stat -c %i allocations/a)
	is "$(stat -c '%F %s' allocations/a)" 'directory 0'
	is "$(stat -c %i allocations/a/b/..)" "$inode"
	mv allocations/a allocations/c
	is "$(stat -c %i allocations/c)" "$inode"
	(
		cd allocations/c/b
		is "$(/bin/pwd)" "$M/allocations/c/b"
		mv ../../c ../../d
		is "$(/bin/pwd)" "$M/allocations/d/b"
	)
	rmdir allocations/d/b allocations/d
	mkdir allocations/a
	[ "$(stat -c %i allocations/a)" != "$inode" ]
}

test_names_come_and_go_while_a_folder_is_listed()
{
	mkdir allocations/a
	for i in {1..300}; do
		echo "a/n$i 1K"
	done | cat >control/alloc
	py <<-'EOF2'
		import os
		fd = os.open("allocations/a", os.O_RDONLY)
		with os.scandir(fd) as entries:
		    seen = [next(entries).name for _ in range(20)]
		    for name in seen[:10]:
		        os.rmdir(f"allocations/a/{name}")
		    os.rename(f"allocations/a/{seen[15]}", "allocations/a/other")
		    seen += [entry.name for entry in entries]
		assert len(set(seen)) == len(seen), "a name is listed twice"
		missing = set(os.listdir("allocations/a")) - set(seen) - {"other"}
		assert not missing, missing
	EOF2
}

# ---- what people do ----

test_trees_are_looked_through()
{
	mkdir -p allocations/a/b
	echo 'a/x 1M' >control/alloc
	echo 'a/b/y 3M kind=host' >control/alloc
	is "$(du -s --apparent-size -B1M allocations/a/b/y/data | cut -f1)" 3
	is "$(du -s -B1M allocations/a | cut -f1)" 4
	is "$(find allocations -name data | sort | xargs)" 'allocations/a/b/y/data allocations/a/x/data'
	is "$(find allocations -type d -size +2M)" allocations/a/b/y
	touch "$T/mark"
	eventually 'echo a/x u8:1 >control/fill; [ -n "$(find allocations/a -newer "$T/mark" -name data)" ]'
	is "$(find allocations -newer "$T/mark" -name data)" allocations/a/x/data
	like "$(ls -R allocations)" 'allocations/a/b/y:'
	echo 'a/b/y u8:3' >control/fill
	tar -C allocations -cf "$T/a.tar" a/b/y/data
	tar -C "$T" -xf "$T/a.tar"
	cmp "$T/a/b/y/data" allocations/a/b/y/data
	cp -r allocations/a/b/y/data "$T/copy"
	cmp "$T/copy" allocations/a/b/y/data
}

test_the_command_knows_folders()
{
	local said
	mkdir -p allocations/a/b allocations/empty
	echo 'a/x 4M' >control/alloc
	echo 'a/b/y 1M kind=host' >control/alloc
	echo 'z 2M' >control/alloc
	is "$(gpumem ls | awk -F'\t' '$4 == "folder" { print $1, $5 }' | xargs)" 'a/ 5242880 empty/ 0'
	said=$(gpumem ls -r)
	like "$said" $'\na/b/y\t'
	is "$(awk -F'\t' '$1 == "FOLDER" { seen = 1; next } seen { print $1, $3, $4, $5 }' <<<"$said")" \
		$'a/ 0755 2 5242880\na/b/ 0755 1 1048576\nempty/ 0755 0 0'
	like "$said" $'\n'"$(id -un 2>/dev/null || id -u)"$'\t.*\t3\n'
	is "$(gpumem complete names | sort | xargs)" 'a/ a/b/ a/b/y a/x empty/ z'
	yes | head -c 10000 >"$T/file"
	gpumem put "$T/file" a/b/f >/dev/null
	gpumem get a/b/f "$T/back" >/dev/null
	cmp "$T/file" "$T/back"
	(mkdir "$T/into" && cd "$T/into" && gpumem get a/b/f >/dev/null && cmp f "$T/file")
	is "$(ls allocations/a/b | xargs)" 'f y'
	fails 'gpumem get a/../z "$T/back"'
}

test_the_time_of_a_folder_is_that_of_its_names()
{
	local before
	mkdir -p allocations/a/b
	before=$(stat -c %y allocations/a)
	eventually 'mkdir allocations/a/b/c; rmdir allocations/a/b/c; [ "$(stat -c %y allocations/a/b)" != "$before" ]'
	is "$(stat -c %y allocations/a)" "$before"
}

# ---- modules ----

test_an_empty_module_becomes_a_folder_with_its_first_name()
{
	local inode
	mkdir modules/p
	[ -e modules/p/image ]
	is "$(value_of status modules)" 1
	inode=$(stat -c %i modules/p)
	mkdir modules/p/k
	is "$(ls modules/p) $(stat -c %i modules/p)" "k $inode"
	is "$(stat -c %a modules/p)" 755
	is "$(value_of status modules)" 1
	rmdir modules/p/k
	is "$(ls -A modules/p)" ''
	rmdir modules/p
	is "$(value_of status modules)" 0
}

test_an_empty_module_stays_one_when_its_first_name_is_refused()
{
	local before
	needs_root 'users'
	by $alice run 'mkdir modules/{p,q,r} modules/r/{p,q}'
	by $alice run "echo 'modules 3' >owners/$alice/max"
	before=$(newest_event)
	by $alice refused EDQUOT "uid $alice has 3 modules" 'mkdir modules/p/k'
	by $alice refused EDQUOT "uid $alice has 3 modules" 'mkdir modules/r/p/k'
	is "$(ls modules/r | xargs) $(ls modules/p/image modules/r/p/image | xargs)" 'p q modules/p/image modules/r/p/image'
	is "$(newest_event)" "$before"
	is "$(value_of status modules)" 4
	by $alice run 'rmdir modules/r/q; mkdir modules/r/p/k && rmdir modules/{p,q,r/p/k,r/p,r}'
	is "$(ls modules)" ''
}

test_modules_move_into_folders()
{
	needs_kernels
	mkdir modules/{saxpy,p}
	cp "$GPUMEM_KERNELS/saxpy.ptx" modules/saxpy/image
	mv modules/saxpy modules/p/
	is "$(ls modules modules/p | xargs)" 'modules: p modules/p: saxpy'
	is "$(<modules/p/saxpy/state)" loaded
	mv modules/p modules/q
	is "$(<modules/q/saxpy/state)" loaded
	refused EPERM 'q/saxpy is a module, with an image' 'mkdir modules/q/saxpy/k'
	refused ENOTDIR 'q/saxpy is a module, not a folder' 'echo "q/saxpy/k f elements=1" >control/launch'
}

test_mkdir_p_makes_folders_of_modules()
{
	mkdir -p modules/a/b/c
	is "$(find modules -maxdepth 3 -type d | sort | xargs)" 'modules modules/a modules/a/b modules/a/b/c'
	(
		cd modules/a/b/c
		mkdir d
		is "$(/bin/pwd)" "$M/modules/a/b/c"
		is "$(ls ..) $(ls)" 'c d'
	)
	[ -e modules/a/b/c/d/image ]
}

test_an_open_image_of_a_module_that_became_a_folder_is_stale()
{
	mkdir modules/p
	exec 3>modules/p/image
	mkdir modules/p/k
	py <<-'EOF2'
		import errno, os
		try:
		    os.write(3, b"x" * 100)
		    os.close(3)
		except OSError as error:
		    assert error.errno == errno.ESTALE, error
		else:
		    raise SystemExit("the image of a folder was written")
	EOF2
	is "$(ls modules/p)" k
	exec 3>&-
}

test_an_unused_module_keeps_its_mode_as_a_folder()
{
	mkdir -m 750 modules/p
	mkdir modules/p/k
	is "$(stat -c %a modules/p)" 750
	(umask 077; mkdir modules/q; mkdir modules/q/k)
	is "$(stat -c %a modules/q)" 700
}

# ---- whose ----

test_a_folder_has_owner_group_and_mode()
{
	needs_root 'several users'
	by $alice run 'mkdir allocations/a; mkdir -m 770 allocations/b; umask 007; mkdir allocations/c'
	is "$(stat -c '%u %g %a' allocations/{a,b,c} | xargs)" \
		"$alice $alice 755 $alice $alice 770 $alice $alice 770"
	by $alice run 'chmod 700 allocations/a'
	grouped $alice $team run "chgrp $team allocations/b"
	is "$(stat -c '%g %a' allocations/{a,b} | xargs)" "$alice 700 $team 770"
	by $bob denied EPERM 'chmod 777 allocations/a'
	by $alice denied EPERM "chown $bob allocations/a"
	refused EINVAL 'mode 2770' 'chmod 2770 allocations/b'
	refused EINVAL 'mode 1777' 'chmod 1777 allocations/b'
	chown $bob:$team allocations/a
	is "$(stat -c '%u %g' allocations/a)" "$bob $team"
	by $bob run 'mkdir allocations/a/f; chmod 755 allocations/a; rmdir allocations/a/f allocations/a'
}

test_search_decides_who_may_look_up_names()
{
	local name
	needs_root 'several users'
	by $alice run 'mkdir -m 700 allocations/a; mkdir -m 777 allocations/a/open
		echo a/x 4K mode=666 >control/alloc; echo a/open/x 4K mode=666 >control/alloc'
	for name in a/x a/none a/open/x a/none/none; do
		by $bob refused EACCES 'uid 1002 may not search folder a of uid 1001, mode 0700' \
			"echo $name u8:1 >control/fill"
		by $bob refused EACCES 'search' "echo $name >control/free"
		by $bob refused EACCES 'search' "echo $name 4K >control/alloc"
		by $bob denied EACCES "cat allocations/$name/status"
	done
	by $bob run 'echo z 4K >control/alloc'
	by $bob refused EACCES 'search' 'echo z from=a/x >control/copy'
	by $bob refused EACCES 'search' 'echo z a/z >control/publish'
	by $alice run 'chmod 711 allocations/a'
	by $bob run 'echo a/x u8:1 >control/fill; echo a/open/x u8:1 >control/fill'
	by $bob denied EACCES 'ls allocations/a'
	by $bob refused ENOENT 'there is no allocation a/none' 'echo a/none u8:1 >control/fill'
}

test_a_kernels_arguments_are_looked_up_as_the_caller()
{
	needs_root 'several users'
	needs_kernels
	by $alice run 'mkdir -m 700 allocations/a; echo a/x 4K mode=666 >control/alloc'
	by $bob run "mkdir modules/saxpy; cp '$GPUMEM_KERNELS/saxpy.ptx' modules/saxpy/image; echo y 4K >control/alloc"
	for name in a/x a/none; do
		by $bob refused EACCES 'search folder a' \
			"echo saxpy saxpy elements=1 u32:1 f32:1 in:$name y >control/launch"
		by $bob refused EACCES 'search folder a' \
			"echo saxpy saxpy elements=1 $name f32:1 in:y y >control/launch"
	done
	by $alice run 'mkdir -m 700 modules/p; mkdir modules/p/k'
	for name in p/k p/none; do
		by $bob refused EACCES 'search folder p' "echo $name f elements=1 >control/launch"
	done
}

test_write_decides_who_may_make_names()
{
	needs_root 'several users'
	by $alice run "mkdir allocations/a; echo a/x 4K >control/alloc"
	by $bob denied EACCES 'mkdir allocations/a/b'
	by $bob refused EACCES 'change the names in folder a of uid 1001' 'echo a/y 4K >control/alloc'
	by $bob refused EEXIST 'a/x' 'echo a/x 4K >control/alloc'
	by $bob run 'echo z 4K >control/alloc'
	by $bob denied EACCES 'mv allocations/z allocations/a/'
	by $bob refused EACCES 'change the names in folder a' 'echo z a/z >control/publish'
	grouped $alice $team run "chgrp $team allocations/a; chmod 770 allocations/a"
	grouped $bob $team run 'echo a/y 4K >control/alloc; mkdir allocations/a/b; mv allocations/z allocations/a/b/'
	is "$(ls allocations/a | xargs)" 'b x y'
	by $bob denied EACCES 'ls allocations/a'
	# A name that a user has made in a folder is lost to the user with the folder.
	by $bob refused EACCES 'search' 'echo a/y >control/free'
}

test_nobody_removes_or_moves_what_is_anothers()
{
	needs_root 'several users'
	by $alice run 'mkdir -m 777 allocations/a; echo a/x 4K >control/alloc; mkdir -m 777 allocations/a/f'
	by $bob run 'echo a/y 4K >control/alloc; mkdir allocations/b'
	by $bob refused EPERM 'a/x belongs to uid 1001|free or change' 'rmdir allocations/a/x'
	by $bob refused EPERM 'free or change' 'echo a/x >control/free'
	by $bob refused EPERM 'a/f belongs to uid 1001' 'rmdir allocations/a/f'
	by $bob refused EPERM 'a/f belongs to uid 1001' 'mv -T allocations/a/f allocations/b'
	by $bob refused EPERM 'folder a belongs to uid 1001' 'mv -T allocations/a allocations/b/a'
	by $alice refused EPERM 'a/y belongs to uid 1002' 'rmdir allocations/a/y'
	by $alice refused EPERM 'folder b belongs to uid 1002' 'mv -T allocations/a/f allocations/b'
	rmdir allocations/a/y
}

test_a_folder_stays_when_its_owner_has_nothing_else()
{
	needs_root 'several users'
	by $alice run 'mkdir allocations/a; echo x 4K >control/alloc; rmdir allocations/x'
	eventually '[ "$(<owners/1001/bytes)" = 0 ]'
	is "$(stat -c %u allocations/a)" $alice
}

# A reader with room for all names gets them in pieces: nobody has a thread for long.
test_a_listing_comes_in_pieces()
{
	mkdir allocations/many
	seq -f 'many/a-name-of-some-length-%g 1' 2000 >control/alloc
	is "$(py <<-'EOF'
		fd = os.open("allocations/many", os.O_RDONLY)
		room = ctypes.create_string_buffer(1 << 20)
		lengths = []
		while not lengths or lengths[-1] > 0:
		    lengths.append(libc.syscall(217, fd, room, len(room))) # getdents64
		print(max(lengths) <= 64 << 10, sum(lengths) > 80 << 10)
	EOF
	)" 'True True'
	rmdir allocations/many/* allocations/many
}

main "$@"
