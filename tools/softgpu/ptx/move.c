/* SPDX-License-Identifier: MIT */
/* Moves, selections, and tests of the kind of an address. */
#include "lanes.h"
#include "parser.h"

static void mov(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *from = warp_source(warp, op, 0);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = from[i];
}

/* Parts into one: the first is the lowest. */
static void mov_pack(struct warp *warp, const struct op *op, uint32_t mask)
{
	const unsigned int bits = type_bits(op->type) / op->n_vector;
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	{
		uint64_t value = 0;

		for (unsigned int n = 0; n < op->n_vector; n++)
			value |= warp_register(warp, op->vector[n])[i] << (n * bits);
		to[i] = value;
	}
}

static void mov_unpack(struct warp *warp, const struct op *op, uint32_t mask)
{
	const unsigned int bits = type_bits(op->type) / op->n_vector;
	const uint64_t *from = warp_source(warp, op, 0);

	EACH_LANE(i, mask)
	{
		const uint64_t value = from[i];

		for (unsigned int n = 0; n < op->n_vector; n++)
			warp_register(warp, op->vector[n])[i] =
				value >> (n * bits) & (((uint64_t)1 << bits) - 1);
	}
}

/* Registers in braces, each as wide as its share. */
static bool parse_parts(struct parser *parser, struct op *op, bool is_source)
{
	enum type part = TYPE_B8;

	do {
		struct operand *ret = &op->vector[op->n_vector];
		/* How wide each is shows with the first, and is checked at the end. */
		if (op->n_vector == 4)
			return parser_fail(parser, "more than four parts");
		part = type_bits(op->type) == 16   ? TYPE_B8
		       : type_bits(op->type) == 32 ? TYPE_B16
						   : TYPE_B32;
		if (is_source ? !operand_source(parser, part, true, ret)
			      : !operand_to(parser, part, true, op, ret))
			return false;
		op->n_vector++;
	} while (accept_sign(parser, ','));
	if (op->n_vector != 2 && op->n_vector != 4)
		return parser_fail(parser, "not two or four parts");
	return expect_sign(parser, '}');
}

/* mov d, a;  mov {..}, a;  mov d, {..};  mov d, name of a variable or function */
static bool parse_mov(struct parser *parser, struct op *op)
{
	if (accept_sign(parser, '{')) {
		op->run = mov_unpack;
		return parse_parts(parser, op, false) && expect_sign(parser, ',') &&
		       operand_source(parser, op->type, false, &op->source[0]);
	}
	if (!operand_to(parser, op->type, false, op, &op->to) ||
	    !expect_sign(parser, ','))
		return false;
	if (accept_sign(parser, '{')) {
		op->run = mov_pack;
		return parse_parts(parser, op, true);
	}
	return operand_source(parser, op->type, false, &op->source[0]);
}

static void selp(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *a = warp_source(warp, op, 0), *b = warp_source(warp, op, 1);
	const uint64_t *truth = warp_register(warp, op->from_pred);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = truth[i] ? a[i] : b[i];
}

static bool slct_first(const struct op *op, uint64_t value)
{
	const uint32_t bits = (uint32_t)value;
	float number;

	if (op->from == TYPE_S32)
		return (int32_t)bits >= 0;
	memcpy(&number, &bits, sizeof(number));
	return number >= 0 || (op->mods.flags & FLAG_FTZ && (bits & 0x7f800000) == 0);
}

static void slct(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *a = warp_source(warp, op, 0), *b = warp_source(warp, op, 1);
	const uint64_t *c = warp_source(warp, op, 2);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = slct_first(op, c[i]) ? a[i] : b[i];
}

static uint64_t window_of(enum space space)
{
	switch (space) {
	case SPACE_SHARED:
		return WINDOW_SHARED;
	case SPACE_LOCAL:
		return WINDOW_LOCAL;
	case SPACE_PARAM:
		return WINDOW_PARAM;
	default:
		return 0;
	}
}

static void cvta(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t window = window_of(op->mods.space);
	const uint64_t *from = warp_source(warp, op, 0);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = from[i] + window;
}

static void cvta_to(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t window = window_of(op->mods.space);
	const uint64_t *from = warp_source(warp, op, 0);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = from[i] - window;
}

/* Constant memory lies with the module's global variables: .const is never told apart. */
static void isspacep(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t window = window_of(op->mods.space);
	const uint64_t *from = warp_source(warp, op, 0);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	{
		if (window)
			to[i] = from[i] - window < WINDOW_SIZE;
		else
			to[i] = from[i] < WINDOW_SHARED;
	}
}

#define ANY_BITS                                                        \
	(TYPE_BIT(TYPE_B16) | TYPE_BIT(TYPE_U16) | TYPE_BIT(TYPE_S16) | \
	 TYPE_BIT(TYPE_B32) | TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32) | \
	 TYPE_BIT(TYPE_B64) | TYPE_BIT(TYPE_U64) | TYPE_BIT(TYPE_S64) | \
	 TYPE_BIT(TYPE_F32) | TYPE_BIT(TYPE_F64))
#define HALVES                                                             \
	(TYPE_BIT(TYPE_F16) | TYPE_BIT(TYPE_F16X2) | TYPE_BIT(TYPE_BF16) | \
	 TYPE_BIT(TYPE_BF16X2))
#define ADDRESSES (TYPE_BIT(TYPE_U64))
#define CHOOSERS  (TYPE_BIT(TYPE_S32) | TYPE_BIT(TYPE_F32))

/* clang-format off */
static const struct instruction instructions[] = {
	{ "mov", NULL, .handler = mov, .types = ANY_BITS | HALVES | TYPE_BIT(TYPE_PRED),
	  .parse = parse_mov },
	{ "selp", "daaq", .handler = selp, .types = ANY_BITS | HALVES },
	{ "slct", "daaf", GROUP_FTZ, .handler = slct, .types = ANY_BITS, .from = CHOOSERS },
	{ "cvta", "da", GROUP_SPACE, GROUP_SPACE, .handler = cvta, .types = ADDRESSES },
	{ "cvta.to", "da", GROUP_SPACE, GROUP_SPACE, .handler = cvta_to, .types = ADDRESSES },
	{ "isspacep", "pn", GROUP_SPACE, GROUP_SPACE, .handler = isspacep },
};
/* clang-format on */

FAMILY(move);
