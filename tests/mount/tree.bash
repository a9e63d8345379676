#!/bin/bash
# The tree: every file exists, shows a single value, and shows a consistent state.
. "${BASH_SOURCE%/*}/lib.bash"

test_the_root_lists_the_tree()
{
	local name names
	names=" $(ls | tr '\n' ' ')"
	for name in README allocations control devices driver_path driver_version errors events events_pipe owners pid \
		status streams version; do
		like "$names" " $name "
	done
}

test_pid_is_the_process_that_answers()
{
	like "$(tr '\0' ' ' </proc/"$(<pid)"/cmdline)" "gpumemd .* $M "
}

test_control_lists_the_verbs()
{
	local verb names
	names=" $(ls control | tr '\n' ' ')"
	for verb in alloc copy fill free synchronize; do
		like "$names" " $verb "
	done
}

test_the_whole_tree_can_be_walked()
{
	echo 'x 4096' >control/alloc
	mkdir streams/s
	find . -print0 | xargs -0 stat -c '%n %F' >/dev/null
	ls -lR >/dev/null
}

test_every_file_can_be_read()
{
	echo 'x 4096' >control/alloc
	mkdir streams/s
	find . -type f ! -name events_pipe -print0 | xargs -0 cat >/dev/null
}

test_readme_names_everything_in_the_tree()
{
	local path paths
	echo 'x 4096' >control/alloc
	mkdir streams/s
	paths=$(find . -mindepth 1 -not -path './devices/*' -not -path './owners/*' \
		-not -path './allocations/?*' -not -path './streams/?*')
	like "$paths" $'\n\./control/alloc\n'
	for path in $paths devices/0/* allocations/x/* streams/s/*; do
		grep -qw -- "${path##*/}" README || fail "README lacks $path"
	done
}

test_readme_has_every_usage()
{
	local file line readme
	readme=$(tr -s ' \n' ' ' <README)
	for file in control/*; do
		while read -r line; do
			[[ $readme == *"$line"* ]] || fail "README lacks the usage of $file: $line"
		done <"$file"
	done
}

test_versions_are_a_file_each()
{
	like "$(<version)" '^[0-9]+\.[0-9]+\.[0-9]+$'
	like "$(<driver_version)" '^[0-9]+\.[0-9]+$'
	[ -e "$(<driver_path)" ] || fail "no such library: $(<driver_path)"
	is "$(value_of status version)" "$(<version)"
	is "$(value_of devices/0/status driver_version)" "$(<driver_version)"
}

# The name of a device is the driver's, and has blanks.
test_every_key_has_one_value_of_one_word()
{
	local kind file
	for kind in $kinds; do
		echo "$kind 8192 kind=$kind" >control/alloc
	done
	mkdir streams/s modules/m
	echo 'single stream=s' >allocations/managed/attach
	refused ENOEXEC 'neither a cubin' 'cp README modules/m/image'
	for file in status {devices,allocations,owners,streams,modules}/*/status; do
		is "$(awk '!/^name (NVIDIA|.*GPU)/ && NF != 2' "$file")" ''
		unlike $'\n'"$(<"$file")" $'\n([a-z_]*size|memory_[a-z]+) '
	done
	is "$(<modules/m/state) $(<modules/m/error)" 'failed ENOEXEC'
	is "$(<allocations/managed/attach) $(<allocations/managed/stream)" 'single s'
}

test_status_is_flat_keyed_everywhere()
{
	local file
	echo 'x 4096' >control/alloc
	mkdir streams/s
	for file in status devices/0/status allocations/x/status streams/s/status \
		"owners/$(id -u)/status"; do
		[ -s "$file" ] || [ -n "$(<"$file")" ] || fail "$file says nothing"
		! grep -nvE '^[a-z][a-z0-9_]* [^ ].*$' "$file" || fail "in $file"
	done
}

# Of `leases`, the file has a line each and `status` their number; `tensors` is no
# attribute, and `progress` has several words.
agrees_with_status()
{
	local folder=$1 file key
	like "$(<"$folder/status")" ' '
	for file in "$folder"/*; do
		key=${file##*/}
		case " status data lease leases tensors progress $2 " in
		*" $key "*) continue ;;
		esac
		[ -f "$file" ] || continue
		is "$(wc -l <"$file")" 1
		is "$key $(<"$file")" "$(grep "^$key " "$folder/status")"
	done
	is "$(cut -d ' ' -f 1 "$folder/status" | sort | uniq -d)" ''
}

test_attributes_of_an_allocation_agree_with_its_status()
{
	local kind
	for kind in $kinds; do
		echo "$kind 8192 kind=$kind tag=a.word" >control/alloc
		agrees_with_status "allocations/$kind" 'advise last_prefetch prefetch'
	done
}

test_attributes_of_a_device_agree_with_its_status()
{
	agrees_with_status devices/0 'memory_used_bytes'
}

test_attributes_of_a_stream_agree_with_its_status()
{
	mkdir streams/s
	agrees_with_status streams/s 'synchronize'
}

