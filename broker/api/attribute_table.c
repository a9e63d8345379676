/* SPDX-License-Identifier: MIT */
/*
 * The attributes of each type of object, in the order of `status`.
 *
 * An attribute is a single value of a single word. Exceptions are names given by a driver
 * (`name` of a device), and files of text: logs, lists, reasons. The name of a number of
 * bytes ends in `bytes`.
 */
#include "api/attribute_show.h"
#include "api/limits.h"
#include "api/memory_used.h"
#include "api/metrics.h"
#include "api/sealed_store.h"
#include "kernels/module_use.h"
#include "memops/lease.h"
#include "memops/placement_report.h"
#include "model/allocation.h"
#include "model/managed_ranges.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"

/* A row whose value is a member of the struct, printed by the member's type. */
/* clang-format off */
#define FIELD_AS(field_type, name, member) \
	.type = field_type, .offset = offsetof(struct name, member)
#define FIELD(name, member)                               \
	FIELD_AS(_Generic(((struct name *)0)->member,     \
			  uint32_t: FIELD_U32,            \
			  uint64_t: FIELD_U64,            \
			  int32_t: FIELD_I32,             \
			  int64_t: FIELD_TIME,            \
			  char *: FIELD_STRING,           \
			  struct owner *: FIELD_OWNER,    \
			  struct stream *: FIELD_STREAM), \
		 name, member)
/* clang-format on */

/* A member of each element of an array in the registry, by the number of a device. */
#define BY_DEVICE(array, member)          \
	FIELD(registry, array[0] member), \
		.stride = sizeof(((struct registry *)0)->array[0])

/* ---- the broker ---- */

static const struct attribute broker_attributes[] = {
	{ "version", "of gpumem", ATTRIBUTE_ROOT_FILE, show_broker_version },
	{ "driver_version", "of CUDA, as the driver says", ATTRIBUTE_ROOT_FILE,
	  show_broker_driver_version },
	{ "driver_path", "the driver's library", ATTRIBUTE_ROOT_FILE,
	  show_broker_driver_path },
	{ "pid", "the broker's process; another with --keep, when one follows",
	  ATTRIBUTE_ROOT_FILE, show_broker_pid },
	{ "devices", "devices", 0, FIELD(registry, n_devices) },
	{ "allocations", "live allocations", 0, FIELD(registry, n_allocations) },
	{ "waiting", "allocations that wait for memory (`wait=`)", 0,
	  show_broker_waiting },
	{ "bytes", "bytes they asked for", 0, FIELD(registry, bytes) },
	{ "peak_bytes", "the most that ever was", 0, FIELD(registry, peak_bytes) },
	{ "device_bytes", "bytes of kind device", 0,
	  FIELD(registry, bytes_by_kind[KIND_DEVICE]) },
	{ "direct_bytes", "bytes of kind direct", 0,
	  FIELD(registry, bytes_by_kind[KIND_DIRECT]) },
	{ "async_bytes", "bytes of kind async", 0,
	  FIELD(registry, bytes_by_kind[KIND_ASYNC]) },
	{ "managed_bytes", "bytes of kind managed", 0,
	  FIELD(registry, bytes_by_kind[KIND_MANAGED]) },
	{ "managed_preferred_cpu_bytes", "managed bytes preferred on the host", 0,
	  FIELD(registry, managed.preferred[MANAGED_PLACE_HOST]) },
	{ "managed_preferred_device_bytes", "managed bytes preferred on some device", 0,
	  show_broker_preferred_device },
	{ "managed_prefetched_cpu_bytes", "managed bytes last prefetched to the host", 0,
	  FIELD(registry, managed.prefetched[MANAGED_PLACE_HOST]) },
	{ "managed_prefetched_device_bytes",
	  "managed bytes last prefetched to some device", 0,
	  show_broker_prefetched_device },
	{ "host_bytes", "bytes of kind host", 0,
	  FIELD(registry, bytes_by_kind[KIND_HOST]) },
	{ "modules", "modules made by users", 0, FIELD(registry, n_modules) },
	{ "streams", "streams made by users", 0, FIELD(registry, n_streams) },
	{ "owners", "users who ever asked for something", 0,
	  FIELD(registry, owners.n_used) },
	{ "failures", "failures ever, of all users", 0, show_broker_failures },
	{ "restarts", "workers that died, ever", 0, show_broker_restarts },
	{ "mover", "process that moves the data, 0 for none", 0, show_broker_mover },
	{ "leases", "open leases of all users", 0, show_broker_leases },
	{ "leased_bytes", "bytes of allocations that have leases", 0,
	  FIELD(registry, leased.bytes) },
	{ "freed_leased_bytes", "of them, bytes of allocations that are freed", 0,
	  FIELD(registry, leased.freed_bytes) },
	{ "leases",
	  "all leases, a line each: OBJECT PID UID r|w SINCE hold=none|r|w COMM; "
	  "#ID: freed",
	  ATTRIBUTE_ROOT_FILE | ATTRIBUTE_ASKED, .print = leases_show_all },
	{ "metrics", "all figures, for Prometheus and its like (OpenMetrics text)",
	  ATTRIBUTE_ROOT_FILE | ATTRIBUTE_ASKED, .print = metrics_print },
	{ "max", "limits of owners without one of their own: KEY VALUE a line",
	  ATTRIBUTE_DEFAULT | ATTRIBUTE_TEXT | ATTRIBUTE_WRITABLE, limits_show_default,
	  .store = limits_store_default },
};

