/* SPDX-License-Identifier: MIT */
#include "api/attribute.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "api/broker.h"
#include "api/device_usage.h"
#include "base/user_names.h"
#include "control/verbs.h"
#include "kernels/module_use.h"
#include "memops/lease.h"
#include "memops/readahead.h"
#include "op/op.h"
#include "process/processes.h"

/* The object to show, by type. With registry.lock held. */
struct attribute_view {
	struct broker *broker;
	union {
		const struct allocation *allocation;
		const struct stream *stream;
		const struct device *device;
		const struct owner *owner;
		const struct module *module;
		const struct function *function;
	};
};

static void show_number(struct text *text, uint64_t number)
{
	text_printf(text, "%llu", (unsigned long long)number);
}

/* ---- the broker ---- */

static void broker_version(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "gpumem %s, driver %d.%d from %s", view->broker->version,
		    view->broker->driver->version / 1000,
		    view->broker->driver->version % 1000 / 10,
		    view->broker->driver->path);
}

static void broker_devices(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.n_devices);
}

static void broker_allocations(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.n_allocations);
}

static void broker_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.bytes);
}

static void broker_peak_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.peak_bytes);
}

static void broker_device_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.bytes_by_kind[KIND_DEVICE]);
}

static void broker_direct_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.bytes_by_kind[KIND_DIRECT]);
}

static void broker_async_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.bytes_by_kind[KIND_ASYNC]);
}

static void broker_managed_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.bytes_by_kind[KIND_MANAGED]);
}

/* The sum over all devices. */
static uint64_t devices_sum(const uint64_t *places)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < MANAGED_PLACE_HOST; i++)
		sum += places[i];
	return sum;
}

static void broker_preferred_cpu(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.managed.preferred[MANAGED_PLACE_HOST]);
}

static void broker_preferred_device(const struct attribute_view *view, struct text *text)
{
	show_number(text, devices_sum(view->broker->registry.managed.preferred));
}

static void broker_prefetched_cpu(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.managed.prefetched[MANAGED_PLACE_HOST]);
}

static void broker_prefetched_device(const struct attribute_view *view, struct text *text)
{
	show_number(text, devices_sum(view->broker->registry.managed.prefetched));
}

static void broker_host_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.bytes_by_kind[KIND_HOST]);
}

static void broker_modules(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.n_modules);
}

static void broker_streams(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.n_streams);
}

static void broker_owners(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.owners.n_used);
}

static void broker_failures(const struct attribute_view *view, struct text *text)
{
	show_number(text, journal_n_failures(&view->broker->journal));
}

static void broker_restarts(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->processes->restarts);
}

static void broker_mover(const struct attribute_view *view, struct text *text)
{
	show_number(text, (uint64_t)worker_pid(&view->broker->processes->mover));
}

static void broker_leases(const struct attribute_view *view, struct text *text)
{
	show_number(text, leases_count(view->broker));
}

static void broker_leased_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.leased.bytes);
}

static void broker_freed_leased_bytes(const struct attribute_view *view,
				      struct text *text)
{
	show_number(text, view->broker->registry.leased.freed_bytes);
}

static void broker_all_leases(const struct attribute_view *view, struct text *text)
{
	leases_show(view->broker, NULL, text);
}

static const struct attribute broker_attributes[] = {
	{ "version", "of gpumem and of the driver, and the driver's library",
	  ATTRIBUTE_ROOT_FILE, broker_version },
	{ "devices", "devices", 0, broker_devices },
	{ "allocations", "live allocations", 0, broker_allocations },
	{ "bytes", "bytes they asked for", 0, broker_bytes },
	{ "peak_bytes", "the most that ever was", 0, broker_peak_bytes },
	{ "device_bytes", "bytes of kind device", 0, broker_device_bytes },
	{ "direct_bytes", "bytes of kind direct", 0, broker_direct_bytes },
	{ "async_bytes", "bytes of kind async", 0, broker_async_bytes },
	{ "managed_bytes", "bytes of kind managed", 0, broker_managed_bytes },
	{ "managed_preferred_cpu_bytes", "managed bytes preferred on the host", 0,
	  broker_preferred_cpu },
	{ "managed_preferred_device_bytes", "managed bytes preferred on some device", 0,
	  broker_preferred_device },
	{ "managed_prefetched_cpu_bytes", "managed bytes last prefetched to the host", 0,
	  broker_prefetched_cpu },
	{ "managed_prefetched_device_bytes",
	  "managed bytes last prefetched to some device", 0, broker_prefetched_device },
	{ "host_bytes", "bytes of kind host", 0, broker_host_bytes },
	{ "modules", "modules made by users", 0, broker_modules },
	{ "streams", "streams made by users", 0, broker_streams },
	{ "owners", "users who ever asked for something", 0, broker_owners },
	{ "failures", "failures ever, of all users", 0, broker_failures },
	{ "restarts", "workers that died, ever", 0, broker_restarts },
	{ "mover", "process that moves the data, 0 for none", 0, broker_mover },
	{ "leases", "open leases of all users", 0, broker_leases },
	{ "leased_bytes", "bytes of allocations that have leases", 0,
	  broker_leased_bytes },
	{ "freed_leased_bytes", "of them, bytes of allocations that are freed", 0,
	  broker_freed_leased_bytes },
	{ "leases",
	  "all leases, a line each: OBJECT PID UID r|w SINCE hold=none|r|w COMM; "
	  "#ID: freed",
	  ATTRIBUTE_ROOT_FILE | ATTRIBUTE_TEXT, broker_all_leases },
};

