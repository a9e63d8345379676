/* SPDX-License-Identifier: MIT */
/*
 * Modules in the real worker, through the real link, on the driver that GPUMEM_DRIVER
 * names. The test plays the broker.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda/result.h"
#include "unit/channel/channel_help.h"
#include "protocol/function_record.h"

#include <gpumem/function.h>

#define HEAD ".version 7.0\n.target sm_52\n.address_size 64\n"
#define ROOM WIRE_TRANSFER_MAX

static const char two_kernels[] = HEAD ".visible .entry f(.param .u32 n, .param .u64 p)\n"
				       "{\n\tret;\n}\n"
				       ".visible .entry g()\n{\n\tret;\n}\n";

static struct fixture fixture;

static void start_with(const char *extra)
{
	struct channel_config config = {
		.name = "1000",
		.program = getenv("GPUMEM_WORKER"),
		.driver = getenv("GPUMEM_DRIVER"),
		.uid = geteuid(),
		.gid = getegid(),
		.n_threads = 2,
	};
	char settings[256];

	snprintf(settings, sizeof(settings), "devices=2:memory=64M:machine=module-%d%s%s",
		 getpid(), *extra ? ":" : "", extra);
	setenv("GPUMEM_SOFTGPU", settings, 1);
	fixture_start(&fixture, config, 2);
}

static void start(void)
{
	start_with("");
}

static void stop(void)
{
	channel_stop(fixture.channel, 30);
	cr_assert(eq(str, (char *)fixture_wait_end(&fixture), (char *)"was stopped"));
	fixture_stop(&fixture);
}

TestSuite(module, .timeout = 60);

static bool driver_is_soft(void)
{
	return strchr(getenv("GPUMEM_DRIVER"), '/');
}

static int image(const void *bytes, size_t n)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	cr_assert(eq(long, write(fd, bytes, n), (long)n));
	return fd;
}

static struct wire_request request(uint32_t op, uint32_t module)
{
	return (struct wire_request){ .op = op, .module = module };
}

/* A request with a slot of the staging area for the answer. */
static struct wire_request inquiry(uint32_t op, uint32_t module, uint32_t function)
{
	return (struct wire_request){
		.op = op,
		.module = module,
		.function = function,
		.offset = staging_offset(0),
		.length = ROOM,
	};
}

static int ask(struct wire_request what, struct wire_reply *reply)
{
	return fixture_ask(&fixture, what, -1, reply);
}

static int load(uint32_t module, const char *text, struct wire_reply *reply)
{
	return fixture_ask(&fixture, request(WIRE_MODULE_LOAD, module),
			   image(text, strlen(text)), reply);
}

static const uint8_t *slot(void)
{
	return staging_payload(&fixture.staging, 0);
}

/* The driver lists functions in any order. */
static void expect_f_or_g(const struct record *record, bool *f, bool *g)
{
	bool is_f = strcmp(record->name, "f") == 0;

	cr_assert(is_f || strcmp(record->name, "g") == 0);
	cr_assert(not(is_f ? *f : *g));
	*(is_f ? f : g) = true;
	cr_assert(record->has_params);
	cr_assert(eq(u32, record->n_params, is_f ? 2 : 0));
	if (!is_f)
		return;
	cr_assert(eq(u32, record->params[1].offset, 8));
	cr_assert(eq(u32, record->params[1].size, 8));
}

Test(module, functions_are_told)
{
	struct wire_reply reply;
	struct record record;
	bool f = false, g = false;
	long size;

	start();
	cr_assert(eq(int, load(1, two_kernels, &reply), 0));
	cr_assert(eq(u64, reply.value[0], 2));
	cr_assert(eq(u64, reply.value[1], 1));
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_FUNCTIONS, 1, 0), &reply), 0));
	cr_assert(eq(u64, reply.value[0], 2));
	size = record_read(&record, slot(), reply.value[1]);
	cr_assert(gt(long, size, 0));
	expect_f_or_g(&record, &f, &g);
	cr_assert(gt(long,
		     record_read(&record, slot() + size, reply.value[1] - (size_t)size),
		     0));
	expect_f_or_g(&record, &f, &g);
	stop();
}

