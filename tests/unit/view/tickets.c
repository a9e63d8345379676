/* SPDX-License-Identifier: MIT */
/* The linker puts the test's own functions in front of those whose order matters. */
#include "tickets.h"
#include "ticket_socket.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/text.h"

static unsigned int n_steps, unlinked, dropped; /* the number of the step; 0: none */

int __wrap_unlink(const char *path);
void __wrap_keep_drop(struct keep *keep, struct keep_key key);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *userdata), void *userdata);
int __wrap_ticket_socket_listen(const struct sockaddr_un *address, uid_t uid);

int __wrap_unlink(const char *path)
{
	(void)path;
	unlinked = ++n_steps;
	return 0;
}

void __wrap_keep_drop(struct keep *keep, struct keep_key key)
{
	(void)keep;
	(void)key;
	dropped = ++n_steps;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *userdata), void *userdata)
{
	(void)thread;
	(void)attributes;
	(void)run;
	(void)userdata;
	return EAGAIN;
}

int __wrap_ticket_socket_listen(const struct sockaddr_un *address, uid_t uid)
{
	(void)address;
	(void)uid;
	return eventfd(0, EFD_CLOEXEC);
}

/* Else the next broker takes over a socket that nobody can connect to. */
Test(tickets, the_keeper_forgets_a_socket_before_its_name_goes)
{
	_cleanup_text_ struct text why = TEXT_INIT, path = TEXT_INIT;
	struct tickets *tickets;

	cr_assert(eq(int, tickets_new(&tickets, "/nowhere/tickets", NULL, &why), 0), "%s",
		  text_string(&why));
	cr_assert(eq(int, tickets_of(tickets, geteuid() + 1, true, &path), -EAGAIN));
	cr_expect(eq(u32, dropped, 1));
	cr_expect(eq(u32, unlinked, 2));
	tickets_free(tickets);
}
