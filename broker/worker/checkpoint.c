/* SPDX-License-Identifier: MIT */
/*
 * Managed memory stays readable by the CPU while a kernel runs, and after a fault has
 * ended the contexts. The system calls pread() and pwrite() copy the memory: for
 * unreadable memory they return EFAULT, and this process does not crash.
 */
#include "worker/checkpoint.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "worker/serve.h"
#include "worker/worker.h"

/* Bytes of one call, below the limit of pread() and pwrite(). */
#define PIECE (1ull << 30)

typedef ssize_t (*move_function)(int fd, uint64_t address, size_t length, off_t offset);

/*
 * A kernel that never ends, or a late transfer, may write to the memory meanwhile. The
 * broker knows this. The raw system call hides the race from the thread sanitizer, which
 * intercepts pwrite().
 */
static ssize_t piece_save(int fd, uint64_t address, size_t length, off_t offset)
{
	return syscall(SYS_pwrite64, fd, address, length, offset);
}

static ssize_t piece_restore(int fd, uint64_t address, size_t length, off_t offset)
{
	return pread(fd, (void *)address, length, offset);
}

static int memory_move(const struct job *job, move_function move)
{
	const struct wire_request *request = &job->request;

	for (uint64_t done = 0; done < request->length;) {
		ssize_t n = move(job->fd, request->address + done,
				 MIN(request->length - done, PIECE),
				 (off_t)(request->source + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

static void *urgent_run(void *userdata)
{
	struct worker *worker = userdata;
	struct job job;

	while (serve_receive(worker, WIRE_URGENT_FD, &job))
		serve_run(worker, &job);
	return NULL;
}

void rescue_listen(struct worker *worker)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, urgent_run, worker))
		worker_die("can't start its threads");
	pthread_detach(thread);
}

int rescue_save(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	(void)worker;
	(void)failure;
	return memory_move(job, piece_save);
}

int rescue_restore(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	(void)worker;
	(void)failure;
	return memory_move(job, piece_restore);
}