test_attributes_of_an_owner_agree_with_its_status()
{
	echo 'x 4096' >control/alloc
	agrees_with_status "owners/$(id -u)" 'output failure reset max current peak max_events'
}

test_totals_follow_allocations()
{
	local bytes
	bytes=$(value_of status bytes)
	echo 'x 3M' >control/alloc
	is "$(value_of status allocations)" 1
	is "$(value_of status bytes)" $((bytes + 3145728))
	[ "$(value_of status peak_bytes)" -ge $((bytes + 3145728)) ]
	echo x >control/free
	is "$(value_of status allocations)" 0
	# A free does not wait until the memory is given back.
	eventually "[ \"\$(value_of status bytes)\" = $bytes ]"
	[ "$(value_of status peak_bytes)" -ge $((bytes + 3145728)) ]
}

test_failures_are_counted()
{
	local failures
	failures=$(value_of status failures)
	refused EINVAL . 'echo "x 0" >control/alloc'
	is "$(value_of status failures)" $((failures + 1))
}

test_a_device_says_what_it_is()
{
	local file
	for file in name uuid pci_bus_id compute_capability driver_version memory_total_bytes memory_used_bytes \
		memory_held_bytes allocations state status; do
		[ -n "$(<"devices/0/$file")" ] || fail "devices/0/$file says nothing"
	done
	like "$(<devices/0/uuid)" '^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
	like "$(<devices/0/pci_bus_id)" '^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]$'
	like "$(<devices/0/compute_capability)" '^[0-9]+\.[0-9]+$'
	like "$(<devices/0/memory_total_bytes)" '^[0-9]+$'
	is "$(<devices/0/state)" ok
}

test_devices_are_numbered_from_zero()
{
	local n
	n=$(ls devices | wc -l)
	is "$(ls devices | sort -n | tr '\n' ' ')" "$(seq 0 $((n - 1)) | tr '\n' ' ')"
}

test_memory_of_a_device_counts_what_is_ours()
{
	# The memory of the case before may still be on its way back.
	eventually '[ "$(<devices/0/memory_held_bytes)" = 0 ]'
	echo 'x 64M' >control/alloc
	[ "$(<devices/0/memory_held_bytes)" -ge 67108864 ]
	[ "$(<devices/0/memory_used_bytes)" -ge 67108864 ]
	is "$(<devices/0/allocations)" 1
	echo x >control/free
	is "$(<devices/0/allocations)" 0
	eventually '[ "$(<devices/0/memory_held_bytes)" = 0 ]'
}

test_an_owner_says_what_he_has()
{
	local owner
	owner=owners/$(id -u)
	echo 'x 5M' >control/alloc
	is "$(<"$owner/allocations")" 1
	is "$(<"$owner/bytes")" 5242880
	[ "$(<"$owner/peak_bytes")" -ge 5242880 ]
	is "$(<"$owner/name")" "$(id -un)"
	like "$(<"$owner/restarts")" '^[0-9]+$'
	like "$(<"$owner/state")" '^[a-z]+$'
}

test_attribute_files_show_size_zero()
{
	echo 'x 4096' >control/alloc
	is "$(stat -c %s version status control/alloc devices/0/name allocations/x/size_bytes | sort -u)" 0
}

test_an_attribute_is_a_snapshot_taken_at_offset_0()
{
	is "$(py <<-'EOF'
		alloc = control("alloc")
		os.write(alloc, b"x 4096")
		fd = os.open("status", os.O_RDONLY)
		text = os.read(fd, 3)
		before = open("status").read()
		os.write(alloc, b"another 1M")
		while part := os.read(fd, 7):
		    text += part
		print(text.decode() == before)
	EOF
	)" True
}

test_a_held_file_of_text_can_be_read_again()
{
	is "$(py <<-'EOF'
		files = ["status", "events", "errors", "devices/0/memory_used_bytes"]
		fds = [os.open(file, os.O_RDONLY) for file in files]
		before = [os.read(fd, 65536) for fd in fds]
		os.write(control("alloc"), b"x 64M")
		attempt(os.write, control("alloc"), b"x 64M")
		for file, fd, text in zip(files, fds, before):
		    now = os.pread(fd, 65536, 0)
		    print(file, now != text, now == open(file, "rb").read())
		size = os.open("allocations/x/size_bytes", os.O_RDONLY)
		show(os.pread, size, 100, 0)
		os.rmdir("allocations/x")
		show(os.pread, size, 100, 0)
	EOF
	)" "$(printf '%s True True\n' status events errors devices/0/memory_used_bytes)"$'\n67108864\nESTALE'
}

# `errors` shows the failures of the user who opened the file.
test_errors_are_those_of_the_opener()
{
	needs_root 'other users'
	fails 'echo of-root >control/free'
	exec 3<errors
	unlike "$(by 1001 run 'cat errors')" of-root
	like "$(by 1001 run 'cat <&3')" of-root
}

