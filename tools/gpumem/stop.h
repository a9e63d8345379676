/* SPDX-License-Identifier: MIT */
/*
 * INT, TERM and HUP end a wait, and the program then tidies up.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>

/* From now on these signals only count. */
void stop_catch(void);

/* Whether such a signal has come. */
bool stop_asked(void);

/*
 * Repeats a system call that a signal has interrupted. A stop of the program interrupts
 * the wait for a mount, too (^Z, fg). EINTR remains where stop_asked().
 */
#define unless_stopped(call)                                            \
	({                                                              \
		long result_;                                           \
		do                                                      \
			result_ = (call);                               \
		while (result_ < 0 && errno == EINTR && !stop_asked()); \
		result_;                                                \
	})

/* If such a signal has come, ends the program as the signal would have. */
void stop_end(void);
