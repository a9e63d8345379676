/* SPDX-License-Identifier: MIT */
/*
 * The worker's end of the wire.
 *
 * Every operation is a row with its handler, and whether it needs a stream. The rules for
 * records are the table of protocol/wire.h, used on both sides. When a record breaks the
 * rules the worker prints an error and exits.
 *
 * Once a failed driver call has destroyed the process's contexts, the driver is not
 * called any more: every answer repeats the failure until the broker ends this process.
 */
#include "worker/serve.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "protocol/wire.h"
#include "worker/checkpoint.h"
#include "worker/driver_log.h"
#include "worker/file_move.h"
#include "worker/managed.h"
#include "worker/memory.h"
#include "worker/transfer.h"
#include "worker/worker.h"

struct operation {
	int (*run)(struct worker *worker, struct job *job, struct cuda_failure *failure);
	bool on_stream; /* uses the thread's stream if the request names none */
	bool by_cpu;	/* needs no context */
};

static const struct operation operations[WIRE_OP_END_] = {
	[WIRE_MAP] = { mapping_map, false },
	[WIRE_UNMAP] = { mapping_unmap, false },
	[WIRE_MAP_HOST] = { mapping_map_host, false },
	[WIRE_UNMAP_HOST] = { mapping_unmap_host, false },
	[WIRE_STREAM_CREATE] = { stream_create, false },
	[WIRE_STREAM_DESTROY] = { stream_destroy, false },
	[WIRE_ALLOC] = { memory_alloc, true },
	[WIRE_FREE] = { memory_free, true },
	[WIRE_READ] = { transfer_read, true },
	[WIRE_WRITE] = { transfer_write, true },
	[WIRE_COPY] = { transfer_copy, true },
	[WIRE_FILL] = { transfer_fill, true },
	[WIRE_MEMORY] = { memory_info, false },
	[WIRE_MODULE_LOAD] = { module_load, false },
	[WIRE_MODULE_UNLOAD] = { module_unload, false },
	[WIRE_MODULE_LOG] = { module_log, false },
	[WIRE_MODULE_FUNCTIONS] = { module_functions, false },
	[WIRE_MODULE_FIND] = { module_find, false },
	[WIRE_FUNCTION_ATTRIBUTES] = { module_attributes, false },
	[WIRE_SAVE] = { rescue_save, false, true },
	[WIRE_RESTORE] = { rescue_restore, false, true },
	[WIRE_PREFETCH] = { managed_prefetch, true },
	[WIRE_ADVISE] = { managed_advise, false },
	[WIRE_ATTACH] = { managed_attach, true },
	[WIRE_RANGE] = { managed_range, false },
	[WIRE_FILE_LOAD] = { file_load, false },
	[WIRE_FILE_SAVE] = { file_save, false },
};

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

/* Takes the descriptor of a message; -1 when there is none. */
static int receive_fd(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int fd;

	if (!header)
		return -1;
	if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(sizeof(int)))
		worker_die("was sent more than a descriptor");
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

static void receive_check(const struct worker *worker, const struct job *job,
			  size_t n_payload, int flags)
{
	const struct wire_request *request = &job->request;
	const char *wrong;

	if (flags & MSG_TRUNC)
		worker_die("was sent a record of a wrong size");
	/* The owner may have lowered the limit. */
	if (flags & MSG_CTRUNC)
		worker_die("has no room for another descriptor (RLIMIT_NOFILE)");
	if (!request->id)
		worker_die("was sent a request without an id");
	wrong = wire_check_request(request, job->fd >= 0, worker->staging_size);
	if (!wrong &&
	    n_payload != (wire_op_has_payload(request->op) ? request->length : 0))
		worker_die("was sent a record of a wrong size");
	if (!wrong && n_payload)
		wrong = wire_check_payload(request, worker->payload);
	if (wrong)
		worker_die("was sent a request with %s", wrong);
}

static void receive_payload(const struct worker *worker, struct job *job, size_t n)
{
	if (!n)
		return;
	job->payload = malloc(n);
	if (!job->payload)
		worker_die("has no memory left");
	memcpy(job->payload, worker->payload, n);
}

