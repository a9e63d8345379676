/* SPDX-License-Identifier: MIT */
/*
 * Managed memory on the software GPU is ordinary memory of the process at one address; a
 * page "on a device" is a note in a book, and the note costs memory of the device. This
 * file is the book. The rules of access are managed.c's.
 *
 * Pages are of 2 MiB, the size in which the driver gives out device memory. Each
 * allocation has a file managed-PID-ADDRESS (hexadecimal) in the user's account
 * (account.h), two words of 32 bits a page, struct page, so that
 *
 *	od -A n -v -t x4 -w8 /dev/shm/gpumem-softgpu.MACHINE/UID-N/managed-*-ADDRESS
 *
 * shows the user and root where the pages are. A process that needs memory of a device
 * finds the pages to evict there: those of the same user, and root's those of all users,
 * as NVIDIA's kernel module would. No bytes have to move. The process holds the file by
 * its mapping; where nobody does, the ledger takes the file away.
 *
 * A running kernel notices moves by the same process, and asks anew before going on;
 * evictions by another process go unnoticed.
 *
 * Nothing is evicted where devices have no concurrent managed access.
 */
#include "residency.h"

#include "softgpu/memory/space.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

bool residency_is(const char *name)
{
	return !strncmp(name, RESIDENCY_PREFIX, strlen(RESIDENCY_PREFIX));
}

static struct page *pages_map(int fd, size_t n_pages)
{
	void *at = mmap(NULL, n_pages * sizeof(struct page), PROT_READ | PROT_WRITE,
			MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void pages_unmap(struct page *pages, size_t n_pages)
{
	munmap(pages, n_pages * sizeof(*pages));
}

static uint32_t page_where(const struct page *page)
{
	return __atomic_load_n(&page->where, __ATOMIC_RELAXED);
}

/* Milliseconds, common to all users. */
static uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * The time of a move. Two moves in one account never get the same number, so many moves
 * can put the account ahead of others.
 */
static uint32_t clock_tick(struct sums *sums)
{
	sums->clock = MAX(sums->clock + 1, clock_now());
	return (uint32_t)sums->clock;
}

static void page_put(struct page *page, uint32_t where, struct sums *sums)
{
	__atomic_store_n(&page->where, where, __ATOMIC_RELAXED);
	page->moved = clock_tick(sums);
}

/*
 * The pages of a file, as they are now. Copied and not mapped: another user's file can
 * become shorter at any moment.
 */
struct book {
	int fd;
	struct page *pages;
	size_t n_pages;
	struct book *next;
};

static void book_close(struct book *book)
{
	closep(&book->fd);
	free(book->pages);
	free(book);
}

/* The pages that all books of an account may have. A file can be of any size. */
static size_t pages_most(void)
{
	return (size_t)(options.managed / RESIDENCY_PAGE);
}

/*
 * flags: O_RDWR to change the book. Takes its pages from *pages_left. Returns: NULL when
 * the file can't be opened or read, or has more pages than are left.
 */
static struct book *book_open(int dir_fd, const char *name, int flags, size_t *pages_left)
{
	struct book *book = calloc(1, sizeof(*book));
	struct stat stat;
	ssize_t n = -1;

	if (!book)
		return NULL;
	book->fd = account_file(dir_fd, name, flags);
	if (book->fd >= 0 && fstat(book->fd, &stat) >= 0 &&
	    (uint64_t)stat.st_size <= *pages_left * sizeof(struct page))
		book->pages = malloc((size_t)stat.st_size);
	if (book->pages)
		n = pread(book->fd, book->pages, (size_t)stat.st_size, 0);
	if (n < (ssize_t)sizeof(struct page)) {
		book_close(book);
		return NULL;
	}
	book->n_pages = (size_t)n / sizeof(struct page);
	*pages_left -= book->n_pages;
	return book;
}

void residency_count(int dir_fd, const char *name, struct sums *sums)
{
	size_t pages_left = pages_most();
	struct book *book = book_open(dir_fd, name, O_RDONLY, &pages_left);

	if (!book)
		return;
	sums_add(&sums->managed, book->n_pages * RESIDENCY_PAGE);
	for (size_t i = 0; i < book->n_pages; i++)
		for (int device = 0; device < OPTIONS_MAX_DEVICES; device++)
			if (book->pages[i].where & WHERE_DEVICE(device))
				sums_add(&sums->used[device], RESIDENCY_PAGE);
	book_close(book);
}

static struct book *books_open(int dir_fd, int flags)
{
	size_t pages_left = pages_most();
	struct book *books = NULL;
	struct dirent *entry;
	DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_CLOEXEC));

	if (!dir)
		return NULL;
	while ((entry = readdir(dir))) {
		struct book *book =
			residency_is(entry->d_name)
				? book_open(dir_fd, entry->d_name, flags, &pages_left)
				: NULL;

		if (!book)
			continue;
		book->next = books;
		books = book;
	}
	closedir(dir);
	return books;
}

static void books_close(struct book *books)
{
	while (books) {
		struct book *next = books->next;

		book_close(books);
		books = next;
	}
}

