/* SPDX-License-Identifier: MIT */
/*
 * Faults: the first one ends the grid, and is explained in words: the access, the line of
 * the source if the compiler noted lines (nvcc -lineinfo), the block and the thread.
 */
#include "warp.h"

static const char *const ways[] = {
	[ACCESS_LOAD] = "load",
	[ACCESS_STORE] = "store",
	[ACCESS_ATOMIC] = "atomic operation",
};

static const char *const others[] = {
	[PTX_FAULT_ADDRESS] = "a call that no function takes, or too deep a call",
	[PTX_FAULT_MISALIGNED] = "a misaligned address",
	[PTX_FAULT_TRAP] = "a trap",
	[PTX_FAULT_ASSERT] = "a failed assertion",
	[PTX_FAULT_MEMORY] = "the host has too little memory",
};

static bool is_shared(const struct access *access)
{
	return access->space == SPACE_SHARED ||
	       (access->space == SPACE_GENERIC &&
		access->address - WINDOW_SHARED < WINDOW_SIZE);
}

static bool is_local(const struct access *access)
{
	return access->space == SPACE_LOCAL ||
	       (access->space == SPACE_GENERIC &&
		access->address - WINDOW_LOCAL < WINDOW_SIZE);
}

static void access_print(const struct warp *warp, const struct access *access,
			 struct text *text)
{
	text_printf(text, "%s of %u byte%s at ", ways[access->way], access->size,
		    access->size == 1 ? "" : "s");
	if (is_shared(access))
		text_printf(text, "byte %u of shared memory, which has %u",
			    (uint32_t)access->address, warp->block->shared_size);
	else if (is_local(access))
		text_printf(text, "byte %u of local memory, which has %u",
			    (uint32_t)access->address,
			    warp->lanes[access->lane].local_size);
	else
		text_printf(text, "0x%llx", (unsigned long long)access->address);
}

static const char *file_name(const struct ptx_module *module, uint32_t number)
{
	const struct source *source = module->sources;

	while (source && source->number != number)
		source = source->next;
	return source ? source->name : "?";
}

/* Of the op that runs. */
static void place_print(const struct warp *warp, struct text *text)
{
	const struct ptx_function *function = warp->frame->function;
	const struct op *op = &function->ops[warp->pc ? warp->pc - 1 : 0];
	const struct place *place;

	if (!op->place) {
		text_printf(text, "line %u of the PTX", op->line);
		return;
	}
	place = &function->places[op->place - 1];
	text_printf(text, "%s:%u", file_name(function->module, place->file), place->line);
	if (place->to_line)
		text_printf(text, ", inlined at %s:%u",
			    file_name(function->module, place->to_file), place->to_line);
}

static void fault_explain(const struct warp *warp, enum ptx_fault fault,
			  const struct access *access)
{
	const struct ptx_machine *machine = warp->block->grid->launch->machine;
	const struct ptx_dim block = warp->block->index;
	uint32_t lane = warp->mask ? (uint32_t)__builtin_ctz(warp->mask) : 0;
	_cleanup_text_ struct text text = TEXT_INIT;

	if (!machine->explain)
		return;
	if (access) {
		lane = access->lane;
		text_printf(&text, "%s",
			    fault == PTX_FAULT_MISALIGNED  ? "a misaligned "
			    : access->way == ACCESS_ATOMIC ? "an "
							   : "a ");
		access_print(warp, access, &text);
	} else {
		text_printf(&text, "%s", others[fault]);
	}
	text_printf(&text, ", ");
	place_print(warp, &text);
	text_printf(&text, ", block %u,%u,%u, thread %u,%u,%u", block.x, block.y, block.z,
		    warp->tid[0][lane], warp->tid[1][lane], warp->tid[2][lane]);
	machine->explain(machine->data, text_string(&text), text.length);
}

void warp_fault_at(struct warp *warp, enum ptx_fault fault, const struct access *access)
{
	int none = PTX_FAULT_NONE;

	if (__atomic_compare_exchange_n(&warp->block->grid->fault, &none, (int)fault,
					false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		fault_explain(warp, fault, access);
	warp->leave = true;
	warp->ready = 0;
	warp->mask = 0;
}

void warp_fault(struct warp *warp, enum ptx_fault fault)
{
	warp_fault_at(warp, fault, NULL);
}
