/* SPDX-License-Identifier: MIT */
/* What ended processes have left behind in the folders of machines. */
#pragma once

/* The prefix of a machine's directory; the machine's name follows. */
#define REMAINS_PREFIX "gpumem-softgpu."

/*
 * Clears all machines: removes accounts without a process and without memory in use, and
 * what machine is empty then. A user's process clears accounts of the user, a process of
 * root those of all users, which these can hold up (others.h).
 */
void remains_clear(void);
