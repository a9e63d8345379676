/* SPDX-License-Identifier: MIT */
#include "api/attribute_show.h"

#include <ctype.h>
#include <unistd.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/user_names.h"
#include "control/verbs.h"
#include "cuda/driver.h"
#include "memops/file.h"
#include "memops/lease.h"
#include "memops/lifetime.h"
#include "memory/block.h"
#include "memory/reclaim.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/managed_ranges.h"
#include "model/module.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/processes.h"

static void show_number(struct text *text, uint64_t number)
{
	text_printf(text, "%llu", (unsigned long long)number);
}

/* ---- the broker ---- */

void show_broker_version(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->broker->version);
}

void show_broker_driver_version(const struct attribute_view *view, struct text *text)
{
	int version = view->broker->driver->version;

	text_printf(text, "%d.%d", version / 1000, version % 1000 / 10);
}

void show_broker_driver_path(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->broker->driver->path);
}

void show_broker_pid(const struct attribute_view *view, struct text *text)
{
	(void)view;
	text_printf(text, "%d", getpid());
}

static uint64_t devices_sum(const uint64_t *places)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < MANAGED_PLACE_HOST; i++)
		sum += places[i];
	return sum;
}

void show_broker_preferred_device(const struct attribute_view *view, struct text *text)
{
	show_number(text, devices_sum(view->broker->registry->managed.preferred));
}

void show_broker_prefetched_device(const struct attribute_view *view, struct text *text)
{
	show_number(text, devices_sum(view->broker->registry->managed.prefetched));
}

void show_broker_failures(const struct attribute_view *view, struct text *text)
{
	show_number(text, journal_n_failures(view->broker->journal));
}

void show_broker_restarts(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->processes->restarts);
}

void show_broker_mover(const struct attribute_view *view, struct text *text)
{
	show_number(text, (uint64_t)worker_pid(&view->broker->processes->mover));
}

void show_broker_leases(const struct attribute_view *view, struct text *text)
{
	show_number(text, leases_count(view->broker));
}

void show_broker_waiting(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->reclaim->n_queued);
}

/* ---- allocations ---- */

void show_allocation_kind(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", kind_name((enum allocation_kind)view->allocation->kind));
}

void show_allocation_device(const struct attribute_view *view, struct text *text)
{
	if (view->allocation->kind == KIND_HOST)
		text_printf(text, "none");
	else
		show_number(text, view->allocation->device);
}

void show_allocation_state(const struct attribute_view *view, struct text *text)
{
	const struct allocation *allocation = view->allocation;

	if (allocation->state == ALLOCATION_LOST)
		text_printf(text, "lost");
	else
		text_printf(text, "%s",
			    allocation->n_works > allocation->n_unasked ? "busy"
									: "live");
}

void show_allocation_leases(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->rare->n_leases);
}

void show_allocation_write_leases(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->rare->n_write_leases);
}

void show_allocation_attach(const struct attribute_view *view, struct text *text)
{
	text_attach(text, view->allocation);
}

void show_allocation_last_write(const struct attribute_view *view, struct text *text)
{
	if (view->allocation->rare->n_write_leases)
		text_printf(text, "leased");
	else if (view->allocation->written_ns)
		text_time(text, view->allocation->written_ns / NS_PER_S);
	else
		text_printf(text, "never");
}

void show_allocation_last_use(const struct attribute_view *view, struct text *text)
{
	const struct allocation *allocation = view->allocation;
	int64_t last_ns = MAX(allocation->used_ns, allocation->written_ns);

	if (allocation->rare->n_leases)
		text_printf(text, "leased");
	else if (last_ns)
		text_time(text, last_ns / NS_PER_S);
	else
		text_printf(text, "never");
}

/*
 * The first in the order that is a kernel or somebody else's: it can last as long as a
 * user likes. Readahead that nobody has asked for is passed over; there is little of it.
 * NULL: none.
 */
static const struct op *oldest_user(const struct allocation *allocation)
{
	const struct use *use;

	DL_FOREACH2(allocation->lasting_uses, use, next_lasting)
	{
		const struct op *op = container_of(use->work, struct op, work);

		if (op->class->kernel || !op->work.unasked)
			return op;
	}
	return NULL;
}

void show_allocation_used_by(const struct attribute_view *view, struct text *text)
{
	const struct op *op = oldest_user(view->allocation);

	if (op)
		show_number(text, op->class->kernel ? op->owner->uid : op->payer->uid);
	else
		text_printf(text, "none");
}

