/* SPDX-License-Identifier: MIT */
/*
 * A load is one op with several requests to the worker of the module's owner: load the
 * image; get the compiler's log, after success or failure; get the functions, as many at
 * a time as fit into a slot. Then the module gets the image, unless a later load was
 * faster.
 *
 * The worker's replies are copied out of shared memory before they are parsed. A worker
 * that sends nonsense is ended.
 */
#include "kernels/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/completion.h"
#include "base/number.h"
#include "base/refusal.h"
#include "cuda/result.h"
#include "kernels/image_check.h"
#include "kernels/module_use.h"
#include "memory/kept.h"
#include "model/access.h"
#include "model/journal.h"
#include "model/module.h"
#include "model/registry.h"
#include "model/save_module.h"
#include "model/shares.h"
#include "model/written.h"
#include "op/op.h"
#include "process/broker.h"
#include "protocol/function_record.h"

#define LOAD_TRIES 3 /* attempts for each step, each in a new process */

struct load {
	struct op op;
	struct module *module; /* counted in n_loads */
	struct image *image;   /* has a reference, until the module takes it */
	uint32_t step;	       /* next request: WIRE_MODULE_LOAD, _LOG, _FUNCTIONS */
	uint32_t n_functions;  /* total */
	uint32_t n_told;
	char *log;
	char said[200]; /* first line of the log */
	int error;	/* error of the load, kept during the request for the log */
	char name[FULL_NAME_MAX + 1];
	const char *format; /* format of the image */
};

static void load_run(struct op *op);

static struct load *load_of(struct op *op)
{
	return container_of(op, struct load, op);
}

/* ---- the sentences ---- */

static void load_describe(const struct op *op, struct text *text)
{
	const struct load *load = container_of(op, struct load, op);

	text_printf(text, "load of a %s of %s on device %u for module %s", load->format,
		    size_text(load->image->size), load->image->device, load->name);
}

/* Maps an error to an error of close: all errors about the image are the same. */
static int load_errno(int error)
{
	switch (error) {
	case ENOMEM:
	case EOPNOTSUPP:
	case ENODEV:
	case ESTALE:
	case EIO:
		return error;
	case ENOEXEC:
	case EINVAL:
	case ENOENT:
	case E2BIG:
		return ENOEXEC;
	default:
		return EIO;
	}
}

/* ---- asking ---- */

static void load_ask_image(struct op *op)
{
	struct load *load = load_of(op);

	op->request.fd = fcntl(load->image->fd, F_DUPFD_CLOEXEC, 0);
	if (op->request.fd < 0) {
		op_fail(op, EIO, "module %s: the image can't be handed over: %s",
			load->name, strerror(errno));
		return;
	}
	op->request.record = (struct wire_request){
		.op = WIRE_MODULE_LOAD,
		.device = load->image->device,
		.module = load->image->wire_id,
	};
	op_request(op);
}

/* The log and the functions arrive in a slot. */
static void load_ask_told(struct op *op)
{
	struct load *load = load_of(op);

	if (!op_slot_get(op))
		return;
	op->request.record = (struct wire_request){
		.op = load->step,
		.device = load->image->device,
		.module = load->image->wire_id,
		.function = load->n_told,
		.offset = staging_offset((unsigned int)op->staged.slot),
		.length = WIRE_TRANSFER_MAX,
	};
	op_request(op);
}

static void load_run(struct op *op)
{
	if (load_of(op)->step == WIRE_MODULE_LOAD)
		load_ask_image(op);
	else
		load_ask_told(op);
}

/* ---- answers ---- */

static void load_nonsense(struct op *op)
{
	struct load *load = load_of(op);

	worker_condemn(op->worker, op->asked_epoch, FUNCTIONS_NONSENSE);
	op_fail(op, EIO, "module %s: the worker " FUNCTIONS_NONSENSE, load->name);
}

/* Copies the bytes in the slot. NULL: no memory. */
static char *load_copy(const struct op *op, uint64_t length)
{
	char *copy = malloc(length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, staging_payload(&op->worker->staging, (unsigned int)op->staged.slot),
	       length);
	copy[length] = '\0';
	return copy;
}

