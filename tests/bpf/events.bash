#!/bin/bash
# Events: each call with its arguments, result and effect.
. "${BASH_SOURCE%/*}/lib.bash"

test_device_memory_with_arguments_and_what_is_held()
{
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemAlloc_v2 &b 1048576
		cuMemFree_v2 \$a
		cuMemFree_v2 \$b
	EOF
	check <<-EOF
		a, b = calls("cuMemAlloc_v2")
		has(a, bytesize=4096, kind="device", held=4096, result="CUDA_SUCCESS")
		has(b, bytesize=1048576, kind="device", held=1052672)
		c, d = calls("cuMemFree_v2")
		has(c, dptr=a["dptr"], freed=4096, held=1048576)
		has(d, dptr=b["dptr"], freed=1048576, held=0)
		has(one("exit"), freed=0, n_freed=0)
		same(len(E), 5)
		same(all(row["duration_ns"] > 0 for row in E if row["call"] != "exit"), True)
		same(LOST, [])
	EOF
}

test_a_failed_call_books_nothing()
{
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 0x1000000000000
		cuMemAlloc_v2 &b 8192
		cuMemFree_v2 12345
	EOF
	check <<-EOF
		a, b = calls("cuMemAlloc_v2")
		has(a, result="CUDA_ERROR_OUT_OF_MEMORY", bytesize=0x1000000000000)
		lacks(a, "dptr", "held", "kind")
		has(b, held=8192)
		has(one("cuMemFree_v2"), result="CUDA_ERROR_INVALID_VALUE", dptr="0x3039")
		has(one("exit"), freed=8192, n_freed=1, device=8192)
		has(S["cuMemAlloc_v2"], calls=2, failures=1, bytes=8192,
		    results={"CUDA_ERROR_OUT_OF_MEMORY": 1})
	EOF
}

test_lines_have_the_same_for_people()
{
	trace -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemAlloc_v2 &b 0x1000000000000
	EOF
	like "$(sed -n 1p "$T/out")" '^TIME\(s\) +PID +TID +COMM +CALL +RESULT +LAT\(us\) +ARGUMENTS$'
	like "$(sed -n 2p "$T/out")" 'cuMemAlloc_v2 +CUDA_SUCCESS .* dptr=0x[0-9a-f]+ bytesize=4096 kind=device held=4096$'
	like "$(sed -n 3p "$T/out")" 'cuMemAlloc_v2 +CUDA_ERROR_OUT_OF_MEMORY .* bytesize=281474976710656$'
	like "$(sed -n 4p "$T/out")" ' exit +freed 1 allocation, 4096 bytes device=4096$'
	# in the columns of the heading
	local heading line
	heading=$(sed -n '1s/ARGUMENTS.*//p' "$T/out")
	for line in 2 3 4; do
		like "$(sed -n "${line}p" "$T/out" | cut -c "${#heading}"-)" '^ [a-z]'
	done
	is "$(wc -l <"$T/out")" 4
}

test_copies_and_launches_are_summed_at_the_end_of_the_lines()
{
	L=$P
	trace <<-EOF
		cuMemAlloc_v2 &a 4096
		cuMemcpyHtoD_v2_ptds \$a 1 100
		cuMemcpyHtoD_v2_ptds \$a 1 200
		cuLaunchKernel 1 1 1 1 1 1 1 0 0 0 0
	EOF
	is "$(grep -c 'cuMemcpy\|cuLaunch' "$T/out")" 2
	like "$(grep ^COUNTED "$T/out")" '^COUNTED +CALLS +FAILED +BYTES +TIME\(ms\)$'
	like "$(grep ^cuMemcpyHtoD_v2_ptds "$T/out")" '^cuMemcpyHtoD_v2_ptds +2 +0 +300 '
	like "$(grep ^cuLaunchKernel "$T/out")" '^cuLaunchKernel +1 +0 +0 '
}

main "$@"
