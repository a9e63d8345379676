/* SPDX-License-Identifier: MIT */
/*
 * Loads and stores. A generic address says by its window which memory is meant; for
 * global memory the machine is asked, and each thread of the host remembers the last
 * windows until the machine's epoch changes.
 */
#include "access.h"
#include "cluster.h"
#include "table.h"

/* Inside a piece of memory of our own. */
static unsigned char *reach_own(unsigned char *base, uint64_t length, uint64_t offset,
				uint32_t size)
{
	return offset <= length && size <= length - offset ? base + offset : NULL;
}

static bool window_holds(const struct ptx_window *window, uint64_t address, uint32_t size,
			 bool write)
{
	return address >= window->start && address < window->end &&
	       size <= window->end - address && (window->writable || !write);
}

/* The grid's own workspace is memory too, though no machine's. */
static bool window_find(const struct worker *worker, uint64_t address, bool write,
			struct ptx_window *ret)
{
	const struct ptx_machine *machine = worker->grid->launch->machine;
	const uint64_t own = (uint64_t)(uintptr_t)worker->grid->workspace;

	if (address - own < sizeof(worker->grid->workspace)) {
		*ret = (struct ptx_window){ own, own + sizeof(worker->grid->workspace),
					    true };
		return true;
	}
	return machine->reach(machine->data, address, write, ret);
}

static unsigned char *reach_search(struct worker *worker, uint64_t address, uint32_t size,
				   bool write)
{
	struct ptx_window window;

	for (unsigned int i = 0; i < N_REACHES; i++) {
		if (!window_holds(&worker->reaches[i], address, size, write))
			continue;
		worker->last = i;
		return (unsigned char *)(uintptr_t)address;
	}
	if (!window_find(worker, address, write, &window) ||
	    !window_holds(&window, address, size, write))
		return NULL;
	worker->last = (worker->last + 1) % N_REACHES;
	worker->reaches[worker->last] = window;
	return (unsigned char *)(uintptr_t)address;
}

static unsigned char *reach_global(struct worker *worker, uint64_t address, uint32_t size,
				   bool write)
{
	const uint64_t *epoch = worker->grid->launch->machine->epoch;
	const uint64_t now = __atomic_load_n(epoch, __ATOMIC_ACQUIRE);

	if (now != worker->epoch) {
		memset(worker->reaches, 0, sizeof(worker->reaches));
		worker->epoch = now;
	}
	if (window_holds(&worker->reaches[worker->last], address, size, write))
		return (unsigned char *)(uintptr_t)address;
	return reach_search(worker, address, size, write);
}

static unsigned char *reach_param(struct warp *warp, bool in_frame, uint32_t lane,
				  uint64_t offset, uint32_t size, bool write)
{
	const struct ptx_launch *launch = warp->block->grid->launch;
	const struct frame *frame = warp->lanes[lane].frame;

	if (in_frame)
		return reach_own(frame->params +
					 (size_t)lane * frame->function->param_size,
				 frame->function->param_size, offset, size);
	if (write)
		return NULL;
	return reach_own((unsigned char *)(uintptr_t)launch->params,
			 launch->kernel->kernel.params_size, offset, size);
}

static unsigned char *reach_cluster(const struct block *block, uint64_t address,
				    uint32_t size)
{
	const uint64_t offset = address & (((uint64_t)1 << CLUSTER_RANK_SHIFT) - 1);
	uint32_t length = 0;
	unsigned char *shared = cluster_shared(block, address, &length);

	return shared ? reach_own(shared, length, offset, size) : NULL;
}

static unsigned char *reach_generic(struct warp *warp, uint32_t lane, uint64_t address,
				    uint32_t size, bool write)
{
	struct lane *self = &warp->lanes[lane];

	if (address < WINDOW_SHARED)
		return reach_global(warp->block->worker, address, size, write);
	if (address - WINDOW_SHARED < WINDOW_SIZE)
		return reach_own(warp->block->shared, warp->block->shared_size,
				 address - WINDOW_SHARED, size);
	if (address - WINDOW_LOCAL < WINDOW_SIZE)
		return reach_own(self->local, self->local_size, address - WINDOW_LOCAL,
				 size);
	if (address - WINDOW_CLUSTER < WINDOW_SIZE)
		return reach_cluster(warp->block, address - WINDOW_CLUSTER, size);
	if (address - WINDOW_PARAM < WINDOW_SIZE)
		return reach_param(warp, false, lane, address - WINDOW_PARAM, size,
				   write);
	return NULL;
}

