/* SPDX-License-Identifier: MIT */
/*
 * Writes to a file that is written whole, when the broker has no descriptors left. The
 * linker puts memfd_create() here in front of the C library's.
 */
#include "api/upload.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/text.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "unit/broker_help.h"

static struct broker *broker;
static struct upload *upload;
static int lacks; /* errno of memfd_create(); 0: it works */

int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);

int __wrap_memfd_create(const char *name, unsigned int flags)
{
	if (!lacks)
		return __real_memfd_create(name, flags);
	errno = lacks;
	return -1;
}

/* A share of the user was refused before. */
static void set_up(void)
{
	struct owner *owner;
	struct token token;

	broker = broker_start("64M", NULL);
	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, "m", &token), 0));
	cr_assert(eq(int,
		     upload_new(&upload, broker, OBJECT_MODULE, token, &nobody_special),
		     0));
	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_find(broker->registry, nobody_special.uid);
	cr_assert(eq(int, share_take(owner, SHARE_LOGS, 1ull << 40), -EDQUOT));
	pthread_mutex_unlock(&broker->registry->lock);
}

static void tear_down(void)
{
	lacks = 0;
	upload_free(upload);
	broker_end(broker);
}

TestSuite(upload, .init = set_up, .fini = tear_down, .timeout = 60);

static void expect_sentence(const char *sentence)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	journal_failures(broker->journal, nobody_special.uid, &text);
	cr_expect(ne(ptr, strstr(text_string(&text), sentence), NULL), "%s",
		  text_string(&text));
	cr_expect(eq(ptr, strstr(text_string(&text), "logs of modules"), NULL), "%s",
		  text_string(&text));
}

Test(upload, write_without_a_descriptor_is_no_refusal_of_a_share)
{
	lacks = EMFILE;
	cr_expect(eq(int, upload_write(upload, 1, 0, "x", 1), -EMFILE));
	expect_sentence("modules/m/image EMFILE the broker has no descriptors left");
}

Test(upload, truncation_without_a_descriptor_is_no_refusal_of_a_share)
{
	lacks = EMFILE;
	cr_expect(eq(int, upload_resize(upload, 1, 1), -EMFILE));
	expect_sentence("modules/m/image EMFILE the broker has no descriptors left");
}

Test(upload, machine_without_descriptors_is_said)
{
	lacks = ENFILE;
	cr_expect(eq(int, upload_write(upload, 1, 0, "x", 1), -EMFILE));
	expect_sentence("modules/m/image EMFILE the machine has no descriptors left");
}
