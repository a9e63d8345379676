/* SPDX-License-Identifier: MIT */
/*
 * put: the bytes go to an allocation with a temporary name. When complete, the allocation
 * is renamed to NAME, so nobody sees half of a file under NAME. Tensors are published:
 * the header is written first, so that a wrong one costs no copy.
 *
 * The owner of a folder above may exchange folders meanwhile. So the folder of the names
 * is opened once, before the allocation is made, and the allocation once, below it, when
 * its number is that of the answer. In a folder nobody else can give these names to
 * another allocation.
 */
#include "command.h"
#include "mount.h"
#include "name.h"
#include "progress.h"
#include "safetensors.h"
#include "stop.h"
#include "verb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct put {
	const char *file;
	char name[GPUMEM_NAME_SIZE];
	char way[GPUMEM_NAME_SIZE]; /* the name until all is there, in the same folder */
	struct text keys;	    /* KEY=VALUE as they follow the size */
	struct text header;	    /* of a safetensors file; empty: another file */
	uint64_t size;		    /* bytes behind the header */
	struct stat st;
	int fd;
	int folder;	       /* of the names, O_PATH; negative: there is none */
	int own;	       /* of the allocation, O_PATH */
	unsigned long long id; /* of the allocation, as alloc has answered */
};

static void put_deinit(struct put *put)
{
	closep(&put->fd);
	closep(&put->folder);
	closep(&put->own);
	text_deinit(&put->keys);
	text_deinit(&put->header);
}

/* Makes a name from a file's name: _ replaces characters not allowed in names. */
static void name_of_file(const char *file, char name[GPUMEM_NAME_SIZE])
{
	snprintf(name, NAME_MAX_LENGTH + 1, "%s", name_own(file));
	for (size_t i = 0; name[i]; i++)
		if (!strchr(NAME_CHARACTERS, name[i]) ||
		    (i == 0 && strchr(".-", name[i])))
			name[i] = '_';
}

/* FILE [NAME] [KEY=VALUE]... */
static int put_operands(struct put *put, const struct call *call)
{
	int keys = 1;

	if (call->n_args == 0)
		return wrong_use(
			"put needs a FILE: gpumem put FILE [NAME] [KEY=VALUE]...");
	put->file = call->args[0];
	name_of_file(put->file, put->name);
	if (call->n_args > 1 && !strchr(call->args[1], '=')) {
		if (!name_is_valid(call->args[1]))
			return wrong_use(
				"'%s' can't be a name: up to %d letters, digits, "
				"'_', '.' and '-', and the first not '.' or '-'; in a "
				"folder FOLDER/NAME",
				call->args[1], NAME_MAX_LENGTH);
		strcpy(put->name, call->args[1]);
		keys++;
	}
	for (int i = keys; i < call->n_args; i++)
		if (!strchr(call->args[i], '='))
			return wrong_use("'%s' is not KEY=VALUE", call->args[i]);
	return words_join(&put->keys, call->args + keys, call->n_args - keys);
}

static int put_open(struct put *put)
{
	/* a FIFO without a writer would keep open() waiting */
	put->fd = open(put->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (put->fd < 0 || fstat(put->fd, &put->st))
		return refused("%s: %m", put->file);
	if (!S_ISREG(put->st.st_mode))
		return refused("%s is not a regular file: put has to know its size",
			       put->file);
	if (put->st.st_size == 0)
		return refused("%s is empty: an allocation has at least 1 byte",
			       put->file);
	put->size = (uint64_t)put->st.st_size;
	return STATUS_DONE;
}

static int put_look(struct put *put)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int r = safetensors_read(put->file, put->fd, put->size, &put->header, &why);

	if (r <= 0)
		return r ? refused("%s", text_string(&why)) : STATUS_DONE;
	put->size -= SAFETENSORS_PREFIX + put->header.length;
	if (!put->size)
		return refused("%s has no tensors: an allocation has at least 1 byte",
			       put->file);
	return lseek(put->fd, (off_t)(SAFETENSORS_PREFIX + put->header.length),
		     SEEK_SET) < 0
		       ? refused("%s: %m", put->file)
		       : STATUS_DONE;
}

static void put_line(const struct put *put, const char *name, struct text *line)
{
	text_printf(line, "%s %llu%s%s", name, (unsigned long long)put->size,
		    put->keys.length ? " " : "", text_string(&put->keys));
}

static void print_path(const struct put *put, const struct mount *mount, const char *file,
		       struct text *out)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "%s/allocations/%s/%s", mount->path, put->name, file);
	shell_quote(out, text_string(&path));
}

