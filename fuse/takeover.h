/* SPDX-License-Identifier: MIT */
/*
 * A connection of the kernel that an earlier broker has greeted. libfuse hears its INIT
 * again, and the kernel drops the second answer. Then the kernel sends what was not
 * answered again (FUSE_NOTIFY_RESEND, Linux 6.9): what only looks runs, and whatever might
 * be done twice is answered EIO. So is what was under way when two brokers died, since it
 * may be what they died of.
 */
#pragma once

#include "view.h"

/* Whether the kernel can do this. Returns: 0; -EOPNOTSUPP with a sentence. */
int takeover_check(struct text *why);

/* Notes an INIT for the next broker, before it is answered. */
void takeover_note(struct broker *broker, const struct fuse_buf *request);

/* Goes on with the connection; before the threads start. Returns: 0; -errno. */
int takeover_begin(struct fuse_session *session, struct broker *broker);

/*
 * Answers EIO to a request that comes again and is not to be repeated.
 * Returns: whether it has.
 */
bool takeover_refuse(struct fuse_session *session, struct view *view,
		     const struct fuse_buf *request);
