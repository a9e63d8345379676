/* SPDX-License-Identifier: MIT */
#include "base/turns.h"

#include <utlist.h>

#include "base/hash.h"

static struct turn **chain_of(struct turns *turns, uint64_t whose)
{
	return &turns->chains[hash_of(&whose, sizeof(whose)) % TURNS_CHAINS];
}

static struct turn *first_of(struct turns *turns, uint64_t whose)
{
	struct turn *first;

	DL_FOREACH2(*chain_of(turns, whose), first, chain)
	{
		if (first->whose == whose)
			break;
	}
	return first;
}

static void add_first(struct turns *turns, struct turn *first)
{
	struct turn **chain = chain_of(turns, first->whose);

	DL_APPEND(turns->firsts, first);
	DL_APPEND2(*chain, first, chain_prev, chain);
}

void turns_add(struct turns *turns, uint64_t whose, struct turn *turn)
{
	struct turn *first = first_of(turns, whose);

	turn->whose = whose;
	turns->n++;
	if (!first)
		add_first(turns, turn);
	DL_APPEND2(first, turn, before, behind);
}

void turns_remove(struct turns *turns, struct turn *turn)
{
	struct turn **chain = chain_of(turns, turn->whose);
	struct turn *first = first_of(turns, turn->whose);
	bool is_first = turn == first;

	turns->n--;
	if (is_first) {
		DL_DELETE(turns->firsts, turn);
		DL_DELETE2(*chain, turn, chain_prev, chain);
	}
	DL_DELETE2(first, turn, before, behind);
	if (is_first && first)
		add_first(turns, first);
}

void turns_put_last(struct turns *turns, uint64_t whose)
{
	struct turn *first = first_of(turns, whose);

	if (!first)
		return;
	DL_DELETE(turns->firsts, first);
	DL_APPEND(turns->firsts, first);
}

struct turn *turns_take(struct turns *turns, bool (*may)(void *userdata, uint64_t whose),
			void *userdata)
{
	struct turn *first;

	DL_FOREACH (turns->firsts, first) {
		if (!may || may(userdata, first->whose))
			break;
	}
	if (first)
		turns_remove(turns, first);
	return first;
}