Test(module, functions_that_do_not_fit_are_told_when_asked_again)
{
	struct wire_request what = inquiry(WIRE_MODULE_FUNCTIONS, 1, 0);
	struct wire_reply reply;
	struct record record;
	bool f = false, g = false;

	start();
	cr_assert(eq(int, load(1, two_kernels, NULL), 0));
	what.length = 48;
	for (what.function = 0; what.function < 2; what.function++) {
		cr_assert(eq(int, ask(what, &reply), 0));
		cr_assert(eq(u64, reply.value[0], 1));
		cr_assert(gt(long, record_read(&record, slot(), reply.value[1]), 0));
		expect_f_or_g(&record, &f, &g);
	}
	cr_assert(eq(int, ask(what, &reply), EINVAL));
	what.function = 0;
	what.length = 8;
	cr_assert(eq(int, ask(what, &reply), ENOSPC));
	stop();
}

Test(module, bad_text_is_refused_and_the_log_says_why)
{
	struct wire_reply reply;

	start();
	cr_assert(
		eq(int,
		   load(1, HEAD ".visible .entry f()\n{\n\tfrobnicate %r1;\n}\n", &reply),
		   ENOEXEC));
	cr_assert(eq(str, (char *)cuda_result_name(reply.result),
		     (char *)"CUDA_ERROR_INVALID_PTX"));
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_LOG, 1, 0), &reply), 0));
	cr_assert(gt(u64, reply.value[0], 10));
	cr_assert(memmem(slot(), reply.value[0], "line", 4) ||
		  memmem(slot(), reply.value[0], "frobnicate", 10));
	/* A module whose load failed stays known until the unload. */
	cr_assert(eq(int, ask(request(WIRE_MODULE_UNLOAD, 1), NULL), 0));
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_LOG, 1, 0), &reply), EINVAL));
	stop();
}

Test(module, what_was_unloaded_is_gone)
{
	start();
	cr_assert(eq(int, load(1, two_kernels, NULL), 0));
	cr_assert(eq(int, ask(request(WIRE_MODULE_UNLOAD, 1), NULL), 0));
	cr_assert(eq(int, ask(request(WIRE_MODULE_UNLOAD, 1), NULL), EINVAL));
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_FUNCTIONS, 1, 0), NULL), EINVAL));
	cr_assert(eq(int, load(1, two_kernels, NULL), 0));
	stop();
}

Test(module, module_of_another_device_is_none)
{
	struct wire_request what = inquiry(WIRE_MODULE_FUNCTIONS, 1, 0);

	if (!driver_is_soft())
		cr_skip("needs two devices");
	start();
	cr_assert(eq(int, load(1, two_kernels, NULL), 0));
	what.device = 1;
	cr_assert(eq(int, ask(what, NULL), EINVAL));
	stop();
}

static void attributes_check(void)
{
	struct wire_reply reply;
	int64_t values[FUNCTION_N_ROWS];

	start();
	cr_assert(eq(int, load(1, two_kernels, NULL), 0));
	cr_assert(eq(int, ask(inquiry(WIRE_FUNCTION_ATTRIBUTES, 1, 1), &reply), 0));
	memcpy(values, slot(), sizeof(values));
	cr_assert(reply.value[0] >> FUNCTION_ROW_max_threads_per_block & 1);
	cr_assert(ge(i64, values[FUNCTION_ROW_max_threads_per_block], 32));
	cr_assert(reply.value[0] >> FUNCTION_ROW_suggested_block_size & 1);
	cr_assert(ge(i64, values[FUNCTION_ROW_suggested_block_size], 32));
	cr_assert(ge(i64, values[FUNCTION_ROW_max_active_blocks_per_multiprocessor], 1));
	for (int row = 0; row <= FUNCTION_ROW_max_dynamic_shared_size_bytes; row++)
		cr_assert(reply.value[0] >> row & 1, "row %d is missing", row);
	cr_assert(eq(int, ask(inquiry(WIRE_FUNCTION_ATTRIBUTES, 1, 2), &reply), EINVAL));
	stop();
}

Test(module, attributes_are_told)
{
	attributes_check();
}

/* Lazy loading: functions are not loaded with their module. */
Test(module, attributes_are_told_with_lazy_loading)
{
	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	attributes_check();
}

/* A cubin header without an architecture: the driver returns CUDA_ERROR_UNKNOWN. */
Test(module, cubin_of_no_architecture_is_no_image)
{
	const Elf64_Ehdr cubin[2] = { {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_CUDA,
		.e_version = EV_CURRENT,
		.e_shoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 1,
	} };
	struct wire_reply reply;

	start();
	cr_assert(eq(int,
		     fixture_ask(&fixture, request(WIRE_MODULE_LOAD, 1),
				 image(cubin, sizeof(cubin)), &reply),
		     ENOEXEC));
	cr_assert(eq(int, (int)reply.result, cuda_result_find("CUDA_ERROR_UNKNOWN")));
	cr_assert(eq(int, load(2, two_kernels, NULL), 0));
	stop();
}