/* Adds n functions from a copy of their records. Returns: 0; -EBADMSG, -ENOMEM. */
static int load_take_functions(struct load *load, const char *bytes, uint64_t size,
			       uint64_t n)
{
	struct registry *registry = load->op.broker->registry;
	int r = 0;

	pthread_mutex_lock(&registry->lock);
	for (; r == 0 && n; n--) {
		struct function *function;
		struct record record;
		long taken = record_read(&record, bytes, size);

		if (taken < 0 || load->n_told == load->n_functions) {
			r = -EBADMSG;
			break;
		}
		r = image_add_function(&function, registry, load->image, record.name,
				       load->n_told, record.has_params,
				       (const struct param *)record.params,
				       record.n_params);
		bytes += taken;
		size -= (uint64_t)taken;
		/* No module shows the image yet. */
		if (++load->n_told % FUNCTIONS_AT_ONCE == 0)
			registry_let_others(registry);
	}
	pthread_mutex_unlock(&registry->lock);
	return r == -EEXIST ? -EBADMSG : r;
}

static void load_names_too_long(struct op *op)
{
	struct load *load = load_of(op);
	_cleanup_text_ struct text text = TEXT_INIT;

	pthread_mutex_lock(&op->broker->registry->lock);
	share_explain(load->image->owner, &text);
	pthread_mutex_unlock(&op->broker->registry->lock);
	op_fail(op, EDQUOT, "module %s: %s", load->name, text_string(&text));
}

static void load_told(struct op *op, const struct wire_reply *reply)
{
	struct load *load = load_of(op);
	_cleanup_free_ char *bytes = load_copy(op, reply->value[1]);
	int r = bytes ? 0 : -ENOMEM;

	if (r == 0)
		r = load_take_functions(load, bytes, reply->value[1], reply->value[0]);
	if (r == -EBADMSG)
		load_nonsense(op);
	else if (r == -EDQUOT)
		load_names_too_long(op);
	else if (r < 0)
		op_fail(op, ENOMEM, "no memory in the broker");
	else if (load->n_told < load->n_functions)
		load_run(op);
	else
		op_done(op, 0);
}

/* Keeps the log if it is text. */
static void load_logged(struct op *op, const struct wire_reply *reply)
{
	struct load *load = load_of(op);
	_cleanup_text_ struct text text = TEXT_INIT;
	_cleanup_free_ char *bytes = load_copy(op, reply->value[0]);
	char *rest = bytes, *line;

	while (rest && *rest && (line = strsep(&rest, "\n"))) {
		text_add_printable(&text, line);
		text_add(&text, "\n", 1);
	}
	if (text.length && !text_failed(&text)) {
		snprintf(load->said, sizeof(load->said), "%.*s",
			 (int)strcspn(text.data, "\n"), text.data);
		load->log = take_ptr(text.data);
	}
	load->step = WIRE_MODULE_FUNCTIONS;
	if (load->error)
		op_done(op, load->error);
	else if (load->n_functions)
		load_run(op);
	else
		op_done(op, 0);
}

static void load_answered(struct op *op, const struct wire_reply *reply)
{
	struct load *load = load_of(op);

	op->n_asked = 0;
	switch (load->step) {
	case WIRE_MODULE_LOAD:
		load->image->made_epoch = op->asked_epoch;
		load->image->enumerated = reply->value[1];
		load->n_functions = (uint32_t)reply->value[0];
		load->step = WIRE_MODULE_LOG;
		/*
		 * The next requests find the image loaded in this process, or load it in
		 * the next.
		 */
		op->image = load->image;
		load_run(op);
		break;
	case WIRE_MODULE_LOG:
		load_logged(op, reply);
		break;
	default:
		load_told(op, reply);
	}
}

/* The load failed: asks for the compiler's log. */
static void load_failed(struct op *op, const struct wire_reply *reply)
{
	struct load *load = load_of(op);

	if (load->step == WIRE_MODULE_LOAD) {
		op->failure = (struct cuda_failure){ reply->call, reply->result };
		load->error = load_errno(reply->error);
		load_describe(op, &op->sentence);
		text_printf(&op->sentence, " failed: %s", strerror(load->error));
		text_add_call(&op->sentence, reply->call, reply->result);
		load->image->made_epoch = op->asked_epoch;
		load->step = WIRE_MODULE_LOG;
		op->image = NULL;
		if (!cuda_result_is_sticky(reply->result)) {
			load_run(op);
			return;
		}
	} else if (!load->error) {
		load->error = EIO;
		text_printf(&op->sentence,
			    "module %s: the driver can't list its functions: %s",
			    load->name, strerror(reply->error));
		text_add_call(&op->sentence, reply->call, reply->result);
	}
	op_done(op, load->error);
}

