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
 * Every function that can fail returns 0 or a negative errno; gpumem_error() then returns
 * a sentence. The library never prints and never ends the program.
 *
 * The library uses the CUDA driver that the program has loaded, else libcuda.so.1, or the
 * library named by $GPUMEM_DRIVER. The driver is loaded when device memory is first
 * mapped. The library calls cuInit and makes no context: functions that need a current
 * context say so.
 *
 * Threads: any function may be called from any thread. A struct gpumem_map must not be
 * used while another thread resumes or suspends it, or gives up its last use. Threads
 * that map the same allocation share one map. A thread may use the map until the thread
 * has called gpumem_unmap().
 *
 * fork: the child has no leases. In the child, sessions and maps return -ECHILD, except
 * gpumem_close() and gpumem_unref(), and device memory is not mapped.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gpumem;	   /* a session: one mount */
struct gpumem_map; /* an allocation, leased and mapped; reference counted */

enum gpumem_flag {
	GPUMEM_WRITE = 1 << 0,	     /* maps for writing too; else for reading only */
	GPUMEM_ANY_ADDRESS = 1 << 1, /* a map of its own: accepts another address than the
					allocation's */
	GPUMEM_REGISTER = 1 << 2,    /* host memory: page-locks it for use by the GPU */
	GPUMEM_FOLLOW = 1 << 3,	     /* gpumem_resume(): finds the allocation by name */
};

enum gpumem_kind {
	GPUMEM_DEVICE,
	GPUMEM_HOST,
};

enum gpumem_state {
	GPUMEM_LIVE,
	GPUMEM_FREED,	  /* the name is gone; the memory stays while mapped */
	GPUMEM_ENDING,	  /* the broker has ended; the memory stays while mapped */
	GPUMEM_SUSPENDED, /* by gpumem_suspend() */
	GPUMEM_REPLACED,  /* as freed, and another was published at the name:
			     gpumem_suspend(), then gpumem_resume() with
			     GPUMEM_FOLLOW take that one */
};

/* Room for the longest name: eight folders and the allocation's own. */
#define GPUMEM_NAME_SIZE 585

struct gpumem_info {
	void *pointer; /* address in this program; a CUdeviceptr for device memory. NULL
			  while suspended */
	uint64_t address;     /* the allocation's address, the same in every program */
	uint64_t size;	      /* bytes, as allocated */
	uint64_t mapped_size; /* mapped bytes: size, rounded up. With a guard they begin
				 before pointer and end with the allocation */
	uint64_t id;	      /* never reused */
	uint32_t generation;
	int device;    /* the driver's ordinal in this program; -1: host memory */
	char uuid[48]; /* of the device, GPU-...; "" for host memory */
	char name[GPUMEM_NAME_SIZE]; /* at the last read of the lease */
	uint8_t kind;		     /* enum gpumem_kind */
	uint8_t state;		     /* enum gpumem_state */
	uint8_t writable;	     /* 0 or 1 */
};

/*
 * Opens the mount at a path. NULL: $GPUMEM_MOUNT, else the only mount of root's, or of
 * the user's own, that the user may enter. What a session allocates belongs to the user
 * of its first allocation. After a change of the user (setuid(2)) a program opens a new
 * session.
 *
 * Returns: 0; -ENOENT (no mount there, or none at all); -ENOTUNIQ (several mounts: pass a
 * path); -ENOMEM; or the error of opening its files. The caller closes the session.
 */
int gpumem_open(struct gpumem **ret, const char *mount);

/* Closes the session; its maps stay until released. Takes NULL. */
void gpumem_close(struct gpumem *gpumem);

/* The path of the mount, valid until gpumem_close(). */
const char *gpumem_path(const struct gpumem *gpumem);

/*
 * Writes a line to a file of the mount ("control/alloc", "x 4G") and reads the answer, a
 * string, into answer; NULL, 0: no answer wanted. An answer longer than size is cut off.
 * Allocations made with until=close live as long as the session.
 *
 * Returns: 0; a negative errno of the line, with the broker's sentence.
 */
int gpumem_command(struct gpumem *gpumem, const char *file, const char *line,
		   char *answer, size_t size);

/*
 * Leases an allocation and maps it. Flags: GPUMEM_WRITE, GPUMEM_ANY_ADDRESS,
 * GPUMEM_REGISTER. Waits for earlier writes; a signal ends the wait (-EINTR). Device
 * memory is mapped for the allocation's device and its peers.
 *
 * An allocation that is mapped in this program already is not mapped again: *ret is the
 * same map with one more reference, and one gpumem_unmap() belongs to each gpumem_map().
 * Only the last unmaps and ends the lease. Such a map may be for writing, though it is
 * asked for reading. All its users have one place in the order of uses: while one of them
 * is between gpumem_begin() and gpumem_end(), gpumem_begin() is -EBUSY for the others.
 * With GPUMEM_ANY_ADDRESS the map has a lease and a place of its own.
 *
 * Returns: 0; -ENOENT; -EACCES (its mode or `map` does not let this user); -EOPNOTSUPP
 * (memory of this kind can't be leased); -EADDRINUSE (the address is in use in this
 * program: use GPUMEM_ANY_ADDRESS; or the allocation is mapped already, but suspended,
 * for reading only or without GPUMEM_REGISTER: unmap that map first); -ENODEV (the device
 * is not visible to this program); -EPROTO (the broker has another version, or its lease
 * does not fit the memory); -ENOTCONN (the mount is gone); -ECHILD; -ENOMEM; -EIO (the
 * driver failed; the sentence names the call). The caller unmaps or unrefs the map.
 */
