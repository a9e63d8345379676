/* SPDX-License-Identifier: MIT */
/* See corpus.h. */
#include "corpus.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char *file_read(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	char *text;

	if (fd < 0 || fstat(fd, &stat) < 0)
		cr_assert_fail("%s can't be read", path);
	text = calloc(1, (size_t)stat.st_size + 1);
	MUST(text && read(fd, text, (size_t)stat.st_size) == stat.st_size);
	return text;
}

char *corpus_read(const char *name)
{
	const char *directory = getenv("GPUMEM_KERNELS");
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", directory ? directory : ".", name);
	return file_read(path);
}

CUfunction corpus_kernel(const char *file, const char *name)
{
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER,
				   CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	char said[1024] = "";
	void *values[] = { said, (void *)(uintptr_t)sizeof(said) };
	_cleanup_free_ char *text = NULL;
	CUfunction function;
	CUmodule module;
	char path[256];
	CUresult result;

	snprintf(path, sizeof(path), "%s.ptx", file);
	text = corpus_read(path);
	result = driver->fn_cuModuleLoadDataEx(&module, text, 2, options, values);
	cr_assert_eq(result, CUDA_SUCCESS, "%s: %s: %s", path,
		     cuda_result_name((int)result), said);
	OK(cuModuleGetFunction, &function, module, name);
	return function;
}

CUdeviceptr corpus_put(const void *bytes, size_t size)
{
	CUdeviceptr at;

	OK(cuMemAlloc_v2, &at, size);
	if (bytes)
		OK(cuMemcpyHtoD_v2, at, bytes, size);
	else
		OK(cuMemsetD8_v2, at, 0, size);
	OK(cuCtxSynchronize);
	return at;
}

void corpus_get(void *bytes, CUdeviceptr at, size_t size)
{
	OK(cuMemcpyDtoH_v2, bytes, at, size);
}

void corpus_run(CUfunction function, unsigned int grid, unsigned int block, void **params)
{
	OK(cuLaunchKernel, function, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL);
	OK(cuCtxSynchronize);
}

/* xorshift64*: the same numbers everywhere. */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1d;
}

static const uint64_t integers[] = {
	0,
	1,
	2,
	7,
	31,
	32,
	33,
	63,
	64,
	0xff,
	0x7f,
	0x80,
	0x7fff,
	0x8000,
	0xffff,
	0x10000,
	0x7fffffff,
	0x80000000,
	0xffffffff,
	0x100000000,
	INT64_MAX,
	UINT64_MAX - 1,
	(uint64_t)INT64_MIN,
	UINT64_MAX,
	0xffffffff80000000,
	0x8000800080008000,
};

static const uint64_t singles[] = {
	0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
	0x7fc00000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x80800000,
	0x7f7fffff, 0xff7fffff, 0x3f000000, 0x3effffff, 0x40490fdb, 0x4b000000,
	0x4b7fffff, 0x4f000000, 0xcf000000, 0x5f000000, 0x33800000, 0x3f7fffff,
	0x3f800001, 0x00ffffff, 0x7e800000, 0x7f000000, 0x20000000, 0xc0200000,
};

static const uint64_t doubles[] = {
	0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
	0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x0000000000000001,
	0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff,
	0x3fe0000000000000, 0x3fdfffffffffffff, 0x400921fb54442d18, 0x4330000000000000,
	0x43e0000000000000, 0xc3e0000000000000, 0x41e0000000000000, 0x3cb0000000000000,
	0x3fefffffffffffff, 0x3ff0000000000001, 0x36a0000000000000, 0x47efffffe0000000,
	0x3f10000000000000, 0x40effc0000000000,
};

static const uint64_t halves[] = {
	0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x0001,
	0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3800, 0x37ff, 0x4248, 0x6400,
};

static const uint64_t bfloats[] = {
	0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0x0001,
	0x807f, 0x0080, 0x7f7f, 0xff7f, 0x3f00, 0x3eff, 0x4049, 0x4b00,
};

static const struct {
	const uint64_t *values;
	size_t n;
	unsigned int bits;
	const char *name;
} specials[] = {
	[CORPUS_INTEGERS] = { integers, ARRAY_SIZE(integers), 64, "integers" },
	[CORPUS_SINGLES] = { singles, ARRAY_SIZE(singles), 32, "singles" },
	[CORPUS_DOUBLES] = { doubles, ARRAY_SIZE(doubles), 64, "doubles" },
	[CORPUS_HALVES] = { halves, ARRAY_SIZE(halves), 16, "halves" },
	[CORPUS_BFLOATS] = { bfloats, ARRAY_SIZE(bfloats), 16, "bfloats" },
};

/* A random number near 1, where more happens than at either end. */
static uint64_t tame(uint64_t random, enum corpus_kind kind)
{
	switch (kind) {
	case CORPUS_SINGLES:
		return (random & 0x83ffffff) + 0x3e000000;
	case CORPUS_DOUBLES:
		return (random & 0x803fffffffffffff) + 0x3fe0000000000000;
	case CORPUS_HALVES:
		return (random & 0x8fff) + 0x3000;
	case CORPUS_BFLOATS:
		return (random & 0x81ff) + 0x3f00;
	default:
		return random >> (random & 63);
	}
}

