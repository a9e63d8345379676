/* SPDX-License-Identifier: MIT */
#include "base/broker_mount.h"

#include "base/text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

/* The folders that are believed of a list, with a newline behind each. */
static void expect_folders(const char *list, const char *folders)
{
	_cleanup_broker_mounts_ struct broker_mounts mounts =
		BROKER_MOUNTS(fmemopen((char *)list, strlen(list), "r"));
	_cleanup_text_ struct text found = TEXT_INIT;
	const char *folder;

	cr_assert(ne(ptr, mounts.file, NULL));
	while ((folder = broker_mounts_next(&mounts)))
		text_printf(&found, "%s\n", folder);
	cr_assert(eq(str, (char *)text_string(&found), (char *)folders));
}

#define ROOTS "gpumemd /mnt/gpu fuse.gpumemd rw,user_id=0,group_id=0,allow_other 0 0\n"

Test(broker_mount, of_root_and_of_the_user)
{
	_cleanup_text_ struct text list = TEXT_INIT;

	text_printf(&list,
		    ROOTS "gpumemd /own fuse.gpumemd rw,user_id=%u,group_id=0 0 0\n"
			  "gpumemd /others fuse.gpumemd rw,user_id=%u,group_id=0 0 0\n",
		    geteuid(), geteuid() + 1);
	expect_folders(text_string(&list), "/mnt/gpu\n/own\n");
}

Test(broker_mount, of_another_type_is_none)
{
	expect_folders("a /a fuse rw,user_id=0 0 0\n"
		       "a /b fuse.gpumemd2 rw,user_id=0 0 0\n"
		       "a /c tmpfs rw,user_id=0 0 0\n" ROOTS,
		       "/mnt/gpu\n");
}

/* A line of 4095 bytes up to the number, which a buffer of 4096 bytes would end there. */
Test(broker_mount, line_of_any_length_is_read_whole)
{
	const char *rest = " /a fuse.gpumemd rw,relatime,user_id=";

	for (int length = 4000; length < 4200; length++) {
		_cleanup_text_ struct text list = TEXT_INIT;

		for (int i = (int)strlen(rest); i < length; i++)
			text_add(&list, "x", 1);
		text_printf(&list, "%s%u,group_id=0 0 0\n" ROOTS, rest, geteuid() + 1);
		expect_folders(text_string(&list), "/mnt/gpu\n");
	}
}

Test(broker_mount, line_that_is_cut_off_is_none)
{
	const char *line = ROOTS;
	const char *end = strstr(line, ",allow_other 0") + strlen(",allow_other");

	for (const char *at = line + 1; at <= end; at++) {
		_cleanup_text_ struct text list = TEXT_INIT;

		text_add(&list, line, (size_t)(at - line));
		expect_folders(text_string(&list), "");
	}
}

Test(broker_mount, user_is_a_number_and_nothing_else)
{
	expect_folders("a /a fuse.gpumemd rw,user_id= 0 0\n"
		       "a /b fuse.gpumemd rw,user_id=,group_id=0 0 0\n"
		       "a /c fuse.gpumemd rw,user_id 0 0\n"
		       "a /d fuse.gpumemd rw,user_id=-0 0 0\n"
		       "a /e fuse.gpumemd rw,user_id=0x0 0 0\n"
		       "a /f fuse.gpumemd rw,user_id=0root 0 0\n"
		       "a /g fuse.gpumemd rw,the_user_id=0 0 0\n"
		       "a /h fuse.gpumemd rw,user_id=18446744073709551616 0 0\n"
		       "a /i fuse.gpumemd rw,user_id=4294967296 0 0\n"
		       "a /j fuse.gpumemd rw 0 0\n" ROOTS,
		       "/mnt/gpu\n");
}

Test(broker_mount, with_two_users_is_none)
{
	expect_folders("a /a fuse.gpumemd rw,user_id=0,user_id=4004,group_id=0 0 0\n"
		       "a /b fuse.gpumemd rw,user_id=4004,user_id=0,group_id=0 0 0\n",
		       "");
}

Test(broker_mount, words_of_the_source_are_not_believed)
{
	expect_folders("user_id=0 /a fuse.gpumemd rw,group_id=0 0 0\n"
		       "x\\040/b\\040fuse.gpumemd\\040user_id=0 /b fuse.other "
		       "rw,user_id=0 0 0\n"
		       " /c fuse.gpumemd rw,user_id=0,group_id=0 0 0\n",
		       "/c\n");
}

Test(broker_mount, folder_may_have_any_byte)
{
	expect_folders("a /a\\040b\\011c\\012d\\134040 fuse.gpumemd rw,user_id=0 0 0\n"
		       "a /\\04 fuse.gpumemd rw,user_id=0 0 0\n"
		       "a /\\ fuse.gpumemd user_id=0 0 0\n",
		       "/a b\tc\nd\\040\n/\\04\n/\\\n");
}
