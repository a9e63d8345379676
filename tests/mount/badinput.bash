#!/bin/bash
# Bad input: each with its error number, and a sentence that names the object, the value
# asked for and the value there.
. "${BASH_SOURCE%/*}/lib.bash"

alloc_refused()
{
	refused "$1" "$2" "printf '%b\n' '$3' >control/alloc"
	is "$(ls allocations)" ''
}

test_a_tag_is_plain_text()
{
	refused EINVAL 'tag= wants up to 255 characters, none of them a control' \
		"printf 'x 4K tag=\\033[31mred\\n' >control/alloc"
	refused EINVAL 'tag= wants up to 255' "echo x 4K tag=$(printf 't%.0s' {1..256}) >control/alloc"
	echo "x 4K tag=$(printf 't%.0s' {1..252})é" >control/alloc
	like "$(<allocations/x/tag)" '^t+é$'
}

test_a_size_of_zero()
{
	alloc_refused EINVAL 'x.*0|0.*x' 'x 0'
	alloc_refused EINVAL '0K|x' 'x 0K'
}

test_a_negative_size()
{
	alloc_refused EINVAL '-1' 'x -1'
	alloc_refused EINVAL '-4096' 'x -4096'
}

test_a_size_that_is_no_number()
{
	local size
	for size in big 4Q 4KK 1.5M 4096x 4096xf33 xf32 1e6 '"4096"' 4096,; do
		alloc_refused EINVAL "${size//[^A-Za-z0-9]/.}" "x $size"
	done
}

test_a_size_that_does_not_fit_64_bits()
{
	alloc_refused EOVERFLOW '4611686018427387905xf32' 'x 4611686018427387905xf32'
	alloc_refused EOVERFLOW '18446744073709551616' 'x 18446744073709551616'
	alloc_refused EOVERFLOW '18446744073709551615xu16' 'x 18446744073709551615xu16'
	alloc_refused EOVERFLOW '16777216T' 'x 16777216T'
}

test_a_size_larger_than_the_device()
{
	local kind
	for kind in device direct async; do
		alloc_refused ENOMEM 'x.*1099511627776.*[0-9]+|1099511627776.*x' "x 1T kind=$kind"
		like "$(tail -n 1 errors)" 'free|left'
	done
}

test_sizes_near_the_end_of_64_bits_are_only_too_large()
{
	alloc_refused ENOMEM 'x' 'x 18446744073709551615'
	alloc_refused ENOMEM 'x' 'x 18446744073709551615 kind=host'
	alloc_refused ENOMEM 'x' 'x 9223372036854775808 kind=direct'
	alloc_refused ENOMEM 'x' 'x 9223372036854775807 kind=async'
}

test_an_unknown_key()
{
	alloc_refused EINVAL 'colour' 'x 4096 colour=red'
	alloc_refused EINVAL 'extra' 'x 4096 extra'
}

test_a_key_given_twice()
{
	alloc_refused EINVAL 'device' 'x 4096 device=0 device=0'
}

test_a_missing_operand()
{
	alloc_refused EINVAL 'size|SIZE' 'x'
	refused EINVAL 'name|NAME' 'echo "=" >control/free'
	refused EINVAL '[a-z]' 'echo "x y" >control/free'
}

test_bad_values_of_keys()
{
	alloc_refused EINVAL 'kind.*soft|soft.*kind' 'x 4096 kind=soft'
	alloc_refused EINVAL 'kind' 'x 4096 kind='
	alloc_refused EINVAL 'device.*first|first' 'x 4096 device=first'
	alloc_refused EINVAL 'device|-1' 'x 4096 device=-1'
	alloc_refused EINVAL 'mode.*999|999' 'x 4096 mode=999'
	alloc_refused EINVAL 'mode|7777' 'x 4096 mode=7777'
	alloc_refused EINVAL 'until' 'x 4096 until=morning'
	alloc_refused EINVAL 'attach' 'x 4096 attach=global'
	alloc_refused EINVAL 'stream' 'x 4096 kind=device stream=default'
}

test_bad_names()
{
	local name
	for name in 'a/b' .hidden .. . -x 'a+b' 'a=b' '*' 'a:b' 'ä' "a'b"; do
		refused EINVAL . "printf '%s\n' \"$name 4096\" >control/alloc"
	done
	is "$(ls -A allocations)" ''
}

test_a_name_too_long()
{
	alloc_refused ENAMETOOLONG '64|65' "$(printf 'n%.0s' {1..65}) 4096"
}

test_a_name_that_is_taken()
{
	echo 'x 16384' >control/alloc
	refused EEXIST 'x.*16384' "echo 'x 1T' >control/alloc"
	is "$(<allocations/x/size)" 16384
}

test_no_such_device()
{
	alloc_refused ENOENT 'device.*99|99' 'x 4096 device=99'
	alloc_refused ENOENT '4000000000' 'x 4096 device=4000000000'
}

