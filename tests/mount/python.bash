#!/bin/bash
# The Python package: each function test_NAME of tests/python/*.py is a case and runs in a
# separate process.
. "${BASH_SOURCE%/*}/lib.bash"

python_cases=("$here"/../python/*.py)

export GPUMEM_PYTHON=${GPUMEM_PYTHON:-$(python_with_numpy)} # found once for all cases

python_case()
{
	export GPUMEM_LIBRARY=$build/broker/client/libgpumem.so.0
	export PYTHONPATH=$here/../../tools/python
	on_driver env "LD_PRELOAD=$(sanitizers)" "$GPUMEM_PYTHON" -X faulthandler \
		"$(grep -l "^def test_$1(" "${python_cases[@]}")" "$1" || exit
}

cases()
{
	sed -n 's/^def test_\([a-z0-9_]*\)(.*/\1/p' "${python_cases[@]}" | grep -E -e "${GPUMEM_CASE:-.}"
}

for name in $(cases); do
	eval "test_$name() { python_case $name; }"
done

main "$@"
