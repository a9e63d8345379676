/* SPDX-License-Identifier: MIT */
/* The view: a mount of the broker, and the user data of every FUSE operation. */
#pragma once

#include "api/broker.h"
#include "control_inode.h"
#include "file.h"
#include "groups.h"
#include "mapping.h"
#include "pace.h"
#include "request.h"
#include "waker.h"

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct view {
	struct broker *broker;
	struct fuse_session *session;
	struct control_inodes control_inodes;
	struct requests requests;
	struct pace pace;
	struct files files;
	struct wakers wakers;
	struct mappings mappings;
	struct groups_seen groups;
	struct stat root;	 /* owner and times of the fixed nodes */
	struct tickets *tickets; /* borrowed */
};

/* Starts the threads that watch for signals and events. Returns: 0; -errno. */
int view_init(struct view *view, struct broker *broker, struct fuse_session *session,
	      struct tickets *tickets);

/*
 * Cancels waiting requests and closes open files; no operation runs any more and the
 * broker accepts nothing new. A request that does not end in time keeps the file open.
 */
void view_deinit(struct view *view);

static inline struct view *view_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* The operations, with a view as user data. */
extern const struct fuse_lowlevel_ops view_operations;