/* ---- allocations ---- */

static void allocation_id(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->id);
}

static void allocation_kind(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", kind_name((enum allocation_kind)view->allocation->kind));
}

static void allocation_device(const struct attribute_view *view, struct text *text)
{
	if (view->allocation->kind == KIND_HOST)
		text_printf(text, "none");
	else
		show_number(text, view->allocation->device);
}

static void allocation_size(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->size);
}

static void allocation_address(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "0x%llx", (unsigned long long)view->allocation->address);
}

static void allocation_generation(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->pointer_generation);
}

static void allocation_state(const struct attribute_view *view, struct text *text)
{
	const struct allocation *allocation = view->allocation;

	if (allocation->state == ALLOCATION_LOST)
		text_printf(text, "lost");
	else
		text_printf(text, "%s",
			    allocation->n_works > allocation->n_unasked ? "busy"
									: "live");
}

static void allocation_stream(const struct attribute_view *view, struct text *text)
{
	const struct stream *stream = view->allocation->stream;

	text_printf(text, "%s", stream ? stream->name : "none");
}

static void allocation_attach(const struct attribute_view *view, struct text *text)
{
	text_attach(text, view->allocation);
}

static void allocation_last_write(const struct attribute_view *view, struct text *text)
{
	if (view->allocation->n_write_leases)
		text_printf(text, "leased");
	else if (view->allocation->written_s)
		text_time(text, view->allocation->written_s);
	else
		text_printf(text, "never");
}

/* Shows the oldest kernel in the order: later kernels wait for it. */
static void allocation_used_by(const struct attribute_view *view, struct text *text)
{
	const struct use *use;

	DL_FOREACH2(view->allocation->all_uses, use, next_of_all)
	{
		const struct op *op = container_of(use->work, struct op, work);

		if (!op->class->kernel)
			continue;
		text_printf(text, "%u %s", op->owner->uid, op->class->kernel->name(op));
		return;
	}
	text_printf(text, "none");
}

static void allocation_tag(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->allocation->tag ? view->allocation->tag : "none");
}

static void allocation_owner(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->owner->uid);
}

static void allocation_created(const struct attribute_view *view, struct text *text)
{
	text_time(text, view->allocation->created_s);
}

static void allocation_map(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->allocation->map_readers ? "readers" : "writers");
}

static void allocation_n_leases(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->allocation->n_leases);
}

static void allocation_n_write_leases(const struct attribute_view *view,
				      struct text *text)
{
	show_number(text, view->allocation->n_write_leases);
}

static void allocation_leases(const struct attribute_view *view, struct text *text)
{
	leases_show(view->broker, view->allocation, text);
}

