/* SPDX-License-Identifier: MIT */
#include "command/verb.h"

#include "command/verbs.h"

static const struct verb verbs[] = {
	{
		.name = "alloc",
		.usage =
			"NAME SIZE [kind=device|direct|async|host] [device=N] [stream=S] "
			"[tag=WORD] [mode=OCTAL] [until=close]",
		.help = "allocates SIZE bytes; the answer is the allocation's status",
		.run = verb_alloc,
	},
	{
		.name = "free",
		.usage = "NAME",
		.help = "frees an allocation, after its last use",
		.run = verb_free,
	},
	{
		.name = "fill",
		.usage = "NAME TYPE:VALUE|hex:BYTES [offset=N] [length=N] [stream=S] "
			 "[wait=0]",
		.help = "repeats a value over an allocation or a range of it",
		.run = verb_fill,
	},
	{
		.name = "copy",
		.usage = "DST[+OFFSET] from=SRC[+OFFSET] [length=N] [stream=S] [wait=0]",
		.help = "copies bytes from one allocation to another",
		.run = verb_copy,
	},
	{
		.name = "synchronize",
		.usage = "STREAM",
		.help = "returns when all before it on the stream is done, with the "
			"first "
			"failure since the last time",
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
