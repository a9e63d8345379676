#!/bin/bash
# SPDX-License-Identifier: MIT
# The Debian packages, in chroots of Debian 12: built with nothing but their build
# dependencies, examined by lintian, installed, used on the software GPU, removed. It takes
# some minutes, root, the network and debootstrap, so it runs on request:
#
#     tools/test --packages
#
# The chroots are in build-packages, beside what is built; what debootstrap fetched is kept
# there for a week.
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
work=$top/build-packages

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# in_chroot NAME COMMAND: a shell that stops at the first failure, with the chroot's own
# environment.
in_chroot()
{
	chroot "$work/$1" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		bash -euo pipefail -c "$2" 2>&1 </dev/null
}

# Devices of its own, so that the software GPU's files don't meet the host's.
make_chroot()
{
	local root=$work/$1 node
	mkdir "$root" && tar -C "$root" -xf "$work/base.tar" || return
	cp /etc/resolv.conf "$root/etc"
	mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/dev" || return
	mount -t tmpfs -o mode=755 tmpfs "$root/run" || return
	mkdir "$root/dev/shm" "$root/out" && chmod 1777 "$root/dev/shm" || return
	for node in null zero full random urandom fuse; do
		touch "$root/dev/$node" && mount --bind "/dev/$node" "$root/dev/$node" || return
	done
	ln -s /proc/self/fd "$root/dev/fd"
	ln -s /proc/self/mounts "$root/etc/mtab" # as systemd and init make it
	mount --bind "$work/out" "$root/out"
}

# The files of a chroot, but for what apt and dpkg keep, caches, the packages, and the
# backups that useradd and userdel make.
list_files()
{
	in_chroot "$1" "find / -xdev \( -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache -o -path /out \
		-o -path /var/log -o -path /tmp -o -path /root -o -path /etc/ld.so.cache -o -path '/etc/*-' \) -prune -o -print" |
		sort
}

# Waits until no daemon and no worker runs.
all_ended()
{
	in_chroot use 'for i in $(seq 200); do
			grep -qs "^gpumem" /proc/[0-9]*/comm || exit 0
			sleep 0.1
		done
		echo "after 20 seconds there is:"; grep "^gpumem" /proc/[0-9]*/comm; exit 1'
}

# ---- cases, each on what those before it left ----

case_they_are_built_with_their_build_dependencies_alone()
{
	mkdir "$work/build/src"
	git ls-files -z | tar --null -cT - | tar -xC "$work/build/src"
	in_chroot build 'apt-get -q update
		apt-get -qy --no-install-recommends build-dep /src/tools
		[ ! -e /usr/local/cuda ]
		/src/tools/package /out
		! grep "warning:" /out/log || exit 1'
}

case_lintian_has_no_error_and_no_warning()
{
	local said
	in_chroot build 'apt-get -qy --no-install-recommends install lintian' || return
	said=$(in_chroot build 'lintian --allow-root --tag-display-limit 0 /out/*.changes 2>/dev/null') ||
		{ echo "$said"; return 1; }
	! grep '^[EW]:' <<<"$said" || return 1
}

case_a_program_in_c_is_compiled()
{
	cat >"$work/build/src/program.c" <<'EOF'
#include <gpumem/gpumem.h>
#include <stdio.h>
int main(void)
{
	struct gpumem *gpus;
	struct gpumem_map *map;
	struct gpumem_info info;
	if (gpumem_open(&gpus, NULL) || gpumem_map(&map, gpus, "h", 0) || gpumem_info(map, &info))
		return fprintf(stderr, "%s\n", gpumem_error()), 1;
	puts(info.pointer);
}
EOF
	in_chroot build 'apt-get -qy install /out/libgpumem0_*.deb /out/libgpumem-dev_*.deb
		gcc -Wall -Werror -o /out/program /src/program.c $(pkg-config --cflags --libs gpumem)'
}

case_they_are_installed()
{
	# autoremove leaves python3, which is asked for by name
	in_chroot use 'apt-get -q update; apt-get -qy --no-install-recommends install python3' || return
	list_files use >"$work/before"
	in_chroot use 'rm -f /out/*-dbgsym_*; apt-get -qy --no-install-recommends install /out/*.deb
		! ldd /usr/bin/gpumem /usr/bin/gpumemd /usr/libexec/gpumem/gpumem-worker | grep "not found" || exit 1
		gpumem --help >/dev/null; gpumemd --help >/dev/null
		bash -n /usr/share/bash-completion/completions/gpumem'
}

case_the_files_that_a_manual_page_names_are_there()
{
	in_chroot use 'names=$(zcat /usr/share/man/man8/gpumemd.8.gz | grep -o "/usr/share/doc/[a-z./]*[a-z]" | sort -u)
		[ "$names" ] && ls -l $names
		[ -x /usr/share/doc/gpumem/examples/slurm-epilog ]'
}

