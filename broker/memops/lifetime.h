/* SPDX-License-Identifier: MIT */
/*
 * Lifetimes: what an allocation ends with (`until=`). A user's allocations with the same
 * descriptor, process or cgroup share one. At its end all of them are freed. Publishing
 * an allocation takes it out of its lifetime.
 *
 * Processes and cgroups are in one table, by user and pid or path, and watched by the
 * reaper. A pid or a path may come again; so an entry is used for another line only as
 * long as its process or cgroup has not ended. Each user pays for entries of their own:
 * what others have in a cgroup costs a user nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct allocation;
struct broker;
struct caller;
struct lifetime;
struct lifetime_member;
struct lifetime_record;
struct refusal;

enum lifetime_kind {
	LIFETIME_CLOSE,	 /* a descriptor of control/alloc */
	LIFETIME_EXIT,	 /* a process */
	LIFETIME_CGROUP, /* all processes of a cgroup and below it */
};

struct lifetimes {
	/* registry.lock */
	struct lifetime *by_key;
	struct lifetime_target *targets; /* lifetime_target.h */
};

/* Returns: a kind; -EINVAL. */
int lifetime_find_kind(const char *word);

/* As in `until=`, or `none`. */
const char *lifetime_word(const struct allocation *allocation);

/* Of a descriptor; to be ended with lifetime_end(). NULL: no memory. */
struct lifetime *lifetime_new(struct broker *broker);

/* Of the process of a thread, or of its cgroup. */
struct lifetime_of {
	enum lifetime_kind kind;
	const struct caller *user; /* is charged for a descriptor */
	pid_t thread;		   /* can't end meanwhile */
	const char *cgroup;	   /* from cgroup_of(); NULL: none */
};

/*
 * Finds or makes a lifetime. With may_wait the search for a cgroup may take seconds
 * (process/outside.h). No lock held.
 *
 * Returns: 0; -EAGAIN: the search needs may_wait; -errno with a sentence. *ret_lifetime
 * is to be given to lifetime_unref().
 */
int lifetime_get(struct broker *broker, const struct lifetime_of *of, bool may_wait,
		 struct lifetime **ret_lifetime, struct refusal *refusal);

/*
 * Makes again the lifetime of a record, with a reference. The descriptor is of the very
 * process or cgroup, whatever has the pid or the path by now. Takes ownership of fd.
 * Under registry.lock. Returns: NULL: no memory.
 */
struct lifetime *lifetime_restore(struct broker *broker, uint32_t index,
				  const struct lifetime_record *record, int fd);

/*
 * Watches a restored lifetime, and drops the caller's reference. Its process or cgroup
 * may have ended meanwhile. Under registry.lock. Returns: 0; -ENOMEM.
 */
int lifetime_begin(struct lifetime *lifetime);

/* Takes and drops a reference; NULL is ignored. Under registry.lock. */
struct lifetime *lifetime_ref(struct lifetime *lifetime);
void lifetime_unref(struct lifetime *lifetime);

/*
 * From now on the allocation ends with the lifetime; NULL: with nothing. Under
 * registry.lock. Returns: 0; -ENOMEM.
 */
int lifetime_add(struct lifetime *lifetime, struct allocation *allocation);

/* The allocation ends with nothing any more. Under registry.lock. */
void lifetime_leave(struct allocation *allocation);

/*
 * The same in two steps, for a change that may be undone. The caller saves the allocation
 * between lifetime_take() and one of the others, before registry.lock is let go. Return
 * and take NULL for an allocation that ends with nothing.
 */
struct lifetime_member *lifetime_take(struct allocation *allocation);
void lifetime_put_back(struct lifetime_member *member);
void lifetime_member_end(struct lifetime_member *member);

/* Whether the lifetime of the allocation, if any, is over. Under registry.lock. */
bool lifetime_is_over(const struct allocation *allocation);

/* Frees the allocations, and drops the caller's reference. No lock held. */
void lifetime_end(struct lifetime *lifetime);
