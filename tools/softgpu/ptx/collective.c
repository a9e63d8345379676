/* SPDX-License-Identifier: MIT */
/*
 * Work that lanes and threads do together.
 *
 * A collective op of a warp names the members. Each lane that comes brings values and
 * waits until every member has come or ended; then all get the results. Barriers of a
 * block count threads.
 */
#include "access.h"
#include "parser.h"
#include "warp.h"

/* The values that a lane brings, by the op. */
static void exchange_fill(struct warp *warp, const struct op *op, uint32_t mask,
			  int members)
{
	EACH_LANE(i, mask)
	{
		struct exchange *exchange = &warp->lanes[i].exchange;

		exchange->op = op;
		exchange->members = (uint32_t)warp_source(warp, op, members)[i] | 1U << i;
		exchange->value = members ? warp_source(warp, op, 0)[i] : 0;
		if (members == 3) {
			exchange->at = (uint32_t)warp_source(warp, op, 1)[i];
			exchange->clamp = (uint32_t)warp_source(warp, op, 2)[i];
		}
		if (op->from_pred.index >= 0)
			exchange->truth = warp_register(warp, op->from_pred)[i];
	}
}

/* A lane's register, in its own frame. */
static uint64_t *lane_register(struct warp *warp, uint32_t lane, struct operand operand)
{
	return &warp->lanes[lane].frame->registers[operand.index][lane];
}

/* The lane that a shuffle reads. Returns: whether the lane is inside of the segment. */
static bool shuffle_from(const struct op *op, const struct exchange *exchange,
			 uint32_t lane, uint32_t *ret)
{
	const uint32_t at = exchange->at & 0x1f;
	const uint32_t segment = exchange->clamp >> 8 & 0x1f;
	const uint32_t clamp = exchange->clamp & 0x1f;
	const uint32_t last = (lane & segment) | (clamp & ~segment);
	const uint32_t first = lane & segment;
	int from;
	bool inside;

	switch (op->mods.mode) {
	case MODE_UP:
		from = (int)lane - (int)at;
		inside = from >= (int)last;
		break;
	case MODE_DOWN:
		from = (int)(lane + at);
		inside = from <= (int)last;
		break;
	case MODE_BFLY:
		from = (int)(lane ^ at);
		inside = from <= (int)last;
		break;
	default:
		from = (int)(first | (at & ~segment));
		inside = from <= (int)last;
		break;
	}
	*ret = inside ? (uint32_t)from & 0x1f : lane;
	return inside;
}

static void shuffle_finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	EACH_LANE(i, lanes)
	{
		uint32_t from;
		const bool inside = shuffle_from(op, &warp->lanes[i].exchange, i, &from);

		if (!(lanes >> from & 1))
			from = i;
		*lane_register(warp, i, op->to) = warp->lanes[from].exchange.value;
		if (op->to_pred.index >= 0)
			*lane_register(warp, i, op->to_pred) = inside;
	}
}

static void vote_finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	uint32_t ballot = 0;
	uint64_t result;

	EACH_LANE(i, lanes)
	ballot |= (uint32_t)warp->lanes[i].exchange.truth << i;
	switch (op->mods.mode) {
	case MODE_ALL:
		result = ballot == lanes;
		break;
	case MODE_ANY:
		result = ballot != 0;
		break;
	case MODE_UNI:
		result = ballot == lanes || !ballot;
		break;
	default:
		result = ballot;
		break;
	}
	EACH_LANE(i, lanes)
	*lane_register(warp, i, op->to) = result;
}

static uint32_t match_same(const struct warp *warp, uint32_t lane, uint32_t lanes)
{
	uint32_t same = 0;

	EACH_LANE(i, lanes)
	same |= (uint32_t)(warp->lanes[i].exchange.value ==
			   warp->lanes[lane].exchange.value)
		<< i;
	return same;
}

