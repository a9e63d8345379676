/* SPDX-License-Identifier: MIT */
/*
 * Closes that may free much memory. The linker puts close(), fallocate(), ftruncate() and
 * keep_drop() here in front of the others': no thread but one of the work queue frees
 * more than a few megabytes, none does with registry.lock held, and the keeper closes
 * first.
 */
#include "memops/late_close.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "api/upload.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#define PIECE ((uint64_t)1 << 20)
#define MUCH  ((uint64_t)4 << 20) /* bytes */

static struct broker *broker;
static struct broker *watched; /* atomic, like all below */
static pid_t caller;
static unsigned int n_closed; /* of much memory */
static unsigned int n_by_caller, n_locked;
static unsigned int n_dropped;	      /* by the keeper: images and tensors */
static unsigned int n_dropped_before; /* the last close of much memory */

int __real_close(int fd);
int __wrap_close(int fd);
int __real_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size);
int __real_fallocate64(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t length);
void __wrap_keep_drop(struct keep *keep, struct keep_key key);

static unsigned int value_of(const unsigned int *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static void count(unsigned int *number, bool is_one)
{
	__atomic_add_fetch(number, is_one, __ATOMIC_RELAXED);
}

/* Whether this thread has it: a lock of another thread does not count. */
static bool has_registry(void)
{
	const struct broker *of = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	return of && __atomic_load_n(&of->registry->lock.__data.__owner,
				     __ATOMIC_RELAXED) == gettid();
}

static void note_freed(uint64_t bytes)
{
	if (bytes < MUCH)
		return;
	count(&n_by_caller, __atomic_load_n(&caller, __ATOMIC_RELAXED) == gettid());
	count(&n_locked, has_registry());
}

static uint64_t bytes_of(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
		       ? (uint64_t)status.st_blocks * 512
		       : 0;
}

int __wrap_close(int fd)
{
	uint64_t bytes = bytes_of(fd);

	/* The program's own files are no memory. */
	if (bytes >= MUCH && fcntl(fd, F_GET_SEALS) >= 0) {
		count(&n_closed, true);
		__atomic_store_n(&n_dropped_before, value_of(&n_dropped),
				 __ATOMIC_RELAXED);
		note_freed(bytes);
	}
	return __real_close(fd);
}

int __wrap_ftruncate64(int fd, off_t size)
{
	uint64_t before = bytes_of(fd);
	int r = __real_ftruncate64(fd, size);

	note_freed(before - MIN(before, bytes_of(fd)));
	return r;
}

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t length)
{
	uint64_t before = bytes_of(fd);
	int r = __real_fallocate64(fd, mode, offset, length);

	note_freed(before - MIN(before, bytes_of(fd)));
	return r;
}

void __wrap_keep_drop(struct keep *keep, struct keep_key key)
{
	(void)keep;
	cr_expect(not(has_registry()));
	count(&n_dropped, key.kind == KEEP_IMAGE || key.kind == KEEP_TENSORS);
}

static void start(void)
{
	broker = broker_start("64M", NULL);
	__atomic_store_n(&caller, gettid(), __ATOMIC_RELAXED);
	__atomic_store_n(&watched, broker, __ATOMIC_RELEASE);
}

static void stop(void)
{
	__atomic_store_n(&watched, NULL, __ATOMIC_RELEASE);
	broker_end(broker);
}

TestSuite(late_close, .init = start, .fini = stop, .timeout = 60);

static uint64_t held(enum share share)
{
	const struct owner *owner;
	uint64_t n;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_find(broker->registry, nobody_special.uid);
	n = owner ? owner->shares.held[share] : 0;
	pthread_mutex_unlock(&broker->registry->lock);
	return n;
}

static void expect_freed_late(uint64_t n_descriptors)
{
	broker_settle(broker);
	cr_expect(eq(uint, value_of(&n_by_caller), 0));
	cr_expect(eq(uint, value_of(&n_locked), 0));
	cr_expect(eq(u64, held(SHARE_IMAGES), 0));
	cr_expect(eq(u64, held(SHARE_LOADED), 0));
	cr_expect(eq(u64, held(SHARE_TENSORS), 0));
	cr_expect(eq(u64, held(SHARE_DESCRIPTORS), n_descriptors));
}

/* Only what has a record has a copy at the keeper. */
static unsigned int kept(unsigned int n)
{
	return broker->registry->records ? n : 0;
}

static struct upload *upload_begin(enum object_type type, struct token token)
{
	struct upload *upload;

	cr_assert(eq(int, upload_new(&upload, broker, type, token, &nobody_special), 0));
	return upload;
}

/* Writes that text and blanks. */
static void fill(struct upload *upload, const char *text, unsigned int n_pieces)
{
	static char blanks[PIECE];

	memset(blanks, ' ', sizeof(blanks));
	for (unsigned int i = n_pieces; i-- > 0;)
		cr_assert(eq(int,
			     upload_write(upload, 1, i * PIECE, blanks, sizeof(blanks)),
			     0));
	cr_assert(eq(int, upload_write(upload, 1, 0, text, strlen(text)), 0));
}

