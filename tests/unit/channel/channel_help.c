/* SPDX-License-Identifier: MIT */
#include "unit/channel/channel_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

static void fixture_ended(void *userdata, struct channel *channel, const char *reason)
{
	struct fixture *fixture = userdata;

	(void)channel;
	pthread_mutex_lock(&fixture->lock);
	fixture->n_ended++;
	snprintf(fixture->reason, sizeof(fixture->reason), "%s", reason);
	pthread_cond_broadcast(&fixture->change);
	pthread_mutex_unlock(&fixture->lock);
}

void fixture_start(struct fixture *fixture, struct channel_config config,
		   unsigned int n_slots)
{
	*fixture = (struct fixture){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.change = PTHREAD_COND_INITIALIZER,
	};
	cr_assert(eq(int, spawner_init(&fixture->spawner), 0));
	cr_assert(eq(int, staging_init(&fixture->staging, "test", n_slots), 0));
	config.spawner = &fixture->spawner;
	config.staging_fd = fixture->staging.fd;
	config.staging_size = fixture->staging.size;
	config.output_fd = -1;
	config.ended = fixture_ended;
	config.userdata = fixture;
	cr_assert(eq(int, channel_new(&fixture->channel, &config), 0));
}

void fixture_stop(struct fixture *fixture)
{
	fixture->channel = channel_free(fixture->channel);
	cr_assert(eq(u32, fixture->n_ended, 1));
	spawner_deinit(&fixture->spawner);
	staging_deinit(&fixture->staging);
}

bool fixture_has_ended(struct fixture *fixture)
{
	bool ended;

	pthread_mutex_lock(&fixture->lock);
	ended = fixture->n_ended > 0;
	pthread_mutex_unlock(&fixture->lock);
	return ended;
}

const char *fixture_wait_end(struct fixture *fixture)
{
	pthread_mutex_lock(&fixture->lock);
	while (!fixture->n_ended)
		pthread_cond_wait(&fixture->change, &fixture->lock);
	pthread_mutex_unlock(&fixture->lock);
	return fixture->reason;
}

void question_done(struct request *request, const struct wire_reply *reply, bool lost)
{
	struct question *question = container_of(request, struct question, request);
	struct fixture *fixture = question->fixture;

	pthread_mutex_lock(&fixture->lock);
	question->reply = *reply;
	question->lost = lost;
	question->n_answers++;
	pthread_cond_broadcast(&fixture->change);
	pthread_mutex_unlock(&fixture->lock);
}

void question_ask(struct question *question, struct fixture *fixture,
		  struct wire_request request, int fd)
{
	*question = (struct question){
		.request = { .record = request, .fd = fd, .done = question_done },
		.fixture = fixture,
	};
	channel_send(fixture->channel, &question->request);
}

void question_wait(struct question *question)
{
	struct fixture *fixture = question->fixture;

	pthread_mutex_lock(&fixture->lock);
	while (!question->n_answers)
		pthread_cond_wait(&fixture->change, &fixture->lock);
	pthread_mutex_unlock(&fixture->lock);
	cr_assert(eq(u32, question->n_answers, 1));
}

int fixture_ask(struct fixture *fixture, struct wire_request request, int fd,
		struct wire_reply *ret_reply)
{
	struct question question;

	question_ask(&question, fixture, request, fd);
	question_wait(&question);
	if (ret_reply)
		*ret_reply = question.reply;
	return question.reply.error;
}
