/* SPDX-License-Identifier: MIT */
/*
 * The BPF programs: loaded, and on the calls of the driver libraries.
 */
#pragma once

#include "base/text.h"
#include "library.h"
#include "options.h"

struct bucket;
struct trace_bpf;

struct probes {
	struct trace_bpf *bpf;
	enum attach_way way; /* the way in use */
	bool tally;	     /* counted calls look up no process */
	int *fds;	     /* of links: one for each library and kind of program */
	size_t n_fds;
	struct bpf_link **links; /* of perf uprobes */
	size_t n_links;
	size_t n_probes;		    /* probed calls */
	volatile struct process *processes; /* PROCESSES_MAX, the kernel's own */
	struct bucket *buckets;		    /* BUCKETS, the kernel's own */
};

/* Calls to probe, and calls only to count. */
struct wanted {
	unsigned int shown;   /* groups with a record for each call */
	unsigned int counted; /* groups only counted in the kernel */
	bool events;	      /* records of calls are wanted, not only totals */
};

/*
 * Loads the programs and puts them on every wanted call. A library that has vanished is
 * left out, and gets an error.
 *
 * Returns: 0; a negative errno, with a sentence in `why` about the missing thing: -ENOENT
 * when no library is left.
 */
int probes_attach(struct probes *probes, const struct options *options,
		  const struct wanted *wanted, struct libraries *libraries,
		  struct text *why);

/* Takes all of them out. */
void probes_detach(struct probes *probes);

/* How they were put in: "uprobe_multi sessions" ... */
const char *probes_way_name(enum attach_way way);

/* Whether a call is to be probed, and the kind of program for the call. */
bool probes_want_call(const struct call *call, const struct wanted *wanted,
		      enum kind *ret_kind);