/* The lanes that have the same value as this lane. */
static void match_any_finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	EACH_LANE(i, lanes)
	*lane_register(warp, i, op->to) = match_same(warp, i, lanes);
}

/* All of them or none. */
static void match_all_finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	const uint32_t first = (uint32_t)__builtin_ctz(lanes);
	const bool all = match_same(warp, first, lanes) == lanes;

	EACH_LANE(i, lanes)
	{
		*lane_register(warp, i, op->to) = all ? lanes : 0;
		if (op->to_pred.index >= 0)
			*lane_register(warp, i, op->to_pred) = all;
	}
}

static uint32_t reduce(const struct op *op, uint32_t a, uint32_t b)
{
	const bool is_signed = type_is_signed(op->type);
	const bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;

	switch (op->mods.mode) {
	case MODE_ADD:
		return a + b;
	case MODE_MIN:
		return less ? a : b;
	case MODE_MAX:
		return less ? b : a;
	case MODE_AND:
		return a & b;
	case MODE_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

static void redux_finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	const uint32_t first = (uint32_t)__builtin_ctz(lanes);
	uint32_t result = (uint32_t)warp->lanes[first].exchange.value;

	EACH_LANE(i, lanes & ~(1U << first))
	result = reduce(op, result, (uint32_t)warp->lanes[i].exchange.value);
	EACH_LANE(i, lanes)
	*lane_register(warp, i, op->to) = result;
}

static void elect_finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	const uint32_t leader = (uint32_t)__builtin_ctz(lanes);

	EACH_LANE(i, lanes)
	{
		*lane_register(warp, i, op->to) = leader;
		if (op->to_pred.index >= 0)
			*lane_register(warp, i, op->to_pred) = i == leader;
	}
}

static void nothing_finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	(void)warp;
	(void)op;
	(void)lanes;
}

static void shfl(struct warp *warp, const struct op *op, uint32_t mask);
static void vote(struct warp *warp, const struct op *op, uint32_t mask);
static void match_any(struct warp *warp, const struct op *op, uint32_t mask);
static void match_all(struct warp *warp, const struct op *op, uint32_t mask);
static void redux(struct warp *warp, const struct op *op, uint32_t mask);
static void elect(struct warp *warp, const struct op *op, uint32_t mask);

static void finish(struct warp *warp, const struct op *op, uint32_t lanes)
{
	static const struct {
		op_handler *run;
		op_handler *finish;
	} finishes[] = {
		{ shfl, shuffle_finish },	 { vote, vote_finish },
		{ match_any, match_any_finish }, { match_all, match_all_finish },
		{ redux, redux_finish },	 { elect, elect_finish },
	};

	for (size_t i = 0; i < ARRAY_SIZE(finishes); i++)
		if (finishes[i].run == op->run) {
			finishes[i].finish(warp, op, lanes);
			return;
		}
	nothing_finish(warp, op, lanes);
}

/* All members have come, maybe to different ops: each op's lanes get their results. */
static void finish_all(struct warp *warp, uint32_t lanes)
{
	while (lanes) {
		const struct op *op = warp->lanes[__builtin_ctz(lanes)].exchange.op;
		uint32_t same = 0;

		EACH_LANE(i, lanes)
		same |= (uint32_t)(warp->lanes[i].exchange.op == op) << i;
		finish(warp, op, same);
		lanes &= ~same;
	}
}

void collective_settle(struct warp *warp)
{
	uint32_t left = warp->waiting;

	while (left) {
		const uint32_t lane = (uint32_t)__builtin_ctz(left);
		const uint32_t members =
			warp->lanes[lane].exchange.members & ~warp->exited;

		left &= left - 1;
		if ((members & warp->waiting) != members)
			continue;
		finish_all(warp, members);
		warp->waiting &= ~members;
		warp->ready |= members;
		left &= ~members;
	}
}

