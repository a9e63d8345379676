#!/bin/bash
# When an allocation was last used (atime, last_use), and its tag.
. "${BASH_SOURCE%/*}/lib.bash"

# touched LETTER COMMAND: COMMAND, over and over until the kernel's clock has ticked, moves
# the time of allocation x that `stat -c %LETTER` prints, and only that one of X and Y.
touched()
{
	local other before before_other now seen="$T/touched"
	other=$([ "$1" = X ] && echo Y || echo X)
	before=$(stat -c "%.9$1" allocations/x/data)
	before_other=$(stat -c "%.9$other" allocations/x/data)
	(eventually "{ $2; } >/dev/null; stat -c %.9$1 allocations/x/data >$seen; [ \"\$(<$seen)\" '>' $before ]") ||
		fail "line ${BASH_LINENO[0]}: %$1 stays $before: $2"
	now=$(stat -c "%.9$other" allocations/x/data)
	[ "$now" = "$before_other" ] ||
		fail "line ${BASH_LINENO[0]}: %$other goes from $before_other to $now: $2"
	# the folder's may be a tenth of a second old
	eventually "[ \"\$(stat -c '%.9X %.9Y' allocations/x)\" = \"\$(stat -c '%.9X %.9Y' allocations/x/data)\" ]"
}

test_a_new_allocation_was_used_when_it_was_made()
{
	echo 'x 64K' >control/alloc
	is "$(<allocations/x/last_use)" never
	is "$(value_of allocations/x/status last_use)" never
	is "$(stat -c %X allocations/x)" "$(date -d "$(<allocations/x/created)" +%s)"
}

test_reading_and_writing_are_times_of_their_own()
{
	local kind kinds='device host'
	for kind in $kinds; do
		echo "x 64K kind=$kind" >control/alloc
		echo 'y 64K' >control/alloc
		touched X 'head -c 1 allocations/x/data'
		like "$(<allocations/x/last_use)" '^20[0-9-]+T[0-9:]+Z$'
		touched Y 'echo x u8:1 >control/fill'
		touched X 'echo y from=x >control/copy'
		touched Y 'echo x from=y >control/copy'
		touched Y 'printf a 1<>allocations/x/data'
		touched X 'cp allocations/x/data allocations/y/data'
		touched X "echo x path=$T/saved >control/save"
		touched Y "echo x path=$T/saved >control/load"
		# looking at an allocation is no use of it
		touched Y 'cat allocations/x/{status,leases,tag}; ls -l allocations/x; echo x u8:2 >control/fill'
		rmdir allocations/*
	done
}

test_a_launch_is_a_use_of_what_it_only_reads()
{
	needs_kernels
	echo 'x 4K' >control/alloc
	echo 'y 4K' >control/alloc
	mkdir modules/m && cp "$GPUMEM_KERNELS/saxpy.ptx" modules/m/image
	touched X 'echo m saxpy elements=64 u32:64 f32:2 in:x y >control/launch'
}

test_a_lease_is_a_use_until_it_ends()
{
	local ended
	echo 'x 4M' >control/alloc
	exec 5<allocations/x/lease
	is "$(<allocations/x/last_use)" leased
	touched X true
	exec 5<&-
	eventually '[ "$(<allocations/x/last_use)" != leased ]'
	ended=$(stat -c %.9X allocations/x/data)
	is "$(stat -c %.9X allocations/x/data)" "$ended"
	[[ $ended > $(stat -c %.9Y allocations/x/data) ]]
}

test_find_knows_what_nobody_uses()
{
	echo 'idle 64K' >control/alloc
	echo 'x 64K' >control/alloc
	touch -r allocations/idle/data "$T/made"
	head -c 1 allocations/x/data >/dev/null
	is "$(find allocations -name data -anewer "$T/made")" allocations/x/data
	is "$(find allocations -mindepth 1 -maxdepth 1 -atime +0)" ''
	is "$(find allocations -mindepth 1 -maxdepth 1 -amin -10 | sort | xargs)" 'allocations/idle allocations/x'
}

test_a_tag_is_written()
{
	echo 'x 4K' >control/alloc
	is "$(<allocations/x/tag)" none
	echo weights >allocations/x/tag
	is "$(<allocations/x/tag)" weights
	is "$(value_of allocations/x/status tag)" weights
	like "$(newest_event)" ' change allocations/x tag=weights '
	printf 't%.0s' {1..255} >allocations/x/tag
	is "$(<allocations/x/tag)" "$(printf 't%.0s' {1..255})"
	echo 1 >allocations/x/sealed
	echo none >allocations/x/tag
	is "$(<allocations/x/tag)" none
}

test_a_written_tag_obeys_the_rules_of_alloc()
{
	echo 'x 4K tag=first' >control/alloc
	refused EINVAL 'one word of at most 255 bytes of UTF-8, without blanks' 'echo two words >allocations/x/tag'
	refused EINVAL 'without blanks and control characters' 'printf "\033[31mred" >allocations/x/tag'
	refused EINVAL 'without blanks and control characters' 'printf "no-break\u00a0blank" >allocations/x/tag'
	refused EINVAL 'at most 255' 'printf "t%.0s" {1..256} >allocations/x/tag'
	refused EINVAL 'the tag is empty: none stands for no tag' 'echo >allocations/x/tag'
	is "$(<allocations/x/tag)" first
}

test_only_the_owner_and_root_write_a_tag()
{
	needs_root 'two users'
	by 1001 run 'echo "x 4K mode=666 tag=mine" >control/alloc'
	by 1002 denied EACCES 'echo yours >allocations/x/tag'
	by 1001 run 'echo ours >allocations/x/tag'
	echo roots >allocations/x/tag
	is "$(by 1002 run 'cat allocations/x/tag')" roots
}

main "$@"
