/* SPDX-License-Identifier: MIT */
/* The line of an allocation: parsing and checks. */
#include <errno.h>
#include <string.h>

#include "base/crash.h"
#include "base/number.h"
#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verb.h"
#include "control/verbs.h"
#include "memops/allocate.h"
#include "memops/lifetime.h"
#include "model/access.h"
#include "model/location.h"
#include "model/managed_ranges.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/shares.h"
#include "model/stream.h"

#define TAG_MAX 255

struct alloc_line {
	const char *name;
	uint64_t size;
	int kind;
	uint32_t device;
	bool has_device;
	const char *stream;
	const char *tag;
	uint8_t attach;
	uint16_t mode;
	int until; /* enum lifetime_kind; -1: none */
	struct lifetime *lifetime;
	const char *cgroup; /* NULL: unknown */
	bool map_readers;
	bool patient; /* wait= is given */
	uint32_t patience_ms;
	enum guard guard;
};

static int alloc_parse_mode(const char *word, uint16_t *ret_mode, struct refusal *refusal)
{
	unsigned long mode;
	char *end;

	mode = strtoul(word, &end, 8);
	if (!*word || *end || strspn(word, "01234567") != strlen(word) || mode > 0777)
		return refuse(
			refusal, EINVAL,
			"mode=%.64s is not an octal mode from 0 to 777, such as 640",
			word);
	/* x follows r and is not stored. */
	*ret_mode = (uint16_t)(mode & 0666);
	return 0;
}

int line_map(const char *word, bool *ret_readers, struct refusal *refusal)
{
	*ret_readers = strcmp(word, "readers") == 0;
	if (*ret_readers || strcmp(word, "writers") == 0)
		return 0;
	return refuse(refusal, EINVAL, "map=%.64s is not one of writers, readers", word);
}

static int alloc_parse_attach(const char *word, struct alloc_line *line,
			      struct refusal *refusal)
{
	if (line->kind != KIND_MANAGED)
		return refuse(refusal, EINVAL,
			      "attach=%.64s is for kind=managed, not kind=%s", word,
			      kind_name((enum allocation_kind)line->kind));
	return line_attach(word, ATTACH_HOST, &line->attach, refusal);
}

int line_tag(const char *word, struct refusal *refusal)
{
	if (!*word)
		return refuse(refusal, EINVAL,
			      "the tag is empty: none stands for no tag");
	/* Tags are printed unchanged, perhaps on another user's terminal. */
	if (!string_is_word(word) || strlen(word) > TAG_MAX)
		return refuse(refusal, EINVAL,
			      "a tag is one word of at most %d bytes of UTF-8, without "
			      "blanks and control characters",
			      TAG_MAX);
	return 0;
}

static int alloc_parse_until(const char *word, int *ret_until, struct refusal *refusal)
{
	*ret_until = lifetime_find_kind(word);
	return *ret_until >= 0
		       ? 0
		       : refuse(refusal, EINVAL,
				"until=%.64s is not one of close, exit, cgroup", word);
}

/* The driver itself places memory of the other kinds, next to any other memory. */
static int alloc_parse_guard(const char *word, struct alloc_line *line,
			     struct refusal *refusal)
{
	bool both = strcmp(word, "2") == 0;

	if (!both && strcmp(word, "1") != 0)
		return refuse(refusal, EINVAL, "guard=%.64s is not one of 1, 2", word);
	if (!kind_is_durable((enum allocation_kind)line->kind))
		return refuse(refusal, EOPNOTSUPP,
			      "guard=%s is for kind=device and kind=host: the driver "
			      "itself places kind=%s, perhaps next to other memory",
			      word, kind_name((enum allocation_kind)line->kind));
	line->guard = both ? GUARD_BOTH : GUARD_END;
	return 0;
}

/* The kind, and the keys that depend on the kind. */
static int alloc_parse_kind(const struct line *words, struct alloc_line *line,
			    struct refusal *refusal)
{
	const char *kind = line_value(words, "kind");
	const char *attach = line_value(words, "attach");

	line->kind = kind ? kind_find(kind) : KIND_DEVICE;
	if (line->kind < 0)
		return refuse(
			refusal, EINVAL,
			"kind=%.64s is not one of device, direct, async, managed, host",
			kind);
	line->stream = line_value(words, "stream");
	if (line->stream && line->kind != KIND_ASYNC)
		return refuse(refusal, EINVAL,
			      "stream=%.64s is for kind=async, not kind=%s", line->stream,
			      kind_name((enum allocation_kind)line->kind));
	return attach ? alloc_parse_attach(attach, line, refusal) : 0;
}

