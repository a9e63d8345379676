/* SPDX-License-Identifier: MIT */
/*
 * The decoder, from raw records; and the table of calls itself.
 */
#include "decode.h"
#include "function.h"
#include "user.h"

#include <criterion/criterion.h>
#include <gpumem/cuda.h>
#include <gpumem/driver.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {
#define NAME(symbol, type, ...) #type,
	TRACE_CALLS(NAME)
#undef NAME
};

/* The offsets that trace.bpf.c reads in the arguments' structs. */
_Static_assert(offsetof(CUlaunchConfig, hStream) == 32, "CONFIG_STREAM in trace.bpf.c");
_Static_assert(offsetof(CUlaunchConfig, sharedMemBytes) == 24, "CONFIG_NUMBERS");
_Static_assert(offsetof(CUDA_MEMCPY3D, Depth) ==
		       offsetof(CUDA_MEMCPY3D, WidthInBytes) + 16,
	       "extents stand in a row");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "read_access()");
_Static_assert(sizeof(CUmemLocation) == 8, "by value in one register");

static void setup(void)
{
	cr_assert(calls_init() == 0);
}

TestSuite(decode, .init = setup);

/* The fields as the lines show them. */
static const char *shown(const struct record *record)
{
	static char text[4096];
	struct field fields[FIELDS_MAX];
	size_t n = decode_fields(record, NULL, fields), length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		length += (size_t)snprintf(text + length, sizeof text - length, "%s%s=%s",
					   i ? " " : "", fields[i].name, fields[i].value);
	return text;
}

Test(decode, each_row_has_parameters_that_fit_its_operation)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		const struct call *call = &calls_table[i];
		const struct call_info *info = &call->info;
		bool books = call->op == OP_ALLOC || call->op == OP_CREATE ||
			     call->op == OP_IMPORT;

		cr_expect(call->n_params > 0, "%s", call->symbol);
		if (books)
			cr_expect(info->out[0] == 0, "%s: *out is first", call->symbol);
		if (books || call->op == OP_REGISTER)
			cr_expect(call->memory != MEMORY_NONE &&
					  (info->size != ARG_NONE ||
					   call->memory == MEMORY_IMPORTED),
				  "%s: a kind and a size", call->symbol);
		if (call->op == OP_COPY_STRUCT)
			cr_expect(info->n_extents >= 2 && info->extents, "%s",
				  call->symbol);
		cr_expect(info->n_args <= ARGS_MAX, "%s", call->symbol);
	}
}

/* PFN_cuMemAlloc_v3020 is of cuMemAlloc_v2, PFN_cuMemcpy_v7000_ptds of cuMemcpy_ptds. */
Test(decode, each_rows_type_is_that_of_its_symbol)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		const char *type = type_names[i], *symbol = calls_table[i].symbol;

		if (!strcmp(type, "UNTYPED"))
			continue;
		char name[64] = "";
		cr_expect_eq(sscanf(type, "PFN_%63[^_]", name), 1, "%s", type);
		size_t length = strlen(name);
		cr_expect(!strncmp(name, symbol, length) &&
				  (symbol[length] == '\0' || symbol[length] == '_'),
			  "%s %s", symbol, type);
		cr_expect(!strstr(symbol, "_ptsz") == !strstr(type, "_ptsz") &&
				  !strstr(symbol, "_ptds") == !strstr(type, "_ptds"),
			  "%s %s", symbol, type);
	}
}

static const char *type_of(const char *symbol)
{
	for (size_t i = 0; i < N_CALLS; i++)
		if (!strcmp(calls_table[i].symbol, symbol))
			return type_names[i];
	return NULL;
}

static bool is_untraced(const char *symbol)
{
	static const char *const names[] = {
#define UNTRACED(name) #name,
		TRACE_UNTRACED(UNTRACED)
#undef UNTRACED
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i], symbol))
			return true;
	return false;
}

