#!/bin/bash
# What an allocation holds, sealing, and publishing: tensors, sealed, control/publish.
. "${BASH_SOURCE%/*}/lib.bash"

alice=1001 bob=1002

# tensor NAME BEGIN END: prints the member of a header for a tensor of bytes.
tensor()
{
	printf '"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' "$1" $(($3 - $2)) "$2" "$3"
}

# header MEMBER...: prints a header.
header()
{
	local IFS=,
	printf '{%s}' "$*"
}

test_tensors_are_written_and_read()
{
	echo 'x 1M' >control/alloc
	is "$(<allocations/x/tensors)" ''
	is "$(stat -c %s allocations/x/tensors)" 0
	header "$(tensor a 0 1)" "$(tensor b 1 1048576)" '"__metadata__":{"format":"pt"}' >"$T/header"
	cp "$T/header" allocations/x/tensors
	cmp "$T/header" allocations/x/tensors
	is "$(stat -c %s allocations/x/tensors)" "$(stat -c %s "$T/header")"
	is "$(tail -n 1 events | cut -d ' ' -f 3-)" \
		"change allocations/x tensors_bytes=$(stat -c %s "$T/header")"
	is "$(jq -r .b.data_offsets[1] allocations/x/tensors)" 1048576
	is "$(stat -c %s allocations/x/data)" 1048576
}

test_tensors_stay_with_their_allocation()
{
	echo 'x 4096' >control/alloc
	header "$(tensor a 0 1)" >allocations/x/tensors
	mv allocations/x allocations/y
	is "$(jq -r keys[0] allocations/y/tensors)" a
	exec 5<allocations/y/tensors
	rmdir allocations/y
	is "$(jq -r keys[0] <&5)" a
	echo 'y 4096' >control/alloc
	is "$(<allocations/y/tensors)" ''
	exec 5<&-
}

test_an_empty_text_removes_tensors()
{
	echo 'x 4096' >control/alloc
	header "$(tensor a 0 1)" >allocations/x/tensors
	: >allocations/x/tensors
	eventually '[ "$(stat -c %s allocations/x/tensors)" = 0 ]'
	header "$(tensor a 0 1)" >allocations/x/tensors
	truncate -s 0 allocations/x/tensors
	eventually '[ "$(stat -c %s allocations/x/tensors)" = 0 ]'
	header "$(tensor a 0 1)" >allocations/x/tensors
	cp /dev/null allocations/x/tensors
	eventually '[ "$(stat -c %s allocations/x/tensors)" = 0 ]'
	is "$(tail -n 1 events | cut -d ' ' -f 3-)" 'change allocations/x tensors_bytes=0'
}

# Each in the words of its own sentence. The old text stays.
test_tensors_that_lie()
{
	local sentence text
	echo 'x 1000' >control/alloc
	header "$(tensor old 0 1)" >allocations/x/tensors
	while IFS='|' read -r sentence text; do
		printf %s "$text" >"$T/header"
		refused EINVAL "$sentence" "cp '$T/header' allocations/x/tensors"
		refused EINVAL "$sentence" "echo '${text//\'/\'\\\'\'}' >allocations/x/tensors"
		is "$(jq -r keys[0] allocations/x/tensors)" old
	done <<-'EOF'
		begins with '\{'|hello
		tensor 'a': dtype is one of BOOL .* not "F99"|{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,1]}}
		tensor 'a' has no shape|{"a":{"dtype":"U8","data_offsets":[0,1]}}
		tensor 'a': shape is a list of whole numbers from 0|{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}
		more elements than any memory|{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]}}
		data_offsets end at 1001, the allocation at 1000|{"a":{"dtype":"U8","shape":[1],"data_offsets":[1000,1001]}}
		data_offsets is \[BEGIN,END\]|{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}
		data_offsets is \[BEGIN,END\]|{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551617]}}
		2 elements of 32 bits are not the 9 bytes|{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}
		kind is parameter or buffer|{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"kind":"x"}}
		alias 'b' is not there|{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"alias":"b"}}
		strides has a whole number for each|{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[]}}
		only dtype, shape.* are known|{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"size":1}}
		tensor 'a' is there twice|{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}
		a key is there twice|{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}
		its values are strings|{"__metadata__":{"a":1}}
	EOF
}

# The error comes with close(2): cp, dd, cat and Python say so.
test_half_a_text_never_replaces_the_old_one()
{
	echo 'x 1000' >control/alloc
	header "$(tensor old 0 1)" >allocations/x/tensors
	header "$(tensor a 0 1)" "$(tensor b 0 1)" | head -c 60 >"$T/half"
	refused EINVAL 'ends too early, after 60 bytes' "cp '$T/half' allocations/x/tensors"
	refused EINVAL 'ends too early' "cat '$T/half' >allocations/x/tensors"
	is "$(jq -r keys[0] allocations/x/tensors)" old
	is "$(py <<-'EOF'
		fd = os.open("allocations/x/tensors", os.O_WRONLY | os.O_TRUNC)
		os.write(fd, b'{"a":{"dtype":"U8","shape":[1],')
		show(os.close, os.dup(fd))
		os.write(fd, b'"data_offsets":[0,1]}}')
		show(os.close, os.dup(fd))
	EOF
	)" $'EINVAL\nNone'
	is "$(jq -r keys[0] allocations/x/tensors)" a
}

# 64 MiB of blanks are JSON, too; one more is too much. Others go on meanwhile.
test_tensors_have_a_most()
{
	echo 'x 1000' >control/alloc
	{ header "$(tensor a 0 1)"; head -c 64M /dev/zero | tr '\0' ' '; } | head -c 64M >"$T/most"
	cp "$T/most" allocations/x/tensors
	cmp "$T/most" allocations/x/tensors
	echo ' ' >>"$T/most"
	refused EFBIG 'tensors has 64 MiB at most' "cp '$T/most' allocations/x/tensors"
	is "$(stat -c %s allocations/x/tensors)" $((64 << 20))
}

test_tensors_are_written_by_who_may_write()
{
	needs_root 'several users'
	by $alice run 'echo "x 1000 mode=664" >control/alloc'
	by $alice run "header() { echo '$(header "$(tensor a 0 1)")'; }; header >allocations/x/tensors"
	is "$(by $bob run 'jq -r keys[0] allocations/x/tensors')" a
	by $bob denied EACCES 'echo {} >allocations/x/tensors'
	by $alice run 'chmod 600 allocations/x'
	by $bob denied EACCES 'cat allocations/x/tensors'
	by $alice run 'chmod 666 allocations/x'
	by $bob run 'echo {} >allocations/x/tensors'
	is "$(<allocations/x/tensors)" '{}'
}

test_the_tensors_of_freed_allocations_are_charged_to_nobody()
{
	needs_root 'several users'
	by $alice run 'for i in 1 2 3 4 5; do echo "x$i 1000"; done >control/alloc'
	{ header "$(tensor a 0 1)"; head -c 64M /dev/zero | tr '\0' ' '; } | head -c 64M >"$T/most"
	chmod 644 "$T/most"
	by $alice run "for i in 1 2 3 4; do cp '$T/most' allocations/x\$i/tensors; done"
	by $alice refused EDQUOT 'has 256 MiB of tensors and asks for 64 MiB more: the limit is 256 MiB' \
		"cp '$T/most' allocations/x5/tensors"
	by $bob run 'echo "y 1000" >control/alloc; echo {} >allocations/y/tensors'
	by $alice run 'rmdir allocations/x1'
	by $alice run "cp '$T/most' allocations/x5/tensors"
}

main "$@"
