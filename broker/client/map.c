/* SPDX-License-Identifier: MIT */
/*
 * Maps: leased and mapped allocations, with reference counts, holds and suspension.
 *
 * An allocation has one address, so a program maps it once: a later gpumem_map() returns
 * the same map, with one more reference. Only GPUMEM_ANY_ADDRESS makes a map of its own.
 *
 * All maps are in one list, so that a child after fork can end its leases: a lease lives
 * as long as any process has its descriptor.
 */
#include "client/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utlist.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a map's stage is no longer MAP_CHANGING */
	struct gpumem_map *all; /* lock */
} maps = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

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

	pthread_cond_init(&maps.changed, NULL);
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

/* Ends MAP_CHANGING. */
static void map_settle(struct gpumem_map *map, enum map_stage stage)
{
	maps_lock();
	map->stage = stage;
	pthread_cond_broadcast(&maps.changed);
	maps_unlock();
}

static void map_free(struct gpumem_map *map)
{
	maps_lock();
	DL_DELETE(maps.all, map);
	lease_close(&map->lease);
	pthread_cond_broadcast(&maps.changed);
	maps_unlock();
	session_unref(map->gpumem);
	free(map);
}

/* ---- an allocation that is mapped already ---- */

/* The file system's number: a broker that was started again counts its ids anew. */
static dev_t lease_mount(const struct lease *lease)
{
	struct statx now;

	/* without a question to the broker: the number never changes */
	if (statx(lease->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &now) < 0)
		return 0;
	return makedev(now.stx_dev_major, now.stx_dev_minor);
}

