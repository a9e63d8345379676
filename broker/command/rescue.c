/* SPDX-License-Identifier: MIT */
#include "command/rescue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "base/clock.h"
#include "command/command.h"
#include "command/life.h"
#include "command/op.h"
#include "command/placing.h"
#include "command/verbs.h"
#include "registry/managed.h"

/* What a worker may take to write out its memory: so long, and this for each GiB. */
#define SAVE_MS		5000
#define SAVE_MS_PER_GIB 2000
#define SAVE_ALIGN	4096 /* in the file */
#define RESTORE_TRIES	3    /* that the driver refuses */
#define RESTORE_RUNS	64   /* that end meanwhile */
/*
 * A process that has faulted does nothing any more, but its end keeps the driver busy,
 * and contexts that are made meanwhile take half as long again. So it ends when the next
 * run has its own, or after this.
 */
#define LINGER_MS 1000

/* One allocation, while it has no address. */
struct saved {
	struct allocation *allocation; /* stays while it is `restoring` */
	uint64_t address;	       /* in the run that ends */
	uint64_t offset;	       /* in the file */
	bool good;
};

/* How one is made anew. The last two are asked for range by range, as often as needed. */
enum stage {
	STAGE_NEXT, /* it has not begun */
	STAGE_ALLOC,
	STAGE_FILL,
	STAGE_ATTACH,
	STAGE_ADVISE,
	STAGE_DONE,
	STAGE_LOST,
};

/* What a range can have been given, in turn. */
enum {
	STEP_READ_MOSTLY,
	STEP_PREFERRED,
	STEP_ACCESSED_BY,			 /* by device 0, and so on */
	STEP_PREFETCHED = STEP_ACCESSED_BY + 17, /* the CPU's bit is the last */
	N_STEPS,
};

struct rescue {
	struct broker *broker;
	struct worker *worker;
	uint32_t epoch; /* of the run that ends */
	char reason[128];
	struct link *link; /* that run's; NULL: it is gone */
	int64_t deadline_ms;
	bool lingers; /* until the next run is ready; registry.lock, as are: */
	bool let_go;  /* nothing more is asked of it */
	bool killed;  /* it is to end at once */
	bool run_ended;
	bool restored;
	struct command *command;
	struct rescue *prev, *next; /* of broker->rescues; registry.lock */

	int fd; /* what is kept, one after the other */
	unsigned int n_saved, at;
	struct saved *saved;

	/* Making the one at `at` anew. */
	struct ask ask;
	enum stage stage;
	uint32_t new_epoch;
	uint64_t new_address;
	unsigned int n_tries, n_runs;
	unsigned int range, step; /* of its advice */
	char why_not[128];	  /* what went wrong last, as in "and it WHY_NOT" */
};

static void save_next(struct rescue *rescue, struct link *link);
static void restore_go_on(struct rescue *rescue);

/* ---- the end ---- */

/*
 * When nothing is left to wait for. With registry.lock held, under which what was waited
 * for was noted, and which is let go of; the rescue may be gone then.
 */
