/* SPDX-License-Identifier: MIT */
/*
 * The life of a lease: opened and closed by the view, granted in the order of uses, held
 * where its program asks for that, ended with the broker.
 *
 * A lease is granted by an op that reads the whole allocation: zeroing and earlier writes
 * come first. After that a program's kernels are outside the order of uses, except while
 * the lease holds: a hold is an op that stays under way until it is released.
 *
 * A descriptor may be closed while an op that a signal made nobody wait for is still
 * queued, so a lease is counted: by the view's descriptor and by each of its ops.
 */
#include "memops/lease.h"

#include <errno.h>
#include <gpumem/wire.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <utlist.h>

#include "base/number.h"
#include "base/process.h"
#include "memops/lease_file.h"
#include "memops/permissions.h"
#include "memops/readahead.h"
#include "memops/release.h"
#include "model/access.h"
#include "op/op.h"

#define TICKET_BYTES	16
#define EXPORT_ERROR(r) (-(r) == ENOMEM || -(r) == EMFILE ? -(r) : EIO)

enum hold { HOLD_NONE, HOLD_READ, HOLD_WRITE };

static const char *const hold_names[] = {
	[HOLD_NONE] = "none",
	[HOLD_READ] = "r",
	[HOLD_WRITE] = "w",
};

struct lease {
	struct broker *broker;
	struct allocation *allocation; /* NULL: the broker has ended */
	uint64_t id;
	uid_t uid;
	pid_t pid;
	int pidfd; /* -1: could not be had */
	char comm[PROCESS_NAME_MAX];
	bool write;
	int64_t since_s;
	struct owner *user; /* who opened it; counted there */
	uint8_t secret[TICKET_BYTES];

	/* registry.lock */
	bool granted;
	bool closed;
	bool changed;
	enum hold hold;	 /* that it has, or waits for */
	struct op *held; /* its op, while it has it */
	unsigned int n_refs;
	void (*wake)(void *userdata);
	void *userdata;
	struct lease *prev, *next; /* of the allocation */
	UT_hash_handle hh;
};

void leases_init(struct leases *leases)
{
	*leases = (struct leases){ 0 };
	reaper_init(&leases->reaper);
}

void leases_deinit(struct leases *leases)
{
	reaper_deinit(&leases->reaper);
}

/* Under registry.lock. */
static void lease_unref(struct lease *lease)
{
	if (--lease->n_refs)
		return;
	if (lease->pidfd >= 0)
		close(lease->pidfd);
	explicit_bzero(lease->secret, sizeof(lease->secret));
	free(lease);
}

static void lease_notify(struct lease *lease)
{
	lease->changed = true;
	if (!lease->closed)
		lease->wake(lease->userdata);
}

static void lease_fail(struct broker *broker, const struct caller *caller,
		       const char *name, int error, const char *sentence)
{
	char file[128];

	snprintf(file, sizeof(file), "allocations/%s/lease", name);
	journal_fail(&broker->journal, caller->uid, caller->pid, file, error, sentence);
}

/* ---- what is shown ---- */

static const struct {
	const char *word;
	enum allocation_state state;
} states[] = {
	{ "live", ALLOCATION_LIVE },
	{ "lost", ALLOCATION_LOST },
	{ "freed", ALLOCATION_FREED },
};

static const char *lease_state(const struct lease *lease)
{
	if (!lease->allocation)
		return "ending";
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (states[i].state == lease->allocation->state)
			return states[i].word;
	}
	return "live";
}

static void lease_print_ticket(const struct lease *lease, struct text *text)
{
	text_printf(text, "%llu:", (unsigned long long)lease->id);
	for (size_t i = 0; i < sizeof(lease->secret); i++)
		text_printf(text, "%02x", lease->secret[i]);
}

