/* SPDX-License-Identifier: MIT */
#include "base/spawner.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/def.h"

#define N_CALLERS 16
#define N_EACH	  8

static struct spawner spawner;

static void begin(void)
{
	cr_assert(ge(int, memfd_create("before", MFD_CLOEXEC), 0));
	cr_assert(eq(int, spawner_init(&spawner), 0));
}

static void end(void)
{
	spawner_deinit(&spawner);
}

TestSuite(spawner, .init = begin, .fini = end, .timeout = 60);

/* Runs a script. The first descriptors of fds are given to it. */
static int shell(const char *script, struct spawn spawn, pid_t *ret_pid)
{
	spawn.program = "/bin/sh";
	spawn.arguments = (const char *[]){ "sh", "-c", script, NULL };
	spawn.environment = (const char *[]){ "WORD=hello", NULL };
	return spawner_start(&spawner, &spawn, ret_pid);
}

static int status_of(pid_t pid)
{
	int status = -1;

	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A script that has begun, and has a socket as stdin and stdout. */
struct script {
	pid_t pid;
	int socket;
};

static void script_start(struct script *script, struct spawn spawn)
{
	char line[8];
	int sockets[2];

	cr_assert(
		eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0));
	spawn.fds[spawn.n_fds++] = (struct spawn_fd){ sockets[1], STDIN_FILENO };
	spawn.fds[spawn.n_fds++] = (struct spawn_fd){ sockets[1], STDOUT_FILENO };
	cr_assert(eq(int, shell("echo ready; read line", spawn, &script->pid), 0));
	close(sockets[1]);
	script->socket = sockets[0];
	cr_assert(eq(long, read(script->socket, line, sizeof(line)), 6));
}

static void script_end(struct script *script)
{
	cr_assert(eq(long, write(script->socket, "\n", 1), 1));
	cr_assert(eq(int, status_of(script->pid), 0));
	close(script->socket);
}

/* The numbers of open descriptors, as a text: "0 1 2 5". */
static void numbers_of(pid_t pid, char *ret_text, size_t size)
{
	char path[64];
	size_t length = 0;
	struct stat status;

	ret_text[0] = 0;
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
		if (lstat(path, &status) == 0)
			length += (size_t)snprintf(ret_text + length, size - length,
						   "%s%d", length ? " " : "", fd);
	}
}

Test(spawner, program_has_the_listed_descriptors)
{
	const int kept = open("/dev/zero", O_RDONLY); /* without O_CLOEXEC */
	const int given = memfd_create("given", MFD_CLOEXEC);
	struct script script;
	char text[256];

	cr_assert(ge(int, kept, 0));
	script_start(&script,
		     (struct spawn){ .fds = { { given, 7 }, { -1, 4 } }, .n_fds = 2 });
	numbers_of(script.pid, text, sizeof(text));
	cr_expect(eq(str, text, "0 1 2 7"));
	script_end(&script);
	close(given);
	close(kept);
}

Test(spawner, stdin_is_null_and_stdout_that_of_now)
{
	const int own = dup(STDOUT_FILENO);
	int ends[2];
	char text[64] = "";
	pid_t pid;

	cr_assert(eq(int, pipe2(ends, O_CLOEXEC), 0));
	dup2(ends[1], STDOUT_FILENO);
	cr_assert(eq(int,
		     shell("echo $WORD $(readlink /proc/self/fd/0)", (struct spawn){ 0 },
			   &pid),
		     0));
	dup2(own, STDOUT_FILENO);
	cr_assert(eq(int, status_of(pid), 0));
	cr_assert(gt(long, read(ends[0], text, sizeof(text) - 1), 0));
	cr_expect(eq(str, text, "hello /dev/null\n"));
	close(ends[0]);
	close(ends[1]);
	close(own);
}

/* A line of /proc/PID/status. */
static void status_line(const char *who, const char *name, char *ret_value, size_t size)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/status", who);
	file = fopen(path, "re");
	cr_assert(ne(ptr, file, NULL));
	ret_value[0] = 0;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0)
			snprintf(ret_value, size, "%s", line + strlen(name));
	}
	fclose(file);
}

Test(spawner, program_has_a_session_and_takes_signals)
{
	char who[16], value[64];
	struct script script;
	sigset_t some;

	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &some, NULL);
	script_start(&script, (struct spawn){ 0 });
	cr_expect(eq(int, getsid(script.pid), script.pid));
	snprintf(who, sizeof(who), "%d", script.pid);
	status_line(who, "SigBlk:\t", value, sizeof(value));
	cr_expect(eq(str, value, "0000000000000000\n"));
	/* The C library's own two may be ignored. */
	status_line(who, "SigIgn:\t", value, sizeof(value));
	cr_expect(zero(u64, strtoull(value, NULL, 16) & ((1u << SIGUSR1) - 1)));
	script_end(&script);
}

/* ---- the threads' tables ---- */

/*
 * Looks whether a thread shares the table of the process, where `mark` is open. Another
 * table must have nothing but /dev/null and sockets.
 */
static bool thread_shares(const char *task, const char *mark)
{
	bool shares = false, has_others = false;
	char path[300], link[256];
	struct dirent *entry;
	ssize_t length;
	DIR *table;

	snprintf(path, sizeof(path), "/proc/self/task/%s/fd", task);
	table = opendir(path);
	while (table && (entry = readdir(table))) {
		length = readlinkat(dirfd(table), entry->d_name, link, sizeof(link) - 1);
		link[length < 0 ? 0 : length] = 0;
		shares |= strstr(link, mark) != NULL;
		has_others |= length > 0 && strcmp(link, "/dev/null") != 0 &&
			      strncmp(link, "socket:", 7) != 0;
	}
	if (table)
		closedir(table);
	cr_expect(shares || !has_others, "thread %s has others' descriptors", task);
	return shares;
}

