/* SPDX-License-Identifier: MIT */
#include "tickets.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/def.h"
#include "base/descriptor.h"

#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#define CONNECTIONS_MAX		1024
#define CONNECTIONS_OF_USER_MAX 64
#define SILENCE_MS		10000 /* a connection without a ticket ends */
#define TICKET_MAX		128
#define SOCKET_PATH_MAX		100

#ifndef SO_PASSRIGHTS /* since Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

struct connection {
	int fd;
	uid_t uid;
	int64_t deadline_ms;
};

struct tickets {
	struct sockaddr_un address;
	struct broker *broker;
	int listening, end;
	bool serving;
	pthread_t thread;
	unsigned int n; /* the thread's, as the next */
	struct connection connections[CONNECTIONS_MAX];
};

/* ---- connections; the thread's ---- */

static void connection_end(struct tickets *tickets, unsigned int i)
{
	close(tickets->connections[i].fd);
	tickets->connections[i] = tickets->connections[--tickets->n];
}

static void connection_reply(int to, uint8_t error, int fd)
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

static void connection_add(struct tickets *tickets, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	unsigned int of_user = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size)) {
		close(fd);
		return;
	}
	if (!descriptor_is_left()) {
		connection_reply(fd, EMFILE, -1);
		close(fd);
		return;
	}
	for (unsigned int i = 0; i < tickets->n; i++)
		of_user += tickets->connections[i].uid == peer.uid;
	if (of_user >= CONNECTIONS_OF_USER_MAX || tickets->n == CONNECTIONS_MAX) {
		close(fd);
		return;
	}
	tickets->connections[tickets->n++] = (struct connection){
		.fd = fd,
		.uid = peer.uid,
		.deadline_ms = clock_ms() + SILENCE_MS,
	};
}

/* No room for descriptors: the kernel closes any in the packet. */
static void connection_serve(struct tickets *tickets, unsigned int i)
{
	struct connection *connection = &tickets->connections[i];
	char ticket[TICKET_MAX];
	ssize_t length = recv(connection->fd, ticket, sizeof(ticket), MSG_DONTWAIT);
	int fd;

	if (length > 0) {
		fd = broker_redeem(tickets->broker, ticket, (size_t)length,
				   connection->uid);
		connection_reply(connection->fd, fd < 0 ? (uint8_t)-fd : 0, fd);
		if (fd >= 0)
			close(fd);
	}
	if (length >= 0 || (errno != EAGAIN && errno != EINTR))
		connection_end(tickets, i);
}

static int wait_ms(const struct tickets *tickets)
{
	int64_t next = -1;

	for (unsigned int i = 0; i < tickets->n; i++) {
		if (next < 0 || tickets->connections[i].deadline_ms < next)
			next = tickets->connections[i].deadline_ms;
	}
	return next < 0 ? -1 : (int)MAX(next - clock_ms(), (int64_t)0);
}

