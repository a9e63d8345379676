/* SPDX-License-Identifier: MIT */
/*
 * The broker never opens a user's file: the process of files of the caller's owner does
 * (process/file_process.h), with the caller's rights. The owner's worker moves the bytes
 * between that process and the memory, and waits for it no longer than the op goes on. A
 * slot of the worker's staging area has the count of bytes and the word to stop (struct
 * wire_file).
 *
 * A load that fails, is interrupted, or whose worker ends, fills its range with zeros
 * from the first byte on that was not loaded. The op stays in the order meanwhile, so
 * nobody reads half a file. A load that fails before the first byte leaves the memory as
 * it was.
 *
 * No load or save is repeated when the worker ends, since the file may have ended it.
 */
#include "memops/file.h"

#include <errno.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/refusal.h"
#include "memops/move.h"
#include "memops/permissions.h"
#include "memops/withdrawal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/range.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/file_process.h"
#include "process/processes.h"

struct file_op {
	struct op op;
	char *path; /* owned */
	struct file_id file_id;
	uint64_t file_offset;
	bool to_end;
	bool save;
	mode_t mode;		      /* of a saved file that is not there yet */
	bool stopped;		      /* by a signal. registry.lock */
	struct worker *opener;	      /* of the file: has the slot */
	struct file_session *session; /* NULL: not yet */
	struct wire_file *shared;     /* in the slot; NULL: not yet. registry.lock */
	uint64_t moved, total;	      /* known at the end */
	uint64_t begun_ns, elapsed_ns;
};

static struct file_op *file_of(struct op *op)
{
	return container_of(op, struct file_op, op);
}

/* ---- the request ---- */

static int file_check_rights(struct op *op, struct refusal *refusal)
{
	const struct allocation *allocation = op->work.uses[0].allocation;
	struct use *use = &op->work.uses[0];

	use->guest_writes = guest_may_write(op, use);
	if (guest_comes_after_seal(op, use))
		return refuse_sealed(refusal, allocation);
	if (!guest_may_use(op, use))
		return refuse(refusal, EACCES,
			      "the worker of uid %u may not %s allocation %s of uid %u, "
			      "mode %04o",
			      op->owner->uid, use->write ? "write" : "read",
			      allocation_name(allocation).text, allocation->owner->uid,
			      allocation->mode);
	if (guest_shares_block(op, allocation))
		return refuse_shared(refusal, allocation);
	return op->work.within ? 0 : guest_map_anew(op, refusal);
}

static enum begun file_begin(struct op *op)
{
	struct file_op *file = file_of(op);
	struct refusal refusal;

	if (file->stopped)
		return op_refuse(op, EINTR, "%s of %s was interrupted before it began",
				 op->class->what,
				 allocation_name(op->work.uses[0].allocation).text);
	if (file_check_rights(op, &refusal) < 0)
		return op_refuse(op, refusal.error, "%s did not run: %s", op->class->what,
				 refusal.sentence);
	/* A withdrawal waits for an op that has begun. */
	if (!op->work.within && guest_is_barred(op))
		return OP_PARKED;
	op->work.within = op->worker;
	return OP_RUN;
}

/* Writes the slot. Returns: false when a signal has ended the wait. */
static bool file_share(struct op *op)
{
	struct file_op *file = file_of(op);
	struct wire_file *shared = (struct wire_file *)staging_payload(
		&op->worker->staging, (unsigned int)op->staged.slot);
	bool stopped;

	memset(shared, 0, sizeof(*shared));
	pthread_mutex_lock(&op->broker->registry->lock);
	if (!file->shared)
		op->work.uses[0].allocation->n_files++;
	file->mode = op->work.uses[0].allocation->mode & 0644;
	file->shared = shared;
	stopped = file->stopped;
	pthread_mutex_unlock(&op->broker->registry->lock);
	return !stopped;
}

/* Has the file opened. Returns: 0; negative with a refusal. */
static int file_open(struct op *op, struct refusal *refusal)
{
	struct file_op *file = file_of(op);
	const struct use *use = &op->work.uses[0];
	const struct file_wish wish = {
		.path = file->path,
		.only = file->file_id,
		.source = file->file_offset,
		.length = use->length,
		.to_end = file->to_end,
		.save = file->save,
		.mode = file->mode,
	};

	/* The op runs again when its memory has moved. */
	if (file->session)
		return 0;
	return file_session_new(file->opener, &wish, &file->session, &op->request.fd,
				refusal);
}