/* ---- allocations ---- */

static const struct attribute allocation_attributes[] = {
	{ "id", "number of this allocation, never used again", 0, FIELD(allocation, id) },
	{ "kind", "device, direct, async, managed or host", 0, show_allocation_kind },
	{ "device", "number of its device, `none` for host memory", 0,
	  show_allocation_device },
	{ "size_bytes", "as asked for", 0, FIELD(allocation, size) },
	{ "address", "where workers have it", 0,
	  FIELD_AS(FIELD_ADDRESS, allocation, address) },
	{ "guard", "1: nothing is mapped behind it; 2: nor before it; 0: either may be",
	  0, show_allocation_guard },
	{ "generation", "up when a pointer taken before is no longer good", 0,
	  FIELD(allocation, pointer_generation) },
	{ "state", "live, busy (work under way) or lost", 0, show_allocation_state },
	{ "used_by", "user whose kernel or other work comes first, `none`", 0,
	  show_allocation_used_by },
	{ "used_by_kernel", "the kernel if that is one, `none`", 0,
	  show_allocation_used_by_kernel },
	{ "stream", "that it was made on (kind=async) or is attached to, `none`", 0,
	  FIELD(allocation, stream) },
	{ "attach", "global, host or single (stream)",
	  ATTRIBUTE_MANAGED | ATTRIBUTE_NO_FILE, show_allocation_attach },
	{ "last_prefetch", "where to, `none` or `mixed`; asked of the driver",
	  ATTRIBUTE_MANAGED | ATTRIBUTE_ASKED, .request = ask_last_prefetch },
	{ "last_write", "UTC, `never`, or `leased`: somebody may be writing now", 0,
	  show_allocation_last_write },
	{ "last_use", "UTC: read, written, launched with or leased; `never`, `leased`", 0,
	  show_allocation_last_use },
	{ "tag", "a word of the owner's, `none`; may be written", ATTRIBUTE_WRITABLE,
	  FIELD(allocation, tag) },
	{ "owner", "uid; root may write another, to hand the memory on",
	  ATTRIBUTE_WRITABLE, FIELD(allocation, owner) },
	{ "created", "UTC", 0, FIELD(allocation, created_s) },
	{ "until", "what frees it: close, exit, cgroup or `none`", 0,
	  show_allocation_until },
	{ "cgroup", "of the process that asked for it; `none`: unknown", 0,
	  show_allocation_cgroup },
	{ "map", "whose leases may have device memory: writers or readers",
	  ATTRIBUTE_WRITABLE, show_allocation_map },
	{ "sealed", "0, or 1 once that is written: nobody can write it any more",
	  ATTRIBUTE_WRITABLE, show_allocation_sealed, .store = sealed_store },
	{ "leases", "programs that may have it mapped", ATTRIBUTE_NO_FILE,
	  show_allocation_leases },
	{ "write_leases", "of them, those that may write it", ATTRIBUTE_NO_FILE,
	  show_allocation_write_leases },
	{ "leases", "a line each: PID UID r|w SINCE hold=none|r|w COMM", ATTRIBUTE_ASKED,
	  .print = leases_show },
	{ "progress", "of a load or save that runs: BYTES of BYTES; else none",
	  ATTRIBUTE_TEXT, show_allocation_progress },
};

