/* SPDX-License-Identifier: MIT */
#include "keep/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <utlist.h>

#include "base/crash.h"
#include "base/def.h"
#include "keep/message.h"

#define SEND_MS 100 /* a keeper that reads nothing for so long is left alone */

/* A descriptor of the last broker. */
struct kept {
	struct keep_key key;
	int fd;		  /* -1: taken */
	bool is_replaced; /* by keep_put(); left_lock */
};

/*
 * A question of a thread that waits for the answer. The keeper answers some questions
 * late, and others before them.
 */
struct question {
	uint32_t answer;     /* the word */
	struct keep_key key; /* in the answer */
	bool is_answered;
	struct question *prev, *next;
};

struct keep {
	int socket;
	bool understands_late; /* the keeper knows KEEP_DROP_LATE */
	pthread_mutex_t lock;
	pthread_cond_t heard;	    /* an answer came, or nobody receives any more */
	struct question *questions; /* without an answer, the oldest first; lock */
	bool receiving;		    /* a thread does, for all questions; lock */
	int lost;		    /* -errno: no answer comes any more; lock */
	struct kept *left;	    /* by the last broker, by key */
	size_t n_left;
	pthread_mutex_t left_lock;
	pthread_mutex_t forget_lock; /* taken last */
	struct keep_key *forgotten;  /* the keeper is still to hear of */
	size_t n_forgotten, forgotten_capacity;
	size_t n_settled;    /* the first of them */
	unsigned int n_puts; /* since the last answer */
	bool is_full;	     /* says the last answer */
};

