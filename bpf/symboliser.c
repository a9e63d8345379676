/* SPDX-License-Identifier: MIT */
/*
 * The symboliser is this program anew, by exec: so it has no copy of the tracer's memory,
 * of the maps of the BPF programs or of root's environment. The tracer opens the files,
 * by their mappings: the traced user may not be allowed to, or sees other mounts. It does
 * so before the child starts, as the traced process may soon end.
 */
#include "symboliser.h"

#include "packet.h"
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NOBODY 65534

struct known_module {
	uint64_t start;
	dev_t device;
	uint64_t inode;
};

/* ---- the child ---- */

_Noreturn static void child(const struct symboliser *symboliser, pid_t tracer)
{
	char uid[16], gid[16], pid[16];
	char *argv[] = { (char[]){ SYMBOLISER_NAME }, uid, gid, pid, NULL };
	char *environment[] = { NULL };
	bool is_root = symboliser->uid == 0;

	snprintf(uid, sizeof uid, "%u", is_root ? NOBODY : symboliser->uid);
	snprintf(gid, sizeof gid, "%u", is_root ? NOBODY : symboliser->gid);
	snprintf(pid, sizeof pid, "%d", (int)tracer);
	/* what libraries say is no word of the tool's */
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (dup2(symboliser->end, STDIN_FILENO) < 0 || fcntl(STDIN_FILENO, F_SETFD, 0) ||
	    dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
	    close_range(STDERR_FILENO + 1, ~0u, 0))
		_exit(1);
	execve("/proc/self/exe", argv, environment);
	_exit(1);
}

/* Without a child the socket is closed, and no question is answered. */
static void start(struct symboliser *symboliser)
{
	pid_t tracer = getpid();

	if (symboliser->pid)
		return;
	pid_t pid = fork();
	if (pid == 0)
		child(symboliser, tracer);
	closep(&symboliser->end);
	symboliser->pid = pid > 0 ? pid : 0;
}

int symboliser_open(struct symboliser *symboliser, pid_t traced)
{
	char path[32];
	struct stat st;
	int ends[2];

	snprintf(path, sizeof path, "/proc/%d", (int)traced);
	_cleanup_close_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || fstat(folder, &st) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	*symboliser = (struct symboliser){
		.is_open = true,
		.fd = ends[0],
		.end = ends[1],
		.folder = take_fd(&folder),
		.uid = st.st_uid,
		.gid = st.st_gid,
	};
	return 0;
}

bool symboliser_is_free(struct symboliser *symboliser)
{
	if (!symboliser->is_open && symboliser->pid &&
	    waitpid(symboliser->pid, NULL, WNOHANG) == symboliser->pid)
		symboliser->pid = 0;
	return !symboliser->is_open && !symboliser->pid;
}

void symboliser_end(struct symboliser *symboliser)
{
	if (!symboliser->is_open)
		return;
	closep(&symboliser->fd);
	closep(&symboliser->end);
	closep(&symboliser->folder);
	free(take_ptr(symboliser->modules));
	if (symboliser->pid && apart_kill(symboliser->pid))
		symboliser->pid = 0;
	symboliser->is_open = false;
}

/* ---- questions ---- */

/* Sends a question, with a descriptor unless it is negative. Returns: as
 * symboliser_ask(). */
static int send_ask(struct symboliser *symboliser, const struct ask *ask, int fd,
		    uint64_t deadline)
{
	for (;;) {
		int error =
			packet_send(symboliser->fd, ask, sizeof *ask, fd, MSG_DONTWAIT);

		if (error != -EAGAIN)
			return error ? -EPIPE : 0;
		start(symboliser); /* the socket is full */
		if (packet_wait(symboliser->fd, POLLOUT, deadline))
			return -ETIMEDOUT;
	}
}

