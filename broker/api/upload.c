/* SPDX-License-Identifier: MIT */
/*
 * Written bytes go into a draft (api/draft.h). A close hands it over, sealed; later
 * writes go into a new draft over it. What may take long is done in the work queue: to
 * copy the rest of a draft, and to check and store it. Under upload->lock at most a piece
 * or two are copied, so a thread of the view never waits long for the lock.
 */
#include "api/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#include "api/draft.h"
#include "api/upload_class.h"
#include "base/completion.h"
#include "base/refusal.h"
#include "base/workqueue.h"
#include "memops/late_close.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"

/* Contents of this size are stored within some 40 ms. */
#define STORED_SOON ((uint64_t)1 << 20)
/* And such are freed by the thread of the view. */
#define FREED_AT_ONCE ((uint64_t)1 << 20)

struct upload {
	struct broker *broker;
	const struct upload_class *class;
	enum object_type type;
	struct token token;
	struct caller caller;  /* opened the file; its groups don't matter here */
	struct full_name name; /* of the object */
	struct contents base;  /* the contents at the start */
	uint64_t reads;	     /* bytes of the base charged to this user; 0: not charged */
	unsigned int n_refs; /* atomic: the file's, and one of each close under way */

	pthread_mutex_t lock;	    /* guards all fields below; outermost */
	struct draft draft;	    /* over the base */
	uint64_t charged;	    /* bytes of SHARE_IMAGES */
	unsigned int n_descriptors; /* of SHARE_DESCRIPTORS */
	unsigned int n_closings;    /* under way, with a descriptor each */
	uint64_t handed;	    /* bytes of drafts that these have */
	struct closing *last; /* to get a draft, which the upload has, too; NULL: done */
	bool dirty;	      /* written since the last close */
	bool too_big;	      /* a write was refused: the contents are incomplete */
	bool cut;	      /* to nothing, and no write has come since */
};

/* A close that stores, in the work queue. */
struct closing {
	struct task task;
	struct upload *upload; /* has a reference */
	struct written written;
	uint64_t handed; /* counted in the upload */
};

static const struct upload_class *const classes[N_OBJECT_TYPES] = {
	[OBJECT_ALLOCATION] = &tensors_upload,
	[OBJECT_MODULE] = &image_upload,
};

/* The user who opened the file. Under registry.lock. NULL: no memory. */
static struct owner *upload_payer(const struct upload *upload)
{
	return owner_get(upload->broker->registry, upload->caller.uid,
			 upload->caller.gid);
}

/*
 * Closes descriptors of so many bytes at most, later where these are many, and gives
 * their shares back.
 */
static void upload_close(struct upload *upload, struct late_close *what, uint64_t bytes)
{
	struct registry *registry = upload->broker->registry;

	for (size_t i = 0; bytes <= FREED_AT_ONCE && i < LATE_CLOSE_FDS; i++)
		closep(&what->fds[i]);
	/* Descriptors are charged, so there is a payer for all that is left. */
	if (!what->size && !what->n_descriptors)
		return;
	what->bytes = bytes;
	what->share = SHARE_IMAGES;
	pthread_mutex_lock(&registry->lock);
	what->payer = upload_payer(upload);
	if (bytes > FREED_AT_ONCE)
		late_close(upload->broker, what);
	else
		late_close_give(what);
	pthread_mutex_unlock(&registry->lock);
}

/*
 * Closes an unneeded base, with its charges. While the last closing is charged for the
 * bytes, the base is not. Called with the lock.
 */
static void upload_close_left(struct upload *upload)
{
	struct late_close what = { .fds = { -1, -1, -1 } };
	uint64_t size;

	what.fds[0] = draft_take_left(&upload->draft, &size);
	if (what.fds[0] < 0)
		return;
	what.size = upload->last ? 0 : MIN(size, upload->charged);
	what.n_descriptors = MIN(1u, upload->n_descriptors);
	upload->charged -= what.size;
	upload->n_descriptors -= what.n_descriptors;
	upload_close(upload, &what, size);
}

