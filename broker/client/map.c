/* SPDX-License-Identifier: MIT */
/*
 * Maps: leased and mapped allocations, with reference counts, holds and suspension.
 *
 * All maps are in one list, so that a child after fork can end its leases: a lease lives
 * as long as any process has its descriptor.
 */
#include "client/private.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

static struct {
	pthread_mutex_t lock;
	struct gpumem_map *all; /* lock */
} maps = { .lock = PTHREAD_MUTEX_INITIALIZER };

void maps_lock(void)
{
	pthread_mutex_lock(&maps.lock);
}

void maps_unlock(void)
{
	pthread_mutex_unlock(&maps.lock);
}

bool maps_claim(struct memory *memory, uint64_t address)
{
	const struct gpumem_map *map;
	bool taken = false;

	maps_lock();
	DL_FOREACH (maps.all, map)
		taken |= map->memory.reserved && map->memory.pointer == address;
	if (!taken) {
		memory->pointer = address;
		memory->reserved = true;
	}
	maps_unlock();
	return !taken;
}

void maps_disclaim(struct memory *memory)
{
	maps_lock();
	memory->pointer = 0;
	memory->reserved = false;
	maps_unlock();
}

void maps_forget(void)
{
	struct gpumem_map *map;

	DL_FOREACH (maps.all, map)
		lease_close(&map->lease);
}

static int map_check(const struct gpumem_map *map)
{
	if (map->gpumem->forked)
		return error_set(ECHILD, "%s is mapped in the parent only: map it here",
				 map->lease.name);
	return 0;
}

/* Leases and maps the allocation, at the reserved address if any. */
static int map_take(struct gpumem_map *map, const char *name)
{
	bool write = map->flags & GPUMEM_WRITE;
	int fd, r;

	r = lease_open(&map->lease, map->gpumem, name, write);
	if (r < 0)
		return r;
	fd = lease_redeem(&map->lease);
	if (fd < 0) {
		lease_close(&map->lease);
		return fd;
	}
	r = memory_map(&map->memory, &map->lease, fd, map->flags);
	close(fd);
	if (r < 0) {
		memory_unmap(&map->memory);
		lease_close(&map->lease);
	}
	return r;
}

static void map_free(struct gpumem_map *map)
{
	maps_lock();
	DL_DELETE(maps.all, map);
	lease_close(&map->lease);
	maps_unlock();
	session_unref(map->gpumem);
	free(map);
}

EXPORT int gpumem_map(struct gpumem_map **ret, struct gpumem *gpumem, const char *name,
		      unsigned int flags)
{
	const unsigned int known = GPUMEM_WRITE | GPUMEM_ANY_ADDRESS | GPUMEM_REGISTER;
	struct gpumem_map *map;
	int r;

	if (flags & ~known)
		return error_set(EINVAL, "gpumem_map has no flag 0x%x", flags & ~known);
	if (gpumem->forked)
		return error_set(ECHILD, "this session is the parent's: open one here");
	map = calloc(1, sizeof(*map));
	if (!map)
		return error_set(ENOMEM, "no memory");
	map->flags = flags;
	map->n_refs = 1;
	map->gpumem = session_ref(gpumem);
	map->lease = (struct lease)LEASE_CLOSED;
	maps_lock();
	DL_APPEND(maps.all, map);
	maps_unlock();
	r = map_take(map, name);
	if (r < 0) {
		memory_release(&map->memory);
		map_free(map);
		return r;
	}
	*ret = map;
	return 0;
}

EXPORT struct gpumem_map *gpumem_ref(struct gpumem_map *map)
{
	__atomic_add_fetch(&map->n_refs, 1, __ATOMIC_RELAXED);
	return map;
}

static void map_gone(struct gpumem_map *map)
{
	/* Host memory unknown to the GPU has no users left. */
	if (map->memory.device < 0 && !map->memory.registered)
		memory_release(&map->memory);
	map_free(map);
}

