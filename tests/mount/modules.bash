#!/bin/bash
# Modules: made and removed as folders, loaded by writing their image, functions listed.
. "${BASH_SOURCE%/*}/lib.bash"

# ptx NAME...: prints PTX with a kernel of each name, as nvcc would write.
ptx()
{
	local name
	printf '%s\n' '//' '// A comment, as compilers write them' '//' '' '.version 7.0' \
		'.target sm_52' '.address_size 64'
	for name; do
		cat <<-END

		.visible .entry $name(
			.param .u32 ${name}_param_0,
			.param .f32 ${name}_param_1,
			.param .u64 ${name}_param_2,
			.param .u8 ${name}_param_3,
			.param .f64 ${name}_param_4
		)
		{
			ret;
		}
		END
	done
}

# module NAME FUNCTION...: loads a module NAME with these functions.
module()
{
	mkdir "modules/$1"
	ptx "${@:2}" >"modules/$1/image"
}

# elf MACHINE BYTES: an ELF file for MACHINE with a single section, cut off after BYTES.
elf()
{
	python3 - "$@" <<-'END'
	import struct, sys
	header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, int(sys.argv[1]),
	                     1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
	sys.stdout.buffer.write((header + bytes(64))[:int(sys.argv[2])])
	END
}

test_mkdir_makes_an_empty_module()
{
	mkdir modules/m
	is "$(ls modules)" m
	is "$(<modules/m/state)" none
	is "$(<modules/m/device)" 0
	is "$(ls modules/m/functions)" ''
	is "$(stat -c %s modules/m/image)" 0
	is "$(cat modules/m/image modules/m/log)" ''
	is "$(value_of status modules)" 1
	rmdir modules/m
	is "$(ls modules)" ''
	is "$(value_of status modules)" 0
}

test_names_are_checked()
{
	refused EINVAL '[.]hidden' 'mkdir modules/.hidden'
	refused EINVAL 'a[+]b' 'mkdir modules/a+b'
	refused ENAMETOOLONG '64|65' "mkdir modules/$(printf 'n%.0s' {1..65})"
	mkdir modules/m
	denied EEXIST 'mkdir modules/m'
	denied ENOENT 'rmdir modules/nothing'
	fails 'mkdir modules/m/functions/f'
	refused EPERM 'part of the tree' 'rmdir modules/m/functions'
}

test_cp_loads_an_image()
{
	ptx saxpy zero >"$T/k.ptx"
	mkdir modules/m
	cp "$T/k.ptx" modules/m/image
	is "$(<modules/m/state)" loaded
	is "$(ls modules/m/functions)" $'saxpy\nzero'
	cmp "$T/k.ptx" modules/m/image
	is "$(stat -c %s modules/m/image)" "$(stat -c %s "$T/k.ptx")"
	is "$(stat -c %s modules/m)" "$(stat -c %s "$T/k.ptx")"
}

test_other_tools_load_an_image_too()
{
	local tool n=0
	ptx one two three >"$T/k.ptx"
	for tool in 'cat <$T/k.ptx >$I' 'cat $T/k.ptx | tee $I' 'dd if=$T/k.ptx of=$I bs=100' \
		'dd if=$T/k.ptx of=$I bs=64 conv=fsync,sparse' 'install -m 600 $T/k.ptx $T/i; cp --sparse=always $T/i $I' \
		'cp --reflink=auto --preserve=timestamps $T/k.ptx $I' 'sed "" $T/k.ptx >$I' \
		'python3 -c "open(\"$I\", \"wb\").write(open(\"$T/k.ptx\", \"rb\").read())"'; do
		mkdir modules/m$((++n))
		I=modules/m$n/image bash -c "$tool" >/dev/null 2>&1 || fail "failed: $tool"
		is "$(ls modules/m$n/functions | wc -l) $tool" "3 $tool"
		cmp "$T/k.ptx" modules/m$n/image
		rmdir modules/m$n
	done
}

