#!/bin/bash
# The file `metrics`: OpenMetrics text, by the judgement of others' programs, with figures
# that are right.
. "${BASH_SOURCE%/*}/lib.bash"

# metrics COMMAND [FILE [WORD...]]: with metrics.py; of the mount's file, if none is named.
metrics()
{
	local python
	python=$(python_with_prometheus) || skip 'the package python3-prometheus-client is not installed'
	"${AS[@]}" "$python" "$here/metrics.py" "$1" "${2-metrics}" "${@:3}" ||
		fail "line ${BASH_LINENO[1]}: metrics.py $*" "$(head -c 4000 "${2-metrics}")"
}

# figure NAME [LABEL=VALUE]...: the sum of the samples with these labels.
figure()
{
	metrics "$1" metrics "${@:2}"
}

# mine NAME [LABEL=VALUE]...: of the user who runs the test.
mine()
{
	figure "$1" "uid=$UID" "${@:2}"
}

# loaded NAME: loads docs/kernels/NAME.ptx as module NAME.
loaded()
{
	mkdir "modules/$1"
	cp "$here/../../docs/kernels/$1.ptx" "modules/$1/image"
}

test_the_strict_parser_of_openmetrics_takes_the_file()
{
	echo 'x 4M' >control/alloc
	echo 'h 1M kind=host' >control/alloc
	echo 'x f32:1' >control/fill
	metrics check
	is "$(tail -n 1 metrics)" '# EOF'
}

# promtool reads the older text format, where a counter is named with its suffix.
test_promtool_has_nothing_to_say()
{
	command -v promtool >/dev/null || skip "promtool, of Debian's package prometheus, is not here, or not this user's to run"
	echo 'x 4M' >control/alloc
	echo 'x f32:1' >control/fill
	promtool check metrics <metrics >"$T/sanitizer/said" 2>&1 || true
	is "$(sed '/_total no help text$/d' "$T/sanitizer/said")" ''
	rm "$T/sanitizer/said"
	awk '$2 == "TYPE" && $4 == "counter" { counter[$3] = 1 }
		$1 == "#" && $3 in counter { $3 = $3 "_total" } { print }' metrics |
		promtool check metrics
}

test_memory_counts_by_user_device_and_kind()
{
	needs_devices 2
	echo 'x 4M' >control/alloc
	echo 'y 1M device=1' >control/alloc
	echo 'h 3M kind=host' >control/alloc
	echo 'm 2M kind=managed' >control/alloc
	is "$(mine gpumem_held_bytes device=0 kind=device)" $((4 << 20))
	is "$(mine gpumem_held_bytes device=1 kind=device)" $((1 << 20))
	is "$(mine gpumem_held_bytes device=none kind=host)" $((3 << 20))
	is "$(mine gpumem_held_bytes kind=managed)" $((2 << 20))
	is "$(mine gpumem_allocations)" 4
	echo x >control/free
	is "$(mine gpumem_allocations device=0 kind=device)" 0
	eventually '[ "$(mine gpumem_held_bytes device=0 kind=device)" = 0 ]'
	is "$(figure gpumem_device_memory_bytes device=0)" "$(<devices/0/memory_total_bytes)"
	is "$(figure gpumem_device_held_bytes device=0)" "$(<devices/0/memory_held_bytes)"
}

test_host_memory_of_several_devices_is_one_figure()
{
	needs_devices 2
	echo 'h 3M kind=host' >control/alloc
	echo 'i 1M kind=host device=1' >control/alloc
	printf 1 1<>allocations/h/data
	printf 2 1<>allocations/i/data
	metrics check
	is "$(mine gpumem_held_bytes device=none kind=host)" $((4 << 20))
	is "$(grep -c "^gpumem_held_bytes{.*uid=\"$UID\".*kind=\"host\"" metrics)" 1
	echo h >control/free
	is "$(mine gpumem_allocations device=none kind=host)" 1
}

# moved OPERATION: bytes that the user has moved so.
moved()
{
	mine gpumem_moved_bytes_total "operation=$1"
}

test_bytes_moved_count_by_operation()
{
	local before=() after=() operation
	rm -rf "$T/bytes"
	mkdir -m 777 "$T/bytes"
	head -c 1M /dev/urandom >"$T/bytes/file"
	chmod 644 "$T/bytes/file"
	echo 'x 2M' >control/alloc
	echo 'y 2M' >control/alloc
	for operation in write fill copy load save; do
		before+=("$(moved $operation)")
	done
	head -c 64K /dev/zero | dd of=allocations/x/data bs=64K conv=notrunc status=none
	echo 'x f32:1 length=1M' >control/fill
	echo 'y from=x length=512K' >control/copy
	echo "x path=$T/bytes/file" >control/load
	echo "x path=$T/bytes/saved length=256K" >control/save
	for operation in write fill copy load save; do
		after+=("$(moved $operation)")
	done
	is "$((after[0] - before[0])) $((after[1] - before[1])) $((after[2] - before[2]))" \
		"$((64 << 10)) $((1 << 20)) $((512 << 10))"
	is "$((after[3] - before[3])) $((after[4] - before[4]))" "$((1 << 20)) $((256 << 10))"
}