static int flush(struct upload *upload)
{
	struct answer answer;

	upload_flush(upload, 1, answer_expect(&answer));
	return answer_get(&answer);
}

static struct token module_make(const char *name)
{
	struct token token;

	cr_assert(eq(int, object_make(broker, OBJECT_MODULE, name, &token), 0));
	return token;
}

Test(late_close, keeper_closes_first)
{
	int fd = memfd_create("much", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct late_close what = {
		.fds = { fd, -1, -1 },
		.kept = { KEEP_IMAGE, 1, 1 },
		.bytes = MUCH,
		.share = SHARE_LOADED,
		.size = MUCH,
		.n_descriptors = 1,
	};

	cr_assert(eq(int, posix_fallocate(fd, 0, (off_t)MUCH), 0));
	module_make("m");
	pthread_mutex_lock(&broker->registry->lock);
	what.payer = owner_find(broker->registry, nobody_special.uid);
	cr_assert(eq(int, share_take(what.payer, SHARE_LOADED, MUCH), 0));
	cr_assert(eq(int, share_take(what.payer, SHARE_DESCRIPTORS, 1), 0));
	late_close(broker, &what);
	pthread_mutex_unlock(&broker->registry->lock);
	expect_freed_late(0);
	cr_expect(eq(uint, value_of(&n_closed), 1));
	cr_expect(eq(uint, value_of(&n_dropped_before), 1));
}

Test(late_close, of_a_draft_that_is_cut_and_ends)
{
	struct upload *upload = upload_begin(OBJECT_MODULE, module_make("m"));

	fill(upload, "x", 16);
	for (uint64_t size = 10 * PIECE + 5; size > PIECE; size /= 8)
		cr_assert(eq(int, upload_resize(upload, 1, size), 0));
	cr_assert(eq(int, upload_resize(upload, 1, 0), 0));
	fill(upload, "x", 16);
	upload_free(upload);
	expect_freed_late(0);
	cr_expect(eq(uint, value_of(&n_closed), 1));
}

/* Neither a draft that was refused nor one over it. */
Test(late_close, of_contents_that_a_draft_keeps)
{
	struct upload *upload = upload_begin(OBJECT_MODULE, module_make("m"));

	fill(upload, "x", 16);
	cr_expect(lt(int, flush(upload), 0));
	cr_assert(eq(int, upload_write(upload, 1, 5, "y", 1), 0));
	cr_assert(eq(int, upload_resize(upload, 1, 0), 0));
	upload_free(upload);
	expect_freed_late(0);
	cr_expect(eq(uint, value_of(&n_closed), 2));
}

static struct token tensors_make(const char *name)
{
	struct token token;
	struct upload *upload;

	cr_assert(eq(int, command_say(broker, "alloc", "%s 4K", name), 0));
	token = allocation_named(broker, name);
	upload = upload_begin(OBJECT_ALLOCATION, token);
	fill(upload, "{}", 8);
	cr_assert(eq(int, flush(upload), 0));
	upload_free(upload);
	broker_settle(broker);
	return token;
}

Test(late_close, of_tensors_that_are_replaced_and_freed)
{
	struct token token = tensors_make("a");
	struct upload *upload = upload_begin(OBJECT_ALLOCATION, token);

	fill(upload, "{ }", 8);
	cr_assert(eq(int, flush(upload), 0));
	upload_free(upload);
	tensors_make("b");
	cr_assert(eq(int, command_say(broker, "alloc", "c 4K"), 0));
	cr_assert(eq(int, command_say(broker, "publish", "c b"), 0));
	cr_assert(eq(int, command_say(broker, "free", "a"), 0));
	cr_assert(eq(int, command_say(broker, "free", "b"), 0));
	/* A block for small allocations stays. */
	expect_freed_late(1);
	/* Each by the upload, and by the allocation. */
	cr_expect(eq(uint, value_of(&n_closed), 6));
	cr_expect(eq(uint, value_of(&n_dropped), kept(3)));
}

Test(late_close, of_an_image_that_is_removed)
{
	FILE *file = fopen(getenv("GPUMEM_SAXPY"), "re");
	struct token token = module_make("m");
	struct upload *upload = upload_begin(OBJECT_MODULE, token);
	char text[65536];
	size_t length;

	cr_assert(ne(ptr, file, NULL));
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	fill(upload, text, 8);
	cr_assert(eq(int, flush(upload), 0));
	upload_free(upload);
	broker_settle(broker);
	cr_expect(eq(u64, held(SHARE_LOADED), 8 * PIECE));
	cr_assert(
		eq(int,
		   broker_remove(broker, OBJECT_MODULE, TOKEN_NONE, "m", &nobody_special),
		   0));
	expect_freed_late(0);
	cr_expect(eq(uint, value_of(&n_dropped_before), kept(1)));
}
