#!/bin/bash
# Limits: what counts for an owner, what is refused, who may change it, and what is kept.
. "${BASH_SOURCE%/*}/lib.bash"

# With root's broker each case has a user of its own, whose peaks begin at zero.
me=$(id -u)
[ "$me" != 0 ] || me=$((20000 + $(cksum <<<"${2-}" | cut -d ' ' -f 1) % 10000))

# as_me CHECK...: as the user whose limits they are. A user's broker serves that user alone.
as_me()
{
	if [ "$(id -u)" = 0 ]; then
		by "$me" "$@"
	else
		"$@"
	fi
}

# held KEY [FILE]: a value of the user's `current`, or of another file.
held()
{
	value_of "owners/$me/${2-current}" "$1"
}

# nothing_is_held: in the end no row of `current` is more than zero.
nothing_is_held()
{
	eventually "! grep -v ' 0\$' owners/$me/current"
}

# is_fresh: the user is there, and nothing of earlier cases.
is_fresh()
{
	as_me run 'cat streams/default/state >/dev/null'
	nothing_is_held
}

# limit TEXT: root limits the user for the rest of the case.
limit()
{
	needs_root 'root sets limits'
	mkdir -p "owners/$me"
	trap 'unlimit; cleanup_case' EXIT
	echo "$1" >"owners/$me/max"
}

unlimit()
{
	echo default >"$M/owners/$me/max"
	echo default >"$M/owners/default/max"
}

M1=$((1 << 20))

# ---- the files ----

test_without_limits_all_values_are_max()
{
	as_me run 'echo "x 4K" >control/alloc'
	is "$(awk '$1 !~ /^device:/ { print $1 }' owners/$me/max | xargs)" \
		'host allocations modules streams leases operations'
	is "$(grep -c '^device:' owners/$me/max)" "$(ls devices | wc -l)"
	is "$(cut -d ' ' -f 2 owners/$me/max | sort -u)" max
	is "$(cut -d ' ' -f 1 owners/$me/max)" "$(cut -d ' ' -f 1 owners/default/max)"
	for file in current peak max_events; do
		is "$(cut -d ' ' -f 1 owners/$me/$file)" "$(cut -d ' ' -f 1 owners/$me/max)"
		unlike "$(<owners/$me/$file)" max
	done
}

test_one_write_sets_one_key_or_several()
{
	limit 'device:0 20GiB'
	is "$(held device:0 max)" $((20 << 30))
	printf 'host 100MB\nallocations 3\n' >owners/$me/max
	echo 'streams 2 leases 5' >owners/$me/max
	is "$(held device:0 max) $(held host max) $(held allocations max)" "$((20 << 30)) 100000000 3"
	is "$(held streams max) $(held leases max) $(held modules max)" '2 5 max'
	echo 'host max' >owners/$me/max
	is "$(held host max)" max
	echo default >owners/$me/max
	is "$(cut -d ' ' -f 2 owners/$me/max | sort -u)" max
}

test_nonsense_changes_nothing()
{
	limit 'host 1M'
	refused EINVAL 'KEY VALUE' "echo >owners/$me/max"
	refused EINVAL "'device:99' has no limit; keys are device:0" "echo 'device:99 1G' >owners/$me/max"
	refused EINVAL "'disk' has no limit" "echo 'host 2M disk 1G' >owners/$me/max"
	refused EINVAL "'lots' is not a size" "echo 'host lots' >owners/$me/max"
	refused EINVAL "'1M' is not a whole number" "echo 'streams 1M' >owners/$me/max"
	refused EINVAL "'leases' lacks a value" "echo 'host 2M leases' >owners/$me/max"
	is "$(held host max)" $M1
}

