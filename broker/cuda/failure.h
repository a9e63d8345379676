/* SPDX-License-Identifier: MIT */
/*
 * A failed driver call, for sentences: the layers above name the call and its result, and
 * need neither the driver nor its headers.
 */
#pragma once

struct text;

/* A failed call and its result, as plain numbers that can be sent over the wire. */
struct cuda_failure {
	int call;   /* enum cuda_call of cuda/driver.h, -1 when no call failed */
	int result; /* CUresult */
};

#define CUDA_FAILURE_NONE \
	{                 \
		-1, 0     \
	}

/* The exported symbol of a row ("cuMemAlloc_v2"); "" for any other number. */
const char *cuda_call_name(int call);

/* Appends ` (CALL: RESULT)` of a failed driver call. */
void text_add_call(struct text *text, int call, int result);
