/* SPDX-License-Identifier: MIT */
#include "node.h"

#include "base/def.h"
#include "control_inode.h"
#include "node_number.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/stat.h>

TestSuite(node, .init = nodes_init);
TestSuite(control_inode, .init = nodes_init);

static struct node node_of(enum object_type type, const char *name, struct token token)
{
	struct node node = { nodes_find_of(type, name), token };

	cr_assert(node.row, "%s", name);
	return node;
}

Test(node, root_is_one)
{
	size_t n;
	struct node root = { nodes_fixed(&n), TOKEN_NONE };

	cr_assert_eq(node_id(&root), NODE_ROOT);
	cr_assert_eq(node_inode(&root, 99), NODE_ROOT);
	cr_assert_eq(root.row->kind, NODE_DIRECTORY);
}

Test(node, every_fixed_id_comes_back)
{
	size_t n;
	const struct node_row *rows = nodes_fixed(&n);

	for (size_t i = 0; i < n; i++) {
		struct node node = { &rows[i], TOKEN_NONE }, back;

		cr_assert_eq(node_from_id(node_id(&node), &back), 0);
		cr_assert_eq(back.row, &rows[i]);
		cr_assert(node_is_fixed(&back));
		cr_assert(!node_is_control_inode(node_id(&node)));
	}
}

Test(node, whole_token_comes_back)
{
	static const struct token tokens[] = {
		{ 0, 1 },
		{ 5, 0xffffffff },
		{ 0x7fffff, 0x80000000 },
		{ 0x7fffff, 0xffffffff },
	};

	for (unsigned int type = 1; type < N_OBJECT_TYPES; type++) {
		size_t n;
		const struct node_row *rows = nodes_of(type, &n);

		for (size_t i = 0; i < n * ARRAY_SIZE(tokens); i++) {
			struct token token = tokens[i / n];
			struct node node = { &rows[i % n], token }, back;

			cr_assert_eq(node_from_id(node_id(&node), &back), 0);
			cr_assert_eq(back.row, node.row);
			cr_assert_eq(back.token.slot, token.slot);
			cr_assert_eq(back.token.generation, token.generation);
			cr_assert(!node_is_fixed(&back));
			cr_assert(!node_is_control_inode(node_id(&node)));
		}
	}
}

Test(node, id_of_no_row_is_stale)
{
	struct node node;

	cr_assert_eq(node_from_id(0, &node), -ESTALE);
	cr_assert_eq(node_from_id(1 | 1000 << 9, &node), -ESTALE);
	cr_assert_eq(node_from_id(63 | OBJECT_STREAM << 6, &node), -ESTALE);
	cr_assert_eq(node_from_id(7 << 6, &node), -ESTALE);
	cr_assert_eq(node_from_id(node_control_inode(0, 3), &node), -ESTALE);
}

Test(node, inode_is_of_the_object_not_its_place)
{
	struct node a = node_of(OBJECT_ALLOCATION, "data", (struct token){ 1, 2 });
	struct node b = node_of(OBJECT_ALLOCATION, "data", (struct token){ 3, 4 });
	struct node c = node_of(OBJECT_ALLOCATION, "size_bytes", (struct token){ 1, 2 });
	struct node d = node_of(OBJECT_STREAM, "status", (struct token){ 1, 2 });

	cr_assert_eq(node_inode(&a, 9), node_inode(&b, 9));
	cr_assert_neq(node_inode(&a, 9), node_inode(&a, 10));
	cr_assert_neq(node_inode(&a, 9), node_inode(&c, 9));
	cr_assert_neq(node_inode(&d, 9), node_inode(&c, 9));
}

Test(node, attributes_and_verbs_make_files)
{
	size_t n;
	const struct node_row *root = nodes_fixed(&n);
	const struct node_row *control = nodes_find_fixed(root, "control");

	cr_assert_eq(nodes_find_fixed(root, "version")->kind, NODE_ATTRIBUTE);
	cr_assert_eq(nodes_find_fixed(root, "allocations")->mode, S_IFDIR | 0777);
	cr_assert_eq(nodes_find_fixed(control, "alloc")->mode, S_IFREG | 0666);
	cr_assert_null(nodes_find_fixed(root, "alloc"));
	cr_assert_null(nodes_find_fixed(root, ""));
	cr_assert_eq(nodes_find_of(OBJECT_STREAM, "synchronize")->kind, NODE_CONTROL);
	cr_assert_null(nodes_find_of(OBJECT_STREAM, "alloc"));
	cr_assert_null(nodes_find_of(OBJECT_STREAM, "data"));
	cr_assert_eq(nodes_find_of(OBJECT_MODULE, "functions")->holds, OBJECT_FUNCTION);
	cr_assert_eq(nodes_find_of(OBJECT_MODULE, "image")->kind, NODE_UPLOAD);
	cr_assert_null(nodes_find_of(OBJECT_FUNCTION, "status"));
}

