/* SPDX-License-Identifier: MIT */
#include "control_inode.h"

#include "base/def.h"
#include "base/hash.h"
#include "node.h"

#include <errno.h>

/* A user with control inodes. */
struct looker {
	uid_t uid;
	unsigned int n;
	UT_hash_handle hh;
};

struct control_inode {
	uint64_t id;
	uint64_t node_id;
	uint64_t n_lookups;
	struct looker *looker;
	UT_hash_handle hh;
};

/* The end of the serials goes up in steps, to be written seldom. */
#define SERIALS_STEP (1u << 16)

void control_inodes_init(struct control_inodes *inodes, uint64_t *serials_end)
{
	*inodes = (struct control_inodes){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.serial = *serials_end,
		.serials_end = serials_end,
	};
}

/* Under the lock. */
static uint64_t serial_new(struct control_inodes *inodes)
{
	uint64_t serial = inodes->serial++;

	if (inodes->serial > *inodes->serials_end)
		*inodes->serials_end += SERIALS_STEP;
	return serial % (UINT64_C(1) << CONTROL_SERIAL_BITS);
}

static void looker_leave(struct control_inodes *inodes, struct looker *looker)
{
	if (looker->n)
		return;
	HASH_DEL(inodes->lookers, looker);
	free(looker);
}

static void inode_free(struct control_inodes *inodes, struct control_inode *inode)
{
	HASH_DEL(inodes->by_id, inode);
	inode->looker->n--;
	looker_leave(inodes, inode->looker);
	free(inode);
}

void control_inodes_deinit(struct control_inodes *inodes)
{
	struct control_inode *inode, *next;

	HASH_ITER (hh, inodes->by_id, inode, next)
		inode_free(inodes, inode);
	pthread_mutex_destroy(&inodes->lock);
}

/* Under the lock. Returns: NULL without memory. */
static struct looker *looker_get(struct control_inodes *inodes, uid_t uid)
{
	struct looker *looker;

	HASH_FIND(hh, inodes->lookers, &uid, sizeof(uid), looker);
	if (looker)
		return looker;
	looker = calloc(1, sizeof(*looker));
	if (!looker)
		return NULL;
	looker->uid = uid;
	HASH_ADD(hh, inodes->lookers, uid, sizeof(looker->uid), looker);
	return looker;
}

/* An inode after its first look-up. Under the lock. Returns: 0; -ENOMEM. */
static int add(struct control_inodes *inodes, uint64_t id, uint64_t node_id,
	       struct looker *looker)
{
	struct control_inode *inode = malloc(sizeof(*inode));

	if (!inode) {
		looker_leave(inodes, looker);
		return -ENOMEM;
	}
	looker->n++;
	*inode = (struct control_inode){
		.id = id,
		.node_id = node_id,
		.n_lookups = 1,
		.looker = looker,
	};
	HASH_ADD(hh, inodes->by_id, id, sizeof(inode->id), inode);
	return 0;
}

int control_inodes_add(struct control_inodes *inodes, uint64_t node_id, uid_t uid,
		       uint64_t *ret_id)
{
	struct looker *looker;
	int r = -ENOMEM;

	pthread_mutex_lock(&inodes->lock);
	looker = looker_get(inodes, uid);
	if (looker && looker->n >= CONTROL_INODES_MAX) {
		*ret_id = node_id;
		r = 0;
	} else if (looker) {
		*ret_id = node_control_inode(node_id, serial_new(inodes));
		r = add(inodes, *ret_id, node_id, looker);
	}
	pthread_mutex_unlock(&inodes->lock);
	return r;
}

int control_inodes_resume(struct control_inodes *inodes, uint64_t id, uint64_t node_id,
			  uid_t uid)
{
	struct control_inode *known;
	struct looker *looker;
	int r = 0;

	pthread_mutex_lock(&inodes->lock);
	HASH_FIND(hh, inodes->by_id, &id, sizeof(id), known);
	if (!known) {
		looker = looker_get(inodes, uid);
		r = looker ? add(inodes, id, node_id, looker) : -ENOMEM;
	}
	pthread_mutex_unlock(&inodes->lock);
	return r;
}

int control_inodes_find(struct control_inodes *inodes, uint64_t id, uint64_t *ret_node_id)
{
	struct control_inode *inode;

	pthread_mutex_lock(&inodes->lock);
	HASH_FIND(hh, inodes->by_id, &id, sizeof(id), inode);
	if (inode)
		*ret_node_id = inode->node_id;
	pthread_mutex_unlock(&inodes->lock);
	return inode ? 0 : node_of_control_inode(id, ret_node_id);
}

void control_inodes_forget(struct control_inodes *inodes, uint64_t id, uint64_t n)
{
	struct control_inode *inode;

	pthread_mutex_lock(&inodes->lock);
	HASH_FIND(hh, inodes->by_id, &id, sizeof(id), inode);
	if (inode && inode->n_lookups > n) {
		inode->n_lookups -= n;
		inode = NULL;
	}
	if (inode)
		inode_free(inodes, inode);
	pthread_mutex_unlock(&inodes->lock);
}
