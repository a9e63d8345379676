/* SPDX-License-Identifier: MIT */
/*
 * Each user has a socket and a thread. A descriptor sent along with a packet is closed by
 * the thread that takes the packet, or closes the connection, and such a close lasts as
 * long as the sender likes. So a thread serves one user alone: only the user and root can
 * connect to a user's socket, and only the user's thread calls accept(2), recv(2) and
 * close(2) there.
 *
 * Names of sockets are made and removed by one thread of the view at a time, and never
 * under a lock that others wait for: any user may keep the lock of their folder, for
 * instance by mount(2) in a namespace of the user's own.
 *
 * The end of the broker waits END_MS for all threads. A thread still in a close then ends
 * with the process.
 */
#include "tickets.h"
#include "ticket_socket.h"

#include "base/clock.h"
#include "base/def.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/user_socket.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define USERS_MAX	1024
#define THREADS_MAX	(2 * USERS_MAX) /* with those that end, or wait in a close */
#define CONNECTIONS_MAX 64		/* of a user */
#define SILENCE_MS	10000		/* a connection without a ticket ends */
#define END_MS		1000
#define STACK_BYTES	(512 << 10)
#define TICKET_MAX	128

struct connection {
	int fd;
	int64_t deadline_ms;
};

/* A user's socket. Fields without a mark are the thread's alone. */
struct user {
	struct tickets *tickets;
	uid_t uid;
	struct sockaddr_un address;
	int listening; /* tickets->lock: changed; -1: none yet */
	bool serving;  /* tickets->lock: there is a thread */
	bool evicted;  /* tickets->lock: not in the table any more; the thread ends */
	int64_t idle_since_ms; /* atomic */
	pthread_mutex_t lock;
	bool ended; /* lock: the broker is not to be called any more */
	unsigned int n;
	struct connection connections[CONNECTIONS_MAX];
	UT_hash_handle hh; /* tickets->lock */
};

struct tickets {
	struct broker *broker;
	struct keep *keep;
	char *path;
	int end;
	struct user *own; /* the broker's own user's */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct user *users;	/* lock */
	unsigned int n_threads; /* lock */
	bool is_left;		/* the sockets stay for the next broker */
};

/* ---- connections; the thread's ---- */

static void connection_end(struct user *user, unsigned int i)
{
	close(user->connections[i].fd);
	user->connections[i] = user->connections[--user->n];
}

static void connection_add(struct user *user, int fd)
{
	uid_t uid;

	if (!ticket_socket_is_users(fd, user->uid, &uid) || user->n == CONNECTIONS_MAX) {
		close(fd);
		return;
	}
	if (!descriptor_is_left()) {
		ticket_socket_reply(fd, EMFILE, -1);
		close(fd);
		return;
	}
	user->connections[user->n++] = (struct connection){
		.fd = fd,
		.deadline_ms = clock_ms() + SILENCE_MS,
	};
}

static int connection_redeem(struct user *user, int connection, const char *ticket,
			     size_t length)
{
	int fd = -ENOENT;
	uid_t uid;

	if (!ticket_socket_is_users(connection, user->uid, &uid))
		return -EACCES;
	pthread_mutex_lock(&user->lock);
	if (!user->ended)
		fd = broker_redeem(user->tickets->broker, ticket, length, uid);
	pthread_mutex_unlock(&user->lock);
	return fd;
}

/* No room for descriptors: the kernel closes any in the packet. */
static void connection_serve(struct user *user, unsigned int i)
{
	char ticket[TICKET_MAX];
	int to = user->connections[i].fd, fd;
	ssize_t length = recv(to, ticket, sizeof(ticket), MSG_DONTWAIT);

	if (length > 0) {
		fd = connection_redeem(user, to, ticket, (size_t)length);
		ticket_socket_reply(to, fd < 0 ? (uint8_t)-fd : 0, fd);
		if (fd >= 0)
			close(fd);
	}
	if (length >= 0 || (errno != EAGAIN && errno != EINTR))
		connection_end(user, i);
}

/* ---- the sockets ---- */

static bool is_own(const struct user *user)
{
	return user == user->tickets->own;
}

static struct keep_key key_of(const struct user *user)
{
	return is_own(user) ? (struct keep_key){ KEEP_TICKETS, 0, 0 }
			    : (struct keep_key){ KEEP_TICKETS, user->uid, 1 };
}

/* The name of a socket, and the keeper's copy. */
struct name {
	struct sockaddr_un address;
	struct keep_key key;
};