static void upload_unref(struct upload *upload)
{
	struct late_close what = { .fds = { -1, -1, -1 } };

	if (__atomic_sub_fetch(&upload->n_refs, 1, __ATOMIC_ACQ_REL))
		return;
	what.size = upload->charged + upload->reads;
	what.n_descriptors = upload->n_descriptors + !!upload->reads;
	draft_end(&upload->draft, &what.fds[0], &what.fds[1]);
	if (upload->base.object)
		upload->class->put(upload->broker, &upload->base);
	else
		what.fds[2] = upload->base.fd;
	upload_close(upload, &what, what.size);
	pthread_mutex_destroy(&upload->lock);
	free(upload);
}

struct upload *upload_free(struct upload *upload)
{
	if (!upload)
		return NULL;
	if (upload->cut && upload->class->remove)
		upload->class->remove(upload->broker, upload->token, &upload->caller,
				      &upload->base);
	upload_unref(upload);
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

/* charging: the error is that of the charge. */
static int upload_refuse(struct upload *upload, pid_t pid, int error, bool charging)
{
	if (charging && share_is_refusal(error))
		return upload_refuse_share(upload, pid, -error);
	switch (error) {
	case -EFBIG:
		return upload_fail(upload, pid, EFBIG, upload->class->too_big);
	case -EMFILE:
		return upload_fail(upload, pid, EMFILE,
				   "the broker has no descriptors left");
	case -ENFILE:
		return upload_fail(upload, pid, EMFILE,
				   "the machine has no descriptors left");
	default:
		return upload_fail(upload, pid, -error,
				   "the broker has no room for the text");
	}
}

/* ---- opening ---- */

/* Under registry.lock. Returns: 0; -EDQUOT, -EMFILE, -ENOMEM. */
static int upload_charge_base(struct upload *upload, uint64_t size)
{
	struct owner *payer = upload_payer(upload);
	int r = payer ? share_take(payer, SHARE_IMAGES, size) : -ENOMEM;

	if (r < 0)
		return r;
	r = share_take(payer, SHARE_DESCRIPTORS, 1);
	if (r < 0)
		share_give(payer, SHARE_IMAGES, size);
	else
		upload->reads = size;
	return r;
}

/*
 * Has the contents of the object as the base. The owner may replace or free contents that
 * others have open. So others pay for them, each descriptor, and take no reference.
 * Under registry.lock. Returns: 0; -EDQUOT, -EMFILE, -ENFILE, -ENOMEM.
 */
static int upload_open_base(struct upload *upload, void *object)
{
	struct contents base = { .fd = -1 };
	int r;

	upload->class->get(object, upload->caller.uid, &base);
	if (!base.object && base.fd >= 0) {
		r = upload_charge_base(upload, base.size);
		if (r < 0)
			return r;
		base.fd = fcntl(base.fd, F_DUPFD_CLOEXEC, 0);
		if (base.fd < 0)
			return -errno;
	}
	upload->base = base;
	return 0;
}

int upload_new(struct upload **ret_upload, struct broker *broker, enum object_type type,
	       struct token token, const struct caller *caller)
{
	struct upload *upload = calloc(1, sizeof(*upload));
	void *object;
	int r = -ESTALE;

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
	upload->base.fd = -1;
	upload->n_refs = 1;

	pthread_mutex_lock(&broker->registry->lock);
	object = object_get(broker->registry, type, token);
	if (object) {
		upload->name = object_name(type, object);
		r = upload_open_base(upload, object);
	}
	draft_init(&upload->draft, upload->base.fd, upload->base.size);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0) {
		if (object)
			r = upload_refuse(upload, caller->pid, r, !upload->reads);
		upload_free(upload);
		return r;
	}
	*ret_upload = upload;
	return 0;
}

uint64_t upload_size(struct upload *upload)
{
	uint64_t size;

	pthread_mutex_lock(&upload->lock);
	size = upload->draft.size;
	pthread_mutex_unlock(&upload->lock);
	return size;
}

