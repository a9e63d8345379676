#!/bin/bash
# On a machine with a GPU: the tool's figures for real programs on the real driver, compared
# with the programs' own counters. As root, by hand:
#
#	GPUMEM_TRACE=build/bpf/gpumem-trace bash tests/bpf/gpu.bash [CASE...]
#
# A case is skipped, with a line, if its program (nvcc, PyTorch, CuPy, GPUMEMD) is missing.
# If libbpf, libelf or libdw are not installed, put them into a folder and name the folder
# in GPUMEM_TRACE_LIBRARIES: only the tool, not the traced programs, gets these libraries.
GPUMEM_CASE_LIMIT=${GPUMEM_CASE_LIMIT:-300}
. "${BASH_SOURCE%/*}/lib.bash"

# The tool without a shell around it, so that signals reach the tool.
the_tool=("$GPUMEM_TRACE")
[ -z "${GPUMEM_TRACE_LIBRARIES-}" ] ||
	the_tool=(env "LD_LIBRARY_PATH=$GPUMEM_TRACE_LIBRARIES" "$GPUMEM_TRACE")

# traced OPTION... -- COMMAND...: runs the command under the tool. $T/said.by gets the
# command's output, $T/out the tool's lines.
traced()
{
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"${the_tool[@]}" "${options[@]}" -- env -u LD_LIBRARY_PATH ${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} \
		bash -c 'exec "${@:2}" >"$1"' - "$T/said.by" "$@" >"$T/out" 2>"$T/err" ||
		fail "the tool ended with $?" "$(<"$T/err")" "$(tail -n 5 "$T/out")"
	unlike "$(<"$T/err")" 'gpumem-trace: [0-9]+ '
}

needs_python()
{
	python3 -c "import $1" 2>/dev/null || skip "there is no python3 with $1"
}

# compiled RUNTIME: $T/program from gpu.cu on the static or the shared runtime.
compiled()
{
	local nvcc
	nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || skip 'there is no nvcc'
	"$nvcc" -O1 -cudart "$1" -o "$T/program" "$here/gpu.cu" >"$T/nvcc" 2>&1 ||
		skip "nvcc does not work here: $(tail -n 1 "$T/nvcc")"
}

test_the_real_driver_has_the_calls()
{
	"${the_tool[@]}" --list >"$T/list" || fail 'no libcuda.so.1 found'
	local n
	n=$(grep -c ' found' "$T/list")
	[ "$n" -ge 100 ] || fail "only $n calls are found:" "$(<"$T/list")"
	for call in cuMemAlloc_v2 cuMemFree_v2 cuMemAllocManaged cuMemAllocAsync cuMemCreate \
		cuMemMap cuMemPrefetchAsync_v2 cuMemAdvise_v2 cuLaunchKernel cuLibraryLoadData; do
		like "$(grep " $call " "$T/list")" ' found'
	done
	"${the_tool[@]}" -v -d 0.1 >/dev/null 2>"$T/err"
	cat "$T/err"
	like "$(<"$T/err")" 'attached in 0\.[0-9]+ s'
}

runtime()
{
	compiled "$1"
	traced --json -- "$T/program" all
	check <<-EOF
		MIB = 1 << 20
		sizes = sorted(row["bytesize"] for row in calls("cuMemAlloc_v2") if row["result"] == "CUDA_SUCCESS")
		for size in (3 * MIB, 5 * MIB, 7 * MIB):
		    same(size in sizes, True, f"cudaMalloc of {size} in {sizes}")
		has(calls("cuMemAlloc_v2")[-1], result="CUDA_ERROR_OUT_OF_MEMORY", bytesize=1 << 50)
		has(one("cuMemAllocManaged"), bytesize=11 * MIB, kind="managed", held=11 * MIB)
		pool = [row for name in ("cuMemAllocAsync", "cuMemAllocAsync_ptsz") for row in calls(name)]
		same([row["bytesize"] for row in pool], [13 * MIB])
		pinned = [row for name in ("cuMemHostAlloc", "cuMemAllocHost_v2") for row in calls(name)]
		same(17 * MIB in [row["bytesize"] for row in pinned], True, "cudaMallocHost")
		frees = [row for row in calls("cuMemFree_v2") if row.get("freed") == 5 * MIB]
		same(len(frees), 1, "cudaFree of 5 MiB")
		prefetch = [row for row in E if row["call"].startswith("cuMemPrefetchAsync")]
		same([(row["count"], row.get("location", row.get("dstDevice"))) for row in prefetch],
		     [(11 * MIB, "device:0"), (11 * MIB, "cpu")])
		advice = [row for row in E if row["call"].startswith("cuMemAdvise")]
		same([row["advice"] for row in advice], ["set_read_mostly"])
		end = one("exit")
		same(end["managed"], 11 * MIB)
		same(end["pool"], 13 * MIB)
		same(end["device"] >= 10 * MIB, True, end)
		launches = sum(S[name]["calls"] for name in S if name.startswith("cuLaunchKernel"))
		same(launches, 1000, "kernels")
	EOF
}

test_the_static_runtime()
{
	runtime static
}

test_the_shared_runtime()
{
	runtime shared
}

test_launches_one_by_one_have_their_names()
{
	compiled static
	traced --json -e launch -- "$T/program" launch
	check <<-EOF
		rows = [row for row in E if row["call"].startswith("cuLaunchKernel")]
		same(len(rows), 1000)
		same({(row["gridDimX"], row["blockDimX"]) for row in rows}, {(4, 64)})
		print("function:", {row["f"] for row in rows})
	EOF
}