/* ---- streams ---- */

static const struct attribute stream_attributes[] = {
	{ "device", "number; may be written before the first use", ATTRIBUTE_WRITABLE,
	  FIELD(stream, device) },
	{ "priority", "lower is more urgent; may be written before the first use",
	  ATTRIBUTE_WRITABLE, FIELD(stream, priority) },
	{ "state", "idle, busy or failed", 0, show_stream_state },
	{ "error", "errno of the first failure since the last synchronize, `none`", 0,
	  FIELD_AS(FIELD_ERRNO, stream, failed) },
	{ "owner", "uid", 0, FIELD(stream, owner) },
};

/* ---- devices ---- */

static const struct attribute device_attributes[] = {
	{ "name", "as the driver calls it", 0, FIELD_AS(FIELD_CHARS, device, name) },
	{ "uuid", "GPU-...", 0, FIELD_AS(FIELD_CHARS, device, uuid) },
	{ "pci_bus_id", "DOMAIN:BUS:DEVICE.FUNCTION", 0,
	  FIELD_AS(FIELD_CHARS, device, pci_bus_id) },
	{ "compute_capability", "MAJOR.MINOR", 0, show_device_capability },
	{ "driver_version", "of CUDA, as the driver says", 0,
	  show_broker_driver_version },
	{ "memory_total_bytes", "all of the device's memory", 0,
	  FIELD(device, memory_total) },
	{ "memory_used_bytes", "used by all programs; asked of the driver",
	  ATTRIBUTE_ASKED, .request = ask_memory_used },
	{ "memory_held_bytes", "held by the broker, with what rounding costs", 0,
	  show_device_memory_held },
	{ "managed_bytes", "managed memory that was made on it", ATTRIBUTE_DEVICE,
	  BY_DEVICE(managed_on, ) },
	{ "managed_preferred_bytes", "managed bytes that are preferred on it",
	  ATTRIBUTE_DEVICE, FIELD(registry, managed.preferred[0]),
	  .stride = sizeof(uint64_t) },
	{ "managed_prefetched_bytes", "managed bytes last prefetched to it",
	  ATTRIBUTE_DEVICE, FIELD(registry, managed.prefetched[0]),
	  .stride = sizeof(uint64_t) },
	{ "allocations", "live allocations on it", ATTRIBUTE_DEVICE,
	  BY_DEVICE(n_allocations_on, ) },
	{ "leased_bytes", "bytes of allocations on it that have leases", ATTRIBUTE_DEVICE,
	  BY_DEVICE(leased_on, .bytes) },
	{ "freed_leased_bytes", "of them, bytes of allocations that are freed",
	  ATTRIBUTE_DEVICE, BY_DEVICE(leased_on, .freed_bytes) },
	{ "state", "ok, or limited: one of the next three is 0", 0, show_device_state },
	{ "virtual_memory_management", "1, or 0: it has no kind=device", 0,
	  show_device_vmm },
	{ "managed_memory", "1, or 0: it has no kind=managed", 0, show_device_managed },
	{ "concurrent_managed_access", "1, or 0: no prefetch, and attach=global alone", 0,
	  show_device_concurrent },
};

