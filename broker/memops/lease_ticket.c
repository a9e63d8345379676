/* SPDX-License-Identifier: MIT */
/* Tickets: the number and secret of a lease, exchanged for the memory. */
#include "memops/lease_private.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/number.h"
#include "memops/lease.h"
#include "memops/lease_file.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `ID:32 hex digits`, perhaps with a newline. Returns: 0; -EINVAL. */
static int ticket_parse(const char *ticket, size_t length, uint64_t *ret_id,
			uint8_t secret[TICKET_BYTES])
{
	const char *colon = memchr(ticket, ':', length);
	char number[24];
	size_t n;

	if (!colon || (size_t)(colon - ticket) >= sizeof(number))
		return -EINVAL;
	n = (size_t)(colon - ticket);
	memcpy(number, ticket, n);
	number[n] = '\0';
	if (number_parse(number, ret_id) < 0)
		return -EINVAL;
	length -= n + 1;
	if (length && colon[length] == '\n')
		length--;
	if (length != (size_t)TICKET_BYTES * 2)
		return -EINVAL;
	for (size_t i = 0; i < TICKET_BYTES; i++) {
		int high = hex_digit(colon[1 + 2 * i]), low = hex_digit(colon[2 + 2 * i]);

		if (high < 0 || low < 0)
			return -EINVAL;
		secret[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

/* Compares in constant time. */
static bool secret_matches(const uint8_t *a, const uint8_t *b)
{
	uint8_t differences = 0;

	for (size_t i = 0; i < TICKET_BYTES; i++)
		differences |= a[i] ^ b[i];
	return !differences;
}

int broker_redeem(struct broker *broker, const char *ticket, size_t length, uid_t uid)
{
	uint8_t secret[TICKET_BYTES];
	struct lease *lease = NULL;
	uint64_t id;
	int fd = -ENOENT;

	if (ticket_parse(ticket, length, &id, secret) < 0)
		return -EINVAL;
	pthread_mutex_lock(&broker->registry->lock);
	HASH_FIND(hh, broker->leases->by_id, &id, sizeof(id), lease);
	if (lease && lease->allocation && lease->granted &&
	    secret_matches(lease->secret, secret)) {
		/* Under the lock: the lease pins the block meanwhile. */
		fd = uid == 0 || uid == lease->uid
			     ? block_share(lease->allocation->block, lease->write)
			     : -EACCES;
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return fd;
}

bool broker_has_leases(struct broker *broker, uid_t uid)
{
	const struct owner *user;
	bool has;

	pthread_mutex_lock(&broker->registry->lock);
	user = owner_find(broker->registry, uid);
	has = user && user->shares.held[SHARE_LEASES];
	pthread_mutex_unlock(&broker->registry->lock);
	return has;
}
