#!/bin/bash
# Allocates, writes, faults, resets and kills in a loop, and checks every byte each time.
#
#     GPUMEMD=build/fuse/gpumemd GPUMEM_KERNELS=build/tests/corpus \
#         bash tests/gpu/faults-loop.bash [ROUNDS [MIB [HELD-GIB]]]
#
# ROUNDS is 100; MIB, the size of each allocation, 16. HELD-GIB of device memory are held
# all the while and never checked. GPUMEM_DRIVER is the driver (software). Each round prints
# a TAP line with the round's times:
#
#     data      from the error of the launch, or the beginning of the reset, to the first
#               byte of device memory
#     managed   the same to the first byte of managed memory, where it survives
#     launch    the same to the end of the next kernel
#
# The end has the medians, and the times of cuInit and a context in a separate process.

set -u
: "${GPUMEMD:?the broker, e.g. build/fuse/gpumemd}"
: "${GPUMEM_KERNELS:?where tests/kernels lie as PTX, e.g. build/tests/corpus}"
rounds=${1:-100} mib=${2:-16} held=${3:-0}
driver=${GPUMEM_DRIVER:-software}
[[ $driver != software ]] || driver=software:machine=faults-loop-$$:memory=$((held + 1))G
if [ ! -e "$GPUMEM_KERNELS/faults.ptx" ]; then
	echo '1..0 # SKIP nvcc is not there to compile kernels'
	exit 0
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumem.XXXXXX") || exit
mount=$folder/mnt
mkdir "$mount"
me=$(id -u)
failed=0

cleanup()
{
	cd /
	kill "$broker" 2>/dev/null
	wait "$broker"
	local status=$?
	[ "$status" = 0 ] || echo "# the broker ended with status $status"
	rm -rf --one-file-system "$folder"
	return "$status"
}

"$GPUMEMD" -f --driver "$driver" "$mount" </dev/null >"$folder/said" 2>&1 &
broker=$!
until cat "$mount/version" >/dev/null 2>&1; do
	kill -0 "$broker" 2>/dev/null || { cat "$folder/said"; echo 'Bail out! no broker'; exit 1; }
	sleep 0.02
done
trap 'cleanup >&2' EXIT
cd "$mount" || exit

now()
{
	echo "${EPOCHREALTIME/[.,]/}"
}

# In milliseconds, since $1.
since()
{
	local us=$(($(now) - $1))
	printf '%d.%d' $((us / 1000)) $((us % 1000 / 100))
}

sum()
{
	sha256sum <"$1" | cut -d ' ' -f 1
}

declare -A expected
declare -a took_data=() took_managed=() took_launch=() problems=()

# write NAME: writes new bytes and notes their checksum.
write()
{
	local size
	size=$(<"allocations/$1/size_bytes")
	head -c "$size" /dev/urandom >"$folder/bytes"
	cat "$folder/bytes" >"allocations/$1/data" || problems+=("$1 can't be written")
	expected[$1]=$(sum "$folder/bytes")
}

make_managed()
{
	local name
	for name in m1 m2; do
		[ ! -d allocations/$name ] || rmdir allocations/$name
		echo "$name ${mib}M kind=managed" >control/alloc
		write $name
	done
}

# check NAME...: each allocation has the bytes written last.
check()
{
	local name
	for name; do
		[ "$(sum "allocations/$name/data")" = "${expected[$name]}" ] ||
			problems+=("$name has other bytes")
	done
}

# The ways to end a worker. Each sets `begin` at the moment of the end. `survives` says
# whether managed memory survives.
fault()
{
	! echo "faults $1 grid=1 block=1 $2" 2>/dev/null >control/launch ||
		problems+=("$1 did not fail")
	begin=$(now)
}

endless()
{
	echo 'flag u8:0' >control/fill
	echo 'faults endless grid=1 block=1 wait=0 flag' >control/launch
}

