/* SPDX-License-Identifier: MIT */
/*
 * printf and assert, as the compiler calls them.
 *
 * vprintf takes a format and a block of arguments, each at a multiple of its own size
 * there: integers of 4 or 8 bytes as the conversion says, numbers as doubles, strings as
 * addresses. The text is made here, when the kernel runs.
 */
#include "builtin.h"

#include "access.h"

#include <stdio.h>

#define STRING_MAX 4096

static const struct {
	const char *name;
	enum builtin builtin;
} builtins[] = {
	{ "vprintf", BUILTIN_VPRINTF },
	{ "__assertfail", BUILTIN_ASSERTFAIL },
};

enum builtin builtin_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(builtins); i++)
		if (!strcmp(builtins[i].name, name))
			return builtins[i].builtin;
	return BUILTIN_NONE;
}

/* An argument of the running group's call: a register, or parameter memory. */
static uint64_t argument(struct warp *warp, const struct call *call, size_t n,
			 uint32_t lane)
{
	const struct argument *part = &call->parts[call->n_results + n];
	uint64_t value = 0;

	if (part->operand.index >= 0)
		return warp_register(warp, part->operand)[lane];
	memcpy(&value,
	       warp->frame->params + (size_t)lane * warp->frame->function->param_size +
		       part->offset,
	       MIN(part->size, (uint32_t)sizeof(value)));
	return value;
}

static void result(struct warp *warp, const struct call *call, uint32_t lane, int value)
{
	const struct argument *part = &call->parts[0];

	if (!call->n_results)
		return;
	if (part->operand.index >= 0)
		warp_register(warp, part->operand)[lane] = (uint32_t)value;
	else
		memcpy(warp->frame->params +
			       (size_t)lane * warp->frame->function->param_size +
			       part->offset,
		       &value, sizeof(value));
}

/* A printf of a single lane. */
struct print {
	struct warp *warp;
	uint32_t lane;
	uint64_t arguments; /* the address of the next */
	int n_done;
	struct text text;
};

/* The next argument. Returns: false after a fault. */
static bool print_take(struct print *print, uint32_t size, uint64_t *ret)
{
	const struct op op = { .mods.space = SPACE_GENERIC };
	const unsigned char *at;

	print->arguments = align_up(print->arguments, size);
	at = access_reach(print->warp, &op, print->lane, print->arguments, size,
			  ACCESS_LOAD);
	if (!at)
		return false;
	*ret = access_load(at, size);
	print->arguments += size;
	print->n_done++;
	return true;
}

static bool print_string(struct print *print, const char *format)
{
	_cleanup_free_ char *string = NULL;
	uint64_t address;

	if (!print_take(print, 8, &address))
		return false;
	if (!address) {
		text_printf(&print->text, "%s", "(null)");
		return true;
	}
	string = access_string(print->warp, print->lane, address, STRING_MAX);
	if (!string)
		return false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	text_printf(&print->text, format, string);
#pragma GCC diagnostic pop
	return true;
}

/* One conversion: % flags width .precision, with the length and the letter apart. */
struct conversion {
	char format[48];
	size_t length;
	bool is_wide; /* l, ll, j, z, t */
	unsigned int n_short;
	char letter;
};

static void conversion_add(struct conversion *conversion, char c)
{
	if (conversion->length < sizeof(conversion->format) - 4)
		conversion->format[conversion->length++] = c;
}

/* Width and precision may be arguments too. */
static bool conversion_star(struct print *print, struct conversion *conversion)
{
	char number[16];
	uint64_t value;

	if (!print_take(print, 4, &value))
		return false;
	snprintf(number, sizeof(number), "%d", (int)(uint32_t)value);
	for (const char *c = number; *c; c++)
		conversion_add(conversion, *c);
	return true;
}

/* Returns: the text behind the conversion, or NULL after a fault. */
static const char *conversion_read(struct print *print, const char *at,
				   struct conversion *ret)
{
	*ret = (struct conversion){ 0 };
	conversion_add(ret, '%');
	for (at++; *at && strchr("-+ #0123456789.*", *at); at++) {
		if (*at != '*')
			conversion_add(ret, *at);
		else if (!conversion_star(print, ret))
			return NULL;
	}
	for (; *at && strchr("hljztL", *at); at++) {
		ret->is_wide |= *at != 'h' && *at != 'L';
		ret->n_short += *at == 'h';
	}
	ret->letter = *at;
	return *at ? at + 1 : at;
}

static bool print_integer(struct print *print, struct conversion *conversion)
{
	const bool is_signed = conversion->letter == 'd' || conversion->letter == 'i';
	uint64_t value;

	if (!print_take(print, conversion->is_wide ? 8 : 4, &value))
		return false;
	if (!conversion->is_wide && is_signed)
		value = (uint64_t)(int64_t)(int32_t)value;
	if (conversion->n_short == 1)
		value = is_signed ? (uint64_t)(int64_t)(int16_t)value : (uint16_t)value;
	if (conversion->n_short > 1)
		value = is_signed ? (uint64_t)(int64_t)(int8_t)value : (uint8_t)value;
	conversion_add(conversion, 'l');
	conversion_add(conversion, 'l');
	conversion_add(conversion, conversion->letter);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	text_printf(&print->text, conversion->format, (unsigned long long)value);
#pragma GCC diagnostic pop
	return true;
}

