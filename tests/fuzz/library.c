/* SPDX-License-Identifier: MIT */
/*
 * A file called libcuda.so, as any user's process may have mapped: gpumem-trace reads the
 * symbols with root's rights. Each call that is found begins within the file.
 */
#include "library.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

/* EINVAL: the file says where to read, and the place is negative. */
static bool is_refusal(int error)
{
	return error == -ENOEXEC || error == -EFBIG || error == -ENODATA ||
	       error == -EINVAL;
}

static void check(const struct library *library)
{
	const int error = library_check(library);

	must(error == 0 || is_refusal(error));
	for (size_t i = 0; i < N_CALLS; i++) {
		const struct symbol *symbol = &library->symbols[i];

		if (symbol->state != SYMBOL_SAME)
			continue;
		must(symbol->same < i);
		must(library->symbols[symbol->same].state == SYMBOL_FOUND);
		must(library->symbols[symbol->same].offset == symbol->offset);
	}
}

int fuzz(const uint8_t *bytes, size_t size)
{
	const int fd = memfd_create("library", MFD_CLOEXEC);
	struct libraries libraries = { 0 };
	char path[32];
	int error;

	must(fd >= 0);
	must(write(fd, bytes, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	error = libraries_add(&libraries, path, "libcuda.so.1");
	must(error == 0 || is_refusal(error));
	must(libraries_usable(&libraries) == !error);
	if (!error)
		check(&libraries.list[0]);
	libraries_deinit(&libraries);
	close(fd);
	return 0;
}