static void file_run(struct op *op)
{
	struct file_op *file = file_of(op);
	const struct use *use = &op->work.uses[0];
	struct refusal refusal;

	if (!op_slot_get(op))
		return;
	file->begun_ns = clock_ns(CLOCK_MONOTONIC);
	if (!file_share(op)) {
		op_fail(op, EINTR, "%s of %s was interrupted before it began",
			op->class->what, op_allocation_name(op).text);
		return;
	}
	if (file_open(op, &refusal) < 0) {
		op_fail(op, refusal.error, "%s did not run: %s", op->class->what,
			refusal.sentence);
		return;
	}
	op->request.record = (struct wire_request){
		.op = file->save ? WIRE_FILE_SAVE : WIRE_FILE_LOAD,
		.device = use->allocation->device,
		/* Where the memory was: op_request() notices when it has moved. */
		.address = use->address + use->offset,
		.source = file->file_offset,
		.length = use->length,
		.offset = staging_offset((unsigned int)op->staged.slot),
	};
	op_request(op);
}

/* ---- failures ---- */

/*
 * The op has failed with op->sentence. Adds what is in the memory or in the file now, and
 * ends the op, after zeros for all bytes that a load may have begun to write.
 */
static void file_end(struct op *op, int error)
{
	struct file_op *file = file_of(op);
	const struct use *use = &op->work.uses[0];

	/* The worker may be hostile: read once. */
	file->total =
		MIN(__atomic_load_n(&file->shared->total, __ATOMIC_ACQUIRE), use->length);
	if (file->save && file->total) {
		text_printf(&op->sentence, "; the file is as it was");
	} else if (file->total) {
		text_printf(&op->sentence, "; %s of %s are loaded, the rest is zero",
			    size_text(file->moved), size_text(file->total));
	}
	pthread_mutex_lock(&op->broker->registry->lock);
	if (file->save || file->moved >= file->total) {
		op_complete(op, error);
		return;
	}
	op->work.within = NULL;
	/* A process that was given up may still write what it has read. */
	op_zero_instead(op, use->offset + file->moved, file->total - file->moved,
			file->opener, error);
}

static void file_tell_range(struct op *op, uint64_t size)
{
	const struct file_op *file = file_of(op);
	uint64_t left = size - MIN(size, file->file_offset), room;
	const char *rest = file->file_offset ? "the rest of " : "";

	room = op->work.uses[0].length;
	if (!left)
		text_printf(&op->sentence, "%.200s has %s: there is nothing to load%s%s",
			    file->path, size_text(size),
			    file->file_offset ? " at file_offset=" : "",
			    file->file_offset ? size_typed(file->file_offset) : "");
	else if (file->to_end)
		text_printf(&op->sentence,
			    "%s%.200s (%s) does not fit into %s%s (%s): length=%s loads "
			    "a part",
			    rest, file->path, size_text(left),
			    op->work.uses[0].offset ? "the rest of " : "",
			    op_allocation_name(op).text, size_text(room),
			    size_typed(room));
	else
		text_printf(&op->sentence, "%s%.200s has %s, length=%s is more", rest,
			    file->path, size_text(left), size_typed(room));
}

/* The sentence of a worker's answer. Returns: the errno. */
static int file_explain(struct op *op, const struct wire_reply *reply)
{
	const struct file_op *file = file_of(op);
	uint32_t end = WIRE_FILE_END(reply->value[1]);
	int error = (int)WIRE_FILE_ERROR(reply->value[1]) ?: EIO;
	const char *what = op->class->what, *path = file->path;
	uint64_t place = file->file_offset + file->moved;
	struct text *text = &op->sentence;

	text_clear(text);
	switch (end) {
	case WIRE_FILE_NOT_OPENED:
		text_printf(text, "uid %u can't %s %.200s: %s", op->owner->uid,
			    file->save ? "write" : "open", path, strerror(error));
		break;
	case WIRE_FILE_NOT_REGULAR:
		text_printf(text, "%.200s is %s", path,
			    error == EISDIR ? "a folder" : "not a regular file");
		break;
	case WIRE_FILE_IN_MOUNT:
		text_printf(text,
			    "%.200s is in a mount of gpumemd: control/copy copies "
			    "between allocations",
			    path);
		break;
	case WIRE_FILE_ANOTHER:
		text_printf(text, "%.200s is another file than that of file_id=", path);
		break;
	case WIRE_FILE_OUT_OF_RANGE:
		file_tell_range(op, reply->value[0]);
		break;
	case WIRE_FILE_SHORT:
		text_printf(text,
			    "%s of %s failed: %.200s has become shorter and ends at byte "
			    "%llu",
			    what, op_allocation_name(op).text, path,
			    (unsigned long long)place);
		break;
	case WIRE_FILE_STOPPED:
		text_printf(text, "%s of %s was interrupted", what,
			    op_allocation_name(op).text);
		break;
	case WIRE_FILE_LOST:
		text_printf(text,
			    "%s of %s failed: the process that has %.200s open has ended",
			    what, op_allocation_name(op).text, path);
		break;
	case WIRE_FILE_NOT_KEPT:
		text_printf(text, "%s of %s failed: %.200s: %s", what,
			    op_allocation_name(op).text, path, strerror(error));
		break;
	default:
		text_printf(text, "%s of %s failed at byte %llu of %.200s: %s", what,
			    op_allocation_name(op).text, (unsigned long long)place, path,
			    strerror(error));
	}
	return error;
}

