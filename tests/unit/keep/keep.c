/* SPDX-License-Identifier: MIT */
/* The broker's messages to the keeper. The test plays the keeper. */
#include "keep/keep.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keep/message.h"

/* left: by the last broker; NULL: nothing was. Returns: the keeper's end. */
static int begin_with(const struct keep_key *left, struct keep **ret_keep)
{
	const struct keep_key all = { .number = KEEP_WITH_LATE };
	char number[16];
	int ends[2];

	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0));
	snprintf(number, sizeof(number), "%d", ends[1]);
	setenv(KEEP_ENV, number, 1);
	if (left)
		cr_assert(eq(int, keep_send(ends[0], KEEP_PUT, *left, ends[0]), 0));
	cr_assert(eq(int, keep_send(ends[0], KEEP_ALL, all, -1), 0));
	cr_assert(eq(int, keep_open(ret_keep), 0));
	cr_assert(eq(int, keep_stand_by(*ret_keep), 0));
	return ends[0];
}

static int begin(struct keep **ret_keep)
{
	return begin_with(NULL, ret_keep);
}

/* Returns: how many descriptors the beat lets the keeper close. */
static unsigned int n_forgotten_with_beat(struct keep *keep, int keeper)
{
	struct keep_message message;
	unsigned int n = 0;
	int fd;

	keep_say_beat(keep);
	for (;; n++) {
		cr_assert(eq(int, keep_receive(keeper, MSG_DONTWAIT, &message, &fd), 0));
		if (message.word == KEEP_BEAT)
			return n;
		cr_assert(eq(u32, message.word, KEEP_FORGET));
		cr_assert(eq(u32, message.key.number, 1 + n));
	}
}

/* Else the record of a broker that dies names a descriptor that is closed. */
Test(keep, a_descriptor_is_closed_after_its_record)
{
	struct keep *keep;
	int keeper = begin(&keep);

	keep_forget(keep, (struct keep_key){ KEEP_LIFETIME, 1, 1 });
	cr_assert(eq(uint, n_forgotten_with_beat(keep, keeper), 0));
	keep_settle(keep);
	keep_forget(keep, (struct keep_key){ KEEP_LIFETIME, 2, 1 });
	cr_assert(eq(uint, n_forgotten_with_beat(keep, keeper), 1));
	cr_assert(eq(uint, n_forgotten_with_beat(keep, keeper), 0));
	keep_free(keep);
	close(keeper);
}

/* The text lies behind the message: a keeper of an older program receives just the
 * message. */
Test(keep, a_text_for_the_manager_is_cut_off_where_it_is_too_long)
{
	char text[KEEP_TEXT_BYTES], longer[2 * KEEP_TEXT_BYTES] = "";
	struct keep_message message;
	struct keep *keep;
	int fd, keeper = begin(&keep);

	keep_tell(keep, "STATUS=busy");
	cr_assert(eq(int, keep_receive_text(keeper, 0, &message, &fd, text), 0));
	cr_assert(eq(u32, message.word, KEEP_TELL));
	cr_assert(eq(str, text, "STATUS=busy"));
	keep_say_beat(keep);
	cr_assert(eq(int, keep_receive_text(keeper, 0, &message, &fd, text), 0));
	cr_assert(eq(u32, message.word, KEEP_BEAT));
	cr_assert(eq(str, text, ""));
	memset(longer, 'x', sizeof(longer) - 1);
	keep_tell(keep, longer);
	cr_assert(eq(int, keep_receive_text(keeper, 0, &message, &fd, text), 0));
	cr_assert(eq(sz, strlen(text), KEEP_TEXT_BYTES - 1));
	keep_tell(keep, longer);
	cr_assert(eq(int, keep_receive(keeper, 0, &message, &fd), -EPROTO));
	keep_free(keep);
	close(keeper);
}

static uint32_t next_word(int keeper)
{
	struct keep_message message;
	int fd;

	return keep_receive(keeper, MSG_DONTWAIT, &message, &fd) == 0 ? message.word : 0;
}

/* The keeper's answer to the next question. */
static void answer(int keeper, uint32_t kind)
{
	const struct keep_key key = { kind, 0, 0 };

	cr_assert(eq(int, keep_send(keeper, KEEP_DROP, key, -1), 0));
}

