/* SPDX-License-Identifier: MIT */
/* Host memory that the devices reach. */
#pragma once

struct range;

/* Frees host memory, or unregisters it, when no work uses it any more. */
void host_free(struct range *range);