/* Under registry.lock. */
static void lease_print(const struct lease *lease, struct text *text)
{
	const struct allocation *allocation = lease->allocation;
	const struct broker *broker = lease->broker;

	text_printf(text, "version 1\nlease %llu\nstate %s\n",
		    (unsigned long long)lease->id, lease_state(lease));
	if (!allocation)
		return;
	text_printf(text, "ticket ");
	lease_print_ticket(lease, text);
	text_printf(text, "\nsocket %s\n", broker->socket ? broker->socket : "none");
	text_printf(text,
		    "access %s\nhold %s\nid %llu\nname %s\ngeneration %u\nkind %s\n",
		    lease->write ? "w" : "r", hold_names[lease->hold],
		    (unsigned long long)allocation->id, allocation->name,
		    allocation->pointer_generation,
		    kind_name((enum allocation_kind)allocation->kind));
	if (allocation->kind == KIND_HOST)
		text_printf(text, "device none\nuuid none\n");
	else
		text_printf(text, "device %u\nuuid %s\n", allocation->device,
			    broker->registry.device_at[allocation->device]->uuid);
	text_printf(text, "address 0x%llx\nsize %llu\nmapped_size %llu\n",
		    (unsigned long long)allocation->address,
		    (unsigned long long)allocation->size,
		    (unsigned long long)allocation->block->size);
	if (allocation->kind != KIND_HOST)
		text_printf(text, "range_address 0x%llx\nrange_size %llu\n",
			    (unsigned long long)WIRE_DEVICE_BASE +
				    allocation->device * WIRE_DEVICE_SPAN,
			    (unsigned long long)WIRE_DEVICE_SPAN);
}

static void lease_show(const struct lease *lease, struct text *text)
{
	text_printf(text, "%d %u %s ", lease->pid, lease->uid, lease->write ? "w" : "r");
	text_time(text, lease->since_s);
	text_printf(text, " hold=%s ", hold_names[lease->held ? lease->hold : HOLD_NONE]);
	text_add_printable(text, lease->comm);
	text_printf(text, "\n");
}

uint64_t leases_count(const struct broker *broker)
{
	return HASH_COUNT(broker->leases->by_id);
}

void leases_show(const struct broker *broker, const struct allocation *allocation,
		 struct text *text)
{
	const struct lease *lease;

	if (allocation) {
		DL_FOREACH (allocation->leases, lease)
			lease_show(lease, text);
		return;
	}
	for (lease = broker->leases->by_id; lease; lease = lease->hh.next) {
		if (!lease->allocation)
			continue;
		if (lease->allocation->state == ALLOCATION_FREED)
			text_printf(text, "#%llu ",
				    (unsigned long long)lease->allocation->id);
		else
			text_printf(text, "%s ", lease->allocation->name);
		lease_show(lease, text);
	}
}

void text_add_lease_holders(struct text *text, const struct broker *broker,
			    uint32_t device)
{
	uint64_t bytes = broker->registry.leased_on[device].freed_bytes;
	const struct lease *lease;
	const char *joint = ", by";
	unsigned int n = 0;

	if (!bytes)
		return;
	text_printf(text, "; %llu bytes of freed allocations are still leased",
		    (unsigned long long)bytes);
	for (lease = broker->leases->by_id; lease && n < 3; lease = lease->hh.next) {
		const struct allocation *allocation = lease->allocation;

		if (!allocation || allocation->state != ALLOCATION_FREED ||
		    allocation->kind == KIND_HOST || allocation->device != device)
			continue;
		text_printf(text, "%s pid %d (", joint, lease->pid);
		text_add_printable(text, lease->comm);
		text_printf(text, ", uid %u, %llu bytes)", lease->uid,
			    (unsigned long long)allocation->block->size);
		joint = ",";
		n++;
	}
}

/* ---- counting ---- */

/* Adds to the totals of an allocation that has leases, or takes away. */
static void leased_add(struct broker *broker, const struct allocation *allocation,
		       int64_t bytes, int64_t freed_bytes)
{
	struct lease_totals *totals[] = {
		&broker->registry.leased,
		&allocation->owner->leased,
		allocation->kind == KIND_HOST
			? NULL
			: &broker->registry.leased_on[allocation->device],
	};

	for (size_t i = 0; i < ARRAY_SIZE(totals); i++) {
		if (!totals[i])
			continue;
		totals[i]->bytes += (uint64_t)bytes;
		totals[i]->freed_bytes += (uint64_t)freed_bytes;
	}
}

static void leased_count(struct broker *broker, const struct allocation *allocation,
			 bool leased)
{
	int64_t bytes = leased ? (int64_t)allocation->size : -(int64_t)allocation->size;

	leased_add(broker, allocation, bytes,
		   allocation->state == ALLOCATION_FREED ? bytes : 0);
}

/* ---- opening ---- */

