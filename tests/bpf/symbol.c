/* SPDX-License-Identifier: MIT */
/* Stacks are kept as long as their process lives, and no longer. */
#include "symbol.h"

#include "base/def.h"
#include "symboliser_child.h"
#include "user.h"

#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

/* A symboliser is this program anew. */
__attribute__((constructor)) static void be_symboliser(int argc, char **argv)
{
	if (argc && !strcmp(argv[0], SYMBOLISER_NAME))
		_exit(symboliser_main(argc, argv));
}

static int map = -1;
static struct traced_users users;
static struct symbols *symbols;

/* Writes a stack of this process with a single frame, under key 0. */
static void write_stack(void *frame)
{
	__u64 addresses[STACK_DEPTH] = { (__u64)(uintptr_t)frame };
	__u32 key = 0;

	cr_assert_eq(bpf_map_update_elem(map, &key, addresses, BPF_ANY), 0);
}

static const char *read_stack(__u64 process)
{
	const struct stack *stack =
		symbols_stack(symbols, process, (__u32)getpid(), getuid(), 0);

	return stack ? stack->frames[0] : "none";
}

static void set_up(void)
{
	map = bpf_map_create(BPF_MAP_TYPE_HASH, "stacks", sizeof(__u32),
			     STACK_DEPTH * sizeof(__u64), 1, NULL);
	if (map == -EPERM)
		cr_skip_test("no privilege to make BPF maps");
	cr_assert_geq(map, 0);
	symbols = symbols_new(map, &users);
}

static void tear_down(void)
{
	symbols = symbols_free(symbols);
	users_deinit(&users);
	closep(&map);
}

TestSuite(stacks, .init = set_up, .fini = tear_down);

Test(stacks, are_kept_while_their_process_lives)
{
	write_stack((char *)&write_stack + 1);
	cr_expect_not_null(strstr(read_stack(1), "write_stack"), "%s", read_stack(1));
	write_stack((char *)&read_stack + 1);
	cr_expect_not_null(strstr(read_stack(1), "write_stack"), "%s", read_stack(1));
	cr_expect_not_null(strstr(read_stack(2), "read_stack"), "%s", read_stack(2));
}

Test(stacks, go_with_their_process)
{
	write_stack((char *)&write_stack + 1);
	read_stack(1);
	read_stack(2);
	symbols_close(symbols, 1);
	write_stack((char *)&read_stack + 1);
	cr_expect_not_null(strstr(read_stack(1), "read_stack"), "%s", read_stack(1));
	cr_expect_not_null(strstr(read_stack(2), "write_stack"), "%s", read_stack(2));
}