/* Takes a reference, unless the last one has just gone. */
static bool map_ref_alive(struct gpumem_map *map)
{
	unsigned int n_refs = __atomic_load_n(&map->n_refs, __ATOMIC_RELAXED);

	while (n_refs &&
	       !__atomic_compare_exchange_n(&map->n_refs, &n_refs, n_refs + 1, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
	return n_refs;
}

/* The map of the same allocation at its own address, under maps_lock. */
static struct gpumem_map *map_find(const struct gpumem_map *map)
{
	struct gpumem_map *other;

	DL_FOREACH (maps.all, other) {
		if (other->stage == MAP_NEW || other->mount != map->mount ||
		    other->id != map->id || other->gpumem->forked)
			continue;
		if (other->stage == MAP_CHANGING ||
		    other->memory.pointer == map->lease.mapped_address)
			break;
	}
	return other;
}

/* Returns: 1: referenced; 0: gone in this moment; -EADDRINUSE. */
static int map_share(struct gpumem_map *map, unsigned int flags)
{
	unsigned int missing = flags & ~map->flags & (GPUMEM_WRITE | GPUMEM_REGISTER);
	const char *how = map->stage == MAP_SUSPENDED ? "suspended"
			  : missing & GPUMEM_WRITE    ? "mapped for reading only"
			  : missing		      ? "mapped without GPUMEM_REGISTER"
						      : NULL;

	if (how)
		return error_set(
			EADDRINUSE,
			"%s is %s in this program: close that map first, or map "
			"it with GPUMEM_ANY_ADDRESS (in Python any_address=True)",
			map->lease.name, how);
	if (!map_ref_alive(map))
		return 0;
	map->n_maps++;
	return 1;
}

/*
 * Finds a map to share for a new map that is leased. Two threads may map an allocation at
 * the same time: the second waits here until the first has finished.
 *
 * Returns: 1: *ret is shared; 0: there is none, and map is MAP_CHANGING; -EADDRINUSE.
 */
static int map_join(struct gpumem_map *map, struct gpumem_map **ret)
{
	dev_t mount = lease_mount(&map->lease);
	struct gpumem_map *other = NULL;
	int r = 0;

	maps_lock();
	map->mount = mount;
	map->id = map->lease.id;
	while ((other = map_find(map))) {
		bool changing = other->stage == MAP_CHANGING;

		/* A map that needs the address must not find this one there. */
		if (!changing && map->flags & GPUMEM_ANY_ADDRESS)
			break;
		r = changing ? 0 : map_share(other, map->flags);
		if (r != 0)
			break;
		pthread_cond_wait(&maps.changed, &maps.lock);
	}
	if (r == 0)
		map->stage = MAP_CHANGING;
	maps_unlock();
	if (r > 0)
		*ret = other;
	return r;
}

/* ---- map, unmap ---- */

static int map_memory(struct gpumem_map *map, const struct lease *lease)
{
	int fd = lease_redeem(lease), r;

	if (fd < 0)
		return fd;
	r = memory_map(&map->memory, lease, fd, map->flags);
	close(fd);
	return r;
}

/* Returns: 0: map is leased and mapped; 1: *ret is another map, to be shared. */
static int map_take(struct gpumem_map *map, const char *name, struct gpumem_map **ret)
{
	int r = lease_open(&map->lease, map->gpumem, name, map->flags & GPUMEM_WRITE);

	if (r == 0)
		r = map_join(map, ret);
	if (r != 0)
		return r;
	r = map_memory(map, &map->lease);
	if (r < 0)
		memory_release(&map->memory);
	map_settle(map, r == 0 ? MAP_MAPPED : MAP_NEW);
	return r;
}

EXPORT int gpumem_map(struct gpumem_map **ret, struct gpumem *gpumem, const char *name,
		      unsigned int flags)
{
	const unsigned int known = GPUMEM_WRITE | GPUMEM_ANY_ADDRESS | GPUMEM_REGISTER;
	struct gpumem_map *map, *taken;
	int r;

	if (flags & ~known)
		return error_set(EINVAL, "gpumem_map has no flag 0x%x", flags & ~known);
	if (gpumem->forked)
		return error_set(ECHILD, "this session is the parent's: open one here");
	map = taken = calloc(1, sizeof(*map));
	if (!map)
		return error_set(ENOMEM, "no memory");
	map->flags = flags;
	map->n_maps = 1;
	map->n_refs = 1;
	map->gpumem = session_ref(gpumem);
	map->lease = (struct lease)LEASE_CLOSED;
	maps_lock();
	DL_APPEND(maps.all, map);
	maps_unlock();
	r = map_take(map, name, &taken);
	if (r != 0)
		map_free(map);
	if (r < 0)
		return r;
	*ret = taken;
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

/*
 * Decides whether this is the last use of the map, which is MAP_CHANGING then if the
 * streams are settled. Until then references of gpumem_end() do not count; afterwards
 * they are work in another context.
 *
 * Returns: 0: the last; 1: others share the map, the reference is released; -EBUSY.
 */
static int map_leave(struct gpumem_map *map, bool settled)
{
	unsigned int n_refs;
	bool gone = false;
	int r = 0;

	maps_lock();
	n_refs = __atomic_load_n(&map->n_refs, __ATOMIC_ACQUIRE);
	n_refs -= settled ? 0 : map->n_ending;
	if (n_refs > 1 && map->n_maps > 1) {
		map->n_maps--;
		gone = __atomic_sub_fetch(&map->n_refs, 1, __ATOMIC_ACQ_REL) == 0;
		r = 1;
	} else if (n_refs > 1) {
		r = error_set(EBUSY, "%u others have references to %s", n_refs - 1,
			      map->lease.name);
	} else if (settled) {
		map->stage = MAP_CHANGING;
	}
	maps_unlock();
	if (gone)
		map_gone(map);
	return r;
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
		r = map_leave(map, false);
	if (r == 0)
		r = memory_synchronize(&map->memory);
	if (r == 0)
		r = map_leave(map, true);
	if (r != 0)
		return MIN(r, 0);
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

/*
 * Takes over what changes. The rest was checked when it was mapped, and other threads
 * that share the map read it without the lock. *now becomes the whole.
 */
static void map_news(struct gpumem_map *map, struct lease *now)
{
	maps_lock();
	memcpy(map->lease.name, now->name, sizeof(now->name));
	map->lease.generation = now->generation;
	map->lease.state = now->state;
	*now = map->lease;
	maps_unlock();
}

EXPORT int gpumem_info(struct gpumem_map *map, struct gpumem_info *ret)
{
	struct lease lease;
	bool suspended;
	int r = map_check(map);

	if (r < 0)
		return r;
	maps_lock();
	lease = map->lease;
	maps_unlock();
	suspended = lease.fd < 0;
	if (!suspended && lease_changed(&lease)) {
		r = lease_read(&lease, map->gpumem);
		map_news(map, &lease);
	}
	if (r < 0)
		return r;
	*ret = (struct gpumem_info){
		.pointer = suspended ? NULL : (void *)map_pointer(map),
		.address = lease.address,
		.size = lease.size,
		.mapped_size = lease.mapped_size,
		.id = lease.id,
		.generation = lease.generation,
		.device = map->memory.device,
		.kind = lease.kind,
		.state = suspended ? GPUMEM_SUSPENDED : lease.state,
		.writable = lease.write,
	};
	if (lease.kind == GPUMEM_DEVICE)
		memcpy(ret->uuid, lease.uuid, sizeof(ret->uuid));
	memcpy(ret->name, lease.name, sizeof(ret->name));
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

/* Arrays and gpumem_end() have references, too, but only maps keep others mapped. */
static int map_is_alone(struct gpumem_map *map, enum map_stage stage)
{
	int r = 0;

	maps_lock();
	if (map->n_maps > 1 && __atomic_load_n(&map->n_refs, __ATOMIC_ACQUIRE) > 1)
		r = error_set(EBUSY,
			      "%s is mapped %u times in this program: close the other "
			      "maps first",
			      map->lease.name, map->n_maps);
	else
		map->stage = stage;
	maps_unlock();
	return r;
}

EXPORT int gpumem_suspend(struct gpumem_map *map)
{
	int r = map_check(map);

	if (r < 0 || map->lease.fd < 0)
		return r;
	/* checked before the wait, too */
	r = map_is_alone(map, MAP_MAPPED);
	if (r == 0)
		r = memory_synchronize(&map->memory);
	if (r == 0)
		r = map_is_alone(map, MAP_CHANGING);
	if (r < 0)
		return r;
	map_give_up(map);
	map_settle(map, MAP_SUSPENDED);
	return 0;
}

/* Checks that the allocation is the same as before, or may replace it. */
static int map_same(const struct gpumem_map *map, const struct lease *was,
		    unsigned int flags)
{
	const struct lease *now = &map->lease;

	if (now->id != was->id && !(flags & GPUMEM_FOLLOW))
		return error_set(ESTALE, "%s is another allocation now (id %llu)",
				 now->name, (unsigned long long)now->id);
	/* Whoever takes the name of freed memory would get what this program writes. */
	if (now->id != was->id && map->flags & GPUMEM_WRITE && now->owner != was->owner)
		return error_set(ESTALE, "%s belongs to uid %u now: map it anew to write",
				 now->name, now->owner);
	if (now->kind != was->kind || now->mapped_size != was->mapped_size ||
	    lease_offset(now) != lease_offset(was) || strcmp(now->uuid, was->uuid) != 0)
		return error_set(ESTALE, "%s has another size, kind, guard or device now",
				 now->name);
	return 0;
}

/* Maps the memory of a new lease. On failure the map keeps its old lease. */
static int map_take_again(struct gpumem_map *map, const struct lease *now,
			  unsigned int flags)
{
	const struct lease was = map->lease;
	dev_t mount = lease_mount(now);
	int r;

	maps_lock();
	map->lease = *now;
	r = map_same(map, &was, flags);
	if (r < 0)
		map->lease = was;
	else
		map->stage = MAP_CHANGING;
	maps_unlock();
	if (r < 0)
		return r;
	r = map_memory(map, now);
	if (r < 0)
		memory_unmap(&map->memory);
	maps_lock();
	if (r < 0) {
		map->lease = was;
	} else {
		map->mount = mount;
		map->id = now->id;
	}
	maps_unlock();
	map_settle(map, r == 0 ? MAP_MAPPED : MAP_SUSPENDED);
	return r;
}

EXPORT int gpumem_resume(struct gpumem_map *map, unsigned int flags)
{
	struct lease now;
	int r = map_check(map);

	if (r < 0 || map->lease.fd >= 0)
		return r;
	r = lease_open(&now, map->gpumem, map->lease.name, map->flags & GPUMEM_WRITE);
	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	r = map_take_again(map, &now, flags);
	if (r < 0)
		lease_close(&now);
	return r;
}