static int alloc_parse_keys(const struct registry *registry, const struct line *words,
			    struct alloc_line *line, struct refusal *refusal)
{
	const char *word;
	int r;

	line->mode = 0600;
	line->until = -1;
	r = alloc_parse_kind(words, line, refusal);
	word = line_value(words, "device");
	line->has_device = word;
	if (r == 0 && word)
		r = line_device(word, registry, &line->device, refusal);
	line->tag = line_value(words, "tag");
	if (r == 0 && line->tag)
		r = line_tag(line->tag, refusal);
	if (r == 0 && (word = line_value(words, "mode")))
		r = alloc_parse_mode(word, &line->mode, refusal);
	if (r == 0 && (word = line_value(words, "until")))
		r = alloc_parse_until(word, &line->until, refusal);
	if (r == 0 && (word = line_value(words, "map")))
		r = line_map(word, &line->map_readers, refusal);
	if (r == 0 && (word = line_value(words, "guard")))
		r = alloc_parse_guard(word, line, refusal);
	word = line_value(words, "wait");
	line->patient = word;
	if (r == 0 && word)
		r = line_seconds(word, "wait", 0, &line->patience_ms, refusal);
	return r;
}

static int alloc_parse(const struct registry *registry, const struct line *words,
		       struct alloc_line *line, struct refusal *refusal)
{
	int r;

	line->name = words->operands[0];
	r = line_full_name(line->name, "allocation", refusal);
	if (r < 0)
		return r;
	r = line_size(words->operands[1], NULL, &line->size, refusal);
	if (r < 0)
		return r;
	if (line->size == 0)
		return refuse(refusal, EINVAL,
			      "allocation %s can't have size %.64s: 1 byte is the least",
			      line->name, words->operands[1]);
	return alloc_parse_keys(registry, words, line, refusal);
}

static int alloc_check_managed(const struct broker *broker, const struct alloc_line *line,
			       struct refusal *refusal)
{
	if (!broker->registry->device_at[line->device]->has_managed)
		return refuse(refusal, EOPNOTSUPP,
			      "device %u lacks CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY",
			      line->device);
	return attach_check(broker, line->device, line->attach, refusal);
}

/* Memory is mapped in whole pages, so only whole pages have nothing at both ends. */
static int alloc_check_guard(const struct broker *broker, const struct alloc_line *line,
			     struct refusal *refusal)
{
	uint32_t place = line->kind == KIND_HOST ? PLACE_HOST : line->device;
	uint64_t page = block_granularity(broker->memory, place);

	if (line->guard != GUARD_BOTH || line->size % page == 0)
		return 0;
	return refuse(refusal, EINVAL,
		      "guard=2 needs a multiple of %s, the size of the pages that hold "
		      "%s memory, and %s is none: guard=1 takes any size",
		      size_typed(page), kind_name((enum allocation_kind)line->kind),
		      size_typed(line->size));
}

/* As command_find(): on failure the lock is released and the command answered. */
static int alloc_check(struct command *command, struct alloc_line *line,
		       struct stream **ret_stream)
{
	struct broker *broker = command->broker;
	const struct stream *named = NULL;
	struct refusal refusal;

	*ret_stream = NULL;
	if (broker->registry->shutting_down) {
		pthread_mutex_unlock(&broker->registry->lock);
		command_fail(command, ESTALE, "the broker is shutting down");
		return -ESTALE;
	}
	/*
	 * A stream implies its device; a device given too must agree (command_stream()).
	 */
	if (line->stream && !line->has_device)
		named = stream_find_named(command->broker->registry, line->stream,
					  command->caller);
	if (named)
		line->device = named->device;
	if (line->kind == KIND_DEVICE &&
	    !broker->registry->device_at[line->device]->has_vmm) {
		pthread_mutex_unlock(&broker->registry->lock);
		command_fail(
			command, EOPNOTSUPP,
			"device %u lacks VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED or "
			"HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: use kind=direct",
			line->device);
		return -EOPNOTSUPP;
	}
	if (line->kind == KIND_MANAGED &&
	    alloc_check_managed(broker, line, &refusal) < 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		command_refuse(command, &refusal);
		return -EOPNOTSUPP;
	}
	if (alloc_check_guard(broker, line, &refusal) < 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		command_refuse(command, &refusal);
		return -EINVAL;
	}
	if (line->kind != KIND_ASYNC)
		return 0;
	*ret_stream = command_stream(command, line->stream, line->device);
	return *ret_stream ? 0 : -ENOENT;
}