static void rescue_finish(struct rescue *rescue)
{
	struct broker *broker = rescue->broker;
	struct command *command = NULL;
	bool over;

	over = rescue->run_ended && rescue->restored;
	if (over) {
		DL_DELETE(broker->rescues, rescue);
		command = take_ptr(rescue->command);
		if (command)
			command->interrupt = NULL;
		broker_less_busy(broker);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	if (!over)
		return;
	closep(&rescue->fd);
	free(rescue->saved);
	free(rescue);
	if (command)
		command_done(command, 0);
}

void rescue_forget(struct broker *broker, const struct command *command)
{
	struct rescue *rescue;

	DL_FOREACH (broker->rescues, rescue) {
		if (rescue->command == command)
			rescue->command = NULL;
	}
}

/*
 * Until its process has ended, memory that is freed is still mapped there, and nobody is
 * asked to unmap it: whoever finds a device full waits for that. Under registry.lock.
 */
static void rescue_hold_memory(struct broker *broker)
{
	for (unsigned int i = 0; i < broker->n_devices; i++)
		broker->n_releases[i]++;
}

static void rescue_release_memory(struct broker *broker)
{
	for (unsigned int i = 0; i < broker->n_devices; i++) {
		broker->n_releases[i]--;
		broker->n_released[i]++;
	}
}

void rescue_run_ended(struct broker *broker, struct worker *worker, uint32_t epoch)
{
	struct rescue *rescue;

	pthread_mutex_lock(&broker->registry.lock);
	DL_FOREACH (broker->rescues, rescue) {
		if (rescue->worker == worker && rescue->epoch == epoch)
			break;
	}
	if (!rescue) {
		pthread_mutex_unlock(&broker->registry.lock);
		return;
	}
	rescue->link = NULL;
	rescue->run_ended = true;
	rescue_release_memory(broker);
	rescue_finish(rescue);
	for (uint32_t i = 0; i < broker->n_devices; i++)
		alloc_retry_parked(broker, i);
}

/* Under registry.lock. */
static void rescue_kill(struct rescue *rescue)
{
	if (rescue->link && !rescue->killed)
		link_kill(rescue->link);
	rescue->killed = true;
}

/* The process has done what it could. Under registry.lock. */
static void rescue_let_go(struct rescue *rescue)
{
	rescue->let_go = true;
	if (!rescue->lingers) {
		rescue_kill(rescue);
		return;
	}
	rescue->deadline_ms = clock_ms() + LINGER_MS;
	pthread_cond_signal(&rescue->broker->housekeeper_wake);
}

void rescue_run_ready(struct broker *broker, struct worker *worker)
{
	struct rescue *rescue;

	pthread_mutex_lock(&broker->registry.lock);
	DL_FOREACH (broker->rescues, rescue) {
		if (rescue->worker != worker || !rescue->lingers)
			continue;
		rescue->lingers = false;
		/* Else it still writes. */
		if (rescue->let_go)
			rescue_kill(rescue);
	}
	pthread_mutex_unlock(&broker->registry.lock);
}

int64_t rescue_check_limits(struct broker *broker)
{
	int64_t now = clock_ms(), next = -1;
	struct rescue *rescue;

	pthread_mutex_lock(&broker->registry.lock);
	DL_FOREACH (broker->rescues, rescue) {
		if (!rescue->link || rescue->killed)
			continue;
		if (rescue->deadline_ms <= now ||
		    (rescue->let_go && broker->shutting_down))
			rescue_kill(rescue);
		else if (next < 0 || rescue->deadline_ms - now < next)
			next = rescue->deadline_ms - now;
	}
	pthread_mutex_unlock(&broker->registry.lock);
	return next;
}

/* ---- who waits ---- */

bool rescue_park(struct op *op)
{
	struct broker *broker = op->broker;
	bool parked = false;

	pthread_mutex_lock(&broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses && !parked; i++) {
		struct allocation *allocation = op->work.uses[i].allocation;

		parked = allocation->restoring;
		if (!parked)
			continue;
		op->work.next_ready = allocation->parked;
		allocation->parked = &op->work;
	}
	pthread_mutex_unlock(&broker->registry.lock);
	return parked;
}

static void allocation_resume(struct allocation *allocation, struct op **ready)
{
	struct work *work = take_ptr(allocation->parked);

	allocation->restoring = false;
	while (work) {
		struct op *op = container_of(work, struct op, work);

		work = work->next_ready;
		op_push_ready(ready, op);
	}
}

/* ---- writing it out ---- */

/* Returns: false when the run that it was made in is over: then nothing was done. */
static bool saved_set_address(struct rescue *rescue)
{
	struct broker *broker = rescue->broker;
	struct saved *saved = &rescue->saved[rescue->at];
	struct allocation *allocation = saved->allocation;
	struct op *ready = NULL;

	pthread_mutex_lock(&broker->registry.lock);
	if (worker_epoch(rescue->worker) != rescue->new_epoch) {
		pthread_mutex_unlock(&broker->registry.lock);
		return false;
	}
	allocation->address = rescue->new_address;
	allocation->worker_epoch = rescue->new_epoch;
	/* Parts may have been sent away again. */
	managed_leave_host(allocation->managed, 0, allocation->size);
	allocation->pointer_generation++;
	if (allocation->state == ALLOCATION_LIVE)
		journal_event(&broker->journal,
			      "restore allocations/%s id=%llu generation=%u",
			      allocation->name, (unsigned long long)allocation->id,
			      allocation->pointer_generation);
	allocation_resume(allocation, &ready);
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(ready);
	return true;
}

static void saved_lose(struct rescue *rescue)
{
	struct broker *broker = rescue->broker;
	struct allocation *allocation = rescue->saved[rescue->at].allocation;
	struct op *ready = NULL;
	char why[sizeof(rescue->reason) + sizeof(rescue->why_not) + 16];

	snprintf(why, sizeof(why), "%s, and it %s", rescue->reason, rescue->why_not);
	pthread_mutex_lock(&broker->registry.lock);
	life_lose(broker, allocation, why);
	allocation_resume(allocation, &ready);
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(ready);
}

static void save_end(struct rescue *rescue)
{
	struct broker *broker = rescue->broker;

	pthread_mutex_lock(&broker->registry.lock);
	rescue_let_go(rescue);
	pthread_mutex_unlock(&broker->registry.lock);
	rescue->at = 0;
	rescue->stage = STAGE_NEXT;
	restore_go_on(rescue);
}

static void save_replied(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct rescue *rescue = container_of(ask, struct rescue, ask);
	struct link *link;

	pthread_mutex_lock(&rescue->broker->registry.lock);
	link = rescue->link;
	pthread_mutex_unlock(&rescue->broker->registry.lock);
	rescue->saved[rescue->at++].good = !lost && !reply->error;
	if (lost || rescue->at == rescue->n_saved)
		save_end(rescue);
	else
		save_next(rescue, link);
}

/*
 * Called where the link can't have been freed: under registry.lock, or by the thread that
 * took an answer off it. One that is killed meanwhile answers as lost.
 */
static void save_next(struct rescue *rescue, struct link *link)
{
	const struct saved *saved = &rescue->saved[rescue->at];

	rescue->ask = (struct ask){
		.request = {
			.op = WIRE_SAVE,
			.address = saved->address,
			.length = saved->allocation->size,
			.source = saved->offset,
		},
		.fd = fcntl(rescue->fd, F_DUPFD_CLOEXEC, 3),
		.done = save_replied,
	};
	link_ask(link, &rescue->ask);
}

/* ---- making it anew ---- */

/* The run in which it was being made has ended. */
static void restore_in_next_run(struct rescue *rescue)
{
	snprintf(rescue->why_not, sizeof(rescue->why_not),
		 "could not be made anew, as worker after worker ended");
	rescue->stage = ++rescue->n_runs < RESTORE_RUNS ? STAGE_ALLOC : STAGE_LOST;
}

/* The run can't make it, or can't be had. */
static void restore_again(struct rescue *rescue, int call, int result)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "could not be made anew");
	text_add_call(&text, call, result);
	snprintf(rescue->why_not, sizeof(rescue->why_not), "%s", text_string(&text));
	rescue->stage = ++rescue->n_tries < RESTORE_TRIES ? STAGE_ALLOC : STAGE_LOST;
}