static int key_compare(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

static int left_add(struct keep *keep, struct keep_key key, int fd)
{
	struct kept *more;

	/* At each power of two. */
	if ((keep->n_left & (keep->n_left - 1)) == 0) {
		more = reallocarray(keep->left, MAX(2 * keep->n_left, (size_t)1),
				    sizeof(*more));
		if (!more) {
			closep(&fd);
			return -ENOMEM;
		}
		keep->left = more;
	}
	keep->left[keep->n_left++] = (struct kept){ .key = key, .fd = fd };
	return 0;
}

static int receive_left(struct keep *keep)
{
	struct keep_message message;
	int fd, r;

	while ((r = keep_receive(keep->socket, 0, &message, &fd)) == 0 &&
	       message.word != KEEP_ALL) {
		/* Beyond the limit of open files the kernel leaves descriptors out. */
		r = fd < 0 ? -EMFILE : left_add(keep, message.key, fd);
		if (r < 0)
			return r;
	}
	keep->understands_late = r == 0 && message.key.number >= KEEP_WITH_LATE;
	if (keep->n_left)
		qsort(keep->left, keep->n_left, sizeof(*keep->left), key_compare);
	return r;
}

int keep_open(struct keep **ret_keep)
{
	const char *end = getenv(KEEP_ENV);
	struct keep *keep;

	*ret_keep = NULL;
	if (!end)
		return 0;
	keep = calloc(1, sizeof(*keep));
	if (!keep)
		return -ENOMEM;
	pthread_mutex_init(&keep->lock, NULL);
	pthread_cond_init(&keep->heard, NULL);
	pthread_mutex_init(&keep->left_lock, NULL);
	pthread_mutex_init(&keep->forget_lock, NULL);
	if (sscanf(end, "%d", &keep->socket) != 1) {
		keep->socket = -1;
		keep_free(keep);
		return -EINVAL;
	}
	unsetenv(KEEP_ENV);
	/* The keeper starts brokers as /proc/self/exe. */
	(void)prctl(PR_SET_NAME, "gpumemd");
	(void)fcntl(keep->socket, F_SETFD, FD_CLOEXEC);
	*ret_keep = keep;
	return 0;
}

/* A signal would otherwise wait, and end the broker that the standby becomes. */
static void wait_for_messages(const struct keep *keep)
{
	struct pollfd messages = { .fd = keep->socket, .events = POLLIN };
	sigset_t none;

	if (poll(&messages, 1, 0) > 0)
		return;
	(void)prctl(PR_SET_NAME, "gpumemd-standby");
	sigemptyset(&none);
	while (ppoll(&messages, 1, NULL, &none) < 0 && errno == EINTR)
		;
	(void)prctl(PR_SET_NAME, "gpumemd");
}

int keep_stand_by(struct keep *keep)
{
	if (!keep)
		return 0;
	wait_for_messages(keep);
	crash_begin();
	return receive_left(keep);
}

struct keep *keep_free(struct keep *keep)
{
	if (!keep)
		return NULL;
	closep(&keep->socket);
	free(keep->left);
	free(keep->forgotten);
	pthread_cond_destroy(&keep->heard);
	pthread_mutex_destroy(&keep->lock);
	pthread_mutex_destroy(&keep->left_lock);
	pthread_mutex_destroy(&keep->forget_lock);
	free(keep);
	return NULL;
}

const char *keep_mountpoint(const struct keep *keep)
{
	return keep ? getenv(KEEP_ENV_MOUNTPOINT) : NULL;
}

const char *keep_driver(const struct keep *keep)
{
	return keep ? getenv(KEEP_ENV_DRIVER) : NULL;
}

bool keep_goes_on(const struct keep *keep)
{
	return keep && keep->n_left > 0;
}

static struct kept *left_find(const struct keep *keep, struct keep_key key)
{
	const struct kept wanted = { .key = key };

	return keep->n_left ? bsearch(&wanted, keep->left, keep->n_left, sizeof(wanted),
				      key_compare)
			    : NULL;
}

int keep_take(struct keep *keep, struct keep_key key)
{
	struct kept *found = keep ? left_find(keep, key) : NULL;

	return found ? take_fd(&found->fd) : -1;
}

int keep_take_any(struct keep *keep, enum keep_kind kind, struct keep_key *ret_key)
{
	for (size_t i = 0; keep && i < keep->n_left; i++) {
		if (keep->left[i].key.kind == kind && keep->left[i].fd >= 0) {
			*ret_key = keep->left[i].key;
			return take_fd(&keep->left[i].fd);
		}
	}
	return -1;
}

/*
 * Where the last broker died between the message and the record, this broker may use the
 * same record, and so the same key.
 */
static void left_replace(struct keep *keep, struct keep_key key)
{
	struct kept *found = left_find(keep, key);

	if (!found)
		return;
	pthread_mutex_lock(&keep->left_lock);
	found->is_replaced = true;
	pthread_mutex_unlock(&keep->left_lock);
}

int keep_put(struct keep *keep, struct keep_key key, int fd)
{
	int r;

	if (!keep)
		return 0;
	left_replace(keep, key);
	crash_point("keeper: before a descriptor is sent");
	r = keep_send(keep->socket, KEEP_PUT, key, fd);
	crash_point("keeper: a descriptor is sent");
	return r;
}

/* ---- questions ---- */

/* Whether this is the answer. A keeper at its limit says so in place of the kind. */
static bool is_answered_by(const struct question *question,
			   const struct keep_message *answer)
{
	return question->answer == answer->word &&
	       question->key.number == answer->key.number &&
	       question->key.generation == answer->key.generation &&
	       (question->key.kind == answer->key.kind || answer->key.kind == KEEP_FULL);
}

/* Under keep->lock. */
static void take_answer(struct keep *keep, const struct keep_message *answer)
{
	struct question *question;

	if (answer->word == KEEP_DROP) {
		pthread_mutex_lock(&keep->forget_lock);
		keep->n_puts = 0;
		keep->is_full = answer->key.kind == KEEP_FULL;
		pthread_mutex_unlock(&keep->forget_lock);
	}
	DL_FOREACH (keep->questions, question) {
		if (is_answered_by(question, answer))
			break;
	}
	if (!question)
		return;
	question->is_answered = true;
	DL_DELETE(keep->questions, question);
}

/* Under keep->lock, which it releases meanwhile. */
static void receive_answer(struct keep *keep)
{
	struct keep_message answer;
	int fd, r;

	keep->receiving = true;
	pthread_mutex_unlock(&keep->lock);
	r = keep_receive(keep->socket, 0, &answer, &fd);
	if (r == 0)
		closep(&fd);
	pthread_mutex_lock(&keep->lock);
	keep->receiving = false;
	if (r < 0)
		keep->lost = r;
	else
		take_answer(keep, &answer);
	pthread_cond_broadcast(&keep->heard);
}

/*
 * Asks, and waits for the answer. One of the threads that wait receives for all of them.
 * Returns: 0; -errno.
 */
static int ask(struct keep *keep, uint32_t word, struct keep_key key, uint32_t answer)
{
	struct question question = { .answer = answer, .key = key };
	int r;

	pthread_mutex_lock(&keep->lock);
	DL_APPEND(keep->questions, &question);
	pthread_mutex_unlock(&keep->lock);
	r = keep_send(keep->socket, word, key, -1);
	if (r == 0)
		crash_point("keeper: a question is sent");
	pthread_mutex_lock(&keep->lock);
	while (r == 0 && !question.is_answered) {
		r = keep->lost;
		if (r == 0 && keep->receiving)
			pthread_cond_wait(&keep->heard, &keep->lock);
		else if (r == 0)
			receive_answer(keep);
	}
	if (!question.is_answered)
		DL_DELETE(keep->questions, &question);
	pthread_mutex_unlock(&keep->lock);
	return question.is_answered ? 0 : r;
}

static int drop(struct keep *keep, uint32_t word, struct keep_key key)
{
	int r;

	crash_point("keeper: before a descriptor is dropped");
	r = ask(keep, word, key, KEEP_DROP);
	crash_point("keeper: a descriptor is dropped");
	return r;
}

void keep_drop(struct keep *keep, struct keep_key key)
{
	if (keep)
		(void)drop(keep, KEEP_DROP, key);
}

void keep_drop_late(struct keep *keep, struct keep_key key)
{
	if (keep)
		(void)drop(keep, keep->understands_late ? KEEP_DROP_LATE : KEEP_DROP,
			   key);
}

/* ---- forgotten descriptors ---- */

/*
 * Waits for a busy keeper, and never for a stopped one, which would stop the broker.
 * Returns: whether the message was sent.
 */
static bool send_soon(struct keep *keep, uint32_t word, struct keep_key key)
{
	const struct keep_message message = { word, key };
	struct pollfd room = { .fd = keep->socket, .events = POLLOUT };
	ssize_t sent;

	do {
		sent = send(keep->socket, &message, sizeof(message),
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EAGAIN && poll(&room, 1, SEND_MS) > 0);
	return sent >= 0;
}

void keep_forget(struct keep *keep, struct keep_key key)
{
	struct keep_key *more;

	if (!keep)
		return;
	pthread_mutex_lock(&keep->forget_lock);
	if (keep->n_forgotten == keep->forgotten_capacity) {
		more = reallocarray(keep->forgotten, 2 * keep->n_forgotten + 16,
				    sizeof(*more));
		if (more) {
			keep->forgotten = more;
			keep->forgotten_capacity = 2 * keep->n_forgotten + 16;
		}
	}
	/*
	 * Without memory the keeper holds the descriptor until the next broker is there.
	 */
	if (keep->n_forgotten < keep->forgotten_capacity)
		keep->forgotten[keep->n_forgotten++] = key;
	pthread_mutex_unlock(&keep->forget_lock);
}

void keep_settle(struct keep *keep)
{
	if (!keep)
		return;
	pthread_mutex_lock(&keep->forget_lock);
	keep->n_settled = keep->n_forgotten;
	pthread_mutex_unlock(&keep->forget_lock);
}

/* Takes a settled key out of the forgotten ones. Returns: whether there was one. */
static bool next_settled(struct keep *keep, struct keep_key *ret_key)
{
	bool found;

	pthread_mutex_lock(&keep->forget_lock);
	found = keep->n_settled > 0;
	if (found) {
		*ret_key = keep->forgotten[--keep->n_settled];
		keep->forgotten[keep->n_settled] = keep->forgotten[--keep->n_forgotten];
	}
	pthread_mutex_unlock(&keep->forget_lock);
	return found;
}

static void tell_forgotten(struct keep *keep)
{
	struct keep_key key;

	while (next_settled(keep, &key)) {
		if (!send_soon(keep, KEEP_FORGET, key)) {
			keep_forget(keep, key);
			return;
		}
	}
}

static bool must_ask(struct keep *keep)
{
	bool must;

	pthread_mutex_lock(&keep->forget_lock);
	must = ++keep->n_puts >= KEEP_ASK_PUTS || keep->n_settled || keep->is_full;
	pthread_mutex_unlock(&keep->forget_lock);
	return must;
}

static bool is_full(struct keep *keep)
{
	bool full;

	pthread_mutex_lock(&keep->forget_lock);
	full = keep->is_full;
	pthread_mutex_unlock(&keep->forget_lock);
	return full;
}

/* A drop of nothing asks. The keeper closes others before it answers, where these are
 * many. */
int keep_make_room(struct keep *keep)
{
	struct keep_key key;
	int r = 0;

	if (!keep || !must_ask(keep))
		return 0;
	while (r == 0 && next_settled(keep, &key))
		r = keep_send(keep->socket, KEEP_FORGET, key, -1);
	if (r == 0)
		r = drop(keep, KEEP_DROP, (struct keep_key){ 0 });
	return r == 0 && is_full(keep) ? -EMFILE : r;
}

void keep_drop_rest(struct keep *keep)
{
	for (size_t i = 0; keep && i < keep->n_left; i++) {
		struct kept *left = &keep->left[i];

		/* A message of keep_put() comes after the answer. */
		pthread_mutex_lock(&keep->left_lock);
		if (left->fd >= 0 && !left->is_replaced)
			keep_drop(keep, left->key);
		pthread_mutex_unlock(&keep->left_lock);
		closep(&left->fd);
	}
}

int keep_take_over(struct keep *keep)
{
	return keep_goes_on(keep) ? ask(keep, KEEP_ASK, (struct keep_key){ 0 }, KEEP_GO)
				  : 0;
}

void keep_pause(struct keep *keep)
{
	(void)ask(keep, KEEP_PAUSED, (struct keep_key){ 0 }, KEEP_GO);
}

void keep_say_busy(struct keep *keep, unsigned int n_left)
{
	(void)keep_send(keep->socket, KEEP_BUSY, (struct keep_key){ .number = n_left },
			-1);
}

void keep_say_ready(struct keep *keep)
{
	if (!keep)
		return;
	crash_point("keeper: before it hears of the first answer");
	(void)keep_send(keep->socket, KEEP_READY, (struct keep_key){ 0 }, -1);
	crash_serves();
}

void keep_say_beat(struct keep *keep)
{
	if (!keep)
		return;
	tell_forgotten(keep);
	(void)send_soon(keep, KEEP_BEAT, (struct keep_key){ 0 });
}

void keep_say_end(struct keep *keep)
{
	if (keep)
		(void)keep_send(keep->socket, KEEP_END, (struct keep_key){ 0 }, -1);
}

void keep_tell(struct keep *keep, const char *text)
{
	struct {
		struct keep_message message;
		char text[KEEP_TEXT_BYTES];
	} telling = { .message.word = KEEP_TELL };
	size_t length = strnlen(text, KEEP_TEXT_BYTES - 1);

	if (!keep)
		return;
	memcpy(telling.text, text, length);
	/* Where the keeper is stopped, the broker goes on. */
	(void)send(keep->socket, &telling, sizeof(telling.message) + length,
		   MSG_DONTWAIT | MSG_NOSIGNAL);
}
