/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "memops/publish.h"

/* Word n of the line. The first two are operands, the others arguments. */
static const char *word(const struct line *line, size_t n)
{
	return n < 2 ? line->operands[n] : line->args[n - 2];
}

/* `id=N[,N]...`, a number for each pair. Returns: 0; -EINVAL, -ENOMEM. */
static int publish_parse_ids(const char *word, struct publication *pairs, size_t n,
			     struct refusal *refusal)
{
	_cleanup_free_ char *words = strdup(word);
	char *rest = words, *id;
	size_t n_ids = 0;
	int r;

	if (!words)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	while ((id = strsep(&rest, ","))) {
		r = line_id(id, "id", n_ids < n ? &pairs[n_ids].id : &(uint64_t){ 0 },
			    refusal);
		if (r < 0)
			return r;
		n_ids++;
	}
	if (n_ids == n)
		return 0;
	return refuse(refusal, EINVAL, "id= has %zu numbers for %zu allocations", n_ids,
		      n);
}

/* Takes the words in pairs; *ret_pairs is to be freed. Returns: 0; -EINVAL, -ENOMEM... */
static int publish_parse(const struct line *line, struct publication **ret_pairs,
			 size_t *ret_n, struct refusal *refusal)
{
	_cleanup_free_ struct publication *pairs = NULL;
	const char *ids = line_value(line, "id");
	size_t n_words = 2 + line->n_args;
	int r;

	if (n_words % 2)
		return refuse(refusal, EINVAL, "'%.64s' has no new name behind it",
			      word(line, n_words - 1));
	pairs = calloc(n_words / 2, sizeof(*pairs));
	if (!pairs)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	for (size_t i = 0; i < n_words; i++) {
		r = line_full_name(word(line, i), "allocation", refusal);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n_words / 2; i++)
		pairs[i] =
			(struct publication){ word(line, 2 * i), word(line, 2 * i + 1) };
	r = ids ? publish_parse_ids(ids, pairs, n_words / 2, refusal) : 0;
	if (r < 0)
		return r;
	*ret_pairs = take_ptr(pairs);
	*ret_n = n_words / 2;
	return 0;
}

void verb_publish(struct command *command)
{
	_cleanup_free_ struct publication *pairs = NULL;
	struct caller caller = *command->caller;
	struct refusal refusal;
	size_t n = 0;

	if (command_parse(command) < 0)
		return;
	caller.pid = command->pid;
	if (publish_parse(&command->line, &pairs, &n, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	if (command->lane == N_USER_LANES &&
	    publish_lasts(command->broker, &caller, pairs, n)) {
		command_put_off(command, LANE_FILES);
		return;
	}
	if (publish(command->broker, &caller, pairs, n, &refusal) < 0)
		command_refuse(command, &refusal);
	else
		command_done(command, 0);
}
