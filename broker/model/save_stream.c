/* SPDX-License-Identifier: MIT */
#include "model/save_stream.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/def.h"
#include "base/text.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "record/records.h"
#include "record/texts.h"

int stream_record_take(struct registry *registry, struct stream *stream)
{
	stream->records = registry->records;
	return records_take(registry->records, RECORD_STREAM, &stream->record);
}

void stream_to_record(const struct stream *stream, struct stream_record *ret_record)
{
	*ret_record = (struct stream_record){
		.id = stream->id,
		.created_s = stream->created_s,
		.slot = stream->slot,
		.slot_generation = stream->slot_generation,
		.flags = (stream->is_default ? RECORD_DEFAULT : 0) |
			 (stream->used ? RECORD_USED : 0) |
			 (stream->n_unawaited ? RECORD_UNAWAITED : 0),
		.failed = stream->failed,
		.failure = stream->failure_text,
		.owner = stream->owner->uid,
		.device = stream->device,
		.priority = stream->priority,
	};
	strcpy(ret_record->name, stream->name);
}

void stream_save(const struct stream *stream)
{
	struct stream_record record;

	if (!stream->record)
		return;
	stream_to_record(stream, &record);
	records_save(stream->records, RECORD_STREAM, stream->record, &record);
}

void stream_save_flags(const struct stream *stream)
{
	const size_t at = offsetof(struct stream_record, flags);
	struct stream_record record;
	uint64_t word;

	_Static_assert(offsetof(struct stream_record, flags) % 8 == 0 &&
			       offsetof(struct stream_record, failed) ==
				       offsetof(struct stream_record, flags) + 4,
		       "flags and errno are a word");
	if (!stream->record)
		return;
	stream_to_record(stream, &record);
	memcpy(&word, (const char *)&record + at, sizeof(word));
	if (!records_write(stream->records, RECORD_STREAM, stream->record, at, &word, 1))
		stream_save(stream);
}

void stream_save_failure(struct stream *stream)
{
	uint32_t text = 0;

	/* Without memory the errno is kept alone. */
	if (stream->record && stream->failure)
		text = record_text_add(stream->records, stream->failure,
				       strlen(stream->failure));
	records_begin(stream->records);
	record_text_drop(stream->records, stream->failure_text);
	stream->failure_text = text;
	stream_save(stream);
	records_end(stream->records);
}

void stream_record_drop(struct stream *stream)
{
	records_begin(stream->records);
	record_text_drop(stream->records, stream->failure_text);
	records_drop(stream->records, RECORD_STREAM, stream->record);
	records_end(stream->records);
	stream->record = stream->failure_text = 0;
}

static int failure_restore(struct stream *stream, const struct stream_record *record)
{
	_cleanup_text_ struct text sentence = TEXT_INIT;

	record_text_show(stream->records, record->failure, &sentence);
	if (text_failed(&sentence))
		return -ENOMEM;
	stream->failed = record->failed;
	stream->failure_text = record->failure;
	stream->failure = take_ptr(sentence.data);
	return 0;
}

/* Nobody knows how much of the work was done. */
static int fail_unawaited(struct stream *stream, struct journal *journal)
{
	_cleanup_text_ struct text sentence = TEXT_INIT;

	if (stream->failed) {
		stream_save(stream);
		return 0;
	}
	text_printf(&sentence,
		    "the broker died before all work of stream %s was done: look at what "
		    "was to change",
		    stream->name);
	if (text_failed(&sentence))
		return -ENOMEM;
	stream_fail(stream, EIO, sentence.data);
	journal_event(journal, "failed streams/%s errno=EIO", stream->name);
	return 0;
}

int stream_restore(struct registry *registry, struct journal *journal,
		   struct owner *owner, uint32_t index,
		   const struct stream_record *record)
{
	struct stream *stream;
	int r = stream_remake(&stream, registry, owner, record);

	if (r < 0)
		return r;
	stream->records = registry->records;
	stream->record = index;
	stream->id = record->id;
	stream->created_s = record->created_s;
	stream->priority = record->priority;
	stream->used = record->flags & RECORD_USED;
	r = failure_restore(stream, record);
	if (r == 0 && record->flags & RECORD_UNAWAITED)
		r = fail_unawaited(stream, journal);
	return r;
}
