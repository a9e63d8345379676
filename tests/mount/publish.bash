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
	like "$(newest_event)" \
		" change allocations/x tensors_bytes=$(stat -c %s "$T/header") uid=$UID pid=[0-9]+\$"
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
	like "$(newest_event)" " change allocations/x tensors_bytes=0 uid=$UID pid=[0-9]+\$"
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

# ---- sealed ----

# held NAME r|w: starts a program with a lease of NAME; its process is $holder.
held()
{
	local flags=$2 ready
	ready=$(mktemp -u "$T/sanitizer/ready.XXXXXX")
	PATH=/usr/bin:/bin "${AS[@]}" python3 -c "from lease import *
lease = Lease('$1', write='$flags' == 'w')
lease.fields()
open('$ready', 'w').close()
signal.pause()" &
	holder=$!
	eventually "[ -e '$ready' ]"
}

sealed='allocation x is sealed: nobody can write it any more'

test_a_sealed_allocation_is_read_and_never_written()
{
	local kind
	for kind in $kinds; do
		echo "x 4M kind=$kind" >control/alloc
		yes | head -c 4M >allocations/x/data
		is "$(<allocations/x/sealed)" 0
		# without O_RDWR, which might map host memory, and without O_TRUNC
		exec 5>/dev/null
		[ "$kind" = host ] || exec 5<>allocations/x/data
		echo 1 >allocations/x/sealed
		is "$(<allocations/x/sealed)" 1
		is "$(value_of allocations/x/status sealed)" 1
		like "$(newest_event)" "seal allocations/x uid=$UID pid=$$"
		refused EPERM "$sealed" 'echo no >allocations/x/data'
		[ "$kind" = host ] || refused EPERM "$sealed" 'echo no >&5'
		refused EPERM "$sealed" 'truncate -s 0 allocations/x/data'
		refused EPERM "$sealed" 'fallocate -z -l 4096 allocations/x/data'
		refused EPERM "$sealed" 'echo "x u8:1" >control/fill'
		echo 'y 4M' >control/alloc
		refused EPERM "$sealed" 'echo "x from=y" >control/copy'
		refused EPERM "$sealed" 'cp allocations/y/data allocations/x/data'
		refused EPERM "$sealed" 'echo {} >allocations/x/tensors'
		refused EPERM "$sealed" 'echo "x path=/etc/passwd" >control/load'
		echo 'y from=x' >control/copy
		cmp allocations/x/data allocations/y/data
		cmp allocations/x/data <(yes | head -c 4M)
		exec 5>&-
		rmdir allocations/x allocations/y
	done
}

test_tensors_refused_because_of_a_seal_name_the_allocation()
{
	echo 'x 4096' >control/alloc
	is "$(py <<-'EOF'
		fd = os.open("allocations/x/tensors", os.O_WRONLY | os.O_TRUNC)
		os.write(fd, b"{}")
		with open("allocations/x/sealed", "w") as file:
		    file.write("1")
		try:
		    os.close(fd)
		except OSError as error:
		    print(errno.errorcode[error.errno])
	EOF
	)" EPERM
	like "$(tail -n 1 errors)" 'allocations/x/tensors EPERM .*sealed'
}

test_a_seal_is_for_good()
{
	local seals
	seals=$(grep -c 'seal allocations/x ' events)
	echo 'x 4096' >control/alloc
	echo 0 >allocations/x/sealed
	refused EINVAL "sealed takes 1, not '2'" 'echo 2 >allocations/x/sealed'
	echo 1 >allocations/x/sealed
	echo 1 >allocations/x/sealed
	is "$(grep -c 'seal allocations/x ' events)" $((seals + 1))
	refused EPERM 'sealed, for good' 'echo 0 >allocations/x/sealed'
	mv allocations/x allocations/y
	chmod 666 allocations/y
	echo readers >allocations/y/map
	is "$(<allocations/y/sealed)" 1
	rmdir allocations/y
	echo 'y 4096' >control/alloc
	is "$(<allocations/y/sealed)" 0
}

