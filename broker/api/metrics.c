/* SPDX-License-Identifier: MIT */
#include "api/metrics.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/line_times.h"
#include "api/verb_table.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/user_names.h"
#include "cuda/driver.h"
#include "memory/block.h"
#include "model/journal.h"
#include "model/meter.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"
#include "process/processes.h"

/* ---- the figures, copied ---- */

/* What one user holds and has done; the last: all users without a meter of their own. */
struct user_reading {
	char label[160]; /* `user="alice",uid="1001"` */
	uint64_t n_leases, leased_bytes;
	bool shares_meter;
	struct limit_reading {
		uint64_t limit, held, n_refused;
	} limits[N_LIMITS];
	struct meter meter; /* with as many devices as there are */
};

struct reading {
	const struct broker *broker;
	unsigned int n_devices;
	uint64_t held[DEVICES_MAX]; /* by the broker */
	uint64_t n_owners, n_failures, mover_restarts;
	struct user_reading *users;
	size_t n_users;
};

/*
 * Appends the value of a label. Bytes other than printable ASCII become \xHH, as in
 * `errors`: a reader refuses all of a file that is not UTF-8.
 */
static void text_add_label(struct text *text, const char *value)
{
	_cleanup_text_ struct text printable = TEXT_INIT;

	text_add_printable(&printable, value);
	for (const char *at = text_string(&printable); *at; at++)
		text_printf(text, *at == '\\' || *at == '"' ? "\\%c" : "%c", *at);
}

static void read_label(const struct broker *broker, const struct owner *owner,
		       char *label, size_t size)
{
	_cleanup_text_ struct text name = TEXT_INIT, escaped = TEXT_INIT;

	user_names_show(broker->registry->user_names, owner->uid, &name);
	text_add_label(&escaped, text_string(&name));
	/* A name too long for the label would lose its end, and so its quotes. */
	if (text_failed(&escaped) || escaped.length > size - 40)
		snprintf(label, size, "user=\"%u\",uid=\"%u\"", owner->uid, owner->uid);
	else
		snprintf(label, size, "user=\"%s\",uid=\"%u\"", text_string(&escaped),
			 owner->uid);
}

static void read_limits(const struct owner *owner, struct limit_reading limits[N_LIMITS])
{
	for (unsigned int i = 0; i < N_LIMITS; i++)
		limits[i] = (struct limit_reading){
			.limit = share_limit(owner, i),
			.held = owner->shares.held[i],
			.n_refused = owner->shares.n_refused[i],
		};
}

static void copy_meter(struct meter *to, const struct meter *from, unsigned int n_devices)
{
	memcpy(to, from, offsetof(struct meter, devices[n_devices]));
}

/* Copies what the owners have; there is room for all with a meter of their own. */
static void read_owners(struct reading *reading)
{
	const struct broker *broker = reading->broker;
	const struct registry *registry = broker->registry;
	struct user_reading *others = &reading->users[registry->n_meters], *user;
	struct owner *owner, *safe;

	HASH_ITER (hh, registry->owners_by_uid, owner, safe) {
		bool shared = meter_is_shared(registry, owner);

		user = shared ? others : &reading->users[reading->n_users++];
		user->n_leases += owner->shares.held[SHARE_LEASES];
		user->leased_bytes += owner->leased.bytes;
		if (shared)
			continue;
		read_label(broker, owner, user->label, sizeof(user->label));
		read_limits(owner, user->limits);
		copy_meter(&user->meter, owner->meter, reading->n_devices);
	}
	if (HASH_COUNT(registry->owners_by_uid) == registry->n_meters)
		return;
	snprintf(others->label, sizeof(others->label), "user=\"other\",uid=\"other\"");
	others->shares_meter = true;
	copy_meter(&others->meter, registry->shared_meter, reading->n_devices);
	reading->n_users++;
}

static void read_rest(struct reading *reading)
{
	const struct broker *broker = reading->broker;

	for (unsigned int i = 0; i < reading->n_devices; i++)
		reading->held[i] = memory_device_bytes(broker->memory, i);
	reading->n_owners = HASH_COUNT(broker->registry->owners_by_uid);
	reading->n_failures = journal_n_failures(broker->journal);
	reading->mover_restarts = broker->processes->mover_restarts;
}

