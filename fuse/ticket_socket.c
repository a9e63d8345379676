/* SPDX-License-Identifier: MIT */
#include "ticket_socket.h"

#include "base/crash.h"
#include "base/def.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS /* since Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

/* Is there a socket without a listener? */
static bool is_dead(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 &&
	       connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
	       errno == ECONNREFUSED;
}

/*
 * Linux 6.16 and newer refuse descriptors here, and on all connections: the sender gets
 * EPERM.
 */
static void refuse_descriptors(int fd)
{
	int accepted = 0;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &accepted, sizeof(accepted));
}

/*
 * Only the user and root may connect; anybody where the broker can't give files away.
 * Before listen(2) nobody can. The mode comes first: a service has CAP_CHOWN, but not the
 * privilege to change the mode of another's file.
 */
static int admit(const char *path, uid_t uid)
{
	if (chmod(path, 0600) < 0)
		return -errno;
	if (uid == geteuid() || chown(path, uid, (gid_t)-1) == 0)
		return 0;
	return chmod(path, 0666) < 0 ? -errno : 0;
}

int ticket_socket_listen(const struct sockaddr_un *address, uid_t uid)
{
	const struct sockaddr *to = (const struct sockaddr *)address;
	const char *path = address->sun_path;
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -errno;
	refuse_descriptors(fd);
	if (bind(fd, to, sizeof(*address)) < 0 &&
	    (errno != EADDRINUSE || !is_dead(address) || unlink(path) < 0 ||
	     bind(fd, to, sizeof(*address)) < 0))
		return -errno;
	error = admit(path, uid);
	if (!error && listen(fd, SOMAXCONN) < 0)
		error = -errno;
	if (error) {
		unlink(path);
		return error;
	}
	return take_fd(&fd);
}

bool ticket_socket_is_users(int fd, uid_t uid, uid_t *ret_uid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return false;
	*ret_uid = peer.uid;
	return peer.uid == uid || peer.uid == 0;
}

void ticket_socket_reply(int to, uint8_t error, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { &error, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *header;

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(int));
	}
	crash_point("tickets: before an answer");
	(void)!sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	crash_point("tickets: an answer is sent");
}
