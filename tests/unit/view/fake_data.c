/* SPDX-License-Identifier: MIT */
/* The bytes of the allocations of the broker in memory. */
#include "fake_private.h"

#include <errno.h>
#include <string.h>

#define PAYLOAD 80
#define PAGE	4096
#define BUFFER	((1 << 20) + PAGE)

int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer)
{
	uint8_t *pages = aligned_alloc(PAGE, BUFFER + PAGE);

	(void)broker;
	if (!pages)
		return -ENOMEM;
	*ret_buffer = (struct buffer){ -1, pages + PAGE - PAYLOAD, BUFFER };
	return 0;
}

void broker_buffer_put(struct broker *broker, struct buffer *buffer)
{
	(void)broker;
	free(buffer->memory - PAGE + PAYLOAD);
	buffer->memory = NULL;
}

/* The bytes of a range. Returns: how many; -ESTALE. */
static ssize_t range(struct broker *broker, struct token token, uint64_t offset,
		     size_t length, uint8_t **ret_bytes)
{
	struct object *object = fake_resolve(broker, OBJECT_ALLOCATION, token);

	if (!object)
		return -ESTALE;
	if (offset >= object->size)
		return 0;
	*ret_bytes = object->bytes + offset;
	return MIN((uint64_t)length, object->size - offset);
}

void broker_read(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, size_t length, struct completion *wait)
{
	uint8_t *bytes, *copy = malloc(length ? length : 1);
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, token, offset, length, &bytes);
	if (n > 0)
		memcpy(copy, bytes, n);
	pthread_mutex_unlock(&broker->lock);
	fake_answer(broker, wait, n < 0 ? (int)n : 0, copy, MAX(n, (ssize_t)0));
}

void broker_writer_init(struct broker *broker, struct writer *writer, struct token token)
{
	(void)broker;
	*writer = (struct writer){ .token = token };
}

void broker_write(struct broker *broker, struct writer *writer,
		  const struct caller *caller, uint64_t offset, const void *bytes,
		  size_t length, struct buffer *buffer, struct completion *wait)
{
	struct buffer kept = *buffer;
	uint8_t *target;
	ssize_t n;

	(void)caller;
	buffer->memory = NULL;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, writer->token, offset, length, &target);
	if (n > 0)
		memcpy(target, bytes, n);
	pthread_mutex_unlock(&broker->lock);
	broker_buffer_put(broker, &kept);
	fake_answer(broker, wait, n < 0 ? (int)n : n == 0 ? -ENOSPC : 0, NULL, n);
}

void broker_sync(struct broker *broker, struct writer *writer,
		 const struct caller *caller, struct completion *wait)
{
	(void)writer;
	(void)caller;
	fake_answer(broker, wait, 0, NULL, 0);
}

void broker_zero(struct broker *broker, struct writer *writer,
		 const struct caller *caller, uint64_t offset, uint64_t length,
		 struct completion *wait)
{
	uint8_t *bytes;
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, writer->token, offset, length, &bytes);
	if (n > 0)
		memset(bytes, 0, n);
	pthread_mutex_unlock(&broker->lock);
	fake_answer(broker, wait,
		    n < 0		   ? (int)n
		    : (uint64_t)n < length ? -ENOSPC
					   : 0,
		    NULL, 0);
}

void broker_truncate(struct broker *broker, struct token token,
		     const struct caller *caller, uint64_t size, struct completion *wait)
{
	uint8_t *bytes;
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, token, size, SIZE_MAX, &bytes);
	if (n > 0)
		memset(bytes, 0, n);
	pthread_mutex_unlock(&broker->lock);
	fake_answer(broker, wait, n < 0 ? (int)n : 0, NULL, 0);
}

void broker_copy_range(struct broker *broker, struct token source, uint64_t source_offset,
		       struct writer *target, uint64_t target_offset, uint64_t length,
		       const struct caller *caller, struct completion *wait)
{
	uint8_t *from, *to;
	ssize_t n;

	(void)caller;
	pthread_mutex_lock(&broker->lock);
	n = range(broker, source, source_offset, length, &from);
	if (n > 0)
		n = range(broker, target->token, target_offset, n, &to);
	if (n > 0)
		memmove(to, from, n);
	pthread_mutex_unlock(&broker->lock);
	fake_answer(broker, wait, n < 0 ? (int)n : 0, NULL, MAX(n, (ssize_t)0));
}

int broker_host_fd(struct broker *broker, struct token token)
{
	struct object *object;
	int fd = -ESTALE;

	pthread_mutex_lock(&broker->lock);
	object = fake_resolve(broker, OBJECT_ALLOCATION, token);
	if (object)
		fd = object->name[0] == 'h' ? dup(object->fd) : -ENODEV;
	pthread_mutex_unlock(&broker->lock);
	return fd;
}

uint32_t broker_backing(struct broker *broker, struct token token)
{
	const struct object *object;
	uint32_t backing;

	pthread_mutex_lock(&broker->lock);
	object = fake_resolve(broker, OBJECT_ALLOCATION, token);
	backing = object ? object->backing : 0;
	pthread_mutex_unlock(&broker->lock);
	return backing;
}

int broker_note_backing(struct broker *broker, struct token token, uint32_t backing)
{
	struct object *object;

	pthread_mutex_lock(&broker->lock);
	object = fake_resolve(broker, OBJECT_ALLOCATION, token);
	if (object)
		object->backing = backing;
	pthread_mutex_unlock(&broker->lock);
	return object ? 0 : -ESTALE;
}

/* Its memory is freed with the mount, and no other fake follows it. */
void broker_close_backings(struct broker *broker, void (*close)(uint32_t backing))
{
	(void)broker;
	(void)close;
}

uint32_t broker_last_backing(struct broker *broker)
{
	(void)broker;
	return 0;
}
