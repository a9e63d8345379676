/* SPDX-License-Identifier: MIT */
/* Prints records for people: a line each, in the words of the mount. */
#include <string.h>

#include "base/text.h"
#include "record/layout.h"
#include "record/texts.h"

#define U(value) ((unsigned long long)(value))

static void print_broker(const void *record, struct text *text)
{
	const struct broker_record *broker = record;

	text_printf(text,
		    "next ids %llu, %llu, %llu, %llu, %llu (allocations, streams, "
		    "modules, folders, functions), peak %llu bytes, %u devices",
		    U(broker->next_id[0]), U(broker->next_id[1]), U(broker->next_id[2]),
		    U(broker->next_id[3]), U(broker->next_function_id),
		    U(broker->peak_bytes), broker->n_devices);
	if (broker->last_backing)
		text_printf(text, ", last file mapped by number %llu",
			    U(broker->last_backing));
	if (broker->n_again)
		text_printf(text, ", %llu request%s tried again", U(broker->n_again),
			    broker->n_again == 1 ? "" : "s");
}

static void print_owner(const void *record, struct text *text)
{
	const struct owner_record *owner = record;

	text_printf(text, "uid %u, gid %u, peak %llu bytes, %llu restarts", owner->uid,
		    owner->gid, U(owner->peak_bytes), U(owner->restarts));
	if (owner->n_barren)
		text_printf(text, ", %u workers died without a reply", owner->n_barren);
}

static void print_block(const void *record, struct text *text)
{
	const struct block_record *block = record;

	text_printf(text, "%llu bytes at 0x%llx", U(block->size), U(block->address));
	if (block->place == RECORD_DEVICES)
		text_printf(text, " of the host");
	else
		text_printf(text, " of device %u", block->place);
	if (block->cells)
		text_printf(text, ", a slab of uid %u", block->payer);
	if (block->freed)
		text_printf(text, ", freed by uid %u", block->payer);
	if (block->backing)
		text_printf(text, ", files are mapped by number %u", block->backing);
}

static void print_allocation(const void *record, struct text *text)
{
	const struct allocation_record *allocation = record;

	text_add_printable(text, allocation->name);
	text_printf(text, ": id %llu, %llu bytes at 0x%llx, block %u, uid %u, mode %04o",
		    U(allocation->id), U(allocation->size), U(allocation->address),
		    allocation->block, allocation->owner, allocation->mode);
	if (allocation->origin)
		text_printf(text, ", origin %u", allocation->origin);
	if (allocation->flags & RECORD_SEALED)
		text_printf(text, ", sealed");
	if (allocation->flags & RECORD_FREED)
		text_printf(text, ", freed");
	if (allocation->flags & RECORD_WITHDRAWING)
		text_printf(text, ", workers from which it was taken may still have it");
}

static void print_folder(const void *record, struct text *text)
{
	const struct folder_record *folder = record;

	text_add_printable(text, folder->name);
	text_printf(text, ": id %llu, in folder %u, uid %u, gid %u, mode %04o, of %s",
		    U(folder->id), folder->folder, folder->owner, folder->gid,
		    folder->mode, folder->of_modules ? "modules" : "allocations");
}

static void print_module(const void *record, struct text *text)
{
	const struct module_record *module = record;

	if (module->name[0])
		text_add_printable(text, module->name);
	else
		text_printf(text, "became folder");
	text_printf(text, ": id %llu, %s folder %u, uid %u, gid %u, mode %04o, image %u",
		    U(module->id), module->name[0] ? "in" : "that is", module->folder,
		    module->owner, module->gid, module->mode, module->image);
}

static void print_image(const void *record, struct text *text)
{
	const struct image_record *image = record;

	text_printf(text, "%llu bytes of module %u, for device %u", U(image->size),
		    image->module, image->device);
}

static void print_function(const void *record, struct text *text)
{
	const struct function_record *function = record;

	text_printf(text, "id %llu, number %u of image %u", U(function->id),
		    function->index, function->image);
}

static void print_lifetime(const void *record, struct text *text)
{
	const struct lifetime_record *lifetime = record;

	text_printf(text, "%s of uid %u", lifetime->kind == 1 ? "process" : "cgroup",
		    lifetime->uid);
}