static void ages_add(struct residency_ages *ages, uint32_t moved)
{
	if (ages->n == ages->capacity) {
		const size_t capacity = MAX((size_t)256, 2 * ages->capacity);
		int32_t *grown = reallocarray(ages->moved, capacity, sizeof(*grown));

		if (!grown)
			return;
		ages->moved = grown;
		ages->capacity = capacity;
	}
	ages->moved[ages->n++] = (int32_t)(moved - ages->now);
}

void residency_look(struct residency_ages *ages, int dir_fd, int device)
{
	struct book *books = books_open(dir_fd, O_RDONLY);

	if (!ages->n)
		ages->now = (uint32_t)clock_now();
	for (const struct book *book = books; book; book = book->next)
		for (size_t i = 0; i < book->n_pages; i++)
			if (book->pages[i].where & WHERE_DEVICE(device))
				ages_add(ages, book->pages[i].moved);
	books_close(books);
}

static int age_compare(const void *a, const void *b)
{
	const int32_t *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

bool residency_choose(struct residency_ages *ages, uint64_t bytes,
		      struct residency_until *ret)
{
	const uint64_t n = (bytes + RESIDENCY_PAGE - 1) / RESIDENCY_PAGE;

	if (!options.concurrent || !n || !ages->n)
		return false;
	qsort(ages->moved, ages->n, sizeof(*ages->moved), age_compare);
	*ret = (struct residency_until){
		.now = ages->now,
		.moved = ages->moved[MIN(n, ages->n) - 1],
	};
	return true;
}

/* A page with other copies only loses this copy. Returns: whether it has. */
static bool page_evict(const struct book *book, size_t index, int device,
		       struct sums *sums)
{
	struct page page = book->pages[index];

	page.where &= ~WHERE_DEVICE(device);
	if (!page.where)
		page.where = WHERE_NODE(0);
	page.moved = clock_tick(sums);
	if (pwrite(book->fd, &page, sizeof(page), (off_t)(index * sizeof(page))) !=
	    sizeof(page))
		return false;
	sums_take(&sums->used[device], RESIDENCY_PAGE);
	return true;
}

uint64_t residency_evict(int device, uint64_t bytes, struct residency_until until,
			 struct account *account)
{
	struct book *books = books_open(account->fd, O_RDWR);
	uint64_t evicted = 0;

	for (const struct book *book = books; book; book = book->next)
		for (size_t i = 0; i < book->n_pages && evicted < bytes; i++) {
			const struct page *page = &book->pages[i];

			if (page->where & WHERE_DEVICE(device) &&
			    (int32_t)(page->moved - until.now) <= until.moved &&
			    page_evict(book, i, device, &account->sums))
				evicted += RESIDENCY_PAGE;
		}
	books_close(books);
	space_changed();
	return evicted;
}

static int residency_create(struct residency *residency, struct account *account)
{
	const size_t size = residency->n_pages * sizeof(*residency->pages);
	_cleanup_close_ int fd = -1;

	/* A file of the same name belongs to an allocation that has ended. */
	unlinkat(account->fd, residency->name, 0);
	fd = account_create(account, residency->name);
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) >= 0)
		residency->pages = pages_map(fd, residency->n_pages);
	if (!residency->pages) {
		unlinkat(account->fd, residency->name, 0);
		return -ENOMEM;
	}
	return 0;
}

int residency_open(struct residency *residency, uint64_t address, size_t n_pages)
{
	const uint64_t size = n_pages * RESIDENCY_PAGE;
	struct account *account = ledger_lock();
	int r = -ENOMEM;

	*residency = (struct residency){ .n_pages = n_pages };
	snprintf(residency->name, sizeof(residency->name), RESIDENCY_PREFIX "%d-%llx",
		 (int)getpid(), (unsigned long long)address);
	if (ledger_take_managed(size)) {
		r = residency_create(residency, account);
		if (r < 0)
			sums_take(&account->sums.managed, size);
	}
	ledger_unlock();
	return r;
}

void residency_close(struct residency *residency)
{
	const uint64_t size = residency->n_pages * RESIDENCY_PAGE;
	struct account *account;

	for (size_t i = 0; i < residency->n_pages; i++)
		residency_move(residency, i, 0);
	account = ledger_lock();
	pages_unmap(residency->pages, residency->n_pages);
	account_reap(account, residency->name);
	sums_take(&account->sums.managed, size);
	ledger_unlock();
}

uint32_t residency_where(const struct residency *residency, size_t page)
{
	return page_where(&residency->pages[page]);
}

static void devices_give(uint32_t where)
{
	for (int device = 0; device < options.n_devices; device++)
		if (where & WHERE_DEVICE(device))
			ledger_give(device, RESIDENCY_PAGE);
}

/*
 * The ledger may count everything anew here: of two requests at once, the second would be
 * lost.
 */
static bool device_take(uint32_t where)
{
	return !(where & WHERE_DEVICES) ||
	       ledger_take(__builtin_ctz(where), RESIDENCY_PAGE);
}

bool residency_move(struct residency *residency, size_t page, uint32_t where)
{
	struct page *moving = &residency->pages[page];
	struct sums *sums = &ledger_lock()->sums;
	const uint32_t before = page_where(moving);
	const bool done = device_take(where & ~before);

	if (done) {
		devices_give(before & ~where);
		page_put(moving, where, sums);
		space_changed();
	}
	ledger_unlock();
	return done;
}