case_the_daemon_serves_the_software_gpu()
{
	in_chroot use 'mkdir /mnt/gpu; gpumemd --driver software /mnt/gpu
		gpumem alloc x 4096xf32; gpumem fill x f32:1.5
		[ "$(od -A n -t f4 -N 4 /mnt/gpu/allocations/x/data | tr -d " ")" = 1.5 ]
		printf bytes >/tmp/in; dd if=/tmp/in of=/mnt/gpu/allocations/x/data conv=notrunc status=none
		[ "$(head -c 5 /mnt/gpu/allocations/x/data)" = bytes ]
		gpumem alloc h 4096 kind=host; printf "of the mount\0" >/mnt/gpu/allocations/h/data
		gpumem run /usr/share/doc/gpumem/examples/saxpy.ptx elements=4096 u32:4096 f32:2 in:x x'
}

case_a_program_in_c_maps_memory()
{
	[ "$(in_chroot use /out/program)" = 'of the mount' ] || in_chroot use /out/program
}

case_a_program_in_python_maps_memory()
{
	in_chroot use 'python3 -c "import gpumem
m = gpumem.map(\"h\")
assert bytes(m.memoryview()[:12]) == b\"of the mount\""'
}

case_umount_ends_the_daemon()
{
	in_chroot use 'umount /mnt/gpu' && all_ended
}

case_mount_and_fstab_start_the_daemon()
{
	in_chroot use 'echo "none /mnt/gpu fuse.gpumemd driver=software,nofail 0 0" >>/etc/fstab
		mount /mnt/gpu; gpumem doctor | grep "^ok *lease"; umount /mnt/gpu
		sed -i /gpumemd/d /etc/fstab'
}

case_an_ordinary_user_mounts()
{
	in_chroot use 'useradd -m anna
		su anna -c "mkdir ~/gpu && gpumemd --driver software ~/gpu &&
			gpumem alloc x 4K && ls ~/gpu/allocations && fusermount3 -u ~/gpu"' &&
		all_ended && in_chroot use 'userdel -r anna'
}

case_the_tracer_answers()
{
	in_chroot use 'gpumem-trace --help | grep -i usage
		gpumem-trace --library /usr/lib/*/gpumem/libcuda.so.1 --list | grep cuMemAlloc_v2'
}

case_without_the_software_gpu_the_daemon_says_so()
{
	local said
	in_chroot use 'apt-get -qy remove gpumem-softgpu' || return
	said=$(in_chroot use 'gpumemd --driver software /mnt/gpu') && return 1
	grep 'not installed.*package gpumem-softgpu' <<<"$said" || { echo "$said"; return 1; }
}

case_nothing_is_left_when_they_are_purged()
{
	in_chroot use 'rmdir /mnt/gpu; apt-get -qy purge "*gpumem*"; apt-get -qy autoremove --purge' || return
	list_files use >"$work/after"
	diff "$work/before" "$work/after"
}

run_cases()
{
	local cases said name n=0 failed=0
	# in the order of this file
	cases=$(grep -o '^case_[a-z_]*()' "$0" | tr -d '()')
	echo "1..$(wc -w <<<"$cases")"
	make_chroot build && make_chroot use || die 'the chroots could not be made'
	for name in $cases; do
		n=$((n + 1))
		if said=$("$name" 2>&1); then
			echo "ok $n - ${name#case_}"
		else
			echo "not ok $n - ${name#case_}"
			tail -n 60 <<<"$said" | sed 's/^/#   /'
			failed=1
			case $name in
			*_are_built_* | *_are_installed) echo 'Bail out! The others need it.'; break ;;
			esac
		fi
	done
	return "$failed"
}

if [ "${1-}" = --inside ]; then
	run_cases
	exit
fi

[ "$(id -u)" = 0 ] || die 'this needs root, for chroots'
command -v debootstrap >/dev/null || die 'this needs the package debootstrap'
mkdir -p "$work" || exit
find "$work" -maxdepth 1 -name base.tar -mtime +7 -delete
if ! [ -e "$work/base.tar" ]; then
	rm -rf "$work/base"
	debootstrap --variant=minbase bookworm "$work/base" >"$work/debootstrap.log" 2>&1 ||
		{ tail "$work/debootstrap.log" >&2; die 'debootstrap failed'; }
	tar -C "$work/base" -cf "$work/base.part" . && mv "$work/base.part" "$work/base.tar"
	rm -rf "$work/base"
fi
rm -rf --one-file-system "$work"/{build,use,out}
mkdir "$work/out"
# Mounts and processes of the cases end with the namespaces.
unshare --mount --pid --fork --kill-child bash "$0" --inside
status=$?
rm -rf --one-file-system "$work"/{build,use}
exit "$status"
