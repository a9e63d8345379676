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

#define N_USERS	    4
#define N_OF_USER   75
#define N_LEASES    (N_USERS * N_OF_USER)
#define N_AT_A_TIME 64

TestSuite(lease_show, .timeout = 60);

static struct broker *watched; /* atomic */
static __thread unsigned int n_takings, n_lines, n_lines_held;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
void __real_text_time(struct text *text, int64_t time_s);
void __wrap_text_time(struct text *text, int64_t time_s);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	const struct broker *broker = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	n_takings += broker && mutex == &broker->registry->lock;
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

Test(lease_show, no_line_is_made_under_the_lock_and_few_are_copied_at_a_time)
{
	struct lease *leases[N_LEASES];
	struct broker *broker;
	struct token x;

	raise_limit();
	broker = broker_start("64M", NULL);
	cr_assert(eq(int, command_say(broker, "alloc", "x 4K mode=0666 map=readers"), 0));
	x = allocation_named(broker, "x");
	for (unsigned int i = 0; i < N_LEASES; i++) {
		const struct caller user = { .uid = 1000 + i % N_USERS, .pid = getpid() };
		const struct lease_name name = { i + 1, i + 1 };

		cr_assert(eq(int,
			     broker_lease_open(broker, x, &user, false, name, ignore,
					       NULL, &leases[i]),
			     0));
	}
	show(broker, OBJECT_BROKER, (struct token){ 0 });
	show(broker, OBJECT_ALLOCATION, x);
	for (unsigned int i = 0; i < N_LEASES; i++)
		broker_lease_close(leases[i]);
	broker_end(broker);
}
