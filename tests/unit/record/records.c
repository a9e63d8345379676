/* SPDX-License-Identifier: MIT */
/*
 * The records of a broker that dies at any store: the next has all of a change or nothing
 * of it. Damaged records are refused or loaded, and break nothing.
 */
#include "record/records.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/def.h"
#include "base/text.h"
#include "record/layout.h"
#include "record/texts.h"
#include "record/version1.h"

static struct records *fresh(void)
{
	struct records *records = NULL;

	cr_assert(eq(int, records_new(&records), 0));
	return records;
}

static struct allocation_record allocation_of(const char *name, uint32_t slot)
{
	struct allocation_record record = {
		.id = slot + 1,
		.size = 4096,
		.address = 0x1000,
		.slot = slot,
		.slot_generation = 1,
		.pointer_generation = 1,
	};

	strcpy(record.name, name);
	return record;
}

static uint32_t add(struct records *records, const char *name, uint32_t slot)
{
	struct allocation_record record = allocation_of(name, slot);
	uint32_t index = records_add(records, RECORD_ALLOCATION);

	cr_assert(gt(u32, index, 0));
	records_save(records, RECORD_ALLOCATION, index, &record);
	return index;
}

static struct records *reopen(const struct records *records)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct records *next = NULL;
	int r = records_open(&next, records_fd(records), &why);

	cr_assert(eq(int, r, 0), "%s", text_string(&why));
	return next;
}

static const char *name_at(const struct records *records, uint32_t index)
{
	const struct allocation_record *record =
		records_get(records, RECORD_ALLOCATION, index);

	return record ? record->name : "";
}

Test(records, the_next_broker_has_every_record)
{
	struct records *records = fresh(), *next;
	uint32_t x = add(records, "x", 0), y = add(records, "y", 1);

	records_drop(records, RECORD_ALLOCATION, x);
	next = reopen(records);
	cr_assert(eq(u32, records_boot(records), 1));
	cr_assert(eq(u32, records_boot(next), 2));
	cr_assert(eq(ptr, (void *)records_get(next, RECORD_ALLOCATION, x), NULL));
	cr_assert(eq(str, (char *)name_at(next, y), "y"));
	records_free(next);
	records_free(records);
}

Test(records, the_next_broker_begins_where_the_tokens_end)
{
	struct records *records = fresh(), *next;

	records_token_ends(records)->generations = 5000;
	records_token_ends(records)->serials = 6000;
	next = reopen(records);
	cr_expect(eq(u32, records_token_ends(next)->generations, 5000));
	cr_expect(eq(u64, records_token_ends(next)->serials, 6000));
	records_free(next);
	records_free(records);
}

/* It gave 2^20 generations and 2^37 serials to each of its kind. */
Test(records, tokens_of_an_older_program_are_not_given_again)
{
	struct records *records = fresh(), *next;

	records->header->boot = 7;
	*records_token_ends(records) = (struct token_ends){ 0 };
	next = reopen(records);
	cr_expect(ge(u32, records_token_ends(next)->generations, 8u << 20));
	cr_expect(ge(u64, records_token_ends(next)->serials, UINT64_C(8) << 37));
	records_free(next);
	records_free(records);
}

Test(records, an_index_that_comes_again_has_another_generation)
{
	struct records *records = fresh(), *next;
	uint32_t x = add(records, "x", 0);
	uint32_t before = records_generation(records, RECORD_ALLOCATION, x);

	records_drop(records, RECORD_ALLOCATION, x);
	next = reopen(records);
	cr_assert(eq(u32, add(next, "y", 0), x));
	cr_assert(ne(u32, records_generation(next, RECORD_ALLOCATION, x), before));
	records_free(next);
	records_free(records);
}

Test(records, without_records_nothing_is_kept)
{
	struct allocation_record record = allocation_of("x", 0);

	records_begin(NULL);
	cr_assert(eq(u32, records_add(NULL, RECORD_ALLOCATION), 0));
	records_save(NULL, RECORD_ALLOCATION, 0, &record);
	records_drop(NULL, RECORD_ALLOCATION, 0);
	records_end(NULL);
	cr_assert(eq(ptr, (void *)records_get(NULL, RECORD_ALLOCATION, 1), NULL));
}

