/* SPDX-License-Identifier: MIT */
/*
 * A minimal libfuse daemon: three files, whose writes are dropped and whose reads return
 *a constant buffer. The difference to a figure of gpumem is the cost of gpumem itself.
 *
 *	data      1 GiB, unbuffered
 *	control   accepts all writes
 *	status    a few lines
 */
#define FUSE_USE_VERSION 34

#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_FILES	    3
#define DATA_SIZE   ((off_t)1 << 30)
#define REQUEST_MAX ((size_t)1 << 20)

static const char *const names[N_FILES] = { "data", "control", "status" };
static const char status[] = "allocations 0\nbytes 0\npeak_bytes 0\nstreams 1\n";
static char *zeros;

static void file_stat(fuse_ino_t ino, struct stat *ret_stat)
{
	memset(ret_stat, 0, sizeof(*ret_stat));
	ret_stat->st_ino = ino;
	ret_stat->st_nlink = 1;
	ret_stat->st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0666;
	ret_stat->st_size = ino == FUSE_ROOT_ID + 1 ? DATA_SIZE : 0;
}

static void empty_init(void *userdata, struct fuse_conn_info *connection)
{
	(void)userdata;
	connection->max_write = REQUEST_MAX;
}

static void empty_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = { .ino = 0 };

	(void)parent;
	for (unsigned int i = 0; i < N_FILES; i++) {
		if (strcmp(name, names[i]))
			continue;
		entry.ino = FUSE_ROOT_ID + 1 + i;
		file_stat(entry.ino, &entry.attr);
		fuse_reply_entry(request, &entry);
		return;
	}
	fuse_reply_err(request, ENOENT);
}

static void empty_getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct stat stat;

	(void)info;
	file_stat(ino, &stat);
	fuse_reply_attr(request, &stat, 1);
}

static void empty_setattr(fuse_req_t request, fuse_ino_t ino, struct stat *attributes,
			  int set, struct fuse_file_info *info)
{
	(void)attributes;
	(void)set;
	empty_getattr(request, ino, info);
}

static void empty_open(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)ino;
	info->direct_io = 1;
	info->noflush = 1;
	fuse_reply_open(request, info);
}

static void empty_read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
		       struct fuse_file_info *info)
{
	size_t length = sizeof(status) - 1;

	(void)info;
	if (ino == FUSE_ROOT_ID + 1)
		fuse_reply_buf(request, zeros, size < REQUEST_MAX ? size : REQUEST_MAX);
	else if (offset >= (off_t)length)
		fuse_reply_buf(request, NULL, 0);
	else
		fuse_reply_buf(request, status + offset, length - (size_t)offset);
}

static void empty_write(fuse_req_t request, fuse_ino_t ino, const char *bytes,
			size_t size, off_t offset, struct fuse_file_info *info)
{
	(void)ino;
	(void)bytes;
	(void)offset;
	(void)info;
	fuse_reply_write(request, size);
}

static const struct fuse_lowlevel_ops operations = {
	.getattr = empty_getattr,
	.init = empty_init,
	.lookup = empty_lookup,
	.open = empty_open,
	.read = empty_read,
	.setattr = empty_setattr,
	.write = empty_write,
};

/* As many threads as the broker has. libfuse's own loop starts and ends threads all the
 * time, at a higher cost than the requests measured here. */
#define N_THREADS 4

static void *loop(void *userdata)
{
	struct fuse_session *session = userdata;
	struct fuse_buf request = { 0 };

	while (!fuse_session_exited(session)) {
		if (fuse_session_receive_buf(session, &request) > 0)
			fuse_session_process_buf(session, &request);
	}
	free(request.mem);
	return NULL;
}

static void loop_all(struct fuse_session *session)
{
	pthread_t threads[N_THREADS - 1];
	int n = 0;

	while (n < N_THREADS - 1 && !pthread_create(&threads[n], NULL, loop, session))
		n++;
	loop(session);
	/* The mount is still there: the others sleep in read, and end with the process.
	 */
	while (n > 0)
		pthread_detach(threads[--n]);
}

static int serve(struct fuse_args *args, const struct fuse_cmdline_opts *options)
{
	struct fuse_session *session;

	session = fuse_session_new(args, &operations, sizeof(operations), NULL);
	if (!session)
		return -1;
	if (!fuse_set_signal_handlers(session) &&
	    !fuse_session_mount(session, options->mountpoint)) {
		loop_all(session);
		fuse_session_unmount(session);
		return 0;
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fuse_cmdline_opts options;

	zeros = calloc(1, REQUEST_MAX);
	if (!zeros || fuse_parse_cmdline(&args, &options))
		return 1;
	return serve(&args, &options) ? 1 : 0;
}
