/* SPDX-License-Identifier: MIT */
/*
 * Counts how often an operation takes registry.lock, the one lock that all users share.
 * The linker sends each pthread_mutex_lock() of this program through the counter. Only
 * the housekeeper, which works by the clock, is left out, so the counts are the same on
 * every run. A failure prints the place of each taking in the source, and so does
 * `--verbose`.
 */
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/broker.h"
#include "api/upload.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#define TAKINGS_MAX    64
#define WRITE_TAKINGS  3
#define LAUNCH_TAKINGS 4

TestSuite(locks, .timeout = 60);

extern const char __executable_start[];

static struct broker *watched; /* set while takings are counted; atomic */
static unsigned int n_takings; /* atomic */
static const char *takings[TAKINGS_MAX];
static __thread bool uncounted;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct broker *broker = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	if (broker && mutex == &broker->registry->lock && !uncounted &&
	    !pthread_equal(pthread_self(), broker->processes->housekeeper)) {
		unsigned int i = __atomic_fetch_add(&n_takings, 1, __ATOMIC_RELAXED);

		if (i < TAKINGS_MAX)
			takings[i] = __builtin_return_address(0);
	}
	return __real_pthread_mutex_lock(mutex);
}

static void count_begin(struct broker *broker)
{
	broker_settle(broker);
	n_takings = 0;
	__atomic_store_n(&watched, broker, __ATOMIC_RELEASE);
}

/* The place of a call in the source, such as `op_done at op.c:416`. */
static void place_of(const char *address, char *place, size_t size)
{
	char command[128];
	FILE *output;

	snprintf(place, size, "%p\n", (const void *)address);
	snprintf(command, sizeof(command), "addr2line -sfpe /proc/%d/exe %#zx", getpid(),
		 (size_t)(address - __executable_start) - 1);
	output = popen(command, "re");
	if (!output)
		return;
	(void)fgets(place, (int)size, output);
	pclose(output);
}

/* Waits for the end of the operation, which may come after its answer. */
static void expect_takings(struct broker *broker, unsigned int most)
{
	_cleanup_text_ struct text places = TEXT_INIT;
	char place[256];

	uncounted = true;
	broker_settle(broker);
	__atomic_store_n(&watched, NULL, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < n_takings && i < TAKINGS_MAX; i++) {
		place_of(takings[i], place, sizeof(place));
		text_printf(&places, "%s", place);
	}
	uncounted = false;
	cr_log_info("%u times\n%s", n_takings, text_string(&places));
	cr_expect(le(uint, n_takings, most), "%s", text_string(&places));
}

Test(locks, write_of_a_mebibyte)
{
	struct broker *broker = broker_start("64M", NULL);
	static uint8_t bytes[1 << 20];
	struct token x;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4M"), 0));
	x = allocation_named(broker, "x");
	cr_assert(eq(int, (int)data_write(broker, x, 0, bytes, sizeof(bytes)), 1 << 20));
	count_begin(broker);
	cr_assert(eq(int, (int)data_write(broker, x, 0, bytes, sizeof(bytes)), 1 << 20));
	expect_takings(broker, WRITE_TAKINGS);
	broker_end(broker);
}

/* The numbers of all are in the listing, so that nobody has to ask for each. */
Test(locks, listing_of_many_names)
{
	struct broker *broker = broker_start("64M", NULL);
	const struct caller user = { .uid = 1000 };
	struct listing entries[32];
	struct object_stat stat;
	size_t n;

	for (int i = 0; i < 32; i++)
		cr_assert(eq(int, command_say(broker, "alloc", "x%d 4K", i), 0));
	count_begin(broker);
	n = broker_list(broker, OBJECT_ALLOCATION, (struct token){ 0 }, &user, 0, entries,
			ARRAY_SIZE(entries));
	expect_takings(broker, 1);
	cr_assert(eq(sz, n, 32));
	for (size_t i = 0; i < n; i++) {
		cr_assert(eq(int,
			     broker_stat(broker, entries[i].object.type,
					 entries[i].object.token, &stat),
			     0));
		cr_expect(eq(u64, entries[i].id, stat.id));
	}
	broker_end(broker);
}

static void module_load(struct broker *broker, const char *name, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct answer answer;
	struct upload *upload;
	char image[8192];
	struct token token;
	ssize_t length;

	length = read(fd, image, sizeof(image));
	cr_assert(gt(long, length, 0), "%s", path);
	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, name, &token), 0));
	cr_assert(eq(int,
		     upload_new(&upload, broker, OBJECT_MODULE, token, &nobody_special),
		     0));
	cr_assert(eq(int, upload_resize(upload, 42, 0), 0));
	cr_assert(eq(int, upload_write(upload, 42, 0, image, (size_t)length), 0));
	upload_flush(upload, 42, answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), 0));
	upload_free(upload);
}

Test(locks, launch)
{
	static const char line[] = "saxpy saxpy grid=1 block=1 u32:1 f32:2 in:x y\n";
	struct broker *broker = broker_start("64M", NULL);
	struct control *control;

	module_load(broker, "saxpy", getenv("GPUMEM_SAXPY"));
	cr_assert(eq(int, command_say(broker, "alloc", "x 4K"), 0));
	cr_assert(eq(int, command_say(broker, "alloc", "y 4K"), 0));
	control = control_open(broker, "launch");
	cr_assert(eq(long, control_say(control, line), (long)strlen(line)));
	count_begin(broker);
	cr_assert(eq(long, control_say(control, line), (long)strlen(line)));
	expect_takings(broker, LAUNCH_TAKINGS);
	control_free(control);
	broker_end(broker);
}
