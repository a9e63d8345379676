/* SPDX-License-Identifier: MIT */
/*
 * From the open() of a lease to a mapped pointer, beside a bare import and mapping of the
 * same memory in this process, by size; then many leases in a row, and holds.
 *
 *	bench-lease [SIZE]...	2M 1G 64G, unless sizes are given
 */
#include "bench.h"

#include "base/text.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <gpumem/gpumem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LEASES_MAX 4000 /* a user has at most 4096 */

struct bench {
	struct mount broker;
	struct gpumem *session;
	struct cuda_driver *driver;
};

static void try(int r, const char *what)
{
	if (r < 0)
		die("%s: %s", what, gpumem_error());
}

/* ---- leases without the library ---- */

struct lease {
	int fd;
	char ticket[64];
	char socket[108];
	uint64_t mapped_size;
};

static struct lease lease_open(const struct mount *mount)
{
	struct lease lease = { .fd = mount_open(mount, "allocations/x/lease", O_RDWR) };
	char text[4096];
	ssize_t length = pread(lease.fd, text, sizeof(text) - 1, 0);
	char *line, *rest = text;
	unsigned long long size;

	if (length < 0)
		die("allocations/x/lease: %m");
	text[length] = '\0';
	while ((line = strsep(&rest, "\n"))) {
		sscanf(line, "ticket %63s", lease.ticket);
		sscanf(line, "socket %107s", lease.socket);
		if (sscanf(line, "mapped_bytes %llu", &size) == 1)
			lease.mapped_size = size;
	}
	return lease;
}