static void print_tensors(const struct put *put, const struct mount *mount,
			  struct text *out)
{
	_cleanup_text_ struct text pair = TEXT_INIT;
	size_t end = SAFETENSORS_PREFIX + put->header.length;

	text_printf(out, " && head -c %zu ", end);
	shell_quote(out, put->file);
	text_printf(out, " | tail -c +%d >", SAFETENSORS_PREFIX + 1);
	print_path(put, mount, "tensors", out);
	text_printf(out, " && tail -c +%zu ", end + 1);
	shell_quote(out, put->file);
	text_printf(out, " >");
	print_path(put, mount, "data", out);
	text_printf(out, " && ");
	text_printf(&pair, "%s %s", put->name, put->name);
	shell_line(out, mount, "control/publish", text_string(&pair));
}

static int put_print(const struct put *put, const struct mount *mount)
{
	_cleanup_text_ struct text line = TEXT_INIT, out = TEXT_INIT;

	put_line(put, put->name, &line);
	shell_line(&out, mount, "control/alloc", text_string(&line));
	if (put->header.length) {
		print_tensors(put, mount, &out);
	} else {
		text_printf(&out, " && cp ");
		shell_quote(&out, put->file);
		text_printf(&out, " ");
		print_path(put, mount, "data", &out);
	}
	puts(text_string(&out));
	return STATUS_DONE;
}

/* Prints the broker's sentence, with the user's NAME in place of the temporary name. */
static int refused_about(const struct put *put, const char *sentence)
{
	const char *at = strstr(sentence, put->way);

	if (!at)
		return refused("%s", sentence);
	return refused("%.*s%s%s", (int)(at - sentence), sentence, put->name,
		       at + strlen(put->way));
}

