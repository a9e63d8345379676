/* SPDX-License-Identifier: MIT */
/*
 * atom and red: read the old value and put a new value there, with nothing between. All
 * orders and scopes are the strongest here.
 *
 * A single loop of compare and exchange serves every operation; lanes take their turns.
 */
#include "access.h"
#include "number.h"
#include "table.h"

static uint64_t ones(unsigned int bits)
{
	return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static bool is_less(const struct op *op, uint64_t a, uint64_t b)
{
	const unsigned int unused = 64 - type_bits(op->type);

	if (!type_is_signed(op->type))
		return a < b;
	return (int64_t)(a << unused) < (int64_t)(b << unused);
}

static uint32_t add_single(uint64_t a, uint64_t b, bool ftz)
{
	return single_bits(single_value((uint32_t)a, ftz) +
				   single_value((uint32_t)b, ftz),
			   ftz ? FLAG_FTZ : 0);
}

static uint16_t add_half(uint64_t a, uint64_t b)
{
	return half_bits(half_value((uint16_t)a, false) + half_value((uint16_t)b, false),
			 0);
}

/* A sum of two bf16 may be inexact in double, but never near a tie of bf16. */
static uint16_t add_bfloat(uint64_t a, uint64_t b)
{
	return bfloat_bits(bfloat_value((uint16_t)a) + bfloat_value((uint16_t)b), 0);
}

/* Additions of single precision flush in global memory, and not in shared memory. */
static uint64_t add(const struct op *op, uint64_t a, uint64_t b, bool ftz)
{
	double sum;

	switch (op->type) {
	case TYPE_F16:
		return add_half(a, b);
	case TYPE_F16X2:
		return add_half(a, b) | (uint32_t)add_half(a >> 16, b >> 16) << 16;
	case TYPE_BF16:
		return add_bfloat(a, b);
	case TYPE_BF16X2:
		return add_bfloat(a, b) | (uint32_t)add_bfloat(a >> 16, b >> 16) << 16;
	case TYPE_F32:
		return add_single(a, b, ftz);
	case TYPE_F64:
		sum = double_value(a) + double_value(b);
		return isnan(sum) ? 0x7fffffffffffffff : double_bits(sum);
	default:
		return a + b;
	}
}

static uint64_t change(const struct op *op, uint64_t old, uint64_t b, uint64_t c,
		       bool ftz)
{
	switch (op->mods.mode) {
	case MODE_ADD:
		return add(op, old, b, ftz);
	case MODE_MIN:
		return is_less(op, b, old) ? b : old;
	case MODE_MAX:
		return is_less(op, old, b) ? b : old;
	case MODE_INC:
		return old >= b ? 0 : old + 1;
	case MODE_DEC:
		return !old || old > b ? b : old - 1;
	case MODE_AND:
		return old & b;
	case MODE_OR:
		return old | b;
	case MODE_XOR:
		return old ^ b;
	case MODE_CAS:
		return old == b ? c : old;
	default: /* exch */
		return b;
	}
}

static bool exchange(unsigned char *at, uint32_t size, uint64_t *old, uint64_t new)
{
	void *place = at;
	uint16_t old_16 = (uint16_t)*old;
	uint32_t old_32 = (uint32_t)*old;
	bool done;

	switch (size) {
	case 2:
		done = __atomic_compare_exchange_n((uint16_t *)place, &old_16,
						   (uint16_t) new, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		*old = old_16;
		return done;
	case 4:
		done = __atomic_compare_exchange_n((uint32_t *)place, &old_32,
						   (uint32_t) new, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		*old = old_32;
		return done;
	default:
		return __atomic_compare_exchange_n((uint64_t *)place, old, new, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
}

static void atom(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint32_t size = type_size(op->type);

	EACH_LANE(i, mask)
	{
		const uint64_t address =
			warp_source(warp, op, 0)[i] + (uint64_t)op->offset;
		const uint64_t b = warp_source(warp, op, 1)[i];
		const uint64_t c = op->n_sources > 2 ? warp_source(warp, op, 2)[i] : 0;
		const bool ftz =
			op->mods.space == SPACE_GLOBAL ||
			(op->mods.space == SPACE_GENERIC && address < WINDOW_SHARED);
		unsigned char *at =
			access_reach(warp, op, i, address, size, ACCESS_ATOMIC);
		uint64_t old;

		if (!at)
			return;
		old = access_load(at, size);
		while (!exchange(at, size, &old,
				 change(op, old, b, c, ftz) & ones(8 * size)))
			continue;
		if (op->to.index >= 0)
			warp_to(warp, op)[i] = old;
	}
}

#define BARE_16 TYPE_BIT(TYPE_B16)
#define BARE	(TYPE_BIT(TYPE_B32) | TYPE_BIT(TYPE_B64))
#define WORDS	(TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32))
#define LONGS	(TYPE_BIT(TYPE_U64) | TYPE_BIT(TYPE_S64))
#define FLOATS	(TYPE_BIT(TYPE_F32) | TYPE_BIT(TYPE_F64))
#define HALVES                                                             \
	(TYPE_BIT(TYPE_F16) | TYPE_BIT(TYPE_F16X2) | TYPE_BIT(TYPE_BF16) | \
	 TYPE_BIT(TYPE_BF16X2))
#define WAYS (GROUP_SPACE | GROUP_ORDER | GROUP_ATOM)

/* clang-format off */
static const struct instruction instructions[] = {
#define BOTH(operation, kinds, extra)                                                \
	{ "atom", "dma", WAYS | (extra), GROUP_ATOM | (extra), .handler = atom,      \
	  .types = (kinds), .mode = (operation) },                                   \
	{ "red", "ma", WAYS | (extra), GROUP_ATOM | (extra), .handler = atom,        \
	  .types = (kinds), .mode = (operation) }
	BOTH(MODE_ADD, WORDS | LONGS | FLOATS, 0),
	BOTH(MODE_ADD, HALVES, GROUP_NOFTZ),
	BOTH(MODE_MIN, WORDS | LONGS, 0),
	BOTH(MODE_MAX, WORDS | LONGS, 0),
	BOTH(MODE_INC, TYPE_BIT(TYPE_U32), 0),
	BOTH(MODE_DEC, TYPE_BIT(TYPE_U32), 0),
	BOTH(MODE_AND, BARE, 0),
	BOTH(MODE_OR, BARE, 0),
	BOTH(MODE_XOR, BARE, 0),
	{ "atom", "dma", WAYS, GROUP_ATOM, .handler = atom, .types = BARE,
	  .mode = MODE_EXCH },
	{ "atom", "dmaa", WAYS, GROUP_ATOM, .handler = atom, .types = BARE_16 | BARE,
	  .mode = MODE_CAS },
};
/* clang-format on */

FAMILY(atomic);