test_an_owner_may_only_lower_the_own_limits()
{
	needs_root 'several users'
	limit 'host 4M allocations 10'
	as_me run "echo 'host 2M' >owners/$me/max"
	is "$(held host max)" $((2 * M1))
	as_me refused EPERM "limit of uid $me for host is 2 MiB: you may lower it, and only root raises it" \
		"echo 'host 3M' >owners/$me/max"
	as_me refused EPERM 'only root raises' "echo 'allocations 5 host max' >owners/$me/max"
	as_me refused EPERM 'only root raises' "echo default >owners/$me/max"
	is "$(held allocations max)" 10
	by 1002 denied EACCES "echo 'host 1M' >owners/$me/max"
	by 1002 denied EACCES "echo 'host 1M' >owners/default/max"
	echo 'host 8M' >owners/$me/max
	is "$(held host max)" $((8 * M1))
}

test_an_owner_does_not_take_back_what_root_has_set()
{
	needs_root 'several users'
	limit 'host 8M'
	echo 'host 4M' >owners/default/max
	as_me refused EPERM "root has set the limit of uid $me for host: you may lower it, and only root takes it back" \
		"echo 'host default' >owners/$me/max"
	as_me refused EPERM 'only root takes it back' "echo default >owners/$me/max"
	echo 'host 1G' >owners/default/max
	is "$(held host max)" $((8 * M1))
	# Not by way of a lower value, either.
	as_me run "echo 'host 2M' >owners/$me/max"
	echo 'host 1M' >owners/default/max
	as_me refused EPERM 'only root takes it back' "echo 'host default' >owners/$me/max"
	is "$(held host max)" $((2 * M1))
	echo 'host default' >owners/$me/max
	is "$(held host max)" $M1
}

test_an_owners_own_value_evades_no_default()
{
	needs_root 'several users'
	limit default
	as_me run "echo 'host 8M streams 2' >owners/$me/max"
	is "$(held host max)" $((8 * M1))
	echo 'host 4M' >owners/default/max
	is "$(held host max)" $((4 * M1))
	as_me refused EPERM 'only root raises' "echo 'streams default' >owners/$me/max"
	as_me run "echo 'host default' >owners/$me/max"
	is "$(held host max)" $((4 * M1))
}

# A program of root, such as one that is set-user-ID, writes what a user has it say to the
# output that it was started with.
test_a_program_of_root_raises_no_limit_by_a_users_descriptor()
{
	needs_root 'several users'
	limit 'host 2M'
	is "$(py $me <<-'EOF'
		os.setresuid(-1, int(sys.argv[1]), -1)
		fd = os.open(f"owners/{sys.argv[1]}/max", os.O_WRONLY)
		os.setresuid(-1, 0, -1)
		show(os.write, fd, b"host max\n")
		show(os.write, fd, b"host 1M\n")
	EOF
	)" $'EPERM\n8'
	is "$(held host max)" $M1
}

test_a_user_lowers_the_own_limits_with_a_broker_of_ones_own()
{
	local me
	me=$(id -u)
	[ "$me" != 0 ] || skip 'a broker of an ordinary user'
	broker_start "$T/own" --driver "$(driver own)"
	cd "$T/own/mnt"
	echo 'x 4K' >control/alloc
	echo 'host 1M' >owners/$me/max
	refused EPERM 'only root raises it' "echo 'host 2M' >owners/$me/max"
	refused EPERM 'only root sets the limits of all owners' 'echo "host 1M" >owners/default/max'
	refused EDQUOT 'the limit is 1 MiB' 'echo "h 2M kind=host" >control/alloc'
	refused EPERM 'only root makes owners' 'mkdir owners/12345'
	cd /
	broker_stop "$T/own"
}

test_the_default_is_for_owners_without_a_limit_of_their_own()
{
	limit 'allocations 3'
	echo 'allocations 1 streams 1' >owners/default/max
	is "$(held allocations max) $(held streams max)" '3 1'
	by 1002 run 'echo "b1 4K" >control/alloc'
	by 1002 refused EDQUOT 'uid 1002 has 1 allocations and asks for 1 more: the limit is 1 \(owners/1002/max\)' \
		'echo "b2 4K" >control/alloc'
	echo 'allocations default' >owners/$me/max
	is "$(held allocations max)" 1
	echo 'allocations max' >owners/$me/max
	is "$(held allocations max)" max
}