/* What one step gives a range. Returns: whether it had it. */
static bool step_fill_request(const struct managed_range *range, unsigned int step,
			      struct wire_request *request)
{
	unsigned int bit = step - STEP_ACCESSED_BY;

	request->op = WIRE_ADVISE;
	switch (step) {
	case STEP_READ_MOSTLY:
		request->advice = WIRE_SET_READ_MOSTLY;
		return range->read_mostly;
	case STEP_PREFERRED:
		request->advice = WIRE_SET_PREFERRED_LOCATION;
		request->location = range->preferred;
		return range->preferred;
	case STEP_PREFETCHED:
		request->op = WIRE_PREFETCH;
		request->location = range->prefetched;
		return range->prefetched;
	default:
		request->advice = WIRE_SET_ACCESSED_BY;
		request->location = 1u << bit == LOCATION_SET_CPU
					    ? location_make(LOCATION_CPU, 0)
					    : location_make(LOCATION_DEVICE, bit);
		return range->accessed_by >> bit & 1;
	}
}

/* The next thing to be said of a range of it. Returns: false when all has been said. */
static bool restore_fill_advice(struct rescue *rescue)
{
	const struct allocation *allocation = rescue->saved[rescue->at].allocation;
	const struct managed *managed = allocation->managed;
	bool any = false;

	pthread_mutex_lock(&rescue->broker->registry.lock);
	while (!any && rescue->range < managed->n_ranges) {
		const struct managed_range *range = &managed->ranges[rescue->range];
		uint64_t end = rescue->range + 1 < managed->n_ranges ? range[1].offset
								     : managed->size;

		rescue->ask.request = (struct wire_request){
			.address = rescue->new_address + range->offset,
			.length = end - range->offset,
		};
		any = step_fill_request(range, rescue->step, &rescue->ask.request);
		/* Its context is needed for what is said about a device to take hold. */
		rescue->ask.request.device = location_device(
			(uint16_t)rescue->ask.request.location, allocation->device);
		if (++rescue->step == N_STEPS) {
			rescue->step = 0;
			rescue->range++;
		}
	}
	pthread_mutex_unlock(&rescue->broker->registry.lock);
	return any;
}

