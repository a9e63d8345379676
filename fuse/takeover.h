/* SPDX-License-Identifier: MIT */
/*
 * Takes over the connection of an earlier broker. libfuse is given the INIT again, and
 * the kernel drops the second answer. Then the kernel sends all unanswered requests again
 * (FUSE_NOTIFY_RESEND, Linux 6.9). Requests that change nothing run. A request that might
 * be done twice is answered EIO. So is a request under way at the deaths of two brokers:
 * perhaps both died of it.
 */
#pragma once

#include "view.h"

/* Whether the kernel can do this. Returns: 0; -EOPNOTSUPP with a sentence. */
int takeover_check(struct text *why);

/* Notes an INIT for the next broker, before the answer. */
void takeover_note(struct broker *broker, const struct fuse_buf *request);

/* Goes on with the connection; before the threads start. Returns: 0; -errno. */
int takeover_begin(struct fuse_session *session, struct broker *broker);

/*
 * Answers EIO to a request sent again, if the request must not be repeated. Returns:
 * whether it was answered.
 */
bool takeover_refuse(struct fuse_session *session, struct view *view,
		     const struct fuse_buf *request);