test_an_owner_can_be_made_before_the_user_comes()
{
	needs_root 'root makes owners'
	undying
	mkdir owners/4321
	echo 'allocations 0' >owners/4321/max
	by 4321 refused EDQUOT 'uid 4321 has 0 allocations' 'echo "x 4K" >control/alloc'
	echo default >owners/4321/max
	by 4321 run 'echo "x 4K kind=direct" >control/alloc'
	is "$(by 4321 run 'stat -c "%u %g" allocations/x/data')" '4321 4321'
	is "$(awk '$1 == "Gid:" { print $2 }' "/proc/$(<owners/4321/worker)/status")" 4321
	denied EEXIST 'mkdir owners/4321'
	refused EINVAL "'alice' is not a user's number" 'mkdir owners/alice'
	refused EINVAL "'007' is not a user's number" 'mkdir owners/007'
	by 1002 denied EACCES 'mkdir owners/4322'
	refused EPERM 'echo default >owners/UID/max' 'rmdir owners/4321'
}

# ---- what counts ----

test_memory_counts_with_what_rounding_costs()
{
	is_fresh
	as_me run 'echo "x 2097153" >control/alloc'
	is "$(held device:0)" $((4 * M1))
	as_me run 'echo "y 1" >control/alloc; echo "z 1" >control/alloc'
	is "$(held device:0)" $((6 * M1))
	as_me run 'echo "h 5000 kind=host" >control/alloc'
	is "$(held host)" 8192
	as_me run 'echo "i 1 kind=host" >control/alloc'
	is "$(held host)" $((8192 + (256 << 10)))
	is "$(held allocations)" 5
	as_me run 'rmdir allocations/*'
	nothing_is_held
}

test_every_kind_counts_and_its_end_is_the_end_of_the_charge()
{
	is_fresh
	local kind key
	for kind in 'device' 'host' 'direct' 'async' 'managed' 'device guard=1' 'host guard=2'; do
		key=device:0
		[[ $kind != host* ]] || key=host
		as_me run "echo 'x 4M kind=$kind' >control/alloc"
		is "$kind $(held $key)" "$kind $((4 * M1))"
		as_me run 'rmdir allocations/x'
		nothing_is_held
	done
}

test_small_pieces_of_the_driver_count_as_the_chunks_they_share()
{
	is_fresh
	as_me run 'for i in 1 2 3; do echo "d$i 512K kind=direct" >control/alloc; done'
	is "$(held device:0)" $((2 * M1))
	as_me run 'echo "a 4K kind=async" >control/alloc; echo "d4 1M kind=managed" >control/alloc'
	is "$(held device:0)" $((6 * M1))
	as_me run 'rmdir allocations/*'
	nothing_is_held
}

test_another_device_counts_for_itself()
{
	needs_devices 2
	limit 'device:1 2M'
	as_me run 'echo "x 4M" >control/alloc'
	as_me refused EDQUOT 'of the memory of device 1 and asks for 4 MiB more: the limit is 2 MiB' \
		'echo "y 4M device=1" >control/alloc'
	is "$(held device:0) $(held device:1)" "$((4 * M1)) 0"
}

test_images_of_modules_count_as_host_memory()
{
	is_fresh
	local size
	needs_kernels
	size=$(stat -c %s "$GPUMEM_KERNELS/saxpy.ptx")
	as_me run "mkdir modules/p && cp '$GPUMEM_KERNELS/saxpy.ptx' modules/p/image"
	is "$(held modules) $(held host)" "1 $size"
	as_me run 'rmdir modules/p'
	nothing_is_held
}

test_a_module_beyond_the_limit_of_host_memory_is_refused()
{
	needs_kernels
	limit 'host 100'
	as_me run 'mkdir modules/p'
	as_me refused EDQUOT 'of host memory and asks for .* more: the limit is 100 bytes' \
		"cat '$GPUMEM_KERNELS/saxpy.ptx' >modules/p/image"
	as_me run 'rmdir modules/p'
	nothing_is_held
}