test_a_kernel_may_read_what_is_sealed()
{
	needs_kernels
	mkdir modules/saxpy
	cp "$GPUMEM_KERNELS/saxpy.ptx" modules/saxpy/image
	echo 'x 4096xf32' >control/alloc
	echo 'y 4096xf32' >control/alloc
	echo 'x f32:1' >control/fill
	echo 1 >allocations/x/sealed
	echo 'saxpy saxpy elements=4096 u32:4096 f32:2 in:x y' >control/launch
	is "$(od -A n -t f4 -N 4 allocations/y/data | xargs)" 2
	refused EPERM "$sealed; a kernel that only reads it takes in:x" \
		'echo "saxpy saxpy elements=4096 u32:4096 f32:2 x y" >control/launch'
	refused EPERM "$sealed; a kernel" \
		'echo "saxpy saxpy elements=4096 u32:4096 f32:2 in:y out:x" >control/launch'
	is "$(od -A n -t f4 -N 4 allocations/x/data | xargs)" 1
}

test_managed_memory_that_is_sealed_still_moves()
{
	echo 'x 1M kind=managed' >control/alloc
	echo 1 >allocations/x/sealed
	echo device:0 >allocations/x/prefetch
	echo set_read_mostly >allocations/x/advise
	like "$(<allocations/x/advise)" '^read_mostly 1'
}

test_a_lease_for_writing_keeps_an_allocation_open()
{
	echo 'x 4M' >control/alloc
	held x w
	refused EBUSY "pid $holder \(python3\) may write allocation x: a lease for writing" \
		'echo 1 >allocations/x/sealed'
	kill $holder
	wait $holder || true
	eventually 'echo 1 >allocations/x/sealed'
	refused EPERM "$sealed" ': 4<>allocations/x/lease'
	exec 5<allocations/x/lease
	like "$(<allocations/x/lease)" $'\n''sealed 1'$'\n'
	exec 5<&-
}

test_who_has_a_lease_for_reading_is_told_of_the_seal()
{
	echo 'x 4M' >control/alloc
	is "$(PATH=/usr/bin:/bin "${AS[@]}" python3 - <<-'EOF'
		from lease import *
		lease = Lease("x")
		print(lease.fields()["sealed"])
		open("allocations/x/sealed", "w").write("1")
		poll = select.poll()
		poll.register(lease.fd, select.POLLPRI)
		print(poll.poll(10000)[0][1] == select.POLLPRI)
		print(lease.fields()["sealed"])
	EOF
	)" $'0\nTrue\n1'
}

open_elsewhere='a program has allocation x open for writing, or mapped: `fuser -v allocations/x/data` names it'

# A mapping outlives its descriptor. (Python's own mmap keeps a duplicate.)
test_a_mapping_for_writing_keeps_host_memory_open()
{
	needs_root 'mapping takes CAP_SYS_ADMIN in the broker'
	echo 'x 1M kind=host' >control/alloc
	is "$(py <<-'EOF'
		libc.mmap.restype = ctypes.c_void_p
		def seal():
		    with open("allocations/x/sealed", "wb", buffering=0) as sealed:
		        return sealed.write(b"1")
		fd = os.open("allocations/x/data", os.O_RDWR)
		show(seal)
		memory = ctypes.c_void_p(libc.mmap(None, 1 << 20, 3, mmap.MAP_SHARED, fd, 0))
		os.close(fd)
		show(seal)
		ready, end = os.pipe()
		child = os.fork()
		if child == 0:
		    os.close(end)
		    os.read(ready, 1)
		    ctypes.memset(memory, 7, 1)
		    os._exit(0)
		libc.munmap(memory, 1 << 20)
		show(seal)
		os.close(end)
		os.waitpid(child, 0)
		show(seal)
		fd = os.open("allocations/x/data", os.O_RDONLY)
		memory = mmap.mmap(fd, 1 << 20, mmap.MAP_SHARED, mmap.PROT_READ)
		print(memory[0])
		show(os.open, "allocations/x/data", os.O_RDWR)
		show(mmap.mmap, fd, 1 << 20)
	EOF
	)" $'EBUSY\nEBUSY\nEBUSY\n1\n7\nEPERM\nEACCES'
	is "$(grep -cF "EBUSY $open_elsewhere" errors)" 3
	is "$(<allocations/x/sealed)" 1
}