static int lease_refuse_kind(const struct allocation *allocation, struct refusal *refusal)
{
	const char *why = allocation->kind == KIND_MANAGED
				  ? "its pages belong to one process"
				  : "it was made in its owner's worker";

	return refuse(refusal, EOPNOTSUPP,
		      "kind=%s can't be leased: %s; copy it to one of kind=device "
		      "(control/copy)",
		      kind_name((enum allocation_kind)allocation->kind), why);
}

/* Whether the caller may have it. Under registry.lock. */
static int lease_check(const struct broker *broker, const struct allocation *allocation,
		       const struct caller *caller, const struct owner *user, bool write,
		       struct refusal *refusal)
{
	if (broker->registry.shutting_down)
		return refuse(refusal, ESTALE, "the broker is shutting down");
	if (!kind_is_durable((enum allocation_kind)allocation->kind))
		return lease_refuse_kind(allocation, refusal);
	if (!caller_may(caller, allocation, write ? ACCESS_WRITE : ACCESS_READ))
		return refuse(refusal, EACCES, "uid %u may not %s allocation %s",
			      caller->uid, write ? "write" : "read", allocation->name);
	if (allocation->kind == KIND_DEVICE && !allocation->map_readers &&
	    !caller_may(caller, allocation, ACCESS_WRITE))
		return refuse(
			refusal, EACCES,
			"allocation %s has map=writers: the driver can't lend device "
			"memory for reading only, so only who may write it may "
			"lease it (its owner can write readers to `map`)",
			allocation->name);
	if (user->n_leases >= LEASES_OF_USER_MAX)
		return refuse(refusal, EMFILE, "uid %u has %u leases open, the most",
			      caller->uid, LEASES_OF_USER_MAX);
	return 0;
}

/* Under registry.lock. */
static void lease_link(struct lease *lease, struct allocation *allocation,
		       struct owner *user, struct op **ready)
{
	struct broker *broker = lease->broker;

	lease->allocation = allocation;
	lease->user = user;
	lease->id = ++broker->leases->n_ever;
	HASH_ADD(hh, broker->leases->by_id, id, sizeof(lease->id), lease);
	DL_APPEND(allocation->leases, lease);
	user->n_leases++;
	if (allocation->n_leases++ == 0)
		leased_count(broker, allocation, true);
	if (lease->write) {
		allocation->n_write_leases++;
		ahead_free(broker, allocation->ahead, ready);
	}
	journal_event(&broker->journal,
		      "lease allocations/%s lease=%llu access=%s uid=%u pid=%d",
		      allocation->name, (unsigned long long)lease->id,
		      lease->write ? "w" : "r", lease->uid, lease->pid);
}

static struct lease *lease_new(struct broker *broker, const struct caller *caller,
			       bool write, void (*wake)(void *userdata), void *userdata)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;
	lease->broker = broker;
	lease->uid = caller->uid;
	lease->write = write;
	lease->wake = wake;
	lease->userdata = userdata;
	lease->since_s = time(NULL);
	lease->n_refs = 1;
	lease->pid = process_of_thread(caller->pid);
	lease->pidfd = (int)syscall(SYS_pidfd_open, lease->pid, 0);
	process_name(lease->pid, lease->comm);
	if (getrandom(lease->secret, sizeof(lease->secret), 0) ==
	    (ssize_t)sizeof(lease->secret))
		return lease;
	if (lease->pidfd >= 0)
		close(lease->pidfd);
	free(lease);
	return NULL;
}

int broker_lease_open(struct broker *broker, struct token token,
		      const struct caller *caller, bool write,
		      void (*wake)(void *userdata), void *userdata,
		      struct lease **ret_lease)
{
	struct lease *lease = lease_new(broker, caller, write, wake, userdata);
	char name[NAME_MAX_LENGTH + 1] = "?";
	struct allocation *allocation;
	struct op *ready = NULL;
	struct refusal refusal;
	struct owner *user;
	int r;