static bool print_number(struct print *print, struct conversion *conversion)
{
	uint64_t bits;
	double value;

	if (!print_take(print, 8, &bits))
		return false;
	memcpy(&value, &bits, sizeof(value));
	conversion_add(conversion, conversion->letter);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	text_printf(&print->text, conversion->format, value);
#pragma GCC diagnostic pop
	return true;
}

static bool print_other(struct print *print, struct conversion *conversion)
{
	const char letter = conversion->letter;
	uint64_t value;

	if (letter == 's') {
		conversion_add(conversion, 's');
		return print_string(print, conversion->format);
	}
	if (letter == '%') {
		text_add(&print->text, "%", 1);
		return true;
	}
	if (letter != 'c' && letter != 'p') {
		/* Text that is not a conversion is printed unchanged. */
		text_add(&print->text, conversion->format, conversion->length);
		text_add(&print->text, &letter, letter != '\0');
		return true;
	}
	if (!print_take(print, letter == 'p' ? 8 : 4, &value))
		return false;
	conversion_add(conversion, letter);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (letter == 'p')
		text_printf(&print->text, conversion->format, (void *)(uintptr_t)value);
	else
		text_printf(&print->text, conversion->format, (int)(uint32_t)value);
#pragma GCC diagnostic pop
	return true;
}

static bool print_conversion(struct print *print, struct conversion *conversion)
{
	if (conversion->letter && strchr("diouxX", conversion->letter))
		return print_integer(print, conversion);
	if (conversion->letter && strchr("eEfFgGaA", conversion->letter))
		return print_number(print, conversion);
	return print_other(print, conversion);
}

static bool print_format(struct print *print, const char *format)
{
	while (*format) {
		const size_t plain = strcspn(format, "%");
		struct conversion conversion;

		text_add(&print->text, format, plain);
		format += plain;
		if (!*format)
			break;
		format = conversion_read(print, format, &conversion);
		if (!format || !print_conversion(print, &conversion))
			return false;
	}
	return true;
}

static bool vprintf_lane(struct warp *warp, const struct call *call, uint32_t lane)
{
	const struct ptx_machine *machine = warp->block->grid->launch->machine;
	const uint64_t address = argument(warp, call, 0, lane);
	_cleanup_free_ char *format = NULL;
	struct print print = {
		.warp = warp,
		.lane = lane,
		.arguments = argument(warp, call, 1, lane),
	};
	bool done;

	if (!address) {
		result(warp, call, lane, -1);
		return true;
	}
	format = access_string(warp, lane, address, STRING_MAX);
	if (!format)
		return false;
	done = print_format(&print, format);
	if (done) {
		machine->print(machine->data, text_string(&print.text),
			       print.text.length);
		result(warp, call, lane, print.n_done);
	}
	text_deinit(&print.text);
	return done;
}

/* FILE:LINE: FUNCTION: block: [...], thread: [...] Assertion `...` failed. */
static void assert_lane(struct warp *warp, const struct call *call, uint32_t lane)
{
	const struct ptx_machine *machine = warp->block->grid->launch->machine;
	const struct ptx_dim block = warp->block->index;
	_cleanup_text_ struct text text = TEXT_INIT;
	char *words[3] = { NULL };
	static const size_t places[] = { 0, 1, 3 }; /* message, file, function */

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = access_string(
			warp, lane, argument(warp, call, places[i], lane), STRING_MAX);
	text_printf(&text,
		    "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` "
		    "failed.\n",
		    words[1] ? words[1] : "?", (uint32_t)argument(warp, call, 2, lane),
		    words[2] ? words[2] : "?", block.x, block.y, block.z,
		    warp->tid[0][lane], warp->tid[1][lane], warp->tid[2][lane],
		    words[0] ? words[0] : "?");
	machine->complain(machine->data, text_string(&text), text.length);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		free(words[i]);
}

void builtin_call(struct warp *warp, enum builtin builtin, const struct call *call,
		  uint32_t mask)
{
	const bool is_assert = builtin == BUILTIN_ASSERTFAIL;

	if (call->n_arguments < (is_assert ? 5U : 2U)) {
		warp_fault(warp, PTX_FAULT_TRAP);
		return;
	}
	EACH_LANE(i, mask)
	{
		if (is_assert)
			assert_lane(warp, call, i);
		else if (!vprintf_lane(warp, call, i))
			return;
	}
	if (is_assert)
		warp_fault(warp, PTX_FAULT_ASSERT);
}
