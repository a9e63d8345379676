#!/bin/bash
# Programs of the CUDA runtime don't run on the software GPU. Each program gets a single
# line about the missing call on stderr, and the runtime's error from its first call.
#
#     runtime.bash LIBRARY PROGRAM...

library=$1
shift
said=$(mktemp)
trap 'rm "$said"' EXIT
# In a build with a sanitizer, the sanitizer's library must be loaded first.
preload=$(ldd "$library" | grep -oE '/[^ ]*lib[at]san[^ ]*')
export LD_LIBRARY_PATH=${library%/*}:$LD_LIBRARY_PATH ASAN_OPTIONS=detect_leaks=0
export GPUMEM_SOFTGPU=machine=runtime-$$

failed=0
number=0
# check NAME COMMAND...
check()
{
	number=$((number + 1))
	if "${@:2}"; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		printf '# returned %s, said:\n' "$status"
		sed 's/^/# /' "$said"
		failed=1
	fi
}

refused()
{
	[ "$status" -eq 1 ] &&
		grep -qx 'cudaMallocManaged.*: cudaErrorSymbolNotFound' "$said" &&
		[ "$(grep -c '^software GPU: .*CUDA runtime.*cuGetExportTable' "$said")" -eq 1 ]
}

echo "1..$#"
for program; do
	LD_PRELOAD=$preload "$program" >"$said" 2>&1
	status=$?
	check "${program##*/} is told which call is missing" refused
done
exit $failed
