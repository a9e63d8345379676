#!/bin/bash
# `data` with the usual tools for files, at any offset and in odd sizes.
. "${BASH_SOURCE%/*}/lib.bash"

# noise SIZE [SEED]: the same bytes again for the same seed.
noise()
{
	python3 -c 'import random, sys; sys.stdout.buffer.write(
		random.Random(sys.argv[2]).randbytes(int(sys.argv[1])))' "$1" "${2-seed}"
}

test_data_has_the_size_of_the_allocation()
{
	local kind
	for kind in $kinds; do
		echo "$kind 12345 kind=$kind" >control/alloc
		is "$(stat -c %s "allocations/$kind/data")" 12345
		is "$(wc -c <"allocations/$kind/data")" 12345
	done
}

test_cp_writes_and_reads_back()
{
	local kind
	noise 5000001 >"$T/noise"
	for kind in $kinds; do
		echo "x 5000001 kind=$kind" >control/alloc
		cp "$T/noise" allocations/x/data
		cmp "$T/noise" allocations/x/data
		cp allocations/x/data "$T/back"
		cmp "$T/noise" "$T/back"
		rmdir allocations/x
	done
}

test_cat_and_sha256sum_agree_with_the_file()
{
	noise 3000003 >"$T/noise"
	echo 'x 3000003' >control/alloc
	cat "$T/noise" >allocations/x/data
	is "$(sha256sum <allocations/x/data)" "$(sha256sum <"$T/noise")"
	is "$(md5sum <allocations/x/data)" "$(md5sum <"$T/noise")"
}