test_an_image_is_copied_from_one_module_to_another()
{
	module a f g
	mkdir modules/b
	cp modules/a/image modules/b/image
	is "$(ls modules/b/functions)" $'f\ng'
	cmp modules/a/image modules/b/image
	rmdir modules/b
	mkdir modules/b
	py <<-END
	import shutil # which tries sendfile(2) first
	shutil.copyfile("modules/a/image", "modules/b/image")
	END
	is "$(ls modules/b/functions)" $'f\ng'
}

test_params_are_listed()
{
	module m saxpy
	is "$(<modules/m/functions/saxpy/name)" saxpy
	is "$(<modules/m/functions/saxpy/params)" $'0 0 4\n1 4 4\n2 8 8\n3 16 1\n4 24 8'
}

test_a_function_without_parameters_has_an_empty_list()
{
	mkdir modules/m
	printf '.version 7.0\n.target sm_52\n.address_size 64\n.visible .entry f()\n{\n\tret;\n}\n' \
		>modules/m/image
	is "$(ls modules/m/functions)" f
	is "$(<modules/m/functions/f/params)" ''
}

test_attributes_are_flat_keyed()
{
	local key file=modules/m/functions/f/attributes
	module m f
	for key in max_threads_per_block shared_size_bytes const_size_bytes local_size_bytes \
		num_regs ptx_version binary_version cache_mode_ca max_dynamic_shared_size_bytes \
		suggested_block_size suggested_grid_size max_active_blocks_per_multiprocessor \
		multiprocessors; do
		like "$(value_of "$file" "$key")" '^[0-9]+$'
	done
	[ "$(value_of "$file" max_threads_per_block)" -ge 32 ]
	[ "$(value_of "$file" suggested_block_size)" -ge 32 ]
	[ "$(value_of "$file" multiprocessors)" -ge 1 ]
	is "$(grep -vcE '^[a-z_]+ -?[0-9]+$' "$file" || true)" 0
}

test_text_may_end_in_zeros_and_begin_with_comments()
{
	mkdir modules/m
	{ ptx f; printf '\0'; } >modules/m/image
	is "$(ls modules/m/functions)" f
	{ printf '\n\t /* two\n lines */ // one\n\n'; ptx g; printf '\0\0\0\0'; } >modules/m/image
	is "$(ls modules/m/functions)" g
}

test_a_close_after_which_nothing_was_written_does_nothing()
{
	module once f
	: >modules/once/image
	true >>modules/once/image
	exec 3<>modules/once/image
	exec 3>&-
	py <<-END
	fd = os.open("modules/once/image", os.O_WRONLY | os.O_TRUNC)
	os.close(os.dup(fd))
	os.ftruncate(fd, 0)
	os.fsync(fd)
	os.close(fd)
	END
	truncate -s 0 modules/once/image
	is "$(<modules/once/state)" loaded
	is "$(ls modules/once/functions)" f
	is "$(grep -c ' load modules/once ' events)" 1
}

test_the_first_close_after_a_write_loads()
{
	mkdir modules/twice
	ptx f >"$T/k.ptx"
	exec 3>modules/twice/image
	cat "$T/k.ptx" >&3
	is "$(ls modules/twice/functions)" f
	exec 3>&-
	is "$(grep -c ' load modules/twice ' events)" 1
}

test_what_is_written_after_a_close_goes_on_from_there()
{
	mkdir modules/m
	ptx f >"$T/k.ptx"
	ptx g | sed 1,7d >"$T/more"
	py "$T/k.ptx" "$T/more" <<-'END'
	first, more = (open(name, "rb").read() for name in sys.argv[1:])
	fd = os.open("modules/m/image", os.O_WRONLY | os.O_TRUNC)
	os.write(fd, first[:5])
	show(os.close, os.dup(fd))
	os.write(fd, first[5:])
	show(os.close, os.dup(fd))
	print(os.listdir("modules/m/functions"))
	os.write(fd, more)
	show(os.close, fd)
	print(sorted(os.listdir("modules/m/functions")))
	END
	like "$(tail -n 1 errors)" ' modules/m/image ENOEXEC '
	is "$(ls modules/m/functions)" $'f\ng'
}

