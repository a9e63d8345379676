/* SPDX-License-Identifier: MIT */
/*
 * Tokens of PTX. The number of the line goes into every token, for later error messages.
 */
#include "lexer.h"

#include <ctype.h>
#include <string.h>

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static char peek(const struct lexer *lexer, size_t ahead)
{
	return (size_t)(lexer->end - lexer->at) > ahead ? lexer->at[ahead] : '\0';
}

static void skip_line(struct lexer *lexer)
{
	while (lexer->at < lexer->end && *lexer->at != '\n')
		lexer->at++;
}

static void skip_comment(struct lexer *lexer)
{
	lexer->at += 2;
	while (lexer->at < lexer->end &&
	       !(peek(lexer, 0) == '*' && peek(lexer, 1) == '/'))
		lexer->line += *lexer->at++ == '\n';
	lexer->at += MIN((size_t)2, (size_t)(lexer->end - lexer->at));
}

static void skip_blank(struct lexer *lexer)
{
	for (;;) {
		const char c = peek(lexer, 0);

		if (c == '/' && peek(lexer, 1) == '/') {
			skip_line(lexer);
		} else if (c == '/' && peek(lexer, 1) == '*') {
			skip_comment(lexer);
		} else if (c && isspace((unsigned char)c)) {
			lexer->line += c == '\n';
			lexer->at++;
		} else {
			return;
		}
	}
}

static size_t name_length(const struct lexer *lexer, size_t from)
{
	size_t n = from;

	for (;;) {
		if (is_name(peek(lexer, n)))
			n++;
		else if (peek(lexer, n) == ':' && peek(lexer, n + 1) == ':')
			n += 2;
		else
			return n;
	}
}

static int digit(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

/* Returns: the number of digits, 0 where the value doesn't fit 64 bits. */
static size_t read_digits(const struct lexer *lexer, size_t from, unsigned int base,
			  uint64_t *ret)
{
	size_t n = 0;

	*ret = 0;
	while (digit(peek(lexer, from + n)) < (int)base) {
		const unsigned int d = (unsigned int)digit(peek(lexer, from + n));

		if (__builtin_mul_overflow(*ret, base, ret) ||
		    __builtin_add_overflow(*ret, d, ret))
			return 0;
		n++;
	}
	return n;
}

/* 0f or 0d and the bits in hex. */
static bool read_bits(struct lexer *lexer, struct token *token)
{
	const char kind = (char)tolower((unsigned char)peek(lexer, 1));
	const size_t n_digits = kind == 'f' ? 8 : 16;
	uint64_t bits;
	uint32_t low;
	float single;

	if (peek(lexer, 0) != '0' || (kind != 'f' && kind != 'd') ||
	    read_digits(lexer, 2, 16, &bits) != n_digits)
		return false;
	token->kind = TOKEN_FLOAT;
	token->length = 2 + n_digits;
	token->value = bits;
	if (kind == 'd') {
		memcpy(&token->number, &bits, sizeof(bits));
		return true;
	}
	token->single = true;
	low = (uint32_t)bits;
	memcpy(&single, &low, sizeof(low));
	token->number = (double)single;
	return true;
}

static bool read_decimal(const struct lexer *lexer, struct token *token)
{
	char copy[64];
	size_t n = 0;
	char *end;

	while (n < sizeof(copy) - 1 &&
	       (isalnum((unsigned char)peek(lexer, n)) ||
		(peek(lexer, n) && strchr(".+-", peek(lexer, n)))))
		n++;
	memcpy(copy, lexer->at, n);
	copy[n] = '\0';
	token->kind = TOKEN_FLOAT;
	token->number = strtod(copy, &end);
	memcpy(&token->value, &token->number, sizeof(token->value));
	token->length = (size_t)(end - copy);
	return true;
}

static bool read_number(struct lexer *lexer, struct token *token)
{
	const char second = (char)tolower((unsigned char)peek(lexer, 1));
	unsigned int base = 10;
	size_t from = 0, n;

	if (read_bits(lexer, token))
		return true;
	if (peek(lexer, 0) == '0' && (second == 'x' || second == 'b')) {
		base = second == 'x' ? 16 : 2;
		from = 2;
	} else if (peek(lexer, 0) == '0' && isdigit((unsigned char)second)) {
		base = 8;
		from = 1;
	}
	n = read_digits(lexer, from, base, &token->value);
	if (base == 10 && (peek(lexer, n) == '.' || tolower(peek(lexer, n)) == 'e'))
		return read_decimal(lexer, token);
	token->kind = TOKEN_INT;
	token->length = from + n;
	if (toupper((unsigned char)peek(lexer, token->length)) == 'U')
		token->length++;
	return n && !is_name(peek(lexer, token->length));
}

static bool read_string(const struct lexer *lexer, struct token *token)
{
	size_t n = 1;

	while (peek(lexer, n) && peek(lexer, n) != '"' && peek(lexer, n) != '\n')
		n++;
	if (peek(lexer, n) != '"')
		return false;
	token->kind = TOKEN_STRING;
	token->text++;
	token->length = n - 1;
	return true;
}

static bool read_token(struct lexer *lexer, struct token *token)
{
	const char c = peek(lexer, 0);

	if (lexer->at == lexer->end)
		return true;
	if (isdigit((unsigned char)c))
		return read_number(lexer, token);
	if (c == '"')
		return read_string(lexer, token);
	if (c == '.' && is_name(peek(lexer, 1))) {
		token->kind = TOKEN_DOT;
		token->text++;
		token->length = name_length(lexer, 1) - 1;
	} else if (is_name(c)) {
		token->kind = TOKEN_NAME;
		token->length = name_length(lexer, 0);
	} else {
		token->kind = TOKEN_SIGN;
		token->length = 1;
		return isprint((unsigned char)c);
	}
	return true;
}

void lexer_next(struct lexer *lexer)
{
	struct token *token = &lexer->token;

	if (token->kind == TOKEN_BAD)
		return;
	skip_blank(lexer);
	*token = (struct token){ .text = lexer->at, .line = lexer->line };
	if (!read_token(lexer, token)) {
		token->kind = TOKEN_BAD;
		token->length = MAX(token->length, (size_t)1);
		return;
	}
	lexer->at = token->text + token->length + (token->kind == TOKEN_STRING);
}

void lexer_init(struct lexer *lexer, const char *text, size_t length)
{
	*lexer = (struct lexer){ .at = text, .end = text + length, .line = 1 };
	lexer_next(lexer);
}

bool token_is(const struct token *token, enum token_kind kind, const char *text)
{
	return token->kind == kind && strlen(text) == token->length &&
	       !memcmp(token->text, text, token->length);
}
