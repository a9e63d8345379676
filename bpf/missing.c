/* SPDX-License-Identifier: MIT */
#include "missing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool capability(unsigned int number)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long long effective = 0;
	char line[256];

	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "CapEff: %llx", &effective) == 1)
			break;
	if (status)
		fclose(status);
	return effective >> number & 1;
}

#define CAPABILITY_SYS_ADMIN 21
#define CAPABILITY_PERFMON   38
#define CAPABILITY_BPF	     39

bool missing_capability(enum attach_way way, struct text *why)
{
	bool bpf = capability(CAPABILITY_BPF), perfmon = capability(CAPABILITY_PERFMON);

	if (capability(CAPABILITY_SYS_ADMIN))
		return false;
	if (!bpf || !perfmon) {
		text_printf(why,
			    "tracing needs CAP_BPF and CAP_PERFMON, and %s %s missing: "
			    "use sudo",
			    bpf	      ? "CAP_PERFMON"
			    : perfmon ? "CAP_BPF"
				      : "both",
			    bpf || perfmon ? "is" : "are");
		return true;
	}
	if (way == ATTACH_PERF) {
		text_printf(why, "this kernel has no uprobe_multi links (Linux 6.6), and "
				 "perf uprobes need CAP_SYS_ADMIN too: use sudo");
		return true;
	}
	return false;
}

void missing_say(enum attach_way way, int error, struct text *why)
{
	if (missing_capability(way, why))
		return;
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		text_printf(why, "the kernel has no BTF: it must be built with "
				 "CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)");
	else if (access("/sys/bus/event_source/devices/uprobe", F_OK))
		text_printf(why, "the kernel has no uprobes: it must be built with "
				 "CONFIG_UPROBE_EVENTS and CONFIG_BPF_EVENTS");
	else if (error == -EPERM)
		text_printf(why,
			    "the kernel refuses BPF programs though the capabilities "
			    "are there: lockdown, or a container's seccomp filter");
	else
		text_printf(why,
			    "the BPF programs could not be %s: %s (Linux 5.15 or newer "
			    "is needed; -v shows the kernel's words)",
			    way == ATTACH_ANY ? "loaded" : "attached", strerror(-error));
}

void missing_library(const struct libraries *libraries, struct text *why)
{
	if (!libraries->n) {
		text_printf(why,
			    "no libcuda.so.1 found: the loader finds none and no process "
			    "has one; --library PATH says where it is");
		return;
	}
	const struct library *first = &libraries->list[0];
	text_printf(why, "no libcuda.so.1 found that can be probed: %s: %s", first->name,
		    strerror(-first->error));
	if (libraries->n > 1)
		text_printf(why, ", and %zu more (-v names them)", libraries->n - 1);
}
