/* SPDX-License-Identifier: MIT */
/*
 * Memory for torch: each segment of a CUDAPluggableAllocator is an allocation of the
 * mount, leased and mapped. torch hands over no state, so the session and the segments
 * are the library's own.
 */
#include "client/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <utlist.h>

#define NUMBERS_IN_ORDER 16 /* tried before one is drawn */

struct segment {
	struct gpumem_map *map;
	void *pointer;
	bool freed; /* its unmap was refused while a stream was captured */
	struct segment *prev, *next;
};

static struct {
	pthread_mutex_t lock; /* not held across a driver call */
	struct gpumem *session;
	struct segment *all;
	char base[GPUMEM_NAME_SIZE]; /* of the last segment's name, BASE.NUMBER */
	unsigned int number;	     /* of the next segment's name */
} torch = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Returns: the session; NULL, with a sentence. After fork the child has its own. */
static struct gpumem *torch_session(void)
{
	struct gpumem *session;

	pthread_mutex_lock(&torch.lock);
	if (torch.session && torch.session->forked) {
		torch.session = NULL;
		torch.all = NULL;
	}
	if (!torch.session && gpumem_open(&torch.session, NULL) < 0)
		torch.session = NULL;
	session = torch.session;
	pthread_mutex_unlock(&torch.lock);
	return session;
}

/* The mount's number of a device of this program. Returns: a negative errno. */
static int torch_device(const struct gpumem *session, int ordinal)
{
	char uuid[48], text[64] = "";
	int r = memory_device_uuid(ordinal, uuid);

	for (int i = 0; r == 0; i++) {
		_cleanup_free_ char *path = session_path(session, "devices/%d/uuid", i);
		_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

		if (fd < 0)
			return error_set(ENODEV, "device %d (%s) is not a device of %s",
					 ordinal, uuid, session->mount);
		if (read(fd, text, sizeof(text) - 1) > 0 &&
		    !strncmp(text, uuid, strlen(uuid)))
			return i;
	}
	return r;
}

/*
 * The number behind a base: the next one, and 0 for a base that differs from the last.
 * is_drawn: a random number, where another user may have taken all those that follow.
 */
static unsigned int segment_number(const char *base, bool is_drawn)
{
	unsigned int number;

	pthread_mutex_lock(&torch.lock);
	if (strcmp(torch.base, base) != 0) {
		snprintf(torch.base, sizeof(torch.base), "%s", base);
		torch.number = 0;
	}
	if (is_drawn)
		(void)getrandom(&torch.number, sizeof(torch.number), 0);
	number = torch.number++;
	pthread_mutex_unlock(&torch.lock);
	return number;
}

/* The next name without an allocation: other programs may use the same names. n_taken
 * counts those that had one. */
static int segment_name(const struct gpumem *session, char name[GPUMEM_NAME_SIZE],
			unsigned int *n_taken)
{
	const char *base = secure_getenv("GPUMEM_TORCH_NAME");
	char own[32];
	bool taken;

	snprintf(own, sizeof(own), "torch-%d", (int)getpid());
	if (!base || !*base)
		base = own;
	do {
		if (snprintf(name, GPUMEM_NAME_SIZE, "%s.%u", base,
			     segment_number(base, *n_taken >= NUMBERS_IN_ORDER)) >=
		    GPUMEM_NAME_SIZE)
			return error_set(EINVAL, "GPUMEM_TORCH_NAME is too long");
		_cleanup_free_ char *path = session_path(session, "allocations/%s", name);
		taken = path && access(path, F_OK) == 0;
		*n_taken += taken;
	} while (taken);
	return 0;
}

static int segment_allocate(struct gpumem *session, size_t size, int device,
			    char name[GPUMEM_NAME_SIZE], uint64_t *ret_id)
{
	char line[GPUMEM_NAME_SIZE + 128];
	char answer[4096] = "\n"; /* before each key */
	unsigned int n_taken = 0;
	const char *id;
	int r;

	do {
		r = segment_name(session, name, &n_taken);
		if (r < 0)
			return r;
		snprintf(line, sizeof(line), "%s %zu device=%d until=close\n", name, size,
			 device);
		r = gpumem_command(session, "control/alloc", line, answer + 1,
				   sizeof(answer) - 1);
		n_taken += r == -EEXIST;
	} while (r == -EEXIST);
	id = r < 0 ? NULL : strstr(answer, "\nid ");
	*ret_id = id ? strtoull(id + strlen("\nid "), NULL, 10) : 0;
	return r;
}

