/* SPDX-License-Identifier: MIT */
/*
 * Libraries that vanish after they were found and before they are probed: here the file
 * is empty, so every use of the file fails.
 */
#include "probes.h"
#include "missing.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static struct options options;
static struct probes probes;
static struct libraries libraries;
static struct text why = TEXT_INIT;
static const struct wanted wanted = { .shown = GROUP_BIT(GROUP_MEM), .events = true };

/* Two libraries; the first is gone. */
static void set_up(void)
{
	_cleanup_text_ struct text needed = TEXT_INIT;

	if (missing_capability(ATTACH_ANY, &needed))
		cr_skip_test("%s", text_string(&needed));
	calls_init();
	cr_assert_eq(libraries_add(&libraries, getenv("GPUMEM_LIBRARY"), "gone"), 0);
	cr_assert_eq(libraries_add(&libraries, getenv("GPUMEM_PROLOGUES"), "there"), 0);
	int empty = memfd_create("empty", MFD_CLOEXEC);
	cr_assert_eq(dup2(empty, libraries.list[0].fd), libraries.list[0].fd);
	close(empty);
}

static void tear_down(void)
{
	if (!libraries.n)
		return;
	libraries_deinit(&libraries);
	text_deinit(&why);
}

TestSuite(attach, .init = set_up, .fini = tear_down);

Test(attach, a_library_that_vanished_is_left_out_and_the_rest_is_probed)
{
	int error = probes_attach(&probes, &options, &wanted, &libraries, &why);

	cr_assert_eq(error, 0, "%s", text_string(&why));
	cr_expect_eq(libraries.list[0].error, -ENODATA);
	cr_expect_eq(libraries.list[1].error, 0);
	cr_expect_eq(libraries_usable(&libraries), 1u);
	cr_expect_gt(probes.n_probes, 0u);
	probes_detach(&probes);
}

Test(attach, perf_uprobes_leave_it_out_too)
{
	options.attach = ATTACH_PERF;
	int error = probes_attach(&probes, &options, &wanted, &libraries, &why);

	cr_assert_eq(error, 0, "%s", text_string(&why));
	cr_expect_eq(libraries.list[0].error, -ENODATA);
	cr_expect_eq(probes.n_links, 2 * probes.n_probes);
	probes_detach(&probes);
}

Test(attach, no_library_left_is_said_and_no_other_way_is_tried)
{
	libraries.n = 1;
	int error = probes_attach(&probes, &options, &wanted, &libraries, &why);

	libraries.n = 2;
	cr_expect_eq(error, -ENOENT);
	cr_expect_str_eq(text_string(&why), "no libcuda.so.1 found that can be probed: "
					    "gone: No data available");
}
