/* SPDX-License-Identifier: MIT */
/*
 * get: the bytes go to a new file beside FILE. When complete, the new file takes FILE's
 * place. An allocation with `tensors` becomes the safetensors file that it came from.
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
#include <sys/xattr.h>

#define ACCESS_LIST	"system.posix_acl_access" /* acl(5) */
#define ACCESS_LIST_MAX 65536

struct get {
	const char *name;
	struct text header; /* its `tensors`; empty: none */
	struct text file;
	struct text temporary; /* empty: bytes go to the file itself */
	int from, to;
	uint64_t size;
	mode_t mode; /* of `data` */
};

static void get_deinit(struct get *get)
{
	closep(&get->from);
	closep(&get->to);
	text_deinit(&get->header);
	text_deinit(&get->file);
	text_deinit(&get->temporary);
}

/* NAME [FILE] */
static int get_operands(struct get *get, const struct call *call)
{
	struct stat st;

	if (call->n_args < 1 || call->n_args > 2)
		return wrong_use("get needs a NAME: gpumem get NAME [FILE]");
	get->name = call->args[0];
	if (!name_is_valid(get->name))
		return wrong_use("'%s' is not the name of an allocation", get->name);
	text_printf(&get->file, "%s",
		    call->n_args > 1 ? call->args[1] : name_own(get->name));
	if (!stat(text_string(&get->file), &st) && S_ISDIR(st.st_mode))
		text_printf(&get->file, "/%s", name_own(get->name));
	return STATUS_DONE;
}

static void print_path(const struct get *get, const struct mount *mount, const char *file,
		       struct text *out)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "%s/allocations/%s/%s", mount->path, get->name, file);
	shell_quote(out, text_string(&path));
}

/* `{ printf LENGTH; cat TENSORS DATA; }` */
static void print_safetensors(const struct get *get, const struct mount *mount,
			      struct text *out)
{
	uint64_t length = get->header.length;

	text_printf(out, "{ printf '");
	for (int i = 0; i < SAFETENSORS_PREFIX; i++)
		text_printf(out, "\\%03o", (unsigned int)(length >> 8 * i & 0xff));
	text_printf(out, "'; cat ");
	print_path(get, mount, "tensors", out);
	text_printf(out, " ");
	print_path(get, mount, "data", out);
	text_printf(out, "; }");
}

static int get_print(const struct get *get, const struct mount *mount)
{
	_cleanup_text_ struct text out = TEXT_INIT;
	bool to_stdout = !strcmp(text_string(&get->file), "-");
	bool tensors = get->header.length;

	if (tensors) {
		print_safetensors(get, mount, &out);
	} else {
		text_printf(&out, to_stdout ? "cat " : "cp ");
		print_path(get, mount, "data", &out);
	}
	if (!to_stdout) {
		text_printf(&out, tensors ? " >" : " ");
		shell_quote(&out, text_string(&get->file));
	}
	puts(text_string(&out));
	return STATUS_DONE;
}

/*
 * Reads `tensors` and opens `data`, both of the allocation that has the name now. An
 * older broker has no tensors. Returns: 0; -errno.
 */
static int open_files(struct get *get, const struct mount *mount, bool plain)
{
	_cleanup_close_ int own = mount_allocation(mount, get->name);
	struct stat st;
	int r = 0;

	if (own < 0)
		return own;
	text_clear(&get->header);
	if (!plain)
		r = file_read(own, "tensors", &get->header);
	if (r && r != -ENOENT)
		return r;
	get->from = (int)unless_stopped(openat(own, "data", O_RDONLY | O_CLOEXEC));
	if (get->from < 0 || fstat(get->from, &st))
		return -errno;
	get->size = (uint64_t)st.st_size;
	get->mode = st.st_mode;
	return 0;
}

static int open_source(struct get *get, const struct mount *mount, bool plain)
{
	int r, tries = 0;

	/* freed or replaced meanwhile: another may have the name */
	do {
		closep(&get->from);
		r = open_files(get, mount, plain);
	} while (r == -ESTALE && tries++ < 100);
	stop_end();
	if (r == -ENOENT)
		return refused("there is no allocation '%s'", get->name);
	return r ? refused("allocation %s: %s", get->name, strerror(-r)) : STATUS_DONE;
}

/*
 * Gives the new file the group and the access list of the file that it replaces. Returns:
 * whether the mode's bits of the group mean the same users then.
 */
