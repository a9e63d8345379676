/* SPDX-License-Identifier: MIT */
/* Copies and fills. */
#include "conform.h"

#include <string.h>

SUITE(copy);
SUITE(fill);

#define WORDS ((size_t)4096)
#define BYTES (WORDS * sizeof(uint32_t))

static CUdeviceptr memory_new(size_t size)
{
	CUdeviceptr at;

	OK(cuMemAlloc_v2, &at, size);
	return at;
}

static CUdeviceptr address_of(const void *at)
{
	return (CUdeviceptr)(uintptr_t)at;
}

static CUstream stream_new(void)
{
	CUstream stream;

	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	return stream;
}

static void words_fill(uint32_t *words, uint32_t first)
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = first + (uint32_t)i;
}

Test(copy, goes_to_the_device_and_back)
{
	CUdeviceptr at;

	conform_context();
	at = memory_new(BYTES);
	words_write(at, 100, WORDS);
	cr_assert(words_match(at, 100, WORDS));
}

Test(copy, between_device_memory_moves_the_bytes)
{
	CUdeviceptr from, to;

	conform_context();
	from = memory_new(BYTES);
	to = memory_new(BYTES);
	words_write(from, 5, WORDS);
	OK(cuMemcpyDtoD_v2, to, from, BYTES);
	cr_assert(words_match(to, 5, WORDS));
	OK(cuMemsetD8_v2, to, 0, BYTES);
	OK(cuMemcpy, to, from, BYTES);
	cr_assert(words_match(to, 5, WORDS));
}

Test(copy, finds_the_direction_in_the_addresses)
{
	uint32_t words[WORDS], back[WORDS] = { 0 };
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	at = memory_new(BYTES);
	words_fill(words, 77);
	OK(cuMemcpy, at, address_of(words), BYTES);
	OK(cuMemcpy, address_of(back), at, BYTES);
	cr_assert_eq(memcmp(words, back, BYTES), 0);

	memset(back, 0, BYTES);
	OK(cuMemcpyAsync, at, address_of(words), BYTES, stream);
	OK(cuMemcpyAsync, address_of(back), at, BYTES, stream);
	OK(cuStreamSynchronize, stream);
	cr_assert_eq(memcmp(words, back, BYTES), 0);
}

Test(copy, of_odd_sizes_and_offsets_touches_nothing_else)
{
	unsigned char bytes[64], back[64];
	CUdeviceptr at;

	conform_context();
	at = memory_new(64);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i + 1);
	OK(cuMemsetD8_v2, at, 0xee, 64);
	OK(cuMemcpyHtoD_v2, at + 3, bytes, 7);
	OK(cuMemcpyDtoH_v2, back, at, 64);
	for (size_t i = 0; i < sizeof(back); i++)
		cr_assert_eq(back[i], i >= 3 && i < 10 ? i - 2 : 0xee);
}

Test(copy, on_a_stream_is_in_its_order)
{
	uint32_t *from, *to;
	CUdeviceptr a, b;
	CUstream stream;

	conform_context();
	stream = stream_new();
	a = memory_new(BYTES);
	b = memory_new(BYTES);
	OK(cuMemHostAlloc, (void **)&from, BYTES, 0);
	OK(cuMemHostAlloc, (void **)&to, BYTES, 0);
	words_fill(from, 9);
	OK(cuMemcpyHtoDAsync_v2, a, from, BYTES, stream);
	OK(cuMemcpyDtoDAsync_v2, b, a, BYTES, stream);
	OK(cuMemcpyDtoHAsync_v2, to, b, BYTES, stream);
	OK(cuStreamSynchronize, stream);
	cr_assert_eq(memcmp(from, to, BYTES), 0);
}

Test(copy, from_pageable_memory_has_read_it_when_the_call_returns)
{
	uint32_t words[1024];
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	at = memory_new(sizeof(words));
	for (uint32_t i = 0; i < 1024; i++)
		words[i] = i;
	OK(cuMemcpyHtoDAsync_v2, at, words, sizeof(words), stream);
	memset(words, 0xff, sizeof(words));
	OK(cuStreamSynchronize, stream);
	cr_assert(words_match(at, 0, 1024));
}

Test(copy, of_nothing_succeeds)
{
	char byte = 0;

	conform_context();
	OK(cuMemcpyHtoD_v2, memory_new(1), &byte, 0);
}

Test(copy, past_the_end_is_refused)
{
	CUdeviceptr at;
	char *bytes;

	conform_context();
	at = memory_new(4 * MIB);
	bytes = calloc(1, 8 * MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2, at, bytes, 4 * MIB + 1);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2, bytes, at + 1, 4 * MIB);
	OK(cuMemcpyHtoD_v2, at, bytes, 4 * MIB);
	free(bytes);
}

Test(copy, to_no_memory_is_refused_and_nothing_breaks)
{
	char bytes[64] = { 0 };
	CUdeviceptr at;

	conform_context();
	at = memory_new(64);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2, 0x123456000, bytes, 64);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2, bytes, 0x123456000, 64);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2, at, 0x123456000, 64);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2, 0, bytes, 64);
	OK(cuMemcpyHtoD_v2, at, bytes, 64);
}

Test(copy, to_freed_memory_is_refused)
{
	char bytes[64] = { 0 };
	CUdeviceptr at;

	conform_context();
	at = memory_new(8 * MIB);
	OK(cuMemFree_v2, at);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2, at, bytes, 64);
}

