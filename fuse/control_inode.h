/* SPDX-License-Identifier: MIT */
/*
 * Control inodes: the node ids of control files and of `lease`, another file for lines.
 * The kernel locks an inode from a write to its reply, so one waiting line would hold up
 * every other user of the file, deaf to signals, and a hold of a lease the release that
 * it waits for. Each look-up therefore answers an id of its own, with the same st_ino.
 * Parallel writes are no remedy. They share the lock, but chmod(2), fsync(2), truncate(2)
 * and writes with O_APPEND want it alone: one such call, behind a waiting line, holds up
 * everybody. The price is the lock of the folder, which each look-up takes.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of a user: twice the files that a user may have open. */
#define CONTROL_INODES_MAX 32768

struct control_inode;
struct looker;

/* The control inodes that the kernel has not forgotten. */
struct control_inodes {
	pthread_mutex_t lock;
	struct control_inode *by_id; /* lock */
	struct looker *lookers;	     /* lock; the users who have some */
	uint64_t serial;	     /* lock */
	uint64_t *serials_end;	     /* lock */
};

/*
 * The serials of inodes of earlier brokers lie below *serials_end, which is raised before
 * an inode is given out: none is met again.
 */
void control_inodes_init(struct control_inodes *inodes, uint64_t *serials_end);
void control_inodes_deinit(struct control_inodes *inodes);

/*
 * A new inode of the node, looked up once by the user; for one who has
 * CONTROL_INODES_MAX the node itself, an inode that is shared. Returns: 0; -ENOMEM.
 */
int control_inodes_add(struct control_inodes *inodes, uint64_t node_id, uid_t uid,
		       uint64_t *ret_id);

/*
 * Notes a control inode of an earlier broker, of a file that the user still has open;
 * does nothing for a known one. CONTROL_INODES_MAX is no limit here. Returns: 0; -ENOMEM.
 */
int control_inodes_resume(struct control_inodes *inodes, uint64_t id, uint64_t node_id,
			  uid_t uid);

/*
 * The node of a control inode. Returns: 0; -ESTALE: an object's, of an earlier broker and
 * not resumed.
 */
int control_inodes_find(struct control_inodes *inodes, uint64_t id,
			uint64_t *ret_node_id);

/* The kernel dropped n look-ups. */
void control_inodes_forget(struct control_inodes *inodes, uint64_t id, uint64_t n);
