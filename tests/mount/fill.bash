#!/bin/bash
# Fill: every type, every way to write a value, every range.
. "${BASH_SOURCE%/*}/lib.bash"

# filled VALUE OD-FORMAT EXPECTED: fills a fresh allocation with VALUE and compares all of it.
filled()
{
	echo "x $1" >control/fill || fail "refused: $1: $(tail -n 1 errors)"
	is "$1 = $(od -A n -v -t "$2" allocations/x/data | tr -s ' ' '\n' | sort -u | xargs)" "$1 = $3"
}

test_every_type_fills()
{
	echo 'x 4096' >control/alloc
	filled i8:-5 d1 -5
	filled u8:200 u1 200
	filled i16:-30000 d2 -30000
	filled u16:65535 u2 65535
	filled i32:-2000000000 d4 -2000000000
	filled u32:4000000000 u4 4000000000
	filled i64:-9000000000000000000 d8 -9000000000000000000
	filled u64:18000000000000000000 u8 18000000000000000000
	filled f16:1.5 x2 3e00
	filled bf16:1.5 x2 3fc0
	filled f32:1.5 f4 1.5
	filled f64:0.1 f8 0.1
	filled hex:deadbeef x1 'ad be de ef'
}

test_every_kind_is_filled()
{
	local kind
	for kind in $kinds; do
		echo "x 3000000 kind=$kind" >control/alloc
		echo 'x u32:16909060' >control/fill
		is "$(od -A n -v -t x4 allocations/x/data | tr -s ' ' '\n' | sort -u | xargs)" 01020304
		rmdir allocations/x
	done
}

test_values_may_be_written_as_c_does()
{
	echo 'x 4096' >control/alloc
	filled u8:0xff u1 255
	filled u32:0xdeadbeef x4 deadbeef
	filled i32:-0x10 d4 -16
	filled f32:1e3 f4 1000
	filled f32:-.5 f4 -0.5
	filled f32:0x1p-2 f4 0.25
	filled f32:nan f4 nan
	filled f32:inf f4 inf
	filled f64:-inf f8 -inf
	filled f32:3 f4 3
	filled f64:-0.0 x8 8000000000000000
	filled f16:65504 x2 7bff
	filled f16:inf x2 7c00
}

test_a_range_is_filled_and_nothing_else()
{
	local kind range
	for kind in $kinds; do
		echo "x 100000 kind=$kind" >control/alloc
		for range in 0:1 1:3 4095:2 777:55555 99999:1; do
			echo 'x u8:0' >control/fill
			echo "x u8:9 offset=${range%:*} length=${range#*:}" >control/fill
			cmp allocations/x/data <(head -c "${range%:*}" /dev/zero
				head -c "${range#*:}" /dev/zero | tr '\0' '\11'
				head -c $((100000 - ${range%:*} - ${range#*:})) /dev/zero) ||
				fail "$kind $range"
		done
		rmdir allocations/x
	done
}

test_an_offset_alone_fills_to_the_end()
{
	echo 'x 4096' >control/alloc
	echo 'x u32:7 offset=1K' >control/fill
	cmp -n 1024 allocations/x/data /dev/zero
	is "$(od -A n -v -t u4 -j 1024 allocations/x/data | tr -s ' ' '\n' | sort -u | xargs)" 7
}

test_a_range_must_hold_whole_values()
{
	echo 'x 4098' >control/alloc
	refused EINVAL '4098 bytes, not a multiple of 4, the size of u32' "echo 'x u32:7' >control/fill"
	is_zero allocations/x/data
	echo 'x u32:7 length=4096' >control/fill
	refused EINVAL '6' "echo 'x u32:7 length=6' >control/fill"
}

test_a_fill_that_does_not_wait_is_seen_by_the_next_read()
{
	mkdir streams/s
	echo 'x 4000000' >control/alloc
	echo 'x u8:3 stream=s wait=0' >control/fill
	is "$(od -A n -t u1 -N 1 -j 3999999 allocations/x/data | xargs)" 3
	echo s >control/synchronize
}

test_values_that_do_not_fit_are_refused()
{
	local value
	echo 'x 4096' >control/alloc
	for value in u8:256 u8:-1 i8:128 u16:65536 i32:2147483648 u64:18446744073709551616 \
		u32:1.5 u32: u32:x f32:one f32: hex:1 hex: hex:xy nosuch:1 7 :1 u32; do
		refused EINVAL "${value//[.:]/.}|value" "echo 'x $value' >control/fill"
	done
	is_zero allocations/x/data
}

test_fill_ranges_are_checked()
{
	echo 'x 4096' >control/alloc
	refused ERANGE 'offset 4K.* x, .*4 KiB' "echo 'x u8:1 offset=4096 length=1' >control/fill"
	refused ERANGE 'x \(4 KiB\) has no room for 4097 bytes' "echo 'x u8:1 length=4097' >control/fill"
	refused ERANGE 'offset 5000 .* x' "echo 'x u8:1 offset=5000' >control/fill"
	refused EOVERFLOW '64 bits' "echo 'x u8:1 offset=18446744073709551615 length=2' >control/fill"
	refused ENOENT 'nothing' "echo 'nothing u8:1' >control/fill"
	refused EINVAL 'TYPE:VALUE.hex:BYTES is missing' "echo 'x' >control/fill"
	is_zero allocations/x/data
}

main "$@"