test_dd_patches_any_range()
{
	local kind range offset length
	for kind in $kinds; do
		noise 2500000 base >"$T/model"
		echo "x 2500000 kind=$kind" >control/alloc
		cp "$T/model" allocations/x/data
		for range in 0:1 1:1 3:5 4095:2 4096:4096 4097:8191 65535:65537 1048575:2 \
			1048576:1048576 999999:1500001 2499999:1; do
			offset=${range%:*} length=${range#*:}
			noise "$length" "$range" >"$T/patch"
			dd if="$T/patch" of="$T/model" bs=1M oflag=seek_bytes seek="$offset" \
				conv=notrunc status=none
			dd if="$T/patch" of=allocations/x/data bs=1M oflag=seek_bytes seek="$offset" \
				conv=notrunc status=none
			cmp "$T/model" allocations/x/data || fail "$kind, $range"
		done
		rmdir allocations/x
	done
}

test_dd_reads_any_range()
{
	local kind range offset length
	noise 2500000 >"$T/noise"
	for kind in $kinds; do
		echo "x 2500000 kind=$kind" >control/alloc
		cp "$T/noise" allocations/x/data
		for range in 0:1 1:1 3:5 4095:2 4097:8191 65535:65537 1048575:2 999999:1500001 \
			2499999:1 2499990:100; do
			offset=${range%:*} length=${range#*:}
			cmp <(dd if=allocations/x/data bs=2M iflag=skip_bytes,count_bytes,fullblock \
				skip="$offset" count="$length" status=none) \
				<(tail -c +$((offset + 1)) "$T/noise" | head -c "$length") ||
				fail "$kind, $range"
		done
		rmdir allocations/x
	done
}

test_dd_in_odd_blocks()
{
	local block
	noise 300007 >"$T/noise"
	echo 'x 300007' >control/alloc
	for block in 777 4095 65537; do
		dd if="$T/noise" of=allocations/x/data bs=$block status=none
		dd if=allocations/x/data of="$T/back" bs=$block status=none
		cmp "$T/noise" "$T/back"
	done
	dd if="$T/noise" of=allocations/x/data bs=64K oflag=direct status=none
	cmp "$T/noise" allocations/x/data
}

test_od_shows_numbers()
{
	echo 'x 4xf32' >control/alloc
	python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("4f", 1, 1.5, -2, 0.25))' \
		>allocations/x/data
	is "$(od -A n -t f4 allocations/x/data | xargs)" '1 1.5 -2 0.25'
	is "$(od -A d -t f4 -j 4 -N 4 allocations/x/data | head -1 | xargs)" '0000004 1.5'
}

test_xxd_and_tail_seek()
{
	echo 'x 100000' >control/alloc
	printf 'needle' | dd of=allocations/x/data bs=1 seek=77777 conv=notrunc status=none
	command -v xxd >/dev/null || skip 'there is no xxd'
	is "$(xxd -s 77777 -l 6 -p allocations/x/data)" 6e6565646c65
	printf 'last' | dd of=allocations/x/data bs=1 seek=99996 conv=notrunc status=none
	is "$(tail -c 4 allocations/x/data)" last
	is "$(grep -c needle allocations/x/data)" 1
}

test_redirection_fills_the_rest_with_zeros()
{
	local kind
	for kind in $kinds; do
		echo "x 10000 kind=$kind" >control/alloc
		yes | head -c 10000 >allocations/x/data
		echo short >allocations/x/data
		is "$(head -c 6 allocations/x/data)" short
		cmp <(tail -c +7 allocations/x/data) <(head -c 9994 /dev/zero)
		is "$(stat -c %s allocations/x/data)" 10000
		rmdir allocations/x
	done
}

test_truncate_keeps_the_size_and_fills_with_zeros()
{
	local kind
	for kind in $kinds; do
		echo "x 10000 kind=$kind" >control/alloc
		yes | head -c 10000 >allocations/x/data
		truncate -s 5001 allocations/x/data
		is "$(stat -c %s allocations/x/data)" 10000
		cmp <(yes | head -c 5001) <(head -c 5001 allocations/x/data)
		cmp <(tail -c +5002 allocations/x/data) <(head -c 4999 /dev/zero)
		: >allocations/x/data
		is_zero allocations/x/data
		rmdir allocations/x
	done
}

test_dd_seek_truncates_like_truncate()
{
	echo 'x 10000' >control/alloc
	yes | head -c 10000 >allocations/x/data
	printf abcd | dd of=allocations/x/data bs=4 seek=100 status=none
	cmp <(yes | head -c 400) <(head -c 400 allocations/x/data)
	is "$(dd if=allocations/x/data bs=4 skip=100 count=1 status=none)" abcd
	cmp <(tail -c +405 allocations/x/data) <(head -c 9596 /dev/zero)
}

test_truncate_past_the_end_is_refused()
{
	echo 'x 10000' >control/alloc
	yes | head -c 10000 >allocations/x/data
	refused ENOSPC "x can't be truncated to 10001 bytes: it has 10000 bytes and does not grow" \
		'python3 -c "import os; os.truncate(\"allocations/x/data\", 10001)"'
	truncate -s 10000 allocations/x/data
	cmp <(yes | head -c 10000) allocations/x/data
}

test_cp_of_a_sparse_file_leaves_no_old_byte()
{
	local kind
	truncate -s 8M "$T/sparse"
	printf begin | dd of="$T/sparse" conv=notrunc status=none
	printf end | dd of="$T/sparse" bs=1 seek=$((8 * 1048576 - 3)) conv=notrunc status=none
	for kind in $kinds; do
		echo "x 8M kind=$kind" >control/alloc
		yes | head -c 8M >allocations/x/data
		cp --sparse=auto "$T/sparse" allocations/x/data
		cmp "$T/sparse" allocations/x/data
		yes | head -c 8M >allocations/x/data
		cp --sparse=always "$T/sparse" allocations/x/data
		cmp "$T/sparse" allocations/x/data
		rmdir allocations/x
	done
}

test_cp_takes_data_for_dense()
{
	noise 2000000 >"$T/noise"
	echo 'x 2000000' >control/alloc
	cp "$T/noise" allocations/x/data
	[ "$(stat -c '%b*%B' allocations/x/data | sed 's/\*/ /' | awk '{print $1 * $2}')" -ge 2000000 ]
	cp allocations/x/data "$T/back"
	cmp "$T/noise" "$T/back"
}

test_appending_is_writing_past_the_end()
{
	local kind
	for kind in $kinds; do
		echo "x 4096 kind=$kind" >control/alloc
		refused ENOSPC 'x \(4 KiB\) does not grow' 'echo more >>allocations/x/data'
		is_zero allocations/x/data
		rmdir allocations/x
	done
}

test_writing_past_the_end_is_enospc_and_what_fits_is_written()
{
	echo 'x 4096' >control/alloc
	refused ENOSPC 'x \(4 KiB\) does not grow' 'yes | dd of=allocations/x/data bs=1000 count=5 iflag=fullblock conv=notrunc status=none'
	cmp allocations/x/data <(yes | head -c 4096)
	refused ENOSPC 'x \(4 KiB\) does not grow' 'printf abc | dd of=allocations/x/data bs=1 seek=4096 conv=notrunc status=none'
	refused ENOSPC 'x \(4 KiB\) does not grow' 'cat /dev/zero >allocations/x/data'
}

test_a_write_across_the_end_is_short()
{
	is "$(py <<-'EOF'
		os.write(control("alloc"), b"x 4096")
		fd = os.open("allocations/x/data", os.O_RDWR)
		show(os.pwrite, fd, b"a" * 100, 4090)
		show(os.pwrite, fd, b"a" * 100, 4096)
		show(os.pwrite, fd, b"a", 1 << 62)
		show(os.pread, fd, 100, 4090)
		show(os.pread, fd, 100, 4096)
		show(os.pread, fd, 100, 1 << 62)
	EOF
	)" $'6\nENOSPC\nENOSPC\naaaaaa'
}