/*
 * The folder of the name, in which the caller may make names; a name that is taken is
 * told apart first, as mkdir does. As alloc_check().
 */
static int alloc_find_place(struct command *command, const char *name,
			    struct name_place *ret_place)
{
	struct registry *registry = command->broker->registry;
	struct refusal refusal;
	int r = path_resolve(registry, OBJECT_ALLOCATION, name, command->caller,
			     ret_place, &refusal);

	if (r == 0 && !folder_find(ret_place->folder, ret_place->name))
		r = folder_check(ret_place->folder, command->caller, FOLDER_WRITE,
				 &refusal);
	if (r == 0)
		return 0;
	pthread_mutex_unlock(&registry->lock);
	command_refuse(command, &refusal);
	return r;
}

static void alloc_fail_new(struct command *command, struct owner *owner, const char *name,
			   const struct name_place *place, int r)
{
	struct registry *registry = command->broker->registry;
	_cleanup_text_ struct text share = TEXT_INIT;
	struct entry *entry = folder_find(place->folder, place->name);
	const struct allocation *there = allocation_of(entry);
	uint64_t size = there ? there->size : 0;

	if (share_is_refusal(r))
		share_explain(owner, &share);
	pthread_mutex_unlock(&registry->lock);
	if (share.length)
		command_fail(command, -r, "allocation %s: %s", name, text_string(&share));
	else if (r == -EEXIST && !there)
		command_fail(command, EEXIST, "%s is a folder: %s/NAME can be in it",
			     name, name);
	else if (r == -EEXIST)
		command_fail(command, EEXIST, "allocation %s is there already (%s)", name,
			     size_text(size));
	else
		command_fail(command, -r, "no memory in the broker");
}

/* Whether the memory is a block of its own, with a descriptor in the broker. */
static bool alloc_takes_descriptor(const struct alloc_line *line)
{
	enum allocation_kind kind = (enum allocation_kind)line->kind;

	return kind_is_durable(kind) &&
	       !allocation_is_cell(kind, line->size, line->mode, line->guard);
}

/* Takes the shares and the name. */
static int alloc_take(struct registry *registry, const struct alloc_line *line,
		      const struct name_place *place, struct owner *owner,
		      struct allocation **ret_allocation)
{
	bool has_descriptor = alloc_takes_descriptor(line);
	struct allocation *allocation;
	int r;

	r = share_take(owner, SHARE_DESCRIPTORS, has_descriptor);
	if (r < 0)
		return r;
	r = allocation_new(&allocation, registry, place->folder, place->name, line->size,
			   owner);
	if (r < 0) {
		share_give(owner, SHARE_DESCRIPTORS, has_descriptor);
		return r;
	}
	allocation->has_descriptor = has_descriptor;
	if (!kind_is_durable(line->kind))
		r = allocation_make_rare(allocation);
	if (r == 0 && line->cgroup)
		r = origin_add(owner, line->cgroup, allocation);
	if (r == 0 && line->tag)
		r = allocation_set_tag(allocation, line->tag);
	if (r == 0)
		r = lifetime_add(line->lifetime, allocation);
	if (r < 0) {
		allocation_withdraw(registry, allocation);
		allocation_free(registry, allocation);
		return r;
	}
	*ret_allocation = allocation;
	return 0;
}

/* Takes the name. As alloc_check(). */
static struct allocation *alloc_new(struct command *command,
				    const struct alloc_line *line,
				    const struct name_place *place, struct stream *stream)
{
	struct registry *registry = command->broker->registry;
	struct managed *managed = NULL;
	struct allocation *allocation;
	struct owner *owner;
	int r = -ENOMEM;

	owner = owner_get(registry, command->caller->uid, command->caller->gid);
	if (line->kind == KIND_MANAGED)
		managed = managed_new(line->size);
	if (owner && (managed || line->kind != KIND_MANAGED))
		r = alloc_take(registry, line, place, owner, &allocation);
	if (r < 0) {
		managed_free(managed, &registry->managed);
		alloc_fail_new(command, owner, line->name, place, r);
		return NULL;
	}
	allocation->managed = managed;
	if (managed)
		managed->attach = line->attach;
	allocation->kind = (uint8_t)line->kind;
	allocation->device = (uint8_t)line->device;
	allocation->gid = command->caller->gid;
	allocation->mode = line->mode;
	allocation->map_readers = line->map_readers;
	allocation->guard = (uint8_t)line->guard;
	allocation_set_stream(allocation, stream);
	if (stream)
		stream_note_use(stream);
	if (!kind_is_durable(allocation->kind)) {
		owner->n_in_worker++;
		crash_hold();
	}
	return allocation;
}

