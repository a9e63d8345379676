/* SPDX-License-Identifier: MIT */
/*
 * The table of all words. Some words mean different things to different instructions
 * (.and, .lo, .sync), so a row belongs to a group and an instruction names the groups of
 * its words.
 */
#include "modifier.h"

#include <string.h>

enum field {
	FIELD_NOTHING,
	FIELD_ROUNDING,
	FIELD_COMPARE,
	FIELD_SPACE,
	FIELD_MODE,
	FIELD_VECTOR,
	FIELD_FLAG,
	FIELD_INTEGRAL,
};

struct word {
	const char *name;
	uint32_t groups;
	enum field field;
	uint32_t value;
};

/* clang-format off */
static const struct word words[] = {
	{ "rn", GROUP_ROUND, FIELD_ROUNDING, ROUND_RN },
	{ "rz", GROUP_ROUND, FIELD_ROUNDING, ROUND_RZ },
	{ "rm", GROUP_ROUND, FIELD_ROUNDING, ROUND_RM },
	{ "rp", GROUP_ROUND, FIELD_ROUNDING, ROUND_RP },
	{ "rna", GROUP_ROUND, FIELD_ROUNDING, ROUND_RNA },
	{ "rni", GROUP_INTEGRAL, FIELD_INTEGRAL, ROUND_RN },
	{ "rzi", GROUP_INTEGRAL, FIELD_INTEGRAL, ROUND_RZ },
	{ "rmi", GROUP_INTEGRAL, FIELD_INTEGRAL, ROUND_RM },
	{ "rpi", GROUP_INTEGRAL, FIELD_INTEGRAL, ROUND_RP },

	{ "eq", GROUP_COMPARE, FIELD_COMPARE, COMPARE_EQ },
	{ "ne", GROUP_COMPARE, FIELD_COMPARE, COMPARE_NE },
	{ "lt", GROUP_COMPARE, FIELD_COMPARE, COMPARE_LT },
	{ "le", GROUP_COMPARE, FIELD_COMPARE, COMPARE_LE },
	{ "gt", GROUP_COMPARE, FIELD_COMPARE, COMPARE_GT },
	{ "ge", GROUP_COMPARE, FIELD_COMPARE, COMPARE_GE },
	{ "lo", GROUP_COMPARE, FIELD_COMPARE, COMPARE_LT },
	{ "ls", GROUP_COMPARE, FIELD_COMPARE, COMPARE_LE },
	{ "hi", GROUP_COMPARE, FIELD_COMPARE, COMPARE_GT },
	{ "hs", GROUP_COMPARE, FIELD_COMPARE, COMPARE_GE },
	{ "equ", GROUP_COMPARE, FIELD_COMPARE, COMPARE_EQU },
	{ "neu", GROUP_COMPARE, FIELD_COMPARE, COMPARE_NEU },
	{ "ltu", GROUP_COMPARE, FIELD_COMPARE, COMPARE_LTU },
	{ "leu", GROUP_COMPARE, FIELD_COMPARE, COMPARE_LEU },
	{ "gtu", GROUP_COMPARE, FIELD_COMPARE, COMPARE_GTU },
	{ "geu", GROUP_COMPARE, FIELD_COMPARE, COMPARE_GEU },
	{ "num", GROUP_COMPARE, FIELD_COMPARE, COMPARE_NUM },
	{ "nan", GROUP_COMPARE, FIELD_COMPARE, COMPARE_NAN },

	{ "global", GROUP_SPACE, FIELD_SPACE, SPACE_GLOBAL },
	{ "const", GROUP_SPACE, FIELD_SPACE, SPACE_CONST },
	{ "shared", GROUP_SPACE, FIELD_SPACE, SPACE_SHARED },
	{ "shared::cta", GROUP_SPACE, FIELD_SPACE, SPACE_SHARED },
	{ "local", GROUP_SPACE, FIELD_SPACE, SPACE_LOCAL },
	{ "param", GROUP_SPACE, FIELD_SPACE, SPACE_PARAM },
	{ "param::entry", GROUP_SPACE, FIELD_SPACE, SPACE_PARAM },
	{ "param::func", GROUP_SPACE, FIELD_SPACE, SPACE_PARAM },

	{ "v2", GROUP_VECTOR, FIELD_VECTOR, 2 },
	{ "v4", GROUP_VECTOR, FIELD_VECTOR, 4 },
	{ "v8", GROUP_VECTOR, FIELD_VECTOR, 8 },

	{ "and", GROUP_LOGIC | GROUP_ATOM | GROUP_REDUX | GROUP_BARRIER, FIELD_MODE, MODE_AND },
	{ "or", GROUP_LOGIC | GROUP_ATOM | GROUP_REDUX | GROUP_BARRIER, FIELD_MODE, MODE_OR },
	{ "xor", GROUP_LOGIC | GROUP_ATOM | GROUP_REDUX, FIELD_MODE, MODE_XOR },
	{ "add", GROUP_ATOM | GROUP_REDUX, FIELD_MODE, MODE_ADD },
	{ "min", GROUP_ATOM | GROUP_REDUX, FIELD_MODE, MODE_MIN },
	{ "max", GROUP_ATOM | GROUP_REDUX, FIELD_MODE, MODE_MAX },
	{ "inc", GROUP_ATOM, FIELD_MODE, MODE_INC },
	{ "dec", GROUP_ATOM, FIELD_MODE, MODE_DEC },
	{ "cas", GROUP_ATOM, FIELD_MODE, MODE_CAS },
	{ "exch", GROUP_ATOM, FIELD_MODE, MODE_EXCH },

	{ "up", GROUP_SHUFFLE, FIELD_MODE, MODE_UP },
	{ "down", GROUP_SHUFFLE, FIELD_MODE, MODE_DOWN },
	{ "bfly", GROUP_SHUFFLE, FIELD_MODE, MODE_BFLY },
	{ "idx", GROUP_SHUFFLE, FIELD_MODE, MODE_IDX },
	{ "all", GROUP_VOTE, FIELD_MODE, MODE_ALL },
	{ "any", GROUP_VOTE, FIELD_MODE, MODE_ANY },
	{ "uni", GROUP_VOTE, FIELD_MODE, MODE_UNI },
	{ "ballot", GROUP_VOTE, FIELD_MODE, MODE_BALLOT },
	{ "popc", GROUP_BARRIER, FIELD_MODE, MODE_POPC },

	{ "f4e", GROUP_PERMUTE, FIELD_MODE, MODE_F4E },
	{ "b4e", GROUP_PERMUTE, FIELD_MODE, MODE_B4E },
	{ "rc8", GROUP_PERMUTE, FIELD_MODE, MODE_RC8 },
	{ "ecl", GROUP_PERMUTE, FIELD_MODE, MODE_ECL },
	{ "ecr", GROUP_PERMUTE, FIELD_MODE, MODE_ECR },
	{ "rc16", GROUP_PERMUTE, FIELD_MODE, MODE_RC16 },
	{ "l", GROUP_SIDE, FIELD_MODE, MODE_L },
	{ "r", GROUP_SIDE, FIELD_MODE, MODE_R },
	{ "finite", GROUP_CLASS, FIELD_MODE, MODE_FINITE },
	{ "infinite", GROUP_CLASS, FIELD_MODE, MODE_INFINITE },
	{ "number", GROUP_CLASS, FIELD_MODE, MODE_NUMBER },
	{ "notanumber", GROUP_CLASS, FIELD_MODE, MODE_NOTANUMBER },
	{ "normal", GROUP_CLASS, FIELD_MODE, MODE_NORMAL },
	{ "subnormal", GROUP_CLASS, FIELD_MODE, MODE_SUBNORMAL },

	{ "weak", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "volatile", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "relaxed", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "acquire", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "release", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "acq_rel", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "sc", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "mmio", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "cta", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "cluster", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "gpu", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "gl", GROUP_ORDER, FIELD_NOTHING, 0 },
	{ "sys", GROUP_ORDER, FIELD_NOTHING, 0 },

	{ "ca", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "cg", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "cs", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "lu", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "cv", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "wb", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "wt", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "nc", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L1::evict_normal", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L1::evict_unchanged", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L1::evict_first", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L1::evict_last", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L1::no_allocate", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L2::64B", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L2::128B", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L2::256B", GROUP_CACHE, FIELD_NOTHING, 0 },
	{ "L1", GROUP_PREFETCH, FIELD_NOTHING, 0 },
	{ "L2", GROUP_PREFETCH, FIELD_NOTHING, 0 },
	{ "L2::evict_last", GROUP_PREFETCH, FIELD_NOTHING, 0 },
	{ "L2::evict_normal", GROUP_PREFETCH, FIELD_NOTHING, 0 },

	{ "ftz", GROUP_FTZ, FIELD_FLAG, FLAG_FTZ },
	{ "noftz", GROUP_NOFTZ, FIELD_FLAG, FLAG_NOFTZ },
	{ "sat", GROUP_SAT, FIELD_FLAG, FLAG_SAT },
	{ "satfinite", GROUP_SATFINITE, FIELD_FLAG, FLAG_SATFINITE },
	{ "approx", GROUP_APPROX, FIELD_FLAG, FLAG_APPROX },
	{ "full", GROUP_APPROX, FIELD_FLAG, FLAG_FULL },
	{ "cc", GROUP_CC, FIELD_FLAG, FLAG_CC },
	{ "NaN", GROUP_NAN, FIELD_FLAG, FLAG_NAN },
	{ "xorsign", GROUP_NAN, FIELD_FLAG, FLAG_XORSIGN },
	{ "abs", GROUP_NAN, FIELD_NOTHING, 0 },
	{ "relu", GROUP_RELU, FIELD_FLAG, FLAG_RELU },
	{ "wrap", GROUP_WRAP, FIELD_FLAG, FLAG_WRAP },
	{ "clamp", GROUP_WRAP, FIELD_FLAG, FLAG_CLAMP },
	{ "shiftamt", GROUP_WRAP, FIELD_FLAG, FLAG_SHIFTAMT },
	{ "uni", GROUP_UNIFORM, FIELD_NOTHING, 0 },
	{ "aligned", GROUP_SYNC, FIELD_FLAG, FLAG_ALIGNED },
};
/* clang-format on */

static void word_apply(const struct word *word, struct modifiers *mods)
{
	switch (word->field) {
	case FIELD_NOTHING:
		break;
	case FIELD_ROUNDING:
		mods->rounding = (enum rounding)word->value;
		break;
	case FIELD_INTEGRAL:
		mods->rounding = (enum rounding)word->value;
		mods->flags |= FLAG_INTEGRAL;
		break;
	case FIELD_COMPARE:
		mods->compare = (enum compare)word->value;
		break;
	case FIELD_SPACE:
		mods->space = (enum space)word->value;
		break;
	case FIELD_MODE:
		mods->mode = (enum mode)word->value;
		break;
	case FIELD_VECTOR:
		mods->n_vector = (unsigned char)word->value;
		break;
	case FIELD_FLAG:
		mods->flags |= word->value;
		break;
	}
}

bool modifier_take(struct modifiers *mods, uint32_t groups, const char *name,
		   size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const struct word *word = &words[i];

		if (!(word->groups & groups) || strlen(word->name) != length ||
		    memcmp(word->name, name, length))
			continue;
		word_apply(word, mods);
		mods->groups |= word->groups & groups;
		return true;
	}
	return false;
}
