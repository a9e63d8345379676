/* SPDX-License-Identifier: MIT */
/*
 * without_memory LEASE HOLDS LEAVE: a process with a lease that lives on after the end of
 * the lease, and looks as if it was exiting: to Linux a child of vfork(2) has no memory
 * of its own. Writes the child's number to HOLDS when it has the lease, and closes that
 * when the file LEAVE is there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void hold(char **argv)
{
	char text[4096];
	int lease = open(argv[1], O_RDWR);
	int holds = open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0644);

	if (lease < 0 || holds < 0 || read(lease, text, sizeof(text)) < 0)
		_exit(1);
	snprintf(text, sizeof(text), "%d\n", getpid());
	if (write(holds, text, strlen(text)) < 0)
		_exit(1);
	close(holds);
	while (access(argv[3], F_OK) < 0)
		usleep(10000);
	close(lease);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	pid_t child;

	if (argc != 4)
		return 1;
	child = vfork();
	if (child == 0)
		hold(argv);
	return child < 0 || waitpid(child, NULL, 0) < 0;
}
