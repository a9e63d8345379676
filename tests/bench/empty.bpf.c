/* SPDX-License-Identifier: MIT */
/* What a probe costs by itself: a program that does nothing, as a session and as a pair.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("uprobe")
int empty(void *ctx)
{
	return 0;
}
