/* SPDX-License-Identifier: MIT */
#include "keep/left.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#include "base/def.h"
#include "keep/pack.h"

struct reader {
	struct left *left;
	bool has_end;
	uint32_t n_promised;
};

/* One message: the head, what follows, and the descriptors. */
struct packed {
	struct pack_head head;
	char rest[PATH_MAX];
	size_t length; /* of the rest */
	int fds[PACK_MAX];
	size_t n_fds;
};

_Static_assert(PATH_MAX >= PACK_MAX * sizeof(struct keep_key), "the keys have room");

/* Leaves the message in the queue. Returns: 0; -EAGAIN: no more; -errno. */
static int look_at_next(int socket, struct packed *ret_packed)
{
	struct iovec parts[2] = { { &ret_packed->head, sizeof(ret_packed->head) },
				  { ret_packed->rest, sizeof(ret_packed->rest) } };
	char space[CMSG_SPACE(PACK_MAX * sizeof(int))] __attribute__((aligned(8)));
	struct msghdr header = { .msg_iov = parts,
				 .msg_iovlen = 2,
				 .msg_control = space,
				 .msg_controllen = sizeof(space) };
	const struct cmsghdr *control;
	ssize_t got;

	ret_packed->n_fds = 0;
	do {
		got = recvmsg(socket, &header,
			      MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	/* The other end is closed, so there is no more. */
	if (got <= 0)
		return got < 0 ? -errno : -EAGAIN;
	control = CMSG_FIRSTHDR(&header);
	if (control && control->cmsg_type == SCM_RIGHTS) {
		ret_packed->n_fds = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret_packed->fds, CMSG_DATA(control),
		       ret_packed->n_fds * sizeof(int));
	}
	if ((size_t)got < sizeof(ret_packed->head))
		return -EPROTO;
	ret_packed->length = (size_t)got - sizeof(ret_packed->head);
	return 0;
}

static int take_mountpoint(struct reader *reader, const struct packed *packed)
{
	struct left *left = reader->left;

	if (!packed->length || packed->rest[packed->length - 1] ||
	    (left->mountpoint && strcmp(left->mountpoint, packed->rest) != 0))
		return -EPROTO;
	if (!left->mountpoint)
		left->mountpoint = strdup(packed->rest);
	return left->mountpoint ? 0 : -ENOMEM;
}

static int make_room(struct left *left, size_t n)
{
	size_t capacity = MAX(2 * left->capacity, left->n + n);
	struct kept *more;

	if (left->n + n <= left->capacity)
		return 0;
	more = reallocarray(left->kept, capacity, sizeof(*more));
	if (!more)
		return -ENOMEM;
	left->kept = more;
	left->capacity = capacity;
	return 0;
}

static int take_keys(struct reader *reader, struct packed *packed)
{
	struct left *left = reader->left;
	struct keep_key key;

	if (packed->head.n > PACK_MAX || packed->length != packed->head.n * sizeof(key))
		return -EPROTO;
	/* Beyond the limit of open files the kernel leaves descriptors out. */
	if (packed->n_fds != packed->head.n)
		return -EMFILE;
	if (make_room(left, packed->n_fds) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < packed->n_fds; i++) {
		memcpy(&key, packed->rest + i * sizeof(key), sizeof(key));
		left->kept[left->n++] = (struct kept){ key, take_fd(&packed->fds[i]) };
	}
	return 0;
}

static int take_message(struct reader *reader, struct packed *packed)
{
	if (packed->head.version != PACK_VERSION)
		return -EPROTO;
	if (packed->head.word == PACK_BEGIN)
		return take_mountpoint(reader, packed);
	if (packed->head.word == PACK_KEYS)
		return take_keys(reader, packed);
	if (packed->head.word != PACK_END)
		return -EPROTO;
	reader->has_end = true;
	reader->n_promised = packed->head.n;
	return 0;
}

static int read_socket(struct reader *reader, int socket)
{
	static const int from_first = 0;
	struct packed *packed = malloc(sizeof(*packed));
	int r = packed ? 0 : -ENOMEM;

	/* Each look goes on behind the last one. */
	if (r == 0 && setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &from_first,
				 sizeof(from_first)) < 0)
		r = -errno;
	while (r == 0 && (r = look_at_next(socket, packed)) == 0) {
		r = take_message(reader, packed);
		for (size_t i = 0; i < packed->n_fds; i++)
			closep(&packed->fds[i]);
	}
	free(packed);
	return r == -EAGAIN ? 0 : r;
}

int left_read(struct left *ret_left, int *sockets, size_t n_sockets, struct text *why)
{
	struct reader reader = { .left = ret_left };
	int r = 0;

	*ret_left = (struct left){ .sockets = sockets, .n_sockets = n_sockets };
	for (size_t i = 0; i < n_sockets && r == 0; i++)
		r = read_socket(&reader, sockets[i]);
	if (r < 0)
		text_printf(why, "the sockets of the last keeper can't be read: %s",
			    strerror(-r));
	else if (n_sockets && !ret_left->mountpoint)
		text_printf(why, "the sockets of the last keeper name no mount point");
	else if (n_sockets && (!reader.has_end || reader.n_promised != ret_left->n))
		text_printf(why,
			    "the last keeper was ended too early: only %zu of its "
			    "descriptors are there",
			    ret_left->n);
	else
		return 0;
	return r < 0 ? r : -EPROTO;
}

static void empty_queue(int socket)
{
	ssize_t got;
	char byte;

	/* Descriptors for which there is no room are closed by the kernel. */
	do {
		got = recv(socket, &byte, 1, MSG_DONTWAIT);
	} while (got > 0 || (got < 0 && errno == EINTR));
}

void left_forget(struct left *left)
{
	for (size_t i = 0; i < left->n_sockets; i++)
		empty_queue(left->sockets[i]);
	left_deinit(left);
}

void left_deinit(struct left *left)
{
	for (size_t i = 0; i < left->n; i++)
		closep(&left->kept[i].fd);
	for (size_t i = 0; i < left->n_sockets; i++)
		closep(&left->sockets[i]);
	free(left->sockets);
	free(left->kept);
	free(left->mountpoint);
	*left = (struct left){ 0 };
}
