/* SPDX-License-Identifier: MIT */
/*
 * A restart of the service: this keeper ends, and another keeper takes its place, perhaps
 * of a newer program.
 *
 * The broker finishes its requests, as at an upgrade, and dies. All descriptors then lie
 * in the queues of sockets held by the service manager (keep/pack.h): the mount's
 * connection, so that callers wait; the blocks and the records; and the program, to go on
 * with if the next program fails. The first socket is given away before anything ends: if
 * nobody takes the socket, the service ends as at a stop.
 */
#include <string.h>

#include "base/def.h"
#include "keep/keeper.h"
#include "keep/left.h"
#include "keep/pack.h"

void keeper_begin_with_left(struct keeper *keeper)
{
	struct left *left = keeper->config->left;

	for (size_t i = 0; left && i < left->n; i++) {
		if (left->kept[i].key.kind == KEEP_PROGRAM)
			keeper->before = take_fd(&left->kept[i].fd);
		else
			keeper_keep(keeper, left->kept[i].key,
				    take_fd(&left->kept[i].fd));
		keeper->goes_on = true;
	}
}

static void end_as_at_a_stop(struct keeper *keeper)
{
	if (keeper->broker.pid)
		kill(keeper->broker.pid, SIGTERM);
	else
		keeper->ends = true;
}

static void finish_broker(struct keeper *keeper)
{
	struct child *broker = &keeper->broker;

	if (broker->pid && broker->beats && !keeper_pause(keeper) && broker->busy)
		keeper_say(keeper,
			   "restart: %u operation%s of users %s not done after %u "
			   "seconds, and %s cut off",
			   broker->n_left, broker->n_left == 1 ? "" : "s",
			   broker->n_left == 1 ? "was" : "were",
			   keeper_patience_s(keeper), broker->n_left == 1 ? "is" : "are");
	child_end(keeper, broker);
}

static int pack_all(const struct keeper *keeper, struct pack *pack)
{
	const struct keep_key program = { .kind = KEEP_PROGRAM };
	const struct entry *entry;
	int r = pack_add(pack, program, keeper->program);

	for (entry = keeper->entries; entry && r == 0; entry = entry->hh.next)
		r = pack_add(pack, entry->key, entry->fd);
	return r ?: pack_end(pack);
}

static void leave_all(struct keeper *keeper, struct pack *pack)
{
	int r = pack_begin(pack, keeper->config);

	if (r < 0) {
		keeper_say(keeper,
			   "this restart frees all memory: no service manager holds it "
			   "meanwhile (%s)",
			   strerror(-r));
		end_as_at_a_stop(keeper);
		return;
	}
	finish_broker(keeper);
	r = pack_all(keeper, pack);
	if (r < 0)
		keeper_say(keeper,
			   "this restart frees all memory: the service manager did not "
			   "take all descriptors (%s)",
			   strerror(-r));
	keeper->leaves = r == 0;
	keeper->ends = true;
}

void keeper_restart(struct keeper *keeper)
{
	struct pack *pack;

	keeper->restarts = false;
	/* Before the first answer nothing was taken from the last keeper's sockets. */
	if (!keeper->was_ready) {
		child_end(keeper, &keeper->broker);
		keeper->leaves = keeper->ends = true;
		return;
	}
	pack = malloc(sizeof(*pack));
	if (!pack) {
		end_as_at_a_stop(keeper);
		return;
	}
	leave_all(keeper, pack);
	pack_deinit(pack);
	free(pack);
}