long upload_read(struct upload *upload, uint64_t offset, void *bytes, size_t size)
{
	long n;

	pthread_mutex_lock(&upload->lock);
	n = draft_read(&upload->draft, offset, bytes, size);
	pthread_mutex_unlock(&upload->lock);
	return n;
}

/* ---- writing ---- */

/*
 * Takes the shares of a draft of that size, of what it keeps beside, and of the closings
 * under way with so many to come. What is kept may be the last closing's, too. Called
 * with the lock. Returns: 0; -EDQUOT, -EMFILE, -ENOMEM.
 */
static int upload_charge(struct upload *upload, uint64_t size, unsigned int n_to_come)
{
	uint64_t kept = draft_keeps(&upload->draft);
	uint64_t all = size + upload->handed + (upload->last ? 0 : kept);
	uint64_t more = all - MIN(all, upload->charged);
	unsigned int n = (kept ? 2 : 1) + upload->n_closings + n_to_come;
	struct owner *payer;
	int r = -ENOMEM;

	n -= MIN(n, upload->n_descriptors);
	if (!more && !n)
		return 0;
	pthread_mutex_lock(&upload->broker->registry->lock);
	payer = upload_payer(upload);
	if (payer)
		r = share_take(payer, SHARE_IMAGES, more);
	if (r == 0) {
		r = share_take(payer, SHARE_DESCRIPTORS, n);
		if (r < 0)
			share_give(payer, SHARE_IMAGES, more);
	}
	if (r == 0) {
		upload->charged += more;
		upload->n_descriptors += n;
	}
	pthread_mutex_unlock(&upload->broker->registry->lock);
	return r;
}

/*
 * Looks at what may be all of the contents, without the lock: a look takes a while.
 * Returns: 0; negative: in the journal.
 */
static int upload_look(struct upload *upload, pid_t pid, uint64_t offset,
		       const void *bytes, size_t size)
{
	struct refusal refusal;
	int r;

	if (!upload->class->look || offset || size < upload_size(upload))
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
	bool charged = true;

	if (r == 0)
		looked = upload_look(upload, pid, offset, bytes, size);
	pthread_mutex_lock(&upload->lock);
	upload->cut = false;
	if (looked < 0) {
		pthread_mutex_unlock(&upload->lock);
		return looked;
	}
	if (r == 0) {
		r = upload_charge(upload, MAX(upload->draft.size, offset + size), 0);
		charged = r == 0;
	}
	if (r == 0)
		r = draft_write(&upload->draft, offset, bytes, size);
	upload_close_left(upload);
	upload->too_big |= too_big;
	upload->dirty |= r == 0 || too_big;
	pthread_mutex_unlock(&upload->lock);
	return r < 0 ? upload_refuse(upload, pid, r, !charged) : 0;
}

int upload_resize(struct upload *upload, pid_t pid, uint64_t size)
{
	int r = size > upload->class->most ? -EFBIG : 0;
	bool charged = true;

	pthread_mutex_lock(&upload->lock);
	if (r == 0 && size != upload->draft.size) {
		r = upload_charge(upload, size, 0);
		charged = r == 0;
	}
	if (r == 0)
		r = draft_resize(&upload->draft, size);
	upload_close_left(upload);
	if (r == 0) {
		upload->too_big = false;
		upload->cut = size == 0;
	}
	pthread_mutex_unlock(&upload->lock);
	return r < 0 ? upload_refuse(upload, pid, r, !charged) : 0;
}

/* ---- closing ---- */

/* Hands a whole draft over. Called with the lock. Returns: 0; -errno. */
static int closing_take(struct closing *closing)
{
	struct upload *upload = closing->upload;
	int r = draft_seal(&upload->draft, &closing->written.fd);

	if (r < 0)
		return r;
	closing->written.size = closing->handed = upload->draft.size;
	upload->handed += closing->handed;
	upload->last = closing;
	return 0;
}

