/* SPDX-License-Identifier: MIT */
/*
 * A broker that sends nonsense: the worker prints the fault and exits. When a broker
 * dies, the worker exits, too.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/spawner.h"
#include "channel/channel.h"
#include "channel/staging.h"
#include "channel/worker_spawn.h"

TestSuite(nonsense, .timeout = 60);

struct broker {
	struct spawner spawner;
	struct staging staging;
	int socket;
	int urgent;
	int errors; /* the worker's stderr */
	pid_t pid;
};

/* The worker inherits stderr, so this process's stderr is a pipe during the start. */
static void broker_start(struct broker *broker)
{
	int sockets[2], urgent[2], errors[2];
	int kept = dup(STDERR_FILENO);

	setenv("GPUMEM_SOFTGPU", "machine=nonsense", 1);
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
		     0));
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, urgent),
		     0));
	cr_assert(eq(int, pipe2(errors, O_CLOEXEC), 0));
	cr_assert(eq(int, staging_init(&broker->staging, "test", 1), 0));
	cr_assert(eq(int, spawner_init(&broker->spawner), 0));
	dup2(errors[1], STDERR_FILENO);
	cr_assert(eq(
		int,
		worker_spawn(&(struct channel_config){ .spawner = &broker->spawner,
						       .program = getenv("GPUMEM_WORKER"),
						       .driver = getenv("GPUMEM_DRIVER"),
						       .name = "mover",
						       .mover = true,
						       .staging_fd = broker->staging.fd },
			     sockets[1], urgent[1], &broker->pid),
		0));
	dup2(kept, STDERR_FILENO);
	close(sockets[1]);
	close(urgent[1]);
	close(errors[1]);
	broker->socket = sockets[0];
	broker->urgent = urgent[0];
	broker->errors = errors[0];
}

static void broker_send(struct broker *broker, const void *record, size_t length)
{
	cr_assert(eq(long, send(broker->socket, record, length, MSG_NOSIGNAL),
		     (long)length));
}

static void broker_greet(struct broker *broker)
{
	struct wire_request hello = { .id = 1, .op = WIRE_HELLO };
	struct wire_reply reply;

	broker_send(broker, &hello, sizeof(hello));
	cr_assert(
		eq(long, recv(broker->socket, &reply, sizeof(reply), 0), sizeof(reply)));
	cr_assert(eq(int, reply.error, 0));
}

/* Waits for the worker's end. The exit status is `status`, and stderr contains `words`.
 */
static void broker_expect(struct broker *broker, int status, const char *words)
{
	char text[512] = "";
	size_t length = 0;
	ssize_t n;
	int end;

	cr_assert(eq(int, waitpid(broker->pid, &end, 0), broker->pid));
	cr_assert(eq(int, !!WIFEXITED(end), 1));
	cr_assert(eq(int, WEXITSTATUS(end), status));
	while ((n = read(broker->errors, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)n;
	cr_assert(eq(str, text, (char *)words));
	spawner_deinit(&broker->spawner);
	staging_deinit(&broker->staging);
}

static void expect_exit(struct wire_request request, const char *words)
{
	struct broker broker;

	broker_start(&broker);
	broker_greet(&broker);
	broker_send(&broker, &request, sizeof(request));
	broker_expect(&broker, 1, words);
}

Test(nonsense, closed_socket_is_the_end)
{
	struct broker broker;

	broker_start(&broker);
	close(broker.socket);
	broker_expect(&broker, 0, "");
}

Test(nonsense, closed_socket_is_the_end_after_hello)
{
	struct broker broker;

	broker_start(&broker);
	broker_greet(&broker);
	close(broker.socket);
	broker_expect(&broker, 0, "");
}

Test(nonsense, request_before_hello)
{
	struct wire_request request = { .id = 1, .op = WIRE_MEMORY };
	struct broker broker;

	broker_start(&broker);
	broker_send(&broker, &request, sizeof(request));
	broker_expect(&broker, 1, "gpumem-worker (mover) was not greeted\n");
}

Test(nonsense, request_by_the_wrong_socket)
{
	const struct wire_request request = { .id = 2, .op = WIRE_MEMORY };
	struct broker broker;

	broker_start(&broker);
	broker_greet(&broker);
	cr_assert(eq(long, send(broker.urgent, &request, sizeof(request), MSG_NOSIGNAL),
		     sizeof(request)));
	broker_expect(&broker, 1,
		      "gpumem-worker (mover) was sent a request by the wrong socket\n");
	broker_start(&broker);
	broker_greet(&broker);
	broker_send(&broker,
		    &(struct wire_request){ .id = 2, .op = WIRE_SAVE, .length = 1 },
		    sizeof(struct wire_request));
	broker_expect(&broker, 1,
		      "gpumem-worker (mover) was sent a request by the wrong socket\n");
}

Test(nonsense, second_hello)
{
	expect_exit((struct wire_request){ .id = 2, .op = WIRE_HELLO },
		    "gpumem-worker (mover) was greeted twice\n");
}

Test(nonsense, unknown_operation)
{
	expect_exit((struct wire_request){ .id = 2, .op = 77 },
		    "gpumem-worker (mover) was sent a request with no such operation\n");
}

Test(nonsense, request_without_an_id)
{
	expect_exit((struct wire_request){ .op = WIRE_MEMORY },
		    "gpumem-worker (mover) was sent a request without an id\n");
}

Test(nonsense, mapping_without_memory)
{
	expect_exit((struct wire_request){ .id = 2,
					   .op = WIRE_MAP,
					   .address = WIRE_DEVICE_BASE,
					   .length = 4096 },
		    "gpumem-worker (mover) was sent a request with no descriptor\n");
}

Test(nonsense, transfer_outside_the_staging_area)
{
	expect_exit((struct wire_request){ .id = 2,
					   .op = WIRE_READ,
					   .address = WIRE_DEVICE_BASE,
					   .length = 1,
					   .offset = STAGING_SLOT },
		    "gpumem-worker (mover) was sent a request with a range outside the "
		    "staging area\n");
}

Test(nonsense, record_of_a_wrong_size)
{
	struct broker broker;

	broker_start(&broker);
	broker_greet(&broker);
	broker_send(&broker, "x", 1);
	broker_expect(&broker, 1,
		      "gpumem-worker (mover) was sent a record of a wrong size\n");
}

/* Starts a worker, writes its pid to `tell` and waits to be killed. */
_Noreturn static void broker_play(int tell)
{
	struct broker broker;

	broker_start(&broker);
	broker_greet(&broker);
	if (write(tell, &broker.pid, sizeof(broker.pid)) != sizeof(broker.pid))
		_exit(1);
	for (;;)
		pause();
}

Test(nonsense, stopped_worker_dies_with_its_broker)
{
	struct pollfd gone = { .events = POLLIN };
	pid_t broker, worker;
	int pipes[2];

	cr_assert(eq(int, pipe2(pipes, O_CLOEXEC), 0));
	broker = fork();
	if (broker == 0)
		broker_play(pipes[1]);
	close(pipes[1]);
	cr_assert(eq(long, read(pipes[0], &worker, sizeof(worker)), sizeof(worker)));
	gone.fd = pidfd_open(worker, 0);
	cr_assert(ge(int, gone.fd, 0));
	kill(worker, SIGSTOP);
	kill(broker, SIGKILL);
	cr_assert(eq(int, poll(&gone, 1, 30000), 1));
	waitpid(broker, NULL, 0);
}
