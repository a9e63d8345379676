/* SPDX-License-Identifier: MIT */
/* The names of functions are kept as long as their process lives, some of each user. */
#include "function.h"

#include "call.h"
#include "user.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 100000

static struct traced_users users;
static struct functions *functions;

static void set_up(void)
{
	functions = functions_new(&users);
}

static void tear_down(void)
{
	functions_free(functions);
	users_deinit(&users);
}

TestSuite(functions, .init = set_up, .fini = tear_down);

static void learn(__u64 process, __u32 uid, __u64 handle, const char *name)
{
	struct record_text record = {
		.record = { .type = RECORD_TEXT,
			    .call = CALL_cuModuleGetFunction,
			    .process = process,
			    .uid = uid,
			    .out = { handle } },
	};

	snprintf(record.text, sizeof record.text, "%s", name);
	functions_learn(functions, &record.record);
}

static const char *name_of(__u64 process, __u64 handle)
{
	return function_name(functions, process, handle) ?: "none";
}

Test(functions, have_names_until_the_end_of_their_process)
{
	learn(1, 1000, 16, "first");
	learn(2, 1000, 16, "of another process");
	learn(1, 1000, 32, "second");
	learn(1, 1000, 16, "anew");
	cr_expect_str_eq(name_of(1, 16), "anew");
	cr_expect_str_eq(name_of(1, 32), "second");
	cr_expect_str_eq(name_of(2, 16), "of another process");
	functions_forget(functions, 1);
	cr_expect_str_eq(name_of(1, 16), "none");
	cr_expect_str_eq(name_of(2, 16), "of another process");
}

Test(functions, of_a_user_with_very_many_have_no_names)
{
	for (__u64 i = 0; i < NAMES_MAX; i++)
		learn(1 + i % 2, 1000, i, "made up");
	learn(3, 1000, 1, "one too many");
	cr_expect_str_eq(name_of(3, 1), "none");
	learn(4, 1001, 1, "of another user");
	cr_expect_str_eq(name_of(4, 1), "of another user");
	functions_forget(functions, 1);
	learn(3, 1000, 1, "there is room");
	cr_expect_str_eq(name_of(3, 1), "there is room");
}
