/* SPDX-License-Identifier: MIT */
#include "cuda/failure.h"

#include "base/text.h"
#include "cuda/result.h"

void text_add_call(struct text *text, int call, int result)
{
	if (call >= 0)
		text_printf(text, " (%s: %s)", cuda_call_name(call),
			    cuda_result_name(result));
}