/* Continues in the next process with the current step. */
static void load_lost(struct op *op, const char *reason)
{
	_cleanup_text_ struct text what = TEXT_INIT;

	if (op->n_asked < LOAD_TRIES && worker_gave_up(op->worker, op->asked_epoch)) {
		load_run(op);
		return;
	}
	load_describe(op, &what);
	op_fail(op, EIO, "%s: the worker %s before it answered", text_string(&what),
		reason);
}

/* ---- the end ---- */

/* Under registry.lock. The module keeps the image of the last close. */
static void load_settle(struct op *op)
{
	const struct caller by = { .uid = op->uid, .pid = op->pid };
	struct load *load = load_of(op);
	struct module *module = load->module;
	struct image *image = load->image;

	module->n_loads--;
	if (image->serial > module->settled) {
		module->settled = image->serial;
		module->failed = op->error;
		module_set_log(module, take_ptr(load->log));
		module_save(module);
	}
	if (op->error) {
		journal_event_by(op->broker->journal, &by, "failed modules/%s errno=%s",
				 module_name(module).text, strerrorname_np(op->error));
		return;
	}
	if (module->image && module->image->serial > image->serial)
		return;
	module->loaded_s = time(NULL);
	load->image = module_set_image(module, image);
	journal_event_by(op->broker->journal, &by,
			 "load modules/%s format=%s size=%llu functions=%u",
			 module_name(module).text, load->format,
			 (unsigned long long)image->size, image->n_functions);
}

static void load_finish(struct op *op)
{
	struct load *load = load_of(op);
	struct completion *wait = op->completion;
	char file[FULL_NAME_MAX + 64];

	op_slot_release(op->worker, op->staged.slot);
	closep(&op->request.fd);
	if (op->error) {
		if (load->said[0])
			text_printf(&op->sentence, "; modules/%s/log: %s", load->name,
				    load->said);
		snprintf(file, sizeof(file), "modules/%s/image", load->name);
		journal_fail(op->broker->journal, op->uid, op->pid, file, op->error,
			     text_string(&op->sentence));
	}
	if (load->image)
		module_put_image(op->broker, load->image);
	free(load->log);
	if (wait)
		wait->done(wait, -op->error, NULL, 0);
}

static const struct op_class load_class = {
	.what = "load",
	.describe = load_describe,
	.run = load_run,
	.answered = load_answered,
	.failed = load_failed,
	.lost = load_lost,
	.settle = load_settle,
};

/* ---- the start ---- */

/* A file that is to be loaded. */
struct loadable {
	int fd;
	uint64_t size;
	const char *format; /* NULL: it is not an image */
	uint32_t record;    /* see kept_add(); 0: none */
};

/* Returns: the format; NULL with a refusal. */
static const char *load_check_bytes(int fd, uint64_t size, struct refusal *refusal)
{
	const char *format;
	void *bytes = NULL;

	if (size) {
		bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
		if (bytes == MAP_FAILED) {
			refuse(refusal, ENOMEM, "no memory in the broker");
			return NULL;
		}
	}
	format = image_check(bytes ?: "", size, refusal);
	if (bytes)
		munmap(bytes, size);
	return format;
}

/* Fills in what is to be known of a file. Returns: 0; -errno with a refusal. */
static int load_check(struct broker *broker, struct loadable *file,
		      struct refusal *refusal)
{
	int r;

	file->format = load_check_bytes(file->fd, file->size, refusal);
	if (!file->format)
		return -refusal->error;
	r = kept_add(broker->memory, RECORD_IMAGE, file->fd, &file->record);
	return r < 0 ? kept_refuse(r, refusal) : 0;
}

static void load_refuse(struct broker *broker, const struct caller *caller,
			const char *name, const struct refusal *refusal,
			struct completion *wait)
{
	char file[FULL_NAME_MAX + 64];

	snprintf(file, sizeof(file), "modules/%s/image", name);
	journal_fail(broker->journal, caller->uid, caller->pid, file, refusal->error,
		     refusal->sentence);
	if (wait)
		wait->done(wait, -refusal->error, NULL, 0);
}

