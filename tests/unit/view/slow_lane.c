/* SPDX-License-Identifier: MIT */
#include "slow_lane.h"

#include "groups.h"

#include "base/def.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <grp.h>
#include <linux/fuse.h>
#include <unistd.h>

static uid_t served[8];
static unsigned int n_served;
static unsigned int n_begun; /* atomic */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void serve(void *userdata, const struct fuse_buf *request)
{
	const struct fuse_in_header *header = request->mem;

	(void)userdata;
	__atomic_add_fetch(&n_begun, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&gate);
	served[n_served++] = header->uid;
	pthread_mutex_unlock(&gate);
}

static struct fuse_buf request_of(struct fuse_in_header *header, uint32_t opcode,
				  uid_t uid)
{
	*header = (struct fuse_in_header){ .opcode = opcode,
					   .uid = uid,
					   .pid = (uint32_t)getpid() };
	return (struct fuse_buf){ .size = sizeof(*header), .mem = header };
}

static void add(struct slow_lane *lane, uid_t uid)
{
	struct fuse_in_header header;
	struct fuse_buf request = request_of(&header, FUSE_OPEN, uid);

	cr_assert(slow_lane_add(lane, uid, &request));
}

/* Until the lane is calm, as before an upgrade. */
static void settle(struct slow_lane *lane)
{
	while (slow_lane_n_left(lane))
		usleep(1000);
}

Test(slow_lane, users_take_turns)
{
	static const uid_t uids[] = { 1, 1, 1, 2, 2, 2, 3 };
	struct slow_lane lane;

	cr_assert(eq(int, slow_lane_init(&lane, serve, NULL), 0));
	/* The first may be in hand already while the others come. */
	pthread_mutex_lock(&gate);
	for (size_t i = 0; i < ARRAY_SIZE(uids); i++)
		add(&lane, uids[i]);
	pthread_mutex_unlock(&gate);
	settle(&lane);
	cr_assert(eq(uint, n_served, 7));
	cr_assert(served[2] == 3 || served[3] == 3);
	slow_lane_deinit(&lane);
}

Test(slow_lane, serves_nothing_while_held)
{
	struct slow_lane lane;

	cr_assert(eq(int, slow_lane_init(&lane, serve, NULL), 0));
	slow_lane_hold(&lane, true);
	add(&lane, 1);
	add(&lane, 2);
	usleep(20000);
	cr_assert(eq(uint, slow_lane_n_left(&lane), 0));
	cr_assert(eq(uint, n_served, 0));
	slow_lane_hold(&lane, false);
	add(&lane, 3);
	settle(&lane);
	cr_assert(eq(uint, n_served, 3));
	slow_lane_deinit(&lane);
}

Test(slow_lane, the_one_in_hand_is_left)
{
	struct slow_lane lane;

	cr_assert(eq(int, slow_lane_init(&lane, serve, NULL), 0));
	pthread_mutex_lock(&gate);
	add(&lane, 1);
	while (!__atomic_load_n(&n_begun, __ATOMIC_RELAXED))
		usleep(1000);
	slow_lane_hold(&lane, true);
	cr_assert(eq(uint, slow_lane_n_left(&lane), 1));
	pthread_mutex_unlock(&gate);
	settle(&lane);
	cr_assert(eq(uint, n_served, 1));
	slow_lane_deinit(&lane);
}

Test(slow_lane, an_end_waits_for_the_one_in_hand_alone)
{
	struct slow_lane lane;

	cr_assert(eq(int, slow_lane_init(&lane, serve, NULL), 0));
	slow_lane_hold(&lane, true);
	add(&lane, 1);
	add(&lane, 2);
	slow_lane_deinit(&lane);
	cr_assert(eq(uint, n_served, 0));
}

Test(groups, are_those_of_the_thread)
{
	_cleanup_free_ gid_t *groups = NULL;
	gid_t mine[4096];
	int n = getgroups(4096, mine);

	cr_assert(eq(int, groups_read(getpid(), &groups), n));
	for (int i = 0; i < n; i++)
		cr_assert(eq(u32, groups[i], mine[i]));
}

Test(groups, of_a_thread_that_has_ended_are_none)
{
	gid_t *groups;

	cr_assert(eq(int, groups_read(0x3fffffff, &groups), 0));
	cr_assert(eq(ptr, groups, NULL));
}

Test(groups, many_and_unknown_ones_are_slow)
{
	static struct groups_seen seen;
	struct fuse_in_header header;
	struct fuse_buf request = request_of(&header, FUSE_OPEN, 7);
	uint64_t user;

	cr_assert(groups_are_slow(&seen, &request, &user));
	groups_learn(&seen, &request);
	cr_assert(not(groups_are_slow(&seen, &request, &user)));
	groups_note(&seen, 7, 60000);
	cr_assert(groups_are_slow(&seen, &request, &user));
	groups_note(&seen, 7, 1);
	cr_assert(groups_are_slow(&seen, &request, &user));
	request = request_of(&header, FUSE_READ, 8);
	cr_assert(not(groups_are_slow(&seen, &request, &user)));
	request = request_of(&header, FUSE_OPEN, 0);
	cr_assert(not(groups_are_slow(&seen, &request, &user)));
}

/* The kernel holds locks of shared folders meanwhile. */
Test(groups, setting_attributes_waits_for_no_look_at_groups)
{
	static struct groups_seen seen;
	struct fuse_in_header header;
	struct fuse_buf request = request_of(&header, FUSE_SETATTR, 7);
	uint64_t user;

	cr_assert(not(groups_are_slow(&seen, &request, &user)));
	groups_note(&seen, 7, 60000);
	cr_assert(not(groups_are_slow(&seen, &request, &user)));
}

/* Of 100 others with any hash four share the set once in 10^8 runs. */
Test(groups, others_that_are_alike_do_not_make_a_user_unknown)
{
	static struct groups_seen seen;
	struct fuse_in_header header;
	struct fuse_buf request = request_of(&header, FUSE_OPEN, 7);
	uint64_t user;

	groups_note(&seen, 7, 1);
	for (uid_t i = 1; i <= 100; i++)
		groups_note(&seen, 7 + i * 4096, 60000);
	cr_assert(not(groups_are_slow(&seen, &request, &user)));
}

Test(groups, more_users_than_places_are_noted)
{
	static struct groups_seen seen;
	struct fuse_in_header header;
	uint64_t user;

	for (uid_t uid = 1; uid <= GROUPS_SETS * GROUPS_PLACES * 2; uid++) {
		struct fuse_buf request = request_of(&header, FUSE_OPEN, uid);

		groups_note(&seen, uid, 1);
		cr_assert(not(groups_are_slow(&seen, &request, &user)));
	}
}