	if (!lease)
		return -ENOMEM;
	pthread_mutex_lock(&broker->registry.lock);
	allocation = allocation_get(&broker->registry, token.slot, token.generation);
	user = owner_get(&broker->registry, caller->uid, caller->gid);
	if (!allocation || !user) {
		r = refuse(&refusal, allocation ? ENOMEM : ESTALE, "%s",
			   allocation ? "no memory in the broker" : "it has been freed");
	} else {
		strcpy(name, allocation->name);
		r = lease_check(broker, allocation, caller, user, write, &refusal);
	}
	if (r == 0)
		lease_link(lease, allocation, user, &ready);
	else
		lease_unref(lease);
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(ready);
	if (r < 0) {
		lease_fail(broker, caller, name, refusal.error, refusal.sentence);
		return r;
	}
	*ret_lease = lease;
	return 0;
}

/* ---- ops of a lease ---- */

struct lease_op {
	struct op op;
	struct lease *lease;
};

static const struct op_class hold_class;

static struct lease *lease_of(struct op *op)
{
	return container_of(op, struct lease_op, op)->lease;
}

/* An op that uses all of the allocation. Under registry.lock. NULL: no memory. */
static struct op *lease_op_new(struct lease *lease, const struct op_class *class,
			       bool write, void (*finish)(struct op *op))
{
	struct allocation *allocation = lease->allocation;
	struct op *op =
		op_new(sizeof(struct lease_op), class, lease->broker, allocation->owner);

	if (!op)
		return NULL;
	container_of(op, struct lease_op, op)->lease = lease;
	lease->n_refs++;
	op->uid = lease->uid;
	op->pid = lease->pid;
	op->finish = finish;
	work_use(&op->work, allocation, 0, allocation->size, write);
	return op;
}

/* Adds it and lets go of the lock; or frees it and answers. */
static void lease_op_add(struct lease *lease, struct op *op, struct wait *wait)
{
	struct broker *broker = lease->broker;
	struct op *ready = NULL;
	int r = -ENOMEM;

	wait->waiter = NULL;
	if (op) {
		op_set_wait(op, wait);
		r = op_add(op, &ready);
	}
	if (r < 0) {
		wait->waiter = NULL;
		if (op && op->class == &hold_class)
			lease->hold = HOLD_NONE;
		if (op)
			lease_unref(lease);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(ready);
	if (r < 0) {
		op_free(op);
		wait->done(wait, r, NULL, 0);
	}
}

/* ---- being granted ---- */

static void lease_answer(struct lease *lease, struct wait *wait)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct broker *broker = lease->broker;

	pthread_mutex_lock(&broker->registry.lock);
	lease_print(lease, &text);
	pthread_mutex_unlock(&broker->registry.lock);
	if (text_failed(&text))
		wait->done(wait, -ENOMEM, NULL, 0);
	else
		wait->done(wait, 0, text_string(&text), text.length);
}

static void grant_run(struct op *op)
{
	struct block *block = op->work.uses[0].allocation->block;
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	_cleanup_text_ struct text text = TEXT_INIT;
	int r = block_prepare_share(&op->broker->memory, block, &failure);

	if (r == 0) {
		op_done(op, 0);
		return;
	}
	text_printf(&text, "its memory can't be shared: %s", strerror(-r));
	text_add_call(&text, failure.call, failure.result);
	op_fail(op, EXPORT_ERROR(r), "%s", text_string(&text));
}

static void grant_finish(struct op *op)
{
	const struct caller caller = { .uid = op->uid, .pid = op->pid };
	struct lease *lease = lease_of(op);
	struct broker *broker = op->broker;
	struct wait *wait = op_take_wait(op);

	if (op->error && wait)
		lease_fail(broker, &caller, op->name, op->error,
			   text_string(&op->sentence));
	pthread_mutex_lock(&broker->registry.lock);
	lease->granted |= !op->error;
	pthread_mutex_unlock(&broker->registry.lock);
	if (wait && op->error)
		wait->done(wait, -op->error, NULL, 0);
	else if (wait)
		lease_answer(lease, wait);
	pthread_mutex_lock(&broker->registry.lock);
	lease_unref(lease);
	pthread_mutex_unlock(&broker->registry.lock);
}

static const struct op_class grant_class = {
	.what = "lease",
	.run = grant_run,
	.quiet = true,
};

/*
 * A read of the lease that waits while the allocation moves out of the block that it
 * shares with others: whoever maps a block can use all of it.
 */
struct lease_move {
	struct wait moved;
	struct waiter waiter; /* of wait */
	struct wait *wait;
	struct lease *lease;
};

