/* SPDX-License-Identifier: MIT */
/* Shared by the files of libgpumem. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <gpumem/gpumem.h>
#include <gpumem/lease.h>

#include "base/def.h"
#include "base/text.h"
#include "cuda/driver.h"

#define EXPORT __attribute__((visibility("default")))

/* Versions of a lease's text up to this are supported. */
#define LEASE_VERSION 2

/* ---- error.c ---- */

/* Stores the error sentence of this thread. Returns: -error. */
int error_set(int error, const char *format, ...) _printf_(2, 3);

/* ---- session.c ---- */

struct gpumem {
	char *mount;
	pthread_mutex_t lock;
	int alloc_fd; /* lock: control/alloc, kept open for until=close; -1: not yet */
	unsigned int n_refs;
	bool forked; /* in a child of the program that opened it */
};

struct gpumem *session_ref(struct gpumem *gpumem);
struct gpumem *session_unref(struct gpumem *gpumem);

/* The path of a file in the mount. The caller frees the path; NULL: no memory. */
char *session_path(const struct gpumem *gpumem, const char *format, ...) _printf_(2, 3);

/*
 * Stores the sentence of the newest line in `errors` by this thread, or the meaning of
 * errno for the file if there is no such line. Returns: -error.
 */
int session_fail(const struct gpumem *gpumem, int error, const char *file);

/* ---- lease.c: the open file and its text ---- */

struct lease {
	int fd; /* -1: closed */
	uint64_t number;
	char ticket[64];
	char socket[108];
	char uuid[48];
	char name[GPUMEM_NAME_SIZE];
	uint64_t address, size, id;
	uint64_t mapped_address, mapped_size; /* holds the allocation, perhaps inside */
	uint64_t range_address, range_size;   /* range of the device's allocations */
	uint32_t generation;
	uid_t owner; /* of the allocation, at the open */
	uint8_t kind, state;
	bool write;
};

#define LEASE_CLOSED \
	{            \
		-1   \
	}

/* Opens, reads and checks a lease. Returns: 0; a negative errno with a sentence. */
int lease_open(struct lease *lease, const struct gpumem *gpumem, const char *name,
	       bool write);

/* Whether the text has changed. */
bool lease_changed(const struct lease *lease);

/* Reads the text again; without a broker the state is GPUMEM_ENDING. Returns: as
 * lease_open(). */
int lease_read(struct lease *lease, const struct gpumem *gpumem);

/* Exchanges the ticket. Returns: a descriptor of the memory; a negative errno. */
int lease_redeem(const struct lease *lease);

/* Returns: as lease_open(). */
int lease_hold(const struct lease *lease, const struct gpumem *gpumem,
	       enum gpumem_hold hold);
void lease_close(struct lease *lease);

/* ---- memory.c: mappings ---- */

struct memory {
	uint64_t pointer; /* of the mapping; 0: not reserved */
	uint64_t size;
	int device; /* the driver's ordinal; -1: host memory */
	bool mapped;
	bool registered;
	bool reserved; /* the address stays reserved after an unmap */
	bool in_range; /* reserved with the whole range, permanently */
};

/* The driver, loaded once. Returns: 0; a negative errno with a sentence. */
int memory_driver(struct cuda_driver **ret);

/*
 * Maps the memory of a lease at its address, or at its previous one. fd is the memory's
 * descriptor, still owned by the caller.
 */
int memory_map(struct memory *memory, const struct lease *lease, int fd,
	       unsigned int flags);

/* Waits for work on the memory. Returns: 0; -EBUSY while a stream is captured. */
int memory_synchronize(const struct memory *memory);

/* The same for all work of a device's primary context. */
int memory_synchronize_device(int device);

/* The UUID of a device of this program. Returns: 0; a negative errno with a sentence. */
int memory_device_uuid(int ordinal, char uuid[48]);

/* Unmaps the memory; the address stays reserved. */
void memory_unmap(struct memory *memory);

/* Frees the address, too. */
void memory_release(struct memory *memory);

/* ---- map.c ---- */

enum map_stage {
	MAP_NEW,
	MAP_CHANGING, /* for a moment: maps of the same allocation wait for the end */
	MAP_MAPPED,
	MAP_SUSPENDED,
};

struct gpumem_map {
	struct gpumem *gpumem;
	struct lease lease; /* state, name, generation: maps_lock */
	struct memory memory;
	unsigned int flags;
	enum map_stage stage; /* maps_lock */
	dev_t mount;	      /* maps_lock: with id which allocation; 0: MAP_NEW */
	uint64_t id;	      /* maps_lock */
	unsigned int n_maps;  /* maps_lock: calls of gpumem_map() that share the map */
	unsigned int n_refs;
	uint32_t n_ending; /* maps_lock: of them, of gpumem_end(); a futex */
	bool begun;
	struct gpumem_map *prev, *next; /* of all maps; maps_lock */
};

/* The allocation's first byte in this program. */
uint64_t map_pointer(const struct gpumem_map *map);

/*
 * Makes an address the memory's, until maps_disclaim(): threads may map the same
 * allocation at the same time. Returns: false if another map has the address.
 */
bool maps_claim(struct memory *memory, uint64_t address);
void maps_disclaim(struct memory *memory);

/* Ends all leases, in a child after fork. */
void maps_forget(void);
void maps_lock(void);
void maps_unlock(void);
