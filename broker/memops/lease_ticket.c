/* SPDX-License-Identifier: MIT */
/* Tickets: the number and secret of a lease, exchanged for the memory. */
#include "memops/lease_private.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/number.h"
#include "memops/lease.h"
#include "memops/lease_file.h"
#include "memops/seal.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"

/* A ticket as it came. */
struct ticket {
	uint64_t id;
	uint8_t secret[TICKET_BYTES];
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `ID:32 hex digits`, perhaps with a newline. Returns: 0; -EINVAL. */
static int ticket_parse(const char *text, size_t length, struct ticket *ret_ticket)
{
	const char *colon = memchr(text, ':', length);
	char number[24];
	size_t n;

	if (!colon || (size_t)(colon - text) >= sizeof(number))
		return -EINVAL;
	n = (size_t)(colon - text);
	memcpy(number, text, n);
	number[n] = '\0';
	if (number_parse(number, &ret_ticket->id) < 0)
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
		ret_ticket->secret[i] = (uint8_t)(high << 4 | low);
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

/* Under registry.lock. Returns: the ticket's lease; NULL. */
static struct lease *lease_of(struct broker *broker, const struct ticket *ticket)
{
	struct lease *lease;

	HASH_FIND(hh, broker->leases->by_id, &ticket->id, sizeof(ticket->id), lease);
	return lease && lease->allocation && lease->granted &&
			       secret_matches(lease->secret, ticket->secret)
		       ? lease
		       : NULL;
}

/*
 * Opens host memory anew, without a lock since that may take its time. If the lease is
 * there afterwards, it has kept the allocation from being sealed meanwhile; from then on
 * the open does.
 */
static int open_host(struct broker *broker, const struct ticket *ticket, int memory,
		     bool write)
{
	int fd = host_file_open(&broker->memory->host_files, memory, write);
	bool is_there;

	pthread_mutex_lock(&broker->registry->lock);
	is_there = lease_of(broker, ticket);
	pthread_mutex_unlock(&broker->registry->lock);
	if (is_there || fd < 0)
		return fd;
	close(fd);
	return -ENOENT;
}

int broker_redeem(struct broker *broker, const char *text, size_t length, uid_t uid)
{
	bool host = false, write = false;
	_cleanup_close_ int fd = -ENOENT;
	const struct lease *lease;
	struct ticket ticket;

	if (ticket_parse(text, length, &ticket) < 0)
		return -EINVAL;
	pthread_mutex_lock(&broker->registry->lock);
	lease = lease_of(broker, &ticket);
	if (lease) {
		host = block_is_host(lease->allocation->block);
		write = lease->write;
		fd = uid == 0 || uid == lease->uid ? block_share(lease->allocation->block)
						   : -EACCES;
		if (host && fd >= 0)
			lease->allocation->block->given = true;
		if (host && write && fd >= 0)
			seal_note_lent(lease->allocation, lease->uid);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return fd >= 0 && host ? open_host(broker, &ticket, fd, write) : take_fd(&fd);
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
