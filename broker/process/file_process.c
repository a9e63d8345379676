/* SPDX-License-Identifier: MIT */
#include "process/file_process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "base/text.h"
#include "base/warning.h"
#include "channel/channel.h"
#include "channel/request.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/processes.h"

#define LINGER_MS    1000 /* a session that was left ends within */
#define END_MS	     1000 /* all processes end within, at the end of the broker */
#define STOP_SECONDS 5

struct file_process {
	struct broker *broker;
	struct worker *worker;
	struct channel *channel;
	struct file_session *sessions; /* without an answer */
	unsigned int n_held;	       /* sessions that are not left */
	int64_t used_ms;
	bool given_up;			  /* takes no sessions any more */
	bool stopping;			  /* the broker ends it */
	bool ended;			  /* to be freed */
	struct file_process *prev, *next; /* of broker->processes->file_processes */
};

struct file_session {
	struct request request; /* FILE_OPEN */
	struct file_process *process;
	struct wire_file_open *open; /* the payload */
	bool held;		     /* by an op */
	bool over;		     /* answered */
	int64_t left_ms;
	struct file_session *prev, *next;
};

/* ---- processes ---- */

static void process_kill(struct file_process *process)
{
	process->stopping = true;
	channel_kill(process->channel);
}

/* Takes the process away from further sessions. */
static void process_give_up(struct file_process *process)
{
	process->given_up = true;
	if (process->worker->files == process)
		process->worker->files = NULL;
	if (!process->n_held && !process->ended)
		process_kill(process);
}

/* Tells the administrator of an end that nobody asked for. */
static void process_warn(const struct file_process *process, const char *reason)
{
	uid_t uid = process->worker->owner->uid;
	char object[32];

	snprintf(object, sizeof(object), "owners/%u", uid);
	warnings_add(process->broker->journal->warnings, WARNING_WORKER_ENDED, uid,
		     object, "the process that opens files for uid %u %s", uid, reason);
}

static void process_ended(void *userdata, struct channel *channel, const char *reason)
{
	struct file_process *process = userdata;
	struct broker *broker = process->broker;

	(void)channel;
	pthread_mutex_lock(&broker->registry->lock);
	if (!process->stopping)
		process_warn(process, reason);
	process->ended = true;
	process_give_up(process);
	broker_wake_housekeeper(broker);
	pthread_cond_broadcast(&broker->registry->idle);
	pthread_mutex_unlock(&broker->registry->lock);
}

/* Returns: 0; -ENOMEM, -EMFILE, -EAGAIN. */
static int process_new(struct worker *worker, struct file_process **ret_process)
{
	struct broker *broker = worker->broker;
	struct file_process *process = calloc(1, sizeof(*process));
	char name[32];
	const struct channel_config config = {
		.spawner = &broker->processes->spawner,
		.program = broker->processes->worker_program,
		.name = name,
		.uid = worker->owner->uid,
		.gid = worker->owner->gid,
		.staging_fd = -1,
		.output_fd = -1,
		.n_threads = 1,
		.ended = process_ended,
		.userdata = process,
	};
	int r;

	if (!process)
		return -ENOMEM;
	process->broker = broker;
	process->worker = worker;
	process->used_ms = clock_ms();
	snprintf(name, sizeof(name), "files-%u", worker->owner->uid);
	r = channel_new(&process->channel, &config);
	if (r < 0) {
		free(process);
		return r;
	}
	DL_APPEND(broker->processes->file_processes, process);
	*ret_process = process;
	return 0;
}

/* The process for the next session. Returns: 0; negative with a refusal. */
static int process_find(struct worker *worker, struct refusal *refusal)
{
	struct owner *owner = worker->owner;
	_cleanup_text_ struct text text = TEXT_INIT;
	int r;

	if (worker->files)
		return 0;
	r = share_take(owner, SHARE_FILE_PROCESSES, 1);
	if (r < 0) {
		share_explain(owner, &text);
		return refuse(refusal, -r,
			      "%s; they wait for a file system that does not answer",
			      text_string(&text));
	}
	r = process_new(worker, &worker->files);
	if (r == 0)
		return 0;
	share_give(owner, SHARE_FILE_PROCESSES, 1);
	return refuse(refusal, worker_start_errno(r), "%s",
		      worker_lacks_means(r) ?: "no process can be started to open it");
}

/* ---- sessions ---- */

static struct file_session *session_free(struct file_session *session)
{
	if (!session)
		return NULL;
	closep(&session->request.fd);
	free(session->open);
	free(session);
	return NULL;
}

static void session_done(struct request *request, const struct wire_reply *reply,
			 bool lost)
{
	struct file_session *session =
		container_of(request, struct file_session, request);
	struct file_process *process = session->process;
	pthread_mutex_t *lock = &process->broker->registry->lock;

	(void)reply;
	(void)lost;
	pthread_mutex_lock(lock);
	DL_DELETE(process->sessions, session);
	process->used_ms = clock_ms();
	session->over = true;
	if (!session->held)
		session_free(session);
	pthread_mutex_unlock(lock);
}

