/* SPDX-License-Identifier: MIT */
/* PTX text as tokens. */
#pragma once

#include "base/def.h"

enum token_kind {
	TOKEN_END,
	TOKEN_NAME,   /* a name or register: add, %r1, $L__BB0_2, L1::evict_last */
	TOKEN_DOT,    /* a dot with a name behind it: .global, .x; the text has no dot */
	TOKEN_INT,    /* value */
	TOKEN_FLOAT,  /* number; 0f and 0d literals too */
	TOKEN_STRING, /* without its quotes */
	TOKEN_SIGN,   /* any other character */
	TOKEN_BAD,
};

struct token {
	enum token_kind kind;
	const char *text; /* in the source */
	size_t length;
	unsigned int line;
	uint64_t value; /* TOKEN_INT; of a TOKEN_FLOAT its bits */
	double number;	/* TOKEN_FLOAT */
	bool single;	/* value has the bits of a float, not of a double */
};

struct lexer {
	const char *at;
	const char *end;
	unsigned int line;
	struct token token; /* the current token */
};

/* Starts at the first token of a text. The text must outlive the tokens. */
void lexer_init(struct lexer *lexer, const char *text, size_t length);

/* Goes on to the next token; stays at TOKEN_END and at TOKEN_BAD. */
void lexer_next(struct lexer *lexer);

bool token_is(const struct token *token, enum token_kind kind, const char *text);

static inline bool token_is_sign(const struct token *token, char sign)
{
	return token->kind == TOKEN_SIGN && *token->text == sign;
}