/* Returns: as symboliser_ask(). */
static int read_text(const struct symboliser *symboliser, char **ret_text,
		     uint64_t deadline)
{
	char text[FRAME_SIZE];

	for (;;) {
		ssize_t n = recv(symboliser->fd, text, sizeof text, MSG_DONTWAIT);

		if (n > 0) {
			*ret_text = strndup(text, (size_t)n);
			return 0;
		}
		if (n == 0 || errno != EAGAIN)
			return -EPIPE;
		if (packet_wait(symboliser->fd, POLLIN, deadline))
			return -ETIMEDOUT;
	}
}

int symboliser_ask(struct symboliser *symboliser, const struct ask *ask, char **ret_texts,
		   uint64_t deadline)
{
	int error = send_ask(symboliser, ask, -1, deadline);

	start(symboliser);
	for (size_t i = 0; !error && i < ask->n_frames; i++)
		error = read_text(symboliser, &ret_texts[i], deadline);
	return error;
}

/* ---- modules ---- */

/* A file, from its first mapping to the last one in a row; and the mapping that was
 * looked for. */
struct found {
	struct known_module known;
	struct ask_module ask;
	struct mapping mapping; /* has the name in `ask` */
};

static bool is_same_file(const struct known_module *known, const struct mapping *mapping)
{
	return known->device == mapping->device && known->inode == mapping->inode;
}

/* Finds the file mapped at an address. Mappings of one file stand in a row, but for those
 * without a file between them. Returns: false if there is none. */
static bool find_mapped(const char *pid, uint64_t address, struct found *found)
{
	struct mapping mapping;
	struct maps maps;
	bool is_there = false;

	maps_open(&maps, pid);
	while (maps_next(&maps, &mapping)) {
		if (mapping.name[0] != '/')
			continue;
		if (!is_same_file(&found->known, &mapping)) {
			if (is_there)
				break;
			found->known =
				(struct known_module){ mapping.start, mapping.device,
						       mapping.inode };
		}
		found->ask.end = mapping.end;
		if (address < mapping.start || address >= mapping.end)
			continue;
		is_there = true;
		found->ask.start = found->known.start;
		snprintf(found->ask.path, sizeof found->ask.path, "%s", mapping.name);
		found->mapping = mapping;
		found->mapping.name = found->ask.path;
	}
	maps_close(&maps);
	return is_there;
}

/* Returns: n_modules for a module that isn't known. */
static size_t find_known(const struct symboliser *symboliser, const struct found *found)
{
	size_t i = 0;

	while (i < symboliser->n_modules &&
	       memcmp(&symboliser->modules[i], &found->known, sizeof found->known))
		i++;
	return i;
}

void symboliser_look(const char *pid, uint64_t address)
{
	struct found found = { 0 };

	if (!find_mapped(pid, address, &found)) {
		apart_answer(&found, offsetof(struct found, ask), -1);
		return;
	}
	/* without the file its name and an offset are shown */
	_cleanup_close_ int fd = proc_open_mapped(pid, &found.mapping);
	apart_answer(&found, sizeof found, fd);
}

static uint64_t add_module(struct symboliser *symboliser, const struct found *found,
			   int fd, uint64_t deadline)
{
	struct ask ask = { .module = found->ask };
	size_t n = symboliser->n_modules, known = find_known(symboliser, found);

	if (known < n)
		return known;
	if (n == SYMBOLISER_MODULES)
		return MODULE_NONE;
	struct known_module *more = realloc(symboliser->modules, (n + 1) * sizeof *more);
	if (!more)
		return MODULE_NONE;
	symboliser->modules = more;
	more[n] = found->known;
	if (send_ask(symboliser, &ask, fd, deadline))
		return MODULE_NONE;
	return symboliser->n_modules++;
}

int symboliser_module(struct symboliser *symboliser, const struct apart *looker,
		      uint64_t deadline, uint64_t *ret_module)
{
	_cleanup_close_ int fd = -1;
	struct found found;
	ssize_t n = apart_take(looker, &found, sizeof found, &fd, deadline);

	*ret_module = n == sizeof found ? add_module(symboliser, &found, fd, deadline)
					: MODULE_NONE;
	return n > 0 ? 0 : n < 0 ? (int)n : -EPIPE;
}