/* Counts the threads with tables of their own, and those of them that take no signal. */
static unsigned int threads_apart(const char *mark, unsigned int *ret_n_deaf)
{
	const char *mask = "fffffffe7ffbfeff\n"; /* without KILL, STOP, and libc's two */
	char who[300], value[64];
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	unsigned int n = 0;

	*ret_n_deaf = 0;
	while ((task = readdir(tasks))) {
		if (task->d_name[0] == '.' || thread_shares(task->d_name, mark))
			continue;
		snprintf(who, sizeof(who), "self/task/%s", task->d_name);
		status_line(who, "SigBlk:\t", value, sizeof(value));
		*ret_n_deaf += strcmp(value, mask) == 0;
		n++;
	}
	closedir(tasks);
	return n;
}

/* So no close(2) of theirs or of a child looks at the locks on a file of the process. */
Test(spawner, threads_have_no_descriptor_of_the_process)
{
	const int after = memfd_create("after", MFD_CLOEXEC);
	unsigned int n_deaf;
	pid_t pid;

	cr_expect(eq(u32, threads_apart("before", &n_deaf), SPAWNER_THREADS));
	cr_expect(eq(u32, threads_apart("after", &n_deaf), SPAWNER_THREADS));
	for (int i = 0; i < 2 * SPAWNER_THREADS; i++) {
		cr_assert(eq(int,
			     shell("exit 3",
				   (struct spawn){ .fds = { { after, 5 } }, .n_fds = 1 },
				   &pid),
			     0));
		cr_expect(eq(int, status_of(pid), 3));
	}
	cr_expect(eq(u32, threads_apart("after", &n_deaf), SPAWNER_THREADS));
	close(after);
}

Test(spawner, threads_take_no_signals)
{
	unsigned int n_deaf;

	cr_expect(eq(u32, threads_apart("before", &n_deaf), SPAWNER_THREADS));
	cr_expect(eq(u32, n_deaf, SPAWNER_THREADS));
}

/* ---- shortages, and many at a time ---- */

Test(spawner, error_of_the_start_comes_back)
{
	const char *arguments[] = { "nothing", NULL }, *environment[] = { NULL };
	struct spawn spawn = { .program = "/nowhere/program",
			       .arguments = arguments,
			       .environment = environment };
	pid_t pid = 77;

	cr_expect(eq(int, spawner_start(&spawner, &spawn, &pid), -ENOENT));
	spawn.program = "/etc/passwd";
	cr_expect(eq(int, spawner_start(&spawner, &spawn, &pid), -EACCES));
	spawn.fds[spawn.n_fds++] = (struct spawn_fd){ 1000, 3 };
	cr_expect(eq(int, spawner_start(&spawner, &spawn, &pid), -EBADF));
	cr_expect(eq(int, pid, 77));
}

Test(spawner, full_table_of_the_process_keeps_no_program)
{
	struct rlimit limit = { 64, 64 };
	pid_t pid;

	cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
	while (dup(STDIN_FILENO) >= 0)
		;
	cr_assert(eq(int, errno, EMFILE));
	cr_assert(eq(int,
		     shell("exit 3",
			   (struct spawn){ .fds = { { 3, 3 }, { 4, 4 }, { 63, 5 } },
					   .n_fds = 3 },
			   &pid),
		     0));
	cr_expect(eq(int, status_of(pid), 3));
}

Test(spawner, table_without_room_is_told)
{
	struct rlimit limit = { SPAWN_FD_END + 1, 64 };
	const struct spawn spawn = { .fds = { { 0, 3 }, { 0, 4 } }, .n_fds = 2 };
	pid_t pid;

	cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
	cr_expect(eq(int, shell("exit 3", spawn, &pid), -EMFILE));
	limit.rlim_cur = limit.rlim_max;
	cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
	cr_assert(eq(int, shell("exit 3", spawn, &pid), 0));
	cr_expect(eq(int, status_of(pid), 3));
}

static void *caller_run(void *userdata)
{
	unsigned int *n_right = userdata;
	int ends[2];
	char text[8];
	pid_t pid;

	for (int i = 0; i < N_EACH; i++) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return NULL;
		if (shell("echo $WORD >&5",
			  (struct spawn){ .fds = { { ends[1], 5 } }, .n_fds = 1 },
			  &pid) == 0 &&
		    status_of(pid) == 0)
			*n_right += read(ends[0], text, sizeof(text)) == 6;
		close(ends[0]);
		close(ends[1]);
	}
	return NULL;
}

Test(spawner, many_may_ask_at_the_same_time)
{
	pthread_t threads[N_CALLERS];
	unsigned int n_right[N_CALLERS] = { 0 };

	for (int i = 0; i < N_CALLERS; i++)
		cr_assert(eq(int,
			     pthread_create(&threads[i], NULL, caller_run, &n_right[i]),
			     0));
	for (int i = 0; i < N_CALLERS; i++) {
		pthread_join(threads[i], NULL);
		cr_expect(eq(u32, n_right[i], N_EACH));
	}
}

Test(spawner, end_may_come_twice)
{
	spawner_deinit(&spawner);
	spawner_deinit(&spawner);
}

Test(spawner, no_spawner_without_descriptors)
{
	struct rlimit limit = { 0, 64 };

	spawner_deinit(&spawner);
	cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
	cr_expect(eq(int, spawner_init(&spawner), -EMFILE));
	limit.rlim_cur = limit.rlim_max;
	cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
}
