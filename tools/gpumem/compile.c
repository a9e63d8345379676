/* SPDX-License-Identifier: MIT */
#include "compile.h"

#include "command.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define FATBIN "/kernel.fatbin"

extern char **environ;

static bool is_program(struct text *path, const char *folder, int length,
		       const char *below)
{
	text_clear(path);
	text_printf(path, "%.*s%s/nvcc", length, folder, below);
	return length && !access(text_string(path), X_OK);
}

bool nvcc_find(struct text *path)
{
	const char *home = getenv("CUDA_HOME") ?: "";

	for (const char *folder = getenv("PATH") ?: ""; *folder;) {
		int length = (int)strcspn(folder, ":");

		if (is_program(path, folder, length, ""))
			return true;
		folder += length;
		folder += *folder == ':';
	}
	return is_program(path, home, (int)strlen(home), "/bin") ||
	       is_program(path, "/usr/local/cuda", 15, "/bin");
}

static int nvcc_run(const char *nvcc, const char *source, const char *capability,
		    const char *fatbin)
{
	_cleanup_text_ struct text code = TEXT_INIT;
	unsigned int major = 0, minor = 0;
	int error, status;
	pid_t child;

	if (sscanf(capability, "%u.%u", &major, &minor) != 2)
		return refused("the GPU's compute_capability '%s' is not MAJOR.MINOR",
			       capability);
	/* machine code for this GPU, and PTX for a driver that has none */
	text_printf(&code, "arch=compute_%u%u,code=[sm_%u%u,compute_%u%u]", major, minor,
		    major, minor, major, minor);
	const char *argv[] = { nvcc,	    "-fatbin",	"--no-compress",
			       "-lineinfo", "-gencode", text_string(&code),
			       "-o",	    fatbin,	source,
			       NULL };

	error = posix_spawn(&child, nvcc, NULL, NULL, (char **)argv, environ);
	if (error)
		return refused("%s: %s", nvcc, strerror(error));
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return refused("%s: %m", nvcc);
	if (status)
		return refused("nvcc could not compile %s", source);
	return STATUS_DONE;
}

int compile(const char *source, const char *capability, struct text *fatbin)
{
	_cleanup_text_ struct text nvcc = TEXT_INIT, path = TEXT_INIT;
	const char *folder = getenv("TMPDIR");

	if (!nvcc_find(&nvcc))
		return refused("%s: nvcc compiles a .cu, and it is not in PATH, "
			       "$CUDA_HOME/bin or /usr/local/cuda/bin",
			       source);
	text_printf(fatbin, "%s/gpumem.XXXXXX", folder && *folder ? folder : "/tmp");
	if (!mkdtemp(fatbin->data)) {
		int status = refused("%s: %m", text_string(fatbin));

		text_clear(fatbin);
		return status;
	}
	text_printf(fatbin, FATBIN);
	/* nvcc knows no -- in front of a name */
	text_printf(&path, "%s%s", *source == '-' ? "./" : "", source);
	return nvcc_run(text_string(&nvcc), text_string(&path), capability,
			text_string(fatbin));
}

void compile_remove(const struct text *fatbin)
{
	_cleanup_text_ struct text folder = TEXT_INIT;

	if (!fatbin->length)
		return;
	unlink(text_string(fatbin));
	text_add(&folder, fatbin->data, fatbin->length - strlen(FATBIN));
	rmdir(text_string(&folder));
}
