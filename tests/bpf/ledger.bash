#!/bin/bash
# The ledger: the held memory is right, whatever the program does.
. "${BASH_SOURCE%/*}/lib.bash"

test_each_kind_of_memory_has_its_balance()
{
	trace --json <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemHostAlloc &h 8192 0
		cuMemAllocAsync &p 1048576 0
		cuMemFreeAsync \$p 0
		cuMemAllocAsync &q 2097152 0
		cuMemFree_v2 \$q
		cuMemFreeHost \$h
	EOF
	check <<-EOF
		has(one("cuMemHostAlloc"), kind="pinned", held=8192)
		has(calls("cuMemAllocAsync")[1], kind="pool", held=2097152)
		has(one("cuMemFreeAsync"), kind="pool", freed=1048576, held=0)
		has(one("cuMemFree_v2"), kind="pool", freed=2097152, held=0)
		has(one("cuMemFreeHost"), kind="pinned", freed=8192, held=0)
		has(one("exit"), freed=4096, n_freed=1, device=4096)
	EOF
}

test_managed_memory_of_the_software_gpu()
{
	trace --json -e managed <<-EOF
		$prepare
		cuMemAllocManaged &m 4194304 1
		cuMemPrefetchAsync_v2 \$m 4194304 1 0 0
		cuMemAdvise_v2 \$m 2097152 1 1
		cuMemAllocManaged &n 0x1000000000000 1
		cuMemFree_v2 \$m
	EOF
	check <<-EOF
		m, n = calls("cuMemAllocManaged")
		has(m, kind="managed", held=4194304)
		has(n, result="CUDA_ERROR_OUT_OF_MEMORY")
		has(one("cuMemPrefetchAsync_v2"), devPtr=m["dptr"], count=4194304, location="device:0",
		    result="CUDA_SUCCESS")
		has(one("cuMemAdvise_v2"), advice="set_read_mostly", count=2097152, result="CUDA_SUCCESS")
		has(one("cuMemFree_v2"), kind="managed", freed=4194304, held=0)
		has(one("exit"), freed=0)
	EOF
}

test_a_failed_free_keeps_the_memory_in_the_books()
{
	GPUMEM_SOFTGPU+=:fail=cuMemFree_v2@2=CUDA_ERROR_UNKNOWN
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemAlloc_v2 &b 8192
		cuMemFree_v2 \$a
		cuMemFree_v2 \$b
		cuMemAlloc_v2 &c 4096
	EOF
	check <<-EOF
		a, b = calls("cuMemFree_v2")
		has(a, result="CUDA_SUCCESS", held=8192)
		has(b, result="CUDA_ERROR_UNKNOWN")
		lacks(b, "freed", "held")
		has(calls("cuMemAlloc_v2")[2], held=12288)
		has(one("exit"), freed=12288, n_freed=2)
	EOF
}

test_what_is_freed_twice_or_was_never_allocated_changes_nothing()
{
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemFree_v2 \$a
		cuMemFree_v2 \$a
		cuMemFree_v2 0
		cuMemAlloc_v2 &a 512
	EOF
	check <<-EOF
		has(calls("cuMemAlloc_v2")[1], held=512)
		has(one("exit"), freed=512)
	EOF
}

test_threads_of_a_process_share_a_balance()
{
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		thread
		cuCtxSetCurrent \$ctx
		cuMemAlloc_v2 &b 8192
		cuMemFree_v2 \$a
		end
		cuMemFree_v2 \$b
	EOF
	check <<-EOF
		a, b = calls("cuMemAlloc_v2")
		same(a["pid"], b["pid"])
		same(a["tid"] == b["tid"], False, "threads")
		has(b, held=12288)
		same([row["held"] for row in calls("cuMemFree_v2")], [8192, 0])
		same(len(calls("exit")), 1, "one end for all threads")
	EOF
}

