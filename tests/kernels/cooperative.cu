// SPDX-License-Identifier: MIT
// A grid that waits for itself: every step, each thread takes what its neighbour had the
// step before. Needs a cooperative launch.
//
//   echo 'grid=4 block=64 cooperative=1 a b u32:10' \
//       >modules/cooperative/functions/rotate/launch

#include <cooperative_groups.h>

extern "C" __global__ void rotate(unsigned int *a, unsigned int *b, unsigned int steps)
{
	const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	const unsigned int n = gridDim.x * blockDim.x;
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	for (unsigned int step = 0; step < steps; step++) {
		unsigned int *from = step % 2 ? b : a, *to = step % 2 ? a : b;

		to[i] = from[(i + 1) % n];
		grid.sync();
	}
}