void show_allocation_used_by_kernel(const struct attribute_view *view, struct text *text)
{
	const struct op *op = oldest_user(view->allocation);

	text_printf(text, "%s",
		    op && op->class->kernel ? op->class->kernel->name(op) : "none");
}

void show_allocation_guard(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->guard);
}

void show_allocation_map(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->allocation->map_readers ? "readers" : "writers");
}

void show_allocation_sealed(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->sealed);
}

void show_allocation_until(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", lifetime_word(view->allocation));
}

/* One word, as `cgroup=` takes it: other bytes are three octal digits. */
void show_allocation_cgroup(const struct attribute_view *view, struct text *text)
{
	const struct origin *origin = view->allocation->origin;

	for (const char *byte = origin ? origin->cgroup : "none"; *byte; byte++)
		text_printf(text,
			    isgraph((unsigned char)*byte) && *byte != '\\' ? "%c"
									   : "\\%03o",
			    (unsigned char)*byte);
}

void show_allocation_progress(const struct attribute_view *view, struct text *text)
{
	uint64_t done, total;

	if (file_progress(view->allocation, &done, &total))
		text_printf(text, "%llu of %llu\n", (unsigned long long)done,
			    (unsigned long long)total);
	else
		text_printf(text, "none\n");
}

/* ---- streams ---- */

void show_stream_state(const struct attribute_view *view, struct text *text)
{
	const struct stream *stream = view->stream;

	text_printf(text, "%s",
		    stream->failed    ? "failed"
		    : stream->n_works ? "busy"
				      : "idle");
}

/* ---- devices ---- */

void show_device_capability(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%d.%d", view->device->major, view->device->minor);
}

void show_device_memory_held(const struct attribute_view *view, struct text *text)
{
	show_number(text, memory_device_bytes(view->broker->memory, view->device->index));
}

void show_device_state(const struct attribute_view *view, struct text *text)
{
	const struct device *device = view->device;
	bool whole = device->has_vmm && device->has_managed && device->has_concurrent;

	text_printf(text, "%s", whole ? "ok" : "limited");
}

void show_device_vmm(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->device->has_vmm);
}

void show_device_managed(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->device->has_managed);
}

void show_device_concurrent(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->device->has_concurrent);
}

/* ---- owners ---- */

void show_owner_name(const struct attribute_view *view, struct text *text)
{
	user_names_show(view->broker->registry->user_names, view->owner->uid, text);
}

static pid_t owner_worker_pid(const struct owner *owner)
{
	return owner->worker ? worker_pid(owner->worker) : 0;
}

static bool owner_has_failed(const struct owner *owner)
{
	return owner->worker && worker_has_failed(owner->worker);
}

void show_owner_state(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s",
		    owner_has_failed(view->owner)   ? "failed"
		    : owner_worker_pid(view->owner) ? "running"
						    : "idle");
}

void show_owner_failure(const struct attribute_view *view, struct text *text)
{
	struct worker *worker = view->owner->worker;
	char reason[sizeof(worker->end_reason)];

	if (!owner_has_failed(view->owner))
		return;
	worker_end_reason(worker, reason, sizeof(reason));
	text_printf(text, "the worker %s\n", reason);
}

void show_owner_worker(const struct attribute_view *view, struct text *text)
{
	show_number(text, (uint64_t)owner_worker_pid(view->owner));
}

void show_drain_output(struct broker *broker, struct token token)
{
	struct owner *owner;

	pthread_mutex_lock(&broker->registry->lock);
	owner = handle_table_get(&broker->registry->owners, token.slot, token.generation);
	if (owner && owner->output) {
		owner->n_readers++; /* so the owner stays */
		pthread_mutex_unlock(&broker->registry->lock);
		output_drain(owner->output);
		pthread_mutex_lock(&broker->registry->lock);
		owner->n_readers--;
	}
	pthread_mutex_unlock(&broker->registry->lock);
}

void show_owner_output(const struct attribute_view *view, struct text *text)
{
	if (view->owner->output)
		output_show(view->owner->output, text);
}

/* ---- modules ---- */

/* Shows the state of the image: after a failed load the previous image stays. */
void show_module_state(const struct attribute_view *view, struct text *text)
{
	const struct module *module = view->module;

	text_printf(text, "%s",
		    module->image     ? "loaded"
		    : module->n_loads ? "loading"
		    : module->failed  ? "failed"
				      : "none");
}