# The lease is closed, and so is the descriptor that came for its ticket. Whoever has the
# mapping, the owner's child here, could go on writing.
test_a_mapping_got_by_a_lease_keeps_host_memory_open()
{
	echo 'x 1M kind=host' >control/alloc
	echo 'z 4096 kind=host' >control/alloc
	is "$(PATH=/usr/bin:/bin "${AS[@]}" python3 - <<-'EOF'
		from lease import *
		def put(path, text):
		    with open(path, "wb", buffering=0) as file:
		        return file.write(text)
		lease = Lease("x", True)
		descriptor = redeem(lease.fields()["ticket"])
		libc.mmap.restype = ctypes.c_void_p
		mapped = ctypes.c_void_p(
		    libc.mmap(None, 1 << 20, 3, mmap.MAP_SHARED, descriptor, 0))
		lease.close()
		show(put, "allocations/x/sealed", b"1")
		os.close(descriptor)
		show(put, "allocations/x/sealed", b"1")
		show(put, "control/publish", b"x y")
		show(put, "allocations/z/sealed", b"1")
		ready, end = os.pipe()
		child = os.fork()
		if child == 0:
		    os.close(end)
		    os.read(ready, 1)
		    ctypes.memset(mapped, 7, 1)
		    os._exit(0)
		libc.munmap(mapped, 1 << 20)
		show(put, "allocations/x/sealed", b"1")
		os.close(end)
		os.waitpid(child, 0)
		show(put, "allocations/x/sealed", b"1")
		reader = memory(Lease("x"))
		print(reader[0])
		show(memory, Lease("x"), True)
	EOF
	)" $'EBUSY\nEBUSY\nEBUSY\n1\nEBUSY\n1\n7\nEACCES'
	like "$(<errors)" "control/publish EBUSY $open_elsewhere"
}

# mapper NAME: starts a program that maps NAME by a lease for writing and closes the lease;
# its process is $mapper.
mapper()
{
	local ready
	ready=$(mktemp -u "$T/sanitizer/ready.XXXXXX")
	PATH=/usr/bin:/bin "${AS[@]}" python3 -c "from lease import *
lease = Lease('$1', write=True)
mapped = memory(lease, True)
lease.close()
open('$ready', 'w').close()
signal.pause()" &
	mapper=$!
	eventually "[ -e '$ready' ]"
}

test_each_mapping_got_by_a_lease_counts()
{
	local find first
	needs_root 'several users'
	by $alice run 'echo "x 1M kind=host mode=666" >control/alloc'
	by $alice mapper x
	first=$mapper
	by $alice mapper x
	by $alice refused EBUSY "$open_elsewhere" 'echo 1 >allocations/x/sealed'
	kill "$first"
	wait "$first" || true
	by $alice refused EBUSY "$open_elsewhere" 'echo 1 >allocations/x/sealed'
	find=$(tail -n 1 errors | grep -o 'grep -l [^`]*')
	like " $(eval "$find" 2>/dev/null | xargs) " " /proc/$mapper/maps "
	kill "$mapper"
	wait "$mapper" || true
	by $alice run 'echo 1 >allocations/x/sealed'
}

# The kernel may write pages for a program that has nothing open and mapped any more
# (io_uring's registered buffers), and nobody sees that.
test_host_memory_that_others_had_open_for_writing_is_not_sealed()
{
	local how
	needs_root 'several users'
	for how in "run ': 4<>allocations/x/data'" 'mapper x; kill $mapper'; do
		by $alice run 'echo "x 1M kind=host mode=666" >control/alloc'
		by $alice run ': 4<>allocations/x/data'
		(by $bob eval "$how")
		by $alice run 'chmod 600 allocations/x'
		by $alice refused EPERM "other users than uid $alice had allocation x open for writing" \
			'echo 1 >allocations/x/sealed'
		by $alice refused EPERM 'copy it .control/copy. and seal the copy' 'echo "x y" >control/publish'
		by $alice run 'echo "y 1M kind=host" >control/alloc
			echo "y from=x" >control/copy
			echo 1 >allocations/y/sealed
			rmdir allocations/x allocations/y'
	done
	# Whose memory it was had it open.
	by $alice run 'echo "x 1M kind=host" >control/alloc; : 4<>allocations/x/data'
	chown $bob allocations/x
	by $bob refused EPERM 'other users than uid' 'echo 1 >allocations/x/sealed'
}

