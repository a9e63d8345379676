/* SPDX-License-Identifier: MIT */
#include "pace.h"

#include "base/clock.h"
#include "base/def.h"
#include "base/hash.h"
#include "base/subordinates.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* The answer to a write is the header and a count, or the header alone. */
struct write_answer {
	struct fuse_out_header header;
	struct fuse_write_out written;
};

struct large_write {
	uint64_t unique;
	struct pace_user *user;
	uint32_t pid; /* of the thread */
	struct write_answer answer;
	struct large_write *prev, *next; /* of user->held */
	UT_hash_handle hh;
};

struct out {
	uint32_t pid;
	uint64_t since_ns;
};

/* A user without writes and without answers that are out is freed by another's first. */
struct pace_user {
	uint64_t number;
	unsigned int n_large;
	unsigned int n_out;
	struct out out[PACE_OUT]; /* the oldest first */
	struct large_write *held; /* the oldest first */
	UT_hash_handle hh;
};

/* ---- users, under the lock ---- */

static void out_drop(struct pace_user *user, unsigned int i)
{
	user->n_out--;
	memmove(&user->out[i], &user->out[i + 1], (user->n_out - i) * sizeof(*user->out));
}

static void out_expire(struct pace_user *user, uint64_t now_ns, uint64_t longest_ns)
{
	while (user->n_out && now_ns - user->out[0].since_ns >= longest_ns)
		out_drop(user, 0);
}

static void out_come_back(struct pace_user *user, uint32_t pid)
{
	for (unsigned int i = 0; i < user->n_out; i++) {
		if (user->out[i].pid == pid) {
			out_drop(user, i);
			return;
		}
	}
}

static void users_tidy(struct pace *pace)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	struct pace_user *user, *next;

	HASH_ITER (hh, pace->users, user, next) {
		out_expire(user, now_ns, PACE_BUSY_NS);
		if (user->n_large || user->n_out)
			continue;
		HASH_DEL(pace->users, user);
		free(user);
	}
}

/* NULL: no memory. */
static struct pace_user *user_of(struct pace *pace, uint64_t number)
{
	struct pace_user *user;

	HASH_FIND(hh, pace->users, &number, sizeof(number), user);
	if (user)
		return user;
	users_tidy(pace);
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->number = number;
	HASH_ADD(hh, pace->users, number, sizeof(user->number), user);
	return user;
}

/* ---- large writes, under the lock ---- */

/* Without memory a write is not paced. */
static void large_add(struct pace *pace, const struct fuse_in_header *request,
		      struct pace_user *user)
{
	struct large_write *large = calloc(1, sizeof(*large));

	if (!large)
		return;
	large->unique = request->unique;
	large->user = user;
	large->pid = request->pid;
	user->n_large++;
	HASH_ADD(hh, pace->large, unique, sizeof(large->unique), large);
	__atomic_store_n(&pace->n_large, HASH_COUNT(pace->large), __ATOMIC_RELEASE);
}

static void large_free(struct pace *pace, struct large_write *large)
{
	large->user->n_large--;
	HASH_DEL(pace->large, large);
	__atomic_store_n(&pace->n_large, HASH_COUNT(pace->large), __ATOMIC_RELEASE);
	free(large);
}

/* The answer goes out now. */
static void large_goes_out(struct pace *pace, struct large_write *large)
{
	struct pace_user *user = large->user;

	if (user->n_out < PACE_OUT)
		user->out[user->n_out++] =
			(struct out){ .pid = large->pid,
				      .since_ns = clock_ns(CLOCK_MONOTONIC) };
	large_free(pace, large);
}

