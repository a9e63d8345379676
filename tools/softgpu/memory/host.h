/* SPDX-License-Identifier: MIT */
/* Host memory that the devices reach. */
#pragma once

struct range;

/* Frees host memory, or unregisters program memory, when no work uses either any more. */
void host_free(struct range *range);
