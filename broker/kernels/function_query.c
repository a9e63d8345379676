/* SPDX-License-Identifier: MIT */
/*
 * Queries only the worker's driver can answer: the attributes of a function, and, where
 * the driver can't enumerate, whether a function exists.
 *
 * Each query is an op with a reference to its image, loaded if needed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "base/handle_table.h"
#include "kernels/module_use.h"
#include "model/access.h"
#include "model/journal.h"
#include "model/module.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/broker.h"
#include "protocol/function_record.h"

#include <gpumem/function.h>

struct inquiry {
	struct op op; /* op.image holds a reference */
	struct owner
		*payer; /* of the question; NULL: the module's owner pays for the op */
	uint32_t function;
	char *name;	  /* name to look up */
	struct text text; /* the answer */
};

static struct inquiry *inquiry_of(struct op *op)
{
	return container_of(op, struct inquiry, op);
}

/* Under registry.lock. */
static void inquiry_settle(struct op *op)
{
	if (inquiry_of(op)->payer)
		share_give(inquiry_of(op)->payer, SHARE_QUESTIONS, 1);
}

static void inquiry_finish(struct op *op)
{
	struct inquiry *inquiry = inquiry_of(op);
	struct completion *wait = op->completion;

	op_slot_release(op->worker, op->staged.slot);
	if (wait)
		wait->done(wait, -op->error, inquiry->text.data, inquiry->text.length);
	module_put_image(op->broker, op->image);
	text_deinit(&inquiry->text);
	free(inquiry->name);
}

static void inquiry_describe(const struct op *op, struct text *text)
{
	text_printf(text, "%s", op->class->what);
}

/*
 * Fills the request once there is a slot for the answer. Returns: false when no slot is
 * free.
 */
static bool inquiry_request(struct op *op, uint32_t what)
{
	if (!op_slot_get(op))
		return false;
	op->request.record = (struct wire_request){
		.op = what,
		.device = op->image->device,
		.module = op->image->wire_id,
		.function = inquiry_of(op)->function,
		.offset = staging_offset((unsigned int)op->staged.slot),
		.length = WIRE_TRANSFER_MAX,
	};
	return true;
}

static uint8_t *inquiry_slot(const struct op *op)
{
	return staging_payload(&op->worker->staging, (unsigned int)op->staged.slot);
}

/* ---- attributes ---- */

static enum begun attributes_begin(struct op *op)
{
	return inquiry_request(op, WIRE_FUNCTION_ATTRIBUTES) ? OP_RUN : OP_PARKED;
}

static void attributes_answered(struct op *op, const struct wire_reply *reply)
{
	static const char *const names[] = {
#define NAME(name, attribute) [FUNCTION_ROW_##name] = #name,
		FUNCTION_LIST(NAME)
#undef NAME
	};
	struct inquiry *inquiry = inquiry_of(op);
	int64_t values[FUNCTION_N_ROWS];

	memcpy(values, inquiry_slot(op), sizeof(values));
	for (unsigned int i = 0; i < FUNCTION_N_ROWS; i++) {
		if (reply->value[0] >> i & 1)
			text_printf(&inquiry->text, "%s %lld\n", names[i],
				    (long long)values[i]);
	}
	if (text_failed(&inquiry->text))
		op_fail(op, ENOMEM, "no memory in the broker");
	else
		op_done(op, 0);
}

static const struct op_class attributes_class = {
	.what = "attributes of a function",
	.describe = inquiry_describe,
	.begin = attributes_begin,
	.answered = attributes_answered,
	.settle = inquiry_settle,
	.repeatable = true,
};

/* ---- looking up ---- */

static enum begun look_up_begin(struct op *op)
{
	const char *name = inquiry_of(op)->name;

	if (!inquiry_request(op, WIRE_MODULE_FIND))
		return OP_PARKED;
	memcpy(inquiry_slot(op), name, strlen(name) + 1);
	return OP_RUN;
}

/* Adds a function, unless another query added it meanwhile. Under registry.lock. */
static int look_up_add(struct op *op, const struct record *record, uint32_t number)
{
	struct function *function;
	int r;

	if (op->image->withdrawn)
		return -ESTALE;
	r = image_add_function(&function, op->broker->registry, op->image,
			       inquiry_of(op)->name, number, record->has_params,
			       (const struct param *)record->params, record->n_params);
	return r == -EEXIST ? 0 : r;
}