/* Returns: whether there is something to ask at this stage. */
static bool restore_fill_request(struct rescue *rescue, struct worker_needs *needs)
{
	const struct saved *saved = &rescue->saved[rescue->at];
	const struct allocation *allocation = saved->allocation;
	enum managed_attach attach = allocation->managed->attach;

	switch (rescue->stage) {
	case STAGE_ALLOC:
		rescue->range = rescue->step = 0;
		rescue->ask.request = (struct wire_request){
			.op = WIRE_ALLOC,
			.flags = WIRE_MANAGED |
				 (attach == ATTACH_HOST ? WIRE_ATTACH_HOST : 0),
			.device = allocation->device,
			.length = allocation->size,
		};
		return true;
	case STAGE_FILL:
		rescue->ask.fd = fcntl(rescue->fd, F_DUPFD_CLOEXEC, 3);
		rescue->ask.request = (struct wire_request){
			.op = WIRE_RESTORE,
			.address = rescue->new_address,
			.length = allocation->size,
			.source = saved->offset,
		};
		return true;
	case STAGE_ATTACH:
		if (attach != ATTACH_SINGLE || !allocation->stream)
			return false;
		needs->stream = allocation->stream;
		rescue->ask.request = (struct wire_request){
			.op = WIRE_ATTACH,
			.flags = WIRE_ATTACH_STREAM,
			.device = allocation->device,
			.address = rescue->new_address,
			.stream = allocation->stream->wire_id,
		};
		return true;
	case STAGE_ADVISE:
		return restore_fill_advice(rescue);
	case STAGE_NEXT:
	case STAGE_DONE:
	case STAGE_LOST:
		break;
	}
	return false;
}

static void restore_replied(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct rescue *rescue = container_of(ask, struct rescue, ask);

	/* Advice that is refused now, as by a device that is gone, is left out. */
	if (!lost && cuda_result_is_sticky(reply->result)) {
		rescue_note_fault(rescue->broker, rescue->worker, rescue->new_epoch,
				  reply);
		lost = true;
	}
	if (lost) {
		restore_in_next_run(rescue);
	} else if (reply->error && rescue->stage < STAGE_ATTACH) {
		restore_again(rescue, reply->call, reply->result);
	} else {
		if (rescue->stage == STAGE_ALLOC)
			rescue->new_address = reply->value[0];
		if (rescue->stage != STAGE_ADVISE)
			rescue->stage++;
	}
	restore_go_on(rescue);
}

/* Asks for what comes next of the one at `at`. Returns: false when there is nothing. */
static bool restore_ask(struct rescue *rescue)
{
	struct worker_needs needs = { 0 };
	int r;

	rescue->ask.fd = -1;
	rescue->ask.done = restore_replied;
	while (rescue->stage < STAGE_DONE && !restore_fill_request(rescue, &needs))
		rescue->stage++;
	if (rescue->stage >= STAGE_DONE)
		return false;
	if (rescue->stage != STAGE_ALLOC)
		needs.epoch = rescue->new_epoch;
	r = worker_ask(rescue->worker, &needs, &rescue->ask, &rescue->new_epoch);
	if (r == 0)
		return true;
	closep(&rescue->ask.fd);
	if (r == -ESTALE)
		restore_in_next_run(rescue);
	else
		restore_again(rescue, -1, 0);
	return false;
}

/* Goes on until something is asked, or all are done. */
static void restore_go_on(struct rescue *rescue)
{
	while (rescue->at < rescue->n_saved) {
		if (rescue->stage == STAGE_NEXT) {
			bool good = rescue->saved[rescue->at].good;

			rescue->n_tries = rescue->n_runs = 0;
			rescue->stage = good ? STAGE_ALLOC : STAGE_LOST;
			snprintf(rescue->why_not, sizeof(rescue->why_not),
				 "could not be written out");
		}
		if (rescue->stage < STAGE_DONE && restore_ask(rescue))
			return;
		if (rescue->stage < STAGE_DONE)
			continue;
		if (rescue->stage == STAGE_DONE && !saved_set_address(rescue)) {
			restore_in_next_run(rescue);
			continue;
		}
		if (rescue->stage == STAGE_LOST)
			saved_lose(rescue);
		rescue->stage = STAGE_NEXT;
		rescue->at++;
	}
	pthread_mutex_lock(&rescue->broker->registry.lock);
	rescue->restored = true;
	rescue_finish(rescue);
}

/* ---- the begin ---- */

static bool is_saved(const struct allocation *allocation)
{
	return allocation->managed && allocation->state == ALLOCATION_LIVE;
}

static bool lives_in(const struct allocation *allocation, const struct worker *worker,
		     uint32_t epoch)
{
	return allocation->owner == worker->owner && !kind_is_durable(allocation->kind) &&
	       allocation->worker_epoch == epoch && !allocation->restoring &&
	       allocation->state != ALLOCATION_MAKING;
}