test_a_descriptor_without_truncation_begins_as_the_image()
{
	module m f
	ptx g | sed 1,7d >>modules/m/image
	is "$(ls modules/m/functions)" $'f\ng'
	printf X | dd of=modules/m/image bs=1 seek=6 conv=notrunc status=none
	like "$(<modules/m/image)" '^//.// X comment'
	is "$(ls modules/m/functions)" $'f\ng'
}

test_truncate_by_name_empties_no_open_image()
{
	module m f
	exec 3>>modules/m/image
	truncate -s 0 modules/m/image
	ptx g | sed 1,7d >&3
	exec 3>&-
	is "$(ls modules/m/functions)" $'f\ng'
}

test_only_the_descriptor_that_is_opened_truncated_begins_empty()
{
	module m f
	ptx g >"$T/g.ptx"
	is "$(py "$T/g.ptx" <<-'END'
	image = open(sys.argv[1], "rb").read()
	held = os.open("modules/m/image", os.O_RDWR)
	fd = os.open("modules/m/image", os.O_RDWR | os.O_TRUNC)
	print(os.pread(fd, 100, 0), len(os.pread(held, 100, 0)))
	os.write(fd, image)
	os.close(fd)
	END
	)" "b'' 100"
	is "$(ls modules/m/functions)" g
}

test_each_descriptor_has_an_image_of_its_own_and_the_last_close_stays()
{
	mkdir modules/m
	ptx f >"$T/f.ptx"
	ptx g >"$T/g.ptx"
	py "$T/f.ptx" "$T/g.ptx" <<'END'
fds = [os.open("modules/m/image", os.O_WRONLY | os.O_TRUNC) for i in range(2)]
images = [open(name, "rb").read() for name in sys.argv[1:]]
for at in range(0, 1000, 10):
    for fd, image in zip(fds, images):
        os.pwrite(fd, image[at:at + 10], at)
os.close(fds[1])
os.close(fds[0])
END
	is "$(ls modules/m/functions)" f
	cmp modules/m/image "$T/f.ptx"
}

test_a_new_image_replaces_the_old()
{
	module m f
	exec 3<modules/m/functions/f/name
	ptx g >modules/m/image
	is "$(ls modules/m/functions)" g
	denied ESTALE 'cat <&3'
	denied ENOENT 'cat modules/m/functions/f/name'
	exec 4<modules/m/image
	ptx h >modules/m/image
	cmp <(ptx g) - <&4
}

test_what_is_no_image_is_refused_and_the_old_one_stays()
{
	module m f
	refused ENOEXEC 'neither a cubin nor a fatbin nor PTX' 'printf garbage | tee modules/m/image'
	refused ENOEXEC 'neither' 'head -c 1M /dev/zero | tee modules/m/image'
	refused ENOEXEC 'neither' 'head -c 1M /dev/urandom | tr "\177\320" xx | tee modules/m/image'
	refused ENOEXEC 'neither' 'printf "// .version 7.0 \n" | tee modules/m/image'
	refused ENOEXEC 'neither' 'printf ".version 7.0\n\0 more" | tee modules/m/image'
	refused ENOEXEC 'machine 62' "$(declare -f elf); elf 62 128 | tee modules/m/image"
	is "$(<modules/m/state)" loaded
	is "$(ls modules/m/functions)" f
	like "$(newest_event)" 'failed modules/m errno=ENOEXEC'
}

