# What tools/quickstart and tools/test share: install what is missing, check the
# toolkit, set up a build folder. Sourced from the top of the checkout; every step
# is idempotent, and the first that can't be done ends the script with exit status 1.

set -u
export LC_ALL=C.UTF-8

say()
{
	printf '\n==> %s\n' "$*"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@" </dev/null
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "this needs root, and there is no sudo: $*"
	fi
}

missing_packages()
{
	local package
	sed 's/#.*//' tools/packages | while read -r package; do
		[ -n "$package" ] || continue
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qx installed || echo "$package"
	done
}

install_packages()
{
	local missing
	if ! command -v dpkg-query >/dev/null; then
		say "Not Debian: the counterparts of what tools/packages lists must be there"
		return
	fi
	missing=$(missing_packages) || exit
	[ -n "$missing" ] || return 0
	say "Installing what is missing:" $missing
	as_root apt-get -q update &&
		as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get -qy install --no-install-recommends $missing ||
		die "apt-get could not install:" $missing
}

# As meson.build looks for it, but with the whole way out in the message.
check_toolkit()
{
	local dir old=
	for dir in "${CUDA_HOME:-}" /usr/local/cuda /usr; do
		[ -n "$dir" ] && [ -e "$dir/include/cudaTypedefs.h" ] || continue
		if echo 'int version = CUDA_VERSION;' |
			gcc -I"$dir/include" -include cuda.h -E - 2>/dev/null |
			awk '/^int version =/ { v = $4 + 0 } END { exit !(v >= 12040) }'; then
			return 0
		fi
		old=" ($dir has an older one)"
		break
	done
	cat >&2 <<EOF

${0##*/}: the CUDA Toolkit's headers (cuda.h and cudaTypedefs.h, 12.4 or newer) are
missing$old. They were looked for in CUDA_HOME, /usr/local/cuda and /usr. No GPU
and no driver are needed, only this one package from NVIDIA's own repository (as root):

    apt-get install -y ca-certificates wget
    wget https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb
    dpkg -i cuda-keyring_1.1-1_all.deb
    apt-get update
    apt-get install -y cuda-cudart-dev-13-0

Debian 12's own nvidia-cuda-toolkit is 11.8, too old. A toolkit that lies elsewhere is
found through CUDA_HOME: CUDA_HOME=DIR tools/${0##*/}
EOF
	exit 1
}

# The device file, the module behind it, and the mode that udev gives it, so that users
# other than root can mount; in a container the device is the host's to give.
check_fuse()
{
	if [ ! -e /dev/fuse ]; then
		as_root modprobe fuse 2>/dev/null
		[ -e /dev/fuse ] || as_root mknod -m 666 /dev/fuse c 10 229 2>/dev/null
	fi
	[ -e /dev/fuse ] || die "there is no /dev/fuse: the kernel lacks FUSE (modprobe fuse)," \
		"or the container was started without --device /dev/fuse"
	[ -e /etc/mtab ] || as_root ln -s /proc/self/mounts /etc/mtab # fusermount3 looks there
	[ "$(stat -c %a /dev/fuse)" = 666 ] || as_root chmod 666 /dev/fuse
}

# setup_build FOLDER OPTION...: a folder whose first setup failed is made anew.
setup_build()
{
	local folder=$1
	shift
	if [ -e "$folder/build.ninja" ]; then
		set -- --reconfigure "$@"
	else
		rm -rf "$folder"
	fi
	meson setup "$folder" "$@" >"$folder.log" 2>&1 ||
		{ cat "$folder.log" >&2; die "meson setup $folder failed"; }
	mv "$folder.log" "$folder/setup.log"
}

# build FOLDER: silent unless it fails.
build()
{
	local log=$1/build.log
	ninja -C "$1" >"$log" 2>&1 || { tail -n 100 "$log" >&2; die "the build in $1 failed"; }
	grep -F 'warning:' "$log" || true
}