EXPORT struct gpumem_map *gpumem_unref(struct gpumem_map *map)
{
	if (map && __atomic_sub_fetch(&map->n_refs, 1, __ATOMIC_ACQ_REL) == 0)
		map_gone(map);
	return NULL;
}

/* Once streams are settled, a reference of gpumem_end() is work in another context. */
static int map_is_shared(const struct gpumem_map *map, bool settled)
{
	unsigned int n_refs;

	maps_lock();
	n_refs = __atomic_load_n(&map->n_refs, __ATOMIC_ACQUIRE);
	n_refs -= settled ? 0 : map->n_ending;
	maps_unlock();
	if (n_refs == 1)
		return 0;
	return error_set(EBUSY, "%u others have references to %s", n_refs - 1,
			 map->lease.name);
}

static void map_give_up(struct gpumem_map *map)
{
	memory_unmap(&map->memory);
	maps_lock();
	lease_close(&map->lease);
	maps_unlock();
	map->begun = false;
}

EXPORT int gpumem_unmap(struct gpumem_map *map)
{
	int r = map_check(map);

	/* checked before the wait, so that live arrays cost no wait */
	if (r == 0)
		r = map_is_shared(map, false);
	if (r == 0)
		r = memory_synchronize(&map->memory);
	if (r == 0)
		r = map_is_shared(map, true);
	if (r < 0)
		return r;
	map_give_up(map);
	memory_release(&map->memory);
	map_free(map);
	return 0;
}

/* Where the allocation begins in its mapping. */
static uint64_t lease_offset(const struct lease *lease)
{
	return lease->address - lease->mapped_address;
}

uint64_t map_pointer(const struct gpumem_map *map)
{
	return map->memory.pointer + lease_offset(&map->lease);
}

EXPORT int gpumem_info(struct gpumem_map *map, struct gpumem_info *ret)
{
	const struct lease *lease = &map->lease;
	bool suspended = lease->fd < 0;
	int r = map_check(map);

	if (r == 0 && !suspended && lease_changed(&map->lease))
		r = lease_read(&map->lease, map->gpumem);
	if (r < 0)
		return r;
	*ret = (struct gpumem_info){
		.pointer = suspended ? NULL : (void *)map_pointer(map),
		.address = lease->address,
		.size = lease->size,
		.mapped_size = lease->mapped_size,
		.id = lease->id,
		.generation = lease->generation,
		.device = map->memory.device,
		.kind = lease->kind,
		.state = suspended ? GPUMEM_SUSPENDED : lease->state,
		.writable = lease->write,
	};
	if (lease->kind == GPUMEM_DEVICE)
		snprintf(ret->uuid, sizeof(ret->uuid), "%s", lease->uuid);
	snprintf(ret->name, sizeof(ret->name), "%s", lease->name);
	return 0;
}

/* ---- holding ---- */

/*
 * Waits until the stream of an earlier gpumem_end() has given the hold back. A futex,
 * since a signal must be able to end the wait.
 *
 * Returns: 0; -EINTR.
 */
static int map_wait_ended(struct gpumem_map *map)
{
	uint32_t n;

	while ((n = __atomic_load_n(&map->n_ending, __ATOMIC_ACQUIRE)))
		if (syscall(SYS_futex, &map->n_ending, FUTEX_WAIT_PRIVATE, n, NULL) < 0 &&
		    errno == EINTR)
			return error_set(EINTR, "a signal ended the wait for the stream "
						"of an earlier gpumem_end");
	return 0;
}

EXPORT int gpumem_begin(struct gpumem_map *map, unsigned int flags)
{
	int r = map_check(map);

	if (r < 0)
		return r;
	if (flags & ~(unsigned int)GPUMEM_WRITE)
		return error_set(EINVAL, "gpumem_begin takes GPUMEM_WRITE or 0");
	r = map_wait_ended(map);
	if (r == 0)
		r = lease_hold(&map->lease, map->gpumem,
			       flags & GPUMEM_WRITE ? GPUMEM_HOLD_WRITE
						    : GPUMEM_HOLD_READ);
	if (r == 0)
		map->begun = true;
	return r;
}