test_data_past_the_end_reads_as_nothing()
{
	echo 'x 100' >control/alloc
	is "$(dd if=allocations/x/data bs=1 skip=100 status=none | wc -c)" 0
	is "$(dd if=allocations/x/data bs=1K skip=5 status=none 2>&1 | wc -c)" 0
}

test_fallocate_zeroes_a_range()
{
	local kind option
	for kind in $kinds; do
		for option in '-z' '-p'; do
			echo "x 3M kind=$kind" >control/alloc
			yes | head -c 3M >allocations/x/data
			yes | head -c 3M >"$T/model"
			fallocate $option -o 1000003 -l 1100001 allocations/x/data
			dd if=/dev/zero of="$T/model" bs=1100001 count=1 oflag=seek_bytes seek=1000003 \
				conv=notrunc status=none
			cmp "$T/model" allocations/x/data
			is "$(stat -c %s allocations/x/data)" 3145728
			rmdir allocations/x
		done
	done
}

test_fallocate_past_the_end_is_refused()
{
	echo 'x 4096' >control/alloc
	yes | head -c 4096 >allocations/x/data
	fails 'fallocate -z -o 4000 -l 1000 allocations/x/data'
	cmp allocations/x/data <(yes | head -c 4096)
	refused ENOSPC 'fallocate up to 5000 bytes: the allocation has 4 KiB and does not grow' \
		'fallocate -o 4000 -l 1000 allocations/x/data'
	like "$(tail -n 1 errors)" ' allocations/x/data ENOSPC '
}

test_times_can_be_set_and_are_ignored()
{
	echo 'x 4096' >control/alloc
	touch -d 2001-01-01 allocations/x/data allocations/x
	[ "$(stat -c %Y allocations/x)" -gt 1000000000 ]
	cp -p /etc/passwd "$T/p" && truncate -s 4096 "$T/p"
	touch allocations/x/data
}

test_host_memory_can_be_mapped()
{
	needs_root 'mapping takes CAP_SYS_ADMIN in the broker'
	echo 'x 1M kind=host' >control/alloc
	is "$(py <<-'EOF'
		fd = os.open("allocations/x/data", os.O_RDWR)
		with mmap.mmap(fd, 1 << 20) as memory:
		    memory[4096:4101] = b"there"
		    print(os.pread(fd, 5, 4096))
		    os.pwrite(fd, b"back", 8192)
		    print(memory[8192:8196])
	EOF
	)" $'b\'there\'\nb\'back\''
	is "$(dd if=allocations/x/data bs=4096 skip=1 count=1 status=none | head -c 5)" there
}