test_a_mapping_is_named_by_fuser()
{
	local mapper
	needs_root 'mapping takes CAP_SYS_ADMIN in the broker'
	type fuser >/dev/null || skip 'fuser is not there'
	echo 'x 1M kind=host' >control/alloc
	py <<-'EOF' &
		libc.mmap.restype = ctypes.c_void_p
		fd = os.open("allocations/x/data", os.O_RDWR)
		libc.mmap(None, 1 << 20, 3, mmap.MAP_SHARED, fd, 0)
		os.close(fd)
		os.mkdir(f"{os.environ['T']}/sanitizer/mapped.{os.getpid()}")
		signal.pause()
	EOF
	eventually "ls -d '$T'/sanitizer/mapped.*"
	mapper=$(ls -d "$T"/sanitizer/mapped.*)
	mapper=${mapper##*.}
	refused EBUSY "$open_elsewhere" 'echo 1 >allocations/x/sealed'
	like " $(fuser allocations/x/data 2>/dev/null) " " $mapper "
	kill "$mapper"
	wait $! || true
	echo 1 >allocations/x/sealed
}

# The kernel tells the broker of the end of a descriptor after close(2) has returned.
test_the_end_of_a_descriptor_is_seen_at_once()
{
	is "$(py <<-'EOF'
		def put(path, text):
		    with open(path, "wb", buffering=0) as file:
		        return file.write(text)
		def seal_at_once(name, flags):
		    put("control/alloc", f"{name} 64K kind=host".encode())
		    fd = os.open(f"allocations/{name}/data", flags)
		    os.pwrite(fd, b"bytes", 0)
		    os.close(fd)
		    result = attempt(put, f"allocations/{name}/sealed", b"1")
		    put("control/free", name.encode())
		    return result
		for i in range(8):
		    if os.fork() == 0:
		        for _ in range(400):
		            result = seal_at_once(f"x{i}", [os.O_RDWR, os.O_WRONLY][i % 2])
		            if result != 1:
		                os._exit(1)
		        os._exit(0)
		print(*(os.wait()[1] for _ in range(8)))
	EOF
	)" '0 0 0 0 0 0 0 0'
}

# What has its place in the order when the seal comes is done.
test_queued_writes_come_before_the_seal()
{
	needs_software 'go slowly'
	echo 'x 4M' >control/alloc
	slow 300ms
	echo 'x u8:1 wait=0' >control/fill
	echo 'x u8:2 wait=0' >control/fill
	echo 1 >allocations/x/sealed
	inject
	is "$(od -A n -t u1 -N 1 allocations/x/data | xargs)" 2
}

test_the_owner_and_root_seal()
{
	needs_root 'several users'
	by $alice run 'echo "x 4096 mode=666" >control/alloc'
	by $bob denied EACCES 'echo 1 >allocations/x/sealed'
	by $alice run 'echo 1 >allocations/x/sealed'
	by $bob refused EPERM "$sealed" 'echo no >allocations/x/data'
	refused EPERM "$sealed" 'echo no >allocations/x/data'
	refused EPERM "$sealed" 'echo "x u8:1" >control/fill'
	by $bob run 'head -c 1 allocations/x/data >/dev/null'
}

