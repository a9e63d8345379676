/* SPDX-License-Identifier: MIT */
#include "control_inode.h"

#include "base/def.h"
#include "node.h"

#include <errno.h>
#include <uthash.h>

struct control_inode {
	uint64_t id;
	uint64_t node_id;
	uint64_t n_lookups;
	UT_hash_handle hh;
};

void control_inodes_init(struct control_inodes *inodes, uint32_t boot)
{
	*inodes = (struct control_inodes){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.serial = (uint64_t)(boot & 0xfff) << (CONTROL_SERIAL_BITS - 12),
	};
}

void control_inodes_deinit(struct control_inodes *inodes)
{
	struct control_inode *inode, *next;

	HASH_ITER (hh, inodes->by_id, inode, next) {
		HASH_DEL(inodes->by_id, inode);
		free(inode);
	}
	pthread_mutex_destroy(&inodes->lock);
}

int control_inodes_add(struct control_inodes *inodes, uint64_t node_id, uint64_t *ret_id)
{
	struct control_inode *inode = malloc(sizeof(*inode));

	if (!inode)
		return -ENOMEM;
	inode->node_id = node_id;
	inode->n_lookups = 1;
	pthread_mutex_lock(&inodes->lock);
	inode->id = node_control_inode(node_id, ++inodes->serial);
	HASH_ADD(hh, inodes->by_id, id, sizeof(inode->id), inode);
	pthread_mutex_unlock(&inodes->lock);
	*ret_id = inode->id;
	return 0;
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
		HASH_DEL(inodes->by_id, inode);
	pthread_mutex_unlock(&inodes->lock);
	free(inode);
}