static bool keep_group(int to, const char *file, const struct stat *replaced)
{
	char list[ACCESS_LIST_MAX];
	ssize_t length;

	if (fchown(to, (uid_t)-1, replaced->st_gid))
		return false;
	length = getxattr(file, ACCESS_LIST, list, sizeof list);
	if (length >= 0)
		return fsetxattr(to, ACCESS_LIST, list, (size_t)length, 0) == 0;
	if (errno == ERANGE)
		return false;
	/* the folder may have given a list to the new file */
	return fremovexattr(to, ACCESS_LIST) == 0 || errno == ENODATA ||
	       errno == EOPNOTSUPP;
}

/*
 * The rights are those of the file that is replaced, else of the allocation, as
 * control/save gives them, within the umask. replaced: NULL: none.
 */
static mode_t mode_of(const struct get *get, const struct stat *replaced)
{
	mode_t mask;

	if (!replaced) {
		mask = umask(0);
		umask(mask);
		return get->mode & 0644 & ~mask;
	}
	if (keep_group(get->to, text_string(&get->file), replaced))
		return replaced->st_mode & 0777;
	return replaced->st_mode & 0707;
}

/* Makes the new file. Until it has its mode, only the user may open it. */
static int open_temporary(struct get *get, const struct stat *replaced)
{
	const char *file = text_string(&get->file), *slash = strrchr(file, '/');

	text_printf(&get->temporary, "%.*s.%s.XXXXXX",
		    slash ? (int)(slash + 1 - file) : 0, file, slash ? slash + 1 : file);
	get->to = mkostemp(get->temporary.data, O_CLOEXEC);
	if (get->to >= 0 && fchmod(get->to, mode_of(get, replaced)) == 0)
		return STATUS_DONE;
	int status = refused("%s: %m", file);
	if (get->to >= 0)
		unlink(text_string(&get->temporary));
	text_clear(&get->temporary);
	return status;
}

/* The file that is there is replaced where it is, also behind symbolic links. */
static int follow_links(struct get *get)
{
	_cleanup_free_ char *path = NULL;
	const char *file = text_string(&get->file);
	struct stat st, leads_to;

	if (lstat(file, &st) || !S_ISLNK(st.st_mode))
		return STATUS_DONE;
	if (stat(file, &leads_to))
		return errno == ENOENT ? refused("%s: a symbolic link to a file that is "
						 "not there",
						 file)
				       : refused("%s: %m", file);
	/* /dev/stdout may lead to a pipe, without a path */
	if (!S_ISREG(leads_to.st_mode))
		return STATUS_DONE;
	path = realpath(file, NULL);
	if (!path)
		return refused("%s: %m", file);
	text_clear(&get->file);
	text_printf(&get->file, "%s", path);
	return STATUS_DONE;
}

static int open_file(struct get *get)
{
	const char *file = text_string(&get->file);
	struct stat st;

	if (!strcmp(file, "-")) {
		get->to = dup(STDOUT_FILENO);
		return get->to < 0 ? refused("stdout: %m") : STATUS_DONE;
	}
	if (stat(file, &st))
		return open_temporary(get, NULL);
	if (S_ISREG(st.st_mode))
		return open_temporary(get, &st);
	/* a device or a FIFO is not replaced */
	get->to = open(file, O_WRONLY | O_CLOEXEC);
	return get->to < 0 ? refused("%s: %m", file) : STATUS_DONE;
}

static int get_run(struct get *get)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	const char *file = text_string(&get->file);
	const struct transfer transfer = { get->name, get->from, get->to,
					   get->size, get->name, file };
	int r = 0;

	if (get->header.length) {
		r = safetensors_write(get->to, &get->header);
		if (r && r != -EINTR)
			text_printf(&why, "%s: %s", file, strerror(-r));
	}
	r = r ?: transfer_run(&transfer, &why);
	/* a full disk may be told only here */
	if (close(take_fd(&get->to)) && !r) {
		r = -errno;
		text_printf(&why, "%s: %m", file);
	}
	if (!r && get->temporary.length && rename(text_string(&get->temporary), file)) {
		r = -errno;
		text_printf(&why, "%s: %m", file);
	}
	if (!r)
		return STATUS_DONE;
	if (get->temporary.length)
		unlink(text_string(&get->temporary));
	stop_end();
	return refused("%s", text_string(&why));
}

int command_get(const struct call *call)
{
	_cleanup_(get_deinit) struct get get = { .from = -1, .to = -1 };
	_cleanup_mount_ struct mount mount = MOUNT_CLOSED;
	int status = get_operands(&get, call) ?: mount_open(&mount);

	if (status)
		return status;
	stop_catch();
	status = open_source(&get, &mount, call->values[OPTION_PLAIN]);
	if (status)
		return status;
	if (call->values[OPTION_DRY_RUN])
		return get_print(&get, &mount);
	return follow_links(&get) ?: open_file(&get) ?: get_run(&get);
}
