/* SPDX-License-Identifier: MIT */
/* The threads that take requests. A socket stands for the kernel. */
#include "transport.h"

#include "base/def.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define N_REQUESTS 100

/* ---- a broker without memory ---- */

int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer)
{
	(void)broker;
	(void)ret_buffer;
	return -ENOMEM;
}

void broker_buffer_put(struct broker *broker, struct buffer *buffer)
{
	(void)broker;
	(void)buffer;
	cr_assert_fail("no buffer was given out");
}

/* ---- a session on a socket ---- */

static ssize_t socket_writev(int fd, struct iovec *iov, int n, void *userdata)
{
	(void)userdata;
	return writev(fd, iov, n);
}

static ssize_t socket_read(int fd, void *bytes, size_t size, void *userdata)
{
	(void)userdata;
	return read(fd, bytes, size);
}

/* Answers EBUSY if the transport has a free buffer, else ENOMEM. */
static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size,
		     off_t offset, struct fuse_file_info *info)
{
	(void)ino;
	(void)bytes;
	(void)size;
	(void)offset;
	(void)info;
	fuse_reply_err(req, transport_buffer() ? EBUSY : ENOMEM);
}

static int n_ended; /* atomic */

static void on_answering(void *userdata)
{
	(void)userdata;
}

static void on_ended(void *userdata)
{
	(void)userdata;
	__atomic_add_fetch(&n_ended, 1, __ATOMIC_RELAXED);
}

struct kernel {
	int fd;
	struct fuse_session *session;
	struct transport *transport;
};

/* Sends a request. Returns: the error of the answer, 0 or negative. */
static int ask(struct kernel *kernel, uint32_t opcode, const void *body, size_t size)
{
	struct fuse_in_header header = {
		.len = (uint32_t)(sizeof(header) + size),
		.opcode = opcode,
		.unique = 1,
		.nodeid = FUSE_ROOT_ID,
	};
	struct iovec iov[] = { { &header, sizeof(header) }, { (void *)body, size } };
	struct timeval limit = { .tv_sec = 10 };
	struct {
		struct fuse_out_header header;
		uint8_t body[4096];
	} answer;

	setsockopt(kernel->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	cr_assert_eq(writev(kernel->fd, iov, ARRAY_SIZE(iov)), header.len);
	cr_assert_geq(read(kernel->fd, &answer, sizeof(answer)),
		      (ssize_t)sizeof(answer.header), "no answer: %s", strerror(errno));
	return answer.header.error;
}

static void kernel_begin(struct kernel *kernel)
{
	static const struct fuse_lowlevel_ops ops = { .write = op_write };
	static const struct fuse_custom_io io = { .writev = socket_writev,
						  .read = socket_read };
	const struct fuse_init_in init = { .major = FUSE_KERNEL_VERSION,
					   .minor = FUSE_KERNEL_MINOR_VERSION };
	char *argv[] = { (char *)"test" };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	kernel->fd = fds[0];
	kernel->session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	cr_assert(kernel->session);
	cr_assert_eq(fuse_session_custom_io(kernel->session, &io, fds[1]), 0);
	cr_assert_eq(transport_new(&kernel->transport, kernel->session, NULL,
				   on_answering, on_ended, NULL),
		     0);
	cr_assert_eq(ask(kernel, FUSE_INIT, &init, sizeof(init)), 0);
}

static void kernel_end(struct kernel *kernel)
{
	transport_free(kernel->transport);
	fuse_session_destroy(kernel->session);
	close(kernel->fd);
}

/* ---- cases ---- */

Test(transport, without_memory_for_a_buffer_requests_are_answered)
{
	struct fuse_getattr_in getattr = { 0 };
	struct kernel kernel;

	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		cr_assert_eq(ask(&kernel, FUSE_GETATTR, &getattr, sizeof(getattr)),
			     -ENOSYS);
	cr_assert_eq(n_ended, 0);
	kernel_end(&kernel);
}

Test(transport, without_memory_for_a_buffer_a_write_has_none_to_take)
{
	struct {
		struct fuse_write_in write;
		uint8_t bytes[8];
	} write = { .write = { .size = sizeof(write.bytes) } };
	struct kernel kernel;

	kernel_begin(&kernel);
	for (int i = 0; i < N_REQUESTS; i++)
		cr_assert_eq(ask(&kernel, FUSE_WRITE, &write, sizeof(write)), -ENOMEM);
	cr_assert_eq(n_ended, 0);
	kernel_end(&kernel);
}
