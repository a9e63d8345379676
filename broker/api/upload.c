/* SPDX-License-Identifier: MIT */
/*
 * Written bytes go into a memfd. A close hands over the memfd, sealed; later writes go
 * into a copy. Memory is taken only while the machine has enough.
 */
#include "api/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "api/upload_class.h"
#include "base/refusal.h"
#include "memory/block.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"

struct upload {
	struct broker *broker;
	const struct upload_class *class;
	enum object_type type;
	struct token token;
	struct caller caller;  /* opened the file; its groups don't matter here */
	struct full_name name; /* of the object */

	pthread_mutex_t lock; /* guards all fields below; outermost */
	struct contents base; /* the contents at the start */
	int fd;		      /* its own contents; -1: nothing written yet */
	uint64_t size;	      /* of either */
	uint64_t charged;     /* bytes of SHARE_IMAGES */
	bool has_descriptor;  /* of SHARE_DESCRIPTORS */
	bool sealed;	      /* fd was handed over */
	bool dirty;	      /* written since */
	bool too_big;	      /* a write was refused: the contents are incomplete */
	bool cut;	      /* to nothing, and no write has come since */
};

static const struct upload_class *const classes[N_OBJECT_TYPES] = {
	[OBJECT_ALLOCATION] = &tensors_upload,
	[OBJECT_MODULE] = &image_upload,
};

int upload_new(struct upload **ret_upload, struct broker *broker, enum object_type type,
	       struct token token, const struct caller *caller)
{
	struct upload *upload = calloc(1, sizeof(*upload));
	void *object;

	if (!upload)
		return -ENOMEM;
	pthread_mutex_init(&upload->lock, NULL);
	upload->broker = broker;
	upload->class = classes[type];
	upload->type = type;
	upload->token = token;
	upload->caller = *caller;
	upload->caller.n_groups = 0;
	upload->caller.groups = NULL;
	upload->fd = -1;
	upload->base.fd = -1;

	pthread_mutex_lock(&broker->registry->lock);
	object = object_get(broker->registry, type, token);
	if (object) {
		upload->name = object_name(type, object);
		upload->class->get(object, &upload->base);
		upload->size = upload->base.size;
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (!object) {
		upload_free(upload);
		return -ESTALE;
	}
	*ret_upload = upload;
	return 0;
}

/* The user who opened the file. Under registry.lock. NULL: no memory. */
static struct owner *upload_payer(const struct upload *upload)
{
	return owner_get(upload->broker->registry, upload->caller.uid,
			 upload->caller.gid);
}

static void upload_give_shares(struct upload *upload)
{
	struct owner *payer;

	if (!upload->charged && !upload->has_descriptor)
		return;
	pthread_mutex_lock(&upload->broker->registry->lock);
	payer = upload_payer(upload);
	share_give(payer, SHARE_IMAGES, upload->charged);
	share_give(payer, SHARE_DESCRIPTORS, upload->has_descriptor);
	pthread_mutex_unlock(&upload->broker->registry->lock);
}

struct upload *upload_free(struct upload *upload)
{
	if (!upload)
		return NULL;
	if (upload->cut && upload->class->remove)
		upload->class->remove(upload->broker, upload->token, &upload->caller,
				      &upload->base);
	if (upload->base.object)
		upload->class->put(upload->broker, &upload->base);
	upload_give_shares(upload);
	closep(&upload->fd);
	pthread_mutex_destroy(&upload->lock);
	free(upload);
	return NULL;
}

static int upload_fail(struct upload *upload, pid_t pid, int error, const char *sentence)
{
	char file[FULL_NAME_MAX + 64];

	snprintf(file, sizeof(file), "%s/%s/%s", object_folder(upload->type),
		 upload->name.text, upload->class->file);
	journal_fail(upload->broker->journal, upload->caller.uid, pid, file, error,
		     sentence);
	return -error;
}

static int upload_refuse_share(struct upload *upload, pid_t pid, int error)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct owner *payer;

	pthread_mutex_lock(&upload->broker->registry->lock);
	payer = upload_payer(upload);
	if (payer)
		share_explain(payer, &text);
	pthread_mutex_unlock(&upload->broker->registry->lock);
	return upload_fail(upload, pid, error, text_string(&text));
}

static int upload_refuse(struct upload *upload, pid_t pid, int error)
{
	if (share_is_refusal(error))
		return upload_refuse_share(upload, pid, -error);
	return upload_fail(upload, pid, -error,
			   error == -EFBIG ? upload->class->too_big
					   : "the broker has no room for the text");
}

uint64_t upload_size(struct upload *upload)
{
	uint64_t size;

	pthread_mutex_lock(&upload->lock);
	size = upload->size;
	pthread_mutex_unlock(&upload->lock);
	return size;
}

long upload_read(struct upload *upload, uint64_t offset, void *bytes, size_t size)
{
	ssize_t n = 0;
	int fd;

	pthread_mutex_lock(&upload->lock);
	fd = upload->fd >= 0 ? upload->fd : upload->base.fd;
	size = offset < upload->size ? MIN(size, upload->size - offset) : 0;
	if (fd >= 0 && size)
		n = pread(fd, bytes, size, (off_t)offset);
	pthread_mutex_unlock(&upload->lock);
	return n < 0 ? -EIO : n;
}

/* ---- writing; with the lock held ---- */

static int copy_into(int fd, int from, uint64_t size)
{
	off_t at = 0;

	while ((uint64_t)at < size) {
		ssize_t n = sendfile(fd, from, &at, size - (uint64_t)at);

		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
	}
	return 0;
}