test_an_image_that_was_cut_off_is_refused()
{
	module m f
	refused ENOEXEC 'cubin is damaged, or cut off' "$(declare -f elf); elf 190 100 | tee modules/m/image"
	refused ENOEXEC 'cubin is damaged, or cut off' "$(declare -f elf); elf 190 10 | tee modules/m/image"
	refused ENOEXEC 'fatbin is damaged, or cut off' 'printf "\x50\xed\x55\xba\1\0\x10\0\xff\0\0\0\0\0\0\0" | tee modules/m/image'
	refused ENOEXEC 'fatbin is damaged, or cut off' 'printf "\x50\xed\x55\xba" | tee modules/m/image'
	refused ENOEXEC 'wrapper' 'printf "\xb1\x43\x62\x46\1\0\0\0" | tee modules/m/image'
	is "$(ls modules/m/functions)" f
	ptx g | head -c -8 >"$T/cut.ptx"
	refused ENOEXEC 'cuModuleLoadDataEx: CUDA_ERROR' 'cp $T/cut.ptx modules/m/image'
	is "$(ls modules/m/functions)" f
}

test_a_cubin_that_this_device_cannot_run_is_refused()
{
	mkdir modules/m
	refused ENOEXEC 'cubin.*cuModuleLoadDataEx: CUDA_ERROR' \
		"$(declare -f elf); elf 190 128 | tee modules/m/image"
	is "$(<modules/m/state) $(<modules/m/error)" 'failed ENOEXEC'
	is "$(ls modules/m/functions)" ''
}

test_newer_text_is_refused_in_the_compilers_own_words()
{
	mkdir modules/m
	refused ENOEXEC 'PTX.*cuModuleLoadDataEx: CUDA_ERROR_UNSUPPORTED_PTX_VERSION' \
		"$(declare -f ptx); ptx f | sed 's/version 7.0/version 99.0/' | tee modules/m/image"
	is "$(<modules/m/state) $(<modules/m/error)" 'failed ENOEXEC'
}

test_the_compilers_words_are_in_log()
{
	module m f
	refused ENOEXEC 'CUDA_ERROR_INVALID_PTX.*modules/m/log: .*(frobnicate|line)' \
		"$(declare -f ptx); ptx f | sed 's/ret;/frobnicate.u32 %r1;/' | tee modules/m/image"
	like "$(<modules/m/log)" 'frobnicate|line'
	is "$(<modules/m/state)" loaded
	ptx f >modules/m/image
	unlike "$(<modules/m/log)" 'frobnicate'
}

test_an_image_over_the_limit_is_refused()
{
	mkdir modules/big
	refused EFBIG '256 MiB' 'printf x | dd of=modules/big/image bs=1 seek=256M'
	refused EFBIG '256 MiB' 'truncate -s 257M modules/big/image'
	denied EFBIG 'head -c 257M /dev/zero >modules/big/image'
	is "$(<modules/big/state)" none
	is "$(grep -c ' failed modules/big' events || true)" 0
}

test_the_device_is_written_before_the_image()
{
	needs_devices 2
	mkdir modules/m
	refused ENOENT '99' 'echo 99 >modules/m/device'
	refused EINVAL 'first' 'echo first >modules/m/device'
	echo 1 >modules/m/device
	ptx f >modules/m/image
	is "$(<modules/m/device)" 1
	refused EBUSY 'its device' 'echo 0 >modules/m/device'
	is "$(<modules/m/device)" 1
	like "$(value_of modules/m/functions/f/attributes multiprocessors)" '^[0-9]+$'
}

test_rmdir_unloads()
{
	module m f
	exec 3<modules/m/functions/f
	rmdir modules/m
	is "$(ls modules)" ''
	denied ENOENT 'cat modules/m/image'
	module m g
	is "$(ls modules/m/functions)" g
	like "$(<events)" 'remove modules/m'
}

test_what_is_told_in_events()
{
	module m f g
	rmdir modules/m
	like "$(<events)" 'create modules/m uid=[0-9]+'
	like "$(<events)" 'load modules/m format=PTX size=[0-9]+ functions=2'
	like "$(<events)" 'remove modules/m'
}

