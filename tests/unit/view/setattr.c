/* SPDX-License-Identifier: MIT */
/*
 * The linker puts the kernel and the broker of this test in the place of the real ones,
 * and counts looks at groups. During a SETATTR the kernel holds locks of a file and of
 * shared folders, and a look takes 20 ms.
 */
#include "tree.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

TestSuite(setattr, .init = nodes_init);

static struct view view;
static struct fuse_ctx sender = { .uid = 1000, .gid = 1000 };
static struct object_stat object = { .uid = 1000, .gid = 1000, .mode = 0600 };
static unsigned int n_looks, n_changes;
static int answer; /* 0 or an errno; -1: none yet */

void *__wrap_fuse_req_userdata(fuse_req_t req);
const struct fuse_ctx *__wrap_fuse_req_ctx(fuse_req_t req);
int __wrap_fuse_reply_attr(fuse_req_t req, const struct stat *attr, double timeout);
int __wrap_fuse_reply_err(fuse_req_t req, int error);
int __wrap_fuse_lowlevel_notify_inval_inode(struct fuse_session *session, fuse_ino_t ino,
					    off_t from, off_t length);
int __wrap_groups_of(struct groups_seen *seen, pid_t tid, uid_t uid, gid_t **ret_groups);
int __wrap_broker_stat(struct broker *broker, enum object_type type, struct token token,
		       struct object_stat *ret_stat);
int __wrap_broker_path(struct broker *broker, enum object_type type, struct token token,
		       struct text *path);
int __wrap_broker_change(struct broker *broker, enum object_type type, struct token token,
			 const struct caller *caller, mode_t mode, uid_t uid, gid_t gid);

void *__wrap_fuse_req_userdata(fuse_req_t req)
{
	(void)req;
	return &view;
}

const struct fuse_ctx *__wrap_fuse_req_ctx(fuse_req_t req)
{
	(void)req;
	return &sender;
}

int __wrap_fuse_reply_attr(fuse_req_t req, const struct stat *attr, double timeout)
{
	(void)req;
	(void)attr;
	(void)timeout;
	answer = 0;
	return 0;
}

int __wrap_fuse_reply_err(fuse_req_t req, int error)
{
	(void)req;
	answer = error;
	return 0;
}

int __wrap_fuse_lowlevel_notify_inval_inode(struct fuse_session *session, fuse_ino_t ino,
					    off_t from, off_t length)
{
	(void)session;
	(void)ino;
	(void)from;
	(void)length;
	return 0;
}

int __wrap_groups_of(struct groups_seen *seen, pid_t tid, uid_t uid, gid_t **ret_groups)
{
	(void)seen;
	(void)tid;
	(void)uid;
	*ret_groups = NULL;
	n_looks++;
	return 0;
}

int __wrap_broker_stat(struct broker *broker, enum object_type type, struct token token,
		       struct object_stat *ret_stat)
{
	(void)broker;
	(void)type;
	(void)token;
	*ret_stat = object;
	return 0;
}

int __wrap_broker_path(struct broker *broker, enum object_type type, struct token token,
		       struct text *path)
{
	(void)broker;
	(void)type;
	(void)token;
	text_printf(path, "allocations/x");
	return 0;
}

int __wrap_broker_change(struct broker *broker, enum object_type type, struct token token,
			 const struct caller *caller, mode_t mode, uid_t uid, gid_t gid)
{
	(void)broker;
	(void)type;
	(void)token;
	(void)mode;
	(void)uid;
	(void)gid;
	cr_expect(eq(u32, caller->uid, sender.uid));
	n_changes++;
	return 0;
}

/* A file of an allocation. Returns: the answer. */
static int set(const char *name, int to_set)
{
	const struct node node = { nodes_find_of(OBJECT_ALLOCATION, name), { 1, 1 } };
	struct stat attr = { .st_mode = S_IFREG | 0640, .st_gid = 2000, .st_size = 1 };

	answer = -1;
	tree_setattr(NULL, node_id(&node), &attr, to_set, NULL);
	return answer;
}

Test(setattr, owners_change_mode_and_group_without_a_look_at_groups)
{
	cr_expect(eq(int, set("data", FUSE_SET_ATTR_MODE), 0));
	cr_expect(eq(int, set("data", FUSE_SET_ATTR_GID), 0));
	cr_expect(eq(int, set("data", FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_GID), 0));
	cr_expect(eq(uint, n_changes, 3));
	cr_expect(eq(uint, n_looks, 0));
}

/* The kernel has looked at the groups of the sender, who may be in the file's or not. */
Test(setattr, a_truncation_looks_at_no_groups)
{
	static const struct {
		mode_t mode;
		int answer;
	} of_others[] = {
		{ 0600, EACCES },
		{ 0666, 0 },
		{ 0660, 0 },
		{ 0606, 0 },
	};

	sender.uid = sender.gid = 1001;
	for (size_t i = 0; i < ARRAY_SIZE(of_others); i++) {
		object.mode = of_others[i].mode;
		cr_expect(
			eq(int, set("tensors", FUSE_SET_ATTR_SIZE), of_others[i].answer));
	}
	cr_expect(eq(uint, n_looks, 0));
}

Test(setattr, a_truncation_is_refused_to_the_owner_and_the_first_group_by_mode)
{
	object.mode = 0466;
	cr_expect(eq(int, set("tensors", FUSE_SET_ATTR_SIZE), EACCES));
	object.mode = 0646;
	sender.uid = 1001;
	cr_expect(eq(int, set("tensors", FUSE_SET_ATTR_SIZE), EACCES));
}

Test(setattr, times_alone_look_at_no_groups)
{
	sender.uid = sender.gid = 1001;
	cr_expect(eq(int, set("data", FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME), 0));
	cr_expect(eq(uint, n_looks, 0));
}