static int write_all(int fd, uint64_t offset, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = pwrite(fd, bytes, size, (off_t)offset);

		if (n < 0)
			return errno == ENOSPC ? -ENOMEM : -errno;
		offset += (uint64_t)n;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Takes the shares of private contents of that size. Returns: 0; -EDQUOT, -EMFILE. */
static int upload_charge(struct upload *upload, uint64_t size)
{
	uint64_t more = size - MIN(size, upload->charged);
	struct owner *payer;
	int r = -ENOMEM;

	if (!more && upload->has_descriptor)
		return 0;
	pthread_mutex_lock(&upload->broker->registry->lock);
	payer = upload_payer(upload);
	if (payer)
		r = share_take(payer, SHARE_IMAGES, more);
	if (r == 0 && !upload->has_descriptor) {
		r = share_take(payer, SHARE_DESCRIPTORS, 1);
		upload->has_descriptor = r == 0;
		if (r < 0)
			share_give(payer, SHARE_IMAGES, more);
	}
	if (r == 0)
		upload->charged += more;
	pthread_mutex_unlock(&upload->broker->registry->lock);
	return r;
}

/* Makes a memfd for writing, with the first size bytes of the current contents. */
static int upload_begin(struct upload *upload, uint64_t size)
{
	int from = upload->sealed ? upload->fd : upload->base.fd;
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (upload->fd >= 0 && !upload->sealed)
		return 0;
	if (!host_has_room(size))
		return -ENOMEM;
	fd = memfd_create("gpumem-upload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (from >= 0)
		r = copy_into(fd, from, size);
	if (r < 0)
		return r;
	closep(&upload->fd);
	upload->fd = take_fd(&fd);
	upload->sealed = false;
	return 0;
}

/* Holes use memory once they are read. */
static int upload_check_room(const struct upload *upload, uint64_t size)
{
	return size <= upload->size || host_has_room(size - upload->size) ? 0 : -ENOMEM;
}

/* Looks at what may be all of the contents. Returns: 0; negative: in the journal. */
static int upload_look(struct upload *upload, pid_t pid, uint64_t offset,
		       const void *bytes, size_t size)
{
	struct refusal refusal;
	int r;

	if (!upload->class->look || offset || size < upload->size)
		return 0;
	r = upload->class->look(upload->broker, upload->token, bytes, size, &refusal);
	return r < 0 ? upload_fail(upload, pid, refusal.error, refusal.sentence) : 0;
}

int upload_write(struct upload *upload, pid_t pid, uint64_t offset, const void *bytes,
		 size_t size)
{
	uint64_t most = upload->class->most;
	bool too_big = offset > most || size > most - offset;
	int r = too_big ? -EFBIG : 0, looked = 0;

	pthread_mutex_lock(&upload->lock);
	upload->cut = false;
	if (r == 0)
		looked = upload_look(upload, pid, offset, bytes, size);
	if (looked < 0) {
		pthread_mutex_unlock(&upload->lock);
		return looked;
	}
	if (r == 0)
		r = upload_charge(upload, MAX(upload->size, offset + size));
	if (r == 0)
		r = upload_begin(upload, upload->size);
	if (r == 0)
		r = upload_check_room(upload, offset + size);
	if (r == 0)
		r = write_all(upload->fd, offset, bytes, size);
	if (r == 0)
		upload->size = MAX(upload->size, offset + size);
	upload->too_big |= too_big;
	upload->dirty |= r == 0 || too_big;
	pthread_mutex_unlock(&upload->lock);
	return r < 0 ? upload_refuse(upload, pid, r) : 0;
}

int upload_resize(struct upload *upload, pid_t pid, uint64_t size)
{
	int r = size > upload->class->most ? -EFBIG : 0;

	pthread_mutex_lock(&upload->lock);
	if (r == 0 && size != upload->size)
		r = upload_charge(upload, size);
	if (r == 0 && size != upload->size)
		r = upload_begin(upload, MIN(size, upload->size));
	if (r == 0)
		r = upload_check_room(upload, size);
	if (r == 0 && size != upload->size && ftruncate(upload->fd, (off_t)size) < 0)
		r = -errno;
	if (r == 0) {
		upload->size = size;
		upload->too_big = false;
		upload->cut = size == 0;
	}
	pthread_mutex_unlock(&upload->lock);
	return r < 0 ? upload_refuse(upload, pid, r) : 0;
}

/* ---- closing ---- */

/* Hands over what was written. Returns: 0; -EFBIG; -errno. */
static int upload_take(struct upload *upload, int *ret_fd, uint64_t *ret_size)
{
	int fd;

	if (upload->too_big)
		return -EFBIG;
	if (!upload->sealed &&
	    fcntl(upload->fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	upload->sealed = true;
	fd = fcntl(upload->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	*ret_size = upload->size;
	return 0;
}

void upload_flush(struct upload *upload, pid_t pid, struct completion *wait)
{
	struct caller caller = upload->caller;
	uint64_t size = 0;
	int fd = -1, r = 0;

	caller.pid = pid;
	pthread_mutex_lock(&upload->lock);
	if (upload->dirty)
		r = upload_take(upload, &fd, &size);
	upload->dirty = false;
	pthread_mutex_unlock(&upload->lock);
	if (fd >= 0) {
		upload->class->store(upload->broker, upload->token, &caller, fd, size,
				     wait);
		return;
	}
	/* A write beyond the limit has been reported. */
	if (r < 0 && r != -EFBIG)
		upload_fail(upload, pid, -r, "the broker can't take the text");
	wait->done(wait, r, NULL, 0);
}