/* Usually the members are exactly the lanes of the running group: then nobody waits. */
static void meet(struct warp *warp, const struct op *op, uint32_t mask, int members)
{
	bool together = true;

	exchange_fill(warp, op, mask, members);
	EACH_LANE(i, mask)
	together &= (warp->lanes[i].exchange.members & ~warp->exited) == mask;
	if (together) {
		finish(warp, op, mask);
		return;
	}
	warp_park(warp, mask);
	warp->waiting |= mask;
	collective_settle(warp);
}

static void shfl(struct warp *warp, const struct op *op, uint32_t mask)
{
	meet(warp, op, mask, 3);
}

static void vote(struct warp *warp, const struct op *op, uint32_t mask)
{
	meet(warp, op, mask, 0);
}

static void match_any(struct warp *warp, const struct op *op, uint32_t mask)
{
	meet(warp, op, mask, 1);
}

static void match_all(struct warp *warp, const struct op *op, uint32_t mask)
{
	meet(warp, op, mask, 1);
}

static void redux(struct warp *warp, const struct op *op, uint32_t mask)
{
	meet(warp, op, mask, 1);
}

static void elect(struct warp *warp, const struct op *op, uint32_t mask)
{
	meet(warp, op, mask, 0);
}

static void bar_warp(struct warp *warp, const struct op *op, uint32_t mask)
{
	access_fence();
	meet(warp, op, mask, 0);
}

static void activemask(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	warp_to(warp, op)[i] = mask;
}

/* Gives bar.red its result, and lets everybody go on. */
static void barrier_release(struct block *block, uint32_t number)
{
	struct barrier *barrier = &block->barriers[number];
	const uint32_t n_all = barrier->n_arrived;
	const uint64_t result = barrier->mode == MODE_AND  ? barrier->n_true == n_all
				: barrier->mode == MODE_OR ? barrier->n_true != 0
							   : barrier->n_true;

	for (uint32_t w = 0; w < block->n_warps; w++) {
		struct warp *warp = &block->warps[w];

		EACH_LANE(i, warp->at_barrier)
		{
			struct lane *lane = &warp->lanes[i];

			if (lane->barrier != number)
				continue;
			warp->at_barrier &= ~(1U << i);
			warp->ready |= 1U << i;
			if (lane->barrier_to.index >= 0)
				*lane_register(warp, i, lane->barrier_to) = result;
		}
	}
	*barrier = (struct barrier){ 0 };
}

void barrier_settle(struct block *block)
{
	for (uint32_t i = 0; i < N_BARRIERS; i++) {
		const struct barrier *barrier = &block->barriers[i];
		const uint32_t wanted =
			barrier->n_expected ? barrier->n_expected : block->n_alive;

		if (barrier->n_arrived && barrier->n_arrived >= wanted)
			barrier_release(block, i);
	}
}

/* source[0] is the barrier, source[1] how many threads it is for. */
static void arrive(struct warp *warp, const struct op *op, uint32_t mask, bool waits)
{
	EACH_LANE(i, mask)
	{
		const uint32_t number = (uint32_t)warp_source(warp, op, 0)[i];
		struct barrier *barrier;

		if (number >= N_BARRIERS) {
			warp_fault(warp, PTX_FAULT_TRAP);
			return;
		}
		barrier = &warp->block->barriers[number];
		barrier->n_arrived++;
		barrier->mode = op->mods.mode;
		if (op->n_sources > 1)
			barrier->n_expected = (uint32_t)warp_source(warp, op, 1)[i];
		if (op->from_pred.index >= 0)
			barrier->n_true += warp_register(warp, op->from_pred)[i] != 0;
		warp->lanes[i].barrier = (unsigned char)number;
		warp->lanes[i].barrier_to = op->to;
	}
	access_fence();
	if (waits) {
		warp_park(warp, mask);
		warp->at_barrier |= mask;
	}
	barrier_settle(warp->block);
}

static void bar_sync(struct warp *warp, const struct op *op, uint32_t mask)
{
	arrive(warp, op, mask, true);
}

