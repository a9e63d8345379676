/* SPDX-License-Identifier: MIT */
/*
 * `lease` of an allocation: an open descriptor is a lease (api/broker.h). A read at
 * offset 0 waits for the lease's turn and makes the text anew; later reads go on in
 * the same text. A write is a line, and an ioctl(2) is a hold. poll says POLLPRI when
 * there is something new to read. A hold may wait for the release of another descriptor,
 * so the file has control inodes (control_inode.h).
 */
#include "base/def.h"
#include "base/subordinates.h"
#include "file.h"
#include "tickets.h"
#include "transport.h"
#include "view.h"

#include <errno.h>
#include <gpumem/lease.h>
#include <linux/fuse.h>
#include <poll.h>
#include <string.h>

struct lease_file {
	struct file file;
	struct waker waker;
	struct lease *lease;
	uint64_t unique; /* of the request that opened it */
	pthread_mutex_t lock;
	struct text text;	      /* lock: of the last read at offset 0 */
	struct fuse_pollhandle *poll; /* lock */
};

static void lease_serve(struct waker *waker)
{
	struct lease_file *lease = container_of(waker, struct lease_file, waker);
	struct fuse_pollhandle *handle;

	pthread_mutex_lock(&lease->lock);
	handle = take_ptr(lease->poll);
	pthread_mutex_unlock(&lease->lock);
	if (!handle)
		return;
	fuse_lowlevel_notify_poll(handle);
	fuse_pollhandle_destroy(handle);
}

static void on_text(struct request *request, int error, const void *bytes, size_t length)
{
	struct lease_file *lease = request->context;

	if (error) {
		reply_error(request->req, error);
		return;
	}
	pthread_mutex_lock(&lease->lock);
	text_clear(&lease->text);
	text_add(&lease->text, bytes, length);
	if (text_failed(&lease->text))
		error = -ENOMEM;
	pthread_mutex_unlock(&lease->lock);
	if (error)
		reply_error(request->req, error);
	else
		fuse_reply_buf(request->req, bytes, MIN(length, request->size));
}

static void lease_read_on(struct lease_file *lease, fuse_req_t req, size_t size,
			  size_t offset)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length;

	pthread_mutex_lock(&lease->lock);
	offset = MIN(offset, lease->text.length);
	length = MIN(size, lease->text.length - offset);
	bytes = malloc(length + 1);
	if (bytes)
		memcpy(bytes, text_string(&lease->text) + offset, length);
	pthread_mutex_unlock(&lease->lock);
	if (bytes)
		fuse_reply_buf(req, bytes, length);
	else
		reply_error(req, -ENOMEM);
}

static void lease_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
		       const struct fuse_file_info *info)
{
	struct lease_file *lease = container_of(file, struct lease_file, file);
	struct request *request;

	(void)info;
	if (offset > 0) {
		lease_read_on(lease, req, size, (size_t)offset);
		return;
	}
	request = request_new(file->view, req, on_text);
	if (!request)
		return;
	request->context = lease;
	request->size = size;
	broker_lease_read(lease->lease, &request->wait);
	request_wait(request);
}

static void on_line(struct request *request, int error, const void *bytes, size_t length)
{
	(void)bytes;
	(void)length;
	if (error)
		reply_error(request->req, error);
	else
		fuse_reply_write(request->req, request->size);
}

static void lease_write(struct file *file, fuse_req_t req, const char *bytes, size_t size,
			off_t offset, const struct fuse_file_info *info)
{
	struct lease_file *lease = container_of(file, struct lease_file, file);
	struct caller caller = caller_of(req);
	struct request *request = request_new(file->view, req, on_line);

	(void)offset;
	(void)info;
	if (!request)
		return;
	request->size = size;
	broker_lease_write(lease->lease, &caller, bytes, size, &request->wait);
	request_wait(request);
}

static void on_hold(struct request *request, int error, const void *bytes, size_t length)
{
	(void)bytes;
	(void)length;
	if (error)
		reply_error(request->req, error);
	else
		fuse_reply_ioctl(request->req, 0, NULL, 0);
}