end_wild() { fault wild u64:16; }
# The hardware may well have stored something when it finds that the address is odd.
end_misaligned() { fault misaligned flag; }
end_trap() { fault trap ''; }
end_assert() { fault failing_assert i32:1; }
end_timeout()
{
	echo 'flag u8:0' >control/fill
	fault endless 'timeout=1 flag'
}
end_reset()
{
	endless
	begin=$(now)
	echo 1 >"owners/$me/reset" || problems+=('reset failed')
}
end_kill()
{
	local worker
	endless
	worker=$(<"owners/$me/worker")
	kill -KILL "$worker"
	begin=$(now)
	survives=no
	# Requests sent to a dying process are lost with it.
	while [ "$(<"owners/$me/worker")" = "$worker" ]; do
		sleep 0.001
	done
}
end_mover()
{
	local process
	for process in /proc/[0-9]*/cmdline; do
		[[ $(tr '\0' ' ' <"$process") != *"--name mover "*"--parent $broker "* &&
			$(tr '\0' ' ' <"$process") != *"--parent $broker "*"--name mover "* ]] ||
			kill -KILL "$(basename "$(dirname "$process")")"
	done 2>/dev/null
	begin=$(now)
}
ends=(wild reset misaligned kill trap timeout assert mover)

mkdir modules/faults modules/fill
cp "$GPUMEM_KERNELS/faults.ptx" modules/faults/image
cp "$GPUMEM_KERNELS/fill.ptx" modules/fill/image
echo 'flag 4096' >control/alloc
echo 'probe 4096' >control/alloc
[ "$held" = 0 ] || echo "held ${held}G" >control/alloc
durable=(d1 d2 small host)
echo "d1 ${mib}M" >control/alloc
echo "d2 ${mib}M" >control/alloc
echo 'small 5000' >control/alloc
echo "host ${mib}M kind=host" >control/alloc
for name in "${durable[@]}"; do
	write "$name"
done
make_managed

run_round()
{
	local end=$1 number=$2 name begin survives=yes data managed=- launch
	problems=()
	write "${durable[number % 4]}"
	[ $((number % 2)) = 0 ] || write m$((number / 2 % 2 + 1))
	"end_$end"
	head -c 1 allocations/d1/data >/dev/null || problems+=('d1 could not be read')
	data=$(since "$begin")
	if [ $survives = yes ]; then
		head -c 1 allocations/m1/data >/dev/null || problems+=('m1 could not be read')
		managed=$(since "$begin")
	fi
	echo 'elements=1024 probe f32:1 u32:1024' 2>>"$folder/said" >modules/fill/functions/fill/launch ||
		problems+=("no kernel runs: $(tail -n 1 errors)")
	launch=$(since "$begin")
	check "${durable[@]}"
	if [ $survives = yes ]; then
		check m1 m2
	else
		for name in m1 m2; do
			[ "$(<allocations/$name/state)" = lost ] || problems+=("$name is not lost")
		done
		make_managed
	fi
	[[ $end == mover ]] || { took_data+=("$data") took_launch+=("$launch"); }
	[[ $survives$end == *mover || $survives == no ]] || took_managed+=("$managed")
	[ ${#problems[@]} = 0 ] || failed=$((failed + 1))
	printf '%s %d - %s: data %s ms, managed %s ms, launch %s ms\n' \
		"$([ ${#problems[@]} = 0 ] && echo ok || echo 'not ok')" "$number" "$end" "$data" "$managed" "$launch"
	[ ${#problems[@]} = 0 ] || printf '#   %s\n' "${problems[@]}"
}

median()
{
	printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

# Measures cuInit and a context, each time in a separate process.
context()
{
	local library
	library=$(sed -n 's/^[^,]*, driver .* from //p' version)
	# A library built with a sanitizer can't be loaded by itself.
	for _ in 1 2 3 4 5; do
		python3 - "$library" 2>/dev/null <<-'END' || echo unknown
		import ctypes, sys, time
		cuda = ctypes.CDLL(sys.argv[1])
		begin = time.perf_counter()
		context = ctypes.c_void_p()
		if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
		    sys.exit("no context")
		print("%.1f" % ((time.perf_counter() - begin) * 1000))
		END
	done
}

echo "1..$((rounds + 1))"
for ((i = 1; i <= rounds; i++)); do
	run_round "${ends[(i - 1) % ${#ends[@]}]}" "$i"
done
restarts=$(<"owners/$me/restarts")
echo "# medians of $rounds rounds, $restarts restarts, $held GiB held besides:" \
	"data $(median "${took_data[@]}") ms, managed $(median "${took_managed[@]}") ms," \
	"launch $(median "${took_launch[@]}") ms;" \
	"cuInit and a context $(median $(context)) ms"
trap - EXIT
cleanup || failed=$((failed + 1))
[ "$failed" = 0 ] && echo "ok $((rounds + 1)) - the broker ended well" ||
	echo "not ok $((rounds + 1)) - $failed of $((rounds + 1)) failed"
[ "$failed" = 0 ]