Test(copy, crosses_devices)
{
	CUcontext contexts[2];
	CUdeviceptr from, to;
	CUstream stream;

	contexts[0] = conform_context();
	conform_need_devices(2);
	OK(cuDevicePrimaryCtxRetain, &contexts[1], 1);
	from = memory_new(BYTES);
	words_write(from, 31, WORDS);
	OK(cuCtxSetCurrent, contexts[1]);
	to = memory_new(BYTES);
	OK(cuMemcpyPeer, to, contexts[1], from, contexts[0], BYTES);
	cr_assert(words_match(to, 31, WORDS));

	stream = stream_new();
	OK(cuMemsetD8_v2, to, 0, BYTES);
	OK(cuCtxSynchronize);
	OK(cuMemcpyPeerAsync, to, contexts[1], from, contexts[0], BYTES, stream);
	OK(cuStreamSynchronize, stream);
	cr_assert(words_match(to, 31, WORDS));
}

/* Where each element of a fill is looked at: a width in bytes and a value. */
static void fill_check(CUdeviceptr at, size_t unit, uint32_t value, size_t n)
{
	unsigned char bytes[256];

	OK(cuCtxSynchronize);
	MUST(unit * (n + 1) <= sizeof(bytes));
	OK(cuMemcpyDtoH_v2, bytes, at, unit * (n + 1));
	for (size_t i = 0; i < n; i++)
		MUST(!memcmp(bytes + i * unit, &value, unit));
	MUST(memcmp(bytes + n * unit, &value, unit) != 0);
}

Test(fill, writes_elements_of_each_size)
{
	CUdeviceptr at;

	conform_context();
	at = memory_new(256);
	OK(cuMemsetD8_v2, at, 0x12, 11);
	fill_check(at, 1, 0x12, 11);
	OK(cuMemsetD16_v2, at, 0x1234, 11);
	fill_check(at, 2, 0x1234, 11);
	OK(cuMemsetD32_v2, at, 0x12345678, 11);
	fill_check(at, 4, 0x12345678, 11);
}

Test(fill, on_a_stream_writes_elements_of_each_size)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	at = memory_new(256);
	OK(cuMemsetD8Async, at, 0x12, 11, stream);
	fill_check(at, 1, 0x12, 11);
	OK(cuMemsetD16Async, at, 0x1234, 11, stream);
	fill_check(at, 2, 0x1234, 11);
	OK(cuMemsetD32Async, at, 0x12345678, 11, stream);
	fill_check(at, 4, 0x12345678, 11);
}

/* Three rows of two elements in a pitch of 16 bytes, the rest left alone. */
static void rows_check(CUdeviceptr at, size_t unit, uint32_t value)
{
	unsigned char bytes[48], expected[48] = { 0 };

	for (size_t row = 0; row < 3; row++)
		for (size_t i = 0; i < 2; i++)
			memcpy(expected + row * 16 + i * unit, &value, unit);
	OK(cuCtxSynchronize);
	OK(cuMemcpyDtoH_v2, bytes, at, sizeof(bytes));
	MUST(!memcmp(bytes, expected, sizeof(bytes)));
	OK(cuMemsetD8_v2, at, 0, sizeof(bytes));
	OK(cuCtxSynchronize);
}

Test(fill, in_rows_leaves_what_is_between)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	at = memory_new(48);
	OK(cuMemsetD8_v2, at, 0, 48);
	OK(cuMemsetD2D8_v2, at, 16, 0x12, 2, 3);
	rows_check(at, 1, 0x12);
	OK(cuMemsetD2D16_v2, at, 16, 0x1234, 2, 3);
	rows_check(at, 2, 0x1234);
	OK(cuMemsetD2D32_v2, at, 16, 0x12345678, 2, 3);
	rows_check(at, 4, 0x12345678);
	OK(cuMemsetD2D8Async, at, 16, 0x12, 2, 3, stream);
	rows_check(at, 1, 0x12);
	OK(cuMemsetD2D16Async, at, 16, 0x1234, 2, 3, stream);
	rows_check(at, 2, 0x1234);
	OK(cuMemsetD2D32Async, at, 16, 0x12345678, 2, 3, stream);
	rows_check(at, 4, 0x12345678);
}

Test(fill, of_64_bit_values_is_two_in_rows)
{
	const uint64_t value = 0x0123456789abcdef;
	uint64_t back[1000];
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	at = memory_new(sizeof(back));
	OK(cuMemsetD2D32Async, at, 8, (unsigned int)value, 1, 1000, stream);
	OK(cuMemsetD2D32Async, at + 4, 8, (unsigned int)(value >> 32), 1, 1000, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuMemcpyDtoH_v2, back, at, sizeof(back));
	for (size_t i = 0; i < ARRAY_SIZE(back); i++)
		cr_assert_eq(back[i], value);
}

Test(fill, at_an_odd_address_is_refused)
{
	CUdeviceptr at;

	conform_context();
	at = memory_new(256);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD16_v2, at + 1, 0, 4);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2, at + 2, 0, 4);
	OK(cuMemsetD8_v2, at + 1, 0, 4);
}

Test(fill, past_the_end_is_refused)
{
	CUdeviceptr at;

	conform_context();
	at = memory_new(4 * MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2, at, 0, 4 * MIB + 1);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2, at + 4, 0, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2, 0x123456000, 0, 64);
}

Test(fill, of_nothing_succeeds)
{
	conform_context();
	OK(cuMemsetD8_v2, memory_new(1), 0, 0);
}