Test(records, more_than_a_thousand_find_their_place)
{
	struct records *records = fresh(), *next;
	char name[16];

	for (uint32_t i = 0; i < 1500; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		cr_assert(eq(u32, add(records, name, i), i + 1));
	}
	next = reopen(records);
	for (uint32_t i = 0; i < 1500; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		cr_assert(eq(str, (char *)name_at(next, i + 1), name));
	}
	records_free(next);
	records_free(records);
}

static uint64_t resident_bytes(const struct records *records)
{
	struct stat stat;

	cr_assert(eq(int, fstat(records_fd(records), &stat), 0));
	return (uint64_t)stat.st_blocks * 512;
}

/* Pages that are away show whether they are asked for again. */
Test(records, a_table_grows_by_what_is_new)
{
	struct records *records = fresh();
	const struct table_header *table = &records->header->tables[RECORD_ALLOCATION];
	uint32_t n = RECORDS_STEP / sizeof(struct allocation_record);
	uint64_t before;

	for (uint32_t i = 0; i < n - 1; i++)
		add(records, "x", i);
	cr_assert(eq(int,
		     fallocate(records_fd(records),
			       FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       (off_t)table->offset, RECORDS_STEP / 2),
		     0));
	before = resident_bytes(records);
	add(records, "x", n);
	add(records, "x", n + 1);
	cr_assert(gt(u64, resident_bytes(records), before));
	cr_assert(le(u64, resident_bytes(records), before + RECORDS_STEP));
	records_free(records);
}

/* ---- death at each store ---- */

#ifdef CRASH_POINTS
static unsigned int points_left;

static void die_at_point(void)
{
	if (points_left-- == 0)
		_exit(77);
}

static void begin_to_die(unsigned int point)
{
	points_left = point;
	crash_hook = die_at_point;
}

#define needs_points()
#else
static void begin_to_die(unsigned int point)
{
	(void)point;
}

#define needs_points() cr_skip_test("a build with -Dcrash_points=true has it")
#endif

/* x and y change names, and z goes: all at once. */
static void change(struct records *records)
{
	struct allocation_record x = allocation_of("y", 0), y = allocation_of("x", 1);

	records_begin(records);
	records_save(records, RECORD_ALLOCATION, 1, &x);
	records_begin(records);
	records_save(records, RECORD_ALLOCATION, 2, &y);
	records_end(records);
	records_drop(records, RECORD_ALLOCATION, 3);
	records_end(records);
}

static void expect_all_or_nothing(const struct records *next, unsigned int point,
				  unsigned int *n_done)
{
	bool done = strcmp(name_at(next, 1), "y") == 0;

	cr_assert(eq(str, (char *)name_at(next, 1), done ? "y" : "x"), "%u", point);
	cr_assert(eq(str, (char *)name_at(next, 2), done ? "x" : "y"), "%u", point);
	cr_assert(eq(str, (char *)name_at(next, 3), done ? "" : "z"), "%u", point);
	*n_done += done;
}

Test(records, a_death_at_any_store_leaves_all_or_nothing)
{
	unsigned int point, n_done = 0;
	int status = 0;

	needs_points();
	for (point = 0; point < 1000; point++) {
		struct records *records = fresh(), *next;
		pid_t pid;

		add(records, "x", 0);
		add(records, "y", 1);
		add(records, "z", 2);
		pid = fork();
		if (pid == 0) {
			begin_to_die(point);
			change(records);
			_exit(0);
		}
		cr_assert(eq(int, waitpid(pid, &status, 0), pid));
		next = reopen(records);
		expect_all_or_nothing(next, point, &n_done);
		records_free(next);
		records_free(records);
		if (WEXITSTATUS(status) == 0)
			break;
	}
	/* Deaths before and after the store that commits. */
	cr_assert(gt(u32, point, 8), "%u points", point);
	cr_assert(gt(u32, n_done, 3), "%u of %u done", n_done, point);
	cr_assert(lt(u32, n_done, point), "%u of %u done", n_done, point);
}

