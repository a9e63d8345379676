/* SPDX-License-Identifier: MIT */
/* A process that does one thing to a file for the broker (process/outside.h). */
#pragma once

/* Opens the file for reading and hands the descriptor to the broker. */
_Noreturn void outside_run_open(const char *path);

/*
 * Replaces the file by one with the bytes of WIRE_STAGING_FD, and tells the broker the
 * errno. The process ends with the broker, since the next broker may replace the file,
 * too.
 */
_Noreturn void outside_run_replace(const char *path);