int gpumem_map(struct gpumem_map **ret, struct gpumem *gpumem, const char *name,
	       unsigned int flags);

/*
 * A map is reference counted, so that arrays in the memory can keep the map. Releasing
 * the last reference ends the lease but never unmaps, because kernels may still be
 * running. Such device memory stays mapped until the program ends. gpumem_unref() takes
 * NULL and returns NULL.
 */
struct gpumem_map *gpumem_ref(struct gpumem_map *map);
struct gpumem_map *gpumem_unref(struct gpumem_map *map);

/*
 * Unmaps, ends the lease and releases the caller's reference. First waits for all work of
 * the current context (else of the device's primary context). While other calls of
 * gpumem_map() share the map, only the reference is released, with no wait.
 *
 * Returns: 0; -EBUSY, with nothing done and no wait, while there are other references, or
 * with nothing done while a stream is being captured.
 */
int gpumem_unmap(struct gpumem_map *map);

/* Returns: 0; -ECHILD; or the error of reading the lease. */
int gpumem_info(struct gpumem_map *map, struct gpumem_info *ret);

/*
 * Takes a place in the order of uses: GPUMEM_WRITE for writing, else for reading. Waits
 * for its turn, and first until the stream of an earlier gpumem_end() gets there; other
 * programs, `data`, copies and launches of the broker wait until gpumem_end().
 *
 * Returns: 0; -EACCES (for writing, in a map for reading); -EBUSY (has begun already,
 * also by another user of a shared map); -EINTR; -ESTALE (freed).
 */
int gpumem_begin(struct gpumem_map *map, unsigned int flags);

/*
 * Gives the place up: at once, or when all work queued on the stream so far is done.
 * stream is a CUstream (NULL: the default stream) of the current context; without a
 * context it is ignored.
 */
int gpumem_end(struct gpumem_map *map, void *stream);

/*
 * gpumem_suspend() gives the memory up and keeps its address reserved. gpumem_resume()
 * takes the memory again at the same pointer: with GPUMEM_FOLLOW the allocation that has
 * the name now, for a map with GPUMEM_WRITE only one of the same owner; else only the
 * same allocation.
 *
 * Returns: 0; as gpumem_unmap() and gpumem_map(); -EBUSY for gpumem_suspend() while other
 * calls of gpumem_map() share the map; -ESTALE when the allocation is gone,
 * has been replaced, or has another size or owner.
 */
int gpumem_suspend(struct gpumem_map *map);
int gpumem_resume(struct gpumem_map *map, unsigned int flags);

/*
 * Memory for torch's CUDAPluggableAllocator, by name:
 *
 *	allocator = torch.cuda.memory.CUDAPluggableAllocator(
 *		"libgpumem.so.0", "gpumem_torch_malloc", "gpumem_torch_free")
 *	pool = torch.cuda.MemPool(allocator.allocator())
 *
 * gpumem_torch_malloc() makes an allocation of size bytes on the program's device, leases
 * it for writing and maps it at its address, in the mount of gpumem_open(NULL). Segments
 * are called $GPUMEM_TORCH_NAME.0, .1 and so on, torch-PID.0 without that variable. A
 * number that is taken is left out; after 16 of them the numbers go on at random. The
 * allocations end with the program. stream is ignored: the memory is ready for all
 * streams, and zero.
 *
 * Returns: the address; NULL, with gpumem_error(): torch then gives up cached memory or
 * raises OutOfMemoryError.
 */
void *gpumem_torch_malloc(size_t size, int device, void *stream);

/* Frees memory of gpumem_torch_malloc(), after waiting for all work of the device. While
 * a stream is captured only the name goes at once, and the memory with a later call. */
void gpumem_torch_free(void *pointer, size_t size, int device, void *stream);

/*
 * Deleters for a DLManagedTensor and a DLManagedTensorVersioned in mapped memory. The
 * tensor is from malloc(), together with its shape and strides, and its manager_ctx is
 * the map, with a reference of its own (gpumem_ref()). Any thread may call them.
 */
void gpumem_dlpack_free(void *managed);
void gpumem_dlpack_free_versioned(void *managed);

/* The sentence of this thread's last failure, valid until its next call. */
const char *gpumem_error(void);

#ifdef __cplusplus
}
#endif
