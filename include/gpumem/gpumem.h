/* SPDX-License-Identifier: MIT */
/*
 * libgpumem: memory of a gpumem mount in a CUDA program.
 *
 *	struct gpumem *gpus;
 *	struct gpumem_map *weights;
 *	struct gpumem_info info;
 *
 *	if (gpumem_open(&gpus, NULL) < 0 ||
 *	    gpumem_map(&weights, gpus, "weights", 0) < 0 ||
 *	    gpumem_info(weights, &info) < 0)
 *		errx(1, "%s", gpumem_error());
 *	kernel<<<grid, block>>>((const float *)info.pointer, info.size / 4);
 *
 * Every function that can fail returns 0 or a negative errno; gpumem_error() then has a
 * sentence. The library never prints and never ends the program.
 *
 * The CUDA driver is the one that the program has loaded, else libcuda.so.1, or the library
 * that $GPUMEM_DRIVER names. It is loaded when device memory is first mapped. The library
 * calls cuInit, and makes no context: have one current where a function says so.
 *
 * Threads: any function may be called from any thread; a struct gpumem_map must not be
 * used by one thread while another unmaps or suspends it.
 *
 * fork: the child has no leases. Its sessions and maps answer ECHILD, but for
 * gpumem_close() and gpumem_unref(); device memory is not mapped there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gpumem;	   /* a session: one mount */
struct gpumem_map; /* an allocation, leased and mapped; counted */

enum gpumem_flag {
	GPUMEM_WRITE = 1 << 0,	     /* for writing too; else mapped for reading only */
	GPUMEM_ANY_ADDRESS = 1 << 1, /* another address than the allocation's will do */
	GPUMEM_REGISTER = 1 << 2,    /* host memory: the GPU may use it (page-locked) */
	GPUMEM_FOLLOW = 1 << 3,	     /* gpumem_resume(): what has the name now */
};

enum gpumem_kind {
	GPUMEM_DEVICE,
	GPUMEM_HOST,
};

enum gpumem_state {
	GPUMEM_LIVE,
	GPUMEM_FREED,	  /* its name is gone; the memory stays while it is mapped */
	GPUMEM_ENDING,	  /* the broker has ended; the memory stays while it is mapped */
	GPUMEM_SUSPENDED, /* by gpumem_suspend() */
};

struct gpumem_info {
	void *pointer;	      /* where it is mapped here; of device memory a CUdeviceptr.
				 NULL while it is suspended */
	uint64_t address;     /* the allocation's own, the same in every program */
	uint64_t size;	      /* bytes, as it was allocated */
	uint64_t mapped_size; /* bytes that are mapped: size, rounded up */
	uint64_t id;	      /* never used again for another allocation of the mount */
	uint32_t generation;
	int device;	  /* the driver's ordinal in this program; -1: host memory */
	char uuid[48];	  /* of the device, GPU-...; "" for host memory */
	char name[65];	  /* when the lease was last read */
	uint8_t kind;	  /* enum gpumem_kind */
	uint8_t state;	  /* enum gpumem_state */
	uint8_t writable; /* 0 or 1 */
};

/*
 * Opens the mount at a path. NULL: $GPUMEM_MOUNT, else the only one that this machine has.
 *
 * Returns: 0; -ENOENT (no mount there, or none at all); -ENOTUNIQ (several: name one);
 * -ENOMEM; or what opening its files gives. The caller closes it.
 */
int gpumem_open(struct gpumem **ret, const char *mount);

/* Closes the session; its maps stay until they are let go of. Takes NULL. */
void gpumem_close(struct gpumem *gpumem);

/*
 * Writes a line to a file of the mount ("control/alloc", "x 4G") and reads the answer, a
 * string, into answer; NULL, 0: no answer is wanted. A longer one is cut off. Allocations
 * made with until=close live as long as the session.
 *
 * Returns: 0; a negative errno of the line, with the broker's sentence.
 */
int gpumem_command(struct gpumem *gpumem, const char *file, const char *line,
		   char *answer, size_t size);

/*
 * Leases an allocation and maps it: GPUMEM_WRITE, GPUMEM_ANY_ADDRESS, GPUMEM_REGISTER.
 * Waits for writes that were asked for before; a signal ends the wait (-EINTR). Device
 * memory is mapped for the allocation's device and for its peers.
 *
 * Returns: 0; -ENOENT; -EACCES (its mode or `map` does not let this user); -EOPNOTSUPP
 * (a kind that can't be leased); -EADDRINUSE (its address is taken in this program, as by
 * an earlier map of the same allocation: GPUMEM_ANY_ADDRESS); -ENODEV (its device is not
 * visible to this program); -EPROTO (the broker is of another version); -ENOTCONN (the
 * mount is gone); -ECHILD; -ENOMEM; -EIO (the driver refused; the sentence has the call).
 * The caller unmaps or unrefs it.
 */
int gpumem_map(struct gpumem_map **ret, struct gpumem *gpumem, const char *name,
	       unsigned int flags);

/*
 * A map is counted, so that arrays made of it can keep it. Letting go of the last
 * reference ends the lease but never unmaps: kernels may still be under way. Device
 * memory whose last reference has gone stays mapped until the program ends.
 * gpumem_unref() takes NULL and returns NULL.
 */
struct gpumem_map *gpumem_ref(struct gpumem_map *map);
struct gpumem_map *gpumem_unref(struct gpumem_map *map);

/*
 * Unmaps, ends the lease and lets go of the caller's reference. Waits for all work of the
 * current context (else of the device's primary one) first.
 *
 * Returns: 0; -EBUSY, and nothing is done, while others have references or while a stream
 * is being captured.
 */
int gpumem_unmap(struct gpumem_map *map);

/* Returns: 0; -ECHILD; or what reading the lease gives. */
int gpumem_info(struct gpumem_map *map, struct gpumem_info *ret);

/*
 * Takes a place in the order of uses: GPUMEM_WRITE for writing, else for reading. The
 * map must be writable in either case, as a lease that can be written to is. Waits for
 * its turn; other programs, `data`, copies and launches of the broker wait until
 * gpumem_end().
 *
 * Returns: 0; -EACCES; -EBUSY (it has begun already); -EINTR; -ESTALE (freed).
 */
int gpumem_begin(struct gpumem_map *map, unsigned int flags);

/*
 * Gives the place up: at once, or when all work queued on the stream so far is done.
 * stream is a CUstream (NULL: the default one) of the current context, and looked at
 * only where there is one.
 */
int gpumem_end(struct gpumem_map *map, void *stream);

/*
 * gpumem_suspend() gives the memory up and keeps its address reserved; gpumem_resume()
 * takes it again at the same pointer. With GPUMEM_FOLLOW what has the allocation's name
 * now, else the same allocation only.
 *
 * Returns: 0; as gpumem_unmap() and gpumem_map(); -ESTALE when the allocation has gone,
 * is another one or has another size.
 */
int gpumem_suspend(struct gpumem_map *map);
int gpumem_resume(struct gpumem_map *map, unsigned int flags);

/* The sentence of the last failure in this thread; valid until its next call. */
const char *gpumem_error(void);

#ifdef __cplusplus
}
#endif