/* Every driver call of the broker is traced in its version, or listed as untraced. */
Test(decode, the_drivers_list_and_the_tracers_go_together)
{
	static const struct {
		const char *symbol;
		int version;
	} rows[] = {
#define DRIVER(name, version, ...) { #name, version },
		CUDA_DRIVER_LIST(DRIVER)
#undef DRIVER
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *type = type_of(rows[i].symbol);

		cr_expect(!type != !is_untraced(rows[i].symbol),
			  "%s of gpumem/driver.h belongs in TRACE_CALLS or in "
			  "TRACE_UNTRACED of bpf/calls.h",
			  rows[i].symbol);
		if (type)
			cr_expect_eq(atoi((strrchr(type, 'v') ?: "v0") + 1),
				     rows[i].version, "%s", rows[i].symbol);
	}
}

Test(decode, an_allocation_and_its_failure)
{
	struct record record = {
		.call = CALL_cuMemAlloc_v2,
		.args = { 0x7fff0000, 4096 },
		.out = { 0x7f0000001000 },
		.bytes = 4096,
		.held = 8192,
		.memory = MEMORY_DEVICE,
		.flags = RECORD_BOOKED,
	};

	cr_expect_str_eq(shown(&record),
			 "dptr=0x7f0000001000 bytesize=4096 kind=device held=8192");
	record.result = 2;
	record.flags = 0;
	cr_expect_str_eq(shown(&record), "bytesize=4096");
}

Test(decode, what_stands_above_a_32_bit_argument_is_not_shown)
{
	struct record record = {
		.call = CALL_cuMemHostAlloc,
		.args = { 0, 64, 0xdeadbeef00000002 },
		.out = { 0x10 },
	};

	cr_expect_str_eq(shown(&record), "pp=0x10 bytesize=64 Flags=0x2");
}

Test(decode, locations)
{
	static const struct {
		uint64_t value;
		const char *text;
	} rows[] = {
		{ 0x0000000000000001, "device:0" },
		{ 0x0000000700000001, "device:7" },
		{ 0x0000000000000002, "cpu" },
		{ 0x0000000300000003, "numa:3" },
		{ 0x0000000000000004, "numa:current" },
		{ 0xffffffff00000009, "9:-1" },
	};
	char text[32];

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		decode_location(rows[i].value, text, sizeof text);
		cr_expect_str_eq(text, rows[i].text);
	}
}

Test(decode, advice_by_name_and_by_number)
{
	char text[32];

	decode_advice(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, text, sizeof text);
	cr_expect_str_eq(text, "set_preferred_location");
	decode_advice(99, text, sizeof text);
	cr_expect_str_eq(text, "99");
}

Test(decode, a_free_of_what_was_not_seen)
{
	struct record record = {
		.call = CALL_cuMemFree_v2,
		.args = { 0x1000 },
		.flags = RECORD_UNKNOWN,
	};

	cr_expect_str_eq(shown(&record), "dptr=0x1000 kind=unknown");
}

Test(decode, names_of_functions_go_with_their_process)
{
	struct traced_users users = { 0 };
	struct functions *functions = functions_new(&users);
	struct record_text get = {
		.record = { .type = RECORD_TEXT,
			    .call = CALL_cuLibraryGetKernel,
			    .process = 1,
			    .out = { 0x77 } },
		.text = "saxpy",
	};
	struct record same = {
		.call = CALL_cuKernelGetFunction,
		.process = 1,
		.out = { 0x88 },
		.args = { 0, 0x77 },
	};

	functions_learn(functions, &get.record);
	functions_learn(functions, &same);
	cr_expect_str_eq(function_name(functions, 1, 0x77), "saxpy");
	cr_expect_str_eq(function_name(functions, 1, 0x88), "saxpy");
	cr_expect_null(function_name(functions, 2, 0x77));
	functions_forget(functions, 1);
	cr_expect_null(function_name(functions, 1, 0x77));
	functions_free(functions);
	users_deinit(&users);
}