test_a_child_inherits_nothing()
{
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		fork
		cuMemFree_v2 \$a
		end
		cuMemAlloc_v2 &c 8192
	EOF
	check <<-EOF
		a, c = calls("cuMemAlloc_v2")
		has(c, held=12288)
		child, parent = calls("exit")
		same(child["pid"] == a["pid"], False, "the child")
		has(child, freed=0, n_freed=0)
		has(parent, pid=a["pid"], freed=12288, n_freed=2)
	EOF
}

test_processes_have_their_own_balances()
{
	trace --json -e mem <<-EOF
		fork
		$prepare
		cuMemAlloc_v2 &b 512
		end
		$prepare
		cuMemAlloc_v2 &c 8192
	EOF
	check <<-EOF
		b, c = calls("cuMemAlloc_v2")
		same(b["pid"] == c["pid"], False, "the child")
		has(b, held=512)
		has(c, held=8192)
		child, parent = calls("exit")
		has(child, pid=b["pid"], freed=512, n_freed=1)
		has(parent, pid=c["pid"], freed=8192, n_freed=1)
	EOF
}

test_exit_without_free_and_exec_end_what_was_held()
{
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		exec true
	EOF
	check <<-EOF
		has(one("exec"), freed=4096, n_freed=1, device=4096)
		has(one("exit"), freed=0, n_freed=0)
	EOF
	trace --json -e mem <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		exit 0
	EOF
	check <<<'has(one("exit"), freed=4096, n_freed=1, device=4096)'
}

test_a_context_takes_its_memory_along()
{
	trace --json <<-EOF
		$prepare
		cuMemAlloc_v2 &a 4096
		cuMemHostAlloc &h 8192 0
		cuMemAddressReserve &r 2097152 0 0 0
		cuDevicePrimaryCtxReset_v2 0
	EOF
	check <<-EOF
		has(one("cuDevicePrimaryCtxReset_v2"), freed=12288, n_freed=2)
		has(one("exit"), freed=0, n_freed=0, reserved=2097152)
	EOF
}

test_a_primary_context_ends_with_its_last_release()
{
	trace --json <<-EOF
		cuInit 0
		cuDevicePrimaryCtxRetain &ctx 0
		cuDevicePrimaryCtxRetain &ctx 0
		cuCtxSetCurrent \$ctx
		cuMemAlloc_v2 &a 4096
		cuDevicePrimaryCtxRelease_v2 0
		cuDevicePrimaryCtxRelease_v2 0
	EOF
	check <<-EOF
		first, last = calls("cuDevicePrimaryCtxRelease_v2")
		lacks(first, "freed")
		has(last, freed=4096, n_freed=1)
		has(one("exit"), freed=0)
	EOF
}

test_virtual_memory_lives_as_long_as_handles_and_mappings()
{
	trace --json -e vmm <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 8388608 0 0 0
		cuMemCreate &h 2097152 &prop 0
		cuMemMap \$r 2097152 0 \$h 0
		cuMemSetAccess \$r 2097152 &access 1
		cuMemRelease \$h
		cuMemUnmap \$r 2097152
		cuMemCreate &h 2097152 &prop 0
		cuMemMap \$r 2097152 0 \$h 0
		cuMemUnmap \$r 2097152
		cuMemRelease \$h
		cuMemAddressFree \$r 8388608
	EOF
	check <<-EOF
		has(one("cuMemAddressReserve"), kind="reserved", held=8388608, size=8388608)
		a, b = calls("cuMemCreate")
		has(a, kind="vmm", held=2097152)
		has(b, kind="vmm", held=2097152)
		has(one("cuMemSetAccess"), location="device:0", flags="readwrite", count=1)
		kept, freed = calls("cuMemRelease")
		lacks(kept, "freed")
		has(freed, freed=2097152, held=0)
		freed, kept = calls("cuMemUnmap")
		has(freed, kind="vmm", freed=2097152, held=0)
		lacks(kept, "freed")
		has(one("cuMemAddressFree"), kind="reserved", freed=8388608, held=0)
		has(one("exit"), freed=0)
	EOF
}