static void look_up_answered(struct op *op, const struct wire_reply *reply)
{
	_cleanup_free_ void *bytes = malloc(reply->value[1] + 1);
	struct record record;
	int r;

	if (!bytes) {
		op_fail(op, ENOMEM, "no memory in the broker");
		return;
	}
	memcpy(bytes, inquiry_slot(op), reply->value[1]);
	if (record_read(&record, bytes, reply->value[1]) < 0 ||
	    strcmp(record.name, inquiry_of(op)->name) != 0) {
		worker_condemn(op->worker, op->asked_epoch, FUNCTIONS_NONSENSE);
		op_fail(op, EIO, "the worker " FUNCTIONS_NONSENSE);
		return;
	}
	pthread_mutex_lock(&op->broker->registry->lock);
	r = look_up_add(op, &record, (uint32_t)reply->value[0]);
	pthread_mutex_unlock(&op->broker->registry->lock);
	op_done(op, -r);
}

static const struct op_class look_up_class = {
	.what = "look-up of a function",
	.describe = inquiry_describe,
	.begin = look_up_begin,
	.answered = look_up_answered,
};

/* ---- both queries ---- */

/*
 * A reader who is not the owner of the module must not use up the owner's operations.
 * Under registry.lock. Returns: 0; -ENOMEM, -EBUSY, -ESTALE.
 */
static int inquiry_add(struct op *op, const struct caller *caller, struct op **ready)
{
	struct registry *registry = op->broker->registry;
	_cleanup_text_ struct text why = TEXT_INIT;
	struct owner *payer;
	int r;

	if (!caller)
		return op_add(op, ready);
	r = share_take_question(registry, caller, &payer, &why);
	if (r < 0) {
		journal_fail(op->broker->journal, caller->uid, caller->pid, "attributes",
			     -r, text_string(&why));
		return r;
	}
	inquiry_of(op)->payer = payer;
	r = registry->shutting_down ? -ESTALE : op_add_unlimited(op, ready);
	if (r < 0)
		inquiry_settle(op);
	return r;
}

/*
 * Begins a query of an image; on failure answers the wait. caller: NULL: the module's
 * owner pays. With the lock held; releases the lock.
 */
static void inquiry_start(struct broker *broker, const struct op_class *class,
			  struct image *image, uint32_t function, const char *name,
			  const struct caller *caller, struct completion *wait)
{
	struct op *op = op_new(sizeof(struct inquiry), class, broker, image->owner);
	struct op *ready = NULL;
	int r = op ? 0 : -ENOMEM;

	if (r == 0) {
		op->worker = worker_of(broker, image->owner);
		inquiry_of(op)->function = function;
		inquiry_of(op)->name = name ? strdup(name) : NULL;
		if (!op->worker || (name && !inquiry_of(op)->name))
			r = -ENOMEM;
	}
	if (r == 0) {
		op->finish = inquiry_finish;
		r = inquiry_add(op, caller, &ready);
	}
	if (r == 0) {
		op_hold(op, wait);
		op->image = image_ref(image);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r == 0)
		return;
	if (op)
		free(inquiry_of(op)->name);
	op_free(op);
	wait->done(wait, r, NULL, 0);
}

void function_ask_attributes(struct broker *broker, struct token token,
			     const struct caller *caller, struct completion *wait)
{
	struct function *function;

	pthread_mutex_lock(&broker->registry->lock);
	function = function_get(broker->registry, token.slot, token.generation);
	if (function) {
		inquiry_start(broker, &attributes_class, function->image, function->index,
			      NULL, caller, wait);
		return;
	}
	pthread_mutex_unlock(&broker->registry->lock);
	wait->done(wait, -ESTALE, NULL, 0);
}

void module_look_up(struct broker *broker, struct token token, const char *name,
		    struct completion *wait)
{
	struct module *module;
	int r = -ENOENT;

	pthread_mutex_lock(&broker->registry->lock);
	module = module_get(broker->registry, token);
	if (!module)
		r = -ESTALE;
	else if (strlen(name) >= RECORD_NAME_MAX)
		r = -ENOENT;
	else if (module->image && image_find_function(module->image, name))
		r = 0;
	else if (module->image && !module->image->enumerated) {
		inquiry_start(broker, &look_up_class, module->image, 0, name, NULL, wait);
		return;
	}
	pthread_mutex_unlock(&broker->registry->lock);
	wait->done(wait, r, NULL, 0);
}
