/* SPDX-License-Identifier: MIT */
/*
 * The end of owners.
 *
 * An owner is made at a user's first request. An owner who holds nothing, whose worker
 * has ended, and who has asked for nothing for a long time is dropped, so that the
 * memory and the descriptors of the broker do not grow with the number of users ever
 * seen. The user's next request makes the owner again, with counts from zero.
 *
 * While there are few owners, the output of kernels is kept, and its owner with it. The
 * lists of allocations name workers that have mapped their memory: such a worker's owner
 * is kept until the memory has been released.
 */
#pragma once

struct broker;

/* Called by the housekeeper alone, which also frees ended workers. No lock held. */
void owners_drop(struct broker *broker);