static void bar_arrive(struct warp *warp, const struct op *op, uint32_t mask)
{
	arrive(warp, op, mask, false);
}

/* bar.red d, a{, b}, {!}c: the predicate is last, the count may be missing. */
static bool parse_bar(struct parser *parser, struct op *op)
{
	struct lexer ahead;
	unsigned int n_commas = 0;

	if (!operands_parse(parser, op, op->type == TYPE_PRED ? "p" : "d") ||
	    !expect_sign(parser, ','))
		return false;
	for (ahead = parser->lexer;
	     !token_is_sign(&ahead.token, ';') && ahead.token.kind != TOKEN_END &&
	     ahead.token.kind != TOKEN_BAD;
	     lexer_next(&ahead))
		n_commas += token_is_sign(&ahead.token, ',');
	return operands_parse(parser, op, n_commas > 1 ? "uuq" : "uq");
}

#define B32    TYPE_BIT(TYPE_B32)
#define VALUES (B32 | TYPE_BIT(TYPE_B64))
#define TRUTH  TYPE_BIT(TYPE_PRED)
#define WORDS  (B32 | TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32))
#define LOGIC  GROUP_BARRIER

/* clang-format off */
static const struct instruction instructions[] = {
	{ "shfl.sync", "Puuuu", GROUP_SHUFFLE, GROUP_SHUFFLE, .handler = shfl, .types = B32 },
	{ "vote.sync", "pqu", GROUP_VOTE, GROUP_VOTE, .handler = vote, .types = TRUTH },
	{ "vote.sync", "dqu", GROUP_VOTE, GROUP_VOTE, .handler = vote, .types = B32 },
	{ "match.any.sync", "xau", .handler = match_any, .types = VALUES },
	{ "match.all.sync", "Pau", .handler = match_all, .types = VALUES },
	{ "redux.sync", "dau", GROUP_REDUX, GROUP_REDUX, .handler = redux, .types = WORDS },
	{ "elect.sync", "Pu", .handler = elect },
	{ "activemask", "d", .handler = activemask, .types = B32 },
	{ "bar.warp.sync", "u", .handler = bar_warp },
	{ "bar.sync", "u?u", GROUP_SYNC, .handler = bar_sync },
	{ "bar.cta.sync", "u?u", GROUP_SYNC, .handler = bar_sync },
	{ "barrier.sync", "u?u", GROUP_SYNC, .handler = bar_sync },
	{ "barrier.cta.sync", "u?u", GROUP_SYNC, .handler = bar_sync },
	{ "bar.arrive", "uu", GROUP_SYNC, .handler = bar_arrive },
	{ "bar.cta.arrive", "uu", GROUP_SYNC, .handler = bar_arrive },
	{ "barrier.arrive", "uu", GROUP_SYNC, .handler = bar_arrive },
	{ "barrier.cta.arrive", "uu", GROUP_SYNC, .handler = bar_arrive },
	{ "bar.red", NULL, GROUP_SYNC | LOGIC, LOGIC, .handler = bar_sync,
	  .types = TRUTH | TYPE_BIT(TYPE_U32), .parse = parse_bar },
	{ "bar.cta.red", NULL, GROUP_SYNC | LOGIC, LOGIC, .handler = bar_sync,
	  .types = TRUTH | TYPE_BIT(TYPE_U32), .parse = parse_bar },
	{ "barrier.red", NULL, GROUP_SYNC | LOGIC, LOGIC, .handler = bar_sync,
	  .types = TRUTH | TYPE_BIT(TYPE_U32), .parse = parse_bar },
	{ "barrier.cta.red", NULL, GROUP_SYNC | LOGIC, LOGIC, .handler = bar_sync,
	  .types = TRUTH | TYPE_BIT(TYPE_U32), .parse = parse_bar },
};
/* clang-format on */

FAMILY(collective);
