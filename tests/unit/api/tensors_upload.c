/* SPDX-License-Identifier: MIT */
/* Looks at texts of `tensors`, which the threads of the view take, by the write itself.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <semaphore.h>

#include "api/upload_class.h"
#include "base/refusal.h"
#include "model/tensors.h"
#include "unit/broker_help.h"

TestSuite(tensors_upload, .timeout = 60);

static struct broker *broker;
static struct token token;
static sem_t looking, go;
static unsigned int n_looks; /* atomic */

int __wrap_tensors_check(const char *text, size_t length, uint64_t size,
			 struct refusal *refusal);

/* A text that takes long to check. */
int __wrap_tensors_check(const char *text, size_t length, uint64_t size,
			 struct refusal *refusal)
{
	(void)text;
	(void)length;
	(void)size;
	__atomic_add_fetch(&n_looks, 1, __ATOMIC_SEQ_CST);
	sem_post(&looking);
	sem_wait(&go);
	return refuse(refusal, EINVAL, "wrong");
}

static int look(void)
{
	struct refusal refusal;

	return tensors_upload.look(broker, token, "{}", 2, &refusal);
}

static void *look_long(void *unused)
{
	(void)unused;
	cr_expect(eq(int, look(), -EINVAL));
	return NULL;
}

/* Else the users together take all threads of the view. */
Test(tensors_upload, one_look_is_taken_at_a_time)
{
	pthread_t thread;

	broker = broker_start("64M", NULL);
	sem_init(&looking, 0, 0);
	sem_init(&go, 0, 0);
	cr_assert(eq(int, command_say(broker, "alloc", "x 4K kind=host"), 0));
	token = allocation_named(broker, "x");
	cr_assert(eq(int, pthread_create(&thread, NULL, look_long, NULL), 0));
	sem_wait(&looking);
	cr_expect(eq(int, look(), 0));
	cr_expect(eq(uint, n_looks, 1));
	sem_post(&go);
	pthread_join(thread, NULL);
	sem_post(&go);
	cr_expect(eq(int, look(), -EINVAL));
	cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	broker_end(broker);
}
