/* SPDX-License-Identifier: MIT */
/*
 * Signals that end a program (INT, TERM, HUP) end a wait, and the program tidies up.
 */
#pragma once

#include <stdbool.h>

/* From now on these signals only count. */
void stop_catch(void);

/* Whether one has come. */
bool stop_asked(void);

/* Ends the program as the signal would have, if one has come. */
void stop_end(void);