static struct file_session *session_make(const struct file_wish *wish)
{
	size_t size = sizeof(struct wire_file_open) + strlen(wish->path) + 1;
	struct file_session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->request.fd = -1;
	session->open = calloc(1, size);
	if (!session->open)
		return session_free(session);
	session->open->length = wish->length;
	session->open->device = wish->only.device;
	session->open->inode = wish->only.inode;
	session->open->mode = wish->save ? wish->mode : 0;
	strcpy(session->open->path, wish->path);
	session->request = (struct request){
		.record = {
			.op = WIRE_FILE_OPEN,
			.flags = (wish->save ? WIRE_TO_FILE : 0u) |
				 (wish->to_end ? WIRE_TO_END : 0u),
			.source = wish->source,
			.length = size,
		},
		.fd = -1,
		.payload = session->open,
		.done = session_done,
	};
	return session;
}

int file_session_new(struct worker *worker, const struct file_wish *wish,
		     struct file_session **ret_session, int *ret_fd,
		     struct refusal *refusal)
{
	pthread_mutex_t *lock = &worker->broker->registry->lock;
	struct file_session *session = session_make(wish);
	int sockets[2] = { -1, -1 }, r;

	if (!session)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		session_free(session);
		return refuse(refusal, EMFILE, "the broker has no descriptors left");
	}
	session->request.fd = sockets[0];
	pthread_mutex_lock(lock);
	r = process_find(worker, refusal);
	if (r == 0) {
		session->process = worker->files;
		session->held = true;
		session->process->n_held++;
		DL_APPEND(session->process->sessions, session);
		channel_send(session->process->channel, &session->request);
	}
	pthread_mutex_unlock(lock);
	if (r < 0) {
		session_free(session);
		close(sockets[1]);
		return r;
	}
	*ret_session = session;
	*ret_fd = sockets[1];
	return 0;
}

void file_session_lost(struct file_session *session)
{
	pthread_mutex_t *lock = &session->process->broker->registry->lock;

	pthread_mutex_lock(lock);
	process_give_up(session->process);
	pthread_mutex_unlock(lock);
}

struct file_session *file_session_leave(struct file_session *session)
{
	struct file_process *process;
	pthread_mutex_t *lock;

	if (!session)
		return NULL;
	process = session->process;
	lock = &process->broker->registry->lock;
	pthread_mutex_lock(lock);
	session->held = false;
	session->left_ms = clock_ms();
	process->n_held--;
	if (process->given_up && !process->n_held && !process->ended)
		process_kill(process);
	if (session->over)
		session_free(session);
	pthread_mutex_unlock(lock);
	return NULL;
}

/* ---- the housekeeper ---- */

/* Whether a session that was left does not end. */
static bool process_hangs(const struct file_process *process)
{
	const struct file_session *session;

	DL_FOREACH (process->sessions, session) {
		if (!session->held && clock_ms() - session->left_ms >= LINGER_MS)
			return true;
	}
	return false;
}

static void process_look(struct file_process *process, int64_t idle_s)
{
	if (process->given_up)
		return;
	if (process_hangs(process)) {
		process_give_up(process);
	} else if (!process->sessions && !process->n_held &&
		   clock_ms() - process->used_ms >= idle_s * 1000) {
		process->given_up = process->stopping = true;
		process->worker->files = NULL;
		channel_stop(process->channel, STOP_SECONDS);
	}
}

/* Takes a process that has ended and has no session any more. NULL: none. */
static struct file_process *process_take_ended(struct broker *broker)
{
	struct file_process *process;

	DL_FOREACH (broker->processes->file_processes, process) {
		if (process->ended && !process->n_held)
			break;
	}
	if (process)
		DL_DELETE(broker->processes->file_processes, process);
	return process;
}

void file_processes_look(struct broker *broker, int64_t idle_s)
{
	pthread_mutex_t *lock = &broker->registry->lock;
	struct file_process *process;

	pthread_mutex_lock(lock);
	DL_FOREACH (broker->processes->file_processes, process)
		process_look(process, idle_s);
	while ((process = process_take_ended(broker))) {
		pthread_mutex_unlock(lock);
		channel_free(process->channel);
		pthread_mutex_lock(lock);
		share_give(process->worker->owner, SHARE_FILE_PROCESSES, 1);
		free(process);
		pthread_cond_broadcast(&broker->registry->idle);
	}
	pthread_mutex_unlock(lock);
}

bool file_processes_kill(struct broker *broker)
{
	pthread_mutex_t *lock = &broker->registry->lock;
	int64_t until_ms = clock_ms() + END_MS;
	struct file_process *process;
	bool all;
	int r = 0;

	pthread_mutex_lock(lock);
	DL_FOREACH (broker->processes->file_processes, process)
		process_give_up(process);
	broker_wake_housekeeper(broker);
	while (broker->processes->file_processes && r == 0)
		r = clock_cond_wait(&broker->registry->idle, lock, until_ms);
	all = !broker->processes->file_processes;
	pthread_mutex_unlock(lock);
	return all;
}