test_reads_count()
{
	local before
	echo 'h 1M kind=host' >control/alloc
	before=$(mine gpumem_moved_bytes_total operation=read kind=host device=none)
	cat allocations/h/data >/dev/null
	is "$(($(mine gpumem_moved_bytes_total operation=read kind=host device=none) - before))" \
		$((1 << 20))
}

test_a_write_that_was_interrupted_before_it_began_moved_nothing()
{
	local before writer
	echo 'x 4K' >control/alloc
	exec 3<>allocations/x/lease
	echo 'hold w' >&3
	before=$(moved write)
	dd if=/dev/zero of=allocations/x/data bs=4K count=1 conv=notrunc status=none &
	writer=$!
	until_it_waits "$writer"
	kill "$writer"
	wait "$writer" || true
	exec 3>&-
	echo 'x f32:1' >control/fill
	is "$(moved write)" "$before"
}

test_launches_faults_and_restarts_count()
{
	local launches faults restarts
	loaded saxpy
	loaded wild
	echo 'x 4K' >control/alloc
	launches=$(mine gpumem_launches_total device=0)
	faults=$(mine gpumem_faults_total device=0)
	restarts=$(mine gpumem_worker_restarts_total)
	echo 'elements=1024 u32:1024 f32:2 in:x x' >modules/saxpy/functions/saxpy/launch
	is "$(mine gpumem_launches_total device=0)" $((launches + 1))
	is "$(mine gpumem_faults_total device=0)" "$faults"
	refused EFAULT 'wild' 'echo "wild wild grid=1 block=1" >control/launch'
	is "$(mine gpumem_launches_total device=0)" $((launches + 2))
	is "$(mine gpumem_faults_total device=0)" $((faults + 1))
	echo 'd 4K kind=direct' >control/alloc
	restarts=$(mine gpumem_worker_restarts_total)
	kill -KILL "$(<owners/$UID/worker)"
	eventually '[ "$(<allocations/d/state)" = lost ]'
	is "$(mine gpumem_worker_restarts_total)" $((restarts + 1))
	is "$(mine gpumem_worker_restarts_total)" "$(<owners/$UID/restarts)"
}

test_a_mover_that_dies_counts()
{
	local before
	echo 'x 4K' >control/alloc
	before=$(figure gpumem_mover_restarts_total)
	undying
	kill -KILL "$(value_of status mover)"
	eventually '[ "$(figure gpumem_mover_restarts_total)" = $((before + 1)) ]'
}

test_leases_count()
{
	echo 'x 3M' >control/alloc
	is "$(mine gpumem_leases) $(mine gpumem_leased_bytes)" '0 0'
	exec 5<allocations/x/lease 6<allocations/x/lease
	cat <&5 >/dev/null
	is "$(mine gpumem_leases) $(mine gpumem_leased_bytes)" "2 $((3 << 20))"
	exec 5>&- 6>&-
	is "$(mine gpumem_leases)" 0
}

test_lines_are_in_the_histogram_of_their_verb()
{
	local count slow
	echo 'x 4K' >control/alloc
	count=$(figure gpumem_control_line_seconds_count verb=fill)
	printf 'x u8:1\nx u8:2\n\nx u8:3\n' | dd of=control/fill bs=4K status=none
	refused EINVAL 'u7:1' 'echo "x u7:1" >control/fill'
	is "$(figure gpumem_control_line_seconds_count verb=fill)" $((count + 4))
	is "$(figure gpumem_control_line_seconds_bucket verb=fill le=+Inf)" $((count + 4))
	needs_software 'be slow'
	slow=$(figure gpumem_control_line_seconds_count verb=fill)
	slow=$((slow - $(figure gpumem_control_line_seconds_bucket verb=fill le=0.262144)))
	inject 'delay=cuMemsetD8Async@*=300ms'
	echo 'x u8:1' >control/fill
	is "$(($(figure gpumem_control_line_seconds_count verb=fill) -
		$(figure gpumem_control_line_seconds_bucket verb=fill le=0.262144)))" $((slow + 1))
}

test_limits_and_what_counts_against_them()
{
	local refused
	needs_root 'raise limits again'
	is "$(mine gpumem_limit_bytes)" 0
	echo 'x 3M' >control/alloc
	# A block that an earlier case has left counts for a second.
	eventually '[ "$(mine gpumem_charged_bytes device=0)" = "$(value_of owners/$UID/current device:0)" ]'
	is "$(mine gpumem_charged resource=allocations)" 1
	refused=$(mine gpumem_limit_refusals_total resource=allocations)
	echo 'device:0 64M allocations 1' >owners/$UID/max
	is "$(mine gpumem_limit_bytes device=0)" $((64 << 20))
	is "$(mine gpumem_limit resource=allocations)" 1
	refused EDQUOT 'the limit is 1 ' 'echo "y 4K" >control/alloc'
	is "$(mine gpumem_limit_refusals_total resource=allocations)" $((refused + 1))
	metrics check
	echo default >owners/$UID/max
}

