/* SPDX-License-Identifier: MIT */
/* A process that opens a file for the broker (process/outside.h), and nothing more. */
#pragma once

/* Opens the file for reading and hands the descriptor to the broker. */
_Noreturn void outside_run(const char *path);
