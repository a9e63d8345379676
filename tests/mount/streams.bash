#!/bin/bash
# Streams: mkdir and rmdir of their folders; device, priority and state.
. "${BASH_SOURCE%/*}/lib.bash"

test_default_is_always_there()
{
	is "$(ls streams)" default
	is "$(<streams/default/state)" idle
	is "$(<streams/default/device)" 0
	fails 'rmdir streams/default'
	is "$(ls streams)" default
}

test_mkdir_makes_a_stream()
{
	mkdir streams/s
	is "$(<streams/s/device)" 0
	is "$(<streams/s/state)" idle
	like "$(<streams/s/priority)" '^-?[0-9]+$'
	rmdir streams/s
	is "$(ls streams)" default
}

test_names_are_checked()
{
	refused EINVAL '[.]hidden' 'mkdir streams/.hidden'
	refused EINVAL 'a[+]b' 'mkdir streams/a+b'
	refused ENAMETOOLONG '64|65' "mkdir streams/$(printf 'n%.0s' {1..65})"
	mkdir streams/s
	denied EEXIST 'mkdir streams/s'
	denied ENOENT 'rmdir streams/nothing'
}

test_each_device_has_its_default()
{
	needs_devices 2
	echo 'x 4096 device=1' >control/alloc
	echo 'x u8:1 stream=default.1' >control/fill
	is "$(<streams/default.1/device)" 1
	echo default.1 >control/synchronize
	echo 'y 4096' >control/alloc
	refused EXDEV 'stream default.1 is on device 1, the memory on 0' \
		'echo "y u8:1 stream=default.1" >control/fill'
	refused ENOENT 'no stream default.99' 'echo "y u8:1 stream=default.99" >control/fill'
	refused EINVAL 'default.99' 'mkdir streams/default.99'
}

test_the_device_is_written_before_the_first_use()
{
	needs_devices 2
	mkdir streams/s
	echo 1 >streams/s/device
	is "$(<streams/s/device)" 1
	echo 'x 4096 device=1' >control/alloc
	echo 'x u8:1 stream=s' >control/fill
	refused EBUSY 's' 'echo 0 >streams/s/device'
	is "$(<streams/s/device)" 1
}

test_a_device_that_is_not_there_is_refused()
{
	mkdir streams/s
	refused ENOENT '99' 'echo 99 >streams/s/device'
	refused EINVAL 'first' 'echo first >streams/s/device'
	is "$(<streams/s/device)" 0
}

test_the_priority_can_be_written()
{
	mkdir streams/s
	echo -1 >streams/s/priority
	is "$(<streams/s/priority)" -1
	refused EINVAL 'urgent' 'echo urgent >streams/s/priority'
	is "$(<streams/s/priority)" -1
}

test_synchronize_returns_when_all_is_done()
{
	mkdir streams/s
	echo 'x 16M' >control/alloc
	echo 'x u8:5 stream=s wait=0' >control/fill
	echo s >control/synchronize
	is "$(<streams/s/state)" idle
	echo 'x u8:6 stream=s wait=0' >control/fill
	echo 1 >streams/s/synchronize
	is "$(<streams/s/state)" idle
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 6
}

test_synchronize_of_an_idle_stream_is_immediate()
{
	mkdir streams/s
	echo s >control/synchronize
	echo default >control/synchronize
	echo 1 >streams/default/synchronize
}

test_a_stream_with_async_memory_can_be_removed_or_says_why_not()
{
	mkdir streams/s
	echo 'x 4096 kind=async stream=s' >control/alloc
	if rmdir streams/s 2>/dev/null; then
		is_zero allocations/x/data
	else
		like "$(tail -n 1 errors)" ' EBUSY .*s'
	fi
}

test_uses_on_many_streams_end_in_order()
{
	local i
	echo 'x 1M' >control/alloc
	for i in 1 2 3 4 5 6 7 8; do
		mkdir "streams/s$i"
	done
	for i in 1 2 3 4 5 6 7 8; do
		echo "x u8:$i stream=s$i wait=0" >control/fill
	done
	is "$(od -A n -v -t u1 allocations/x/data | tr -s ' ' '\n' | sort -u | xargs)" 8
}

main "$@"
