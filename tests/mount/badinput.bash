#!/bin/bash
# Bad input. Each failure has its errno and a sentence with the object, the value asked for
# and the object's value.
. "${BASH_SOURCE%/*}/lib.bash"

alloc_refused()
{
	refused "$1" "$2" "printf '%b\n' '$3' >control/alloc"
	is "$(ls allocations)" ''
}

test_a_tag_is_plain_text()
{
	local red
	# ESC [ and its other names: U+009B, and the byte alone; U+2028, U+202E, U+D800, U+110000
	for red in '\033[31m' '\302\23331m' '\23331m' '\340\202\23331m' '\302' 'a\177' \
		'\342\200\250' '\342\200\256' '\355\240\200' '\364\220\200\200'; do
		refused EINVAL 'a tag is one word of at most 255 bytes of UTF-8, without blanks and control characters' \
			"printf 'x 4K tag=${red}red\n' >control/alloc"
	done
	refused EINVAL 'at most 255' "echo x 4K tag=$(printf 't%.0s' {1..256}) >control/alloc"
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
		alloc_refused ENOMEM 'x of 1 TiB: device 0 has .* free of ' "x 1T kind=$kind"
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
	refused EINVAL 'KEY=VALUE' 'echo "=" >control/free'
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
	for name in '/a' 'a/' 'a//b' 'a/../b' 'a/.b' .hidden .. . -x 'a+b' 'a=b' '*' 'a:b' 'ä' "a'b"; do
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
	refused EEXIST 'allocation x is there already \(16 KiB\)' "echo 'x 1T' >control/alloc"
	is "$(<allocations/x/size_bytes)" 16384
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
	fails 'cat "$T/garbage" >control/alloc'
	fails 'cat "$T/garbage" >control/fill'
	fails 'cat "$T/garbage" >control/copy'
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
	cat allocations/x/size_bytes >/dev/null
	rmdir allocations/x
	echo 'x 8192' >control/alloc
	is "$(<allocations/x/size_bytes)" 8192
	cmp allocations/x/data <(head -c 8192 /dev/zero)
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

test_a_name_forges_no_line_of_errors()
{
	fails "mkdir \$'allocations/x\\n2026-01-01T00:00:00Z uid=0 \\e[2J'"
	like "$(tail -n 1 errors)" ' allocations/x\\x0a2026-01-01T00:00:00Z\\x20uid=0\\x20\\x1b\[2J E[A-Z]+ '
}

test_wait_is_zero_or_one()
{
	echo 'x 4096' >control/alloc
	refused EINVAL 'wait' 'echo "x u8:1 wait=maybe" >control/fill'
	echo 'x u8:1 wait=0' >control/fill
	echo default >control/synchronize
}

# says FILE LINE SENTENCE: the line fails with exactly this sentence.
says()
{
	local said
	exec 3<>"$1"
	echo "$2" >&3 2>/dev/null && fail "line ${BASH_LINENO[0]}: succeeded: $2"
	said=$(cat <&3)
	exec 3>&-
	[ "$said" = "$3" ] || fail "line ${BASH_LINENO[0]}: expected:" "$3" "got:" "$said"
}

test_a_sentence_quotes_the_word_and_names_what_is_allowed()
{
	local devices='use 0'
	[ ! -e devices/1 ] || devices='use 0 or 1'
	[ ! -e devices/2 ] || devices="use 0 to $(($(ls devices | wc -l) - 1))"
	says control/alloc 'x 1.5G' "'1.5G' is not a size: use 1536M, 1610612736 or 1024xf32"
	says control/alloc 'x many' "'many' is not a size: use 4096, 4K, 16MiB, 100MB or 1024xf32"
	says control/alloc 'x 1.5' "'1.5' is not a size: use 4096, 4K, 16MiB, 100MB or 1024xf32"
	says control/alloc 'x 4K kind' "'kind' has no value: write kind=VALUE"
	says control/alloc 'x 0' "allocation x can't have size 0: 1 byte is the least"
	says control/alloc 'x 4K kind=gpu' 'kind=gpu is not one of device, direct, async, managed, host'
	says control/alloc 'x 1000 float32' \
		"'float32' is not KEY=VALUE (for a count of floats write 1000xf32)"
	says control/alloc 'x 4K tag=two words' \
		"'words' is not KEY=VALUE (the value in tag=two ends at the blank)"
	says control/copy 'x y' "'y' is not KEY=VALUE: write from=y"
	says control/copy 'x from=y z' \
		"'z' is not KEY=VALUE (the value in from=y ends at the blank)"
	says control/alloc 'x 4K device=gpu0' "'gpu0' is not a device: $devices"
	says control/alloc 'x 4K device=99' "there is no device 99: $devices"
	says control/alloc 'my-weights/layer1 4K' \
		'there is no folder my-weights: mkdir allocations/my-weights makes it'
	says control/alloc 'my-weights//layer1 4K' \
		"'my-weights//layer1' can't be a name: folders and the allocation are names with one '/' between two of them"
	says control/alloc 'x 4K type=device' \
		"there is no key 'type': kind, device, stream, attach, tag, mode, until, map, guard, wait"
	says control/alloc 'x 4K mode=999' 'mode=999 is not an octal mode from 0 to 777, such as 640'
	says control/free 'x y' "'y' is not KEY=VALUE"
	says control/synchronize 'default y' "'y' is one word too many"
	is "$(ls allocations)" ''
}

test_a_sentence_gives_sizes_as_people_read_them()
{
	printf '%s\n' 'a 1M' 'b 2M' 'm 1M kind=managed' >control/alloc
	says control/copy 'a from=b' 'b (2 MiB) does not fit into a (1 MiB): length=1M copies a part'
	says control/copy 'a+512K from=b' \
		'b (2 MiB) does not fit into the rest of a (512 KiB): length=512K copies a part'
	says control/copy 'a from=b length=2M' 'a (1 MiB) has no room for 2 MiB'
	says control/copy 'a+4M from=b' 'offset 4M is past the last byte of a, which has 1 MiB'
	says control/copy 'a+1K from=a length=4K' 'the ranges of a overlap: 4 KiB at offset 0 and at 1K'
	says control/fill 'a f32:1 offset=3' 'offset=3 is not a multiple of 4, the size of f32'
	says control/fill 'a f32:1 length=3' 'length=3 is not a multiple of 4, the size of f32'
	says control/fill 'a u8:1 offset=1K length=1M' 'a (1 MiB) has no room for 1 MiB at offset 1K'
	says control/fill 'a u8:1 offset=1M' 'offset 1M is past the last byte of a, which has 1 MiB'
	says control/fill 'a 7' "'7' is not TYPE:VALUE, such as f32:1.5; the types are i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64"
	says control/prefetch 'a cpu' 'allocation a has kind=device: prefetch is for kind=managed'
	says control/prefetch 'm gpu' "'gpu' is not a location: use cpu, numa:N or device:N"
}

test_what_is_fixed_by_use_says_how_to_begin_anew()
{
	local again="can't change any more; rmdir it and make it again"
	echo 'a 4K' >control/alloc
	mkdir streams/s1
	refused EINVAL "'high' is not a priority: use a number from -1000 to 1000" \
		'echo high >streams/s1/priority'
	refused EINVAL "'first' is not a device: use 0" 'echo first >streams/s1/device'
	echo 'a u8:1 stream=s1' >control/fill
	refused EBUSY "stream s1 is in use: its device $again" 'echo 0 >streams/s1/device'
}

test_host_memory_that_the_machine_has_not()
{
	local kib
	kib=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
	alloc_refused ENOMEM 'h of .* of host memory' "h ${kib}K kind=host"
}

main "$@"
