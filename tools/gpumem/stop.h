/* SPDX-License-Identifier: MIT */
/*
 * INT, TERM and HUP end a wait, and the program then tidies up.
 */
#pragma once

#include <stdbool.h>

/* From now on these signals only count. */
void stop_catch(void);

/* Whether such a signal has come. */
bool stop_asked(void);

/* If such a signal has come, ends the program as the signal would have. */
void stop_end(void);