test_an_attribute_can_be_read_at_any_offset()
{
	is "$(dd if=version bs=1 status=none)" "$(<version)"
	is "$(tail -c +3 version)" "$(tail -c +3 <<<"$(<version)")"
	is "$(py <<-'EOF'
		fd = os.open("version", os.O_RDONLY)
		text = os.read(fd, 4096)
		print(os.pread(fd, 3, 2) == text[2:5], os.pread(fd, 10, len(text)))
	EOF
	)" "True b''"
}

test_modes_say_who_may()
{
	is "$(stat -c %a allocations)" 777
	is "$(stat -c %a streams)" 777
	is "$(stat -c %a version status errors README | sort -u)" 444
	like "$(stat -c %A control/alloc)" '^-rw-rw-rw-$'
}

test_what_is_no_object_cannot_be_made_or_removed()
{
	local command
	for command in 'touch new' 'mkdir new' 'touch allocations/new' 'touch control/new' \
		'mkdir control/new' 'rm README' 'rmdir control' 'mv README allocations/y' \
		'ln -s x allocations/link' 'mkdir devices/7' 'mkdir owners/x' 'rmdir devices/0' \
		'mkfifo streams/fifo' 'ln README README2' 'mv allocations other'; do
		! bash -c "$command" 2>/dev/null || fail "this succeeded: $command"
	done
	unlike "$(ls allocations streams)" 'new|link|fifo'
}

test_what_is_read_only_cannot_be_written()
{
	local file
	for file in version status README errors events devices/0/name; do
		! bash -c "echo x >$file" 2>/dev/null || fail "$file was written"
	done
}

test_a_file_that_is_not_there_is_enoent()
{
	local path
	for path in nothing control/nothing devices/9 devices/00 devices/x owners/x \
		allocations/nothing allocations/nothing/size_bytes streams/nothing; do
		denied ENOENT "cat $path"
	done
}

test_a_file_is_no_folder()
{
	fails 'cat version/x'
	fails 'cat allocations'
	fails 'ls version/'
}

test_a_name_that_was_freed_is_gone_at_once()
{
	echo 'x 4096' >control/alloc
	cat allocations/x/size_bytes >/dev/null
	echo x >control/free
	denied ENOENT 'cat allocations/x/size_bytes'
	echo 'x 8192' >control/alloc
	is "$(<allocations/x/size_bytes)" 8192
}

test_a_large_folder_lists_each_name_once()
{
	py <<-'EOF'
		fd = control("alloc")
		for i in range(1500):
		    os.write(fd, b"a%d 256" % i)
	EOF
	is "$(ls allocations | sort -u | wc -l)" 1500
	is "$(ls allocations | wc -l)" 1500
	rmdir allocations/a*
	is "$(ls allocations)" ''
}

test_what_stays_is_listed_once_while_others_come_and_go()
{
	is "$(py <<-'EOF'
		fd, free = control("alloc"), control("free")
		for i in range(300):
		    os.write(fd, b"stays%d 256\ngoes%d 256" % (i, i))
		seen = []
		with os.scandir("allocations") as entries:
		    for n, entry in enumerate(entries):
		        seen.append(entry.name)
		        if n < 200:
		            attempt(os.write, free, b"goes%d" % n)
		            os.write(fd, b"new%d 256" % n)
		stays = [name for name in seen if name.startswith("stays")]
		print(len(stays), len(set(stays)), len(seen) == len(set(seen)))
	EOF
	)" '300 300 True'
}

test_modes_that_objects_do_not_have_are_refused()
{
	echo 'x 4096' >control/alloc
	refused EINVAL 'mode 4755: only the permissions up to 0777' 'chmod 4755 allocations/x'
	like "$(tail -n 1 errors)" ' allocations/x EINVAL '
	refused EINVAL 'mode 1600: only the permissions up to 0777' 'chmod 1600 allocations/x/data'
	like "$(tail -n 1 errors)" ' allocations/x/data EINVAL '
	is "$(stat -c %a allocations/x/data)" 600
	chmod 0644 allocations/x
}

test_modes_of_what_is_no_ones_are_refused_by_name()
{
	mkdir streams/s
	refused EPERM 'only allocations, modules and their folders have a mode' 'chmod 700 streams/s'
	like "$(tail -n 1 errors)" ' streams/s EPERM '
	refused EPERM 'only allocations, modules and their folders have a mode' 'chmod 600 streams/s/state'
	like "$(tail -n 1 errors)" ' streams/s/state EPERM '
	rmdir streams/s
	[ "$(id -u)" = "$(stat -c %u .)" ] || return 0
	refused EPERM 'only allocations, modules and their folders have a mode' 'chmod 600 control/alloc'
	like "$(tail -n 1 errors)" ' control/alloc EPERM '
	refused EPERM 'only allocations, modules and their folders have a mode' 'chmod 700 streams'
	like "$(tail -n 1 errors)" ' streams EPERM '
}

main "$@"
