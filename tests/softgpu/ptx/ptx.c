/* SPDX-License-Identifier: MIT */
/*
 * The PTX parser alone: wrong text is refused with its line, and no text, however broken,
 * does any other harm.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <ptx.h>
#include <stdio.h>
#include <string.h>

#include "../../conform/ptx.h"

static const struct ptx_target target = { 90, 90 };

static int parse(const char *text, size_t length, struct text *log)
{
	struct ptx_module *module = NULL;
	const int r = ptx_module_new(text, length, &target, &module, log);

	ptx_module_free(module);
	return r;
}

/* The body is refused with these words, at the given line after the head. */
static void refused(const char *body, unsigned int line, const char *words)
{
	_cleanup_text_ struct text text = TEXT_INIT, log = TEXT_INIT;
	char place[32];

	text_printf(&text,
		    PTX_HEAD ".visible .entry k(.param .u64 p)\n{\n"
			     ".reg .b32 %%r<4>; .reg .b64 %%rd<4>; .reg .pred %%p<4>;"
			     " .reg .b16 %%h<4>;\n%s\nret;\n}\n",
		    body);
	snprintf(place, sizeof(place), "line %u: ", 6 + line);
	cr_assert_eq(parse(text_string(&text), text.length, &log), -EINVAL, "%s", body);
	cr_assert(!strncmp(text_string(&log), place, strlen(place)), "%s: %s", body,
		  text_string(&log));
	cr_assert(strstr(text_string(&log), words), "%s: %s", body, text_string(&log));
}

Test(ptx, unknown_instructions_are_refused_with_their_line)
{
	refused("mov.u32 %r1, 1;\n\nfrob.u32 %r1, %r2;", 3,
		"unknown instruction 'frob.u32'");
	refused("wmma.load.a.sync.aligned.m16n16k16.row.f16 {%r1}, [%rd1];", 1,
		"unknown");
	refused("add.rn.s32 %r1, %r2, %r3;", 1, "this form");
	refused("add.ftz.f64 %rd1, %rd2, %rd3;", 1, "this form");
	refused("cvt.rzi.u32.f32.u32 %r1, %r2;", 1, "this form");
	refused("setp.lt.u32.u32 %p1, %r1, %r2;", 1, "this form");
	refused("atom.global.min.f32 %r1, [%rd1], %r2;", 1, "this form");
	refused("ld.global.v3.u32 {%r1, %r2, %r3}, [%rd1];", 1, "this form");
}

Test(ptx, misfit_operands_are_refused_with_their_line)
{
	refused("add.u32 %r1, %r2, %rd3;", 1, "'%rd' has 64 bits where 32 are wanted");
	refused("add.u32 %r1, %r2;", 1, "',' expected");
	refused("add.u32 %r1, %r2, %r3, %r3;", 1, "';' expected");
	refused("add.u32 %r9, %r2, %r3;", 1, "'%r9' is no register");
	refused("add.u32 %r1, %r2, nothing;", 1, "'nothing' is not declared");
	refused("@%r1 bra L;", 1, "is a .b32 where a .pred is wanted");
	refused("bra NOWHERE;", 1, "no label 'NOWHERE'");
	refused("L: bra L;\nL: ret;", 2, "declared twice");
	refused("ld.shared.u32 %r1, [p];", 1, "in another space");
	refused("mov.f32 %r1, 1;", 1, "an integer where a .f32 is wanted");
	refused("st.global.u32 [%h1], %r1;", 1, "can't hold an address");
	refused("call nobody, ();", 1, "'nobody' is not declared");
	refused(".reg .b128 %q;", 1, "a type expected");
}

Test(ptx, what_is_only_declared_is_refused_where_it_is_called)
{
	static const char text[] =
		PTX_HEAD ".extern .func nobody();\n"
			 ".visible .entry k()\n{\ncall nobody;\nret;\n}\n";
	_cleanup_text_ struct text log = TEXT_INIT;

	cr_assert_eq(parse(text, strlen(text), &log), -EINVAL);
	cr_assert_str_eq(text_string(&log),
			 "line 7: the function 'nobody' is defined nowhere\n");
}

Test(ptx, other_versions_and_targets_are_told_apart)
{
	static const char newer[] = ".version 9.1\n.target sm_80\n";
	static const char above[] = ".version 9.0\n.target sm_100\n";
	static const char other[] = ".version 9.0\n.target sm_80a\n";
	_cleanup_text_ struct text log = TEXT_INIT;

	cr_assert_eq(parse(newer, strlen(newer), &log), -ENOTSUP);
	cr_assert_eq(parse(above, strlen(above), &log), -ENOEXEC);
	cr_assert_eq(parse(other, strlen(other), &log), -ENOEXEC);
}

