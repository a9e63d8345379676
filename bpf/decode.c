/* SPDX-License-Identifier: MIT */
/*
 * Writes parameters by their type, as the rows of calls.h say.
 */
#include "decode.h"

#include "function.h"

#include <gpumem/cuda.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void field_set(struct field *field, bool is_number, const char *format, ...)
	_printf_(3, 4);

static void field_set(struct field *field, bool is_number, const char *format, ...)
{
	va_list arguments;

	field->is_number = is_number;
	va_start(arguments, format);
	vsnprintf(field->value, sizeof field->value, format, arguments);
	va_end(arguments);
}

static void word_or_number(const char *const *words, size_t n, uint64_t value,
			   char *ret_text, size_t size)
{
	if (value < n && words[value])
		snprintf(ret_text, size, "%s", words[value]);
	else
		snprintf(ret_text, size, "%" PRIu64, value);
}

static void decode_device(uint64_t value, char *ret_text, size_t size)
{
	int device = (int)value;

	if (device == CU_DEVICE_CPU)
		snprintf(ret_text, size, "cpu");
	else
		snprintf(ret_text, size, "device:%d", device);
}

void decode_location(uint64_t value, char *ret_text, size_t size)
{
	unsigned int type = (unsigned int)value;
	int id = (int)(value >> 32);

	switch (type) {
	case 1: /* CU_MEM_LOCATION_TYPE_DEVICE ... */
		snprintf(ret_text, size, "device:%d", id);
		break;
	case 2:
		snprintf(ret_text, size, "cpu");
		break;
	case 3:
		snprintf(ret_text, size, "numa:%d", id);
		break;
	case 4:
		snprintf(ret_text, size, "numa:current");
		break;
	default:
		snprintf(ret_text, size, "%u:%d", type, id);
		break;
	}
}

void decode_advice(uint64_t value, char *ret_text, size_t size)
{
	static const char *const words[] = {
		[CU_MEM_ADVISE_SET_READ_MOSTLY] = "set_read_mostly",
		[CU_MEM_ADVISE_UNSET_READ_MOSTLY] = "unset_read_mostly",
		[CU_MEM_ADVISE_SET_PREFERRED_LOCATION] = "set_preferred_location",
		[CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION] = "unset_preferred_location",
		[CU_MEM_ADVISE_SET_ACCESSED_BY] = "set_accessed_by",
		[CU_MEM_ADVISE_UNSET_ACCESSED_BY] = "unset_accessed_by",
	};

	word_or_number(words, ARRAY_SIZE(words), (uint32_t)value, ret_text, size);
}

static void decode_prot(uint64_t value, char *ret_text, size_t size)
{
	static const char *const words[] = {
		[CU_MEM_ACCESS_FLAGS_PROT_NONE] = "none",
		[CU_MEM_ACCESS_FLAGS_PROT_READ] = "read",
		[CU_MEM_ACCESS_FLAGS_PROT_READWRITE] = "readwrite",
	};

	word_or_number(words, ARRAY_SIZE(words), (uint32_t)value, ret_text, size);
}

static void decode_handle_type(uint64_t value, char *ret_text, size_t size)
{
	static const char *const words[] = {
		[CU_MEM_HANDLE_TYPE_NONE] = "none",
		[CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR] = "posix_fd",
		[CU_MEM_HANDLE_TYPE_WIN32] = "win32",
		[CU_MEM_HANDLE_TYPE_WIN32_KMT] = "win32_kmt",
		[8] = "fabric",
	};

	word_or_number(words, ARRAY_SIZE(words), (uint32_t)value, ret_text, size);
}

/* A result of a call: the first or the second of the record. */
static uint64_t result_of(const struct record *record, size_t param)
{
	return record->out[calls_table[record->call].info.out[0] == param ? 0 : 1];
}

static void decode_function(const struct record *record, uint64_t handle,
			    const struct functions *functions, struct field *field)
{
	const char *name = function_name(functions, record->process, handle);

	if (name)
		field_set(field, false, "%s", name);
	else
		field_set(field, false, "0x%" PRIx64, handle);
}