static uint64_t number_next(uint64_t *state, enum corpus_kind kind)
{
	const uint64_t which = random_next(state) % 4;
	const uint64_t random = random_next(state);
	const unsigned int bits = specials[kind].bits;
	uint64_t number = random;

	if (which < 2)
		number = specials[kind].values[random % specials[kind].n];
	else if (which == 2)
		number = tame(random, kind);
	return bits == 64 ? number : number & (((uint64_t)1 << bits) - 1);
}

/* Numbers of less than 64 bits fill a word several times, each drawn separately. */
void corpus_fill(uint64_t *in, size_t n, enum corpus_kind kind)
{
	const unsigned int bits = specials[kind].bits;
	uint64_t state = 0x9e3779b97f4a7c15 + (uint64_t)kind;

	for (size_t i = 0; i < n; i++) {
		in[i] = 0;
		for (unsigned int at = 0; at < 64; at += bits)
			in[i] |= number_next(&state, kind) << at;
	}
}

static uint64_t hash(const void *bytes, size_t size)
{
	uint64_t value = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		value = (value ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
	return value;
}

static void note_write(const char *path, const char *name, uint64_t value)
{
	char line[256];
	const int length =
		snprintf(line, sizeof(line), "%s %016" PRIx64 "\n", name, value);
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	MUST(fd >= 0 && write(fd, line, (size_t)length) == length);
}

static void note_compare(const char *path, const char *name, uint64_t value)
{
	_cleanup_free_ char *text = file_read(path);
	char line[256];

	snprintf(line, sizeof(line), "%s ", name);
	for (const char *at = strstr(text, line); at; at = strstr(at + 1, line)) {
		if (at != text && at[-1] != '\n')
			continue;
		cr_assert_eq(strtoull(at + strlen(line), NULL, 16), value,
			     "%s differs from %s: %016" PRIx64, name, path, value);
		return;
	}
	cr_assert_fail("%s has no line for %s", path, name);
}

void corpus_note(const char *name, const void *bytes, size_t size)
{
	const char *to = getenv("GPUMEM_CORPUS_WRITE");
	const char *with = getenv("GPUMEM_CORPUS_COMPARE");

	if (to)
		note_write(to, name, hash(bytes, size));
	if (with)
		note_compare(with, name, hash(bytes, size));
}

/* Prints each output that differs, once, with the first inputs that cause the difference.
 */
static size_t report(const char *name, const uint64_t *in, const uint64_t *got,
		     const uint64_t *expected, size_t n_out)
{
	size_t n_wrong = 0;

	for (size_t k = 0; k < n_out; k++) {
		size_t wrong = 0, first = 0;

		for (size_t i = 0; i < CORPUS_N; i++) {
			if (got[i * n_out + k] == expected[i * n_out + k])
				continue;
			if (!wrong++)
				first = i;
		}
		n_wrong += wrong != 0;
		if (wrong)
			fprintf(stderr,
				"%s: output %zu: %zu of %d differ, first in thread %zu "
				"of "
				"%016" PRIx64 " %016" PRIx64 " %016" PRIx64
				": %016" PRIx64 ", not %016" PRIx64 "\n",
				name, k, wrong, CORPUS_N, first,
				in[CORPUS_INPUTS * first], in[CORPUS_INPUTS * first + 1],
				in[CORPUS_INPUTS * first + 2], got[first * n_out + k],
				expected[first * n_out + k]);
	}
	return n_wrong;
}

void corpus_torture(const char *file, const char *name, enum corpus_kind kind,
		    size_t n_out, corpus_host *host)
{
	const size_t in_size = CORPUS_INPUTS * CORPUS_N * sizeof(uint64_t);
	const size_t out_size = n_out * CORPUS_N * sizeof(uint64_t);
	_cleanup_free_ uint64_t *in = malloc(in_size);
	_cleanup_free_ uint64_t *got = malloc(out_size);
	_cleanup_free_ uint64_t *expected = calloc(1, out_size);
	CUdeviceptr from, to;
	uint32_t n = CORPUS_N;
	char noted[64];

	conform_context();
	corpus_fill(in, CORPUS_INPUTS * CORPUS_N, kind);
	from = corpus_put(in, in_size);
	to = corpus_put(NULL, out_size);
	corpus_run(corpus_kernel(file, name), CORPUS_N / 128, 128,
		   (void *[]){ &from, &to, &n });
	corpus_get(got, to, out_size);
	snprintf(noted, sizeof(noted), "%s-%s", name, specials[kind].name);
	corpus_note(noted, got, out_size);
	for (size_t i = 0; i < CORPUS_N; i++)
		host(in + CORPUS_INPUTS * i, expected + n_out * i);
	cr_assert_eq(report(name, in, got, expected, n_out), 0,
		     "%s: the device and the host differ", name);
}
