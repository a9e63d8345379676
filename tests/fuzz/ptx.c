/* SPDX-License-Identifier: MIT */
/*
 * PTX text is refused with a line and a sentence, or makes a module with a list of
 * kernels. Kernels do not run here: an endless kernel is no fault of the parser.
 */
#include <ptx.h>

#include <errno.h>
#include <string.h>

#include "fuzz.h"

#define SIZE_MAX_PLACED (1u << 20)

static const struct ptx_target target = { 90, 90 };

static void check_kernel(const struct ptx_kernel *kernel)
{
	uint32_t end = 0;

	must(kernel->name && kernel->name[0]);
	must(kernel->n_registers <= 255);
	for (size_t i = 0; i < kernel->n_params; i++) {
		const struct ptx_param *param = &kernel->params[i];

		must(param->offset >= end);
		must(param->size <= kernel->params_size &&
		     param->offset <= kernel->params_size - param->size);
		end = param->offset + param->size;
	}
}

static void place(struct ptx_module *module)
{
	const uint64_t size = ptx_module_size(module);
	_cleanup_free_ void *memory = NULL;

	if (!size || size > SIZE_MAX_PLACED)
		return;
	memory = aligned_alloc(256, align_up(size, 256));
	must(memory);
	must(ptx_module_place(module, (uintptr_t)memory) == 0);
}

int fuzz(const uint8_t *bytes, size_t size)
{
	_cleanup_text_ struct text log = TEXT_INIT;
	struct ptx_module *module = NULL;
	const int r = ptx_module_new((const char *)bytes, size, &target, &module, &log);

	if (r < 0) {
		must(r == -EINVAL || r == -ENOTSUP || r == -ENOEXEC);
		must(strncmp(text_string(&log), "line ", 5) == 0);
		must(!module);
		return 0;
	}
	for (size_t i = 0;; i++) {
		const struct ptx_function *kernel = ptx_module_kernel(module, i);

		if (!kernel)
			break;
		check_kernel(ptx_kernel_of(kernel));
	}
	place(module);
	ptx_module_free(module);
	return 0;
}