# A million allocations make no longer file than one.
test_the_file_does_not_grow_with_allocations()
{
	local lines
	echo 'x 256' >control/alloc
	lines=$(wc -l <metrics)
	seq -f 'a%g 256' 3000 | dd of=control/alloc bs=64K status=none
	is "$(mine gpumem_allocations)" 3001
	is "$(wc -l <metrics)" "$lines"
}

test_reading_waits_for_no_worker_and_no_gpu()
{
	local mover
	undying
	echo 'x 4K' >control/alloc
	mover=$(value_of status mover)
	stop "$mover"
	timeout 20 tail -n 1 metrics >"$T/sanitizer/tail" || { kill -CONT "$mover"; fail 'metrics waits for the mover'; }
	kill -CONT "$mover"
	is "$(<"$T/sanitizer/tail")" '# EOF'
	rm "$T/sanitizer/tail"
}

test_everybody_sees_everybodys_figures()
{
	needs_root 'several users'
	by 1001 run 'echo "x 5M" >control/alloc'
	is "$(by 1002 figure gpumem_held_bytes uid=1001)" $((5 << 20))
	denied EACCES 'setpriv --reuid=1002 --regid=1002 --clear-groups bash -c "echo 1 >metrics"'
}

test_more_users_than_1024_share_their_rows()
{
	needs_root 'several users'
	local total
	total=$(figure gpumem_allocations)
	py <<-'EOF'
		for uid in range(20000, 21100):
		    os.setegid(uid)
		    os.seteuid(uid)
		    alloc = os.open("control/alloc", os.O_RDWR)
		    os.write(alloc, b"u%d 256 kind=host" % uid)
		    os.close(alloc)
		    os.seteuid(0)
		    os.setegid(0)
	EOF
	is "$(figure gpumem_allocations)" $((total + 1100))
	[ "$(figure gpumem_allocations user=other)" -ge 76 ] || fail "$(tail -n 50 metrics)"
	is "$(grep -c '^gpumem_leases{' metrics)" 1025
	metrics check
}

# The names of users come from where users are, and may have any bytes.
test_odd_names_of_users_are_escaped()
{
	needs_root 'a user of another name'
	mkdir -p "$T/odd"
	ODD_USERS='a"b\c}é' LD_PRELOAD=$build/tests/mount/libslow_users.so \
		ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 \
		broker_start "$T/odd" --driver "$(driver odd)"
	cd "$T/odd/mnt"
	by 1001 run 'echo "x 5M" >control/alloc'
	eventually 'grep -q "user=\"a" metrics'
	metrics check
	grep -qF 'gpumem_held_bytes{user="a\"b\\c}\\xc3\\xa9",uid="1001"' metrics || fail "$(grep held_bytes metrics)"
	cd /
	broker_stop "$T/odd"
}

# scrape URL: keeps what the exporter serves in $T/scraped.
scrape()
{
	python3 - "$1" >"$T/scraped" <<-'EOF'
		import sys, urllib.request
		opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
		reply = opener.open(sys.argv[1])
		assert reply.headers["Content-Type"].startswith("application/openmetrics-text"), reply.headers
		sys.stdout.buffer.write(reply.read())
	EOF
}

test_the_exporter_of_the_docs_serves_the_file()
{
	local exporter url
	"${AS[@]}" python3 "$here/../../docs/examples/exporter.py" "$M" 0 >"$T/sanitizer/url" &
	exporter=$!
	eventually '[ -s "$T/sanitizer/url" ]'
	url=$(<"$T/sanitizer/url")
	rm "$T/sanitizer/url"
	# What earlier cases left may still be on its way, and change between two reads.
	eventually "scrape '$url' && [ \"\$(grep -v gpumem_control_line '$T/scraped')\" = \"\$(grep -v gpumem_control_line metrics)\" ]" 60
	kill "$exporter"
	metrics check "$T/scraped"
}

test_a_dashboard_for_grafana_asks_for_what_is_there()
{
	echo 'x 4K' >control/alloc
	echo 'x u8:1' >control/fill
	echo "device:0 $(<devices/0/memory_total_bytes)" >owners/$UID/max
	metrics dashboard metrics "$here/../../docs/grafana.json"
}

test_filesystem_md_lists_every_metric()
{
	diff <(sed -n '/^## Metrics/,/^## /s/^| `\(gpumem_[a-z_]*\)`.*/\1/p' "$here/../../docs/filesystem.md" |
		sed 's/_total$//' | sort) <(metrics names)
}

main "$@"
