/* SPDX-License-Identifier: MIT */
/* An open lease, and the exchange of its ticket (docs/sharing.md). */
#include "client/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/number.h"

/* ---- the text ---- */

/* Where a value is stored: a string or a number of size bytes. */
struct lease_key {
	const char *name;
	size_t offset;
	size_t size;
	bool number;
};

#define KEY_TEXT(name, member)                                     \
	{                                                          \
		name, offsetof(struct lease, member),              \
			sizeof(((struct lease *)0)->member), false \
	}
#define KEY_NUMBER(name, member)                                  \
	{                                                         \
		name, offsetof(struct lease, member),             \
			sizeof(((struct lease *)0)->member), true \
	}

static const struct lease_key keys[] = {
	KEY_NUMBER("lease", number),
	KEY_TEXT("ticket", ticket),
	KEY_TEXT("socket", socket),
	KEY_TEXT("uuid", uuid),
	KEY_TEXT("name", name),
	KEY_NUMBER("address", address),
	KEY_NUMBER("size_bytes", size),
	KEY_NUMBER("mapped_address", mapped_address),
	KEY_NUMBER("mapped_bytes", mapped_size),
	KEY_NUMBER("range_address", range_address),
	KEY_NUMBER("range_bytes", range_size),
	KEY_NUMBER("id", id),
	KEY_NUMBER("generation", generation),
};

static const struct {
	const char *key, *word;
	size_t offset;
	uint8_t value;
} words[] = {
	{ "kind", "device", offsetof(struct lease, kind), GPUMEM_DEVICE },
	{ "kind", "host", offsetof(struct lease, kind), GPUMEM_HOST },
	{ "state", "live", offsetof(struct lease, state), GPUMEM_LIVE },
	{ "state", "freed", offsetof(struct lease, state), GPUMEM_FREED },
	{ "state", "replaced", offsetof(struct lease, state), GPUMEM_REPLACED },
	{ "state", "ending", offsetof(struct lease, state), GPUMEM_ENDING },
};

static void lease_take(struct lease *lease, const char *key, const char *value)
{
	uint64_t number;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char *at = (char *)lease + keys[i].offset;

		if (strcmp(keys[i].name, key) != 0)
			continue;
		if (!keys[i].number)
			snprintf(at, keys[i].size, "%s", value);
		else if (number_parse(value, &number) == 0)
			memcpy(at, &number, keys[i].size); /* little endian */
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(words[i].key, key) == 0 && strcmp(words[i].word, value) == 0)
			*((uint8_t *)lease + words[i].offset) = words[i].value;
	}
}

/* Returns: 0; -EPROTO for the text of another version. */
static int lease_parse(struct lease *lease, char *text)
{
	char *line, *value, *rest = text;
	uint64_t version = 0;

	while ((line = strsep(&rest, "\n"))) {
		value = strchr(line, ' ');
		if (!value)
			continue;
		*value++ = '\0';
		if (strcmp(line, "version") == 0)
			(void)number_parse(value, &version);
		else
			lease_take(lease, line, value);
	}
	if (version == 1)
		lease->mapped_address = lease->address;
	if (version && version <= LEASE_VERSION)
		return 0;
	return error_set(EPROTO,
			 "the broker's leases are of version %llu, this library knows "
			 "those up to %d",
			 (unsigned long long)version, LEASE_VERSION);
}

int lease_read(struct lease *lease, const struct gpumem *gpumem)
{
	char text[4096];
	ssize_t length = pread(lease->fd, text, sizeof(text) - 1, 0);

	if (length < 0 && lease->number && (errno == ENOTCONN || errno == ECONNABORTED)) {
		lease->state = GPUMEM_ENDING;
		return 0;
	}
	if (length < 0)
		return session_fail(gpumem, errno, "lease");
	text[length] = '\0';
	return lease_parse(lease, text);
}

/* Whether size bytes at an address are in a range, of which no number needs to be true.
 */
static bool is_within(uint64_t address, uint64_t size, uint64_t range,
		      uint64_t range_size)
{
	return address >= range && address - range <= range_size &&
	       size <= range_size - (address - range);
}

/*
 * Pointers are made of these numbers, and whose mount it is may be unknown. memory_map()
 * checks the size of the memory. Returns: 0; -EPROTO.
 */
static int lease_check(const struct lease *lease)
{
	if (is_within(lease->address, lease->size, lease->mapped_address,
		      lease->mapped_size) &&
	    (!lease->range_size || is_within(lease->mapped_address, lease->mapped_size,
					     lease->range_address, lease->range_size)))
		return 0;
	return error_set(EPROTO,
			 "the lease of %s does not fit into its mapping: %llu bytes at "
			 "0x%llx, %llu at 0x%llx",
			 lease->name, (unsigned long long)lease->size,
			 (unsigned long long)lease->address,
			 (unsigned long long)lease->mapped_size,
			 (unsigned long long)lease->mapped_address);
}