/* ---- texts ---- */

static const char old_text[] = "An old text, of more characters than one record has room "
			       "for, and then some";
static const char new_text[] =
	"A new text, which is longer than the old one: a part of it "
	"would lie where the old text is, were that free before the "
	"change is committed";

static void save_failure(struct records *records, uint32_t index, const char *text)
{
	struct failure_record record = { .number = 1 };
	const struct failure_record *old = records_get(records, RECORD_FAILURE, index);

	records_begin(records);
	if (old)
		record_text_drop(records, old->text);
	record.text = record_text_add(records, text, strlen(text));
	cr_assert(gt(u32, record.text, 0));
	records_save(records, RECORD_FAILURE, index, &record);
	records_end(records);
}

static uint32_t n_texts(const struct records *records)
{
	uint32_t n = 0;

	for (uint32_t i = 1; records_next(records, RECORD_TEXT, &i); i++)
		n++;
	return n;
}

static uint32_t parts_of(const char *text)
{
	return (uint32_t)((strlen(text) - 1) / RECORD_TEXT_BYTES + 1);
}

/* Returns: whether it is the new text. */
static bool expect_one_text(const struct records *records)
{
	const struct failure_record *record = records_get(records, RECORD_FAILURE, 1);
	_cleanup_text_ struct text text = TEXT_INIT;
	bool is_new;

	record_text_show(records, record->text, &text);
	is_new = strcmp(text_string(&text), new_text) == 0;
	if (!is_new)
		cr_assert(eq(str, (char *)text_string(&text), (char *)old_text));
	cr_assert(eq(u32, n_texts(records), parts_of(is_new ? new_text : old_text)));
	return is_new;
}

Test(records, a_text_is_the_old_or_the_new_one_at_any_death)
{
	unsigned int point, n_new = 0;
	int status = 0;

	needs_points();
	for (point = 0; point < 1000; point++) {
		struct records *records = fresh(), *next;
		pid_t pid;

		save_failure(records, records_add(records, RECORD_FAILURE), old_text);
		pid = fork();
		if (pid == 0) {
			begin_to_die(point);
			save_failure(records, 1, new_text);
			_exit(0);
		}
		cr_assert(eq(int, waitpid(pid, &status, 0), pid));
		next = reopen(records);
		n_new += expect_one_text(next);
		records_free(next);
		records_free(records);
		if (WEXITSTATUS(status) == 0)
			break;
	}
	cr_assert(gt(u32, point, 3), "%u points", point);
	cr_assert(gt(u32, n_new, 1), "%u of %u new", n_new, point);
	cr_assert(lt(u32, n_new, point), "%u of %u new", n_new, point);
}

Test(records, the_memory_of_a_text_comes_again)
{
	struct records *records = fresh();

	for (int i = 0; i < 1000; i++)
		save_failure(records, i ? 1 : records_add(records, RECORD_FAILURE),
			     i % 2 ? new_text : old_text);
	cr_assert(eq(ptr,
		     records_place(records, RECORD_TEXT,
				   parts_of(new_text) + parts_of(old_text) + 1),
		     NULL));
	records_free(records);
}

/* ---- other versions ---- */

static const char *const fixture_lines[] = {
	"records of version 1, broker 2\n",
	"owner 1: uid 0, ",
	"allocation 1: x: id 1, 4194304 bytes at 0x200000000000, block 1, uid 0, mode "
	"0640, tag of-the-first\n",
	"folder 1: models: id 1, ",
	"lease 1: id 1 of allocation record 1, uid 0, ",
	"event 7: 2026-11-22T22:38:34Z 7 free allocations/gone id=4 ",
	"failure 2: number 2, uid 0, line 2026-11-22T22:38:34Z ",
};

static void expect_refused(struct records *records, const char *sentence)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct records *next = NULL;

	cr_assert(eq(int, records_open(&next, records_fd(records), &why), -EINVAL));
	cr_assert(strstr(text_string(&why), sentence) != NULL, "%s", text_string(&why));
	records_free(records);
}

