/* SPDX-License-Identifier: MIT */
/*
 * y = 2 x + y, on two allocations of a gpumem mount:
 *
 *	cc saxpy.c -o saxpy -I/usr/local/cuda/include -lgpumem -lcuda
 *	echo 'x 4096xf32' >/mnt/gpu/control/alloc; echo 'x f32:1.5' >/mnt/gpu/control/fill
 *	echo 'y 4096xf32' >/mnt/gpu/control/alloc
 *	./saxpy /mnt/gpu saxpy.ptx
 *	od -A d -t f4 -N 8 /mnt/gpu/allocations/y/data
 */
#include <cuda.h>
#include <err.h>
#include <gpumem/gpumem.h>
#include <stdio.h>

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
	CUdevice device;
	char ptx[65536] = "";
	float factor = 2;
	unsigned int n;
	FILE *file;

	if (argc != 3)
		errx(2, "usage: saxpy MOUNT PTX");
	file = fopen(argv[2], "r");
	if (!file || fread(ptx, 1, sizeof(ptx) - 1, file) == 0)
		err(1, "%s", argv[2]);
	fclose(file);
	TRY(gpumem_open(&gpus, argv[1]));
	TRY(gpumem_map(&x, gpus, "x", 0));
	TRY(gpumem_map(&y, gpus, "y", GPUMEM_WRITE));
	TRY(gpumem_info(x, &from));
	TRY(gpumem_info(y, &to));
	CHECK(cuDeviceGet(&device, to.device));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
	CHECK(cuModuleGetFunction(&saxpy, module, "saxpy"));
	n = to.size / sizeof(float);
	TRY(gpumem_begin(y, GPUMEM_WRITE));
	CHECK(cuLaunchKernel(saxpy, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL,
			     (void *[]){ &n, &factor, &from.pointer, &to.pointer },
			     NULL));
	TRY(gpumem_end(y, NULL));
	TRY(gpumem_unmap(y));
	TRY(gpumem_unmap(x));
	gpumem_close(gpus);
	return 0;
}