static const struct attribute allocation_attributes[] = {
	{ "id", "number of this allocation, never used again", 0, allocation_id },
	{ "kind", "device, direct, async, managed or host", 0, allocation_kind },
	{ "device", "number of its device, `none` for host memory", 0,
	  allocation_device },
	{ "size", "bytes", 0, allocation_size },
	{ "address", "where workers have it", 0, allocation_address },
	{ "generation", "up when a pointer taken before is no longer good", 0,
	  allocation_generation },
	{ "state", "live, busy (work under way) or lost", 0, allocation_state },
	{ "used_by", "what it waits for: owner and kernel, `none`", 0,
	  allocation_used_by },
	{ "stream", "that it was made on (kind=async) or is attached to, `none`", 0,
	  allocation_stream },
	{ "attach", "global, host or single STREAM",
	  ATTRIBUTE_MANAGED | ATTRIBUTE_NO_FILE, allocation_attach },
	{ "last_prefetch", "where to, `none` or `mixed`; asked of the driver",
	  ATTRIBUTE_MANAGED | ATTRIBUTE_ASKED, .ask = ask_last_prefetch },
	{ "last_write", "UTC, `never`, or `leased`: somebody may be writing now", 0,
	  allocation_last_write },
	{ "tag", "as given, `none`", 0, allocation_tag },
	{ "owner", "uid", 0, allocation_owner },
	{ "created", "UTC", 0, allocation_created },
	{ "map", "whose leases may have device memory: writers or readers",
	  ATTRIBUTE_WRITABLE, allocation_map },
	{ "leases", "programs that may have it mapped", ATTRIBUTE_NO_FILE,
	  allocation_n_leases },
	{ "write_leases", "of them, those that may write it", ATTRIBUTE_NO_FILE,
	  allocation_n_write_leases },
	{ "leases", "a line each: PID UID r|w SINCE hold=none|r|w COMM", ATTRIBUTE_TEXT,
	  allocation_leases },
};

/* ---- streams ---- */

static void stream_device(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->stream->device);
}

static void stream_priority(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%d", view->stream->priority);
}

static void stream_state(const struct attribute_view *view, struct text *text)
{
	const struct stream *stream = view->stream;

	if (stream->failed)
		text_printf(text, "failed %s", strerrorname_np(stream->failed));
	else
		text_printf(text, "%s", stream->n_works ? "busy" : "idle");
}

static void stream_owner(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->stream->owner->uid);
}

static const struct attribute stream_attributes[] = {
	{ "device", "number; may be written before the first use", ATTRIBUTE_WRITABLE,
	  stream_device },
	{ "priority", "lower is more urgent; may be written before the first use",
	  ATTRIBUTE_WRITABLE, stream_priority },
	{ "state", "idle, busy or failed ERRNO", 0, stream_state },
	{ "owner", "uid", 0, stream_owner },
};

/* ---- devices ---- */

static void device_name(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->device->name);
}

static void device_uuid(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->device->uuid);
}

static void device_pci_bus_id(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->device->pci_bus_id);
}

static void device_capability(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%d.%d", view->device->major, view->device->minor);
}

static void device_driver(const struct attribute_view *view, struct text *text)
{
	int version = view->broker->driver->version;

	text_printf(text, "%d.%d", version / 1000, version % 1000 / 10);
}

static void device_memory_total(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->device->memory_total);
}

static void device_memory_ours(const struct attribute_view *view, struct text *text)
{
	show_number(text,
		    memory_device_bytes(&view->broker->memory, view->device->index));
}

static void device_allocations(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.n_allocations_on[view->device->index]);
}

static void device_managed(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.managed_on[view->device->index]);
}

static void device_preferred(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.managed.preferred[view->device->index]);
}

static void device_prefetched(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.managed.prefetched[view->device->index]);
}

static void device_state(const struct attribute_view *view, struct text *text)
{
	const struct device *device = view->device;
	const char *joint = "limited: no ";

	if (!device->has_vmm) {
		text_printf(text, "%svirtual memory management", joint);
		joint = ", no ";
	}
	if (!device->has_managed)
		text_printf(text, "%smanaged memory", joint);
	else if (!device->has_concurrent)
		text_printf(text, "%sconcurrent managed access", joint);
	else if (device->has_vmm)
		text_printf(text, "ok");
}

static void device_leased_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->broker->registry.leased_on[view->device->index].bytes);
}

static void device_freed_leased_bytes(const struct attribute_view *view,
				      struct text *text)
{
	const struct registry *registry = &view->broker->registry;

	show_number(text, registry->leased_on[view->device->index].freed_bytes);
}

