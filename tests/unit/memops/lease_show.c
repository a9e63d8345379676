/* SPDX-License-Identifier: MIT */
/*
 * Lists of leases are as long as all users like. The linker puts these functions in front
 * of the lock's, and of the function that each line calls once.
 */
#include "api/attribute.h"
#include "memops/lease.h"
#include "memops/lease_file.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define N_USERS	    4
#define N_OF_USER   75
#define N_LEASES    (N_USERS * N_OF_USER)
#define N_AT_A_TIME 64

TestSuite(lease_show, .timeout = 60);

static struct broker *watched; /* atomic */
static __thread unsigned int n_takings, n_lines, n_lines_held, n_walks;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
void __real_text_time(struct text *text, int64_t time_s);
void __wrap_text_time(struct text *text, int64_t time_s);
void __real_leases_walk(struct broker *broker,
			void (*look)(struct lease *lease, void *userdata),
			void *userdata);
void __wrap_leases_walk(struct broker *broker,
			void (*look)(struct lease *lease, void *userdata),
			void *userdata);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	const struct broker *broker = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	if (broker && mutex == &broker->registry->lock)
		n_takings++;
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

void __wrap_leases_walk(struct broker *broker,
			void (*look)(struct lease *lease, void *userdata), void *userdata)
{
	n_walks++;
	__real_leases_walk(broker, look, userdata);
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
	for (unsigned int i = 0; i < N_LEASES; i++) {
		if (leases[i])
			broker_lease_close(leases[i]);
	}
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

/* By the thread that asked. */
static __thread unsigned int n_told_here;

static void count(void *userdata)
{
	n_told_here++;
	__atomic_fetch_add((unsigned int *)userdata, 1, __ATOMIC_RELEASE);
}

/* Makes the allocation y in the folder a, and opens a lease. */
static struct lease *lease_in_folder(void (*wake)(void *userdata), void *userdata)
{
	const struct lease_name name = { N_LEASES + 1, N_LEASES + 1 };
	struct token folder, y;
	struct lease *lease;

	cr_assert(eq(int, object_make(shown, OBJECT_ALLOCATION, "a", &folder), 0));
	cr_assert(eq(int, command_say(shown, "alloc", "a/y 4K"), 0));
	cr_assert(eq(int, object_find(shown, OBJECT_ALLOCATION, folder, "y", &y), 0));
	cr_assert(eq(int,
		     broker_lease_open(shown, y, &nobody_special, false, name, wake,
				       userdata, &lease),
		     0));
	return lease;
}

/* Linux locks the folders above until a rename is answered. */
Test(lease_show, leases_are_told_of_a_new_name_after_the_rename, .init = start,
     .fini = stop)
{
	unsigned int n_told = 0;
	struct lease *lease = lease_in_folder(count, &n_told);

	n_walks = 0;
	folder_rename("a", "b");
	folder_rename("b", "c");
	cr_expect(eq(uint, n_walks, 0));
	while (!__atomic_load_n(&n_told, __ATOMIC_ACQUIRE))
		usleep(1000);
	broker_lease_close(lease);
}

Test(lease_show, many_leases_of_an_allocation_are_told_after_the_rename, .init = start,
     .fini = stop)
{
	const struct lease_name name = { N_LEASES + 1, N_LEASES + 1 };
	unsigned int n_told = 0;
	struct lease *lease;

	cr_assert(eq(int,
		     broker_lease_open(shown, x, &nobody_special, false, name, count,
				       &n_told, &lease),
		     0));
	for (unsigned int i = 1; i <= 2; i++) {
		n_told_here = 0;
		folder_rename(i == 1 ? "x" : "y", i == 1 ? "y" : "z");
		cr_expect(eq(uint, n_told_here, 0));
		while (__atomic_load_n(&n_told, __ATOMIC_ACQUIRE) < i)
			usleep(1000);
	}
	broker_lease_close(lease);
}

/* A task that keeps a thread of the work queue. */
struct stop {
	struct task task;
	bool over; /* atomic */
};

static void stop_run(struct task *task)
{
	const struct stop *stop = container_of(task, struct stop, task);

	while (!__atomic_load_n(&stop->over, __ATOMIC_ACQUIRE))
		usleep(1000);
}

Test(lease_show, poll_says_what_leases_are_yet_to_be_told, .init = start, .fini = stop)
{
	struct lease *lease = lease_in_folder(ignore, NULL);
	struct stop stops[WORKQUEUE_SHARE] = { 0 };
	struct answer text;

	broker_lease_read(lease, answer_expect(&text));
	answer_get(&text);
	cr_expect(not(broker_lease_changed(lease)));
	for (unsigned int i = 0; i < WORKQUEUE_SHARE; i++) {
		stops[i].task = (struct task){ .run = stop_run, .length = TASK_LONG };
		workqueue_add(shown->workqueue, 0, &stops[i].task);
	}
	folder_rename("a", "b");
	cr_expect(broker_lease_changed(lease));
	cr_expect(not(broker_lease_changed(leases[0])));
	for (unsigned int i = 0; i < WORKQUEUE_SHARE; i++)
		__atomic_store_n(&stops[i].over, true, __ATOMIC_RELEASE);
	broker_settle(shown);
	broker_lease_read(lease, answer_expect(&text));
	answer_get(&text);
	cr_expect(not(broker_lease_changed(lease)));
	broker_lease_close(lease);
}

static unsigned int count_pidfds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned int n = 0;
	char link[64];
	ssize_t length;

	while ((entry = readdir(folder))) {
		length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
		link[MAX(length, 0)] = '\0';
		n += strstr(link, "pidfd") != NULL;
	}
	closedir(folder);
	return n;
}

/* A close looks at all locks that users have put on a pidfd. */
Test(lease_show, a_process_has_one_pidfd_for_all_of_its_leases, .init = start,
     .fini = stop)
{
	/* Workers have some, too. */
	cr_expect(lt(uint, count_pidfds(), N_LEASES / 10));
}

/* Its process may end while the next broker still makes files for the leases. */
Test(lease_show, the_place_among_leases_that_are_left_passes_a_lease_that_ends,
     .init = start, .fini = stop)
{
	pthread_mutex_lock(&shown->registry->lock);
	shown->leases->left = leases[5];
	pthread_mutex_unlock(&shown->registry->lock);
	broker_lease_close(leases[5]);
	pthread_mutex_lock(&shown->registry->lock);
	cr_expect(eq(ptr, shown->leases->left, leases[6]));
	shown->leases->left = NULL;
	pthread_mutex_unlock(&shown->registry->lock);
	leases[5] = NULL;
}
