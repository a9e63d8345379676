/* SPDX-License-Identifier: MIT */
/* The end of a broker in favour of the next, whose program is newer (keep/keep.h). */
#pragma once

struct keep;
struct transport;
struct view;

/*
 * Finishes users' operations within some seconds, and then pauses until the keeper kills
 * this process. Returns if operations are left, or if the next broker is no good.
 */
void handover(struct transport *transport, struct view *view, struct keep *keep,
	      unsigned int seconds);