test_modules_outlive_their_worker()
{
	local worker before file
	file=owners/$(id -u)/worker
	undying
	module m f
	worker=$(<"$file")
	before=$(<modules/m/functions/f/attributes)
	kill -KILL "$worker"
	eventually "[ \"\$(<$file)\" != $worker ]"
	dying
	is "$(<modules/m/state)" loaded
	is "$(<modules/m/functions/f/attributes)" "$before"
	is "$(<modules/m/functions/f/params)" $'0 0 4\n1 4 4\n2 8 8\n3 16 1\n4 24 8'
}

test_a_worker_that_dies_while_it_loads_is_an_error()
{
	mkdir modules/m
	inject 'kill=cuModuleLoadDataEx@*'
	refused EIO 'load of a PTX.*killed' "$(declare -f ptx); ptx f | tee modules/m/image"
	inject
	is "$(<modules/m/state) $(<modules/m/error)" 'failed EIO'
	ptx f >modules/m/image
	is "$(<modules/m/state)" loaded
}

test_memory_that_is_not_there_is_an_error()
{
	mkdir modules/m
	inject 'fail=cuModuleLoadDataEx@*=CUDA_ERROR_OUT_OF_MEMORY'
	refused ENOMEM 'cuModuleLoadDataEx: CUDA_ERROR_OUT_OF_MEMORY' \
		"$(declare -f ptx); ptx f | tee modules/m/image"
}

test_a_slow_load_delays_nobody()
{
	module quick f
	mkdir modules/m
	inject 'delay=cuModuleLoadDataEx@*=2s'
	ptx f >"$T/k.ptx"
	cp "$T/k.ptx" modules/m/image &
	eventually '[ "$(<modules/m/state)" = loading ]'
	refused EBUSY 'being loaded' 'rmdir modules/m'
	is "$(ls modules/quick/functions)" f
	is "$(<modules/m/state)" loading
	wait $!
	is "$(<modules/m/state)" loaded
}

test_an_interrupted_close_lets_the_load_go_on()
{
	local cp
	mkdir modules/m
	inject 'delay=cuModuleLoadDataEx@*=2s'
	ptx f >"$T/k.ptx"
	env --default-signal=INT cp "$T/k.ptx" modules/m/image &
	cp=$!
	eventually '[ "$(<modules/m/state)" = loading ]'
	kill -INT $cp
	fails 'wait $cp'
	is "$(<modules/m/state)" loading
	eventually '[ "$(<modules/m/state)" = loaded ]'
}

test_a_driver_that_cannot_enumerate_is_asked_by_name()
{
	inject 'fail=cuModuleGetFunctionCount@*=CUDA_ERROR_NOT_SUPPORTED'
	module m saxpy zero
	is "$(ls modules/m/functions)" ''
	is "$(<modules/m/functions/saxpy/name)" saxpy
	is "$(ls modules/m/functions)" saxpy
	like "$(<modules/m/functions/zero/params)" '^0 0 4'
	denied ENOENT 'cat modules/m/functions/nothing/name'
	is "$(ls modules/m/functions)" $'saxpy\nzero'
}

test_a_driver_that_cannot_tell_parameters_says_so()
{
	inject 'fail=cuFuncGetParamInfo@*=CUDA_ERROR_NOT_SUPPORTED'
	module m f
	is "$(ls modules/m/functions)" f
	refused EOPNOTSUPP 'cuFuncGetParamInfo' 'cat modules/m/functions/f/params'
}

test_a_long_name_is_cut_and_stands_whole_in_name()
{
	local long short
	long=$(printf 'k%.0s' {1..300})
	module m "$long" "${long}2" plain
	is "$(ls modules/m/functions | wc -l)" 3
	is "$(ls modules/m/functions | awk 'length > 255' | wc -l)" 0
	short=$(ls modules/m/functions | grep '^k' | head -n 1)
	like "$short" '^k{240}~[0-9a-f]+$'
	is "$(sort modules/m/functions/*/name)" "$(printf '%s\n' "$long" "${long}2" plain)"
}

