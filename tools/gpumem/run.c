/* SPDX-License-Identifier: MIT */
/*
 * run: launches a kernel of a file once, from a module that lives as long as the command.
 */
#include "command.h"
#include "compile.h"
#include "guards.h"
#include "mount.h"
#include "name.h"
#include "stop.h"
#include "verb.h"

#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define REMOVE_TRIES 20 /* of 100 ms */

struct run {
	const struct call *call;
	const char *file;
	struct text fatbin; /* of nvcc; empty: the file is an image */
	char module[32];    /* modules/NAME; empty: not made */
	struct text function;
	struct text output; /* before the launch */
	int first_arg;	    /* of call->args */
	struct mount mount;
	struct guards guards; /* with --check */
};

/* ---- the image ---- */

static int read_word(const struct run *run, struct text *word, const char *file)
{
	int r = mount_read(&run->mount, file, word);

	if (r)
		return refused("%s/%s: %s", run->mount.path, file, strerror(-r));
	if (word->length)
		word->data[strcspn(word->data, "\n")] = '\0';
	return STATUS_DONE;
}

static int check_gpu(const struct run *run)
{
	const char *gpu = run->call->values[OPTION_GPU];
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "devices/%s/status", gpu ?: "0");
	if (faccessat(run->mount.fd, text_string(&path), F_OK, 0))
		return wrong_use("there is no GPU %s", gpu ?: "0");
	return STATUS_DONE;
}

static int compile_source(struct run *run)
{
	const char *gpu = run->call->values[OPTION_GPU] ?: "0", *dot;
	_cleanup_text_ struct text file = TEXT_INIT, capability = TEXT_INIT;

	dot = strrchr(run->file, '.');
	if (!dot || strcmp(dot, ".cu") != 0)
		return STATUS_DONE;
	text_printf(&file, "devices/%s/compute_capability", gpu);
	return read_word(run, &capability, text_string(&file))
		       ?: compile(run->file, text_string(&capability), &run->fatbin);
}

static int open_in(const struct run *run, const char *file, int flags)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "%s/%s", run->module, file);
	return openat(run->mount.fd, text_string(&path), flags | O_CLOEXEC);
}

/* Prints the compiler's messages about the image. */
static void print_log(const struct run *run)
{
	_cleanup_text_ struct text path = TEXT_INIT, log = TEXT_INIT;

	text_printf(&path, "%s/log", run->module);
	if (!mount_read(&run->mount, text_string(&path), &log) && log.length)
		fprintf(stderr, "%s%s", text_string(&log),
			log.data[log.length - 1] == '\n' ? "" : "\n");
}

/* Writes the image; the close loads the module. Returns: 0; -1 and errno. */
static int write_image(const struct run *run, const struct text *image)
{
	_cleanup_close_ int fd = open_in(run, "image", O_WRONLY | O_TRUNC);
	size_t done = 0;

	if (fd < 0)
		return -1;
	while (done < image->length) {
		ssize_t n = write(fd, image->data + done, image->length - done);

		if (n < 0)
			return -1;
		done += (size_t)n;
	}
	return close(take_fd(&fd));
}

static int write_device(const struct run *run, const char *gpu)
{
	_cleanup_close_ int fd = open_in(run, "device", O_WRONLY);

	if (fd < 0 || write(fd, gpu, strlen(gpu)) < 0)
		return refused("GPU %s: %m", gpu);
	return STATUS_DONE;
}

static int load(struct run *run)
{
	const char *image = run->fatbin.length ? text_string(&run->fatbin) : run->file;
	const char *gpu = run->call->values[OPTION_GPU];
	_cleanup_text_ struct text bytes = TEXT_INIT, path = TEXT_INIT, why = TEXT_INIT;
	int r = file_read(AT_FDCWD, image, &bytes), status, error;

	if (r)
		return refused("%s: %s", image, strerror(-r));
	snprintf(run->module, sizeof run->module, "modules/run.%u", name_number());
	if (mkdirat(run->mount.fd, run->module, 0700)) {
		status = refused("%s/%s: %m", run->mount.path, run->module);
		run->module[0] = '\0';
		return status;
	}
	status = gpu ? write_device(run, gpu) : STATUS_DONE;
	if (status)
		return status;
	if (!write_image(run, &bytes))
		return STATUS_DONE;
	error = errno;
	text_printf(&path, "%s/image", run->module);
	mount_why(&run->mount, text_string(&path), error, &why);
	status = refused("%s can't be loaded: %s", run->file, text_string(&why));
	print_log(run);
	return status;
}