static struct name name_of(const struct user *user)
{
	return (struct name){ user->address, key_of(user) };
}

/*
 * No new connection comes, and the next broker has no such socket. A broker that dies in
 * between leaves a name without a listener, which the user's next socket replaces.
 */
static void name_remove(const struct tickets *tickets, const struct name *name)
{
	keep_drop(tickets->keep, name->key);
	unlink(name->address.sun_path);
}

/* Returns: a listening socket; -errno. */
static int name_listen(const struct tickets *tickets, const struct name *name, uid_t uid)
{
	_cleanup_close_ int fd = ticket_socket_listen(&name->address, uid);
	int error;

	if (fd < 0)
		return fd;
	error = keep_put(tickets->keep, name->key, fd);
	if (error) {
		unlink(name->address.sun_path);
		return error;
	}
	return take_fd(&fd);
}

/* ---- the threads ---- */

static void user_note_use(struct user *user)
{
	__atomic_store_n(&user->idle_since_ms, clock_ms(), __ATOMIC_RELAXED);
}

static int64_t idle_since_ms(const struct user *user)
{
	return __atomic_load_n(&user->idle_since_ms, __ATOMIC_RELAXED);
}

static int wait_ms(const struct user *user)
{
	int64_t next = INT64_MAX;

	for (unsigned int i = 0; i < user->n; i++)
		next = MIN(next, user->connections[i].deadline_ms);
	return next == INT64_MAX ? -1 : (int)MAX(next - clock_ms(), (int64_t)0);
}

/* Waits, and serves what has come. Returns: whether to go on. */
static bool user_serve(struct user *user)
{
	struct pollfd fds[2 + CONNECTIONS_MAX];
	int fd;

	fds[0] = (struct pollfd){ .fd = user->tickets->end, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = user->listening, .events = POLLIN };
	for (unsigned int i = 0; i < user->n; i++)
		fds[2 + i] = (struct pollfd){ .fd = user->connections[i].fd,
					      .events = POLLIN };
	if (poll(fds, 2 + user->n, wait_ms(user)) < 0)
		return true;
	if (fds[0].revents)
		return false;
	/* From the end: the last takes the place of a closed connection. */
	for (unsigned int i = user->n; i-- > 0;) {
		if (fds[2 + i].revents)
			connection_serve(user, i);
		else if (clock_ms() >= user->connections[i].deadline_ms)
			connection_end(user, i);
	}
	fd = accept4(user->listening, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		connection_add(user, fd);
	else if (errno == EMFILE || errno == ENFILE)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	if (fd >= 0 || user->n)
		user_note_use(user);
	return true;
}

static void user_free(struct user *user)
{
	while (user->n)
		connection_end(user, 0);
	closep(&user->listening);
	pthread_mutex_destroy(&user->lock);
	free(user);
}

static bool user_is_evicted(struct user *user)
{
	bool evicted;

	pthread_mutex_lock(&user->tickets->lock);
	evicted = user->evicted;
	pthread_mutex_unlock(&user->tickets->lock);
	return evicted;
}

static void *serve(void *userdata)
{
	struct user *user = userdata;
	struct tickets *tickets = user->tickets;

	while (user_serve(user) && !user_is_evicted(user))
		;
	/* At the end of the broker tickets_free() first takes the user out of the table.
	 */
	pthread_mutex_lock(&tickets->lock);
	pthread_mutex_unlock(&tickets->lock);
	user_free(user);
	pthread_mutex_lock(&tickets->lock);
	if (--tickets->n_threads == 0)
		pthread_cond_signal(&tickets->ended);
	pthread_mutex_unlock(&tickets->lock);
	return NULL;
}

/* Under tickets->lock. Returns: 0; -errno. */
static int user_start(struct user *user)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	if (user->serving)
		return 0;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = pthread_create(&thread, &attributes, serve, user);
	pthread_attr_destroy(&attributes);
	if (error)
		return -error;
	user->serving = true;
	user_note_use(user);
	user->tickets->n_threads++;
	return 0;
}

/* The user whose socket nobody needs, for the longest time. Under tickets->lock. */
static struct user *find_idlest(const struct tickets *tickets)
{
	struct user *user, *next, *idlest = NULL;

	HASH_ITER (hh, tickets->users, user, next) {
		if (is_own(user))
			continue;
		if ((!idlest || idle_since_ms(user) < idle_since_ms(idlest)) &&
		    !broker_has_leases(tickets->broker, user->uid))
			idlest = user;
	}
	return idlest;
}