# A guest with the right to write gets what is sealed for reading only.
test_a_guests_kernel_cannot_write_what_is_sealed()
{
	needs_root 'several users'
	needs_kernels
	by $alice run 'echo "x 4096xf32 mode=666" >control/alloc; echo "x f32:1" >control/fill'
	by $alice run 'echo 1 >allocations/x/sealed'
	by $bob run "mkdir modules/saxpy && cp '$GPUMEM_KERNELS/saxpy.ptx' modules/saxpy/image"
	by $bob run 'echo "y 4096xf32" >control/alloc'
	by $bob run 'echo "saxpy saxpy elements=4096 u32:4096 f32:2 in:x y" >control/launch'
	by $bob refused EFAULT 'saxpy' 'echo "saxpy saxpy elements=4096 u32:4096 f32:2 in:y in:x" >control/launch'
	is "$(od -A n -t f4 -N 4 allocations/x/data | xargs)" 1
}

# ---- publish ----

# made NAME BYTE [WORD]...: an allocation of 4096 times BYTE.
made()
{
	echo "$1 4096 ${*:3}" >control/alloc
	echo "$1 u8:$2" >control/fill
}

# byte NAME: prints the first byte of an allocation.
byte()
{
	od -A n -t u1 -N 1 "allocations/$1/data" | xargs
}

test_a_set_gets_its_names_at_once()
{
	local i line='' names
	for i in {0..7}; do
		made "new$i" $((i + 1))
		line+=" new$i m$i"
	done
	echo "$line" >control/publish
	names=$(ls allocations | xargs)
	is "$names" 'm0 m1 m2 m3 m4 m5 m6 m7'
	for i in {0..7}; do
		is "$(byte "m$i")" $((i + 1))
		is "$(<allocations/m$i/sealed)" 1
	done
	like "$(newest_event)" "publish allocations/m7 from=new7 uid=$UID pid=$$"
	refused EPERM 'm3 is sealed' 'echo "m3 u8:0" >control/fill'
}

test_what_is_published_stays_when_its_maker_ends()
{
	exec 5>control/alloc
	echo 'a.part 4096 until=close' >&5
	echo 'b.part 4096 until=close' >&5
	echo 'a.part a' >control/publish
	exec 5>&-
	eventually '[ "$(ls allocations)" = a ]'
	is "$(<allocations/a/sealed)" 1
}

test_what_had_the_name_is_freed()
{
	made old 1
	made m 2
	echo 'm old' >control/publish
	is "$(ls allocations)" old
	is "$(byte old)" 2
	like "$(newest_event 3)" 'seal allocations/m '
	like "$(newest_event 2)" 'free allocations/old id='
	eventually '[ "$(value_of status bytes)" = 4096 ]'
}

# Between the look-ups of the folder and of its file another allocation may get the name.
test_a_published_name_is_never_missing()
{
	py <<-'EOF'
		import threading
		def publish():
		    alloc = os.open("control/alloc", os.O_WRONLY)
		    publish = os.open("control/publish", os.O_WRONLY)
		    for _ in range(n):
		        os.write(alloc, b"part 4K\n")
		        os.write(publish, b"part m\n")
		n = 1
		publish()
		n = 1000
		publisher = threading.Thread(target=publish)
		publisher.start()
		while publisher.is_alive():
		    for file in "id", "data", "lease":
		        try:
		            os.close(os.open(f"allocations/m/{file}", os.O_RDONLY))
		        except OSError as error:
		            assert error.errno == errno.ESTALE, (file, error)
		publisher.join()
	EOF
}

test_readers_keep_what_was_replaced()
{
	echo 'm 4M' >control/alloc
	echo 'm u8:1' >control/fill
	echo 'new 4M' >control/alloc
	echo 'new u8:2' >control/fill
	is "$(PATH=/usr/bin:/bin "${AS[@]}" python3 - <<-'EOF'
		from lease import *
		lease = Lease("m")
		was = lease.fields()
		with open("control/publish", "w") as control:
		    control.write("new m")
		print(lease.events(10000))
		now = lease.fields()
		print(now["state"], now["name"], now["id"] == was["id"])
		newer = Lease("m").fields()
		print(newer["state"], newer["id"] == was["id"], newer["sealed"])
	EOF
	)" $'True\nreplaced m True\nlive False 1'
	eventually '[ "$(value_of status freed_leased_bytes)" = 0 ]'
	is "$(byte m)" 2
}