static const struct attribute device_attributes[] = {
	{ "name", "as the driver calls it", 0, device_name },
	{ "uuid", "GPU-...", 0, device_uuid },
	{ "pci_bus_id", "DOMAIN:BUS:DEVICE.FUNCTION", 0, device_pci_bus_id },
	{ "compute_capability", "MAJOR.MINOR", 0, device_capability },
	{ "driver", "CUDA version of the driver", 0, device_driver },
	{ "memory_total", "bytes", 0, device_memory_total },
	{ "memory_used", "bytes, by all programs; asked of the driver", ATTRIBUTE_ASKED,
	  .ask = ask_memory_used },
	{ "memory_ours", "bytes that the broker holds, with what rounding costs", 0,
	  device_memory_ours },
	{ "managed_bytes", "bytes of managed memory that was made on it", 0,
	  device_managed },
	{ "managed_preferred_bytes", "managed bytes that are preferred on it", 0,
	  device_preferred },
	{ "managed_prefetched_bytes", "managed bytes last prefetched to it", 0,
	  device_prefetched },
	{ "allocations", "live allocations on it", 0, device_allocations },
	{ "leased_bytes", "bytes of allocations on it that have leases", 0,
	  device_leased_bytes },
	{ "freed_leased_bytes", "of them, bytes of allocations that are freed", 0,
	  device_freed_leased_bytes },
	{ "state", "ok, or what it lacks", 0, device_state },
};

/* ---- owners ---- */

static void owner_name(const struct attribute_view *view, struct text *text)
{
	user_names_show(view->broker->registry.user_names, view->owner->uid, text);
}

static pid_t owner_worker_pid(const struct owner *owner)
{
	return owner->worker ? worker_pid(owner->worker) : 0;
}

static void owner_state(const struct attribute_view *view, struct text *text)
{
	struct worker *worker = view->owner->worker;
	char reason[sizeof(worker->end_reason)];

	if (worker && worker_has_failed(worker)) {
		worker_end_reason(worker, reason, sizeof(reason));
		text_printf(text, "failed: its worker %s", reason);
		return;
	}
	text_printf(text, "%s", owner_worker_pid(view->owner) ? "running" : "idle");
}

static void owner_worker(const struct attribute_view *view, struct text *text)
{
	show_number(text, (uint64_t)owner_worker_pid(view->owner));
}

static void owner_restarts(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->owner->restarts);
}

static void owner_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->owner->bytes);
}

static void owner_peak_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->owner->peak_bytes);
}

static void owner_allocations(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->owner->n_allocations);
}

static void owner_leases(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->owner->n_leases);
}

static void owner_leased_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->owner->leased.bytes);
}

static void owner_freed_leased_bytes(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->owner->leased.freed_bytes);
}

static void owner_drain(struct broker *broker, struct token token)
{
	const struct owner *owner;
	struct output *output;

	pthread_mutex_lock(&broker->registry.lock);
	owner = slots_get(&broker->registry.owners, token.slot, token.generation);
	output = owner ? owner->output : NULL; /* stays until the broker's end */
	pthread_mutex_unlock(&broker->registry.lock);
	if (output)
		output_drain(output);
}

static void owner_output(const struct attribute_view *view, struct text *text)
{
	if (view->owner->output)
		output_show(view->owner->output, text);
}

static const struct attribute owner_attributes[] = {
	{ "name", "user name; the number until it is known", 0, owner_name },
	{ "state", "idle, or running: he has a worker; or failed, and why", 0,
	  owner_state },
	{ "worker", "process that holds his other memory than device and host, 0: none",
	  0, owner_worker },
	{ "restarts", "his workers that died, ever", 0, owner_restarts },
	{ "bytes", "bytes he holds", 0, owner_bytes },
	{ "peak_bytes", "the most he ever held", 0, owner_peak_bytes },
	{ "allocations", "his live allocations", 0, owner_allocations },
	{ "leases", "leases that the owner's programs have, of anybody's memory", 0,
	  owner_leases },
	{ "leased_bytes", "bytes of the owner's allocations that have leases", 0,
	  owner_leased_bytes },
	{ "freed_leased_bytes", "of them, bytes of allocations that are freed", 0,
	  owner_freed_leased_bytes },
	{ "output", "what his kernels printed, the last 64 KiB",
	  ATTRIBUTE_PRIVATE | ATTRIBUTE_TEXT, owner_output, .prepare = owner_drain },
};

/* ---- modules ---- */

static void module_device(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->module->device);
}

/* Shows the state of the image: after a failed load the previous image stays. */
static void module_state(const struct attribute_view *view, struct text *text)
{
	const struct module *module = view->module;

	if (module->image)
		text_printf(text, "loaded");
	else if (module->n_loads)
		text_printf(text, "loading");
	else if (module->failed)
		text_printf(text, "failed %s", strerrorname_np(module->failed));
	else
		text_printf(text, "none");
}

static void module_launches(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->module->n_launches);
}

static void module_owner(const struct attribute_view *view, struct text *text)
{
	show_number(text, view->module->owner->uid);
}