unsigned char *access_reach(struct warp *warp, const struct op *op, uint32_t lane,
			    uint64_t address, uint32_t size, enum access_way way)
{
	const struct access access = { way, op->mods.space, lane, size, address };
	const bool write = way != ACCESS_LOAD;
	struct lane *self = &warp->lanes[lane];
	unsigned char *at = NULL;

	if (address & (size - 1)) {
		warp_fault_at(warp, PTX_FAULT_MISALIGNED, &access);
		return NULL;
	}
	switch (op->mods.space) {
	case SPACE_GENERIC:
		at = reach_generic(warp, lane, address, size, write);
		break;
	case SPACE_GLOBAL:
	case SPACE_CONST:
		if (address < WINDOW_SHARED)
			at = reach_global(warp->block->worker, address, size, write);
		break;
	case SPACE_SHARED:
		at = reach_own(warp->block->shared, warp->block->shared_size,
			       (uint32_t)address, size);
		break;
	case SPACE_LOCAL:
		at = reach_own(self->local, self->local_size, (uint32_t)address, size);
		break;
	case SPACE_PARAM:
		at = reach_param(warp, op->in_frame, lane, address, size, write);
		break;
	}
	if (!at)
		warp_fault_at(warp, PTX_FAULT_ADDRESS, &access);
	return at;
}

char *access_string(struct warp *warp, uint32_t lane, uint64_t address, size_t limit)
{
	char *copy = malloc(limit + 1);
	size_t n = 0;

	while (copy && n < limit) {
		const unsigned char *at =
			reach_generic(warp, lane, address + n, 1, false);

		if (!at) {
			warp_fault_at(warp, PTX_FAULT_ADDRESS,
				      &(struct access){ ACCESS_LOAD, SPACE_GENERIC, lane,
							1, address + n });
			free(copy);
			return NULL;
		}
		copy[n] = (char)access_load(at, 1);
		if (!copy[n])
			break;
		n++;
	}
	if (copy)
		copy[n] = '\0';
	return copy;
}

/* GCC's thread sanitizer does not know fences, but knows read-modify-writes of a place.
 */
void access_fence(void)
{
	static int fence;

	__atomic_fetch_add(&fence, 1, __ATOMIC_SEQ_CST);
}

/* Into a register that may be wider than the loaded value. */
static uint64_t load_extend(const struct op *op, uint64_t value)
{
	const unsigned int bits = type_bits(op->type);

	if (!type_is_signed(op->type) || bits == 64)
		return value;
	value = (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits));
	return op->register_bits == 64 ? value
				       : value & (((uint64_t)1 << op->register_bits) - 1);
}

/*
 * The window used last, where a lane's address will mostly be too; an empty window where
 * the op is not of global memory.
 */
static struct ptx_window window_last(const struct warp *warp, const struct op *op)
{
	const struct worker *worker = warp->block->worker;
	const uint64_t *epoch = worker->grid->launch->machine->epoch;
	const bool is_global = op->mods.space <= SPACE_CONST;

	if (!is_global || __atomic_load_n(epoch, __ATOMIC_ACQUIRE) != worker->epoch)
		return (struct ptx_window){ 0 };
	return worker->reaches[worker->last];
}

/* access_reach(), without a call where the window fits. */
static inline unsigned char *reach(struct warp *warp, const struct op *op, uint32_t lane,
				   uint64_t address, bool write,
				   struct ptx_window *window)
{
	const uint32_t size = type_size(op->type) * op->n_vector;
	unsigned char *at;

