/* SPDX-License-Identifier: MIT */
#include "handover.h"

#include "keep/keep.h"
#include "request.h"
#include "transport.h"
#include "view.h"

#include <poll.h>

#include "base/clock.h"

#define LOOK_MS 20

/*
 * Requests that change something are answered first. The kernel would send them again,
 * and the next broker could not know whether they were done.
 */
static unsigned int n_left(struct view *view)
{
	unsigned int n = requests_n_changing(&view->requests);

	return n ? n : broker_pause(view->broker);
}

void handover(struct transport *transport, struct view *view, struct keep *keep,
	      unsigned int seconds)
{
	int64_t until_ms = clock_ms() + seconds * 1000;
	unsigned int n;

	transport_pause(transport);
	while ((n = n_left(view)) && clock_ms() < until_ms)
		poll(NULL, 0, LOOK_MS);
	if (n) {
		keep_say_busy(keep, n);
	} else {
		keep_pause(keep);
		broker_go_on(view->broker);
	}
	transport_go_on(transport);
}
