/* SPDX-License-Identifier: MIT */
/* How sentences name an op, and the memory that the op uses. */
#include "op/op.h"

#include <stdlib.h>
#include <string.h>

#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"

void op_keep_name(struct op *op)
{
	free(op->name);
	op->name = strdup(allocation_name(op->work.uses[0].allocation).text);
}

const char *op_name(const struct op *op)
{
	return op->name ?: "?";
}

struct full_name op_allocation_name(const struct op *op)
{
	struct full_name name;

	pthread_mutex_lock(&op->broker->registry->lock);
	name = allocation_name(op->work.uses[0].allocation);
	pthread_mutex_unlock(&op->broker->registry->lock);
	return name;
}

void op_describe(struct op *op, struct text *text)
{
	const char *joint = " of allocation ";

	if (op->class->describe) {
		op->class->describe(op, text);
		return;
	}
	text_printf(text, "%s", op->class->what);
	pthread_mutex_lock(&op->broker->registry->lock);
	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		text_printf(text, "%s%s", joint,
			    allocation_name(op->work.uses[i].allocation).text);
		joint = " from ";
	}
	pthread_mutex_unlock(&op->broker->registry->lock);
}
