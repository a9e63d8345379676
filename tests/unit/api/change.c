/* SPDX-License-Identifier: MIT */
/* What the next broker finds of a change of owner, if this one dies in it. */
#include "api/broker.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/refusal.h"
#include "memops/lifetime.h"
#include "memops/permissions.h"
#include "memops/shut_off.h"
#include "model/folder.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "record/records.h"
#include "unit/broker_help.h"

#define FROM 1000u /* nobody_special's uid */
#define TO   1001u

static const struct caller root = { .uid = 0 };

static struct broker *broker;

static void start(void)
{
	broker = broker_start("64M", NULL);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(change, .init = start, .fini = stop, .timeout = 60);

/* ---- looks at each crash point ---- */

#ifdef CRASH_POINTS
static void (*look)(const struct records *next); /* NULL: none */

/* The next broker's records: an open finishes a group that was committed. */
static void look_at_records(void)
{
	void (*now)(const struct records *next) = look;
	_cleanup_text_ struct text why = TEXT_INIT;
	struct records *next;

	if (!now || gettid() != getpid())
		return;
	look = NULL;
	cr_assert(eq(int,
		     records_open(&next, records_fd(broker->registry->records), &why), 0),
		  "%s", text_string(&why));
	now(next);
	records_free(next);
	look = now;
}

static void looks_begin(void (*with)(const struct records *next))
{
	look = with;
	crash_hook = look_at_records;
}

static void looks_end(void)
{
	look = NULL;
	crash_hook = NULL;
}

#define needs_points()
#else
static void looks_begin(void (*with)(const struct records *next))
{
	(void)with;
}

static void looks_end(void)
{
}

#define needs_points() cr_skip_test("a build with -Dcrash_points=true has it")
#endif

/* ---- allocations ---- */

static uint32_t allocation_index;
static unsigned int n_before, n_after;

static void expect_allocation(const struct records *next)
{
	const struct allocation_record *record =
		records_get(next, RECORD_ALLOCATION, allocation_index);

	if (record->owner == FROM) {
		cr_expect(eq(u32, record->mode, 0600));
		cr_expect(eq(u32, record->gid, FROM));
		cr_expect(ne(u32, record->lifetime, 0));
		n_before++;
		return;
	}
	cr_expect(eq(u32, record->owner, TO));
	cr_expect(eq(u32, record->mode, 0640));
	cr_expect(eq(u32, record->gid, TO));
	cr_expect(eq(u32, record->lifetime, 0));
	cr_expect(eq(u32, record->flags & RECORD_UNTIL, 0));
	/* Who may still have the memory is not noted yet. */
	if (!n_after++)
		cr_expect(ne(u32, record->flags & RECORD_WITHDRAWING, 0));
}

/* From now on it ends with this process. */
static void end_with_process(struct allocation *allocation)
{
	const struct caller user = { .uid = FROM, .gid = FROM, .pid = getpid() };
	const struct lifetime_of of = {
		.kind = LIFETIME_EXIT,
		.user = &user,
		.thread = gettid(),
	};
	struct lifetime *lifetime;
	struct refusal refusal;

	cr_assert(eq(int, lifetime_get(broker, &of, false, &lifetime, &refusal), 0));
	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(eq(int, lifetime_add(lifetime, allocation), 0));
	lifetime_unref(lifetime);
	pthread_mutex_unlock(&broker->registry->lock);
}

Test(change, a_death_in_a_chown_leaves_all_of_it_or_nothing)
{
	struct allocation *allocation;
	struct token token;

	needs_points();
	cr_assert(eq(int, command_say(broker, "alloc", "x 4M\n"), 0));
	token = allocation_named(broker, "x");
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	allocation_index = allocation->record;
	end_with_process(allocation);
	looks_begin(expect_allocation);
	cr_assert(eq(int,
		     broker_change(broker, OBJECT_ALLOCATION, token, &root, 0640, TO, TO),
		     0));
	looks_end();
	cr_expect(gt(u32, n_before, 0));
	cr_expect(gt(u32, n_after, 0));
	cr_expect(eq(str, (char *)lifetime_word(allocation), "none"));
	broker_settle(broker);
}

/* ---- a change that is undone ---- */

static int turn_away_error; /* 0: none */

int __real_guests_turn_away(struct allocation *allocation, struct op **ready);
int __wrap_guests_turn_away(struct allocation *allocation, struct op **ready);

int __wrap_guests_turn_away(struct allocation *allocation, struct op **ready)
{
	return turn_away_error ? turn_away_error
			       : __real_guests_turn_away(allocation, ready);
}

Test(change, a_chown_that_fails_leaves_all_as_before)
{
	struct allocation *allocation;
	struct token token;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4M\n"), 0));
	token = allocation_named(broker, "x");
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	end_with_process(allocation);
	turn_away_error = -ENOMEM;
	cr_assert(eq(int,
		     broker_change(broker, OBJECT_ALLOCATION, token, &root, 0640, TO, TO),
		     -ENOMEM));
	turn_away_error = 0;
	cr_expect(eq(u32, allocation->owner->uid, FROM));
	cr_expect(eq(u32, allocation->gid, FROM));
	cr_expect(eq(u32, allocation->mode, 0600));
	cr_expect(eq(str, (char *)lifetime_word(allocation), "exit"));
}

/* ---- folders ---- */

static uint32_t folder_index, module_index;

static void expect_folder(const struct records *next)
{
	const struct folder_record *folder =
		records_get(next, RECORD_FOLDER, folder_index);
	const struct module_record *module =
		records_get(next, RECORD_MODULE, module_index);

	cr_expect(eq(u32, module->owner, folder->owner));
	cr_expect(eq(u32, folder->mode, folder->owner == FROM ? 0755 : 0711));
	n_before += folder->owner == FROM;
	n_after += folder->owner == TO;
}

Test(change, a_death_in_a_chown_of_a_folder_leaves_all_of_it_or_nothing)
{
	struct object_ref inner;
	struct folder *folder;
	struct token token;

	needs_points();
	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, "p", &token), 0));
	cr_assert(eq(int,
		     broker_create(broker, OBJECT_MODULE, token, "k", 0755,
				   &nobody_special, &inner),
		     0));
	folder = folder_get(broker->registry, OBJECT_MODULE, token);
	cr_assert(ne(ptr, folder, NULL));
	folder_index = folder->record;
	module_index = folder->module->record;
	looks_begin(expect_folder);
	cr_assert(eq(
		int,
		broker_change_folder(broker, OBJECT_MODULE, token, &root, 0711, TO, TO),
		0));
	looks_end();
	cr_expect(gt(u32, n_before, 0));
	cr_expect(gt(u32, n_after, 0));
}