Test(ptx, a_version_that_is_no_number_is_refused)
{
	static const char *const versions[] = { "0f7fc00000.0", "0fffffffff",
						"0f7f800000", "0d7ff8000000000000",
						"0fff800000" };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_text_ struct text text = TEXT_INIT, log = TEXT_INIT;

		text_printf(&text, ".version %s\n.target sm_80\n", versions[i]);
		cr_assert_eq(parse(text_string(&text), text.length, &log), -EINVAL, "%s",
			     versions[i]);
		cr_assert_str_eq(text_string(&log), "line 1: a version expected\n");
	}
}

/* Parses n nested blocks. Returns: the parser's result. */
static int parse_nested(size_t n, struct text *log)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, PTX_HEAD ".visible .entry k()\n{\n");
	for (size_t i = 1; i < n; i++)
		text_printf(&text, "{");
	for (size_t i = 1; i < n; i++)
		text_printf(&text, "}");
	text_printf(&text, "\nret;\n}\n");
	return parse(text_string(&text), text.length, log);
}

Test(ptx, blocks_are_nested_no_deeper_than_the_parser_can_follow)
{
	_cleanup_text_ struct text log = TEXT_INIT;

	cr_assert_eq(parse_nested(256, &log), 0, "%s", text_string(&log));
	cr_assert_eq(parse_nested(200000, &log), -EINVAL);
	cr_assert_str_eq(text_string(&log),
			 "line 6: more than 256 blocks, one inside another\n");
}

/* PTX with every construct that the kernels of the corpus lack. */
static const char everything[] = PTX_ALL
	".func (.param .b32 r) f(.param .b32 a, .param .align 8 .b8 b[16]);\n"
	".file 1 \"a.cu\"\n.section .debug { .b8 1, 2 }\n"
	".global .align 8 .u64 addresses[3] = {counter, generic(counter)+4, f};\n"
	".func (.param .b32 r) f(.param .b32 a, .param .align 8 .b8 b[16])\n{\n"
	".reg .b32 %x<3>;\n.loc 1 2 3\nld.param.u32 %x1, [a];\n"
	"{ .reg .b32 %y; mov.u32 %y, %tid.x; add.u32 %x1, %x1, %y; }\n"
	"st.param.b32 [r+0], %x1;\nret;\n}\n"
	".visible .entry g(.param .u64 .ptr .global .align 4 q)\n"
	".reqntid 32, 1, 1 .minnctapersm 2\n{\n"
	".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; .reg .f32 %f<3>;\n"
	".local .align 8 .b8 depot[32]; .shared .f32 s[4];\n"
	"ts: .branchtargets L1, L2;\n"
	"mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;\n"
	"mov.b64 %rd3, {%r1, %r2}; mov.b64 {%r1, _}, %rd3;\n"
	"@!%p1 brx.idx %r1, ts;\nL1: L2:\n"
	"setp.lt.and.s32 %p1|%p2, %r1, -5, !%p2;\n"
	"fma.rn.ftz.sat.f32 %f1, %f2, 0f3F800000, 1.5;\n"
	"{ .param .b32 p0; .param .align 8 .b8 p1[16]; .param .b32 v;\n"
	"st.param.b32 [p0], %r1; call.uni (v), f, (p0, p1); ld.param.b32 %r1, [v]; }\n"
	"/* a\ncomment */ ret;\n}\n";

Test(ptx, cut_anywhere_is_refused_or_whole)
{
	const size_t length = strlen(everything);
	_cleanup_text_ struct text log = TEXT_INIT;

	cr_assert_eq(parse(everything, length, &log), 0, "%s", text_string(&log));
	for (size_t n = 0; n < length; n++) {
		_cleanup_free_ char *copy = malloc(n + 1);

		/* A heap block of exact size, so a sanitizer sees reads beyond the end.
		 */
		memcpy(copy, everything, n);
		text_clear(&log);
		if (parse(copy, n, &log) < 0)
			cr_assert(!strncmp(text_string(&log), "line ", 5));
	}
}

Test(ptx, spoilt_anywhere_does_no_harm)
{
	static const char spoilers[] = "{}[]();,.%@!-+<>|\"x0\n_";
	const size_t length = strlen(everything);
	_cleanup_free_ char *copy = strdup(everything);
	uint32_t random = 12345;

	for (size_t i = 0; i < 4000; i++) {
		_cleanup_text_ struct text log = TEXT_INIT;
		size_t at;
		char was;

		random = random * 1664525 + 1013904223;
		at = random % length;
		was = copy[at];
		random = random * 1664525 + 1013904223;
		copy[at] = spoilers[(random >> 8) % (sizeof(spoilers) - 1)];
		if (parse(copy, length, &log) < 0)
			cr_assert(!strncmp(text_string(&log), "line ", 5));
		copy[at] = was;
	}
}