static int load_refuse_share(struct owner *owner, int r, struct refusal *refusal)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	if (share_is_refusal(r))
		share_explain(owner, &text);
	else
		text_printf(&text, "no memory in the broker");
	return refuse(refusal, -r, "%s", text_string(&text));
}

/* Under registry.lock. Takes the file, unless NULL is returned: a refusal. */
static struct load *load_new(struct broker *broker, struct module *module,
			     const struct loadable *file, uint64_t serial,
			     struct refusal *refusal)
{
	struct op *op = op_new(sizeof(struct load), &load_class, broker, module->owner);
	struct load *load = op ? load_of(op) : NULL;

	int r = -ENOMEM;

	if (op)
		op->worker = worker_of(broker, module->owner);
	if (op && op->worker)
		r = image_new(&load->image, broker->registry, module, file->fd,
			      file->size);
	if (r < 0) {
		op_free(op);
		(void)load_refuse_share(module->owner, r, refusal);
		return NULL;
	}
	load->image->serial = serial;
	image_record_set(broker->registry, load->image, file->record);
	op->finish = load_finish;
	load->module = module;
	load->format = file->format;
	load->step = WIRE_MODULE_LOAD;
	strcpy(load->name, module_name(module).text);
	return load;
}

/* Notes a file that is not an image and was not compiled. Under registry.lock. */
static void load_note_refused(struct broker *broker, struct module *module,
			      const struct written *written, int error)
{
	const struct caller *by = &written->caller;

	if (written->serial > module->settled) {
		module->settled = written->serial;
		module->failed = error;
		module_set_log(module, NULL);
		module_save(module);
	}
	journal_event_by(broker->journal, by, "failed modules/%s errno=%s",
			 module_name(module).text, strerrorname_np(error));
}

/* Frees a load that was not added to the order. Under registry.lock. */
static void load_drop(struct broker *broker, struct load *load)
{
	(void)image_unref(load->image);
	image_end(broker, load->image);
	op_free(&load->op);
}

int load_announce(struct broker *broker, struct written *written, struct refusal *refusal)
{
	struct module *module = module_get(broker->registry, written->token);

	if (!module)
		return refuse(refusal, ESTALE, "the module has been removed");
	module->n_loads++;
	written->serial = ++module->n_serials;
	return 0;
}

/* Adds the load to the order. Under registry.lock. Returns: 0; -errno with a refusal. */
static int load_add(struct broker *broker, struct module *module, struct written *written,
		    struct loadable *file, struct op **ret_ready, struct refusal *refusal)
{
	struct load *load = load_new(broker, module, file, written->serial, refusal);
	struct completion *wait;
	int r;

	if (!load)
		return -refusal->error;
	file->record = 0;
	(void)take_fd(&written->fd);
	load->op.uid = written->caller.uid;
	load->op.pid = written->caller.pid;
	r = op_add(&load->op, ret_ready);
	if (r == 0) {
		wait = completion_take(&written->wait);
		if (wait)
			op_hold(&load->op, wait);
		return 0;
	}
	load_drop(broker, load);
	return r == -ESTALE ? refuse(refusal, ESTALE, "the broker is shutting down")
			    : load_refuse_share(module->owner, r, refusal);
}

void load_start(struct broker *broker, struct written *written)
{
	struct loadable file = { .fd = written->fd, .size = written->size };
	struct keep_key kept = { 0 };
	struct completion *wait = NULL;
	struct op *ready = NULL;
	struct refusal refusal;
	struct module *module;
	char name[FULL_NAME_MAX + 1];
	int r = written->error ? refuse(&refusal, -written->error,
					"the broker has no room for the image")
			       : load_check(broker, &file, &refusal);

	pthread_mutex_lock(&broker->registry->lock);
	module = module_get(broker->registry, written->token);
	strcpy(name, module_name(module).text);
	if (r < 0)
		load_note_refused(broker, module, written, refusal.error);
	else
		r = load_add(broker, module, written, &file, &ready, &refusal);
	if (r < 0) {
		module->n_loads--;
		wait = completion_take(&written->wait);
		kept = kept_key(broker->memory, RECORD_IMAGE, file.record);
		records_drop(broker->registry->records, RECORD_IMAGE, file.record);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	kept_end(broker->memory, kept);
	if (r < 0)
		load_refuse(broker, &written->caller, name, &refusal, wait);
}