test_one_unmap_may_span_many_mappings()
{
	trace --json -e vmm <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 6291456 0 0 0
		cuMemCreate &h 2097152 &prop 0
		cuMemCreate &i 2097152 &prop 0
		cuMemCreate &j 2097152 &prop 0
		cuMemMap \$r 2097152 0 \$h 0
		add s \$r 2097152
		cuMemMap \$s 2097152 0 \$i 0
		add s \$s 2097152
		cuMemMap \$s 2097152 0 \$j 0
		cuMemRelease \$h
		cuMemRelease \$i
		cuMemUnmap \$r 6291456
		cuMemRelease \$j
	EOF
	check <<-EOF
		has(one("cuMemUnmap"), freed=4194304, held=2097152, kind="vmm")
		has(calls("cuMemRelease")[2], freed=2097152, held=0)
	EOF
}

test_imported_memory_is_counted_apart_while_it_is_mapped()
{
	trace --json -e vmm <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 2097152 0 0 0
		$import
		cuMemUnmap \$r 2097152
		cuMemRelease \$i
		cuMemRelease \$h
	EOF
	check <<-EOF
		has(one("cuMemExportToShareableHandle"), handleType="posix_fd")
		has(one("cuMemImportFromShareableHandle"), kind="imported", held=0, shHandleType="posix_fd")
		has(one("cuMemMap"), kind="imported", held=2097152)
		has(one("cuMemUnmap"), kind="imported", freed=2097152, held=0)
		has(calls("cuMemRelease")[1], kind="vmm", freed=2097152, held=0)
	EOF
}

test_an_unmap_over_own_and_imported_memory_counts_them_apart()
{
	trace --json -e vmm <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 6291456 0 0 0
		$import
		add s \$r 2097152
		word prop 1 0
		cuMemCreate &g 4194304 &prop 0
		cuMemMap \$s 4194304 0 \$g 0
		cuMemRelease \$g
		cuMemUnmap \$r 6291456
	EOF
	check <<-EOF
		has(one("cuMemUnmap"), kind="vmm", freed=4194304, held=2097152, imported=2097152)
		has(one("exit"), freed=2097152, imported=0)
	EOF
}

test_an_end_frees_what_was_the_processs_own_memory()
{
	trace --json <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 4194304 0 0 0
		$import
		cuMemRelease \$i
		cuMemHostAlloc &p 8192 0
		exec true
	EOF
	check <<-EOF
		has(one("exec"), freed=2105344, n_freed=2, vmm=2097152, pinned=8192, imported=2097152, reserved=4194304)
	EOF
}

test_imported_memory_outlives_contexts()
{
	trace --json <<-EOF
		$prepare
		$vmm
		cuMemAddressReserve &r 2097152 0 0 0
		$import
		cuMemAlloc_v2 &a 4096
		cuDevicePrimaryCtxReset_v2 0
		cuMemUnmap \$r 2097152
	EOF
	check <<-EOF
		has(one("cuDevicePrimaryCtxReset_v2"), freed=4096, n_freed=1)
		has(one("cuMemUnmap"), kind="imported", freed=2097152, held=0)
	EOF
}

test_memory_of_before_the_start_is_told_apart()
{
	"$C" "$L" >"$T/calls" <<-EOF &
		$prepare
		cuMemAlloc_v2 &a 4096
		pid $T/ready
		wait $T/go
		cuMemFree_v2 \$a
		cuMemAlloc_v2 &b 512
		pid $T/done
		wait $T/end
	EOF
	eventually "[ -s '$T/ready' ]"
	start --json -p "$(<"$T/ready")"
	touch "$T/go"
	eventually "[ -s '$T/done' ]"
	stop
	touch "$T/end"
	check <<-EOF
		has(one("cuMemFree_v2"), kind="unknown", result="CUDA_SUCCESS")
		lacks(one("cuMemFree_v2"), "freed")
		has(one("cuMemAlloc_v2"), held=512)
	EOF
	wait
}

main "$@"