test_what_is_mapped_is_what_is_filled()
{
	needs_root 'mapping takes CAP_SYS_ADMIN in the broker'
	echo 'x 4096 kind=host' >control/alloc
	is "$(py <<-'EOF'
		fd = os.open("allocations/x/data", os.O_RDWR)
		memory = mmap.mmap(fd, 4096)
		os.write(control("fill"), b"x u8:7")
		print(memory[0], memory[4095])
	EOF
	)" '7 7'
}

test_other_memory_can_not_be_mapped()
{
	local kind
	for kind in device direct async; do
		echo "x 1M kind=$kind" >control/alloc
		is "$(py <<-'EOF'
			fd = os.open("allocations/x/data", os.O_RDWR)
			show(mmap.mmap, fd, 1 << 20)
		EOF
		)" ENODEV
		rmdir allocations/x
	done
}

# The block of a small allocation also holds other allocations.
test_small_host_memory_can_not_be_mapped()
{
	echo 'x 4095 kind=host' >control/alloc
	is "$(py <<-'EOF'
		fd = os.open("allocations/x/data", os.O_RDWR)
		show(mmap.mmap, fd, 4095)
	EOF
	)" ENODEV
}

test_two_writers_of_one_allocation_do_not_mix()
{
	noise 4000000 a >"$T/a"
	noise 4000000 b >"$T/b"
	echo 'x 8000000' >control/alloc
	dd if="$T/a" of=allocations/x/data bs=100000 conv=notrunc status=none &
	dd if="$T/b" of=allocations/x/data bs=100000 seek=40 conv=notrunc status=none &
	wait
	cmp <(cat "$T/a" "$T/b") allocations/x/data
}

test_many_readers_and_writers_at_once()
{
	local i
	for i in 1 2 3 4 5 6; do
		(
			kind=$(set -- $kinds $kinds; echo "${!i}")
			noise 1500001 "$i" >"$T/n$i"
			echo "x$i 1500001 kind=$kind" >control/alloc
			for _ in 1 2 3; do
				cp "$T/n$i" "allocations/x$i/data"
				cmp "$T/n$i" "allocations/x$i/data"
			done
		) || echo "$i failed" &
	done
	wait
	for i in 1 2 3 4 5 6; do
		cmp "$T/n$i" "allocations/x$i/data"
	done
}

test_a_read_sees_the_write_before_it()
{
	is "$(py <<-'EOF'
		os.write(control("alloc"), b"x 4M")
		fd = os.open("allocations/x/data", os.O_RDWR)
		other = os.open("allocations/x/data", os.O_RDONLY)
		good = 0
		for i in range(200):
		    block = bytes([i + 1]) * 70001
		    os.pwrite(fd, block, i * 13007)
		    good += os.pread(other, 70001, i * 13007) == block
		print(good)
	EOF
	)" 200
}

test_every_device_has_data()
{
	local device
	needs_devices 2
	noise 1000000 >"$T/noise"
	for device in $(ls devices); do
		echo "x$device 1000000 device=$device" >control/alloc
		cp "$T/noise" "allocations/x$device/data"
		cmp "$T/noise" "allocations/x$device/data"
	done
}

test_fsync_is_success()
{
	echo 'x 4096' >control/alloc
	dd if=/dev/zero of=allocations/x/data bs=4096 count=1 conv=notrunc,fsync status=none
	sync allocations/x/data
}

# A write is answered before the bytes are there; each descriptor open then is told once.
test_each_descriptor_is_told_once_that_a_write_failed()
{
	needs_software 'go wrong'
	echo 'x 64K' >control/alloc
	is "$(py "$T" <<-'EOF'
		first, second = [os.open("allocations/x/data", os.O_WRONLY) for _ in range(2)]
		with open(f"{sys.argv[1]}/inject", "w") as rules:
		    rules.write("fail=cuMemcpyHtoDAsync_v2@*=CUDA_ERROR_INVALID_VALUE")
		show(os.pwrite, first, b"x" * 4096, 0)
		while "cuMemcpyHtoDAsync" not in open("errors").read():
		    time.sleep(0.01)
		os.unlink(f"{sys.argv[1]}/inject")
		show(os.pwrite, second, b"y" * 4096, 8192)
		show(os.fsync, second)
		show(os.fsync, second)
		show(os.close, second)
		later = os.open("allocations/x/data", os.O_WRONLY)
		show(os.pwrite, later, b"z" * 4096, 4096)
		show(os.close, later)
		show(os.close, first)
	EOF
	)" $'4096\n4096\nEIO\nNone\nNone\n4096\nNone\nEIO'
}