/* close(2) has the broker's answer. Returns: 0; -EINTR; -errno with a sentence. */
static int put_tensors(const struct put *put, const struct mount *mount, struct text *why)
{
	_cleanup_text_ struct text path = TEXT_INIT;
	const char *bytes = text_string(&put->header);
	size_t left = put->header.length;
	int fd, r = 0;

	if (!left)
		return 0;
	text_printf(&path, "allocations/%s/tensors", put->way);
	fd = openat(put->own, "tensors", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		r = -errno;
	while (r == 0 && left) {
		ssize_t n = unless_stopped(write(fd, bytes, left));

		if (n < 0) {
			r = -errno;
			break;
		}
		bytes += n;
		left -= (size_t)n;
	}
	if (fd >= 0 && close(fd) && r == 0)
		r = -errno;
	if (r == 0 || stop_asked())
		return r == 0 ? 0 : -EINTR;
	text_printf(why, "%s: ", put->file);
	mount_why(mount, text_string(&path), -r, why);
	if (r == -EINVAL)
		text_printf(why, " (--plain copies the file as it is)");
	return r;
}

/* Returns: 0; -EINTR; -errno with a sentence. */
static int put_bytes(const struct put *put, struct text *why)
{
	_cleanup_close_ int data = -1;
	struct transfer transfer = { put->name, put->fd,   -1,
				     put->size, put->file, put->name };
	struct stat now;
	int r;

	data = (int)unless_stopped(openat(put->own, "data", O_WRONLY | O_CLOEXEC));
	transfer.to = data;
	if (data < 0) {
		text_printf(why, "%s: %m", put->name);
		return -errno;
	}
	r = transfer_run(&transfer, why);
	/* write(2) returns before the write is done; fsync(2) reports its error */
	if (r == 0 && unless_stopped(fsync(data))) {
		r = -errno;
		if (r != -EINTR)
			text_printf(why, "%s: %m", put->name);
	}
	if (r == 0 && (fstat(put->fd, &now) || now.st_size != put->st.st_size ||
		       now.st_mtim.tv_sec != put->st.st_mtim.tv_sec ||
		       now.st_mtim.tv_nsec != put->st.st_mtim.tv_nsec)) {
		text_printf(why, "%s has changed while it was read", put->file);
		r = -EIO;
	}
	return r;
}

static int put_publish(const struct put *put, const struct mount *mount, struct text *why)
{
	_cleanup_text_ struct text line = TEXT_INIT;
	int r;

	text_printf(&line, "%s %s id=%llu", put->way, put->name, put->id);
	r = mount_line(mount, "control/publish", text_string(&line), NULL);
	if (r)
		text_printf(why, "%s", gpumem_error());
	return r;
}

static int put_rename(const struct put *put, const struct mount *mount, struct text *why)
{
	(void)mount;
	if (!renameat(put->folder, name_own(put->way), put->folder, name_own(put->name)))
		return 0;
	text_printf(why, "%s: %m", put->name);
	return -errno;
}

/* Frees what has the temporary name in the folder. Returns: 0; -errno. */
static int put_remove(const struct put *put)
{
	return unlinkat(put->folder, name_own(put->way), AT_REMOVEDIR) ? -errno : 0;
}

/* Makes the allocation under its temporary name. Returns: as mount_line(). */
static int put_alloc(struct put *put, const struct mount *mount)
{
	_cleanup_text_ struct text line = TEXT_INIT, answer = TEXT_INIT;
	const char *id;
	int r;

	put_line(put, put->way, &line);
	text_printf(&answer, "\n"); /* before each key */
	r = mount_line(mount, "control/alloc", text_string(&line), &answer);
	while (r == -EINTR) {
		/* the allocation may exist in spite of an interrupted wait */
		(void)put_remove(put);
		if (stop_asked())
			break;
		r = mount_line(mount, "control/alloc", text_string(&line), &answer);
	}
	if (r)
		return r;
	id = strstr(text_string(&answer), "\nid ");
	put->id = id ? strtoull(id + strlen("\nid "), NULL, 10) : 0;
	return 0;
}

/* Opens the allocation that has been made. Returns: 0; -errno with a sentence. */
static int put_find(struct put *put, struct text *why)
{
	_cleanup_text_ struct text id = TEXT_INIT;
	_cleanup_close_ int own = openat(put->folder, name_own(put->way),
					 O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = own < 0 ? -errno : file_read(own, "id", &id);

	if (r && r != -ENOENT) {
		text_printf(why, "%s: %s", put->name, strerror(-r));
		return r;
	}
	if (r || strtoull(text_string(&id), NULL, 10) != put->id) {
		text_printf(why,
			    "%s: its folder is another one now than that of the "
			    "allocation which was made",
			    put->name);
		return -ESTALE;
	}
	put->own = take_fd(&own);
	return 0;
}

/* Frees the allocation again. */
static void put_free(const struct put *put, const struct mount *mount)
{
	_cleanup_text_ struct text line = TEXT_INIT;

	if (put->own >= 0 && !put_remove(put))
		return;
	text_printf(&line, "%s id=%llu", put->way, put->id);
	if (mount_line(mount, "control/free", text_string(&line), NULL))
		fprintf(stderr, "gpumem: %s is left behind: %s\n", put->way,
			gpumem_error());
}

static void put_open_folder(struct put *put, const struct mount *mount)
{
	char path[GPUMEM_NAME_SIZE];

	(void)snprintf(path, sizeof path, "%.*s", (int)(name_own(put->name) - put->name),
		       put->name);
	put->folder = mount_allocation(mount, path);
}

/* put.NUMBER.NAME, cut off, beside what will be NAME. */
static void put_name_way(struct put *put)
{
	const char *own = name_own(put->name);
	char part[NAME_MAX_LENGTH + 1];

	(void)snprintf(part, sizeof part, "put.%u.%s", name_number(), own);
	(void)snprintf(put->way, sizeof put->way, "%.*s%s", (int)(own - put->name),
		       put->name, part);
}

static int put_run(struct put *put, const struct mount *mount)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int r;

	put_open_folder(put, mount);
	if (faccessat(put->folder, name_own(put->name), F_OK, 0) == 0)
		return refused("allocation %s is there already: give another NAME, or "
			       "first `gpumem free %s`",
			       put->name, put->name);
	put_name_way(put);
	stop_catch();
	r = put_alloc(put, mount);
	if (r) {
		stop_end();
		return refused_about(put, gpumem_error());
	}
	r = put_find(put, &why) ?: put_tensors(put, mount, &why) ?: put_bytes(put, &why);
	if (r == 0)
		r = (put->header.length ? put_publish : put_rename)(put, mount, &why);
	if (r == 0) {
		puts(put->name);
		return STATUS_DONE;
	}
	put_free(put, mount);
	stop_end();
	return refused("%s", text_string(&why));
}

int command_put(const struct call *call)
{
	_cleanup_(put_deinit) struct put put = { .fd = -1, .folder = -1, .own = -1 };
	_cleanup_mount_ struct mount mount = MOUNT_CLOSED;
	bool plain = call->values[OPTION_PLAIN];
	int status = put_operands(&put, call) ?: put_open(&put);

	if (!status && !plain)
		status = put_look(&put);
	if (!status)
		status = mount_open(&mount);

	if (status)
		return status;
	return call->values[OPTION_DRY_RUN] ? put_print(&put, &mount)
					    : put_run(&put, &mount);
}
