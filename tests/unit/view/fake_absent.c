/* SPDX-License-Identifier: MIT */
/* Parts of the API that the broker in memory does not have. */
#include "fake_private.h"

#include <assert.h>
#include <errno.h>

#include "base/token_ends.h"

/* ---- modules: there are none ---- */

int upload_new(struct upload **ret_upload, struct broker *broker, enum object_type type,
	       struct token token, const struct caller *caller)
{
	(void)ret_upload;
	(void)broker;
	(void)type;
	(void)token;
	(void)caller;
	return -ESTALE;
}

struct upload *upload_free(struct upload *upload)
{
	assert(!upload);
	return NULL;
}

uint64_t upload_size(struct upload *upload)
{
	(void)upload;
	return 0;
}

long upload_read(struct upload *upload, uint64_t offset, void *bytes, size_t size)
{
	(void)upload;
	(void)offset;
	(void)bytes;
	(void)size;
	return -EIO;
}

int upload_write(struct upload *upload, pid_t pid, uint64_t offset, const void *bytes,
		 size_t size)
{
	(void)upload;
	(void)pid;
	(void)offset;
	(void)bytes;
	(void)size;
	return -EIO;
}

int upload_resize(struct upload *upload, pid_t pid, uint64_t size)
{
	(void)upload;
	(void)pid;
	(void)size;
	return -EIO;
}

void upload_flush(struct upload *upload, pid_t pid, struct completion *wait)
{
	(void)upload;
	(void)pid;
	wait->done(wait, -EIO, NULL, 0);
}

void broker_space(struct broker *broker, const struct caller *caller,
		  struct completion *wait)
{
	struct broker_space *space = calloc(1, sizeof(*space));

	(void)caller;
	*space = (struct broker_space){ 1ull << 40, 1ull << 39, 3 };
	fake_answer(broker, wait, 0, space, sizeof(*space));
}

/* ---- leases: none here ---- */

int broker_lease_open(struct broker *broker, struct token token,
		      const struct caller *caller, bool write, struct lease_name name,
		      void (*wake)(void *userdata), void *userdata,
		      struct lease **ret_lease)
{
	(void)name;
	(void)broker;
	(void)token;
	(void)caller;
	(void)write;
	(void)wake;
	(void)userdata;
	(void)ret_lease;
	return -EOPNOTSUPP;
}

struct lease *broker_lease_left(struct broker *broker, struct lease_name *ret_name,
				uid_t *ret_uid)
{
	(void)broker;
	(void)ret_name;
	(void)ret_uid;
	return NULL;
}

void broker_lease_resume(struct lease *lease, void (*wake)(void *userdata),
			 void *userdata)
{
	(void)lease;
	(void)wake;
	(void)userdata;
}

/* ---- the next broker: there is none ---- */

int broker_print_records(const char *path, struct text *text)
{
	(void)path;
	(void)text;
	return -EOPNOTSUPP;
}

int broker_admit(struct broker *broker, const struct caller *caller)
{
	(void)broker;
	(void)caller;
	return 0;
}

struct subordinates *broker_subordinates(const struct broker *broker)
{
	(void)broker;
	return NULL;
}

struct token_ends *broker_token_ends(const struct broker *broker)
{
	static struct token_ends ends;

	(void)broker;
	return &ends;
}

size_t broker_init_request(const struct broker *broker, const void **ret_bytes)
{
	(void)broker;
	(void)ret_bytes;
	return 0;
}

void broker_note_init_request(struct broker *broker, const void *bytes, size_t length)
{
	(void)broker;
	(void)bytes;
	(void)length;
}

bool broker_try_again(struct broker *broker, uint64_t unique)
{
	(void)broker;
	(void)unique;
	return true;
}

void broker_lease_read(struct lease *lease, struct completion *wait)
{
	(void)lease;
	wait->done(wait, -EOPNOTSUPP, NULL, 0);
}

void broker_lease_hold(struct lease *lease, const struct caller *caller, uint32_t hold,
		       struct completion *wait)
{
	(void)lease;
	(void)caller;
	(void)hold;
	wait->done(wait, -EOPNOTSUPP, NULL, 0);
}

void broker_lease_write(struct lease *lease, const struct caller *caller,
			const char *line, size_t length, struct completion *wait)
{
	(void)lease;
	(void)caller;
	(void)line;
	(void)length;
	wait->done(wait, -EOPNOTSUPP, NULL, 0);
}

bool broker_lease_changed(struct lease *lease)
{
	(void)lease;
	return false;
}

void broker_lease_note_poll(struct lease *lease, uint64_t poll)
{
	(void)lease;
	(void)poll;
}

struct lease *broker_lease_close(struct lease *lease)
{
	(void)lease;
	return NULL;
}

int broker_redeem(struct broker *broker, const char *ticket, size_t length, uid_t uid)
{
	(void)broker;
	(void)ticket;
	(void)length;
	(void)uid;
	return -ENOENT;
}

bool broker_has_leases(struct broker *broker, uid_t uid)
{
	(void)broker;
	(void)uid;
	return false;
}

int broker_refuse_sealed(struct broker *broker, const struct caller *caller,
			 struct token token, const char *file)
{
	(void)broker;
	(void)caller;
	(void)token;
	(void)file;
	return -EPERM;
}