static void large_hold(struct pace *pace, struct large_write *large,
		       const struct iovec *iov, int n)
{
	uint8_t *to = (uint8_t *)&large->answer;

	for (int i = 0; i < n; i++) {
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	DL_APPEND(large->user->held, large);
	pace->n_held++;
}

static bool user_may_have_more(const struct pace *pace, const struct pace_user *user)
{
	return pace->stopped || user->n_out < PACE_OUT;
}

/* Sends what may be sent. */
static void user_release(struct pace *pace, struct pace_user *user)
{
	while (user->held && user_may_have_more(pace, user)) {
		struct large_write *large = user->held;
		struct write_answer answer = large->answer;

		DL_DELETE(user->held, large);
		pace->n_held--;
		large_goes_out(pace, large);
		/* The writer may have gone. */
		(void)pace->send(pace->fd, &(struct iovec){ &answer, answer.header.len },
				 1);
	}
}

/* ---- from outside ---- */

static bool is_awaited(const struct pace *pace)
{
	struct pollfd requests = { .fd = pace->fd, .events = POLLIN };

	return poll(&requests, 1, 0) > 0;
}

/* The watchdog's. */
static bool look(void *userdata)
{
	struct pace *pace = userdata;
	uint64_t longest_ns = is_awaited(pace) ? PACE_BUSY_NS : PACE_NS;
	struct pace_user *user, *next;
	uint64_t now_ns;
	bool more;

	pthread_mutex_lock(&pace->lock);
	now_ns = clock_ns(CLOCK_MONOTONIC);
	HASH_ITER (hh, pace->users, user, next) {
		if (!user->held)
			continue;
		out_expire(user, now_ns, longest_ns);
		user_release(pace, user);
	}
	more = pace->n_held;
	pthread_mutex_unlock(&pace->lock);
	return more;
}

void pace_note(struct pace *pace, const struct fuse_in_header *request)
{
	struct pace_user *user;
	uint64_t number;

	if (request->opcode != FUSE_WRITE || request->len < PACE_LARGE)
		return;
	number = subordinates_user(pace->subordinates, request->uid);
	pthread_mutex_lock(&pace->lock);
	user = pace->stopped ? NULL : user_of(pace, number);
	if (user) {
		out_come_back(user, request->pid);
		large_add(pace, request, user);
		user_release(pace, user);
	}
	pthread_mutex_unlock(&pace->lock);
}

/* Whether the write's answer, which was made, has to wait. */
static bool large_has_to_wait(struct pace *pace, struct large_write *large)
{
	struct pace_user *user = large->user;

	out_expire(user, clock_ns(CLOCK_MONOTONIC), PACE_BUSY_NS);
	return user->held || !user_may_have_more(pace, user);
}

/* Whether the answer is held. */
static bool holds(struct pace *pace, const struct iovec *iov, int n)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	struct large_write *large;
	bool held = false;

	pthread_mutex_lock(&pace->lock);
	HASH_FIND(hh, pace->large, &header->unique, sizeof(header->unique), large);
	if (large) {
		held = header->len <= sizeof(large->answer) &&
		       large_has_to_wait(pace, large);
		if (held)
			large_hold(pace, large, iov, n);
		else
			large_goes_out(pace, large);
	}
	pthread_mutex_unlock(&pace->lock);
	return held;
}

ssize_t pace_answer(struct pace *pace, int fd, struct iovec *iov, int n)
{
	if (!__atomic_load_n(&pace->n_large, __ATOMIC_ACQUIRE) || !holds(pace, iov, n))
		return pace->send(fd, iov, n);
	watchdog_wake(&pace->watchdog);
	return ((const struct fuse_out_header *)iov[0].iov_base)->len;
}

void pace_stop(struct pace *pace)
{
	struct pace_user *user, *next;

	pthread_mutex_lock(&pace->lock);
	pace->stopped = true;
	HASH_ITER (hh, pace->users, user, next)
		user_release(pace, user);
	pthread_mutex_unlock(&pace->lock);
}

void pace_go_on(struct pace *pace)
{
	pthread_mutex_lock(&pace->lock);
	pace->stopped = false;
	pthread_mutex_unlock(&pace->lock);
}

int pace_init(struct pace *pace, int fd, pace_send *send,
	      struct subordinates *subordinates)
{
	*pace = (struct pace){ .fd = fd,
			       .send = send,
			       .subordinates = subordinates,
			       .lock = PTHREAD_MUTEX_INITIALIZER };
	return watchdog_init(&pace->watchdog, look, pace);
}

void pace_deinit(struct pace *pace)
{
	struct pace_user *user, *next_user;
	struct large_write *large, *next;

	watchdog_deinit(&pace->watchdog);
	pthread_mutex_lock(&pace->lock);
	HASH_ITER (hh, pace->large, large, next)
		large_free(pace, large);
	HASH_ITER (hh, pace->users, user, next_user) {
		HASH_DEL(pace->users, user);
		free(user);
	}
	pthread_mutex_unlock(&pace->lock);
	pthread_mutex_destroy(&pace->lock);
}