/*
 * Takes an unneeded socket out of the table. The socket's thread closes the connections,
 * which may last. The caller removes the name. Under tickets->lock. Returns: whether a
 * socket was unneeded.
 */
static bool make_room(struct tickets *tickets, struct name *ret_name)
{
	struct user *user =
		tickets->n_threads < THREADS_MAX ? find_idlest(tickets) : NULL;

	if (!user)
		return false;
	*ret_name = name_of(user);
	HASH_DEL(tickets->users, user);
	user->evicted = true;
	pthread_mutex_lock(&user->lock);
	user->ended = true;
	pthread_mutex_unlock(&user->lock);
	(void)shutdown(user->listening, SHUT_RDWR); /* wakes the thread */
	return true;
}

/* In the table, without a socket. Under tickets->lock. Returns: NULL without memory. */
static struct user *user_new(struct tickets *tickets, uid_t uid, const char *path)
{
	struct user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	user->tickets = tickets;
	user->uid = uid;
	user->listening = -1;
	user->address.sun_family = AF_UNIX;
	strcpy(user->address.sun_path, path);
	pthread_mutex_init(&user->lock, NULL);
	HASH_ADD(hh, tickets->users, uid, sizeof(uid), user);
	return user;
}

static struct user *user_find(const struct tickets *tickets, uid_t uid)
{
	struct user *user;

	HASH_FIND(hh, tickets->users, &uid, sizeof(uid), user);
	return user;
}

/* A new user, in the place of an unneeded one where all are taken. Returns: 0; -errno. */
static int user_add(struct tickets *tickets, uid_t uid, const char *path,
		    struct user **ret_user)
{
	bool is_full, has_room = true;
	struct name removed;

	pthread_mutex_lock(&tickets->lock);
	is_full = HASH_COUNT(tickets->users) >= USERS_MAX;
	if (is_full)
		has_room = make_room(tickets, &removed);
	*ret_user = has_room ? user_new(tickets, uid, path) : NULL;
	pthread_mutex_unlock(&tickets->lock);
	if (is_full && has_room)
		name_remove(tickets, &removed);
	return *ret_user ? 0 : has_room ? -ENOMEM : -EUSERS;
}

/* By the one thread that may: nobody else knows the user before the socket is there. */
static int user_make(struct tickets *tickets, uid_t uid, const char *path)
{
	struct user *user;
	struct name name;
	int error = user_add(tickets, uid, path, &user), fd;

	if (error)
		return error;
	name = name_of(user);
	fd = name_listen(tickets, &name, uid);
	pthread_mutex_lock(&tickets->lock);
	user->listening = fd;
	error = fd < 0 ? fd : user_start(user);
	if (error) {
		HASH_DEL(tickets->users, user);
		user_free(user);
	}
	pthread_mutex_unlock(&tickets->lock);
	if (error && fd >= 0)
		name_remove(tickets, &name);
	return error;
}

int tickets_path_of(const struct tickets *tickets, uid_t uid, struct text *ret_path)
{
	text_clear(ret_path);
	text_add_user_socket(ret_path, tickets->path, uid);
	return text_failed(ret_path) ? -ENOMEM : 0;
}

bool tickets_has(struct tickets *tickets, uid_t uid)
{
	const struct user *user;
	bool has;

	pthread_mutex_lock(&tickets->lock);
	user = user_find(tickets, uid);
	has = user && user->listening >= 0;
	pthread_mutex_unlock(&tickets->lock);
	return has;
}

int tickets_of(struct tickets *tickets, uid_t uid, bool may_make, struct text *ret_path)
{
	int error = tickets_path_of(tickets, uid, ret_path);

	if (error || tickets_has(tickets, uid))
		return error;
	return may_make ? user_make(tickets, uid, text_string(ret_path)) : -EAGAIN;
}

/* ---- the whole ---- */

static int make(struct tickets **ret_tickets, const char *path, struct keep *keep)
{
	struct tickets *tickets = calloc(1, sizeof(*tickets));

	if (!tickets)
		return -ENOMEM;
	pthread_mutex_init(&tickets->lock, NULL);
	clock_cond_init(&tickets->ended);
	tickets->keep = keep;
	tickets->end = eventfd(0, EFD_CLOEXEC);
	tickets->path = strdup(path);
	if (tickets->end >= 0 && tickets->path)
		tickets->own = user_new(tickets, geteuid(), path);
	if (!tickets->own) {
		tickets_free(tickets);
		return -ENOMEM;
	}
	*ret_tickets = tickets;
	return 0;
}

