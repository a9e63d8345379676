/* SPDX-License-Identifier: MIT */
/* A channel for tests; each helper does a request and its wait in a single call. */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "base/spawner.h"
#include "channel/channel.h"
#include "channel/request.h"
#include "channel/staging.h"

#define END_SIZE 256

struct fixture {
	struct spawner spawner;
	struct channel *channel;
	struct staging staging;

	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned int n_ended;
	char reason[END_SIZE];
};

/* A request and its answer. */
struct question {
	struct request request;
	struct fixture *fixture;
	struct wire_reply reply;
	bool lost;
	unsigned int n_answers;
};

/* Starts the worker program as config says; staging and callbacks are filled in. */
void fixture_start(struct fixture *fixture, struct channel_config config,
		   unsigned int n_slots);
void fixture_stop(struct fixture *fixture);

bool fixture_has_ended(struct fixture *fixture);

/* Waits until the channel has ended. Returns: the reason, the fixture's. */
const char *fixture_wait_end(struct fixture *fixture);

/* Asks without waiting. fd goes along, -1 for none. */
void question_ask(struct question *question, struct fixture *fixture,
		  struct wire_request request, int fd);
void question_done(struct request *request, const struct wire_reply *reply, bool lost);
void question_wait(struct question *question);

/* Asks and waits. Returns: the reply's error; the whole reply in *ret_reply unless NULL.
 */
int fixture_ask(struct fixture *fixture, struct wire_request request, int fd,
		struct wire_reply *ret_reply);
