/* SPDX-License-Identifier: MIT */
/* The cost of a probe alone: empty programs, as a uprobe session and as a pair of probes.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("uprobe")
int empty(void *ctx)
{
	return 0;
}
