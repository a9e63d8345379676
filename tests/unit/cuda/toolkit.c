/* SPDX-License-Identifier: MIT */
/*
 * What gpumem declares of the driver (gpumem/cuda.h, gpumem/driver.h, bpf/calls.h),
 * compared with a toolkit's headers. Numbers are compared when the test runs. Types are
 * compared when this file is compiled: here they are the toolkit's.
 */
#include "declared.h"

#include <criterion/criterion.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <gpumem/driver.h>

#include "calls.h"

/* The signature of each call, and the version that introduced the signature. */
#define SIGNATURE(symbol, version, need, parameters) \
	typedef CUresult(*own_##symbol) parameters;
CUDA_DRIVER_LIST(SIGNATURE)
CUDA_DRIVER_LIST_PROC(SIGNATURE)

#define SAME(own, toolkit)                                         \
	_Static_assert(__builtin_types_compatible_p(own, toolkit), \
		       #own " is not as in the toolkit: " #toolkit);
#define CONSTANT(...)
#define SIZE(...)
#define MEMBER(...)
#define CALLBACK(name, result, parameters) SAME(result(*) parameters, name)
#define CALL(symbol, type)		   SAME(own_##symbol, type)
#include "declared.inc"

/* Every type of the tracer's second column exists. */
typedef void *UNTYPED;
#define TYPE(symbol, type, ...) static type traced_##symbol __attribute__((unused));
TRACE_CALLS(TYPE)

Test(toolkit, constants_and_records_are_the_toolkits)
{
	size_t n = 0;

	for (const struct declared *own = declared_own, *other = declared_toolkit;
	     own->name; own++, other++, n++) {
		cr_assert_str_eq(own->name, other->name);
		cr_expect_eq(own->value, other->value, "%s: %lld, in the toolkit %lld",
			     own->name, own->value, other->value);
		cr_expect_eq(own->size, other->size,
			     "%s: %lld bytes, in the toolkit %lld", own->name, own->size,
			     other->size);
	}
	cr_expect_gt(n, 250, "declared.py found only %zu declarations", n);
}