/* ---- owners ---- */

static const struct attribute owner_attributes[] = {
	{ "name", "user name; the number until it is known", 0, show_owner_name },
	{ "state", "idle, running (there is a worker) or failed", 0, show_owner_state },
	{ "failure", "why the state is failed; else empty", ATTRIBUTE_TEXT,
	  show_owner_failure },
	{ "worker",
	  "process that holds the owner's direct, async and managed memory; 0: none", 0,
	  show_owner_worker },
	{ "restarts", "the owner's workers that died, ever", 0, FIELD(owner, restarts) },
	{ "bytes", "of memory that the owner holds", 0, FIELD(owner, bytes) },
	{ "peak_bytes", "the most that it ever was", 0, FIELD(owner, peak_bytes) },
	{ "allocations", "live allocations", 0, FIELD(owner, n_allocations) },
	{ "leases", "leases that the owner's programs have, of anybody's memory", 0,
	  FIELD(owner, shares.held[SHARE_LEASES]) },
	{ "leased_bytes", "bytes of the owner's allocations that have leases", 0,
	  FIELD(owner, leased.bytes) },
	{ "freed_leased_bytes", "of them, bytes of allocations that are freed", 0,
	  FIELD(owner, leased.freed_bytes) },
	{ "max", "limits: KEY VALUE a line; root's to write, the owner may lower them",
	  ATTRIBUTE_TEXT | ATTRIBUTE_WRITABLE, limits_show_max, .store = limits_store },
	{ "current", "what counts against them", ATTRIBUTE_TEXT, limits_show_current },
	{ "peak", "the most that it ever was", ATTRIBUTE_TEXT, limits_show_peak },
	{ "max_events", "how often each was refused", ATTRIBUTE_TEXT,
	  limits_show_events },
	{ "output", "what the owner's kernels printed, the last 64 KiB",
	  ATTRIBUTE_PRIVATE | ATTRIBUTE_TEXT, show_owner_output,
	  .prepare = show_drain_output },
};

/* ---- modules ---- */

static const struct attribute module_attributes[] = {
	{ "device", "number; may be written before the image", ATTRIBUTE_WRITABLE,
	  FIELD(module, device) },
	{ "state", "none, loading, loaded or failed", 0, show_module_state },
	{ "error", "errno of the last load, `none`", 0,
	  FIELD_AS(FIELD_ERRNO, module, failed) },
	{ "log", "what the compiler said about the last image", ATTRIBUTE_ASKED,
	  .request = module_ask_log },
	{ "launches", "of its functions, under way", 0, FIELD(module, n_launches) },
	{ "owner", "uid", 0, FIELD(module, owner) },
	{ "created", "UTC", 0, FIELD(module, created_s) },
};

/* ---- functions ---- */

static const struct attribute function_attributes[] = {
	{ "name", "as in the module, whole", 0, FIELD(function, name) },
	{ "params", "a line a parameter: INDEX OFFSET SIZE", ATTRIBUTE_ASKED,
	  .check = function_check_params, .print = function_print_params },
	{ "attributes", "what the driver says of it, flat keyed", ATTRIBUTE_ASKED,
	  .request = function_ask_attributes },
};

/* ---- all of them ---- */

const struct attribute_table attribute_tables[N_OBJECT_TYPES] = {
	[OBJECT_BROKER] = ATTRIBUTE_TABLE(broker_attributes),
	[OBJECT_ALLOCATION] = ATTRIBUTE_TABLE(allocation_attributes),
	[OBJECT_STREAM] = ATTRIBUTE_TABLE(stream_attributes),
	[OBJECT_DEVICE] = ATTRIBUTE_TABLE(device_attributes),
	[OBJECT_OWNER] = ATTRIBUTE_TABLE(owner_attributes),
	[OBJECT_MODULE] = ATTRIBUTE_TABLE(module_attributes),
	[OBJECT_FUNCTION] = ATTRIBUTE_TABLE(function_attributes),
};
