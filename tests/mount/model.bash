#!/bin/bash
# `data` against a model: model.py does random operations of every kind and compares the
# bytes with a copy in its own memory.
#
# Environment: GPUMEM_MODEL_SECONDS, seconds for each kind (4); GPUMEM_MODEL_SEED, to repeat
# an earlier run.
export GPUMEM_CASE_LIMIT=${GPUMEM_CASE_LIMIT:-$((${GPUMEM_MODEL_SECONDS:-4} + 60))}
. "${BASH_SOURCE%/*}/lib.bash"

model()
{
	python3 "$here/model.py" "$1" "${GPUMEM_MODEL_SECONDS:-4}" ${GPUMEM_MODEL_SEED-}
	is "$(ls allocations modules)" $'allocations:\n\nmodules:'
}

test_device_memory_agrees_with_the_model()
{
	model device
}

test_host_memory_agrees_with_the_model()
{
	model host
}

test_direct_memory_agrees_with_the_model()
{
	model direct
}

test_async_memory_agrees_with_the_model()
{
	model async
}

test_managed_memory_agrees_with_the_model()
{
	model managed
}

main "$@"