/* Copies all figures. Takes registry.lock. Returns: 0; -ENOMEM. */
static int read_all(const struct broker *broker, struct reading *reading)
{
	struct registry *registry = broker->registry;
	size_t room;

	*reading = (struct reading){ .broker = broker };
	pthread_mutex_lock(&registry->lock);
	reading->n_devices = registry->n_devices;
	/* Memory is made without the lock, and there may be more owners afterwards. */
	do {
		room = registry->n_meters + 1;
		pthread_mutex_unlock(&registry->lock);
		free(reading->users);
		reading->users = calloc(room, sizeof(*reading->users));
		if (!reading->users)
			return -ENOMEM;
		pthread_mutex_lock(&registry->lock);
	} while (room < registry->n_meters + 1);
	read_owners(reading);
	read_rest(reading);
	pthread_mutex_unlock(&registry->lock);
	return 0;
}

/* ---- the table ---- */

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };

struct metric {
	enum metric_type type;
	const char *name; /* ends in the unit, where there is one */
	const char *unit; /* NULL: a plain number */
	const char *help;
	void (*print)(const struct metric *metric, const struct reading *reading,
		      struct text *text);
	size_t offset; /* of the figure: in what print looks at */
};

static const struct {
	const char *name;
	const char *suffix; /* of samples */
} types[] = {
	[METRIC_GAUGE] = { "gauge", "" },
	[METRIC_COUNTER] = { "counter", "_total" },
	[METRIC_HISTOGRAM] = { "histogram", "" },
};

/* The samples' name. */
static void print_name(const struct metric *metric, struct text *text)
{
	text_printf(text, "%s%s", metric->name, types[metric->type].suffix);
}

static void print_value(uint64_t value, struct text *text)
{
	text_printf(text, "%llu\n", (unsigned long long)value);
}

static uint64_t figure_at(const void *record, size_t offset)
{
	return *(const uint64_t *)((const char *)record + offset);
}

static void print_broker(const struct metric *metric, const struct reading *reading,
			 struct text *text)
{
	print_name(metric, text);
	text_add(text, " ", 1);
	print_value(figure_at(reading, metric->offset), text);
}

static void print_build(const struct metric *metric, const struct reading *reading,
			struct text *text)
{
	int version = reading->broker->driver->version;

	print_name(metric, text);
	text_printf(text, "{version=\"");
	text_add_label(text, reading->broker->version);
	text_printf(text, "\",driver_version=\"%d.%d\"} 1\n", version / 1000,
		    version % 1000 / 10);
}

/* ---- of devices ---- */

static void print_device_info(const struct metric *metric, const struct reading *reading,
			      struct text *text)
{
	for (unsigned int i = 0; i < reading->n_devices; i++) {
		const struct device *device = reading->broker->registry->device_at[i];

		print_name(metric, text);
		text_printf(text, "{device=\"%u\",name=\"", i);
		text_add_label(text, device->name);
		text_printf(text, "\",uuid=\"");
		text_add_label(text, device->uuid);
		text_printf(text, "\",pci_bus_id=\"");
		text_add_label(text, device->pci_bus_id);
		text_printf(text, "\"} 1\n");
	}
}

static void print_device(const struct metric *metric, unsigned int device, uint64_t value,
			 struct text *text)
{
	print_name(metric, text);
	text_printf(text, "{device=\"%u\"} ", device);
	print_value(value, text);
}

static void print_memory(const struct metric *metric, const struct reading *reading,
			 struct text *text)
{
	for (unsigned int i = 0; i < reading->n_devices; i++)
		print_device(metric, i,
			     reading->broker->registry->device_at[i]->memory_total, text);
}

static void print_reserved(const struct metric *metric, const struct reading *reading,
			   struct text *text)
{
	for (unsigned int i = 0; i < reading->n_devices; i++)
		print_device(metric, i, reading->held[i], text);
}

/* ---- of users ---- */