static void file_lost(struct op *op, const char *reason);

/* The file of a checkpoint, from which the next process has the memory, is older. */
static bool file_was_overtaken(struct op *op)
{
	const struct use *use = &op->work.uses[0];
	struct allocation *allocation = use->allocation;
	bool overtaken;

	pthread_mutex_lock(&op->broker->registry->lock);
	overtaken = use->write && allocation->managed &&
		    (checkpoint_keeps(allocation) ||
		     allocation->worker_epoch != op->asked_epoch);
	pthread_mutex_unlock(&op->broker->registry->lock);
	return overtaken;
}

static void file_answered(struct op *op, const struct wire_reply *reply)
{
	struct file_op *file = file_of(op);
	int error;

	if (file_was_overtaken(op)) {
		file_lost(op, "has ended");
		return;
	}
	file->elapsed_ns = clock_ns(CLOCK_MONOTONIC) - file->begun_ns;
	if (WIRE_FILE_END(reply->value[1]) != WIRE_FILE_OUT_OF_RANGE)
		file->moved = op->moved = reply->value[0];
	if (WIRE_FILE_END(reply->value[1]) == WIRE_FILE_DONE) {
		op_done(op, 0);
		return;
	}
	if (WIRE_FILE_END(reply->value[1]) == WIRE_FILE_LOST)
		file_session_lost(file->session);
	error = file_explain(op, reply);
	file_end(op, error);
}

static void file_failed(struct op *op, const struct wire_reply *reply)
{
	text_clear(&op->sentence);
	text_printf(&op->sentence, "%s of allocation %s failed: %s", op->class->what,
		    op_allocation_name(op).text, strerror(reply->error));
	text_add_call(&op->sentence, reply->call, reply->result);
	file_end(op, reply->error);
}

static void file_lost(struct op *op, const char *reason)
{
	struct file_op *file = file_of(op);

	text_clear(&op->sentence);
	text_printf(&op->sentence, "%s of %s: the worker %s before it was done",
		    op->class->what, op_allocation_name(op).text, reason);
	file_end(op, file->stopped ? EINTR : EIO);
}

/* ---- the end ---- */

static int file_interrupted(struct op *op)
{
	struct file_op *file = file_of(op);

	file->stopped = true;
	if (!op_leave_quietly(op) && file->shared)
		__atomic_store_n(&file->shared->stop, 1, __ATOMIC_RELAXED);
	return -EINTR;
}

static void file_answer(struct op *op, struct text *answer, bool done)
{
	const struct file_op *file = file_of(op);

	if (done)
		text_printf(answer, "bytes %llu\nelapsed_ns %llu\n",
			    (unsigned long long)file->moved,
			    (unsigned long long)file->elapsed_ns);
}

static void file_settle(struct op *op)
{
	struct file_op *file = file_of(op);

	if (file->shared)
		op->work.uses[0].allocation->n_files--;
	file->shared = NULL;
}

/* Under registry.lock. */
static void file_drop_path(struct file_op *file)
{
	if (file->path)
		share_give(file->op.owner, SHARE_PATHS, strlen(file->path) + 1);
	free(take_ptr(file->path));
}

static void file_leave(struct op *op)
{
	struct file_op *file = file_of(op);

	op_slot_release(file->opener, op->staged.slot);
	closep(&op->request.fd);
	file->session = file_session_leave(file->session);
	pthread_mutex_lock(&op->broker->registry->lock);
	file_drop_path(file);
	pthread_mutex_unlock(&op->broker->registry->lock);
}