	if (window_holds(window, address, size, write) && !(address & (size - 1)))
		return (unsigned char *)(uintptr_t)address;
	at = access_reach(warp, op, lane, address, size,
			  write ? ACCESS_STORE : ACCESS_LOAD);
	*window = window_last(warp, op);
	return at;
}

static void load(const struct op *op, const unsigned char *at, struct warp *warp,
		 uint32_t lane)
{
	const uint32_t size = type_size(op->type);

	for (unsigned int n = 0; n < op->n_vector; n++)
		warp_register(warp, op->vector[n])[lane] =
			load_extend(op, access_load(at + n * size, size));
}

/* A parameter of the kernel at a fixed place: the same for all lanes. */
static bool is_fixed_param(const struct op *op)
{
	return op->mods.space == SPACE_PARAM && !op->in_frame &&
	       op->source[0].is_constant;
}

static void ld_param(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t address = warp_source(warp, op, 0)[0] + (uint64_t)op->offset;
	const unsigned char *at =
		access_reach(warp, op, (uint32_t)__builtin_ctz(mask), address,
			     type_size(op->type) * op->n_vector, ACCESS_LOAD);

	if (!at)
		return;
	EACH_LANE(i, mask)
	load(op, at, warp, i);
}

static void ld(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *address = warp_source(warp, op, 0);
	struct ptx_window window = window_last(warp, op);

	if (is_fixed_param(op)) {
		ld_param(warp, op, mask);
		return;
	}
	EACH_LANE(i, mask)
	{
		const unsigned char *at = reach(
			warp, op, i, address[i] + (uint64_t)op->offset, false, &window);

		if (!at)
			return;
		load(op, at, warp, i);
	}
}

static void st(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint32_t size = type_size(op->type);
	const uint64_t *address = warp_source(warp, op, 0);
	struct ptx_window window = window_last(warp, op);

	EACH_LANE(i, mask)
	{
		unsigned char *at = reach(warp, op, i, address[i] + (uint64_t)op->offset,
					  true, &window);

		if (!at)
			return;
		for (unsigned int n = 0; n < op->n_vector; n++)
			access_store(at + n * size, size,
				     warp_register(warp, op->vector[n])[i]);
	}
}

static void fence(struct warp *warp, const struct op *op, uint32_t mask)
{
	(void)warp;
	(void)op;
	(void)mask;
	access_fence();
}

/* There is no cache to fill. */
static void prefetch(struct warp *warp, const struct op *op, uint32_t mask)
{
	(void)warp;
	(void)op;
	(void)mask;
}

#define MEMORY                                                          \
	(TYPE_BIT(TYPE_B8) | TYPE_BIT(TYPE_U8) | TYPE_BIT(TYPE_S8) |    \
	 TYPE_BIT(TYPE_B16) | TYPE_BIT(TYPE_U16) | TYPE_BIT(TYPE_S16) | \
	 TYPE_BIT(TYPE_B32) | TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32) | \
	 TYPE_BIT(TYPE_B64) | TYPE_BIT(TYPE_U64) | TYPE_BIT(TYPE_S64) | \
	 TYPE_BIT(TYPE_F32) | TYPE_BIT(TYPE_F64))
#define WAYS (GROUP_SPACE | GROUP_VECTOR | GROUP_ORDER | GROUP_CACHE)

/* clang-format off */
static const struct instruction instructions[] = {
		{ "ld", "vm", WAYS, .handler = ld, .types = MEMORY },
	{ "ldu", "vm", WAYS, .handler = ld, .types = MEMORY },
	{ "st", "mV", WAYS, .handler = st, .types = MEMORY },
	{ "membar", "", GROUP_ORDER, GROUP_ORDER, .handler = fence },
	{ "fence", "", GROUP_ORDER, GROUP_ORDER, .handler = fence },
	{ "fence.proxy.alias", "", .handler = fence },
	{ "prefetch", "m", GROUP_SPACE | GROUP_PREFETCH, .handler = prefetch },
	{ "prefetchu", "m", GROUP_PREFETCH, .handler = prefetch },
};
/* clang-format on */

FAMILY(memory);
