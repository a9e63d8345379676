/* SPDX-License-Identifier: MIT */
#include "api/verb_table.h"

#include "api/broker.h"
#include "api/memory_used.h"
#include "control/launch_line.h"
#include "control/verbs.h"

#define PREFETCH_USAGE "LOCATION [offset=N] [length=N] [stream=S] [wait=0]"
#define ADVISE_USAGE   "ADVICE [LOCATION] [offset=N] [length=N]"

static int answer_allocation(struct broker *broker, struct token token, struct text *text)
{
	return broker_show(broker, OBJECT_ALLOCATION, token, NULL, text);
}

static const struct verb verbs[] = {
	{
		.name = "alloc",
		.usage = "NAME SIZE [kind=device|direct|async|managed|host] [device=N] "
			 "[stream=S] [attach=global|host] [tag=WORD] [mode=OCTAL] "
			 "[until=close|exit|cgroup] [map=writers|readers] [guard=1|2] "
			 "[wait=SECONDS]",
		.help = "allocates SIZE bytes; the answer is the allocation's status",
		.run = verb_alloc,
		.answer = answer_allocation,
	},
	{
		.name = "free",
		.usage = "[NAME] [id=N] [cgroup=PATH]",
		.help = "frees an allocation, after its last use; with cgroup= all that "
			"was allocated from PATH or below it",
		.run = verb_free,
	},
	{
		.name = "fill",
		.usage = "NAME TYPE:VALUE|hex:BYTES [offset=N] [length=N] [stream=S] "
			 "[wait=0] [id=N]",
		.help = "repeats a value over an allocation or a range of it",
		.run = verb_fill,
	},
	{
		.name = "copy",
		.usage = "DST[+OFFSET] from=SRC[+OFFSET] [length=N] [stream=S] [wait=0] "
			 "[id=N] [from_id=N]",
		.help = "copies bytes from one allocation to another",
		.run = verb_copy,
	},
	{
		.name = "load",
		.usage = "NAME path=FILE [file_id=DEVICE:INODE] [offset=N] "
			 "[file_offset=N] [length=N] [wait=0] [id=N]",
		.help = "fills an allocation or a range of it from a file",
		.opens_files = true,
		.run = verb_load,
	},
	{
		.name = "save",
		.usage = "NAME path=FILE [offset=N] [length=N] [wait=0] [id=N]",
		.help = "makes a file of an allocation or a range of it",
		.opens_files = true,
		.run = verb_save,
	},
	{
		.name = "publish",
		.usage = "NAME TO [NAME TO]... [id=N[,N]...]",
		.help = "seals allocations and gives them their names, all at once or "
			"none; frees those that had the names",
		.run = verb_publish,
	},
	{
		.name = "prefetch",
		.usage = "NAME " PREFETCH_USAGE " [id=N]",
		.help = "moves managed memory to where it will be used",
		.object = OBJECT_ALLOCATION,
		.object_usage = PREFETCH_USAGE,
		.managed = true,
		.run = verb_prefetch,
	},
	{
		.name = "advise",
		.usage = "NAME " ADVISE_USAGE " [id=N]",
		.help = "tells the driver how managed memory is used; read, it is what "
			"the driver knows",
		.object = OBJECT_ALLOCATION,
		.object_usage = ADVISE_USAGE,
		.managed = true,
		.run = verb_advise,
		.state = state_advise,
	},
	{
		.name = "attach",
		.help = "says who may use managed memory: all, the host, one stream",
		.object = OBJECT_ALLOCATION,
		.object_usage = "global|host|single [stream=S] [wait=0]",
		.managed = true,
		.run = verb_attach,
		.state = state_attach,
	},
	{
		.name = "launch",
		.usage = "M F " LAUNCH_USAGE,
		.help = "runs function F of module M; ARG is [in:|out:]NAME[+OFFSET], "
			"TYPE:VALUE or hex:BYTES",
		.object = OBJECT_FUNCTION,
		.object_usage = LAUNCH_USAGE,
		.run = verb_launch,
	},
	{
		.name = "reset",
		.help = "ends the owner's kernels, a runaway one too, and starts the "
			"owner's worker again",
		.object = OBJECT_OWNER,
		.object_usage = "1",
		.run = verb_reset,
	},
	{
		.name = "synchronize",
		.usage = "STREAM",
		.help = "returns when all before it on the stream is done, with the "
			"first failure since the last time",
		.object = OBJECT_STREAM,
		.object_usage = "1",
		.run = verb_synchronize,
	},
};

const struct verb *verb_table(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(verbs);
	return verbs;
}
