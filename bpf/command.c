/* SPDX-License-Identifier: MIT */
/*
 * sudo hands on little of the user's environment, but /proc/PID/environ of sudo's own
 * process has everything. The command gets the environment of the outermost ancestor
 * called sudo.
 */
#include "command.h"

#include "base/descriptor.h"
#include "base/number.h"
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

struct user {
	uid_t uid;
	gid_t gid;
	char name[256];
};

/* Returns: false where there is no sudo behind this process. */
static bool sudo_user(struct user *ret_user)
{
	const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID");
	uint64_t user, group;

	if (geteuid() != 0 || !uid || !gid || number_parse(uid, &user) ||
	    number_parse(gid, &group) || user >= UINT32_MAX || group >= UINT32_MAX)
		return false;
	ret_user->uid = (uid_t)user;
	ret_user->gid = (gid_t)group;
	struct passwd *passwd = getpwuid(ret_user->uid);
	snprintf(ret_user->name, sizeof ret_user->name, "%s",
		 passwd ? passwd->pw_name : "");
	return true;
}

bool command_user(uid_t *ret_uid)
{
	struct user user;

	if (!sudo_user(&user))
		return false;
	*ret_uid = user.uid;
	return true;
}

/* ---- the user's environment ---- */

static pid_t find_sudo(void)
{
	pid_t pid = getppid(), found = 0;

	for (int i = 0; pid > 1 && i < 64; i++) {
		char name[PROC_NAME_SIZE] = "";
		pid_t parent = proc_parent(pid, name);

		if (!strcmp(name, "sudo"))
			found = pid;
		pid = parent;
	}
	return found;
}

/* A process's environment, as execve() wants it. Returns: NULL if unreadable. */
static char **read_environment(pid_t pid)
{
	struct text text = TEXT_INIT;
	char path[64], buffer[4096];
	ssize_t n;

	snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		text_add(&text, buffer, (size_t)n);
	if (text.failed || !text.length) {
		text_deinit(&text);
		return NULL;
	}
	size_t count = 0;
	for (size_t i = 0; i < text.length; i++)
		count += text.data[i] == '\0';
	char **list = calloc(count + 2, sizeof *list);
	char *word = text.data, *end = text.data + text.length;
	for (size_t i = 0; list && word < end; i++) {
		list[i] = word;
		word += strlen(word) + 1;
	}
	return list; /* the words live as long */
}

/* The environment for the command: the sudo user's, or this process's. */
static char **command_environment(void)
{
	struct user user;
	pid_t sudo;

	if (!sudo_user(&user) || !(sudo = find_sudo()))
		return environ;
	char **list = read_environment(sudo);
	return list ? list : environ;
}

char *command_library_path(void)
{
	static const char name[] = "LD_LIBRARY_PATH=";

	for (char **word = command_environment(); *word; word++)
		if (!strncmp(*word, name, strlen(name)))
			return strdup(*word + strlen(name));
	return NULL;
}

/* ---- the process ---- */

/* As the tool was started with. */
static struct rlimit descriptors;

void command_raise_descriptors(void)
{
	descriptors = descriptors_raise();
}

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "gpumem-trace: %s: %s\n", what, strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static void become(const struct user *user)
{
	if ((*user->name ? initgroups(user->name, user->gid) : setgroups(0, NULL)) ||
	    setgid(user->gid) || setuid(user->uid))
		fail("can't become the user behind sudo");
}

_Noreturn static void child(int go, char **argv, int (*prepare)(void *), void *context)
{
	char **environment = command_environment();
	struct user user;
	sigset_t none;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* until the program has begun */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (descriptors.rlim_max)
		setrlimit(RLIMIT_NOFILE, &descriptors);
	if (prepare(context))
		fail("can't follow the command");
	if (sudo_user(&user))
		become(&user);
	if (read(go, &byte, 1) != 1)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, 0);
	environ = environment;
	execvp(argv[0], argv);
	fail(argv[0]);
}

int command_start(struct command *command, char **argv, int (*prepare)(void *),
		  void *context, struct text *why)
{
	int go[2];

	if (pipe2(go, O_CLOEXEC)) {
		text_printf(why, "pipe: %s", strerror(errno));
		return -errno;
	}
	pid_t pid = fork();
	if (pid < 0) {
		int error = errno;

		text_printf(why, "fork: %s", strerror(error));
		close(go[0]);
		close(go[1]);
		return -error;
	}
	if (pid == 0) {
		close(go[1]);
		child(go[0], argv, prepare, context);
	}
	close(go[0]);
	command->pid = pid;
	command->go = go[1];
	return 0;
}

void command_go(struct command *command)
{
	if (write(command->go, "", 1) != 1) {
		/* the process has died: waitpid() will tell */
	}
	close(command->go);
	command->go = -1;
}

int command_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
