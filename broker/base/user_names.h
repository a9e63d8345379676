/* SPDX-License-Identifier: MIT */
/*
 * Names of users. The user database may be far away (LDAP), and a look-up may take as long
 * as it likes. So look-ups are made by a thread of their own, one after the other, and
 * nobody waits for them: until the name is known the number stands for it.
 */
#pragma once

#include <sys/types.h>

#include "base/text.h"

struct user_names;

/* NULL: no memory or no thread. */
struct user_names *user_names_new(void);
/* Does not wait for a look-up under way. Returns: NULL. */
struct user_names *user_names_free(struct user_names *names);

/* Looks the name up, if it is not known. */
void user_names_want(struct user_names *names, uid_t uid);

/*
 * Appends the name, or the number while no name is known. An old name is looked up anew,
 * for the next time.
 */
void user_names_show(struct user_names *names, uid_t uid, struct text *text);

/* Forgets the name. */
void user_names_drop(struct user_names *names, uid_t uid);
