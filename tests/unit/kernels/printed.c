/* SPDX-License-Identifier: MIT */
/*
 * What a kernel printed is kept when its launch is answered, though the thread that
 * empties the pipes has not come to it: bytes in a pipe end with their broker.
 */
#include "process/output.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "model/owner.h"
#include "model/registry.h"
#include "unit/broker_help.h"

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
			  ".extern .func (.param .b32 r) vprintf"
			  "(.param .b64 f, .param .b64 a);\n"
			  ".global .align 1 .b8 words[4] = {104, 105, 10};\n"
			  ".visible .entry greet(.param .u32 unused)\n"
			  "{\n"
			  "	.reg .b64 %rd<3>;\n"
			  "	.reg .b32 %r<2>;\n"
			  "	mov.u64 %rd0, words;\n"
			  "	cvta.global.u64 %rd1, %rd0;\n"
			  "	mov.u64 %rd2, 0;\n"
			  "	{\n"
			  "	.param .b64 param0;\n"
			  "	st.param.b64 [param0+0], %rd1;\n"
			  "	.param .b64 param1;\n"
			  "	st.param.b64 [param1+0], %rd2;\n"
			  "	.param .b32 retval0;\n"
			  "	call.uni (retval0), vprintf, (param0, param1);\n"
			  "	ld.param.b32 %r0, [retval0+0];\n"
			  "	}\n"
			  "	ret;\n"
			  "}\n";

static struct broker *broker;
static atomic_bool held; /* the thread that empties the pipes */

int __real_epoll_wait(int epoll, struct epoll_event *events, int n, int wait_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int n, int wait_ms);

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int n, int wait_ms)
{
	bool empties_pipes = n == 1;

	while (empties_pipes && atomic_load(&held))
		usleep(1000);
	return __real_epoll_wait(epoll, events, n, wait_ms);
}

static void start(void)
{
	atomic_store(&held, true);
	broker = broker_start("64M", NULL);
}

static void stop(void)
{
	atomic_store(&held, false);
	broker_end(broker);
}

TestSuite(printed, .init = start, .fini = stop, .timeout = 60);

static bool nothing_is_kept(void)
{
	const struct owner *owner;
	bool empty;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_find(broker->registry, nobody_special.uid);
	empty = !owner || !owner->output || output_is_empty(owner->output);
	pthread_mutex_unlock(&broker->registry->lock);
	return empty;
}

Test(printed, an_answered_kernel_has_its_output_kept)
{
	struct token module;

	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, "m", &module), 0));
	cr_assert(eq(int, image_write(broker, module, ptx), 0));
	cr_assert(nothing_is_kept());
	cr_assert(eq(int, command_say(broker, "launch", "m greet grid=1 block=1 i32:0"), 0));
	cr_expect(not(nothing_is_kept()));
}