int tickets_new(struct tickets **ret_tickets, const char *path, struct keep *keep,
		struct text *why)
{
	struct tickets *tickets = NULL;
	struct name name;
	int error;

	if (strlen(path) > USER_SOCKET_MAX) {
		text_printf(
			why,
			"ticket socket %s: a socket's path has at most %d bytes here; "
			"name a shorter one with --socket",
			path, USER_SOCKET_MAX);
		return -ENAMETOOLONG;
	}
	error = make(&tickets, path, keep);
	if (!error) {
		name = name_of(tickets->own);
		tickets->own->listening = name_listen(tickets, &name, tickets->own->uid);
		error = MIN(tickets->own->listening, 0);
	}
	if (error) {
		text_printf(why, "ticket socket %s: %s", path, strerror(-error));
		tickets_free(tickets);
		return error;
	}
	*ret_tickets = tickets;
	return 0;
}

/* Takes over the sockets of users, so that old tickets stay good. */
static int adopt_users(struct tickets *tickets)
{
	_cleanup_text_ struct text path = TEXT_INIT;
	struct keep_key key;
	struct user *user;
	int fd;

	while ((fd = keep_take_any(tickets->keep, KEEP_TICKETS, &key)) >= 0) {
		text_clear(&path);
		text_add_user_socket(&path, tickets->path, key.number);
		user = text_failed(&path)
			       ? NULL
			       : user_new(tickets, key.number, text_string(&path));
		if (!user) {
			close(fd);
			return -ENOMEM;
		}
		user->listening = fd;
	}
	return 0;
}

int tickets_resume(struct tickets **ret_tickets, int listening, struct keep *keep)
{
	struct sockaddr_un address;
	socklen_t length = sizeof(address);
	struct tickets *tickets = NULL;
	int error;

	if (getsockname(listening, (struct sockaddr *)&address, &length) < 0)
		return -errno;
	error = make(&tickets, address.sun_path, keep);
	if (error)
		return error;
	tickets->own->listening = listening;
	error = adopt_users(tickets);
	if (error) {
		/* The paths are the next broker's. */
		tickets->is_left = true;
		tickets_free(tickets);
		return error;
	}
	*ret_tickets = tickets;
	return 0;
}

const char *tickets_address(const struct tickets *tickets)
{
	return tickets->path;
}

int tickets_serve(struct tickets *tickets, struct broker *broker)
{
	struct user *user, *next;
	int error = 0;

	pthread_mutex_lock(&tickets->lock);
	tickets->broker = broker;
	HASH_ITER (hh, tickets->users, user, next) {
		if (!error)
			error = user_start(user);
	}
	pthread_mutex_unlock(&tickets->lock);
	return error;
}

/* Takes all users out of the table. Their threads free them. */
static void end_users(struct tickets *tickets)
{
	const int64_t until_ms = clock_ms() + END_MS;
	struct user *user, *next;

	HASH_ITER (hh, tickets->users, user, next) {
		HASH_DEL(tickets->users, user);
		/* A name that is left is no harm: the next socket takes its place. */
		if (user->listening >= 0 && !tickets->is_left && clock_ms() < until_ms)
			unlink(user->address.sun_path);
		pthread_mutex_lock(&user->lock);
		user->ended = true;
		pthread_mutex_unlock(&user->lock);
		if (!user->serving)
			user_free(user);
	}
}

/* Returns: whether all threads have ended. */
static bool wait_for_threads(struct tickets *tickets)
{
	int64_t deadline_ms = clock_ms() + END_MS;
	int error = 0;

	while (tickets->n_threads && !error)
		error = clock_cond_wait(&tickets->ended, &tickets->lock, deadline_ms);
	return !tickets->n_threads;
}

struct tickets *tickets_free(struct tickets *tickets)
{
	uint64_t one = 1;
	bool ended;

	if (!tickets)
		return NULL;
	pthread_mutex_lock(&tickets->lock);
	end_users(tickets);
	(void)!write(tickets->end, &one, sizeof(one));
	ended = wait_for_threads(tickets);
	pthread_mutex_unlock(&tickets->lock);
	if (!ended)
		return NULL;
	closep(&tickets->end);
	pthread_cond_destroy(&tickets->ended);
	pthread_mutex_destroy(&tickets->lock);
	free(tickets->path);
	free(tickets);
	return NULL;
}