static void lease_move_interrupt(struct waiter *waiter)
{
	struct lease_move *move = container_of(waiter, struct lease_move, waiter);
	struct waiter *moving = move->moved.waiter;

	if (moving)
		moving->interrupt(moving);
	else
		pthread_mutex_unlock(&move->lease->broker->registry.lock);
}

static void lease_moved(struct wait *moved, int error, const void *bytes, size_t length)
{
	struct lease_move *move = container_of(moved, struct lease_move, moved);
	struct lease *lease = move->lease;
	struct broker *broker = lease->broker;
	struct wait *wait = move->wait;

	(void)bytes;
	(void)length;
	pthread_mutex_lock(&broker->registry.lock);
	wait->waiter = NULL;
	free(move);
	lease_unref(lease);
	pthread_mutex_unlock(&broker->registry.lock);
	if (error)
		wait->done(wait, error, NULL, 0);
	else
		broker_lease_read(lease, wait);
}

/* With the lock held, let go of. */
static void lease_move_out(struct lease *lease, struct wait *wait)
{
	const struct caller caller = { .uid = lease->uid, .pid = lease->pid };
	struct lease_move *move = calloc(1, sizeof(*move));
	struct broker *broker = lease->broker;

	if (!move) {
		pthread_mutex_unlock(&broker->registry.lock);
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	move->moved.done = lease_moved;
	move->waiter.interrupt = lease_move_interrupt;
	move->wait = wait;
	move->lease = lease;
	wait->waiter = &move->waiter;
	lease->n_refs++;
	allocation_move_out(broker, lease->allocation, &caller, &move->moved);
}

void broker_lease_read(struct lease *lease, struct wait *wait)
{
	struct broker *broker = lease->broker;
	const struct allocation *allocation;

	wait->waiter = NULL;
	pthread_mutex_lock(&broker->registry.lock);
	lease->changed = false;
	allocation = lease->allocation;
	/* While the lease holds, its turn has come; another one would be behind it. */
	if (!allocation || allocation->state == ALLOCATION_FREED || lease->held) {
		pthread_mutex_unlock(&broker->registry.lock);
		lease_answer(lease, wait);
	} else if (allocation->block->chunk) {
		lease_move_out(lease, wait);
	} else {
		lease_op_add(lease,
			     lease_op_new(lease, &grant_class, false, grant_finish),
			     wait);
	}
}

bool broker_lease_changed(struct lease *lease)
{
	bool changed;

	pthread_mutex_lock(&lease->broker->registry.lock);
	changed = lease->changed;
	pthread_mutex_unlock(&lease->broker->registry.lock);
	return changed;
}

/* ---- holding ---- */

/* Its turn has come. A program that no longer waits, or is gone, holds nothing. */
static void hold_run(struct op *op)
{
	struct lease *lease = lease_of(op);
	struct broker *broker = op->broker;
	struct wait *wait = NULL;
	bool ending;

	pthread_mutex_lock(&broker->registry.lock);
	ending = !lease->allocation;
	if (!ending)
		wait = take_ptr(op->wait);
	if (wait) {
		wait->waiter = NULL;
		lease->held = op;
	}
	pthread_mutex_unlock(&broker->registry.lock);
	if (wait)
		wait->done(wait, 0, NULL, 0);
	else if (ending)
		op_fail(op, ESTALE, "the broker is shutting down");
	else
		op_done(op, 0);
}

static void hold_settle(struct op *op)
{
	struct lease *lease = lease_of(op);

	if (lease->hold == HOLD_WRITE && lease->allocation)
		allocation_written(lease->allocation);
	lease->hold = HOLD_NONE;
}

static void hold_finish(struct op *op)
{
	const struct caller caller = { .uid = op->uid, .pid = op->pid };
	struct lease *lease = lease_of(op);
	struct wait *wait = op_take_wait(op);

	if (wait) {
		lease_fail(op->broker, &caller, op->name, op->error,
			   text_string(&op->sentence));
		wait->done(wait, -op->error, NULL, 0);
	}
	pthread_mutex_lock(&op->broker->registry.lock);
	lease_unref(lease);
	pthread_mutex_unlock(&op->broker->registry.lock);
}

static const struct op_class hold_class = {
	.what = "hold",
	.run = hold_run,
	.settle = hold_settle,
	.quiet = true,
};

static const struct {
	const char *line;
	enum hold hold;
} hold_lines[] = {
	{ "hold r", HOLD_READ },
	{ "hold w", HOLD_WRITE },
	{ "release", HOLD_NONE },
};

/* Returns: what the line asks for; -EINVAL. */
static int hold_parse(const char *line, size_t length)
{
	if (length && line[length - 1] == '\n')
		length--;
	for (size_t i = 0; i < ARRAY_SIZE(hold_lines); i++) {
		if (strlen(hold_lines[i].line) == length &&
		    memcmp(hold_lines[i].line, line, length) == 0)
			return (int)hold_lines[i].hold;
	}
	return -EINVAL;
}

/* Under registry.lock. */
static int hold_check(const struct lease *lease, int hold, struct refusal *refusal)
{
	if (hold < 0)
		return refuse(refusal, EINVAL,
			      "a lease takes one of: hold r, hold w, release");
	if (!lease->allocation || lease->allocation->state == ALLOCATION_FREED)
		return refuse(refusal, ESTALE, "%s",
			      lease->allocation ? "it has been freed"
						: "the broker is shutting down");
	if (hold == HOLD_NONE && !lease->held)
		return refuse(refusal, EINVAL, "lease %llu holds nothing to release",
			      (unsigned long long)lease->id);
	if (hold != HOLD_NONE && lease->hold != HOLD_NONE)
		return refuse(refusal, EBUSY,
			      "lease %llu has or waits for hold=%s already: release it "
			      "first",
			      (unsigned long long)lease->id, hold_names[lease->hold]);
	if (hold == HOLD_WRITE && !lease->write)
		return refuse(refusal, EACCES,
			      "hold w needs a lease that was opened for writing");
	return 0;
}

void broker_lease_write(struct lease *lease, const struct caller *caller,
			const char *line, size_t length, struct wait *wait)
{
	struct broker *broker = lease->broker;
	char name[NAME_MAX_LENGTH + 1] = "?";
	int hold = hold_parse(line, length);
	struct refusal refusal;
	struct op *held;
	int r;

	wait->waiter = NULL;
	pthread_mutex_lock(&broker->registry.lock);
	if (lease->allocation)
		strcpy(name, lease->allocation->name);
	r = hold_check(lease, hold, &refusal);
	if (r == 0 && hold != HOLD_NONE) {
		lease->hold = (enum hold)hold;
		lease_op_add(
			lease,
			lease_op_new(lease, &hold_class, hold == HOLD_WRITE, hold_finish),
			wait);
		return;
	}
	held = r == 0 ? take_ptr(lease->held) : NULL;
	pthread_mutex_unlock(&broker->registry.lock);
	if (r < 0)
		lease_fail(broker, caller, name, refusal.error, refusal.sentence);
	if (held)
		op_done(held, 0);
	wait->done(wait, r, NULL, 0);
}

/* ---- the end of leases ---- */

bool lease_park_release(struct broker *broker, struct allocation *allocation,
			struct op *op)
{
	if (!allocation->leases || broker->registry.shutting_down)
		return false;
	allocation->release = &op->work;
	return true;
}

void leases_note_freed(struct broker *broker, struct allocation *allocation)
{
	struct lease *lease;

	if (!allocation->leases)
		return;
	leased_add(broker, allocation, 0, (int64_t)allocation->size);
	DL_FOREACH (allocation->leases, lease)
		lease_notify(lease);
}

/* Takes the lease off its allocation. Under registry.lock. Returns: what it held. */
static struct op *lease_unlink(struct lease *lease)
{
	struct broker *broker = lease->broker;
	struct allocation *allocation = take_ptr(lease->allocation);

	DL_DELETE(allocation->leases, lease);
	lease->user->n_leases--;
	if (lease->write) {
		allocation->n_write_leases--;
		allocation_written(allocation);
	}
	if (--allocation->n_leases == 0)
		leased_count(broker, allocation, false);
	return take_ptr(lease->held);
}

static void release_resume(void *userdata)
{
	allocation_resume_release(userdata);
}

struct lease *broker_lease_close(struct lease *lease)
{
	struct allocation *allocation;
	struct work *release = NULL;
	struct op *held = NULL;
	struct broker *broker;
	int pidfd = -1;

	if (!lease)
		return NULL;
	broker = lease->broker;
	pthread_mutex_lock(&broker->registry.lock);
	lease->closed = true;
	allocation = lease->allocation;
	if (allocation) {
		journal_event(&broker->journal,
			      "unlease allocations/%s lease=%llu uid=%u pid=%d",
			      allocation->name, (unsigned long long)lease->id, lease->uid,
			      lease->pid);
		held = lease_unlink(lease);
		if (!allocation->leases)
			release = take_ptr(allocation->release);
	}
	HASH_DEL(broker->leases->by_id, lease);
	if (release)
		pidfd = take_fd(&lease->pidfd);
	if (release && allocation->kind != KIND_HOST)
		reclaim_begin(&broker->reclaim, allocation->device);
	if (pidfd >= 0 && !process_is_ending(lease->pid))
		closep(&pidfd);
	lease_unref(lease);
	pthread_mutex_unlock(&broker->registry.lock);
	if (held)
		op_done(held, 0);
	if (release && pidfd >= 0)
		reaper_add(&broker->leases->reaper, pidfd, release_resume,
			   container_of(release, struct op, work));
	else if (release)
		release_resume(container_of(release, struct op, work));
	return NULL;
}

void leases_end(struct broker *broker)
{
	struct op *held, *releases = NULL, *holds = NULL;
	struct lease *lease;

	pthread_mutex_lock(&broker->registry.lock);
	for (lease = broker->leases->by_id; lease; lease = lease->hh.next) {
		struct allocation *allocation = lease->allocation;
		struct work *release = NULL;

		if (!allocation)
			continue;
		held = lease_unlink(lease);
		if (held)
			op_push_ready(&holds, held);
		if (!allocation->leases)
			release = take_ptr(allocation->release);
		if (release && allocation->kind != KIND_HOST)
			reclaim_begin(&broker->reclaim, allocation->device);
		if (release)
			op_push_ready(&releases, container_of(release, struct op, work));
		lease_notify(lease);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	while ((held = holds)) {
		holds = held->next_ready;
		op_done(held, 0);
	}
	while ((held = releases)) {
		releases = held->next_ready;
		release_resume(held);
	}
	reaper_end(&broker->leases->reaper);
}

/* ---- tickets ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `ID:32 hex digits`, perhaps with a newline. Returns: 0; -EINVAL. */
static int ticket_parse(const char *ticket, size_t length, uint64_t *ret_id,
			uint8_t secret[TICKET_BYTES])
{
	const char *colon = memchr(ticket, ':', length);
	char number[24];
	size_t n;

	if (!colon || (size_t)(colon - ticket) >= sizeof(number))
		return -EINVAL;
	n = (size_t)(colon - ticket);
	memcpy(number, ticket, n);
	number[n] = '\0';
	if (number_parse(number, ret_id) < 0)
		return -EINVAL;
	length -= n + 1;
	if (length && colon[length] == '\n')
		length--;
	if (length != (size_t)TICKET_BYTES * 2)
		return -EINVAL;
	for (size_t i = 0; i < TICKET_BYTES; i++) {
		int high = hex_digit(colon[1 + 2 * i]), low = hex_digit(colon[2 + 2 * i]);

		if (high < 0 || low < 0)
			return -EINVAL;
		secret[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

/* In a time that does not depend on where they differ. */
static bool secret_matches(const uint8_t *a, const uint8_t *b)
{
	uint8_t differences = 0;

	for (size_t i = 0; i < TICKET_BYTES; i++)
		differences |= a[i] ^ b[i];
	return !differences;
}

int broker_redeem(struct broker *broker, const char *ticket, size_t length, uid_t uid)
{
	uint8_t secret[TICKET_BYTES];
	struct lease *lease = NULL;
	uint64_t id;
	int fd = -ENOENT;

	if (ticket_parse(ticket, length, &id, secret) < 0)
		return -EINVAL;
	pthread_mutex_lock(&broker->registry.lock);
	HASH_FIND(hh, broker->leases->by_id, &id, sizeof(id), lease);
	if (lease && lease->allocation && lease->granted &&
	    secret_matches(lease->secret, secret)) {
		/* Under the lock: the lease keeps the block for as long. */
		fd = uid == 0 || uid == lease->uid
			     ? block_share(&broker->memory, lease->allocation->block,
					   lease->write)
			     : -EACCES;
	}
	pthread_mutex_unlock(&broker->registry.lock);
	return fd;
}