/* clang-format off */
#define FILE_CLASS(name, cause)                  \
	{                                        \
		.what = name,                    \
		.moves = cause,                  \
		.begin = file_begin,             \
		.run = file_run,                 \
		.answered = file_answered,       \
		.failed = file_failed,           \
		.lost = file_lost,               \
		.interrupted = file_interrupted, \
		.may_use = guest_may_use,        \
		.answer = file_answer,           \
		.settle = file_settle,           \
		.leave = file_leave,             \
	}
/* clang-format on */

static const struct op_class load_class = FILE_CLASS("load", MOVED_LOAD);
static const struct op_class save_class = FILE_CLASS("save", MOVED_SAVE);

/* ---- the start ---- */

static int file_check_reach(const struct owner *owner,
			    const struct allocation *allocation, struct refusal *refusal)
{
	if (allocation->owner == owner || kind_is_durable(allocation->kind))
		return 0;
	return refuse(refusal, EXDEV,
		      "allocation %s of kind %s lives in the worker of uid %u; files are "
		      "opened in that of uid %u",
		      allocation_name(allocation).text, kind_name(allocation->kind),
		      allocation->owner->uid, owner->uid);
}

/* Under registry.lock. Returns: 0; a negative errno with a refusal. */
static int file_set_path(struct file_op *file, const char *path, struct refusal *refusal)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	uint64_t size = strlen(path) + 1;
	int r = share_take(file->op.owner, SHARE_PATHS, size);

	if (r < 0) {
		share_explain(file->op.owner, &text);
		return refuse(refusal, -r, "%s", text_string(&text));
	}
	file->path = strdup(path);
	if (file->path)
		return 0;
	share_give(file->op.owner, SHARE_PATHS, size);
	return refuse(refusal, ENOMEM, "no memory in the broker");
}

int file_op_new(struct broker *broker, const struct caller *caller,
		struct allocation *allocation, const struct range *range,
		const struct file_spec *spec, struct op **ret_op, struct op **ready,
		struct refusal *refusal)
{
	struct owner *owner = owner_get(broker->registry, caller->uid, caller->gid);
	struct file_op *file;
	struct op *op;
	int r;

	*ready = NULL;
	op = owner ? op_new(sizeof(*file), spec->save ? &save_class : &load_class, broker,
			    owner)
		   : NULL;
	file = op ? file_of(op) : NULL;
	if (file)
		op->worker = file->opener = worker_of(broker, owner);
	if (!file || !file->opener) {
		r = refuse(refusal, ENOMEM, "no memory in the broker");
		goto fail;
	}
	r = file_set_path(file, spec->path, refusal);
	if (r < 0)
		goto fail;
	file->file_id = spec->file_id;
	file->file_offset = spec->file_offset;
	file->to_end = spec->to_end;
	file->save = spec->save;
	op->uid = caller->uid;
	op->pid = caller->pid;
	/* With wait=0 no signal ends the op. */
	op->work.may_leave = spec->wait;
	work_use(&op->work, allocation, range->offset, range->length, !spec->save);
	r = file_check_reach(owner, allocation, refusal);
	if (r == 0)
		r = guest_use(op, &op->work.uses[0], caller, ready, refusal);
	if (r < 0)
		goto fail;
	*ret_op = op;
	return 0;
fail:
	if (file)
		file_drop_path(file);
	op_free(op);
	return r;
}

bool file_progress(const struct allocation *allocation, uint64_t *ret_done,
		   uint64_t *ret_total)
{
	const struct use *use;

	/* Thousands may be queued, and none of them under way. */
	if (!allocation->n_files)
		return false;
	DL_FOREACH2(allocation->all_uses, use, next_of_all)
	{
		const struct op *op = container_of(use->work, struct op, work);
		const struct wire_file *shared;
		uint64_t total;

		if (op_class(op) != &load_class && op_class(op) != &save_class)
			continue;
		shared = container_of(op, struct file_op, op)->shared;
		if (!shared)
			continue;
		total = __atomic_load_n(&shared->total, __ATOMIC_RELAXED);
		*ret_total = total ? MIN(total, use->length) : use->length;
		*ret_done =
			MIN(__atomic_load_n(&shared->done, __ATOMIC_RELAXED), *ret_total);
		return true;
	}
	return false;
}
