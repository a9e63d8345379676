/* SPDX-License-Identifier: MIT */
/* The words between an instruction's name and the types: .rn, .ftz, .global, .lt. */
#pragma once

#include "base/def.h"

enum rounding {
	ROUND_NONE,
	ROUND_RN,
	ROUND_RZ,
	ROUND_RM,
	ROUND_RP,
	ROUND_RNA,
};

enum compare {
	COMPARE_NONE,
	COMPARE_EQ,
	COMPARE_NE,
	COMPARE_LT,
	COMPARE_LE,
	COMPARE_GT,
	COMPARE_GE,
	COMPARE_EQU,
	COMPARE_NEU,
	COMPARE_LTU,
	COMPARE_LEU,
	COMPARE_GTU,
	COMPARE_GEU,
	COMPARE_NUM,
	COMPARE_NAN,
};

enum space {
	SPACE_GENERIC,
	SPACE_GLOBAL,
	SPACE_CONST,
	SPACE_SHARED,
	SPACE_LOCAL,
	SPACE_PARAM,
};

/* A mode of each kind of instruction; the meaning depends on the group. */
enum mode {
	MODE_NONE,
	MODE_AND,
	MODE_OR,
	MODE_XOR,
	MODE_ADD,
	MODE_MIN,
	MODE_MAX,
	MODE_INC,
	MODE_DEC,
	MODE_CAS,
	MODE_EXCH,
	MODE_UP,
	MODE_DOWN,
	MODE_BFLY,
	MODE_IDX,
	MODE_ALL,
	MODE_ANY,
	MODE_UNI,
	MODE_BALLOT,
	MODE_POPC,
	MODE_L,
	MODE_R,
	MODE_F4E,
	MODE_B4E,
	MODE_RC8,
	MODE_ECL,
	MODE_ECR,
	MODE_RC16,
	MODE_FINITE,
	MODE_INFINITE,
	MODE_NUMBER,
	MODE_NOTANUMBER,
	MODE_NORMAL,
	MODE_SUBNORMAL,
};

enum flag {
	FLAG_FTZ = 1 << 0,
	FLAG_SAT = 1 << 1,
	FLAG_APPROX = 1 << 2,
	FLAG_FULL = 1 << 3,
	FLAG_CC = 1 << 4,
	FLAG_NAN = 1 << 5,
	FLAG_XORSIGN = 1 << 6, /* .xorsign.abs: both words give it */
	FLAG_RELU = 1 << 7,
	FLAG_WRAP = 1 << 9,
	FLAG_CLAMP = 1 << 10,
	FLAG_SHIFTAMT = 1 << 11,
	FLAG_INTEGRAL = 1 << 12, /* .rni and its like */
	FLAG_SATFINITE = 1 << 13,
	FLAG_NOFTZ = 1 << 14,
	FLAG_ALIGNED = 1 << 15,
};

/* Sets of words, of which an instruction allows some. */
enum group {
	GROUP_ROUND = 1 << 0,	 /* rn rz rm rp rna */
	GROUP_INTEGRAL = 1 << 1, /* rni rzi rmi rpi */
	GROUP_COMPARE = 1 << 2,	 /* eq ... nan */
	GROUP_LOGIC = 1 << 3,	 /* and or xor */
	GROUP_SPACE = 1 << 4,	 /* global ... param */
	GROUP_VECTOR = 1 << 5,	 /* v2 v4 v8 */
	GROUP_ATOM = 1 << 7,	 /* add ... exch */
	GROUP_SHUFFLE = 1 << 8,	 /* up down bfly idx */
	GROUP_VOTE = 1 << 9,	 /* all any uni ballot popc */
	GROUP_BARRIER = 1 << 10, /* and or popc */
	GROUP_PERMUTE = 1 << 11, /* f4e ... rc16 */
	GROUP_SIDE = 1 << 12,	 /* l r */
	GROUP_CLASS = 1 << 13,	 /* finite ... subnormal */
	GROUP_ORDER = 1 << 14,	 /* relaxed ... and scopes */
	GROUP_CACHE = 1 << 15,	 /* ca ... nc, L2::128B: no effect on results */
	GROUP_FTZ = 1 << 16,
	GROUP_SAT = 1 << 17,
	GROUP_APPROX = 1 << 18, /* approx full */
	GROUP_CC = 1 << 19,
	GROUP_NAN = 1 << 20, /* NaN xorsign abs */
	GROUP_RELU = 1 << 21,
	GROUP_WRAP = 1 << 23,	 /* wrap clamp shiftamt */
	GROUP_UNIFORM = 1 << 24, /* uni */
	GROUP_SYNC = 1 << 25,	 /* aligned */
	GROUP_REDUX = 1 << 26,	 /* add min max and or xor */
	GROUP_NOFTZ = 1 << 27,
	GROUP_SATFINITE = 1 << 28,
	GROUP_PREFETCH = 1 << 29, /* L1 L2 */
};

struct modifiers {
	enum rounding rounding;
	enum compare compare;
	enum space space;
	enum mode mode;
	unsigned char n_vector; /* 0: no vector */
	uint32_t flags;
	uint32_t groups; /* bits of the groups with a word in the instruction */
};

/*
 * Takes a word into the modifiers, of the groups that are allowed.
 *
 * Returns: whether there is such a word.
 */
bool modifier_take(struct modifiers *mods, uint32_t groups, const char *word,
		   size_t length);