static void module_created(const struct attribute_view *view, struct text *text)
{
	text_time(text, view->module->created_s);
}

static const struct attribute module_attributes[] = {
	{ "device", "number; may be written before the image", ATTRIBUTE_WRITABLE,
	  module_device },
	{ "state", "none, loading, loaded or failed ERRNO", 0, module_state },
	{ "log", "what the compiler said about the last image", ATTRIBUTE_ASKED,
	  .ask = module_ask_log },
	{ "launches", "of its functions, under way", 0, module_launches },
	{ "owner", "uid", 0, module_owner },
	{ "created", "UTC", 0, module_created },
};

/* ---- functions ---- */

static void function_name(const struct attribute_view *view, struct text *text)
{
	text_printf(text, "%s", view->function->name);
}

static const struct attribute function_attributes[] = {
	{ "name", "as in the module, whole", 0, function_name },
	{ "params", "a line a parameter: INDEX OFFSET SIZE", ATTRIBUTE_ASKED,
	  .ask = function_ask_params },
	{ "attributes", "what the driver says of it, flat keyed", ATTRIBUTE_ASKED,
	  .ask = function_ask_attributes },
};

/* ---- all of them ---- */

static const struct {
	const struct attribute *rows;
	size_t n;
} tables[N_OBJECT_TYPES] = {
	[OBJECT_BROKER] = { broker_attributes, ARRAY_SIZE(broker_attributes) },
	[OBJECT_ALLOCATION] = { allocation_attributes,
				ARRAY_SIZE(allocation_attributes) },
	[OBJECT_STREAM] = { stream_attributes, ARRAY_SIZE(stream_attributes) },
	[OBJECT_DEVICE] = { device_attributes, ARRAY_SIZE(device_attributes) },
	[OBJECT_OWNER] = { owner_attributes, ARRAY_SIZE(owner_attributes) },
	[OBJECT_MODULE] = { module_attributes, ARRAY_SIZE(module_attributes) },
	[OBJECT_FUNCTION] = { function_attributes, ARRAY_SIZE(function_attributes) },
};

const struct attribute *attribute_table(enum object_type type, size_t *ret_n)
{
	*ret_n = tables[type].n;
	return tables[type].rows;
}

/* Finds the object. Under registry.lock. */
static bool view_init(struct attribute_view *view, struct broker *broker,
		      enum object_type type, struct token token)
{
	const struct slots *slots[N_OBJECT_TYPES] = {
		[OBJECT_STREAM] = &broker->registry.streams,
		[OBJECT_DEVICE] = &broker->registry.devices,
		[OBJECT_OWNER] = &broker->registry.owners,
		[OBJECT_MODULE] = &broker->registry.modules,
	};

	*view = (struct attribute_view){ .broker = broker };
	if (type == OBJECT_BROKER)
		return true;
	if (type == OBJECT_ALLOCATION)
		view->allocation =
			allocation_get(&broker->registry, token.slot, token.generation);
	else if (type == OBJECT_FUNCTION)
		view->function =
			function_get(&broker->registry, token.slot, token.generation);
	else
		view->allocation = slots_get(slots[type], token.slot, token.generation);
	return view->allocation;
}

static void show_all(const struct attribute_view *view, enum object_type type,
		     struct text *text)
{
	for (size_t i = 0; i < tables[type].n; i++) {
		const struct attribute *row = &tables[type].rows[i];

		if (row->flags & (ATTRIBUTE_ASKED | ATTRIBUTE_TEXT))
			continue;
		if ((row->flags & ATTRIBUTE_MANAGED) && !view->allocation->managed)
			continue;
		text_printf(text, "%s ", row->name);
		row->show(view, text);
		text_add(text, "\n", 1);
	}
}

int broker_show(struct broker *broker, enum object_type type, struct token token,
		const struct attribute *attribute, struct text *text)
{
	struct attribute_view view;
	int r = -ESTALE;

	if (attribute && attribute->prepare)
		attribute->prepare(broker, token);
	pthread_mutex_lock(&broker->registry.lock);
	if (view_init(&view, broker, type, token)) {
		r = 0;
		if (attribute) {
			attribute->show(&view, text);
			if (!(attribute->flags & ATTRIBUTE_TEXT))
				text_add(text, "\n", 1);
		} else {
			show_all(&view, type, text);
		}
	}
	pthread_mutex_unlock(&broker->registry.lock);
	return r == 0 && text_failed(text) ? -ENOMEM : r;
}
