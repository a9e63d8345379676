/* SPDX-License-Identifier: MIT */
/*
 * doctor: prints a line for each check: `ok`, or the thing to do.
 */
#include "command.h"
#include "compile.h"
#include "mount.h"
#include "name.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>

#define DRIVER	      "libcuda.so.1"
#define OLDEST_DRIVER 12020 /* as in broker/cuda/driver.c */
#define CAP_PERFMON   38
#define CAP_BPF	      39

struct doctor {
	struct mount mount;
	struct text no_mount; /* the reason why there is no mount; empty: found */
};

/* ---- the driver ---- */

/* A version as CUDA counts: 12020 is 12.2. */
static bool driver_is_new(const char *name, int version, struct text *said)
{
	text_printf(said, "%s for CUDA %d.%d", name, version / 1000, version % 1000 / 10);
	if (version >= OLDEST_DRIVER)
		return true;
	text_printf(said, ": 12.2 is the oldest that works; install NVIDIA's driver 535 "
			  "or newer");
	return false;
}

static bool check_driver_here(struct text *said)
{
	void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
	int (*get_version)(int *version);
	bool good = false;
	int version;

	if (!driver) {
		text_printf(said,
			    DRIVER " can't be loaded: install NVIDIA's driver 535 or "
				   "newer; `gpumemd --driver software MOUNTPOINT` "
				   "needs none");
		return false;
	}
	*(void **)&get_version = dlsym(driver, "cuDriverGetVersion");
	if (!get_version || get_version(&version))
		text_printf(said, DRIVER " is not a CUDA driver that works");
	else
		good = driver_is_new(DRIVER, version, said);
	dlclose(driver);
	return good;
}

/* Adds the first line of a file of the mount. Returns: false, with the reason in said. */
static bool read_line(struct doctor *doctor, const char *file, struct text *line,
		      struct text *said)
{
	int r = mount_read(&doctor->mount, file, line);

	if (r) {
		text_printf(said, "%s/%s: %s", doctor->mount.path, file, strerror(-r));
		return false;
	}
	if (line->data)
		line->data[strcspn(line->data, "\n")] = '\0';
	return true;
}

/* The broker has loaded its driver. The mount may be anybody's, so that nothing is loaded
 * here because a mount names it. */
static bool check_driver(struct doctor *doctor, struct text *said)
{
	_cleanup_text_ struct text path = TEXT_INIT, version = TEXT_INIT;
	unsigned int major, minor;

	if (!doctor->mount.session)
		return check_driver_here(said);
	if (!read_line(doctor, "driver_path", &path, said) ||
	    !read_line(doctor, "driver_version", &version, said))
		return false;
	if (sscanf(text_string(&version), "%3u.%2u", &major, &minor) == 2)
		return driver_is_new(text_string(&path), (int)(1000 * major + 10 * minor),
				     said);
	text_printf(said, "%s/driver_version is '%s'", doctor->mount.path,
		    text_string(&version));
	return false;
}

/* ---- the kernel ---- */

static bool check_fuse(struct doctor *doctor, struct text *said)
{
	_cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	(void)doctor;
	if (fd >= 0)
		text_printf(said, "/dev/fuse opens");
	else if (errno == ENOENT || errno == ENODEV)
		text_printf(said, "/dev/fuse is not there: `modprobe fuse`, or for a "
				  "container --device /dev/fuse");
	else
		text_printf(said, "/dev/fuse: %m: its mode should be 0666");
	return fd >= 0;
}

static bool check_fusermount(struct doctor *doctor, struct text *said)
{
	struct stat st;

	(void)doctor;
	for (const char *folder = getenv("PATH") ?: ""; *folder;) {
		_cleanup_text_ struct text path = TEXT_INIT;
		int length = (int)strcspn(folder, ":");

		text_printf(&path, "%.*s/fusermount3", length, folder);
		folder += length;
		folder += *folder == ':';
		if (stat(text_string(&path), &st))
			continue;
		text_printf(said, "%s", text_string(&path));
		if (geteuid() == 0 || (st.st_uid == 0 && st.st_mode & S_ISUID))
			return true;
		text_printf(said, " is not setuid root: ordinary users can't mount; "
				  "install the package fuse3 anew");
		return false;
	}
	text_printf(said, "fusermount3 is not in PATH: install the package fuse3");
	return false;
}

static bool check_passthrough(struct doctor *doctor, struct text *said)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	(void)doctor;
	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	text_printf(said, "Linux %s", name.release);
	if (major > 6 || (major == 6 && minor >= 9))
		return true;
	text_printf(said, ": mmap(2) of host memory's data needs 6.9");
	return false;
}

static bool check_btf(struct doctor *doctor, struct text *said)
{
	(void)doctor;
	if (!access("/sys/kernel/btf/vmlinux", R_OK)) {
		text_printf(said, "/sys/kernel/btf/vmlinux");
		return true;
	}
	text_printf(said, "/sys/kernel/btf/vmlinux: %m: gpumem-trace needs a kernel with "
			  "CONFIG_DEBUG_INFO_BTF");
	return false;
}

static bool check_bpf(struct doctor *doctor, struct text *said)
{
	const uint64_t wanted = 1ull << CAP_BPF | 1ull << CAP_PERFMON;
	_cleanup_text_ struct text status = TEXT_INIT;
	const char *line;

	(void)doctor;
	if (!file_read(AT_FDCWD, "/proc/self/status", &status) &&
	    (line = strstr(text_string(&status), "\nCapEff:")) &&
	    (strtoull(line + 8, NULL, 16) & wanted) == wanted) {
		text_printf(said, "CAP_BPF and CAP_PERFMON");
		return true;
	}
	text_printf(said, "gpumem-trace needs CAP_BPF and CAP_PERFMON: run it with sudo");
	return false;
}

