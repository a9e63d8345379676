// SPDX-License-Identifier: MIT
// Blocks of a cluster read each other's shared memory: each thread gives what the thread
// that stands opposite in the next block has. Needs compute capability 9.0.
//
//   echo 'grid=8 block=32 cluster=4 out' >modules/cluster/functions/exchange/launch

#include <cooperative_groups.h>

extern "C" __global__ void exchange(unsigned int *out)
{
	const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
	__shared__ unsigned int mine[32];
	const unsigned int rank = cluster.block_rank(), n = cluster.num_blocks();

	mine[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
	cluster.sync();
	const unsigned int *next = cluster.map_shared_rank(mine, (rank + 1) % n);
	out[blockIdx.x * 32 + threadIdx.x] = next[31 - threadIdx.x];
	// Nobody ends while another one may still read what is his.
	cluster.sync();
}