bool serve_receive(struct worker *worker, int socket, struct job *job)
{
	struct iovec parts[] = {
		{ &job->request, sizeof(job->request) },
		/* Urgent requests have no payload. */
		{ worker->payload,
		  socket == WIRE_SOCKET_FD ? sizeof(worker->payload) : 0 },
	};
	union control control;
	struct msghdr message = {
		.msg_iov = parts,
		.msg_iovlen = ARRAY_SIZE(parts),
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return false;
	if (n < 0)
		worker_die("can't receive: %m");
	atomic_load_explicit(&worker->n_answers, memory_order_acquire);

	if ((size_t)n < sizeof(job->request))
		worker_die("was sent a record of a wrong size");
	job->fd = receive_fd(&message);
	job->payload = NULL;
	job->stream = NULL;
	job->value[0] = job->value[1] = 0;
	job->rest = 0;
	if (wire_op_is_urgent(job->request.op) != (socket == WIRE_URGENT_FD))
		worker_die("was sent a request by the wrong socket");
	receive_check(worker, job, (size_t)n - sizeof(job->request), message.msg_flags);
	receive_payload(worker, job, (size_t)n - sizeof(job->request));
	return true;
}

static void reply_send(const struct wire_reply *reply, const char *text, size_t n_text)
{
	struct iovec parts[] = {
		{ (void *)reply, sizeof(*reply) },
		{ (void *)text, n_text },
	};
	const struct msghdr message = { .msg_iov = parts,
					.msg_iovlen = ARRAY_SIZE(parts) };
	ssize_t n;

	do
		n = sendmsg(WIRE_SOCKET_FD, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		_exit(EXIT_SUCCESS);
	if (n < 0)
		worker_die("can't reply: %m");
}

void serve_last_words(const char *words)
{
	const struct wire_reply reply = { .id = WIRE_LAST_WORDS, .call = -1 };
	struct iovec parts[] = {
		{ (void *)&reply, sizeof(reply) },
		{ (void *)words, MIN(strlen(words), (size_t)WIRE_TEXT_MAX) },
	};
	const struct msghdr message = { .msg_iov = parts,
					.msg_iovlen = ARRAY_SIZE(parts) };

	/* Without room in the socket the broker has only the exit status. */
	(void)sendmsg(WIRE_SOCKET_FD, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void reply_error(const struct job *job, int error,
			const struct cuda_failure *failure)
{
	const struct wire_reply reply = {
		.id = job->request.id,
		.error = error,
		.call = failure->call,
		.result = failure->result,
	};
	char text[WIRE_TEXT_MAX];
	size_t n_text = 0;

	if (!cuda_result_is_sticky(failure->result))
		driver_log_forget();
	else if (wire_op_has_text(job->request.op))
		n_text = driver_log_copy(text);
	reply_send(&reply, text, n_text);
}

static void reply_success(const struct job *job)
{
	const struct wire_reply reply = {
		.id = job->request.id,
		.call = -1,
		.value = { job->value[0], job->value[1] },
	};

	reply_send(&reply, NULL, 0);
}

bool worker_is_lost(struct worker *worker, struct cuda_failure *ret_failure)
{
	uint64_t lost = atomic_load(&worker->lost);

	if (!lost)
		return false;
	*ret_failure = (struct cuda_failure){ (int)(lost >> 32), (int)(uint32_t)lost };
	return true;
}

/* The first failure is the cause; later failures only follow from it. */
static void worker_note_failure(struct worker *worker, const struct cuda_failure *failure)
{
	uint64_t none = 0;

	if (cuda_result_is_sticky(failure->result))
		atomic_compare_exchange_strong(&worker->lost, &none,
					       (uint64_t)failure->call << 32 |
						       (uint32_t)failure->result);
}

int serve_job(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	const struct operation *operation = &operations[job->request.op];
	int r;

	if (operation->by_cpu)
		return operation->run(worker, job, failure);
	if (worker_is_lost(worker, failure))
		return -cuda_result_errno(failure->result);
	if (!operation->run)
		worker_die("was greeted twice");
	r = device_enter(worker, job->request.device, failure);
	if (r == 0 && operation->on_stream && !job->stream)
		r = device_stream(worker, &job->stream, failure);
	if (r == 0)
		r = operation->run(worker, job, failure);
	return r;
}

void serve_answer(struct worker *worker, struct job *job, int r,
		  const struct cuda_failure *failure)
{
	closep(&job->fd);
	atomic_fetch_add_explicit(&worker->n_answers, 1, memory_order_acq_rel);
	if (r < 0) {
		worker_note_failure(worker, failure);
		reply_error(job, -r, failure);
	} else {
		reply_success(job);
	}
}

void serve_run(struct worker *worker, struct job *job)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	int r;

	r = serve_job(worker, job, &failure);
	serve_answer(worker, job, r, &failure);
}

void serve_refuse(struct job *job, int error)
{
	const struct cuda_failure none = CUDA_FAILURE_NONE;

	closep(&job->fd);
	reply_error(job, error, &none);
}

bool serve_hello(struct worker *worker,
		 int (*open)(struct worker *worker, struct cuda_failure *failure))
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	struct job job;
	int r;

	if (!serve_receive(worker, WIRE_SOCKET_FD, &job))
		_exit(EXIT_SUCCESS);
	if (job.request.op != WIRE_HELLO)
		worker_die("was not greeted");
	r = open(worker, &failure);
	if (r < 0) {
		reply_error(&job, -r, &failure);
		return false;
	}
	job.value[0] = WIRE_VERSION;
	job.value[1] = worker->n_devices;
	reply_success(&job);
	return true;
}