/* A figure of the user, at the offset in struct user_reading. */
static void print_user(const struct metric *metric, const struct reading *reading,
		       struct text *text)
{
	for (size_t i = 0; i < reading->n_users; i++) {
		print_name(metric, text);
		text_printf(text, "{%s} ", reading->users[i].label);
		print_value(figure_at(&reading->users[i], metric->offset), text);
	}
}

typedef void print_meter(const struct metric *metric, const struct user_reading *user,
			 unsigned int device, struct text *text);

/* Figures by user and device. */
static void print_meters(const struct metric *metric, const struct reading *reading,
			 print_meter *print, struct text *text)
{
	for (size_t i = 0; i < reading->n_users; i++)
		for (unsigned int device = 0; device < reading->n_devices; device++)
			print(metric, &reading->users[i], device, text);
}

/* Shown when zero, too: the first fault of a counter unseen before would be missed. */
static void meter_plain(const struct metric *metric, const struct user_reading *user,
			unsigned int device, struct text *text)
{
	uint64_t value = figure_at(&user->meter.devices[device], metric->offset);

	print_name(metric, text);
	text_printf(text, "{%s,device=\"%u\"} ", user->label, device);
	print_value(value, text);
}

static void print_by_device(const struct metric *metric, const struct reading *reading,
			    struct text *text)
{
	print_meters(metric, reading, meter_plain, text);
}

/* An array by kind: a sample for each figure that is not zero. cause NULL: no label. */
static void print_kinds(const struct metric *metric, const struct user_reading *user,
			unsigned int device, const uint64_t figures[N_KINDS],
			const char *cause, struct text *text)
{
	for (unsigned int kind = 0; kind < N_KINDS; kind++) {
		if (!figures[kind])
			continue;
		print_name(metric, text);
		text_printf(text, "{%s", user->label);
		if (kind == KIND_HOST)
			text_printf(text, ",device=\"none\"");
		else
			text_printf(text, ",device=\"%u\"", device);
		text_printf(text, ",kind=\"%s\"", kind_name((enum allocation_kind)kind));
		if (cause)
			text_printf(text, ",operation=\"%s\"", cause);
		text_printf(text, "} ");
		print_value(figures[kind], text);
	}
}

static void meter_kinds(const struct metric *metric, const struct user_reading *user,
			unsigned int device, struct text *text)
{
	const char *meter = (const char *)&user->meter.devices[device];

	print_kinds(metric, user, device, (const uint64_t *)(meter + metric->offset),
		    NULL, text);
}

static void print_by_kind(const struct metric *metric, const struct reading *reading,
			  struct text *text)
{
	print_meters(metric, reading, meter_kinds, text);
}

static const char *const cause_names[N_MOVE_CAUSES] = {
	[MOVED_READ] = "read", [MOVED_WRITE] = "write", [MOVED_FILL] = "fill",
	[MOVED_COPY] = "copy", [MOVED_LOAD] = "load",	[MOVED_SAVE] = "save",
};

static void meter_moved(const struct metric *metric, const struct user_reading *user,
			unsigned int device, struct text *text)
{
	for (unsigned int cause = MOVED_NOT + 1; cause < N_MOVE_CAUSES; cause++)
		print_kinds(metric, user, device,
			    user->meter.devices[device].moved[cause], cause_names[cause],
			    text);
}

static void print_moved(const struct metric *metric, const struct reading *reading,
			struct text *text)
{
	print_meters(metric, reading, meter_moved, text);
}

/*
 * Limits and what counts against them, of users with a meter of their own: bytes by
 * device, counts by the key of the limit. A figure of LIMIT_NONE is left out.
 */
static void print_limit(const struct metric *metric, const struct user_reading *user,
			enum share share, struct text *text)
{
	uint64_t figure = figure_at(&user->limits[share], metric->offset);
	char key[SHARE_KEY_SIZE];