/* ---- the function ---- */

/* Whether a kernel has this name, plain or mangled: _Z, the length and the name. */
static bool is_named(const char *function, const char *name)
{
	char *at;

	if (!strcmp(function, name))
		return true;
	if (strncmp(function, "_Z", 2) != 0)
		return false;
	return strtoul(function + 2, &at, 10) == strlen(name) &&
	       !strncmp(at, name, strlen(name));
}

/* Finds the module's kernels of a name, NULL for any: the first kernel, and a list. */
static int find_functions(const struct run *run, const char *name, struct text *first,
			  struct text *list)
{
	int fd = open_in(run, "functions", O_RDONLY | O_DIRECTORY), n = 0;
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.' || (name && !is_named(entry->d_name, name)))
			continue;
		if (n++ == 0)
			text_printf(first, "%s", entry->d_name);
		text_printf(list, "%s%s", list->length ? ", " : "", entry->d_name);
	}
	if (folder)
		closedir(folder);
	return n;
}

/* Whether a word is an argument of a launch rather than the name of a function. */
static bool is_argument(const struct run *run, const char *word)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	text_printf(&path, "allocations/%.*s", (int)strcspn(word, "+"), word);
	return strpbrk(word, ":=") ||
	       !faccessat(run->mount.fd, text_string(&path), F_OK, 0);
}

/* [FUNCTION] ARG...: the first word is the function if a kernel has this name, or if the
 * word can't be an argument. */
static int choose_function(struct run *run)
{
	_cleanup_text_ struct text all = TEXT_INIT, these = TEXT_INIT, first = TEXT_INIT;
	const char *word = run->call->n_args > 1 ? run->call->args[1] : NULL;
	int n_all = find_functions(run, NULL, &first, &all);
	int n = word ? find_functions(run, word, &run->function, &these) : 0;

	run->first_arg = n ? 2 : 1;
	if (n == 1)
		return STATUS_DONE;
	if (n > 1)
		return refused("'%s' is the name of several kernels of %s: %s", word,
			       run->file, text_string(&these));
	if (word && !is_argument(run, word))
		return refused("%s has no kernel '%s': it has %s", run->file, word,
			       n_all ? text_string(&all) : "none");
	if (n_all != 1)
		return refused("%s has %s: name one", run->file,
			       n_all ? text_string(&all) : "no kernel");
	text_printf(&run->function, "%s", text_string(&first));
	return STATUS_DONE;
}

/* ---- the launch ---- */

static int read_output(const struct run *run, struct text *output)
{
	_cleanup_text_ struct text path = TEXT_INIT, owner = TEXT_INIT;

	text_printf(&path, "%s/owner", run->module);
	int status = read_word(run, &owner, text_string(&path));
	if (status)
		return status;
	text_clear(&path);
	text_printf(&path, "owners/%s/output", text_string(&owner));
	/* an owner without a worker until now has printed nothing */
	(void)mount_read(&run->mount, text_string(&path), output);
	return STATUS_DONE;
}

/* Prints new output. The file keeps only the last 64 KiB, so older bytes may be lost. */
static void print_output(const struct run *run)
{
	_cleanup_text_ struct text now = TEXT_INIT;
	const struct text *before = &run->output;
	size_t kept = before->length;

	if (read_output(run, &now))
		return;
	while (kept > now.length || (kept && memcmp(before->data + before->length - kept,
						    now.data, kept) != 0))
		kept--;
	if (now.length > kept)
		fwrite(now.data + kept, 1, now.length - kept, stdout);
	fflush(stdout);
}

static const char *answer_word(const struct text *answer, const char *key)
{
	const char *at = strstr(text_string(answer), key);

	return at ? at + strlen(key) : NULL;
}