# Another user with the right to read, and no more.
test_a_reader_sees_the_old_bytes_as_long_as_it_maps_them()
{
	local kind reader
	needs_root 'several users'
	needs_software 'map a descriptor without a driver'
	for kind in device host; do
		by $alice run "echo 'm 4M kind=$kind mode=644 map=readers' >control/alloc; echo 'm u8:1' >control/fill"
		by $alice run "echo 'new 4M kind=$kind mode=644 map=readers' >control/alloc; echo 'new u8:2' >control/fill"
		rm -f "$T/reader"
		PATH=/usr/bin:/bin python3 - >"$T/reader" <<-'EOF' &
			from lease import *
			become(1002)
			lease = Lease("m")
			mapped = memory(lease)
			print(mapped[0], flush=True)
			while not lease.events(100):
			    pass
			print(lease.fields()["state"], mapped[0])
		EOF
		reader=$!
		eventually "[ -s '$T/reader' ]"
		by $alice run 'echo "new m" >control/publish'
		wait $reader
		is "$(<"$T/reader")" $'1\nreplaced 1'
		is "$(by $bob run 'od -A n -t u1 -N 1 allocations/m/data | xargs')" 2
		rmdir allocations/m
	done
}

test_publishing_is_all_or_none()
{
	local before
	needs_root 'several users'
	by $alice run 'for i in 1 2 3; do echo "new$i 4096"; done >control/alloc'
	by $alice run 'echo "m1 4096" >control/alloc'
	by $bob run 'echo "m3 4096" >control/alloc'
	before=$(grep -h . allocations/*/id | xargs)
	by $alice refused EPERM 'the name m3 is taken by an allocation of uid 1002, which uid 1001 may not free' \
		'echo "new1 m1 new2 m2 new3 m3" >control/publish'
	is "$(ls allocations | xargs)" 'm1 m3 new1 new2 new3'
	is "$(grep -h . allocations/*/id | xargs)" "$before"
	is "$(cat allocations/*/sealed | xargs)" '0 0 0 0 0'
	by $alice refused EPERM 'allocation m3 belongs to uid 1002' 'echo "new1 m1 m3 m2" >control/publish'
	by $alice refused ENOENT 'there is no allocation new4' 'echo "new1 m1 new4 m2" >control/publish'
	held new2 w
	by $alice refused EBUSY "pid $holder \(python3\) may write allocation new2" \
		'echo "new1 m1 new2 m2" >control/publish'
	kill $holder
	wait $holder || true
	is "$(cat allocations/*/sealed | xargs)" '0 0 0 0 0'
	echo 'new1 m1 new2 m2 new3 m3' >control/publish
	is "$(ls allocations | xargs)" 'm1 m2 m3'
	is "$(stat -c %u allocations/m3)" $alice
}

test_names_change_places()
{
	made a 1
	made b 2
	made c 3
	echo 'a b b a' >control/publish
	is "$(byte a) $(byte b)" '2 1'
	echo 'a b b c' >control/publish
	is "$(ls allocations | xargs)" 'b c'
	is "$(byte b) $(byte c)" '2 1'
	echo 'b b c c' >control/publish
	is "$(byte b) $(byte c)" '2 1'
}

test_lines_that_make_no_sense_change_nothing()
{
	made a 1
	made b 2
	refused EINVAL 'TO is missing' 'echo a >control/publish'
	refused EINVAL "'b' has no new name behind it" 'echo a c b >control/publish'
	refused EINVAL 'a is given two names: c and d' 'echo a c a d >control/publish'
	refused EINVAL "a and b can't both be called c" 'echo a c b c >control/publish'
	refused EINVAL "'.x' can't be a name" 'echo a .x >control/publish'
	refused EINVAL "'a/' can't be a name" 'echo b c a/ d >control/publish'
	is "$(ls allocations | xargs)" 'a b'
	is "$(cat allocations/*/sealed | xargs)" '0 0'
}

main "$@"