	if (figure == LIMIT_NONE)
		return;
	print_name(metric, text);
	if (share == SHARE_HOST)
		text_printf(text, "{%s,device=\"none\"} ", user->label);
	else if (share_is_bytes(share))
		text_printf(text, "{%s,device=\"%u\"} ", user->label,
			    (unsigned int)(share - SHARE_DEVICE));
	else
		text_printf(text, "{%s,resource=\"%s\"} ", user->label,
			    share_key(share, key));
	print_value(figure, text);
}

static void print_limits(const struct metric *metric, const struct reading *reading,
			 bool bytes, struct text *text)
{
	for (size_t i = 0; i < reading->n_users; i++)
		for (unsigned int share = 0; share < N_LIMITS; share++)
			if (!reading->users[i].shares_meter &&
			    share_is_bytes(share) == bytes &&
			    (share >= SHARE_HOST || share < reading->n_devices))
				print_limit(metric, &reading->users[i], share, text);
}

static void print_byte_limits(const struct metric *metric, const struct reading *reading,
			      struct text *text)
{
	print_limits(metric, reading, true, text);
}

static void print_count_limits(const struct metric *metric, const struct reading *reading,
			       struct text *text)
{
	print_limits(metric, reading, false, text);
}

static void print_refusals(const struct metric *metric, const struct reading *reading,
			   struct text *text)
{
	char key[SHARE_KEY_SIZE];

	for (size_t i = 0; i < reading->n_users; i++) {
		const struct user_reading *user = &reading->users[i];

		for (unsigned int share = 0; share < N_LIMITS && !user->shares_meter;
		     share++) {
			if (share < SHARE_HOST && share >= reading->n_devices)
				continue;
			print_name(metric, text);
			text_printf(text, "{%s,resource=\"%s\"} ", user->label,
				    share_key(share, key));
			print_value(user->limits[share].n_refused, text);
		}
	}
}

/* ---- of lines ---- */

static void print_seconds(uint64_t ns, struct text *text)
{
	text_printf(text, "%llu.%09llu", (unsigned long long)(ns / 1000000000),
		    (unsigned long long)(ns % 1000000000));
}

static void print_histogram(const struct metric *metric, const char *verb,
			    const struct histogram *histogram, struct text *text)
{
	unsigned long long n = 0;

	for (unsigned int i = 0; i <= HISTOGRAM_BOUNDS; i++) {
		n += histogram->n[i];
		text_printf(text, "%s_bucket{verb=\"%s\",le=\"", metric->name, verb);
		if (i < HISTOGRAM_BOUNDS)
			text_printf(text, "%.6f", (double)histogram_bound_ns(i) / 1e9);
		else
			text_printf(text, "+Inf");
		text_printf(text, "\"} %llu\n", n);
	}
	text_printf(text, "%s_count{verb=\"%s\"} %llu\n", metric->name, verb, n);
	text_printf(text, "%s_sum{verb=\"%s\"} ", metric->name, verb);
	print_seconds(histogram->sum_ns, text);
	text_add(text, "\n", 1);
}

static void print_lines(const struct metric *metric, const struct reading *reading,
			struct text *text)
{
	const struct line_times *times = reading->broker->line_times;
	struct histogram histogram;
	const struct verb *verbs;
	size_t n;

	verbs = verb_table(&n);
	assert(n <= VERBS_MAX);
	for (size_t i = 0; i < n; i++) {
		histogram_read(times->verbs[i], &histogram);
		print_histogram(metric, verbs[i].name, &histogram, text);
	}
}

/* ---- all of them ---- */

#define OF_BROKER(member)    print_broker, offsetof(struct reading, member)
#define OF_USER(member)	     print_user, offsetof(struct user_reading, member)
#define OF_DEVICE(member)    print_by_device, offsetof(struct device_meter, member)
#define BY_KIND(member)	     print_by_kind, offsetof(struct device_meter, member)
#define BYTE_LIMITS(member)  print_byte_limits, offsetof(struct limit_reading, member)
#define COUNT_LIMITS(member) print_count_limits, offsetof(struct limit_reading, member)

