/* SPDX-License-Identifier: MIT */
/*
 * Lists of leases are as long as all users like. The linker puts these functions in front
 * of the lock's, and of the function that each line calls once.
 */
#include "api/attribute.h"
#include "memops/lease_file.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define N_USERS		 4
#define N_OF_USER	 75
#define N_LEASES	 (N_USERS * N_OF_USER)
#define N_AT_A_TIME	 64
#define N_TOLD_AT_A_TIME 260

TestSuite(lease_show, .timeout = 60);

static struct broker *watched; /* atomic */
static __thread unsigned int n_takings, n_lines, n_lines_held, n_below, n_below_held,
	most_below_held;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
void __real_text_time(struct text *text, int64_t time_s);
void __wrap_text_time(struct text *text, int64_t time_s);
bool __real_folder_is_below(const struct folder *folder, const struct entry *above);
bool __wrap_folder_is_below(const struct folder *folder, const struct entry *above);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	const struct broker *broker = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	if (broker && mutex == &broker->registry->lock) {
		n_takings++;
		n_below_held = 0;
	}
	return __real_pthread_mutex_lock(mutex);
}

/* The C library notes the thread that has a lock. */
static bool is_held(void)
{
	const struct broker *broker = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	return broker && __atomic_load_n(&broker->registry->lock.__data.__owner,
					 __ATOMIC_RELAXED) == gettid();
}

void __wrap_text_time(struct text *text, int64_t time_s)
{
	n_lines++;
	n_lines_held += is_held();
	__real_text_time(text, time_s);
}

bool __wrap_folder_is_below(const struct folder *folder, const struct entry *above)
{
	n_below++;
	most_below_held = MAX(most_below_held, ++n_below_held);
	return __real_folder_is_below(folder, above);
}

static const struct attribute *leases_of(enum object_type type)
{
	const struct attribute_table *table = &attribute_tables[type];

	for (const struct attribute *row = table->rows; row < table->rows + table->n;
	     row++) {
		if (!strcmp(row->name, "leases") && row->print)
			return row;
	}
	return NULL;
}

static void ignore(void *userdata)
{
	(void)userdata;
}

static void raise_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void show(struct broker *broker, enum object_type type, struct token token)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	n_takings = n_lines = n_lines_held = 0;
	__atomic_store_n(&watched, broker, __ATOMIC_RELEASE);
	cr_assert(eq(int, leases_of(type)->print(broker, token, &text), 0));
	__atomic_store_n(&watched, NULL, __ATOMIC_RELEASE);
	cr_expect(eq(uint, n_lines, N_LEASES), "%s", text_string(&text));
	cr_expect(eq(uint, n_lines_held, 0));
	cr_expect(ge(uint, n_takings, N_LEASES / N_AT_A_TIME));
}

static struct broker *shown;
static struct token x;
static struct lease *leases[N_LEASES];

static void start(void)
{
	raise_limit();
	shown = broker_start("64M", NULL);
	cr_assert(eq(int, command_say(shown, "alloc", "x 4K mode=0666 map=readers"), 0));
	x = allocation_named(shown, "x");
	for (unsigned int i = 0; i < N_LEASES; i++) {
		const struct caller user = { .uid = 1000 + i % N_USERS, .pid = getpid() };
		const struct lease_name name = { i + 1, i + 1 };

		cr_assert(eq(int,
			     broker_lease_open(shown, x, &user, false, name, ignore, NULL,
					       &leases[i]),
			     0));
	}
}

static void stop(void)
{
	for (unsigned int i = 0; i < N_LEASES; i++)
		broker_lease_close(leases[i]);
	broker_end(shown);
}

Test(lease_show, no_line_is_made_under_the_lock_and_few_are_copied_at_a_time,
     .init = start, .fini = stop)
{
	show(shown, OBJECT_BROKER, (struct token){ 0 });
	show(shown, OBJECT_ALLOCATION, x);
}

static void folder_rename(const char *from, const char *to)
{
	const struct name_in places[] = { { TOKEN_NONE, from }, { TOKEN_NONE, to } };

	cr_assert(eq(int,
		     broker_rename(shown, OBJECT_ALLOCATION, places[0], places[1], 0,
				   &nobody_special),
		     0));
}

Test(lease_show, others_get_the_lock_while_leases_are_told_of_a_new_name, .init = start,
     .fini = stop)
{
	struct token folder;

	cr_assert(eq(int, object_make(shown, OBJECT_ALLOCATION, "a", &folder), 0));
	__atomic_store_n(&watched, shown, __ATOMIC_RELEASE);
	n_below = most_below_held = 0;
	folder_rename("a", "b");
	/* The rename itself looks where the folder goes. */
	cr_expect(le(uint, n_below, 2));
	cr_assert(eq(int, command_say(shown, "alloc", "b/y 4K"), 0));
	folder_rename("b", "a");
	cr_expect(ge(uint, n_below, N_LEASES));
	cr_expect(le(uint, most_below_held, N_TOLD_AT_A_TIME));
	__atomic_store_n(&watched, NULL, __ATOMIC_RELEASE);
}