bool lease_changed(const struct lease *lease)
{
	struct pollfd file = { .fd = lease->fd, .events = POLLPRI };

	/* an error: the broker has gone */
	return poll(&file, 1, 0) > 0 && file.revents & (POLLPRI | POLLERR);
}

/*
 * Whether the name leads nowhere else: no part is empty or begins with a dot. The broker
 * checks the rest.
 */
static bool is_name(const char *name)
{
	for (;; name++) {
		if (!*name || strchr("./", *name))
			return false;
		name = strchr(name, '/');
		if (!name)
			return true;
	}
}

/* Reads and checks a lease that has just been opened. */
static int lease_look(struct lease *lease, const struct gpumem *gpumem)
{
	struct stat stat;
	int r;

	if (fstat(lease->fd, &stat) < 0)
		return session_fail(gpumem, errno, "lease");
	lease->owner = stat.st_uid;
	r = lease_read(lease, gpumem);
	return r < 0 ? r : lease_check(lease);
}

int lease_open(struct lease *lease, const struct gpumem *gpumem, const char *name,
	       bool write)
{
	_cleanup_free_ char *path = session_path(gpumem, "allocations/%s/lease", name);
	char file[GPUMEM_NAME_SIZE + 32];
	int r;

	*lease = (struct lease)LEASE_CLOSED;
	if (!is_name(name))
		return error_set(ENOENT, "'%s' is not the name of an allocation", name);
	if (!path)
		return error_set(ENOMEM, "no memory");
	lease->write = write;
	lease->fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (lease->fd < 0 && errno == ENOENT)
		return error_set(ENOENT, "there is no allocation %s", name);
	if (lease->fd < 0) {
		snprintf(file, sizeof(file), "allocations/%s/lease", name);
		return session_fail(gpumem, errno, file);
	}
	r = lease_look(lease, gpumem);
	if (r < 0)
		lease_close(lease);
	return r;
}

void lease_close(struct lease *lease)
{
	closep(&lease->fd);
}

int lease_hold(const struct lease *lease, const struct gpumem *gpumem,
	       enum gpumem_hold hold)
{
	const uint32_t value = hold;

	if (ioctl(lease->fd, GPUMEM_LEASE_HOLD, &value) < 0)
		return session_fail(gpumem, errno, "lease");
	return 0;
}

/* ---- the ticket ---- */

#define TICKET_TRIES 4
#define UNANSWERED   INT_MIN

static int ticket_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const char *other = secure_getenv("GPUMEM_SOCKET");

	if (other && *other)
		path = other;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return error_set(errno, "the broker's ticket socket %s: %s", path,
				 strerror(errno));
	return take_fd(&fd);
}

/*
 * Takes the descriptor of a message. Others are closed: no broker sends them. Returns: -1
 * where none came.
 */
static int message_take_fd(struct msghdr *message)
{
	int taken = -1;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR(message, header)) {
		const int *fds = (const int *)CMSG_DATA(header);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= header->cmsg_len;
		     i++) {
			if (taken < 0)
				taken = fds[i];
			else
				close(fds[i]);
		}
	}
	return taken;
}

/* Returns: a descriptor; UNANSWERED, where the connection just ended; -errno. */
static int ticket_answer(int connection)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))]; /* two fit, by the alignment */
		struct cmsghdr align;
	} control;
	uint8_t error = 0;
	struct iovec iov = { &error, 1 };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	_cleanup_close_ int fd = -1;
	ssize_t length;

	do {
		length = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
	} while (length < 0 && errno == EINTR);
	if (length < 0 && errno != ECONNRESET)
		return error_set(errno, "the ticket socket: %s", strerror(errno));
	if (length >= 0)
		fd = message_take_fd(&message);
	if (length <= 0)
		return UNANSWERED;
	if (error)
		return error_set(error, "the broker refused the ticket: %s",
				 strerror(error));
	if (fd < 0)
		return error_set(EPROTO, "the ticket socket sent no descriptor");
	return take_fd(&fd);
}

/* Returns: as ticket_answer(). */
static int ticket_send(const struct lease *lease)
{
	_cleanup_close_ int connection = ticket_connect(lease->socket);
	int error;

	if (connection < 0)
		return connection;
	if (send(connection, lease->ticket, strlen(lease->ticket), MSG_NOSIGNAL) < 0) {
		error = errno;
		return error == EPIPE ? UNANSWERED
				      : error_set(error, "the ticket socket: %s",
						  strerror(error));
	}
	return ticket_answer(connection);
}

/* The connections of a broker end with its death; the next broker has the same socket. */
int lease_redeem(const struct lease *lease)
{
	int fd = UNANSWERED;

	for (int i = 0; i < TICKET_TRIES && fd == UNANSWERED; i++)
		fd = ticket_send(lease);
	if (fd == UNANSWERED)
		return error_set(ECONNRESET,
				 "the ticket socket closed without an answer, %d times: "
				 "the broker died, or this user has too many connections",
				 TICKET_TRIES);
	return fd;
}