/* clang-format off */
static const struct metric metrics_table[] = {
	{ METRIC_GAUGE, "gpumem_build_info", NULL,
	  "Versions of gpumem and of CUDA; always 1.", print_build },
	{ METRIC_GAUGE, "gpumem_device_info", NULL,
	  "A GPU, numbered as nvidia-smi does; always 1.", print_device_info },
	{ METRIC_GAUGE, "gpumem_device_memory_bytes", "bytes",
	  "All of the GPU's memory.", print_memory },
	{ METRIC_GAUGE, "gpumem_device_held_bytes", "bytes",
	  "Memory of the GPU that the broker holds, with what rounding costs.",
	  print_reserved },
	{ METRIC_GAUGE, "gpumem_owners", NULL,
	  "Users who hold something, or asked for something lately.",
	  OF_BROKER(n_owners) },
	{ METRIC_GAUGE, "gpumem_held_bytes", "bytes",
	  "Bytes of allocations, as asked for; with freed ones until their last use.",
	  BY_KIND(bytes) },
	{ METRIC_GAUGE, "gpumem_allocations", NULL, "Live allocations.",
	  BY_KIND(allocations) },
	{ METRIC_GAUGE, "gpumem_leases", NULL,
	  "Open leases of the user's programs, of anybody's memory.",
	  OF_USER(n_leases) },
	{ METRIC_GAUGE, "gpumem_leased_bytes", "bytes",
	  "Bytes of the user's allocations that have leases.", OF_USER(leased_bytes) },
	{ METRIC_GAUGE, "gpumem_limit_bytes", "bytes",
	  "Limits of memory that are in force for the user.", BYTE_LIMITS(limit) },
	{ METRIC_GAUGE, "gpumem_charged_bytes", "bytes",
	  "Memory that counts against the user's limits, with what rounding costs.",
	  BYTE_LIMITS(held) },
	{ METRIC_GAUGE, "gpumem_limit", NULL,
	  "Limits of other resources that are in force for the user.",
	  COUNT_LIMITS(limit) },
	{ METRIC_GAUGE, "gpumem_charged", NULL,
	  "What counts against the user's limits of other resources.",
	  COUNT_LIMITS(held) },
	{ METRIC_COUNTER, "gpumem_limit_refusals", NULL,
	  "Requests that a limit refused.", print_refusals },
	{ METRIC_COUNTER, "gpumem_moved_bytes", "bytes",
	  "Bytes read (with what is read ahead), written, filled, copied, loaded and "
	  "saved, by the user who asked; device and kind are of the memory, or of a "
	  "copy's target.", print_moved },
	{ METRIC_COUNTER, "gpumem_launches", NULL, "Kernels that have ended.",
	  OF_DEVICE(launches) },
	{ METRIC_COUNTER, "gpumem_faults", NULL,
	  "Faults that cost the user's worker its contexts.", OF_DEVICE(faults) },
	{ METRIC_COUNTER, "gpumem_worker_restarts", NULL,
	  "Workers of the user that died or were ended.", OF_USER(meter.restarts) },
	{ METRIC_COUNTER, "gpumem_mover_restarts", NULL,
	  "Movers that died.", OF_BROKER(mover_restarts) },
	{ METRIC_COUNTER, "gpumem_failures", NULL,
	  "Lines of errors, of all users.", OF_BROKER(n_failures) },
	{ METRIC_HISTOGRAM, "gpumem_control_line_seconds", "seconds",
	  "Time from a line of a control file to its answer.", print_lines },
};
/* clang-format on */

static void print_metric(const struct metric *metric, const struct reading *reading,
			 struct text *text)
{
	text_printf(text, "# TYPE %s %s\n", metric->name, types[metric->type].name);
	if (metric->unit)
		text_printf(text, "# UNIT %s %s\n", metric->name, metric->unit);
	text_printf(text, "# HELP %s %s\n", metric->name, metric->help);
	metric->print(metric, reading, text);
}

int metrics_print(struct broker *broker, struct token none, struct text *text)
{
	struct reading reading;
	int r = read_all(broker, &reading);

	(void)none;
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(metrics_table); i++)
		print_metric(&metrics_table[i], &reading, text);
	text_printf(text, "# EOF\n");
	free(reading.users);
	return text_failed(text) ? -ENOMEM : 0;
}