/* Else a user's loop of puts outruns the beats, and fills the keeper. */
Test(keep, what_is_forgotten_is_closed_before_the_next_put)
{
	struct keep *keep;
	int keeper = begin(&keep);

	for (uint32_t i = 1; i <= 3; i++)
		keep_forget(keep, (struct keep_key){ KEEP_TENSORS, i, 1 });
	cr_assert(eq(int, keep_make_room(keep), 0));
	cr_assert(eq(u32, next_word(keeper), 0));
	keep_settle(keep);
	answer(keeper, 0);
	cr_assert(eq(int, keep_make_room(keep), 0));
	for (int i = 0; i < 3; i++)
		cr_assert(eq(u32, next_word(keeper), KEEP_FORGET));
	cr_assert(eq(u32, next_word(keeper), KEEP_DROP));
	cr_assert(eq(int, keep_make_room(keep), 0));
	cr_assert(eq(u32, next_word(keeper), 0));
	keep_free(keep);
	close(keeper);
}

/* Else the keeper loses a descriptor that a record names. */
Test(keep, a_keeper_without_room_is_sent_no_more)
{
	struct keep *keep;
	int keeper = begin(&keep);

	for (int i = 1; i < KEEP_ASK_PUTS; i++)
		cr_assert(eq(int, keep_make_room(keep), 0));
	cr_assert(eq(u32, next_word(keeper), 0));
	answer(keeper, KEEP_FULL);
	cr_assert(eq(int, keep_make_room(keep), -EMFILE));
	answer(keeper, KEEP_FULL);
	cr_assert(eq(int, keep_make_room(keep), -EMFILE));
	answer(keeper, 0);
	cr_assert(eq(int, keep_make_room(keep), 0));
	cr_assert(eq(int, keep_make_room(keep), 0));
	keep_free(keep);
	close(keeper);
}

/* Whether a descriptor that the last broker left is dropped. */
static bool is_dropped(bool is_put_anew)
{
	const struct keep_key key = { KEEP_PROCESS, 3, 5 };
	struct keep *keep;
	int keeper = begin_with(&key, &keep);
	bool dropped;

	if (is_put_anew) {
		cr_assert(eq(int, keep_put(keep, key, keeper), 0));
		cr_assert(eq(u32, next_word(keeper), KEEP_PUT));
	}
	/* The answer, if there is a question. */
	cr_assert(eq(int, keep_send(keeper, KEEP_DROP, key, -1), 0));
	keep_drop_rest(keep);
	dropped = next_word(keeper) == KEEP_DROP;
	keep_free(keep);
	close(keeper);
	return dropped;
}

/*
 * A broker may die between the message to the keeper and the record. The next broker
 * takes the same record, perhaps before it drops what is left.
 */
Test(keep, what_is_left_is_dropped_unless_put_anew)
{
	cr_expect(is_dropped(false));
	cr_expect(not(is_dropped(true)));
}

static const struct keep_key late = { KEEP_BLOCK, 1, 1 };
static const struct keep_key other = { KEEP_BLOCK, 2, 1 };

static void *drop_late(void *userdata)
{
	keep_drop_late(userdata, late);
	return NULL;
}

static void *drop_other(void *userdata)
{
	keep_drop(userdata, other);
	return NULL;
}

/* Some closes take as long as a user likes. */
Test(keep, a_late_answer_keeps_no_other_question, .timeout = 60)
{
	struct keep_message message;
	pthread_t threads[2];
	struct keep *keep;
	int fd, keeper = begin(&keep);

	cr_assert(eq(int, pthread_create(&threads[0], NULL, drop_late, keep), 0));
	cr_assert(eq(int, keep_receive(keeper, 0, &message, &fd), 0));
	cr_assert(eq(u32, message.word, KEEP_DROP_LATE));
	cr_assert(eq(int, pthread_create(&threads[1], NULL, drop_other, keep), 0));
	cr_assert(eq(int, keep_receive(keeper, 0, &message, &fd), 0));
	cr_assert(eq(u32, message.word, KEEP_DROP));
	cr_assert(eq(int, keep_send(keeper, KEEP_DROP, other, -1), 0));
	pthread_join(threads[1], NULL);
	cr_assert(eq(int, keep_send(keeper, KEEP_DROP, late, -1), 0));
	pthread_join(threads[0], NULL);
	keep_free(keep);
	close(keeper);
}