static void print_time(const struct run *run, const struct text *answer)
{
	const char *elapsed = answer_word(answer, "elapsed_ns ");
	const char *name =
		run->first_arg == 2 ? run->call->args[1] : text_string(&run->function);
	const char *grid = answer_word(answer, "grid "),
		   *block = answer_word(answer, "block ");

	if (elapsed && grid && block)
		fprintf(stderr, "%s: %.3f ms, grid %.*s, block %.*s\n", name,
			strtod(elapsed, NULL) / 1e6, (int)strcspn(grid, "\n"), grid,
			(int)strcspn(block, "\n"), block);
}

/* The line of the launch. */
static int launch_line(struct run *run, struct text *line)
{
	const struct call *call = run->call;
	char **words = call->args + run->first_arg;
	int n = call->n_args - run->first_arg;

	if (!call->values[OPTION_CHECK])
		return line_join(line, words, n);
	run->guards = (struct guards){
		.mount = &run->mount,
		.gpu = call->values[OPTION_GPU] ?: "0",
	};
	return guards_make(&run->guards, words, n, line);
}

static int launch_refused(const struct run *run)
{
	_cleanup_text_ struct text sentence = TEXT_INIT;

	guards_explain(&run->guards, gpumem_error(), &sentence);
	return refused("%s", text_string(&sentence));
}

static int launch(struct run *run)
{
	_cleanup_text_ struct text file = TEXT_INIT, line = TEXT_INIT, answer = TEXT_INIT;
	int status, r;

	status = launch_line(run, &line) ?: read_output(run, &run->output);
	if (status)
		return status;
	text_printf(&file, "%s/functions/%s/launch", run->module,
		    text_string(&run->function));
	r = mount_line(&run->mount, text_string(&file), text_string(&line), &answer);
	print_output(run);
	if (stop_asked())
		return STATUS_REFUSED;
	if (r)
		return launch_refused(run);
	status = guards_copy_back(&run->guards);
	if (!status)
		print_time(run, &answer);
	return status;
}

/* ---- the whole ---- */

/* After ^C the kernel may run on, and the module of a running kernel can't be removed. */
static void run_deinit(struct run *run)
{
	const struct timespec wait = { .tv_nsec = 100000000 };
	int tries = 0;

	compile_remove(&run->fatbin);
	while (run->module[0] && unlinkat(run->mount.fd, run->module, AT_REMOVEDIR) &&
	       errno == EBUSY && tries++ < REMOVE_TRIES)
		nanosleep(&wait, NULL);
	if (tries > REMOVE_TRIES)
		fprintf(stderr,
			"gpumem: the kernel runs on; `echo 1 >%s/owners/%u/reset` ends "
			"all of your kernels, and `rmdir %s/%s` then removes its "
			"module\n",
			run->mount.path, geteuid(), run->mount.path, run->module);
	text_deinit(&run->fatbin);
	text_deinit(&run->function);
	text_deinit(&run->output);
	guards_deinit(&run->guards);
	mount_close(&run->mount);
}

static int check_words(const struct call *call)
{
	const char *gpu = call->values[OPTION_GPU];
	uint64_t number;

	if (gpu && number_parse(gpu, &number))
		return wrong_use("'%s' is not the number of a GPU", gpu);
	if (call->n_args == 0)
		return wrong_use("run needs a KERNEL: gpumem run KERNEL.cu|.ptx|.cubin "
				 "[FUNCTION] ARG...");
	for (int i = 1; i < call->n_args; i++)
		if (!strcmp(call->args[i], "wait=0"))
			return wrong_use("run waits for the kernel: leave wait=0 out");
	return STATUS_DONE;
}

int command_run(const struct call *call)
{
	struct run run = { .call = call, .mount = MOUNT_CLOSED };
	int status = check_words(call) ?: mount_open(&run.mount);

	if (status)
		return status;
	run.file = call->args[0];
	stop_catch();
	status = check_gpu(&run) ?: compile_source(&run) ?: load(&run) ?: choose_function(&run) ?:
		 launch(&run);
	run_deinit(&run);
	stop_end();
	return status;
}