# The runtime resets through a private table of the driver, without a symbol to probe. So
# the tool does not see the reset (docs/tracing.md) and shows the memory until exit.
test_a_reset_by_the_runtime_is_not_seen()
{
	compiled static
	traced --json -- "$T/program" reset
	cat "$T/said.by" # free bytes as the driver says, before and after
	check <<-EOF
		same([row for row in E if row["call"].startswith("cuDevicePrimaryCtxRe") and "freed" in row], [])
		has(one("exit"), device=256 << 20, pool=512 << 20)
	EOF
}

# torch ALLOCATOR KIND COUNTER: the tool's peak of KIND equals the allocator's COUNTER.
torch()
{
	needs_python torch
	PYTORCH_CUDA_ALLOC_CONF=$1 traced --json -- python3 "$here/gpu_torch.py"
	check <<-EOF
		judge = json.load(open("$T/said.by"))
		held = [row["held"] for row in E if row.get("kind") == "$2"]
		same(max(held), judge["$3"], "peak of $2")
		print("$2", max(held), judge)
		if "$2" == "device":
		    made = [row for row in calls("cuMemAlloc_v2") if row["result"] == "CUDA_SUCCESS"]
		    same(len(made), judge["segments"], "segments")
	EOF
}

test_pytorch_with_its_own_allocator()
{
	torch backend:native device reserved_peak
}

test_pytorch_with_pools()
{
	torch backend:cudaMallocAsync pool allocated_peak
}

test_pytorch_with_expandable_segments()
{
	torch expandable_segments:True vmm reserved_peak
}

test_pytorch_summary_leaks_and_chrome()
{
	needs_python torch
	traced --summary -- python3 "$here/gpu_torch.py" train
	cat "$T/out" | head -n 30
	like "$(grep '^cuLaunchKernel' "$T/out" | head -1)" '^cuLaunchKernel[A-Za-z]* +[1-9]'
	like "$(grep '^cuMemAlloc_v2' "$T/out" | head -1)" '^cuMemAlloc_v2 +[1-9]'

	traced --leaks -s -- python3 "$here/gpu_torch.py"
	head -n 20 "$T/out"
	like "$(head -n 1 "$T/out")" 'ended holding [0-9]+ allocations?: .*device'
	like "$(<"$T/out")" '\(lib(cudart|c10_cuda|torch)'

	traced --chrome "$T/trace.json" -- python3 "$here/gpu_torch.py"
	python3 - "$T/trace.json" "$T/said.by" <<-'EOF'
		import json, sys
		events = json.load(open(sys.argv[1]))["traceEvents"]
		judge = json.load(open(sys.argv[2]))
		held = [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["name"] == "device"]
		made = [e for e in events if e["ph"] == "X" and e["name"] == "cuMemAlloc_v2"]
		made = [e for e in made if e["args"]["result"] == "CUDA_SUCCESS"]
		assert max(held) == judge["reserved_peak"], (max(held), judge)
		assert len(made) == judge["segments"], (len(made), judge)
	EOF
}

test_cupy()
{
	needs_python cupy
	traced --json -- python3 -c '
import cupy
pool = cupy.get_default_memory_pool()
arrays = [cupy.empty(n << 20, dtype=cupy.uint8) for n in (1, 2, 30, 4)]
print(pool.total_bytes())'
	check <<-EOF
		held = [row["held"] for row in E if row.get("kind") == "device"]
		same(max(held), int(open("$T/said.by").read()), "the pool's bytes")
	EOF
}

test_numba()
{
	needs_python numba.cuda
	traced --json -- python3 -c '
from numba import cuda
import numpy
a = cuda.device_array(3 << 20, dtype=numpy.uint8)
b = cuda.managed_array(5 << 20, dtype=numpy.uint8)
c = cuda.pinned_array(7 << 20, dtype=numpy.uint8)'
	check <<-EOF
		same(3 << 20 in [row["bytesize"] for row in calls("cuMemAlloc_v2")], True, "device_array")
		same(5 << 20 in [row["bytesize"] for row in calls("cuMemAllocManaged")], True, "managed_array")
		same(7 << 20 in [row["bytesize"] for row in calls("cuMemHostAlloc") + calls("cuMemAllocHost_v2")], True, "pinned_array")
	EOF
}

test_the_brokers_allocations()
{
	[ -n "${GPUMEMD-}" ] || skip 'GPUMEMD does not say where the broker is'
	mkdir "$T/mnt"
	env -u LD_LIBRARY_PATH ${GPUMEM_TRACE_LIBRARIES:+"LD_LIBRARY_PATH=$GPUMEM_TRACE_LIBRARIES"} \
		"$GPUMEMD" -f "$T/mnt" >"$T/broker" 2>&1 &
	local broker=$!
	mounted=("$T/mnt")
	eventually "[ -e '$T/mnt/control/alloc' ] || ! kill -0 $broker"
	kill -0 "$broker" || fail 'the broker did not start' "$(<"$T/broker")"
	"${the_tool[@]}" -v >"$T/out" 2>"$T/err" &
	tool=$!
	attached
	echo 'scratch 64M kind=direct' >"$T/mnt/control/alloc"
	echo 'weights 256M' >"$T/mnt/control/alloc"
	head -c 4096 /dev/zero >"$T/mnt/allocations/weights/data"
	eventually "grep -q 'cuMemMap .*name=weights' '$T/out'"
	stop
	like "$(grep 'cuMemAlloc_v2.*bytesize=67108864' "$T/out")" ' name=scratch'
	umount "$T/mnt"
	mounted=()
	wait "$broker"
}

# Prints figures; asserts nothing.
test_what_it_costs()
{
	compiled static
	env -u LD_LIBRARY_PATH "$T/program" time | sed 's/^/not traced  /'
	traced --summary -- "$T/program" time
	sed 's/^/--summary   /' "$T/said.by"
	traced --json -- "$T/program" time
	sed 's/^/--json      /' "$T/said.by"
}

main "$@"