test_a_reader_sees_what_is_written_ahead_of_him()
{
	echo 'x 8M' >control/alloc
	is "$(py <<-'EOF'
		reader = os.open("allocations/x/data", os.O_RDONLY)
		writer = os.open("allocations/x/data", os.O_WRONLY)
		step = 1 << 20
		os.read(reader, step)
		os.read(reader, step)
		os.pwrite(writer, b"w" * step, 2 * step)
		print(os.read(reader, step) == b"w" * step)
		os.write(control("fill"), b"x u8:102 offset=3M length=1M\n")
		print(os.read(reader, step) == b"f" * step)
		print(os.read(reader, step // 2) == bytes(step // 2))
		print(os.read(reader, step) == bytes(step))
	EOF
	)" $'True\nTrue\nTrue\nTrue'
	is "$(<allocations/x/state)" live
}

test_readers_who_stop_midway_keep_nothing_from_others()
{
	local i
	for i in {1..40}; do
		echo "x$i 3M" >control/alloc
		cmp <(head -c 1M "allocations/x$i/data") <(head -c 1M /dev/zero)
	done
	for i in {1..40}; do
		cmp <(head -c 3M /dev/zero) "allocations/x$i/data"
	done
}

# sendfile(2) and splice(2) read through the page cache, and `data` is never cached. Both
# work with O_DIRECT; without, the error sentence names read(2). Before 6.5, Linux reads
# past the page cache here.
test_sendfile_sees_what_was_changed_since()
{
	local kind
	for kind in $kinds; do
		echo "x 1M kind=$kind" >control/alloc
		echo "y 1M kind=$kind" >control/alloc
		echo 'y u8:3' >control/fill
		is "$(py <<-'EOF'
			fd = os.open("allocations/x/data", os.O_RDWR | os.O_DIRECT)
			def sent():
			    out = os.memfd_create("sent")
			    offset = 0
			    while offset < 1 << 20:
			        offset += os.sendfile(out, fd, offset, 1 << 20)
			    spliced, end = os.pipe()
			    os.splice(fd, end, 4096, offset_src=4096)
			    values = set(os.pread(out, 1 << 20, 0)) | set(os.read(spliced, 4096))
			    os.close(out), os.close(spliced), os.close(end)
			    return values
			def write(verb, line):
			    os.write(control(verb), line)
			print(sent())
			for i in range(20):
			    write("fill", b"x u8:%d" % i)
			    if sent() != {i}:
			        print("filled", i, sent())
			write("copy", b"x from=y")
			print(sent())
			write("fill", b"x u8:7 wait=0")
			print(sent())
			os.truncate("allocations/x/data", 0)
			print(sent())
			os.pwrite(fd, b"\5" * (1 << 20), 0)
			print(sent())
		EOF
		)" $'{0}\n{3}\n{7}\n{0}\n{5}'
		rmdir allocations/x allocations/y
	done
}

# The kernel's pages are those of the file, and a new text is of the descriptor that writes.
test_a_text_that_is_being_written_is_shown_to_nobody()
{
	local said
	echo 'x 4K' >control/alloc
	echo '{"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}}' >allocations/x/tensors
	said=$(py <<-'EOF'
		reader = os.open("allocations/x/tensors", os.O_RDONLY)
		writer = os.open("allocations/x/tensors", os.O_RDWR)
		os.pwrite(writer, b"X", 0)
		if os.fork() == 0:
		    # the kernel reads into its page; SIGBUS when that is refused
		    mmap.mmap(writer, 16, mmap.MAP_PRIVATE, mmap.PROT_READ)[0]
		    os._exit(0)
		os.wait()
		sent = os.memfd_create("sent")
		n = attempt(os.sendfile, sent, reader, 0, 4096)
		print(n if n == "EINVAL" else os.pread(sent, 1, 0), os.pread(reader, 1, 0))
	EOF
	)
	[[ $said == @(EINVAL|"b'{'")" b'{'" ]] || fail "$said"
}