static void expect_numbers(enum object_type type, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(node_number(type, "", names[i]), (int)i, "%s", names[i]);
}

#define EXPECT_NUMBERS(type, ...)                                  \
	expect_numbers(type, (const char *const[]){ __VA_ARGS__ }, \
		       ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

/* What was released stays: the kernel and later versions have these numbers. */
Test(node, numbers_never_change)
{
	EXPECT_NUMBERS(OBJECT_BROKER, "", "control", "README", "status", "errors",
		       "events", "socket", "events_pipe", "owners", "devices",
		       "allocations", "modules", "streams", "version", "driver_version",
		       "driver_path", "leases", "control/alloc", "control/free",
		       "control/fill", "control/copy", "control/load", "control/save",
		       "control/publish", "control/prefetch", "control/advise",
		       "control/launch", "control/synchronize");
	EXPECT_NUMBERS(OBJECT_ALLOCATION, "", "data", "lease", "tensors", "status", "id",
		       "kind", "device", "size_bytes", "address", "guard", "generation",
		       "state", "used_by", "used_by_kernel", "stream", "last_prefetch",
		       "last_write", "tag", "owner", "created", "map", "sealed", "leases",
		       "progress", "prefetch", "advise", "attach");
	EXPECT_NUMBERS(OBJECT_STREAM, "", "status", "device", "priority", "state",
		       "error", "owner", "synchronize");
	EXPECT_NUMBERS(OBJECT_DEVICE, "", "status", "name", "uuid", "pci_bus_id",
		       "compute_capability", "driver_version", "memory_total_bytes",
		       "memory_used_bytes", "memory_held_bytes", "managed_bytes",
		       "managed_preferred_bytes", "managed_prefetched_bytes",
		       "allocations", "leased_bytes", "freed_leased_bytes", "state",
		       "virtual_memory_management", "managed_memory",
		       "concurrent_managed_access");
	EXPECT_NUMBERS(OBJECT_OWNER, "", "status", "name", "state", "failure", "worker",
		       "restarts", "bytes", "peak_bytes", "allocations", "leases",
		       "leased_bytes", "freed_leased_bytes", "output", "reset");
	EXPECT_NUMBERS(OBJECT_MODULE, "", "image", "status", "device", "state", "error",
		       "log", "launches", "owner", "created", "functions");
	EXPECT_NUMBERS(OBJECT_FUNCTION, "", "name", "params", "attributes", "launch");
	EXPECT_NUMBERS(OBJECT_FOLDER, "");
}

Test(node, numbers_are_given_once)
{
	for (unsigned int type = 0; type < N_OBJECT_TYPES; type++) {
		const struct node_row *rows;
		uint64_t given = 0;
		size_t n;

		rows = nodes_of(type, &n);
		for (size_t i = 0; i < n; i++) {
			cr_assert(!(given >> rows[i].number & 1), "%s", rows[i].name);
			given |= (uint64_t)1 << rows[i].number;
		}
	}
}

static uint64_t serials_end;

Test(control_inode, ids_differ_and_mean_the_same)
{
	struct control_inodes inodes;
	uint64_t a, b, id;

	control_inodes_init(&inodes, &serials_end);
	cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &a), 0);
	cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &b), 0);
	cr_assert_neq(a, b);
	cr_assert(node_is_control_inode(a) && node_is_control_inode(b));
	cr_assert_eq(control_inodes_find(&inodes, a, &id), 0);
	cr_assert_eq(id, 42);
	control_inodes_deinit(&inodes);
}