/* The only way to hold with a descriptor for reading. */
static void lease_ioctl(struct file *file, fuse_req_t req, unsigned int code,
			const void *bytes, size_t size)
{
	struct lease_file *lease = container_of(file, struct lease_file, file);
	struct caller caller = caller_of(req);
	struct request *request;
	uint32_t hold;

	if (code != GPUMEM_LEASE_HOLD || size != sizeof(hold)) {
		reply_error(req, -ENOTTY);
		return;
	}
	memcpy(&hold, bytes, sizeof(hold));
	request = request_new(file->view, req, on_hold);
	if (!request)
		return;
	broker_lease_hold(lease->lease, &caller, hold, &request->wait);
	request_wait(request);
}

static void lease_poll(struct file *file, fuse_req_t req, struct fuse_pollhandle *handle)
{
	struct lease_file *lease = container_of(file, struct lease_file, file);
	struct fuse_pollhandle *old = NULL;
	unsigned int events = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	const struct fuse_in_header *header = transport_request();
	const struct fuse_poll_in *asked = (const void *)(header + 1);

	pthread_mutex_lock(&lease->lock);
	if (handle) {
		old = lease->poll;
		lease->poll = handle;
	}
	pthread_mutex_unlock(&lease->lock);
	if (old)
		fuse_pollhandle_destroy(old);
	/* libfuse keeps the number in the handle to itself. */
	if (handle)
		broker_lease_note_poll(lease->lease, asked->kh);
	if (broker_lease_changed(lease->lease))
		events |= POLLPRI;
	fuse_reply_poll(req, events);
}

static void lease_free(struct file *file, fuse_req_t req)
{
	struct lease_file *lease = container_of(file, struct lease_file, file);

	(void)req;
	lease->lease = broker_lease_close(lease->lease);
	waker_leave(&lease->waker);
	if (lease->poll)
		fuse_pollhandle_destroy(lease->poll);
	text_deinit(&lease->text);
	pthread_mutex_destroy(&lease->lock);
}

static const struct file_type lease_type = {
	.outlives = true,
	.read = lease_read,
	.write = lease_write,
	.ioctl = lease_ioctl,
	.poll = lease_poll,
	.free = lease_free,
};

/* A descriptor for writing only could not read the ticket. */
static int refuse_write_only(struct view *view, const struct caller *caller,
			     const struct node *node)
{
	_cleanup_text_ struct text path = TEXT_INIT;

	(void)broker_path(view->broker, OBJECT_ALLOCATION, node->token, &path);
	text_printf(&path, "/lease");
	broker_fail(view->broker, caller, text_string(&path), EINVAL,
		    "a lease is opened for reading, or for reading and writing (<>)");
	return -EINVAL;
}

/* The text of the lease names the socket. Returns: as tickets_of(). */
static int make_socket(struct view *view, const struct caller *caller,
		       const struct node *node)
{
	_cleanup_text_ struct text socket = TEXT_INIT, path = TEXT_INIT;
	int error = tickets_of(view->tickets, caller->uid,
			       transport_is_put_off(TRANSPORT_SOCKETS), &socket);

	if (!error || error == -EAGAIN)
		return error;
	(void)broker_path(view->broker, OBJECT_ALLOCATION, node->token, &path);
	text_printf(&path, "/lease");
	broker_fail(view->broker, caller, text_string(&path), -error,
		    "no socket can be made for the tickets of uid %u, %s: %s",
		    caller->uid, text_string(&socket),
		    error == -EUSERS ? "too many users have one" : strerror(-error));
	return error;
}

/* Another thread makes the user's socket, and opens the lease. Returns: false: no. */
static bool put_off(struct view *view, fuse_req_t req)
{
	struct subordinates *subordinates = view->groups.subordinates;

	if (transport_is_put_off(TRANSPORT_SOCKETS) ||
	    !transport_put_off(TRANSPORT_SOCKETS,
			       subordinates_user(subordinates, fuse_req_ctx(req)->uid)))
		return false;
	fuse_reply_none(req);
	return true;
}