/* A reference for gpumem_end(). Unlike an array, the reference does not keep the map
 * mapped. */
static void map_ref_ending(struct gpumem_map *map)
{
	maps_lock();
	gpumem_ref(map);
	__atomic_add_fetch(&map->n_ending, 1, __ATOMIC_RELEASE);
	maps_unlock();
}

static void map_unref_ending(struct gpumem_map *map)
{
	unsigned int n_refs;

	maps_lock();
	__atomic_sub_fetch(&map->n_ending, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &map->n_ending, FUTEX_WAKE_PRIVATE, INT_MAX);
	n_refs = __atomic_sub_fetch(&map->n_refs, 1, __ATOMIC_ACQ_REL);
	maps_unlock();
	if (n_refs == 0)
		map_gone(map);
}

static void map_end(void *userdata)
{
	struct gpumem_map *map = userdata;

	map->begun = false;
	(void)lease_hold(&map->lease, map->gpumem, GPUMEM_HOLD_NONE);
	map_unref_ending(map);
}

EXPORT int gpumem_end(struct gpumem_map *map, void *stream)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	struct cuda_driver *driver;
	CUcontext context = NULL;
	int r = map_check(map);

	if (r < 0)
		return r;
	if (!map->begun)
		return error_set(EINVAL, "%s was not begun", map->lease.name);
	if ((map->memory.device >= 0 || map->memory.registered) &&
	    memory_driver(&driver) == 0)
		(void)CUDA(driver, NULL, cuCtxGetCurrent, &context);
	map_ref_ending(map);
	if (!context) {
		map_end(map);
		return 0;
	}
	if (CUDA(driver, &failure, cuLaunchHostFunc, stream, map_end, map) == 0)
		return 0;
	/* A lost context runs no work any more, and no host function. */
	if (cuda_result_is_sticky(failure.result)) {
		map_end(map);
		return 0;
	}
	map_unref_ending(map);
	return error_set(EIO, "%s: %s", cuda_call_name(failure.call),
			 cuda_result_name(failure.result));
}

/* ---- given up for a while ---- */

EXPORT int gpumem_suspend(struct gpumem_map *map)
{
	int r = map_check(map);

	if (r == 0)
		r = memory_synchronize(&map->memory);
	if (r == 0 && map->lease.fd >= 0)
		map_give_up(map);
	return r;
}

/* Checks that the allocation is the same as before, or may replace it. */
static int map_same(const struct gpumem_map *map, const struct lease *was,
		    unsigned int flags)
{
	const struct lease *now = &map->lease;

	if (now->id != was->id && !(flags & GPUMEM_FOLLOW))
		return error_set(ESTALE, "%s is another allocation now (id %llu)",
				 now->name, (unsigned long long)now->id);
	if (now->kind != was->kind || now->mapped_size != was->mapped_size ||
	    lease_offset(now) != lease_offset(was) || strcmp(now->uuid, was->uuid) != 0)
		return error_set(ESTALE, "%s has another size, kind, guard or device now",
				 now->name);
	return 0;
}

EXPORT int gpumem_resume(struct gpumem_map *map, unsigned int flags)
{
	const struct lease was = map->lease;
	struct lease now;
	int fd, r = map_check(map);

	if (r < 0)
		return r;
	if (was.fd >= 0)
		return 0;
	r = lease_open(&now, map->gpumem, was.name, map->flags & GPUMEM_WRITE);
	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	map->lease = now;
	r = map_same(map, &was, flags);
	fd = r == 0 ? lease_redeem(&now) : r;
	r = fd < 0 ? fd : memory_map(&map->memory, &now, fd, map->flags);
	if (fd >= 0)
		close(fd);
	if (r == 0)
		return 0;
	memory_unmap(&map->memory);
	map->lease = was;
	lease_close(&now);
	return r;
}