/* Rows of a table as a program would have them that does not know all of their fields. */
static void shorten(struct records *records, enum record_type type, uint32_t size)
{
	struct table_header *table = &records->header->tables[type];
	uint8_t *rows = records->memory + table->offset;

	for (uint32_t i = 1; i <= table->n; i++)
		memmove(rows + i * size, rows + i * table->record_size, size);
	table->record_size = size;
}

Test(records, fields_that_an_older_program_had_not_are_zero)
{
	struct owner_record owner = { .slot_generation = 1,
				      .restarts = 7,
				      .n_refused = { 1, 2, 3 } };
	struct records *records = fresh(), *next;
	const struct owner_record *loaded;

	for (uint32_t i = 0; i < 2; i++) {
		owner.uid = owner.slot = i;
		records_save(records, RECORD_OWNER, records_add(records, RECORD_OWNER),
			     &owner);
	}
	shorten(records, RECORD_OWNER, offsetof(struct owner_record, n_refused));
	next = reopen(records);
	for (uint32_t i = 0; i < 2; i++) {
		loaded = records_get(next, RECORD_OWNER, i + 1);
		cr_assert(eq(u32, loaded->uid, i));
		cr_assert(eq(u64, loaded->restarts, 7));
		cr_assert(eq(u64, loaded->n_refused[1], 0));
	}
	/* And they are written with all fields from here on. */
	records_save(next, RECORD_OWNER, 1, &owner);
	loaded = records_get(next, RECORD_OWNER, 1);
	cr_assert(eq(u64, loaded->n_refused[1], 2));
	records_free(next);
	records_free(records);
}

Test(records, records_of_a_newer_program_are_refused_with_a_sentence)
{
	struct records *records = fresh();

	records->header->tables[RECORD_LEASE].record_size += 8;
	records->header->tables[RECORD_LEASE].capacity /= 2;
	expect_refused(records, "lease records are larger than this program knows them: "
				"they are of a newer version");

	records = fresh();
	records->header->version++;
	expect_refused(records, "of another version");

	records = fresh();
	records->header->n_tables = N_RECORD_TYPES + 1;
	expect_refused(records, "tables of a newer version");
}

static struct records *fixture_load(void)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int fd = memfd_create("fixture", MFD_CLOEXEC);
	struct records *records = NULL;
	unsigned int byte;

	cr_assert(eq(int, ftruncate(fd, FIXTURE_SIZE), 0));
	for (size_t i = 0; i < ARRAY_SIZE(fixture); i++) {
		for (size_t at = 0; at < strlen(fixture[i].bytes) / 2; at++) {
			cr_assert(eq(int, sscanf(fixture[i].bytes + 2 * at, "%2x", &byte),
				     1));
			cr_assert(eq(int,
				     pwrite(fd, &(uint8_t){ (uint8_t)byte }, 1,
					    (off_t)(fixture[i].at + at)),
				     1));
		}
	}
	cr_assert(eq(int, records_open(&records, fd, &why), 0), "%s", text_string(&why));
	close(fd);
	return records;
}

/* What a broker of the first version has left: as fixture.py says. */
Test(records, records_of_the_first_version_are_loaded)
{
	struct records *records = fixture_load();
	_cleanup_text_ struct text text = TEXT_INIT;

	records_print(records, &text);
	for (size_t i = 0; i < ARRAY_SIZE(fixture_lines); i++)
		cr_assert(strstr(text_string(&text), fixture_lines[i]) != NULL,
			  "%s in\n%s", fixture_lines[i], text_string(&text));
	records_free(records);
}

/* ---- damage ---- */

static int open_damaged(const struct records *records, off_t at, uint8_t flip)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct records *next = NULL;
	uint8_t byte;
	int r;

	cr_assert(eq(int, pread(records_fd(records), &byte, 1, at), 1));
	byte ^= flip;
	cr_assert(eq(int, pwrite(records_fd(records), &byte, 1, at), 1));
	r = records_open(&next, records_fd(records), &why);
	cr_assert(r == 0 || (r == -EINVAL && why.length), "%d at %lld", r, (long long)at);
	records_free(next);
	byte ^= flip;
	cr_assert(eq(int, pwrite(records_fd(records), &byte, 1, at), 1));
	return r;
}

