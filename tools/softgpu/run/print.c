/* SPDX-License-Identifier: MIT */
/*
 * A queue of texts with a limit in bytes, as the driver's own is a ring of that size. The
 * queue has its own lock, because kernels print while calls are made.
 */
#include "print.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct print {
	struct print *next;
	size_t length;
	char text[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct print *first; /* under lock */
static struct print **last = &first;
static size_t used;

static void print_drop(void)
{
	struct print *print = first;

	first = print->next;
	if (!first)
		last = &first;
	used -= print->length;
	free(print);
}

void print_add(const char *text, size_t length, size_t limit)
{
	struct print *print;

	if (!length || length > limit)
		return;
	print = malloc(sizeof(*print) + length);
	if (!print)
		return;
	print->next = NULL;
	print->length = length;
	memcpy(print->text, text, length);
	pthread_mutex_lock(&lock);
	while (first && used + length > limit)
		print_drop();
	*last = print;
	last = &print->next;
	used += length;
	pthread_mutex_unlock(&lock);
}

void prints_flush(void)
{
	pthread_mutex_lock(&lock);
	if (first) {
		while (first) {
			fwrite(first->text, 1, first->length, stdout);
			print_drop();
		}
		fflush(stdout);
	}
	pthread_mutex_unlock(&lock);
}