static void segment_free(struct gpumem *session, const char *name, uint64_t id)
{
	char line[GPUMEM_NAME_SIZE + 32];

	snprintf(line, sizeof(line), "%s id=%llu\n", name, (unsigned long long)id);
	(void)gpumem_command(session, "control/free", line, NULL, 0);
}

/* Whose folder the name is in may have exchanged folders: torch's bytes are for the
 * allocation with the number alone. */
static int segment_map(struct segment *segment, struct gpumem *session, const char *name,
		       uint64_t id)
{
	int r = gpumem_map(&segment->map, session, name, GPUMEM_WRITE);

	if (r == 0 && segment->map->lease.id != id) {
		(void)gpumem_unmap(segment->map);
		r = error_set(ESTALE, "%s is another allocation now than was made", name);
	}
	if (r == 0)
		segment->pointer = (void *)map_pointer(segment->map);
	else
		segment_free(session, name, id);
	return r;
}

/* Takes the name, which may be another one by now, unless the allocation is freed. */
static void segment_release(struct gpumem_map *map)
{

	if (lease_read(&map->lease, map->gpumem) < 0 || map->lease.state != GPUMEM_LIVE)
		return;
	segment_free(map->gpumem, map->lease.name, map->lease.id);
}

static void torch_add(struct segment *segment)
{
	pthread_mutex_lock(&torch.lock);
	DL_APPEND(torch.all, segment);
	pthread_mutex_unlock(&torch.lock);
}

/* Takes out the segment at an address, or one that is freed where the address is NULL. */
static struct segment *torch_take(const void *pointer)
{
	struct segment *segment;

	pthread_mutex_lock(&torch.lock);
	DL_FOREACH (torch.all, segment) {
		if (pointer ? segment->pointer == pointer && !segment->freed
			    : segment->freed)
			break;
	}
	if (segment)
		DL_DELETE(torch.all, segment);
	pthread_mutex_unlock(&torch.lock);
	return segment;
}

/* torch's work is in the device's primary context, whatever context is current here.
 * Returns: false, with the segment back in the list, while a stream is captured. */
static bool segment_unmap(struct segment *segment)
{
	int r = memory_synchronize_device(segment->map->memory.device);

	if (r == 0)
		r = gpumem_unmap(segment->map);
	if (r == -EBUSY) {
		segment->freed = true;
		torch_add(segment);
		return false;
	}
	free(segment);
	return true;
}

static void torch_unmap_freed(void)
{
	struct segment *segment;

	do {
		segment = torch_take(NULL);
	} while (segment && segment_unmap(segment));
}

EXPORT void *gpumem_torch_malloc(size_t size, int device, void *stream)
{
	struct gpumem *session = torch_session();
	struct segment *segment;
	char name[GPUMEM_NAME_SIZE];
	uint64_t id;
	int number;

	(void)stream;
	if (!session)
		return NULL;
	torch_unmap_freed();
	number = torch_device(session, device);
	if (number < 0)
		return NULL;
	segment = calloc(1, sizeof(*segment));
	if (!segment) {
		(void)error_set(ENOMEM, "no memory");
		return NULL;
	}
	if (segment_allocate(session, size, number, name, &id) < 0 ||
	    segment_map(segment, session, name, id) < 0) {
		free(segment);
		return NULL;
	}
	torch_add(segment);
	return segment->pointer;
}

EXPORT void gpumem_torch_free(void *pointer, size_t size, int device, void *stream)
{
	struct segment *segment = pointer ? torch_take(pointer) : NULL;

	(void)size;
	(void)device;
	(void)stream;
	if (segment) {
		segment_release(segment->map);
		(void)segment_unmap(segment);
	}
	torch_unmap_freed();
}