/* One bit of each byte, another in the next. */
Test(records, any_byte_of_the_header_may_be_wrong)
{
	struct records *records = fresh();
	unsigned int n_refused = 0;

	add(records, "x", 0);
	add(records, "y", 1);
	for (off_t at = 0; at < 320; at++) {
		for (int bit = 7; bit >= 0; bit -= 3)
			n_refused += open_damaged(records, at,
						  (uint8_t)(1 << (at + bit) % 8)) < 0;
	}
	cr_assert(gt(u32, n_refused, 100));
	records_free(records);
}

/* Its own copying home would change what is still to be copied. */
Test(records, a_redo_area_within_a_table_is_refused)
{
	struct records *records = fresh();
	const struct records_header *header = records->header;
	const struct table_header *table = &header->tables[RECORD_ALLOCATION];
	uint64_t within = table->offset + table->record_size;

	add(records, "x", 0);
	cr_assert(eq(int,
		     pwrite(records_fd(records), &within, sizeof(within),
			    offsetof(struct records_header, redo_offset)),
		     sizeof(within)));
	expect_refused(records, "the redo area is not beside the tables");
}

Test(records, records_that_contradict_each_other_are_refused)
{
	struct allocation_record lost = allocation_of("x", 0);
	struct lease_record lease = { .allocation = 7, .file = (uint64_t)1 << 32 };
	struct block_record block = { .address = 0x1000, .size = 0x2000 };
	struct event_record event = { .number = 7, .length = 1, .line = "\n" };
	struct origin_record origin = { .owner = 7 };
	struct folder_record folder = { .slot_generation = 1, .name = "x" };
	struct failure_record failure;
	struct records *records;

	records = fresh();
	add(records, "x", 0);
	add(records, "x", 1);
	expect_refused(records, "the same name");

	records = fresh();
	add(records, "x", 0);
	records_save(records, RECORD_FOLDER, records_add(records, RECORD_FOLDER),
		     &folder);
	expect_refused(records, "the same name");

	records = fresh();
	add(records, "x", 0);
	add(records, "y", 0);
	expect_refused(records, "the same slot");

	records = fresh();
	lost.block = 5;
	records_save(records, RECORD_ALLOCATION, records_add(records, RECORD_ALLOCATION),
		     &lost);
	expect_refused(records, "a block that is not there");

	records = fresh();
	records_save(records, RECORD_LEASE, records_add(records, RECORD_LEASE), &lease);
	expect_refused(records, "an allocation that is not there");

	records = fresh();
	records_save(records, RECORD_BLOCK, records_add(records, RECORD_BLOCK), &block);
	block.address += 0x1000;
	records_save(records, RECORD_BLOCK, records_add(records, RECORD_BLOCK), &block);
	expect_refused(records, "two blocks overlap");

	records = fresh();
	save_failure(records, records_add(records, RECORD_FAILURE), old_text);
	failure = *(struct failure_record *)records_place(records, RECORD_FAILURE, 1);
	records_save(records, RECORD_FAILURE, records_add(records, RECORD_FAILURE),
		     &failure);
	expect_refused(records, "failure record 2 has no text of its own");

	records = fresh();
	lost.block = 0;
	lost.origin = records_add(records, RECORD_ORIGIN);
	records_save(records, RECORD_ALLOCATION, records_add(records, RECORD_ALLOCATION),
		     &lost);
	records_save(records, RECORD_ORIGIN, lost.origin, &origin);
	expect_refused(records,
		       "allocation record 1 has a cgroup that is not its owner's");

	records = fresh();
	records_save(records, RECORD_ORIGIN, records_add(records, RECORD_ORIGIN),
		     &origin);
	expect_refused(records, "origin record 1 has no cgroup");

	records = fresh();
	records_save(records, RECORD_EVENT, records_add(records, RECORD_EVENT), &event);
	expect_refused(records, "event record 1 is not in its place");
}
