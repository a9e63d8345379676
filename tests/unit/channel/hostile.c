/* SPDX-License-Identifier: MIT */
/*
 * A hostile worker without a driver. Its name, given by the channel, chooses the part
 * that it plays. A part is a row: the answer to HELLO (NULL: an honest answer), and the
 * answer to each later request.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"
#include "unit/channel/fake_worker.h"

#include <gpumem/wire.h>

#define FIRST_FREE_FD (WIRE_URGENT_FD + 1)
#define STRANGER_ID   0x700000007ull

struct part {
	const char *name;
	void (*hello)(const struct wire_request *request);
	void (*serve)(const struct wire_request *request, int fd);
};

static void put(const void *record, size_t length)
{
	if (send(WIRE_SOCKET_FD, record, length, MSG_NOSIGNAL) < 0)
		_exit(1);
}

static struct wire_reply reply_to(const struct wire_request *request)
{
	struct wire_reply reply = { .id = request->id, .call = -1 };

	switch (request->op) {
	case WIRE_HELLO:
		reply.value[0] = WIRE_VERSION;
		reply.value[1] = 1;
		break;
	case WIRE_ALLOC:
		reply.value[0] = 0x10000;
		break;
	case WIRE_MEMORY:
		reply.value[0] = 1;
		reply.value[1] = 2;
		break;
	}
	return reply;
}

static void put_reply(struct wire_reply reply)
{
	put(&reply, sizeof(reply));
}

static void serve_honestly(const struct wire_request *request, int fd)
{
	(void)fd;
	put_reply(reply_to(request));
}

static void serve_never(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
}

static void serve_stopped(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
	raise(SIGSTOP);
}

static void serve_short(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
	put("x", 1);
}

static void serve_long(const struct wire_request *request, int fd)
{
	char record[4096] = { 0 };
	struct wire_reply reply = reply_to(request);

	(void)fd;
	memcpy(record, &reply, sizeof(reply));
	put(record, sizeof(record));
}

/* Text behind an answer that has none. */
static void serve_text(const struct wire_request *request, int fd)
{
	char record[sizeof(struct wire_reply) + 4] = { 0 };
	struct wire_reply reply = reply_to(request);

	(void)fd;
	memcpy(record, &reply, sizeof(reply));
	put(record, sizeof(record));
}

_Noreturn static void put_last_words(const char *words)
{
	char record[sizeof(struct wire_reply) + 100];
	const struct wire_reply reply = { .id = WIRE_LAST_WORDS, .call = -1 };

	memcpy(record, &reply, sizeof(reply));
	strcpy(record + sizeof(reply), words);
	put(record, sizeof(reply) + strlen(words) + 1);
	_exit(1);
}

static void serve_last_words(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
	put_last_words("can't go on\" run=7\n");
}

static void serve_empty(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
	put("", 0);
}

static void serve_garbage(const struct wire_request *request, int fd)
{
	struct wire_reply reply;

	(void)request;
	(void)fd;
	memset(&reply, 0xa5, sizeof(reply));
	put_reply(reply);
}

static void serve_stranger(const struct wire_request *request, int fd)
{
	struct wire_reply reply = reply_to(request);

	(void)fd;
	reply.id = STRANGER_ID;
	put_reply(reply);
}

static void serve_twice(const struct wire_request *request, int fd)
{
	serve_honestly(request, fd);
	serve_honestly(request, fd);
}

static void serve_with_fd(const struct wire_request *request, int fd)
{
	struct wire_reply reply = reply_to(request);
	struct iovec record = { &reply, sizeof(reply) };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = {
		.msg_iov = &record,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	(void)fd;
	control.header = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	memcpy(CMSG_DATA(&control.header), &(int){ STDIN_FILENO }, sizeof(int));
	if (sendmsg(WIRE_SOCKET_FD, &message, MSG_NOSIGNAL) < 0)
		put_last_words(strerror(errno));
}

static void serve_huge(const struct wire_request *request, int fd)
{
	struct wire_reply reply = reply_to(request);

	(void)fd;
	reply.value[0] = UINT64_MAX;
	put_reply(reply);
}

static void serve_inside(const struct wire_request *request, int fd)
{
	struct wire_reply reply = reply_to(request);

	(void)fd;
	reply.value[0] = WIRE_DEVICE_BASE;
	put_reply(reply);
}

static void serve_bad_call(const struct wire_request *request, int fd)
{
	struct wire_reply reply = {
		.id = request->id, .error = EIO, .call = 100000, .result = 1
	};

	(void)fd;
	put_reply(reply);
}

static void serve_flood(const struct wire_request *request, int fd)
{
	for (;;)
		serve_honestly(request, fd);
}

/* Exits and leaves a child with the socket open. */
static void serve_orphan(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
	if (fork() == 0) {
		alarm(20);
		pause();
	}
	_exit(5);
}

static void serve_close(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
	close(WIRE_SOCKET_FD);
	for (;;)
		pause();
}

static void serve_exit(const struct wire_request *request, int fd)
{
	(void)request;
	(void)fd;
	_exit(3);
}

static void serve_error(const struct wire_request *request, int fd)
{
	struct wire_reply reply = {
		.id = request->id, .error = ENOMEM, .call = 5, .result = 2
	};

	(void)fd;
	put_reply(reply);
}

/* Tries to shrink the staging area and answers with the errno. */
static void serve_truncate(const struct wire_request *request, int fd)
{
	struct wire_reply reply = { .id = request->id, .call = -1 };

	(void)fd;
	if (ftruncate(WIRE_STAGING_FD, 0) < 0)
		reply.error = errno;
	put_reply(reply);
}

/* Answers, and goes on changing the bytes of the answer. */
static void serve_scribble(const struct wire_request *request, int fd)
{
	struct stat st;
	uint8_t *memory;

	if (fstat(WIRE_STAGING_FD, &st) < 0)
		_exit(1);
	memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		      WIRE_STAGING_FD, 0);
	if (memory == MAP_FAILED)
		_exit(1);
	serve_honestly(request, fd);
	for (uint8_t byte = 0;; byte++)
		memset(memory, byte, (size_t)st.st_size);
}