static int lease_redeem(const struct lease *lease)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int connection =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char control[CMSG_SPACE(sizeof(int))] = "", error = 1;
	struct iovec iov = { &error, 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd = -1;

	strcpy(address.sun_path, lease->socket);
	if (connect(connection, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(connection, lease->ticket, strlen(lease->ticket), 0) < 0 ||
	    recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1 || error ||
	    !CMSG_FIRSTHDR(&message))
		die("%s gave no memory", lease->socket);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

/* ---- a mapping ---- */

static double measure_library(struct bench *bench)
{
	struct gpumem_map *map;
	double start = now_s(), took;

	try(gpumem_map(&map, bench->session, "x", GPUMEM_WRITE), "gpumem_map");
	took = (now_s() - start) * 1e6;
	try(gpumem_unmap(map), "gpumem_unmap");
	return took;
}

static double measure_bare(struct bench *bench, int fd, CUdeviceptr address, size_t size)
{
	const CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	CUmemGenericAllocationHandle handle;
	double start = now_s(), took;

	if (CUDA(bench->driver, &failure, cuMemImportFromShareableHandle, &handle,
		 (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) < 0 ||
	    CUDA(bench->driver, &failure, cuMemMap, address, size, 0, handle, 0) < 0 ||
	    CUDA(bench->driver, &failure, cuMemRelease, handle) < 0 ||
	    CUDA(bench->driver, &failure, cuMemSetAccess, address, size, &access, 1) < 0)
		die("%s: %s", cuda_call_name(failure.call),
		    cuda_result_name(failure.result));
	took = (now_s() - start) * 1e6;
	CUDA(bench->driver, NULL, cuCtxSynchronize);
	CUDA(bench->driver, NULL, cuMemUnmap, address, size);
	return took;
}

static bool allocate(struct bench *bench, const char *size)
{
	char line[128];

	snprintf(line, sizeof(line), "x %s\n", size);
	if (gpumem_command(bench->session, "control/alloc", line, NULL, 0) == 0)
		return true;
	printf("%s skipped: %s\n", size, gpumem_error());
	return false;
}

static void release(struct bench *bench)
{
	try(gpumem_command(bench->session, "control/free", "x\n", NULL, 0), "free");
}

static void measure_size(struct bench *bench, const char *size)
{
	static struct series ours, theirs, more;
	size_t rounds = bench_number("BENCH_ROUNDS", 21);
	CUdeviceptr address = 0;
	char what[64];

	if (!allocate(bench, size))
		return;
	struct lease lease = lease_open(&bench->broker);
	int fd = lease_redeem(&lease);

	if (CUDA(bench->driver, NULL, cuMemAddressReserve, &address, lease.mapped_size, 0,
		 0, 0) < 0)
		die("no address for %s", size);
	ours.n = theirs.n = more.n = 0;
	for (size_t round = 0; round < rounds; round++) {
		double bare = measure_bare(bench, fd, address, lease.mapped_size);
		double leased = measure_library(bench);

		series_add(&theirs, bare);
		series_add(&ours, leased);
		series_add(&more, leased - bare);
	}
	snprintf(what, sizeof(what), "import and map %s", size);
	series_print(what, &theirs, "us");
	snprintf(what, sizeof(what), "open a lease and map %s", size);
	series_print(what, &ours, "us");
	snprintf(what, sizeof(what), "over the driver's own time %s", size);
	series_print(what, &more, "us");
	snprintf(what, sizeof(what), "lease and map / import and map %s", size);
	ratio_print(what, &ours, &theirs);
	CUDA(bench->driver, NULL, cuMemAddressFree, address, lease.mapped_size);
	close(fd);
	close(lease.fd);
	release(bench);
}

/* ---- many ---- */

/* Opens leases of an allocation and takes their descriptors; all are held at the end. */
static void measure_many(struct bench *bench)
{
	static int leases[LEASES_MAX], fds[LEASES_MAX];
	static struct series all;
	size_t n = MIN(bench_number("BENCH_LEASES", 1000), (size_t)LEASES_MAX);
	size_t rounds = bench_number("BENCH_MANY_ROUNDS", 5);
	char what[64];

	if (!allocate(bench, "2M"))
		return;
	for (size_t round = 0; round < rounds; round++) {
		double start = now_s();

		for (size_t i = 0; i < n; i++) {
			struct lease lease = lease_open(&bench->broker);

			leases[i] = lease.fd;
			fds[i] = lease_redeem(&lease);
		}
		series_add(&all, (now_s() - start) * 1e3);
		for (size_t i = 0; i < n; i++) {
			close(fds[i]);
			close(leases[i]);
		}
	}
	snprintf(what, sizeof(what), "%zu leases with descriptors", n);
	series_print(what, &all, "ms");
	release(bench);
}

static double measure_hold(struct bench *bench, struct gpumem_map *map)
{
	double start = now_s(), took;

	try(gpumem_begin(map, GPUMEM_WRITE), "gpumem_begin");
	took = (now_s() - start) * 1e6;
	try(gpumem_end(map, NULL), "gpumem_end");
	/* the stream gives the hold up */
	CUDA(bench->driver, NULL, cuCtxSynchronize);
	return took;
}

static void measure_holds(struct bench *bench)
{
	static struct series first, later;
	size_t rounds = bench_number("BENCH_ROUNDS", 21);

	if (!allocate(bench, "2M"))
		return;
	for (size_t round = 0; round < rounds; round++) {
		struct gpumem_map *map;

		try(gpumem_map(&map, bench->session, "x", GPUMEM_WRITE), "gpumem_map");
		series_add(&first, measure_hold(bench, map));
		for (int i = 0; i < 10; i++)
			series_add(&later, measure_hold(bench, map));
		try(gpumem_unmap(map), "gpumem_unmap");
	}
	series_print("first hold of a map", &first, "us");
	series_print("later hold", &later, "us");
	ratio_print("first hold / later hold", &first, &later);
	release(bench);
}

/* ---- */

static void bench_open(struct bench *bench)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	const char *software = "software:", *driver = bench_driver();
	CUcontext context;

	/* the broker's machine, for the library too */
	if (!strncmp(driver, software, strlen(software)))
		setenv("GPUMEM_SOFTGPU", driver + strlen(software), 1);
	mount_broker(&bench->broker);
	setenv("GPUMEM_DRIVER", bench_library(), 1);
	try(gpumem_open(&bench->session, bench->broker.path), "gpumem_open");
	if (cuda_driver_open(bench_library(), &bench->driver, &why) < 0)
		die("%s", text_string(&why));
	if (CUDA(bench->driver, NULL, cuDevicePrimaryCtxRetain, &context, 0) < 0 ||
	    CUDA(bench->driver, NULL, cuCtxSetCurrent, context) < 0)
		die("no context on device 0");
}

int main(int argc, char **argv)
{
	static char *const otherwise[] = { "2M", "1G", "64G" };
	char *const *sizes = argc > 1 ? argv + 1 : otherwise;
	size_t n = argc > 1 ? (size_t)argc - 1 : ARRAY_SIZE(otherwise);
	struct bench bench;

	bench_open(&bench);
	for (size_t i = 0; i < n; i++)
		measure_size(&bench, sizes[i]);
	measure_many(&bench);
	measure_holds(&bench);
	gpumem_close(bench.session);
	return 0;
}