static void *serve(void *userdata)
{
	struct pollfd fds[2 + CONNECTIONS_MAX];
	struct tickets *tickets = userdata;
	int fd;

	for (;;) {
		fds[0] = (struct pollfd){ .fd = tickets->end, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = tickets->listening, .events = POLLIN };
		for (unsigned int i = 0; i < tickets->n; i++)
			fds[2 + i] = (struct pollfd){
				.fd = tickets->connections[i].fd,
				.events = POLLIN,
			};
		if (poll(fds, 2 + tickets->n, wait_ms(tickets)) < 0)
			continue;
		if (fds[0].revents)
			return NULL;
		/* From the end: the last takes the place of a closed connection. */
		for (unsigned int i = tickets->n; i-- > 0;) {
			if (fds[2 + i].revents)
				connection_serve(tickets, i);
			else if (clock_ms() >= tickets->connections[i].deadline_ms)
				connection_end(tickets, i);
		}
		fd = accept4(tickets->listening, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			connection_add(tickets, fd);
		else if (errno == EMFILE || errno == ENFILE)
			nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
}

/* ---- the socket ---- */

/* Is there a socket without a listener? */
static bool is_dead(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return fd >= 0 &&
	       connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
	       errno == ECONNREFUSED;
}

/*
 * Senders of descriptors are refused, EPERM; connections inherit that. A thrown away
 * descriptor is closed here if the sender has closed it before, and that may last as long
 * as the sender likes: a TCP socket lingers, a file is of the sender's own file system.
 * Linux refuses from 6.16 on.
 */
static void refuse_descriptors(int fd)
{
	int accepted = 0;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &accepted, sizeof(accepted));
}

static int listen_at(struct tickets *tickets)
{
	const struct sockaddr *address = (const struct sockaddr *)&tickets->address;

	tickets->listening =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (tickets->listening < 0)
		return -errno;
	refuse_descriptors(tickets->listening);
	if (bind(tickets->listening, address, sizeof(tickets->address)) < 0 &&
	    (errno != EADDRINUSE || !is_dead(&tickets->address) ||
	     unlink(tickets->address.sun_path) < 0 ||
	     bind(tickets->listening, address, sizeof(tickets->address)) < 0))
		return -errno;
	if (chmod(tickets->address.sun_path, 0666) < 0 ||
	    listen(tickets->listening, SOMAXCONN) < 0)
		return -errno;
	return 0;
}

int tickets_new(struct tickets **ret_tickets, const char *path, struct text *why)
{
	struct tickets *tickets;
	int error;

	if (strlen(path) >= sizeof(tickets->address.sun_path)) {
		text_printf(
			why,
			"ticket socket %s: a socket's path has at most %zu bytes; name "
			"a shorter one with --socket",
			path, sizeof(tickets->address.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	tickets = calloc(1, sizeof(*tickets));
	if (!tickets)
		return -ENOMEM;
	tickets->address.sun_family = AF_UNIX;
	strcpy(tickets->address.sun_path, path);
	tickets->listening = -1;
	tickets->end = eventfd(0, EFD_CLOEXEC);
	error = tickets->end < 0 ? -errno : listen_at(tickets);
	if (error) {
		text_printf(why, "ticket socket %s: %s", path, strerror(-error));
		tickets->address.sun_path[0] = '\0';
		tickets_free(tickets);
		return error;
	}
	*ret_tickets = tickets;
	return 0;
}

int tickets_resume(struct tickets **ret_tickets, int listening)
{
	struct tickets *tickets = calloc(1, sizeof(*tickets));
	socklen_t length = sizeof(tickets->address);

	if (!tickets)
		return -ENOMEM;
	tickets->listening = -1;
	tickets->end = eventfd(0, EFD_CLOEXEC);
	if (tickets->end < 0 ||
	    getsockname(listening, (struct sockaddr *)&tickets->address, &length) < 0) {
		int error = -errno;

		tickets->address.sun_path[0] = '\0';
		tickets_free(tickets);
		return error;
	}
	tickets->listening = listening;
	*ret_tickets = tickets;
	return 0;
}

const char *tickets_address(const struct tickets *tickets)
{
	return tickets->address.sun_path;
}

int tickets_fd(const struct tickets *tickets)
{
	return tickets->listening;
}

int tickets_serve(struct tickets *tickets, struct broker *broker)
{
	int error;

	tickets->broker = broker;
	error = pthread_create(&tickets->thread, NULL, serve, tickets);
	tickets->serving = error == 0;
	return -error;
}

struct tickets *tickets_free(struct tickets *tickets)
{
	uint64_t one = 1;

	if (!tickets)
		return NULL;
	if (tickets->address.sun_path[0])
		unlink(tickets->address.sun_path);
	if (tickets->serving && write(tickets->end, &one, sizeof(one)) == sizeof(one))
		pthread_join(tickets->thread, NULL);
	while (tickets->n)
		connection_end(tickets, 0);
	closep(&tickets->listening);
	closep(&tickets->end);
	free(tickets);
	return NULL;
}

/* ---- path of the socket ---- */

/* A folder of our own. A link or somebody else's is no place for a socket. */
static bool is_ours(const char *path)
{
	struct stat stat;

	return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode) &&
	       stat.st_uid == geteuid();
}

static bool make_folder(const char *path)
{
	(void)mkdir(path, 0755);
	return is_ours(path);
}

/* With a name that nobody could take before; one such folder of a user is enough. */
static bool make_new_folder(char *path)
{
	glob_t found = { 0 };
	bool made = false;

	if (glob(path, GLOB_NOSORT, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && !made; i++) {
			made = is_ours(found.gl_pathv[i]);
			if (made)
				strcpy(path, found.gl_pathv[i]);
		}
	}
	globfree(&found);
	if (made)
		return true;
	memset(path + strlen(path) - 6, 'X', 6);
	return mkdtemp(path) && chmod(path, 0755) == 0;
}

/* Returns: the folder; NULL: no place, or no memory. */
static char *find_folder(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	_cleanup_free_ char *folder = NULL;
	int r;

	if (geteuid() == 0)
		r = asprintf(&folder, "/run/gpumem");
	else if (runtime && runtime[0] == '/')
		r = asprintf(&folder, "%s/gpumem", runtime);
	else
		r = asprintf(&folder, "/tmp/gpumem-%u", geteuid());
	if (r >= 0 && make_folder(folder))
		return take_ptr(folder);
	if (r >= 0)
		free(folder);
	/* Anybody may have laid out a folder in /tmp. */
	r = asprintf(&folder, "/tmp/gpumem-%u-??????", geteuid());
	if (r < 0)
		folder = NULL;
	return folder && make_new_folder(folder) ? take_ptr(folder) : NULL;
}

char *tickets_path(const char *mountpoint, struct text *why)
{
	_cleanup_free_ char *folder = find_folder();
	char *path = NULL;
	int r;

	if (!folder) {
		text_printf(
			why,
			"ticket socket: no folder for it can be made in /tmp (%s): name "
			"a place with --socket",
			strerror(errno));
		return NULL;
	}
	while (*mountpoint == '/')
		mountpoint++;
	/* The path of a socket is short; the hash keeps shortened names apart. */
	if (strlen(folder) + strlen(mountpoint) < SOCKET_PATH_MAX)
		r = asprintf(&path, "%s/%s", folder, *mountpoint ? mountpoint : "root");
	else
		r = asprintf(
			&path, "%s/%.24s-%016llx", folder, mountpoint,
			(unsigned long long)text_hash(mountpoint, strlen(mountpoint)));
	if (r < 0)
		return NULL;
	for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/'));)
		*slash = '-';
	return path;
}
