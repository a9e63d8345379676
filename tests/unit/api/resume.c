/* SPDX-License-Identifier: MIT */
/* A broker that begins with the records of another. The linker hands it these. */
#include "api/watch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/def.h"
#include "base/text.h"
#include "keep/keep.h"
#include "model/registry.h"
#include "record/records.h"
#include "record/texts.h"
#include "unit/broker_help.h"

static struct records *left; /* of the last broker; NULL: there was none */

int __wrap_keep_take(struct keep *keep, struct keep_key key);

int __wrap_keep_take(struct keep *keep, struct keep_key key)
{
	(void)keep;
	return left && key.kind == KEEP_RECORDS
		       ? fcntl(records_fd(left), F_DUPFD_CLOEXEC, 0)
		       : -1;
}

static uint32_t n_of(const struct records *records, enum record_type type)
{
	uint32_t n = 0;

	for (uint32_t i = 1; records_next(records, type, &i); i++)
		n++;
	return n;
}

/* A broker that has loaded a module ends. */
static void leave_records_of_module(void)
{
	struct broker *broker = broker_start("64M", NULL);
	_cleanup_text_ struct text why = TEXT_INIT;
	_cleanup_free_ char *image = NULL;
	struct token token;
	size_t size = 0;
	FILE *file = fopen(getenv("GPUMEM_SAXPY"), "re");

	cr_assert(ne(ptr, file, NULL));
	cr_assert(gt(long, getdelim(&image, &size, 0, file), 0));
	fclose(file);
	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, "m", &token), 0));
	cr_assert(eq(int, image_write(broker, token, image), 0));
	cr_assert(eq(int,
		     records_open(&left, records_fd(broker->registry->records), &why), 0),
		  "%s", text_string(&why));
	broker_end(broker);
}

/* As it is while a kernel runs that the module has no more. */
static void module_forget_image(void)
{
	uint32_t index = 1;
	struct module_record module;

	module = *(const struct module_record *)records_next(left, RECORD_MODULE, &index);
	cr_assert(ne(u32, module.image, 0));
	module.image = 0;
	records_save(left, RECORD_MODULE, index, &module);
}

Test(resume, functions_that_nobody_shows_leave_no_text, .timeout = 60)
{
	struct records *records;
	struct broker *broker;
	uint32_t n_texts;

	if (!records_are_watched())
		cr_skip_test("a build with -Dcheck_records=true has records here");
	leave_records_of_module();
	module_forget_image();
	cr_assert(gt(u32, n_of(left, RECORD_FUNCTION), 0));
	n_texts = records_last(left, RECORD_TEXT);
	cr_assert(gt(u32, n_texts, 0));
	broker = broker_start("64M", NULL);
	records = broker->registry->records;
	cr_expect(eq(u32, n_of(records, RECORD_FUNCTION), 0));
	/* All their places are free. */
	for (uint32_t i = 0; i < n_texts; i++)
		cr_expect(ne(u32, record_text_add(records, "text", 4), 0));
	cr_expect(eq(u32, records_last(records, RECORD_TEXT), n_texts));
	broker_end(broker);
	left = records_free(left);
}