test_programs_that_try_sendfile_first_copy_data()
{
	echo 'x 3000000' >control/alloc
	echo 'x u8:5' >control/fill
	is "$(py "$T/copied" <<-'EOF'
		import shutil
		shutil.copyfile("allocations/x/data", sys.argv[1])
		print(len(open(sys.argv[1], "rb").read()))
		fd = os.open("allocations/x/data", os.O_RDONLY)
		spliced, end = os.pipe()
		print(attempt(os.sendfile, os.memfd_create("sent"), fd, 0, 4096) in (4096, "EINVAL"))
		print(attempt(os.splice, fd, end, 4096, 0) in (4096, "EINVAL"))
		print(set(os.pread(fd, 1 << 20, 0)))
	EOF
	)" $'3000000\nTrue\nTrue\n{5}'
	cmp "$T/copied" allocations/x/data
}

# After an O_TRUNC of any program the kernel must not assume that `data` is empty: the size
# stays.
test_the_end_of_a_held_file_stays_after_a_redirection()
{
	local kind
	for kind in $kinds; do
		echo "x 1M kind=$kind" >control/alloc
		is "$(py <<-'EOF'
			fd = os.open("allocations/x/data", os.O_RDWR | os.O_DIRECT)
			def moved():
			    out, (reader, writer) = os.memfd_create("out"), os.pipe()
			    counts = [os.sendfile(out, fd, 0, 4096),
			              os.splice(fd, writer, 4096, offset_src=4096),
			              os.copy_file_range(fd, other, 4096, 8192, 0)]
			    os.close(writer)
			    values = set(os.pread(out, 4096, 0)) | set(os.read(reader, 4096))
			    os.close(out), os.close(reader)
			    return counts, values
			os.write(control("alloc"), b"y 4096")
			other = os.open("allocations/y/data", os.O_RDWR)
			os.pwrite(fd, b"\5" * (1 << 20), 0)
			print(*moved())
			os.close(os.open("allocations/x/data", os.O_WRONLY | os.O_TRUNC))
			print(*moved())
			print(os.lseek(fd, 0, os.SEEK_END))
		EOF
		)" $'[4096, 4096, 4096] {5}\n[4096, 4096, 4096] {0}\n1048576'
		rmdir allocations/x allocations/y
	done
}

# The pages of a private mapping would be stale after a kernel's write, so an access faults.
# The server is not asked about the mapping itself, only about its pages.
test_a_private_mapping_has_no_bytes_and_errors_says_so()
{
	local kind
	for kind in device direct async managed; do
		echo "x 1M kind=$kind" >control/alloc
		is "$(py <<-'EOF'
			fd = os.open("allocations/x/data", os.O_RDONLY)
			view = mmap.mmap(fd, 1 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ)
			show(os.write, os.memfd_create("copy"), view)  # not SIGBUS: the kernel reads
		EOF
		)" EFAULT
		like "$(tail -n 1 errors)" "allocations/x/data EINVAL .*read\(\).*gpumem get .*gpumem\.map"
		rmdir allocations/x
	done
}

test_errors_has_one_line_for_all_refused_pages_of_a_descriptor()
{
	local before
	echo 'x 1M' >control/alloc
	before=$(wc -l <errors)
	py <<-'EOF'
		fd = os.open("allocations/x/data", os.O_RDONLY)
		for i in range(3):
		    view = mmap.mmap(fd, 1 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ)
		    attempt(os.write, os.memfd_create("copy"), view)
	EOF
	is $(($(wc -l <errors) - before)) 1
}