test_a_thousand_functions_are_listed()
{
	local names
	mapfile -t names < <(seq -f 'kernel_with_a_name_of_some_length_%04.0f' 1000)
	mkdir modules/m
	{
		printf '.version 7.0\n.target sm_52\n.address_size 64\n'
		printf '.visible .entry %s() { ret; }\n' "${names[@]}"
	} >modules/m/image
	is "$(ls modules/m/functions | wc -l)" 1000
	is "$(ls modules/m/functions)" "$(printf '%s\n' "${names[@]}")"
	is "$(<"modules/m/functions/${names[999]}/name")" "${names[999]}"
}

test_a_function_that_is_not_there_is_answered_with_those_that_are()
{
	mkdir modules/add modules/none
	ptx _Z3subPfS_i _Z3addPfS_i >modules/add/image
	refused ENOENT "module add has no function 'add'; it has _Z3addPfS_i: C\\+\\+ changes names, extern \"C\" keeps them" \
		'echo "add add grid=1 block=1" >control/launch'
	refused ENOENT "module add has no function 'ad'; it has _Z3...PfS_i and 1 more\$" \
		'echo "add ad grid=1 block=1" >control/launch'
	refused ENOENT "module add has no function '_Z'; " 'echo "add _Z grid=1 block=1" >control/launch'
	printf '.version 7.0\n.target sm_52\n.address_size 64\n' >modules/none/image
	refused ENOENT 'module none has no functions' 'echo "none f grid=1 block=1" >control/launch'
}

test_a_loaded_module_says_how_to_change_its_device()
{
	mkdir modules/m
	refused EINVAL "'x' is not a device: use 0" 'echo x >modules/m/device'
	refused ENOENT 'there is no device 99: use 0' 'echo 99 >modules/m/device'
	ptx f >modules/m/image
	refused EBUSY "module m has been loaded: its device can't change any more; rmdir it and make it again" \
		'echo 0 >modules/m/device'
}

test_a_module_is_its_owners()
{
	needs_root 'several users'
	undying
	by 1001 run "$(declare -f ptx); mkdir modules/m && ptx f | tee modules/m/image >/dev/null"
	is "$(stat -c '%a %u' modules/m modules/m/image)" $'700 1001\n600 1001'
	is "$(<modules/m/owner)" 1001
	by 1002 denied EACCES 'ls modules/m/functions'
	by 1002 denied EACCES 'cat modules/m/status'
	by 1002 denied EACCES 'echo >modules/m/image'
	by 1002 denied EEXIST 'mkdir modules/m'
	by 1002 denied EPERM 'rmdir modules/m'
	is "$(by 1002 run 'ls modules')" m
	is "$(<owners/1001/state)" running
	dying
	# Root may write the image; the module still lives in the owner's worker.
	ptx g >modules/m/image
	is "$(ls modules/m/functions)" g
	by 1001 run 'rmdir modules/m'
}

test_chmod_lets_others_look_and_never_write()
{
	needs_root 'several users'
	by 1001 run "$(declare -f ptx); mkdir modules/m && ptx f | tee modules/m/image >/dev/null"
	by 1001 run 'chmod 666 modules/m/image'
	is "$(stat -c %a modules/m modules/m/image modules/m/functions)" $'755\n644\n555'
	is "$(by 1002 run 'ls modules/m/functions; cat modules/m/functions/f/name')" $'f\nf'
	by 1002 run 'cmp modules/m/image modules/m/image'
	by 1002 denied EACCES 'echo >modules/m/image'
	by 1002 denied EPERM 'chmod 600 modules/m/image'
	refused EPERM 'keeps its owner' 'chown 1002 modules/m'
	by 1001 run 'chmod 600 modules/m'
	by 1002 denied EACCES 'ls modules/m'
}

test_cp_may_keep_mode_and_times()
{
	ptx f >"$T/k.ptx"
	chmod 640 "$T/k.ptx"
	mkdir modules/m
	cp -p "$T/k.ptx" modules/m/image
	is "$(ls modules/m/functions)" f
	is "$(stat -c %a modules/m/image)" 640
}

main "$@"
