/* SPDX-License-Identifier: MIT */
#include "groups.h"

#include "api/broker.h"
#include "base/clock.h"
#include "base/def.h"
#include "base/hash.h"
#include "base/proc.h"
#include "base/subordinates.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FEW	  1000	  /* groups, looked up in less than half a millisecond */
#define LONG_NS	  5000000 /* of the processor, for the look-up of some */

#define SEEN_MANY UINT64_C(1)

/* ---- the text ---- */

/* The whole file, read in one go: each opening makes the text anew. NULL: no memory. */
static char *read_all(int fd)
{
	size_t size = 0, capacity = 4096;
	char *text = malloc(capacity);
	ssize_t n = text ? 1 : 0;

	while (n > 0) {
		if (size + 1 == capacity) {
			char *more = realloc(text, capacity *= 4);

			if (!more) {
				free(text);
				return NULL;
			}
			text = more;
		}
		n = read(fd, text + size, capacity - size - 1);
		size += n > 0 ? (size_t)n : 0;
	}
	if (text)
		text[size] = '\0';
	return text;
}

/* Linux keeps groups in order, but shows other numbers in a user namespace. */
static void sort(gid_t *groups, int n)
{
	for (int i = 1; i < n; i++) {
		if (groups[i - 1] > groups[i]) {
			qsort(groups, (size_t)n, sizeof(*groups), gid_compare);
			return;
		}
	}
}

/* Numbers with a blank after each, up to the end of the line. */
static int parse(const char *line, gid_t **ret_groups)
{
	size_t n_most = strcspn(line, "\n") / 2 + 1;
	gid_t *groups = calloc(n_most, sizeof(*groups));
	int n = 0;

	if (!groups)
		return -ENOMEM;
	for (char *end; *line != '\n' && (size_t)n < n_most; line = end) {
		unsigned long group;

		while (*line == ' ' || *line == '\t')
			line++;
		group = strtoul(line, &end, 10);
		if (end == line)
			break;
		groups[n++] = (gid_t)group;
	}
	sort(groups, n);
	*ret_groups = groups;
	return n;
}

/* NULL: there is none. */
static const char *groups_line(const char *status)
{
	static const char before[] = "\nGroups:";
	const char *line = strstr(status, before);

	return line ? line + strlen(before) : NULL;
}

int groups_read(pid_t tid, gid_t **ret_groups)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;
	const char *line;
	char path[64];

	*ret_groups = NULL;
	snprintf(path, sizeof(path), "%d/task/%d/status", (int)tid, (int)tid);
	fd = proc_open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	text = read_all(fd);
	if (!text)
		return -ENOMEM;
	line = groups_line(text);
	return line ? parse(line, ret_groups) : 0;
}

/* ---- users ---- */

static bool is_user(uint64_t known, uint64_t user)
{
	return known >> 1 == user + 1;
}

static struct groups_set *set_of(struct groups_seen *seen, uint64_t user)
{
	return &seen->sets[hash_of(&user, sizeof(user)) % GROUPS_SETS];
}

/* 0: the user is unknown. */
static uint64_t known_of(const struct groups_seen *seen, uint64_t user)
{
	const struct groups_set *set = set_of((struct groups_seen *)seen, user);

	for (unsigned int i = 0; i < GROUPS_PLACES; i++) {
		uint64_t known = __atomic_load_n(&set->users[i], __ATOMIC_RELAXED);

		if (is_user(known, user))
			return known;
	}
	return 0;
}

/* The place of the user, else a free one, else that of the user who came first. */
static uint64_t *place_of(struct groups_set *set, uint64_t user)
{
	uint64_t *free_place = NULL;

	for (unsigned int i = 0; i < GROUPS_PLACES; i++) {
		uint64_t known = __atomic_load_n(&set->users[i], __ATOMIC_RELAXED);

		if (is_user(known, user))
			return &set->users[i];
		if (!known && !free_place)
			free_place = &set->users[i];
	}
	if (free_place)
		return free_place;
	return &set->users[__atomic_fetch_add(&set->n_replaced, 1, __ATOMIC_RELAXED) %
			   GROUPS_PLACES];
}

void groups_note(struct groups_seen *seen, uid_t uid, unsigned int n)
{
	uint64_t user = subordinates_user(seen->subordinates, uid);
	uint64_t known = (user + 1) << 1 | (n > FEW ? SEEN_MANY : 0);

	known |= known_of(seen, user) & SEEN_MANY;
	__atomic_store_n(place_of(set_of(seen, user), user), known, __ATOMIC_RELAXED);
}

void groups_note_status(struct groups_seen *seen, uid_t uid, const char *status)
{
	const char *line = groups_line(status);
	/* A number and a blank for each. */
	size_t n = line ? strcspn(line, "\n") / 2 : 0;

	if (n > FEW)
		groups_note(seen, uid, (unsigned int)n);
}

int groups_of(struct groups_seen *seen, pid_t tid, uid_t uid, gid_t **ret_groups)
{
	uint64_t since = clock_ns(CLOCK_THREAD_CPUTIME_ID), took;
	int n = groups_read(tid, ret_groups);

	took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - since;
	if (n >= 0)
		groups_note(seen, uid, took > LONG_NS ? FEW + 1 : (unsigned int)n);
	return n;
}

bool groups_are_many(const struct groups_seen *seen, uid_t uid)
{
	return known_of(seen, subordinates_user(seen->subordinates, uid)) & SEEN_MANY;
}

bool groups_are_slow(const struct groups_seen *seen, const struct fuse_buf *request,
		     uint64_t *ret_user)
{
	const struct fuse_in_header *header = request->mem;
	uint64_t known;

	/* Of these handlers some ask for groups. No other may, and no SETATTR: the kernel
	 * holds locks of shared folders meanwhile. */
	if (header->opcode != FUSE_OPEN || header->uid == 0)
		return false;
	*ret_user = subordinates_user(seen->subordinates, header->uid);
	known = known_of(seen, *ret_user);
	return !known || known & SEEN_MANY;
}

void groups_learn(struct groups_seen *seen, const struct fuse_buf *request)
{
	const struct fuse_in_header *header = request->mem;
	_cleanup_free_ gid_t *groups = NULL;

	if (!known_of(seen, subordinates_user(seen->subordinates, header->uid)))
		(void)groups_of(seen, (pid_t)header->pid, header->uid, &groups);
}