static bool check_nvcc(struct doctor *doctor, struct text *said)
{
	_cleanup_text_ struct text path = TEXT_INIT;
	bool found = nvcc_find(&path);

	(void)doctor;
	text_printf(said, "%s",
		    found ? text_string(&path)
			  : "nvcc is not in PATH, CUDA_HOME or /usr/local/cuda: "
			    "`gpumem run` of a .cu needs it");
	return found;
}

/* ---- the mount ---- */

static bool check_mount(struct doctor *doctor, struct text *said)
{
	_cleanup_text_ struct text version = TEXT_INIT;

	if (!doctor->mount.session) {
		text_printf(said, "%s", text_string(&doctor->no_mount));
		return false;
	}
	if (mount_read(&doctor->mount, "version", &version))
		text_clear(&version);
	text_printf(said, "%s, gpumem %.*s", doctor->mount.path,
		    (int)strcspn(text_string(&version), "\n"), text_string(&version));
	return true;
}

/* The socket itself is made with its user's first lease. */
static bool folder_is_there(const char *path)
{
	_cleanup_text_ struct text folder = TEXT_INIT;
	const char *slash = strrchr(path, '/');

	if (!slash)
		return false;
	text_add(&folder, path, (size_t)(slash - path));
	return !text_failed(&folder) && access(text_string(&folder), X_OK) == 0;
}

static bool check_socket(struct doctor *doctor, struct text *said)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	ssize_t length;

	if (!doctor->mount.session) {
		text_printf(said, "needs a mount");
		return false;
	}
	length = readlinkat(doctor->mount.fd, "socket", address.sun_path,
			    sizeof address.sun_path - 1);
	if (length < 0) {
		text_printf(said, "%s/socket: %m", doctor->mount.path);
		return false;
	}
	text_printf(said, "%s", address.sun_path);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof address))
		return true;
	if (errno == ENOENT && folder_is_there(address.sun_path)) {
		text_printf(said, ", from the first lease on");
		return true;
	}
	text_printf(said, ": %m: programs can't map memory; is the socket's folder "
			  "mounted here, too? (gpumemd --socket PATH)");
	return false;
}

/* Maps an allocation with known bytes. Returns: 0; -errno with gpumem_error(). */
static int lease_read(struct gpumem *session, const char *name, uint8_t *ret_byte)
{
	struct gpumem_info info;
	struct gpumem_map *map;
	int r = gpumem_map(&map, session, name, GPUMEM_ANY_ADDRESS);

	if (r)
		return r;
	r = gpumem_info(map, &info);
	if (!r)
		*ret_byte = *(const uint8_t *)info.pointer;
	return gpumem_unmap(map) ?: r;
}

static bool check_lease(struct doctor *doctor, struct text *said)
{
	struct gpumem *session = doctor->mount.session;
	char name[64], line[128];
	uint8_t byte = 0;
	int r;

	if (!session) {
		text_printf(said, "needs a mount");
		return false;
	}
	snprintf(name, sizeof name, "doctor.%u", name_number());
	snprintf(line, sizeof line, "%s 4096 kind=host until=close", name);
	r = gpumem_command(session, "control/alloc", line, NULL, 0);
	snprintf(line, sizeof line, "%s u8:42", name);
	r = r ?: gpumem_command(session, "control/fill", line, NULL, 0);
	r = r ?: lease_read(session, name, &byte);
	if (r)
		text_printf(said, "%s", gpumem_error());
	else if (byte != 42)
		text_printf(said, "mapped memory has other bytes than its `data`");
	else
		text_printf(said, "4 KiB of host memory mapped and read");
	return !r && byte == 42;
}

/* ---- the whole ---- */

static const struct {
	const char *name;
	bool needed;
	bool (*check)(struct doctor *doctor, struct text *said);
} checks[] = {
	{ "driver", true, check_driver },
	{ "fuse", true, check_fuse },
	{ "fusermount3", true, check_fusermount },
	{ "passthrough", false, check_passthrough },
	{ "BTF", false, check_btf },
	{ "BPF", false, check_bpf },
	{ "nvcc", false, check_nvcc },
	{ "mount", true, check_mount },
	{ "tickets", true, check_socket },
	{ "lease", true, check_lease },
};

int command_doctor(const struct call *call)
{
	struct doctor doctor = { .mount = MOUNT_CLOSED };
	int status = STATUS_DONE;

	if (call->n_args)
		return wrong_use("doctor takes no '%s'", call->args[0]);
	(void)mount_try(&doctor.mount, &doctor.no_mount);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		_cleanup_text_ struct text said = TEXT_INIT, plain = TEXT_INIT;
		bool ok = checks[i].check(&doctor, &said);

		text_add_plain(&plain, text_string(&said));
		printf("%-8s %-13s %s\n",
		       ok		  ? "ok"
		       : checks[i].needed ? "FAILED"
					  : "optional",
		       checks[i].name, text_string(&plain));
		if (!ok && checks[i].needed)
			status = STATUS_REFUSED;
	}
	mount_close(&doctor.mount);
	text_deinit(&doctor.no_mount);
	return status;
}