/* Answers 0 if the worker has its listed descriptors only and an empty stdin. */
static void serve_inventory(const struct wire_request *request, int fd)
{
	struct wire_reply reply = { .id = request->id, .call = -1 };
	char byte;

	(void)fd;
	if (read(STDIN_FILENO, &byte, 1) != 0 || getsid(0) != getpid())
		reply.error = EBADF;
	if (fcntl(WIRE_URGENT_FD, F_GETFD) < 0)
		reply.error = ENOTCONN;
	for (int other = FIRST_FREE_FD; other < 1024; other++)
		if (fcntl(other, F_GETFD) >= 0)
			reply.error = EMFILE;
	put_reply(reply);
}

/* Answers 0 if the received descriptor holds the bytes "gpumem". */
static void serve_peek(const struct wire_request *request, int fd)
{
	struct wire_reply reply = { .id = request->id, .call = -1 };
	char bytes[6];

	if (pread(fd, bytes, sizeof(bytes), 0) != sizeof(bytes) ||
	    memcmp(bytes, "gpumem", sizeof(bytes)) != 0)
		reply.error = EBADF;
	put_reply(reply);
}

static void hello_of_another_version(const struct wire_request *request)
{
	struct wire_reply reply = reply_to(request);

	reply.value[0]++;
	put_reply(reply);
}

static void hello_of_a_failure(const struct wire_request *request)
{
	put_reply((struct wire_reply){
		.id = request->id, .error = ENODEV, .call = 0, .result = 100 });
	_exit(1);
}

static void hello_never(const struct wire_request *request)
{
	(void)request;
}

static void hello_by_exit(const struct wire_request *request)
{
	(void)request;
	_exit(3);
}

static const struct part parts[] = {
	{ "badcall", NULL, serve_bad_call },
	{ "close", NULL, serve_close },
	{ "empty", NULL, serve_empty },
	{ "error", NULL, serve_error },
	{ "exit", NULL, serve_exit },
	{ "fd", NULL, serve_with_fd },
	{ "flood", NULL, serve_flood },
	{ "garbage", NULL, serve_garbage },
	{ "hello-exit", hello_by_exit, NULL },
	{ "hello-failure", hello_of_a_failure, NULL },
	{ "hello-never", hello_never, NULL },
	{ "hello-version", hello_of_another_version, NULL },
	{ "honest", NULL, serve_honestly },
	{ "huge", NULL, serve_huge },
	{ "inside", NULL, serve_inside },
	{ "inventory", NULL, serve_inventory },
	{ "last-words", NULL, serve_last_words },
	{ "long", NULL, serve_long },
	{ "orphan", NULL, serve_orphan },
	{ "peek", NULL, serve_peek },
	{ "scribble", NULL, serve_scribble },
	{ "short", NULL, serve_short },
	{ "silent", NULL, serve_never },
	{ "stopped", NULL, serve_stopped },
	{ "stranger", NULL, serve_stranger },
	{ "text", NULL, serve_text },
	{ "truncate", NULL, serve_truncate },
	{ "twice", NULL, serve_twice },
};

static const struct part *part_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (!strcmp(parts[i].name, name))
			return &parts[i];
	fprintf(stderr, "no such part: %s\n", name);
	_exit(2);
}

int main(int argc, char **argv)
{
	const struct part *part;
	struct wire_request request;
	int fd;

	if (argc < 3 || strcmp(argv[1], "--name"))
		return 2;
	part = part_find(argv[2]);
	while (fake_worker_take(&request, &fd)) {
		if (request.op != WIRE_HELLO)
			part->serve(&request, fd);
		else if (part->hello)
			part->hello(&request);
		else
			serve_honestly(&request, fd);
		closep(&fd);
	}
	return 0;
}