test_no_such_stream()
{
	alloc_refused ENOENT 'nothing' 'x 4096 kind=async stream=nothing'
	refused ENOENT 'nothing' 'echo nothing >control/synchronize'
}

test_no_such_allocation()
{
	refused ENOENT 'nothing' 'echo nothing >control/free'
	refused ENOENT 'nothing' 'echo "nothing u8:1" >control/fill'
	denied ENOENT 'rmdir allocations/nothing'
}

test_nul_and_binary_garbage()
{
	alloc_refused EINVAL . 'x 40\00096'
	alloc_refused EINVAL . '\0001\0002\0377\0376 4096'
	head -c 3000 /dev/urandom | tr -d '\n' >"$T/garbage"
	denied EINVAL "printf '%s' garbage! >control/alloc"
	! cat "$T/garbage" >control/alloc 2>/dev/null
	! cat "$T/garbage" >control/fill 2>/dev/null
	! cat "$T/garbage" >control/copy 2>/dev/null
	is "$(ls allocations)" ''
	is "$(cat errors | tr -d '[:print:]\n' | wc -c)" 0
	echo 'x 4096' >control/alloc
}

test_garbage_of_every_size_breaks_nothing()
{
	py <<-'EOF'
		import random
		dice = random.Random(7)
		words = [b"x", b"y", b"4096", b"=", b"from=", b"from=x", b"u8:1", b"f32:nan", b"-", b"+",
		         b"x+1", b"x+", b"offset=", b"length=1", b"wait=0", b"wait=2", b"\0", b"\xff",
		         b"kind=host", b"kind", b"99999999999999999999", b"default", b"stream=default"]
		for verb in ("alloc", "free", "fill", "copy"):
		    fd = control(verb)
		    for _ in range(600):
		        line = b" ".join(dice.choice(words) for _ in range(dice.randrange(7)))
		        attempt(os.write, fd, line + dice.choice((b"", b"\n", b"\nx\n")))
		        if dice.random() < 0.1:
		            answer(fd)
	EOF
	[ -e version ]
}

test_use_after_free_through_an_open_descriptor()
{
	local kind
	for kind in $kinds; do
		echo "x 4096 kind=$kind" >control/alloc
		is "$(py <<-'EOF'
			fd = os.open("allocations/x/data", os.O_RDWR)
			os.rmdir("allocations/x")
			show(os.pread, fd, 10, 0)
			show(os.pwrite, fd, b"a", 0)
			os.write(control("alloc"), b"x 4096")
			show(os.pread, fd, 10, 0)
			show(os.pwrite, fd, b"a", 0)
			os.rmdir("allocations/x")
		EOF
		)" $'ESTALE\nESTALE\nESTALE\nESTALE'
		like "$(tail -n 1 errors)" ' ESTALE .*x'
	done
}

test_an_attribute_of_a_name_that_was_used_again_is_the_new_ones()
{
	echo 'x 4096' >control/alloc
	cat allocations/x/size >/dev/null
	rmdir allocations/x
	echo 'x 8192' >control/alloc
	is "$(<allocations/x/size)" 8192
	cmp allocations/x/data <(head -c 8192 /dev/zero)
}

test_mkdir_in_allocations_is_eperm_and_points_to_alloc()
{
	refused EPERM 'control/alloc' 'mkdir allocations/x'
	is "$(ls allocations)" ''
}

test_a_file_that_cannot_be_made_is_named_whole()
{
	local path paths='allocations/b/zz allocations/zz'
	[ "$(id -u)" != 0 ] || paths+=' control/zz zz'
	echo 'b 4096' >control/alloc
	for path in $paths; do
		refused EPERM 'no files are made here' "touch $path"
		like "$(tail -n 1 errors)" " $path EPERM "
	done
	mv allocations/b allocations/c
	refused EPERM 'directories' 'mkdir allocations/c/zz'
	like "$(tail -n 1 errors)" ' allocations/c/zz EPERM '
}

test_the_same_failure_twice_is_two_lines()
{
	is "$(py <<-'EOF'
		fd = control("alloc")
		before = open("errors").read().count("\n")
		show(os.write, fd, b"x 0\n")
		show(os.write, fd, b"x 0\n")
	EOF
	)" $'EINVAL\nEINVAL'
}

test_synchronize_is_checked()
{
	refused EINVAL . 'echo "default extra" >control/synchronize'
	refused EINVAL . 'echo 2 >streams/default/synchronize' || true
}

test_wait_is_zero_or_one()
{
	echo 'x 4096' >control/alloc
	refused EINVAL 'wait' 'echo "x u8:1 wait=maybe" >control/fill'
	echo 'x u8:1 wait=0' >control/fill
	echo default >control/synchronize
}

test_host_memory_that_the_machine_has_not()
{
	local kib
	kib=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
	alloc_refused ENOMEM 'h of [0-9]+ bytes of host memory' "h ${kib}K kind=host"
}

main "$@"