# memmap MODE: what numpy.memmap does with allocations/x/data, then the first and last byte.
memmap()
{
	"${AS[@]}" "$numpy" - "$1" <<-'EOF'
		import errno, os, signal, sys, numpy
		child = os.fork()
		if child:
		    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
		    if status:
		        print(signal.Signals(-status).name)
		    sys.exit()
		try:
		    a = numpy.memmap("allocations/x/data", dtype="u1", mode=sys.argv[1])
		except OSError as error:
		    print(errno.errorcode[error.errno])
		else:
		    print(a[0], a[-1], flush=True)
	EOF
}

needs_numpy()
{
	numpy=$(python_with_numpy)
	"$numpy" -c 'import numpy' 2>/dev/null || skip 'numpy is not there'
}

test_numpy_memmap_of_device_memory_is_refused()
{
	needs_numpy
	echo 'x 1M' >control/alloc
	is "$(memmap r)" ENODEV
	is "$(memmap r+)" ENODEV
	is "$(memmap c)" SIGBUS
	like "$(tail -n 1 errors)" 'allocations/x/data EINVAL .*gpumem\.map'
}

# The answers of all but a few wait for each other (fuse/pace.h).
test_64_threads_write_large_parts()
{
	local kind
	for kind in $kinds; do
		echo "x 64M kind=$kind" >control/alloc
		is "$(py <<-'EOF'
			print(write_parts("allocations/x/data", 64, lambda n: n < 8))
		EOF
		)" '[]'
		rmdir allocations/x
	done
	echo 'x 4K' >control/alloc
	is "$(py <<-'EOF'
		fd = os.open("allocations/x/tag", os.O_WRONLY)
		refused = []
		def run():
		    refused.append(attempt(os.pwrite, fd, bytes(1 << 20), 0))
		threads = [threading.Thread(target=run) for _ in range(64)]
		for thread in threads:
		    thread.start()
		for thread in threads:
		    thread.join()
		print(collections.Counter(refused))
	EOF
	)" "Counter({'EINVAL': 64})"
}

# Many are copied by one thread (fuse/transport.h).
test_64_threads_read_large_parts()
{
	noise 4000000 >"$T/noise"
	echo 'x 4000000 kind=host' >control/alloc
	echo 't 64K' >control/alloc
	cp "$T/noise" allocations/x/data
	{ printf '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}' && printf '%4000000s}' ''; } \
		>allocations/t/tensors
	is "$(py "$T/noise" <<-'EOF'
		wrong = []
		def run(path, wanted):
		    with open(path, "rb", buffering=0) as file:
		        if any(os.preadv(file.fileno(), [part := bytearray(1 << 20)], 1 << 20) != 1 << 20 or
		               part != wanted for _ in range(8)):
		            wrong.append(path)
		wanted = {"allocations/x/data": open(sys.argv[1], "rb").read()[1 << 20:2 << 20],
		          "allocations/t/tensors": b" " * (1 << 20)}
		threads = [threading.Thread(target=run, args=file) for file in wanted.items() for _ in range(32)]
		for thread in threads:
		    thread.start()
		for thread in threads:
		    thread.join()
		print(wrong)
	EOF
	)" '[]'
}

test_numpy_memmap_of_host_memory_works()
{
	needs_numpy
	needs_root 'mapping takes CAP_SYS_ADMIN in the broker'
	local mode
	echo 'x 1M kind=host' >control/alloc
	for mode in r r+ c; do
		echo 'x u8:7' >control/fill
		is "$(memmap $mode)" '7 7'
	done
}

test_numpy_reads_and_writes_data_as_a_file()
{
	needs_numpy
	echo 'x 1000xf32' >control/alloc
	echo 'x f32:1.5' >control/fill
	is "$("${AS[@]}" "$numpy" - <<-'EOF'
		import numpy
		a = numpy.fromfile("allocations/x/data", dtype="f4", count=3, offset=4)
		print(a)
		numpy.arange(1000, dtype="f4").tofile("allocations/x/data")
		b = numpy.fromfile("allocations/x/data", dtype="f4")
		print(b.size, b[999])
		c = numpy.empty(1000, dtype="f4")
		with open("allocations/x/data", "rb", buffering=0) as f:
		    print(f.readinto(c), c[999])
	EOF
	)" $'[1.5 1.5 1.5]\n1000 999.0\n4000 999.0'
}

main "$@"