Test(control_inode, is_gone_once_forgotten)
{
	struct control_inodes inodes;
	uint64_t a, id;

	control_inodes_init(&inodes, &serials_end);
	control_inodes_add(&inodes, 42, 1001, &a);
	control_inodes_forget(&inodes, a, 1);
	cr_assert_eq(control_inodes_find(&inodes, a, &id), -ESTALE);
	control_inodes_forget(&inodes, a, 1);
	control_inodes_deinit(&inodes);
}

/* As descriptors of O_PATH do, which no share of open files counts. */
Test(control_inode, a_user_has_so_many_and_then_the_nodes_own)
{
	struct control_inodes inodes;
	uint64_t first, id;

	control_inodes_init(&inodes, &serials_end);
	cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &first), 0);
	for (unsigned int i = 1; i < CONTROL_INODES_MAX; i++) {
		cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &id), 0);
		cr_assert(node_is_control_inode(id));
	}
	cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &id), 0);
	cr_assert_eq(id, 42);
	cr_assert_eq(control_inodes_add(&inodes, 42, 1002, &id), 0);
	cr_assert(node_is_control_inode(id));
	control_inodes_forget(&inodes, first, 1);
	cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &id), 0);
	cr_assert(node_is_control_inode(id));
	cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &id), 0);
	cr_assert_eq(id, 42);
	control_inodes_deinit(&inodes);
}

/* A descriptor of O_PATH may be older than many brokers. */
Test(control_inode, no_id_of_an_earlier_broker_is_given_again)
{
	enum { BROKERS = 20000 };
	uint64_t last = 0, id;

	for (int i = 0; i < BROKERS; i++) {
		struct control_inodes inodes;

		control_inodes_init(&inodes, &serials_end);
		cr_assert_eq(control_inodes_add(&inodes, 42, 1001, &id), 0);
		cr_assert_gt(id, last);
		last = id;
		control_inodes_deinit(&inodes);
	}
}

/* A path is looked up, the broker dies, and the next one is asked to open the file. */
Test(control_inode, of_an_earlier_broker_is_known_by_its_number)
{
	size_t n;
	const struct node_row *row = nodes_fixed(&n);
	struct control_inodes first, second;
	uint64_t before, after, id;

	while (row->kind != NODE_CONTROL)
		row++;
	control_inodes_init(&first, &serials_end);
	cr_assert_eq(control_inodes_add(&first, node_id(&(struct node){ .row = row }),
					1001, &before),
		     0);
	control_inodes_init(&second, &serials_end);
	cr_assert_eq(control_inodes_add(&second, node_id(&(struct node){ .row = row }),
					1001, &after),
		     0);
	cr_assert_neq(before, after);
	cr_assert_eq(control_inodes_find(&second, before, &id), 0);
	cr_assert_eq(id, node_id(&(struct node){ .row = row }));
	cr_assert_eq(control_inodes_add(&first, 42, 1001, &before), 0);
	cr_assert_eq(control_inodes_find(&second, before, &id), -ESTALE);
	control_inodes_deinit(&first);
	control_inodes_deinit(&second);
}

/* A lease is open when the broker dies; two descriptors may share its inode. */
Test(control_inode, of_an_earlier_broker_is_known_once_resumed)
{
	struct control_inodes first, second;
	uint64_t before, id;

	control_inodes_init(&first, &serials_end);
	cr_assert_eq(control_inodes_add(&first, 42, 1001, &before), 0);
	control_inodes_init(&second, &serials_end);
	cr_assert_eq(control_inodes_resume(&second, before, 42, 1001), 0);
	cr_assert_eq(control_inodes_resume(&second, before, 42, 1001), 0);
	cr_assert_eq(control_inodes_find(&second, before, &id), 0);
	cr_assert_eq(id, 42);
	control_inodes_forget(&second, before, 1);
	cr_assert_eq(control_inodes_find(&second, before, &id), -ESTALE);
	control_inodes_deinit(&first);
	control_inodes_deinit(&second);
}

Test(control_inode, files_of_lines_have_them)
{
	cr_assert(node_has_control_inodes(nodes_find_of(OBJECT_ALLOCATION, "lease")));
	cr_assert(node_has_control_inodes(nodes_find_of(OBJECT_STREAM, "synchronize")));
	cr_assert_not(node_has_control_inodes(nodes_find_of(OBJECT_ALLOCATION, "data")));
}