# Else a user would have more and more: allocate, map, free, and again.
test_freed_host_memory_counts_as_long_as_a_program_has_it_mapped()
{
	local program
	limit 'host 8M'
	is_fresh
	as_me run 'echo "x 4M kind=host" >control/alloc'
	as_me run "exec python3 -c '
import mmap, os, time
memory = mmap.mmap(os.open(\"allocations/x/data\", os.O_RDWR), 4 << 20)
memory[0:4] = b\"kept\"
os.rmdir(\"allocations/x\")
open(\"$T/freed\", \"w\")
while os.path.exists(\"$T/freed\") and not os.path.exists(\"$T/enough\"):
    time.sleep(0.01)
assert memory[0:4] == b\"kept\"
'" &
	program=$!
	chmod 777 "$T"
	eventually '[ -e "$T/freed" ]'
	as_me refused EDQUOT 'of host memory \(4 MiB of it were freed, and programs have that mapped\) and asks for 6 MiB more: the limit is 8 MiB' \
		'echo "y 6M kind=host" >control/alloc'
	is "$(held host)" $((4 * M1))
	is "$(held allocations)" 0
	touch "$T/enough"
	wait "$program"
	as_me run 'echo "y 6M kind=host" >control/alloc'
	as_me run 'rmdir allocations/y'
	nothing_is_held
}

# ---- refusals ----

test_the_sentence_has_the_limit_what_is_held_and_what_was_asked()
{
	limit 'device:0 8M'
	as_me run 'echo "x 3M" >control/alloc'
	as_me refused EDQUOT "^allocation y: uid $me has 4 MiB of the memory of device 0 and asks for 6 MiB more: the limit is 8 MiB \(owners/$me/max\)$" \
		'echo "y 6M" >control/alloc'
	is "$(held device:0 max_events) $(held host max_events)" '1 0'
	is "$(ls allocations)" x
}

test_each_kind_is_refused_beyond_its_limit()
{
	local kind
	limit 'device:0 4M host 4M'
	for kind in device host direct async managed; do
		as_me refused EDQUOT 'asks for 6 MiB more: the limit is 4 MiB' \
			"echo 'x 6M kind=$kind' >control/alloc"
		as_me run "echo 'x 4M kind=$kind' >control/alloc && rmdir allocations/x"
		nothing_is_held
	done
}

test_each_count_is_refused_beyond_its_limit()
{
	limit 'allocations 1 modules 1 streams 1 leases 1'
	as_me run 'echo "x 4K mode=666" >control/alloc; mkdir modules/m streams/s'
	as_me refused EDQUOT "uid $me has 1 allocations and asks for 1 more: the limit is 1" 'echo "y 4K" >control/alloc'
	as_me refused EDQUOT "uid $me has 1 modules and asks for 1 more" 'mkdir modules/n'
	as_me refused EDQUOT "uid $me has 1 streams and asks for 1 more" 'mkdir streams/t'
	as_me refused EDQUOT "uid $me has 1 leases open and asks for 1 more" \
		'exec 3<>allocations/x/lease 4<>allocations/x/lease'
	# The last share may be used up, and what has gone may come again.
	as_me run 'rmdir allocations/x modules/m streams/s; echo "y 4K" >control/alloc; mkdir modules/n streams/t'
	echo 'operations 0' >owners/$me/max
	as_me refused EDQUOT "uid $me has 0 operations queued and asks for 1 more: the limit is 0" \
		'echo "y u8:1" >control/fill'
	as_me refused EDQUOT 'operations queued' 'echo x >allocations/y/data'
	as_me run 'rmdir allocations/y modules/n streams/t'
	nothing_is_held
}

test_a_limit_below_what_is_held_takes_nothing_away()
{
	limit 'device:0 8M'
	as_me run 'echo "x 4M" >control/alloc; echo kept >allocations/x/data'
	echo 'device:0 1M' >owners/$me/max
	is "$(held device:0)" $((4 * M1))
	is "$(as_me run 'head -c 4 allocations/x/data')" kept
	as_me refused EDQUOT 'has 4 MiB .* the limit is 1 MiB' 'echo "y 2M" >control/alloc'
}

test_the_peak_stays()
{
	as_me run 'echo "x 8M" >control/alloc && rmdir allocations/x'
	nothing_is_held
	[ "$(held device:0 peak)" -ge $((8 * M1)) ] || fail "$(<owners/$me/peak)"
}

# ---- memory on its way back ----

test_what_was_freed_can_be_taken_again_at_once()
{
	local i
	limit 'device:0 4M host 1M allocations 1'
	for i in 1 2 3 4 5; do
		as_me run 'echo "x 4M" >control/alloc && rmdir allocations/x'
		as_me run 'echo "x 4K" >control/alloc && rmdir allocations/x'
		as_me run 'echo "x 4M kind=direct" >control/alloc && rmdir allocations/x'
		as_me run 'echo "h 1M kind=host" >control/alloc && rmdir allocations/h'
	done
	is "$(awk '{ n += $2 } END { print n }' owners/$me/max_events)" 0
	nothing_is_held
}

test_memory_on_its_way_back_counts_and_is_waited_for()
{
	needs_software 'a slow copy'
	limit 'device:0 4M'
	as_me run 'echo "x 4M" >control/alloc'
	slow 1s
	as_me run 'echo "x u8:1 wait=0" >control/fill; rmdir allocations/x'
	is "$(held device:0) $(held allocations)" "$((4 * M1)) 0"
	as_me run 'echo "y 4M" >control/alloc'
	is "$(held device:0 max_events)" 0
	is "$(held device:0 peak)" $((4 * M1))
}

test_freed_memory_that_is_leased_counts_until_the_lease_ends()
{
	limit 'device:0 4M'
	as_me run 'echo "x 4M" >control/alloc'
	as_me run 'exec 3<>allocations/x/lease; cat <&3 >/dev/null; echo ready >&2; exec sleep 60' 2>"$T/ready" &
	eventually "grep -q ready '$T/ready'"
	as_me run 'rmdir allocations/x'
	is "$(held device:0) $(held leases)" "$((4 * M1)) 1"
	as_me refused EDQUOT 'has 4 MiB' 'echo "y 4M" >control/alloc'
	pkill -P $! || kill $!
	nothing_is_held
	as_me run 'echo "y 4M" >control/alloc'
}

# ---- every way memory goes ----

test_until_close_ends_the_charge()
{
	is_fresh
	as_me run 'exec 3<>control/alloc; echo "x 4M until=close" >&3; cat <&3 >/dev/null'
	nothing_is_held
}

test_publishing_over_an_allocation_ends_its_charge()
{
	is_fresh
	as_me run 'echo "old 4M" >control/alloc; echo "new 2M" >control/alloc; echo "new old" >control/publish'
	eventually "[ \"\$(held device:0)\" = $((2 * M1)) ]"
	is "$(held allocations)" 1
	as_me run 'mv allocations/old allocations/other; rmdir allocations/other'
	nothing_is_held
}

test_an_allocation_that_fails_is_not_charged()
{
	is_fresh
	needs_software fail
	inject 'fail=cuMemCreate@*=CUDA_ERROR_UNKNOWN' 'fail=cuMemAlloc_v2@*=CUDA_ERROR_UNKNOWN' \
		'fail=cuMemAllocManaged@*=CUDA_ERROR_UNKNOWN' 'fail=cuMemAllocAsync@*=CUDA_ERROR_UNKNOWN'
	as_me run 'for kind in device direct managed async; do ! echo "x 4M kind=$kind" >control/alloc; done' 2>/dev/null
	as_me run '! echo "x 4K" >control/alloc' 2>/dev/null
	nothing_is_held
	inject
	as_me run '! echo "x 1T" >control/alloc' 2>/dev/null
	as_me run '! echo "x 16777215T kind=managed" >control/alloc' 2>/dev/null
	as_me run '! echo "x 16777215T" >control/alloc' 2>/dev/null
	nothing_is_held
	# What could not be made is in no peak.
	[ "$(held device:0 peak)" -le $((32 * M1)) ] || fail "$(<owners/$me/peak)"
}

test_what_is_lost_with_a_worker_is_not_charged_any_more()
{
	is_fresh
	as_me run 'for kind in device direct managed async; do echo "$kind 4M kind=$kind" >control/alloc; done'
	is "$(held device:0)" $((16 * M1))
	kill -KILL "$(<owners/$me/worker)"
	eventually "[ \"\$(<allocations/direct/state)\" = lost ]"
	eventually "[ \"\$(held device:0)\" = $((4 * M1)) ]"
	is "$(held allocations)" 4
	as_me run 'rmdir allocations/*'
	nothing_is_held
}

test_the_copy_of_a_restore_counts_while_it_is_there()
{
	is_fresh
	as_me run 'echo "m 4M kind=managed" >control/alloc; echo kept >allocations/m/data'
	as_me run "echo 1 >owners/$me/reset"
	is "$(as_me run 'head -c 4 allocations/m/data')" kept
	[ "$(held host peak)" -ge $((4 * M1)) ] || fail "$(<owners/$me/peak)"
	is "$(held device:0)" $((4 * M1))
	eventually '[ "$(held host)" = 0 ]'
	as_me run 'rmdir allocations/m'
	nothing_is_held
}

test_without_room_for_the_copy_managed_memory_is_lost_with_a_reason()
{
	limit 'host 1M'
	as_me run 'echo "m 4M kind=managed" >control/alloc; echo gone >allocations/m/data'
	as_me run "echo 1 >owners/$me/reset"
	eventually '[ "$(<allocations/m/state)" = lost ]'
	as_me refused ESTALE 'no room for a copy: .* of host memory and asks for 4 MiB more: the limit is 1 MiB' \
		'cat allocations/m/data'
	as_me run 'rmdir allocations/m'
	nothing_is_held
}

test_a_move_out_of_a_shared_block_counts()
{
	limit 'device:0 4M'
	as_me run 'echo "x 4K" >control/alloc; exec 3<>allocations/x/lease; cat <&3 >/dev/null'
	is "$(held device:0 peak)" $((4 * M1))
	as_me run 'rmdir allocations/x'
	nothing_is_held
	echo 'device:0 2M' >owners/$me/max
	as_me run 'echo "x 4K" >control/alloc'
	as_me refused EDQUOT 'allocation x shares a block with others and can.t have one of its own: .* the limit is 2 MiB' \
		'exec 3<>allocations/x/lease; cat <&3'
	as_me run 'rmdir allocations/x'
	nothing_is_held
}

# What others may use gets a block of its own once they do. The owner has paid by then.
test_a_mode_for_others_is_paid_for_by_the_chmod()
{
	local x
	limit 'device:0 6M'
	as_me run 'for x in x y z; do echo "$x 4K"; done >control/alloc'
	is "$(held device:0)" $((2 * M1))
	as_me run 'chmod 644 allocations/x; chmod 664 allocations/x; chmod 640 allocations/y'
	is "$(held device:0)" $((6 * M1))
	as_me refused EDQUOT 'allocation z shares a block with others and can.t have one of its own: .* has 6 MiB .* asks for 2 MiB more: the limit is 6 MiB' \
		'chmod 644 allocations/z'
	is "$(stat -c %a allocations/z)" 700
	as_me run 'chmod 600 allocations/y; chmod 644 allocations/z'
	is "$(held device:0)" $((6 * M1))
	as_me run 'exec 3<>allocations/z/lease; cat <&3 >/dev/null; chmod 600 allocations/z'
	is "$(held device:0)" $((6 * M1))
	as_me run 'rmdir allocations/x'
	is "$(held device:0)" $((4 * M1))
	as_me run 'rmdir allocations/y allocations/z'
	nothing_is_held
}

test_a_mode_for_others_is_paid_for_in_host_memory()
{
	limit 'host 260K'
	as_me run 'for x in x y; do echo "$x 64 kind=host"; done >control/alloc; chmod 644 allocations/x'
	is "$(held host)" $((260 << 10))
	as_me refused EDQUOT 'asks for 4 KiB more' 'chmod 644 allocations/y'
	as_me run 'chmod 600 allocations/x; chmod 644 allocations/y; rmdir allocations/x allocations/y'
	nothing_is_held
}

# ---- races ----

test_fifty_processes_never_pass_a_limit()
{
	local i rest
	limit 'device:0 16M host 1M allocations 12 streams 5'
	for ((i = 0; i < 50; i++)); do
		as_me run "for n in 1 2 3; do
			echo 'a$i 2M' >control/alloc; echo 'b$i 100 kind=host' >control/alloc
			echo 'c$i 100K' >control/alloc; echo 'd$i 3M kind=direct' >control/alloc
			echo 'e$i 400K kind=host' >control/alloc; mkdir streams/s$i
			rmdir allocations/[a-e]$i streams/s$i
		done" 2>/dev/null &
	done
	wait
	while read -r key most; do
		[ "$key" != modules ] || continue
		rest=$(held "$key" max)
		[ "$rest" = max ] || [ "$most" -le "$rest" ] || fail "$key: the peak is $most, the limit $rest"
		[ "$rest" = max ] || [ "$most" -gt 0 ] || fail "$key was never used"
	done <owners/$me/peak
	[ "$(held allocations max_events)" -gt 0 ] || fail 'nobody was refused'
	nothing_is_held
}

test_operations_in_a_race_never_pass_a_limit()
{
	local i
	limit 'operations 4'
	as_me run 'echo "x 1M" >control/alloc'
	for ((i = 0; i < 50; i++)); do
		as_me run 'for n in 1 2 3 4; do echo "x u8:1 wait=0" >control/fill; done' 2>/dev/null &
	done
	wait
	is "$(held operations peak)" 4
	as_me run 'rmdir allocations/x'
	nothing_is_held
}

# ---- the file ----

test_limits_are_kept_over_a_restart()
{
	needs_root 'root keeps limits'
	broker_start "$T/own" --driver "$(driver own)" --limits "$T/limits"
	cd "$T/own/mnt"
	[ ! -e "$T/limits" ] || fail 'the file is made with the first limit'
	mkdir owners/1001
	echo 'device:0 1GiB streams 3' >owners/1001/max
	echo 'host 2G' >owners/default/max
	echo 'allocations max' >owners/1001/max
	by 1001 run 'echo "streams 2" >owners/1001/max'
	is "$(grep -v '^#' "$T/limits")" "default host 2147483648
1001 device:0 1073741824
1001 allocations max
1001 streams 2"
	is "$(stat -c '%u %a' "$T/limits")" '0 644'
	cd /
	broker_stop "$T/own"
	broker_start "$T/own" --driver "$(driver own)" -o "limits=$T/limits"
	cd "$T/own/mnt"
	is "$(value_of owners/1001/max device:0) $(value_of owners/1001/max streams)" '1073741824 2'
	is "$(value_of owners/1001/max host) $(value_of owners/default/max host)" '2147483648 2147483648'
	by 1001 refused EPERM 'only root raises' 'echo "streams 3" >owners/1001/max'
	cd /
	broker_stop "$T/own"
}

test_a_restart_and_a_death_of_the_broker_keep_who_gave_a_limit()
{
	local pid
	needs_root 'root keeps limits'
	broker_start "$T/own" --driver "$(driver own)" --limits "$T/who_gave" --keep
	cd "$T/own/mnt"
	mkdir owners/1001
	echo 'streams 2' >owners/1001/max
	by 1001 run 'echo "host 8M" >owners/1001/max'
	is "$(grep -v '^#' "$T/who_gave")" $'1001 host 8388608 own\n1001 streams 2'
	echo 'host 1M streams 1' >owners/default/max
	pid=$(<pid)
	kill -KILL "$pid"
	eventually '[ "$(cat pid 2>/dev/null || echo '"$pid"')" != '"$pid"' ]'
	is "$(value_of owners/1001/max host)" $M1
	by 1001 refused EPERM 'only root takes it back' 'echo "streams default" >owners/1001/max'
	is "$(<"$T/own/stderr")" 'gpumemd: the broker was killed by signal 9'
	: >"$T/own/stderr"
	cd /
	broker_stop "$T/own"
	broker_start "$T/own" --driver "$(driver own)" --limits "$T/who_gave"
	cd "$T/own/mnt"
	is "$(value_of owners/1001/max host)" $M1
	by 1001 refused EPERM 'only root takes it back' 'echo "streams default" >owners/1001/max'
	by 1001 run 'echo "host default" >owners/1001/max'
	cd /
	broker_stop "$T/own"
}

# bad_file SENTENCE: a broker with the file on stdin does not start.
bad_file()
{
	local said status=0
	mkdir -p "$T/own/mnt"
	cat >"$T/limits"
	said=$("$GPUMEMD" -f --driver "$(driver own)" --limits "$T/limits" "$T/own/mnt" 2>&1) || status=$?
	is "$status" 1
	like "$said" "$1"
}

test_a_bad_file_is_refused_with_its_line()
{
	needs_root 'root keeps limits'
	bad_file 'limits line 3: .disk. has no limit' <<<$'# fine\n1001 host 1M\n1001 disk 1M'
	bad_file 'limits line 1: .1.5X. is not a size' <<<'default host 1.5X'
	bad_file 'limits line 2: a line is UID KEY VALUE' <<<$'1001 host 1M\n1001 host'
	bad_file 'limits line 1: .alice. is neither a user' <<<'alice host 1M'
	chmod 666 "$T/limits"
	bad_file 'only root can write' <<<'1001 host 1M'
	rm "$T/limits"
	chmod 755 "$T"
}

test_a_broker_of_an_ordinary_user_keeps_no_limits()
{
	local said status=0
	[ "$(id -u)" != 0 ] || skip 'an ordinary user'
	mkdir -p "$T/own/mnt"
	said=$("$GPUMEMD" -f --driver "$(driver own)" --limits "$T/limits" "$T/own/mnt" 2>&1) || status=$?
	is "$status" 1
	like "$said" "only root's broker keeps limits"
}

test_a_limit_that_can_not_be_kept_says_so()
{
	needs_root 'root keeps limits'
	mkdir "$T/kept"
	broker_start "$T/own" --driver "$(driver own)" --limits "$T/kept/limits"
	cd "$T/own/mnt"
	rmdir "$T/kept"
	refused EIO "the limit holds, but the next mount will not have it: $T/kept/limits can't be written: No such file" \
		'echo "host 1G" >owners/default/max'
	is "$(value_of owners/default/max host)" 1073741824
	cd /
	broker_stop "$T/own"
}

# Any user may keep the lock of a folder that the user may list, such as /etc.
test_a_locked_folder_of_the_file_keeps_nobody_waiting()
{
	needs_root 'root keeps limits'
	local locker pid lost='the limit holds, but the next mount will not have it'
	mkdir "$T/locked"
	: >"$T/locked.go"
	broker_start "$T/own" --driver "$(driver own)" --limits "$T/locked/limits" --keep
	cd "$T/own/mnt"
	mkdir owners/100{1..4}
	echo 'host 4G' >owners/default/max
	py "$T/locked" "$T/locked.go" <<<'keep_lock_while(*sys.argv[1:])' >"$T/locker" &
	locker=$!
	eventually "grep -q kept '$T/locker'"
	refused EIO "$lost: $T/locked/limits has not been written in 5 s: a program may keep the lock" \
		'echo "host 3G" >owners/default/max'
	for i in 1 2 3 4; do
		by 100$i refused EIO "$lost: $T/locked/limits waits for an earlier write" \
			"echo 'allocations 1$i' >owners/100$i/max"
	done
	timeout 5 bash -c 'echo "x 100M kind=host" >control/alloc'
	pid=$(<pid)
	kill -KILL "$pid"
	timeout 5 cat version >/dev/null
	[ "$(<pid)" != "$pid" ]
	is "$(value_of owners/default/max host) $(value_of owners/1002/max allocations)" '3221225472 12'
	is "$(<"$T/own/stderr")" 'gpumemd: the broker was killed by signal 9'
	: >"$T/own/stderr"
	rm "$T/locked.go"
	wait $locker
	echo 'host 2G' >owners/default/max
	is "$(grep -v '^#' "$T/locked/limits" | xargs)" 'default host 2147483648 1001 allocations 11 own 1002 allocations 12 own 1003 allocations 13 own 1004 allocations 14 own'
	cd /
	broker_stop "$T/own"
}

main "$@"