/* Returns: false if there is nothing to show. */
static bool decode_param(const struct record *record, size_t i,
			 const struct functions *functions, struct field *field)
{
	const struct call *call = &calls_table[record->call];
	enum param_type type = call->params[i].type;
	uint64_t value = record->args[i];

	field->name = call->params[i].name;
	field->is_number = false;
	switch (type) {
	case PARAM_SKIP:
	case N_PARAM_TYPES:
		return false;
	case PARAM_OUT:
	case PARAM_OUT4:
		if (record->result)
			return false;
		field_set(field, false, "0x%" PRIx64, result_of(record, i));
		return true;
	case PARAM_OUTFD:
	case PARAM_PITCH:
		if (record->result)
			return false;
		field_set(field, true, "%" PRIu64, result_of(record, i));
		return true;
	case PARAM_PTR4:
		value = (uint32_t)value;
		/* fall through */
	case PARAM_PTR:
	case PARAM_EXTENT2:
	case PARAM_EXTENT3:
		field_set(field, false, "0x%" PRIx64, value);
		return true;
	case PARAM_FUNCTION:
		decode_function(record, value, functions, field);
		return true;
	case PARAM_SIZE:
	case PARAM_ELEM2:
	case PARAM_ELEM4:
	case PARAM_TIMES:
	case PARAM_COUNT:
		field_set(field, true, "%" PRIu64, value);
		return true;
	case PARAM_SIZE4:
	case PARAM_UINT:
		field_set(field, true, "%" PRIu32, (uint32_t)value);
		return true;
	case PARAM_INT:
		field_set(field, true, "%" PRId32, (int32_t)value);
		return true;
	case PARAM_HEX:
		field_set(field, false, "0x%" PRIx32, (uint32_t)value);
		return true;
	case PARAM_DEVICE:
		decode_device(value, field->value, sizeof field->value);
		return true;
	case PARAM_LOCATION:
		decode_location(value, field->value, sizeof field->value);
		return true;
	case PARAM_ADVICE:
		decode_advice(value, field->value, sizeof field->value);
		return true;
	case PARAM_PROT:
		decode_prot(value, field->value, sizeof field->value);
		return true;
	case PARAM_HANDLETYPE:
		decode_handle_type(value, field->value, sizeof field->value);
		return true;
	case PARAM_TEXT:
		if (record->type != RECORD_TEXT)
			return false;
		field_set(field, false, "%.*s", TEXT_SIZE,
			  ((const struct record_text *)record)->text);
		return true;
	}
	return false;
}

static void add_number(struct field *fields, size_t *n, const char *name, uint64_t value)
{
	fields[*n].name = name;
	field_set(&fields[*n], true, "%" PRIu64, value);
	++*n;
}

/* The effect of a call on the ledger. */
static size_t decode_outcome(const struct record *record, struct field *fields)
{
	const struct call *call = &calls_table[record->call];
	size_t n = 0;

	if (call->op == OP_COPY_STRUCT || call->info.pitched)
		add_number(fields, &n, "bytes", record->bytes);
	if (record->flags & RECORD_UNKNOWN) {
		fields[n].name = "kind";
		field_set(&fields[n++], false, "unknown");
	}
	if (!(record->flags & (RECORD_BOOKED | RECORD_FREED)))
		return n;
	if (record->memory < N_MEMORIES) {
		fields[n].name = "kind";
		field_set(&fields[n++], false, "%s", call_memory_name(record->memory));
	}
	if (record->flags & RECORD_FREED)
		add_number(fields, &n, "freed", record->bytes);
	if (record->imported)
		add_number(fields, &n, "imported", record->imported);
	if (record->n_freed)
		add_number(fields, &n, "n_freed", record->n_freed);
	if (record->memory < N_MEMORIES)
		add_number(fields, &n, "held", record->held);
	return n;
}

size_t decode_fields(const struct record *record, const struct functions *functions,
		     struct field fields[FIELDS_MAX])
{
	const struct call *call = &calls_table[record->call];
	size_t n = 0;

	for (size_t i = 0; i < call->n_params; i++)
		n += decode_param(record, i, functions, &fields[n]);
	return n + decode_outcome(record, fields + n);
}
