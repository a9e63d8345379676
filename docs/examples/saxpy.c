/* SPDX-License-Identifier: MIT */
/*
 * y = 2 x + y, on two allocations of a gpumem mount:
 *
 *	gpumem=$(pkg-config --cflags --libs gpumem)
 *	cc saxpy.c -o saxpy -I/usr/local/cuda/include $gpumem -lcuda
 *	echo 'x 4096xf32' >/mnt/gpu/control/alloc; echo 'x f32:1.5' >/mnt/gpu/control/fill
 *	echo 'y 4096xf32' >/mnt/gpu/control/alloc
 *	./saxpy /mnt/gpu saxpy.ptx
 *	od -A d -t f4 -N 8 /mnt/gpu/allocations/y/data
 */
#include <cuda.h>
#include <err.h>
#include <fcntl.h>
#include <gpumem/gpumem.h>
#include <unistd.h>

#define TRY(call)   ((call) < 0 ? errx(1, "%s", gpumem_error()) : (void)0)
#define CHECK(call) ((call) != CUDA_SUCCESS ? errx(1, "%s failed", #call) : (void)0)

int main(int argc, char **argv)
{
	struct gpumem *gpus;
	struct gpumem_map *x, *y;
	struct gpumem_info from, to;
	CUcontext context;
	CUmodule module;
	CUfunction saxpy;
	char ptx[65536] = "";
	float factor = 2;

	if (argc != 3 || read(open(argv[2], O_RDONLY), ptx, sizeof(ptx) - 1) <= 0)
		err(2, "usage: saxpy MOUNT PTX");
	TRY(gpumem_open(&gpus, argv[1]));
	TRY(gpumem_map(&x, gpus, "x", 0));
	TRY(gpumem_map(&y, gpus, "y", GPUMEM_WRITE));
	TRY(gpumem_info(x, &from));
	TRY(gpumem_info(y, &to));
	CHECK(cuDevicePrimaryCtxRetain(&context, to.device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
	CHECK(cuModuleGetFunction(&saxpy, module, "saxpy"));
	unsigned int n = to.size / sizeof(float);
	void *arguments[] = { &n, &factor, &from.pointer, &to.pointer };

	TRY(gpumem_begin(y, GPUMEM_WRITE));
	CHECK(cuLaunchKernel(saxpy, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments,
			     NULL));
	TRY(gpumem_end(y, NULL));
	TRY(gpumem_unmap(y));
	TRY(gpumem_unmap(x));
	gpumem_close(gpus);
	return 0;
}
