/* SPDX-License-Identifier: MIT */
#include "service.h"

#include <errno.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/def.h"

#define NAME	   "gpumemd"
#define BARRIER_US 5000000

bool service_is_there(void)
{
	return getenv("NOTIFY_SOCKET");
}

void service_tell(struct keep *keep, const char *state)
{
	if (keep)
		keep_tell(keep, state);
	else
		sd_notify(0, state);
}

/*
 * Without FDPOLL=0 (systemd 246) systemd would drop the socket as soon as its other end
 * is closed.
 */
int service_store(void *userdata, int socket)
{
	int r = sd_pid_notify_with_fds(0, 0, "FDSTORE=1\nFDNAME=" NAME "\nFDPOLL=0",
				       &socket, 1);

	(void)userdata;
	if (r > 0)
		r = sd_notify_barrier(0, BARRIER_US);
	return r < 0 ? r : r > 0 ? 0 : -EOPNOTSUPP;
}

int service_take(struct left *ret_left, struct text *why)
{
	int n, n_sockets = 0, *sockets;
	char **names = NULL;

	*ret_left = (struct left){ 0 };
	n = sd_listen_fds_with_names(true, &names);
	if (n <= 0)
		return 0;
	sockets = calloc((size_t)n, sizeof(*sockets));
	for (int i = 0; i < n; i++) {
		if (sockets && strcmp(names[i], NAME) == 0)
			sockets[n_sockets++] = SD_LISTEN_FDS_START + i;
		else
			close(SD_LISTEN_FDS_START + i);
		free(names[i]);
	}
	free(names);
	return sockets ? left_read(ret_left, sockets, (size_t)n_sockets, why) : -ENOMEM;
}

void service_forget(struct left *left)
{
	if (!left->n_sockets)
		return;
	left_forget(left);
	sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" NAME);
}