static void lease_file_init(struct lease_file *lease, uint64_t unique)
{
	lease->unique = unique;
	pthread_mutex_init(&lease->lock, NULL);
	waker_init(&lease->waker, &lease->file.view->wakers, lease->file.opener->uid,
		   lease_serve);
}

/* A lease that an earlier broker opened for this request, and died before its answer. */
static struct file *find_unanswered(struct view *view, uint64_t unique)
{
	struct file *file;

	for (uint32_t slot = 0; (file = handle_table_next(&view->files.open, &slot));
	     slot++) {
		if (file->type == &lease_type &&
		    container_of(file, struct lease_file, file)->unique == unique)
			return file;
	}
	return NULL;
}

void file_lease_close_unanswered(struct view *view, uint64_t unique)
{
	struct file *found;

	pthread_mutex_lock(&view->files.lock);
	found = find_unanswered(view, unique);
	pthread_mutex_unlock(&view->files.lock);
	file_free(found, NULL);
}

/* Whoever waits asks this broker anew; the last one would have woken them. */
static void wake_poll(struct view *view, uint64_t number)
{
	const struct {
		struct fuse_out_header header;
		struct fuse_notify_poll_wakeup_out wakeup;
	} answer = {
		.header = { .len = sizeof(answer), .error = FUSE_NOTIFY_POLL },
		.wakeup = { .kh = number },
	};
	ssize_t sent = write(fuse_session_fd(view->session), &answer, sizeof(answer));

	(void)sent; /* nobody waits any more */
}

int file_lease_resume(struct view *view)
{
	struct lease_name name;
	struct lease *left;
	uid_t uid;

	while ((left = broker_lease_left(view->broker, &name, &uid))) {
		struct lease_file *lease =
			file_restore(view, uid, name.file, &lease_type, sizeof(*lease));

		if (!lease)
			return -ENOMEM;
		if (node_is_control_inode(name.inode) &&
		    control_inodes_resume(&view->control_inodes, name.inode, name.node,
					  uid) < 0)
			return -ENOMEM;
		lease_file_init(lease, name.unique);
		lease->lease = left;
		broker_lease_resume(left, waker_wake, &lease->waker);
		if (name.poll)
			wake_poll(view, name.poll);
	}
	return 0;
}

void file_lease_open(struct view *view, fuse_req_t req, const struct node *node,
		     struct fuse_file_info *info)
{
	_cleanup_identity_ struct identity identity = { .caller = caller_of(req) };
	const struct fuse_in_header *header = transport_request();
	struct lease_name name = { 0 };
	struct lease_file *lease;
	int error;

	if (!tickets_has(view->tickets, identity.caller.uid) && put_off(view, req))
		return;
	if (transport_is_again())
		file_lease_close_unanswered(view, transport_unique());
	lease = file_new(view, req, &lease_type, sizeof(*lease));
	error = lease ? 0 : -ENOMEM;
	if (lease) {
		lease_file_init(lease, transport_unique());
		name = (struct lease_name){ file_handle(&lease->file), lease->unique, 0,
					    node_id(node), header->nodeid };
	}
	if (!error && (info->flags & O_ACCMODE) == O_WRONLY)
		error = refuse_write_only(view, &identity.caller, node);
	if (!error)
		error = identity_init(&identity, req);
	if (!error)
		error = broker_lease_open(view->broker, node->token, &identity.caller,
					  opened_for_writing(info), name, waker_wake,
					  &lease->waker, &lease->lease);
	if (!error)
		error = make_socket(view, &identity.caller, node);
	if (error) {
		file_free(lease ? &lease->file : NULL, req);
		/* Somebody's need of room may just have ended the socket. */
		if (error == -EAGAIN && put_off(view, req))
			return;
		reply_error(req, error == -EAGAIN ? -ENOMEM : error);
		return;
	}
	info->direct_io = 1;
	info->noflush = 1;
	file_reply(req, &lease->file, info);
}