static void alloc_made(struct completion *completion, struct token token)
{
	struct command *command = container_of(completion, struct command, completion);

	(void)command->verb->answer(command->broker, token, &command->answer);
	command_done(command, 0);
}

/*
 * The lifetime of `until=`, with a reference, and the cgroup. Returns: 0; -EAGAIN: the
 * search needs LANE_SEARCHES; negative, and the command is answered.
 */
static int alloc_find_lifetime(struct command *command, struct alloc_line *line)
{
	struct broker *broker = command->broker;
	struct refusal refusal;
	int r;

	line->cgroup = command_cgroup(command, line->until == LIFETIME_CGROUP);
	if (line->until < 0)
		return 0;
	if (line->until != LIFETIME_CLOSE) {
		const struct lifetime_of of = {
			.kind = (enum lifetime_kind)line->until,
			.user = command->caller,
			.thread = command->pid,
			.cgroup = line->cgroup,
		};

		r = lifetime_get(broker, &of, command->lane == LANE_SEARCHES,
				 &line->lifetime, &refusal);
		if (r == -EAGAIN)
			return r;
		/* Asked afterwards: a process that lives now was the one found. */
		if (r == 0 && !command_writer_lives(command)) {
			pthread_mutex_lock(&broker->registry->lock);
			lifetime_unref(take_ptr(line->lifetime));
			pthread_mutex_unlock(&broker->registry->lock);
			r = refuse(&refusal, ESRCH,
				   "until=%s: thread %d has written the line and ended "
				   "before close did the line",
				   line->until == LIFETIME_EXIT ? "exit" : "cgroup",
				   command->pid);
		}
		if (r < 0)
			command_refuse(command, &refusal);
		return r;
	}
	if (!command->lifetime)
		command->lifetime = lifetime_new(broker);
	if (!command->lifetime) {
		command_fail(command, ENOMEM, "no memory in the broker");
		return -ENOMEM;
	}
	pthread_mutex_lock(&broker->registry->lock);
	line->lifetime = lifetime_ref(command->lifetime);
	pthread_mutex_unlock(&broker->registry->lock);
	return 0;
}

/* Checks the line and makes the allocation. Returns: NULL after answering. */
static struct allocation *alloc_begin(struct command *command, struct alloc_line *line)
{
	struct registry *registry = command->broker->registry;
	struct allocation *allocation = NULL;
	struct name_place place;
	struct stream *stream;

	pthread_mutex_lock(&registry->lock);
	if (alloc_check(command, line, &stream) == 0 &&
	    alloc_find_place(command, line->name, &place) == 0)
		allocation = alloc_new(command, line, &place, stream);
	/* On failure the lock has been released. */
	if (!allocation)
		pthread_mutex_lock(&registry->lock);
	else
		registry->n_busy++;
	lifetime_unref(line->lifetime);
	pthread_mutex_unlock(&registry->lock);
	return allocation;
}

void verb_alloc(struct command *command)
{
	struct alloc_line line = { 0 };
	struct refusal refusal;
	struct alloc_request *alloc;
	int r;

	if (command_parse(command) < 0)
		return;
	if (alloc_parse(command->broker->registry, &command->line, &line, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	alloc = calloc(1, sizeof(*alloc));
	if (!alloc) {
		command_fail(command, ENOMEM, "no memory in the broker");
		return;
	}
	r = alloc_find_lifetime(command, &line);
	if (r == -EAGAIN)
		command_put_off(command, LANE_SEARCHES);
	if (r < 0) {
		free(alloc);
		return;
	}
	alloc->broker = command->broker;
	alloc->pid = command->pid;
	alloc->completion = &command->completion;
	alloc->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	alloc->made = alloc_made;
	alloc->patient = line.patient;
	alloc->patience_ms = line.patience_ms;
	alloc->allocation = alloc_begin(command, &line);
	if (alloc->allocation)
		alloc_request_start(alloc);
	else
		free(alloc);
}
