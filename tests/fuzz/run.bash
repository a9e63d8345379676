#!/bin/bash
# Runs a fuzz target: first its kept corpus, then new inputs by libFuzzer.
#
#     bash tests/fuzz/run.bash build-address/tests/fuzz/ptx
#
# Environment: GPUMEM_FUZZ_SECONDS, the seconds of libFuzzer (15); GPUMEM_FUZZ_FOUND, a
# folder for new inputs (none). The output is TAP; a finding is printed with its input and
# with the commands that run the input again.
program=$(realpath "$1")
target=${program##*/}
here=$(dirname "$(realpath "$0")")
seconds=${GPUMEM_FUZZ_SECONDS:-15}
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumem.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
found=${GPUMEM_FUZZ_FOUND:-$folder/found}
mkdir -p "$found" "$folder/bad"

options=(-artifact_prefix="$folder/bad/" -timeout=20 -rss_limit_mb=2048 -max_len=16384
	-print_final_stats=1)
[ ! -e "$here/$target.dict" ] || options+=("-dict=$here/$target.dict")

# report NUMBER NAME: prints a TAP line for the exit status of the command before.
report()
{
	local status=$? input
	if [ "$status" = 0 ]; then
		echo "ok $1 - $2"
		return
	fi
	echo "not ok $1 - $2"
	{
		grep -vE '^(#[0-9]|INFO:|NEW_FUNC|Running: |Executed )' "$folder/said" | head -n 60
		for input in "$folder"/bad/*; do
			[ -e "$input" ] || continue
			echo "Again:"
			echo "base64 -d >/tmp/${input##*/} <<END"
			base64 "$input"
			echo END
			echo "$program /tmp/${input##*/}"
			rm "$input"
		done
	} | sed 's/^/#   /'
	failed=1
}

failed=0
echo 1..2
kept=("$here/corpus/$target"/*)
"$program" "${options[@]}" "${kept[@]}" >"$folder/said" 2>&1 </dev/null
report 1 "the ${#kept[@]} kept inputs of $target do no harm"
"$program" "${options[@]}" -max_total_time="$seconds" "$found" "$here/corpus/$target" \
	>"$folder/said" 2>&1 </dev/null
report 2 "new inputs of $target do no harm"
awk '/^Done|^stat::(number_of_exec|new_units)/ { print "# " $0 }' "$folder/said"
exit "$failed"
