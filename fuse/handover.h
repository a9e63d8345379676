/* SPDX-License-Identifier: MIT */
/* The end of a broker in favour of the next, whose program is newer (keep/keep.h). */
#pragma once

struct keep;
struct transport;
struct view;

/*
 * Finishes what users have asked for, within some seconds, and then does nothing until
 * the keeper kills this process, or says that the next broker is no good: then the
 * return.
 */
void handover(struct transport *transport, struct view *view, struct keep *keep,
	      unsigned int seconds);
