/* SPDX-License-Identifier: MIT */
#include "handover.h"

#include "keep/keep.h"
#include "request.h"
#include "transport.h"
#include "view.h"

#include <poll.h>

#include "base/clock.h"
#include "base/def.h"

#define LOOK_MS	 20
#define FIRST_MS 125
#define MOST_MS	 500

/*
 * Requests that change something are answered first. The kernel would send them again,
 * and the next broker could not know whether they were done.
 */
static unsigned int n_left(struct transport *transport, struct view *view)
{
	unsigned int n =
		transport_n_left(transport) + requests_n_changing(&view->requests);

	return n ? n : broker_pause(view->broker);
}

/* Returns: how many operations are left after the time; 0: the keeper was told. */
static unsigned int pause_for(struct transport *transport, struct view *view,
			      struct keep *keep, int64_t until_ms)
{
	unsigned int n;

	transport_pause(transport);
	pace_stop(&view->pace);
	while ((n = n_left(transport, view)) && clock_ms() < until_ms)
		poll(NULL, 0, LOOK_MS);
	if (!n) {
		keep_pause(keep);
		broker_go_on(view->broker);
	}
	pace_go_on(&view->pace);
	transport_go_on(transport);
	return n;
}

/*
 * What users have begun may take as long as they like. So nobody else waits for more than
 * half of the time: each pause that was too short is followed by as long a time of
 * service, and by a pause twice as long, up to MOST_MS.
 */
void handover(struct transport *transport, struct view *view, struct keep *keep,
	      unsigned int seconds)
{
	int64_t end_ms = clock_ms() + seconds * 1000;
	unsigned int n;

	for (int pause_ms = FIRST_MS;; pause_ms = MIN(2 * pause_ms, MOST_MS)) {
		n = pause_for(transport, view, keep, MIN(clock_ms() + pause_ms, end_ms));
		if (!n || clock_ms() + pause_ms >= end_ms)
			break;
		poll(NULL, 0, pause_ms);
	}
	if (n)
		keep_say_busy(keep, n);
}
