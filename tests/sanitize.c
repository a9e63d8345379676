/* SPDX-License-Identifier: MIT */
/*
 * What the leak checker is told in every test program: Criterion leaks a little when a
 * test fails, and the report of that would take the place of the test's own.
 */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:libcriterion\n";
}

const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
