/* SPDX-License-Identifier: MIT */
/*
 * Whoever reads the mappings of a process in execve(2) waits for the end of the
 * execve(2). This call closes files, and a filesystem of the user's own may never answer
 * the close. A library may be on such a filesystem, too. So a child goes through the
 * processes and names each before looking. When a process holds up the child, another
 * child goes on with the next process.
 */
#include "search.h"

#include "apart.h"
#include "base/clock.h"
#include "base/subordinates.h"
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Processes of a user that may be late: the tool waits for each. The uids of a range are
 * one user. Root may have any number.
 */
#define LATE_MAX 3

struct late {
	pid_t pid;
	uid_t uid;
};

struct search {
	const struct options *options;
	struct libraries *libraries; /* known at the start of a child */
	struct subordinates *subordinates;
	struct late *late; /* the processes that did not answer */
	size_t n_late;
	struct late at; /* asked last */
};

enum packet_type { PACKET_AT, PACKET_LIBRARY, PACKET_END };

/* `library` and `name` are only of a library, whose descriptor comes along. */
struct packet {
	enum packet_type type;
	struct late at;
	struct library library;
	char name[4096]; /* for people: a longer one is cut */
};

/* ---- in the child ---- */

static void say(enum packet_type type, const struct late *at)
{
	struct packet packet = { .type = type };

	if (at)
		packet.at = *at;
	apart_answer(&packet, offsetof(struct packet, library), -1);
}

static void send_library(const struct library *library)
{
	struct packet packet = { .type = PACKET_LIBRARY, .library = *library };

	snprintf(packet.name, sizeof packet.name, "%s", library->name);
	apart_answer(&packet, sizeof packet, library->fd);
}

static uint64_t user_of(const struct search *search, uid_t uid)
{
	return subordinates_user(search->subordinates, uid);
}

static size_t late_of(const struct search *search, uid_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < search->n_late; i++)
		n += user_of(search, search->late[i].uid) == user_of(search, uid);
	return n;
}

/* Whether the process is among those to be traced. */
static bool is_traced(const struct options *options, pid_t pid)
{
	bool named = !options->n_pids;
	uid_t uid;

	for (size_t i = 0; i < options->n_pids; i++)
		named |= options->pids[i] == pid;
	return named &&
	       (!options->by_uid || (proc_uid(pid, &uid) && uid == options->uid));
}

static void search_process(const struct search *search, const char *pid)
{
	struct libraries *libraries = search->libraries;
	struct late at = { .pid = atoi(pid) };
	size_t n = libraries->n;

	if (at.pid <= search->at.pid || !proc_real_uid(at.pid, &at.uid))
		return;
	say(PACKET_AT, &at);
	if (!is_traced(search->options, at.pid) ||
	    (at.uid && late_of(search, at.uid) >= LATE_MAX))
		return;
	libraries_add_process(libraries, pid, at.uid);
	for (; n < libraries->n; n++)
		send_library(&libraries->list[n]);
}

/* /proc has the processes in the order of their pids. */
static void work(void *search)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			search_process(search, entry->d_name);
	say(PACKET_END, NULL);
}

/* ---- in the tracer ---- */

/* Returns: whether the child is to be listened to further. */
static bool take(struct search *search, const struct apart *apart, bool *ret_end)
{
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + APART_WAIT_NS;
	struct packet packet;
	int fd;

	*ret_end = false;
	if (apart_take(apart, &packet, sizeof packet, &fd, deadline) <= 0)
		return false;
	switch (packet.type) {
	case PACKET_AT:
		search->at = packet.at;
		break;
	case PACKET_LIBRARY:
		packet.library.fd = fd;
		if (fd < 0 && !packet.library.error) /* there was no room for it */
			packet.library.error = -EMFILE;
		if (libraries_append(search->libraries, &packet.library, packet.name))
			closep(&fd);
		break;
	case PACKET_END:
		*ret_end = true;
		return false;
	}
	return true;
}

static void skip(struct search *search)
{
	const struct late *at = &search->at;
	struct late *late =
		realloc(search->late, (search->n_late + 1) * sizeof *search->late);

	fprintf(stderr, "gpumem-trace: left out process %d, which does not answer\n",
		(int)at->pid);
	if (!late)
		return;
	search->late = late;
	late[search->n_late++] = *at;
	if (at->uid && late_of(search, at->uid) == LATE_MAX)
		fprintf(stderr,
			"gpumem-trace: left out the other processes of user %u: %d do "
			"not answer\n",
			at->uid, LATE_MAX);
}

void search_running(struct libraries *libraries, const struct options *options)
{
	struct search search = {
		.options = options,
		.libraries = libraries,
		.subordinates = subordinates_new("/etc/subuid"),
	};
	bool end = false;

	while (!end) {
		struct apart apart = { 0 };
		pid_t before = search.at.pid;

		int error = apart_start(&apart, work, &search);
		while (!error && take(&search, &apart, &end))
			;
		apart_end(&apart);
		if (end)
			break;
		if (search.at.pid == before) { /* no child gets anywhere */
			fprintf(stderr,
				"gpumem-trace: left out the processes after %d: %s\n",
				(int)before, strerror(error ? -error : ETIMEDOUT));
			break;
		}
		skip(&search);
	}
	subordinates_free(search.subordinates);
	free(search.late);
}