static void print_stream(const void *record, struct text *text)
{
	const struct stream_record *stream = record;

	text_printf(text, "streams/%s of uid %u on device %u%s", stream->name,
		    stream->owner, stream->device, stream->failed ? ", failed" : "");
}

static void print_tensors(const void *record, struct text *text)
{
	const struct tensors_record *tensors = record;

	text_printf(text, "%llu bytes of uid %u", (unsigned long long)tensors->size,
		    tensors->payer);
}

static void print_output(const void *record, struct text *text)
{
	const struct output_record *output = record;

	text_printf(text, "uid %u, %llu bytes printed", output->owner,
		    U(output->n_written));
}

static void print_process(const void *record, struct text *text)
{
	const struct process_record *process = record;

	if (process->mover)
		text_printf(text, "mover");
	else
		text_printf(text, "worker of uid %u", process->owner);
	text_printf(text, ", pid %u, %s", process->pid, process->busy ? "busy" : "idle");
}

static void print_origin(const void *record, struct text *text)
{
	const struct origin_record *origin = record;

	text_printf(text, "uid %u", origin->owner);
}

/* Without its ticket. */
static void print_lease(const void *record, struct text *text)
{
	const struct lease_record *lease = record;

	text_printf(text, "id %llu of allocation record %u, uid %u, pid %d, access %s",
		    U(lease->id), lease->allocation, lease->uid, lease->pid,
		    lease->write ? "w" : "r");
}

static void print_event(const void *record, struct text *text)
{
	const struct event_record *event = record;
	char line[RECORD_EVENT_BYTES + 1] = "";

	/* Without the newline. */
	memcpy(line, event->line, event->length - 1);
	text_add_printable(text, line);
}

static void print_failure(const void *record, struct text *text)
{
	const struct failure_record *failure = record;

	text_printf(text, "number %llu, uid %u", U(failure->number), failure->uid);
}

static void print_meter(const void *record, struct text *text)
{
	const struct meter_record *meter = record;

	if (meter->uid == UINT32_MAX)
		text_printf(text, "of users without one");
	else
		text_printf(text, "uid %u", meter->uid);
}

static void print_times(const void *record, struct text *text)
{
	const struct times_record *times = record;

	text_printf(text, "of lines of %s", times->verb);
}

/*
 * Texts are shown with the records that name them, and records of events are made in
 * advance.
 */
static bool is_shown(enum record_type type, const void *record)
{
	const struct event_record *event = record;

	return type == RECORD_EVENT ? event->number > 0 : type != RECORD_TEXT;
}

void records_print(const struct records *records, struct text *text)
{
	static void (*const prints[N_RECORD_TYPES])(const void *, struct text *) = {
		[RECORD_BROKER] = print_broker,
		[RECORD_OWNER] = print_owner,
		[RECORD_BLOCK] = print_block,
		[RECORD_ALLOCATION] = print_allocation,
		[RECORD_LEASE] = print_lease,
		[RECORD_FOLDER] = print_folder,
		[RECORD_EVENT] = print_event,
		[RECORD_FAILURE] = print_failure,
		[RECORD_METER] = print_meter,
		[RECORD_MODULE] = print_module,
		[RECORD_IMAGE] = print_image,
		[RECORD_FUNCTION] = print_function,
		[RECORD_LIFETIME] = print_lifetime,
		[RECORD_STREAM] = print_stream,
		[RECORD_TENSORS] = print_tensors,
		[RECORD_ORIGIN] = print_origin,
		[RECORD_TIMES] = print_times,
		[RECORD_OUTPUT] = print_output,
		[RECORD_PROCESS] = print_process,
	};

	text_printf(text, "records of version %u, broker %u\n", records->header->version,
		    records->header->boot);
	for (int type = 0; type < N_RECORD_TYPES; type++) {
		const void *record;

		for (uint32_t i = 1;
		     (record = records_next(records, (enum record_type)type, &i)); i++) {
			if (!is_shown((enum record_type)type, record))
				continue;
			text_printf(text, "%s %u: ", record_layouts[type].name, i);
			prints[type](record, text);
			record_texts_print(records, (enum record_type)type, record, text);
			text_printf(text, "\n");
		}
	}
}