Test(module, function_is_found_by_name)
{
	struct wire_reply reply;
	struct record record;

	start();
	cr_assert(eq(int, load(1, two_kernels, NULL), 0));
	strcpy((char *)staging_payload(&fixture.staging, 0), "g");
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_FIND, 1, 0), &reply), 0));
	cr_assert(lt(u64, reply.value[0], 2));
	cr_assert(gt(long, record_read(&record, slot(), reply.value[1]), 0));
	cr_assert(eq(str, (char *)record.name, (char *)"g"));
	strcpy((char *)staging_payload(&fixture.staging, 0), "h");
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_FIND, 1, 0), &reply), ENOENT));
	stop();
}

/* A name without a NUL is cut at the end of the slot. */
Test(module, name_without_an_end_is_none)
{
	start();
	cr_assert(eq(int, load(1, two_kernels, NULL), 0));
	memset(staging_payload(&fixture.staging, 0), 'g', ROOM);
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_FIND, 1, 0), NULL), ENOENT));
	stop();
}

/* None of them waits for the answer to the LOAD. */
Test(module, requests_behind_a_load_wait_for_it)
{
	struct question questions[16];
	struct question loading;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to be slow");
	start_with("delay=cuModuleLoadDataEx@*=300ms");
	question_ask(&loading, &fixture, request(WIRE_MODULE_LOAD, 1),
		     image(two_kernels, strlen(two_kernels)));
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
		question_ask(&questions[i], &fixture,
			     inquiry(WIRE_FUNCTION_ATTRIBUTES, 1, i % 2), -1);
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		question_wait(&questions[i]);
		cr_assert(eq(int, questions[i].reply.error, 0));
	}
	question_wait(&loading);
	cr_assert(eq(int, loading.reply.error, 0));
	stop();
}

/* The unload and the other requests wait for the same load. The others may find the
 * module loaded or gone. */
Test(module, unload_waits_for_a_load_beside_others)
{
	struct question loading, unloading, others[3];

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to be slow");
	start_with("delay=cuModuleLoadDataEx@*=50ms");
	for (uint32_t module = 1; module <= 10; module++) {
		question_ask(&loading, &fixture, request(WIRE_MODULE_LOAD, module),
			     image(two_kernels, strlen(two_kernels)));
		question_ask(&unloading, &fixture, request(WIRE_MODULE_UNLOAD, module),
			     -1);
		for (size_t i = 0; i < ARRAY_SIZE(others); i++)
			question_ask(&others[i], &fixture,
				     inquiry(WIRE_MODULE_FUNCTIONS, module, 0), -1);
		question_wait(&loading);
		question_wait(&unloading);
		cr_assert(eq(int, unloading.reply.error, 0));
		for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
			question_wait(&others[i]);
			cr_assert(not(others[i].lost));
			if (others[i].reply.error)
				cr_assert(eq(int, others[i].reply.error, EINVAL));
		}
	}
	stop();
}

/* The broker is never told that a load would succeed now, so each request tries again. */
Test(module, load_that_failed_is_tried_again)
{
	struct wire_reply reply;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
	start_with("fail=cuModuleLoadDataEx@1=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(int, load(1, two_kernels, &reply), ENOMEM));
	cr_assert(eq(int, ask(inquiry(WIRE_FUNCTION_ATTRIBUTES, 1, 0), &reply), 0));
	stop();
}

Test(module, driver_that_cannot_enumerate_says_so)
{
	struct wire_reply reply;

	if (!driver_is_soft())
		cr_skip("only the software GPU can be told to fail");
	start_with("fail=cuModuleGetFunctionCount@*=CUDA_ERROR_NOT_SUPPORTED");
	cr_assert(eq(int, load(1, two_kernels, &reply), 0));
	cr_assert(eq(u64, reply.value[0], 0));
	cr_assert(eq(u64, reply.value[1], 0));
	strcpy((char *)staging_payload(&fixture.staging, 0), "g");
	cr_assert(eq(int, ask(inquiry(WIRE_MODULE_FIND, 1, 0), &reply), 0));
	cr_assert(eq(u64, reply.value[0], 0));
	stop();
}

Test(module, empty_and_endless_images_are_refused)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	start();
	cr_assert(eq(int, load(1, "", NULL), ENOEXEC));
	cr_assert(eq(int, ftruncate(fd, WIRE_IMAGE_MAX + 1ll), 0));
	cr_assert(eq(int, fixture_ask(&fixture, request(WIRE_MODULE_LOAD, 2), fd, NULL),
		     ENOEXEC));
	stop();
}
