# What tools/quickstart and tools/test share: install what is missing, set up
# a build folder. Sourced from the top of the checkout; every step
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

# The column of tools/packages with the names of this system's packages.
packages_column()
{
	case " $(. /etc/os-release 2>/dev/null; echo "${ID-} ${ID_LIKE-}") " in
	*' ubuntu '*) echo 3 ;;
	*' debian '*) echo 2 ;;
	*' fedora '*) echo 4 ;;
	esac
}

has_package()
{
	if command -v dpkg-query >/dev/null; then
		dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
	else
		rpm -q --whatprovides "$1" >/dev/null 2>&1
	fi
}

# missing_packages COLUMN NEED...
missing_packages()
{
	local column=$1 package
	shift
	awk -v needs=" $* " -v column="$column" \
		'index(needs, " " $1 " ") && $column != "-" { print $column }' tools/packages |
		while read -r package; do
			has_package "$package" || echo "$package"
		done
}

# install_packages NEED...
install_packages()
{
	local missing column
	column=$(packages_column)
	if [ -z "$column" ]; then
		say "Not Debian, Ubuntu or Fedora: what tools/packages lists must be there"
		return
	fi
	missing=$(missing_packages "$column" "$@") || exit
	[ -n "$missing" ] || return 0
	say "Installing what is missing:" $missing
	if [ "$column" = 4 ]; then
		as_root dnf -y install $missing
	else
		as_root apt-get -q update &&
			as_root env DEBIAN_FRONTEND=noninteractive \
				apt-get -qy install --no-install-recommends $missing
	fi || die "could not install:" $missing
}

# apt's own user may not reach the folder, which apt would say each time.
apt_download()
{
	apt-get -q -o APT::Sandbox::User=root download "$1"
}

# fetch_programs: adds the programs of `fetch` packages to PATH. They are taken out of the
# packages, which are not installed.
fetch_programs()
{
	local column package folder=$PWD/build-fetched
	column=$(packages_column)
	[ "$column" = 2 ] || [ "$column" = 3 ] || return 0
	for package in $(missing_packages "$column" fetch); do
		if [ ! -e "$folder/$package" ]; then
			say "Fetching $package, for its programs"
			(rm -rf "$folder/new" && mkdir -p "$folder/new" && cd "$folder/new" &&
				{ apt_download "$package" ||
					{ as_root apt-get -q update && apt_download "$package"; }; } &&
				dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './usr/bin/*' &&
				mv usr/bin "$folder/$package") 2>&1 | tail -n 2
		fi
		[ -e "$folder/$package" ] || say "It can't be fetched: the tests that need it are skipped"
		PATH=$PATH:$folder/$package
	done
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
