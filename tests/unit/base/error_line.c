/* SPDX-License-Identifier: MIT */
#include "base/error_line.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIME "2026-11-26T19:47:09Z"

/* The sentence that is found in such a text, where P is the number of this thread. */
static const char *found_in(const char *text)
{
	static char found[512];
	_cleanup_text_ struct text sentence = TEXT_INIT;
	char path[] = "/tmp/error_line.XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");

	for (; *text; text++)
		if (*text == 'P')
			fprintf(file, "%d", gettid());
		else
			fputc(*text, file);
	fclose(file);
	snprintf(found, sizeof(found), "%s",
		 error_line_find(path, "control/alloc", ENOMEM, &sentence)
			 ? text_string(&sentence)
			 : "none");
	unlink(path);
	return found;
}

#define EXPECT(text, sentence) \
	cr_expect(eq(str, (char *)found_in(text), (char *)(sentence)))

Test(error_line, the_newest_of_this_thread_with_file_and_error_is_found)
{
	EXPECT(TIME " uid=0 pid=P control/alloc ENOMEM full\n", "full");
	EXPECT(TIME " uid=0 pid=P control/alloc ENOMEM full\n" TIME
		    " uid=0 pid=P /m/control/alloc ENOMEM fuller\n",
	       "fuller");
	EXPECT(TIME " pid=P control/alloc ENOMEM not root's\n", "not root's");
	EXPECT(TIME " uid=0 pid=P control/alloc EINVAL wrong\n", "none");
	EXPECT(TIME " uid=0 pid=P xcontrol/alloc ENOMEM full\n", "none");
	EXPECT(TIME " uid=0 pid=P control/free ENOMEM full\n", "none");
	EXPECT(TIME " uid=0 pid=P1 control/alloc ENOMEM full\n", "none");
	EXPECT("", "none");
}

/* Sentences name paths and objects of whoever likes to forge a line. */
Test(error_line, words_in_a_sentence_are_no_line)
{
	char longer[3000];

	EXPECT(TIME " uid=1 pid=1 control/load ENOENT can't open /a pid=P control/alloc "
		    "ENOMEM forged\n",
	       "none");
	/* at each place where a reader might stop */
	for (int n = 900; n < 1100; n++) {
		snprintf(longer, sizeof(longer),
			 TIME " uid=1 pid=1 control/load ENOENT %*s" TIME
			      " uid=1 pid=P control/alloc ENOMEM forged\n",
			 n, "");
		EXPECT(longer, "none");
	}
}