/* Copies the rest of the draft, and hands the draft over. Returns: 0; -errno. */
static int closing_copy(struct closing *closing)
{
	struct upload *upload = closing->upload;
	int r;

	do {
		pthread_mutex_lock(&upload->lock);
		r = draft_copy(&upload->draft);
		if (r == 0)
			r = closing_take(closing);
		upload_close_left(upload);
		pthread_mutex_unlock(&upload->lock);
	} while (r > 0);
	return r;
}

static void closing_free(struct closing *closing)
{
	struct upload *upload = closing->upload;

	closep(&closing->written.fd);
	pthread_mutex_lock(&upload->lock);
	upload->n_closings--;
	upload->handed -= closing->handed;
	if (upload->last == closing)
		upload->last = NULL;
	pthread_mutex_unlock(&upload->lock);
	upload_unref(upload);
	free(closing);
}

static void closing_run(struct task *task)
{
	struct closing *closing = container_of(task, struct closing, task);
	struct written *written = &closing->written;
	struct broker *broker = closing->upload->broker;

	if (written->fd < 0)
		written->error = closing_copy(closing);
	closing->upload->class->store(broker, written);
	closing_free(closing);
	pthread_mutex_lock(&broker->registry->lock);
	registry_less_busy(broker->registry);
	pthread_mutex_unlock(&broker->registry->lock);
}

/* A whole draft is handed over at once, before it is written again. Called with the lock.
 * Returns: 0; -ENOMEM, -EMFILE. */
static int closing_new(struct closing **ret_closing, struct upload *upload, pid_t pid)
{
	struct closing *closing = calloc(1, sizeof(*closing));
	int r = 0;

	if (!closing)
		return -ENOMEM;
	closing->written = (struct written){
		.token = upload->token,
		.caller = upload->caller,
		.fd = -1,
		.size = upload->draft.size,
	};
	closing->written.caller.pid = pid;
	closing->task.run = closing_run;
	/* A draft that is still to be copied may grow before. */
	if (!draft_is_whole(&upload->draft) || upload->draft.size > STORED_SOON)
		closing->task.length = upload->class->length;
	closing->upload = upload;
	if (draft_is_whole(&upload->draft))
		r = closing_take(closing);
	if (r < 0) {
		free(closing);
		return r;
	}
	__atomic_fetch_add(&upload->n_refs, 1, __ATOMIC_RELAXED);
	upload->n_closings++;
	*ret_closing = closing;
	return 0;
}

static void closing_start(struct closing *closing, struct completion *wait)
{
	struct upload *upload = closing->upload;
	struct broker *broker = upload->broker;
	struct written *written = &closing->written;
	struct refusal refusal;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	if (upload->class->announce)
		r = upload->class->announce(broker, written, &refusal);
	if (r == 0) {
		broker->registry->n_busy++;
		completion_hold(wait, &written->wait, NULL);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == 0) {
		workqueue_add(broker->workqueue, written->caller.uid, &closing->task);
		return;
	}
	upload_fail(upload, written->caller.pid, refusal.error, refusal.sentence);
	closing_free(closing);
	wait->done(wait, r, NULL, 0);
}

void upload_flush(struct upload *upload, pid_t pid, struct completion *wait)
{
	struct closing *closing = NULL;
	bool charged = true;
	int r = 0;

	pthread_mutex_lock(&upload->lock);
	if (upload->dirty && upload->too_big) {
		r = -EFBIG;
	} else if (upload->dirty && upload->draft.fd >= 0) {
		r = upload_charge(upload, upload->draft.size, 1);
		charged = r == 0;
		if (r == 0)
			r = closing_new(&closing, upload, pid);
	}
	upload->dirty = false;
	pthread_mutex_unlock(&upload->lock);
	if (closing) {
		closing_start(closing, wait);
		return;
	}
	/* A write beyond the limit has been reported. */
	if (r < 0 && r != -EFBIG)
		(void)upload_refuse(upload, pid, r, !charged);
	wait->done(wait, r, NULL, 0);
}
