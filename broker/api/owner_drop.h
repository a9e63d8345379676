/* SPDX-License-Identifier: MIT */
/*
 * The end of owners.
 *
 * An owner is made at a user's first request. An owner who holds nothing, whose worker
 * has ended, and who has asked for nothing for a long time is dropped, so that the
 * memory and the descriptors of the broker do not grow with the number of users ever
 * seen. The user's next request makes the owner again, with counts from zero.
 *
 * What kernels have printed is kept, and its owner with it, while there are few owners.
 * A worker that has mapped memory of others is on the lists of this memory: its owner is
 * kept until that memory has been released.
 */
#pragma once

struct broker;

/* Called by the housekeeper alone, which also frees ended workers. No lock held. */
void owners_drop(struct broker *broker);