/* A file to write out that many bytes to. */
static int save_file(uint64_t size)
{
	_cleanup_close_ int fd = -1;

	if (!host_has_room(size))
		return -ENOMEM;
	fd = memfd_create("gpumem-saved", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

/* What of the run can be kept is noted, the rest is lost. Returns: bytes to write out. */
static uint64_t rescue_take(struct rescue *rescue)
{
	struct registry *registry = &rescue->broker->registry;
	struct allocation *allocation;
	uint64_t size = 0;

	for (uint32_t slot = 0; (allocation = slots_next(&registry->allocations, &slot));
	     slot++) {
		if (!lives_in(allocation, rescue->worker, rescue->epoch))
			continue;
		if (!is_saved(allocation)) {
			life_lose(rescue->broker, allocation, rescue->reason);
			continue;
		}
		allocation->restoring = true;
		rescue->saved[rescue->n_saved++] = (struct saved){
			.allocation = allocation,
			.address = allocation->address,
			.offset = size,
		};
		size += align_up(allocation->size, SAVE_ALIGN);
	}
	return size;
}

/* There is nowhere to keep it. */
static void rescue_drop(struct rescue *rescue)
{
	char why[sizeof(rescue->reason) + 64];

	snprintf(why, sizeof(why), "%s, and the host has no memory left to keep it",
		 rescue->reason);
	for (; rescue->n_saved; rescue->n_saved--) {
		struct allocation *allocation =
			rescue->saved[rescue->n_saved - 1].allocation;

		allocation->restoring = false;
		life_lose(rescue->broker, allocation, why);
	}
}

static struct rescue *rescue_new(struct broker *broker, struct worker *worker,
				 uint32_t epoch, const char *reason,
				 struct command *command)
{
	struct rescue *rescue = calloc(1, sizeof(*rescue));

	if (!rescue)
		return NULL;
	rescue->broker = broker;
	rescue->worker = worker;
	rescue->epoch = epoch;
	rescue->fd = -1;
	rescue->command = command;
	snprintf(rescue->reason, sizeof(rescue->reason), "%s", reason);
	rescue->saved = calloc(worker->owner ? worker->owner->n_in_worker + 1 : 1,
			       sizeof(*rescue->saved));
	if (rescue->saved)
		return rescue;
	free(rescue);
	return NULL;
}

/* faulted: the process is known to do nothing any more. */
static bool run_give_up(struct broker *broker, struct worker *worker, uint32_t epoch,
			const char *reason, int error, bool faulted,
			struct command *command)
{
	struct link *link = worker_abandon(worker, epoch, reason, error);
	struct rescue *rescue;
	uint64_t size = 0;

	if (!link)
		return false;
	rescue = rescue_new(broker, worker, epoch, reason, command);
	/* Without memory to keep anything all is lost when the process has ended. */
	if (!rescue) {
		link_kill(link);
		return false;
	}
	broker->n_ops++;
	DL_APPEND(broker->rescues, rescue);
	rescue_hold_memory(broker);
	rescue->link = link;
	if (!broker->shutting_down && worker->owner) {
		size = rescue_take(rescue);
		rescue->lingers = worker_want(worker, epoch) && faulted;
	}
	if (size)
		rescue->fd = save_file(size);
	if (size && rescue->fd < 0)
		rescue_drop(rescue);
	if (rescue->n_saved) {
		rescue->deadline_ms = clock_ms() + SAVE_MS +
				      (int64_t)(size >> 20) * SAVE_MS_PER_GIB / 1024;
		pthread_cond_signal(&broker->housekeeper_wake);
		save_next(rescue, link);
	} else {
		rescue_let_go(rescue);
		rescue->restored = true;
	}
	return true;
}

bool rescue_begin(struct broker *broker, struct worker *worker, uint32_t epoch,
		  const char *reason, int error, struct command *command)
{
	return run_give_up(broker, worker, epoch, reason, error, false, command);
}

void rescue_note_fault(struct broker *broker, struct worker *worker, uint32_t epoch,
		       const struct wire_reply *reply)
{
	_cleanup_text_ struct text reason = TEXT_INIT;

	text_printf(&reason, "lost its contexts");
	text_add_call(&reason, reply->call, reply->result);
	pthread_mutex_lock(&broker->registry.lock);
	run_give_up(broker, worker, epoch, text_string(&reason),
		    cuda_result_errno(reply->result), true, NULL);
	pthread_mutex_unlock(&broker->registry.lock);
}
