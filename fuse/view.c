/* SPDX-License-Identifier: MIT */
#include "view.h"

#include "base/token_ends.h"
#include "kernel.h"
#include "node.h"

#include <time.h>
#include <unistd.h>

int view_init(struct view *view, struct broker *broker, struct fuse_session *session,
	      struct tickets *tickets)
{
	struct token_ends *ends = broker_token_ends(broker);
	struct timespec now;
	int error;

	*view = (struct view){ .broker = broker, .session = session, .tickets = tickets };
	clock_gettime(CLOCK_REALTIME, &now);
	view->groups.subordinates = broker_subordinates(broker);
	view->root.st_uid = geteuid();
	view->root.st_gid = getegid();
	view->root.st_atim = now;
	view->root.st_mtim = now;
	view->root.st_ctim = now;
	nodes_init();
	control_inodes_init(&view->control_inodes, &ends->serials);
	files_init(&view->files, &ends->generations);
	mappings_init(&view->mappings);
	error = wakers_init(&view->wakers);
	if (!error)
		error = pace_init(&view->pace, fuse_session_fd(session), kernel_send,
				  view->groups.subordinates);
	if (!error)
		error = requests_init(&view->requests, &view->groups);
	return error ? error : file_lease_resume(view);
}

void view_deinit(struct view *view)
{
	bool answered = requests_deinit(&view->requests) == 0;

	wakers_deinit(&view->wakers);
	if (answered) {
		files_deinit(&view->files);
		pace_deinit(&view->pace);
	}
	mappings_deinit(&view->mappings);
	control_inodes_deinit(&view->control_inodes);
}
