/* SPDX-License-Identifier: MIT */
/*
 * gpumemd: the broker and its mount, from the command line to the exit status.
 *
 * Without -f the program forks before it starts threads or loads the driver; the parent
 * returns 0 once the mount answers, or 1 when the child ends before. The child prints its
 * errors to the same stderr.
 *
 * The end has an order. The broker first accepts nothing new, so that new requests are
 * answered at once; the mount is taken out of the tree; the threads stop; waiting
 * requests are cancelled and open files closed; the broker gives everything back. The
 * last step closes the connection, since all these answers need it.
 */
#include "backing.h"
#include "end.h"
#include "handover.h"
#include "install_paths.h"
#include "kernel.h"
#include "log.h"
#include "mount.h"
#include "options.h"
#include "ready.h"
#include "service.h"
#include "takeover.h"
#include "tickets.h"
#include "transport.h"
#include "view.h"

#include "base/descriptor.h"
#include "keep/keep.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_DRIVER "libcuda.so.1"
#define WORKER_IDLE_S  60
#define HANG_S	       30

/* ---- serving ---- */

static unsigned int hang_s(const struct options *options)
{
	return options->hang_timeout_s ?: HANG_S;
}

static const struct keep_key connection_key = { KEEP_FUSE, 0, 0 };

struct server {
	const struct options *options;
	struct keep *keep; /* NULL: no keeper started this broker */
	int connection;	   /* of the last broker's mount; -1: there is none */
	bool goes_on;	   /* with that mount */
	const char *mountpoint;
	struct mount mount;
	bool has_ended; /* atomic: the connection has */
	struct log *log;
	struct broker *broker;
	struct fuse_session *session;
	struct transport *transport;
	char *socket;
	struct tickets *tickets;
	struct view view;
};

static void on_answering(void *userdata)
{
	struct server *server = userdata;

	if (!server->keep) {
		ready_tell();
		return;
	}
	keep_say_ready(server->keep);
	if (!server->options->foreground)
		ready_leave_terminal();
}

/*
 * Each thread that allocates would have an arena of its own, up to eight for each
 * processor, and what a long batch of lines freed would stay in all of them.
 */
#define ARENAS 4

/* The library to load; options of the software GPU go into the environment. */
static char *resolve_driver(const char *driver)
{
	const char *settings;
	char *path;

	if (!driver)
		return strdup(DEFAULT_DRIVER);
	if (!options_software(driver, &settings)) {
		path = strchr(driver, '/') ? realpath(driver, NULL) : NULL;
		return path ? path : strdup(driver);
	}
	setenv("GPUMEM_SOFTGPU", settings, 1);
	return install_path_software();
}

static int start_limits(const struct server *server)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int error = 0;

	if (server->options->limits)
		error = broker_limits(server->broker, server->options->limits, &why);
	if (error)
		log_complain("limits: %s",
			     why.length ? text_string(&why) : strerror(-error));
	return error;
}

static void complain_of_broker(const struct server *server, const char *driver,
			       const struct text *why)
{
	const char *settings;

	if (keep_goes_on(server->keep))
		log_complain("this broker can't go on where the last one died: %s",
			     text_string(why));
	else if (!options_software(server->options->driver, &settings))
		log_complain("no driver: %s: %s; --driver software needs no GPU", driver,
			     text_string(why));
	else if (access(driver, F_OK))
		log_complain("the software GPU is not installed: there is no %s (it is "
			     "Debian's package gpumem-softgpu)",
			     driver);
	else
		log_complain("no driver: %s with the options '%s': %s", driver, settings,
			     text_string(why));
}

/* Takes what the last broker left, when the keeper wants this one. */
static int stand_by(const struct server *server)
{
	int error = keep_stand_by(server->keep);

	if (error)
		log_complain("the keeper: %s", strerror(-error));
	else if (keep_goes_on(server->keep) && !server->options->foreground)
		ready_leave_terminal();
	return error;
}

static int new_broker(struct server *server, const char *driver, const char *worker)
{
	const struct broker_config config = {
		.driver = driver,
		.worker = worker,
		.version = VERSION,
		.warnings = log_warnings(server->log),
		.subuid = server->options->subuid ?: "/etc/subuid",
		.launch_timeout_ms = server->options->launch_timeout_s * 1000,
		.give_back_timeout_ms = server->options->give_back_timeout_s * 1000,
		.worker_idle_s = server->options->worker_idle_s
					 ? server->options->worker_idle_s
					 : WORKER_IDLE_S,
	};
	_cleanup_text_ struct text why = TEXT_INIT;
	int error = broker_new(&server->broker, &config, &why);
	int left = stand_by(server);

	if (error && !left)
		complain_of_broker(server, driver, &why);
	return left ?: error;
}

/* Memory whose release the last broker had begun may have numbers of its mount. */
static void find_connection(struct server *server)
{
	server->connection = keep_take(server->keep, connection_key);
	server->goes_on = server->connection >= 0;
	if (!server->goes_on)
		return;
	backing_begin(server->connection);
	broker_close_backings(server->broker, backing_close);
}

static int begin_broker(struct server *server, const char *driver)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int error;

	find_connection(server);
	error = broker_begin(server->broker, server->keep, server->socket, &why);
	if (error) {
		complain_of_broker(server, driver, &why);
		return error;
	}
	return start_limits(server);
}

/* Mounts, or takes the connection of the last broker. Returns: 0; -errno. */
static int mount_or_go_on(struct server *server)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/fd/%d", server->connection);
	if (fuse_session_mount(server->session,
			       server->goes_on ? path : server->mountpoint))
		return -EIO;
	if (server->goes_on)
		return 0;
	return keep_put(server->keep, connection_key, fuse_session_fd(server->session));
}

static int mount_view(struct server *server)
{
	const struct text *given = &server->options->fuse;
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	_cleanup_text_ struct text all = TEXT_INIT;
	int error = 0;

	text_printf(&all, "fsname=gpumemd,subtype=gpumemd,default_permissions%s%s%s",
		    geteuid() == 0 ? ",allow_other" : "", given->length ? "," : "",
		    text_string(given));
	if (text_failed(&all) || fuse_opt_add_arg(&args, "gpumemd") ||
	    fuse_opt_add_arg(&args, "-o") || fuse_opt_add_arg(&args, text_string(&all)))
		error = -ENOMEM;
	if (!error) {
		server->session = fuse_session_new(
			&args, &view_operations, sizeof(view_operations), &server->view);
		error = server->session ? 0 : -EINVAL;
	}
	fuse_opt_free_args(&args);
	if (!error)
		error = mount_or_go_on(server);
	if (!error)
		error = mount_note(&server->mount, server->mountpoint);
	if (error)
		log_complain("mount at %s failed", server->mountpoint);
	return error;
}

static void on_ended(void *userdata)
{
	struct server *server = userdata;

	__atomic_store_n(&server->has_ended, true, __ATOMIC_RELAXED);
	end_ask();
}

/* An earlier broker, unmounted lazily, may still serve leases here. */
static int make_second_socket(struct server *server, struct text *why)
{
	char *path = NULL;

	text_clear(why);
	if (asprintf(&path, "%s.%d", server->socket, getpid()) < 0)
		return -ENOMEM;
	free(server->socket);
	server->socket = path;
	return tickets_new(&server->tickets, path, server->keep, why);
}

/* Goes on with the socket of the last broker, where there was one. */
static int resume_socket(struct server *server, int left)
{
	int error = tickets_resume(&server->tickets, left, server->keep);

	if (!error)
		server->socket = strdup(tickets_address(server->tickets));
	return error ?: server->socket ? 0 : -ENOMEM;
}

static int make_socket(struct server *server)
{
	const struct keep_key key = { KEEP_TICKETS, 0, 0 };
	int left = keep_take(server->keep, key);
	_cleanup_text_ struct text why = TEXT_INIT;
	int error = -ENOMEM;

	if (left >= 0)
		return resume_socket(server, left);
	server->socket = server->options->socket ? strdup(server->options->socket)
						 : tickets_path(server->mountpoint, &why);
	if (server->socket)
		error = tickets_new(&server->tickets, server->socket, server->keep, &why);
	if (error == -EADDRINUSE && !server->options->socket)
		error = make_second_socket(server, &why);
	if (error)
		log_complain("%s", why.length ? text_string(&why) : strerror(-error));
	return error;
}

/*
 * Notes INIT for the next broker, hands interrupts on, and refuses requests whose fate
 * only the last broker knew.
 */
static bool on_request(void *userdata, const struct fuse_buf *request)
{
	struct server *server = userdata;

	takeover_note(server->broker, request);
	if (requests_interrupt(&server->view.requests, server->session, request))
		return true;
	if (transport_is_again())
		return takeover_refuse(server->session, &server->view, request);
	pace_note(&server->view.pace, request->mem);
	return false;
}

static bool is_slow(void *userdata, const struct fuse_buf *request, uint64_t *ret_user)
{
	const struct server *server = userdata;

	return groups_are_slow(&server->view.groups, request, ret_user);
}

static void learn_slow(void *userdata, const struct fuse_buf *request)
{
	struct server *server = userdata;

	groups_learn(&server->view.groups, request);
}

static int start_view(struct server *server)
{
	int error;

	error = view_init(&server->view, server->broker, server->session,
			  server->tickets);
	if (!error)
		error = tickets_serve(server->tickets, server->broker);
	if (!error)
		error = kernel_hook(server->session);
	if (!error)
		broker_close_backings(server->broker, backing_close);
	if (!error && server->goes_on)
		mappings_resume(server->broker);
	if (!error && server->goes_on)
		error = takeover_begin(server->session, server->broker);
	if (!error)
		keep_drop_rest(server->keep);
	if (!error)
		error = transport_new(&server->transport, server->session, server->broker,
				      on_request,
				      (struct transport_slow){ is_slow, learn_slow },
				      on_answering, on_ended, server);
	if (!error)
		broker_watch_view(server->broker, transport_lives, server->transport);
	else
		log_complain("cannot serve %s: %s", server->mountpoint, strerror(-error));
	return error;
}

static int stop_broker(struct server *server)
{
	_cleanup_text_ struct text why = TEXT_INIT;

	if (!server->broker || !broker_free(server->broker, &why))
		return 0;
	log_complain("not everything was given back: %s", text_string(&why));
	return -EIO;
}

static void stop_view(struct server *server)
{
	broker_shutdown(server->broker);
	pace_stop(&server->view.pace);
	broker_close_backings(server->broker, NULL);
	mount_detach(&server->mount,
		     __atomic_load_n(&server->has_ended, __ATOMIC_RELAXED));
	broker_watch_view(server->broker, NULL, NULL);
	server->transport = transport_free(server->transport);
	broker_drain(server->broker);
	view_deinit(&server->view);
}

static int serve(const struct options *options, const char *mountpoint, struct keep *keep)
{
	const char *given = keep_driver(keep) ?: options->driver;
	_cleanup_free_ char *driver = resolve_driver(given);
	_cleanup_free_ char *worker = install_path_worker();
	struct server server = { .options = options,
				 .keep = keep,
				 .mountpoint = mountpoint };
	int error = driver && worker ? end_prepare(keep) : -ENOMEM;

	(void)descriptors_raise();
	if (!error) {
		server.log = log_new();
		error = server.log ? new_broker(&server, driver, worker) : -ENOMEM;
	}
	if (!error)
		error = make_socket(&server);
	if (!error)
		error = begin_broker(&server, driver);
	if (!error)
		error = mount_view(&server);
	if (!error)
		error = start_view(&server);
	if (!error) {
		while (!end_wait(server.broker, keep))
			handover(server.transport, &server.view, keep,
				 MIN(hang_s(options), (unsigned int)KEEP_UPGRADE_S));
		service_tell(keep,
			     "STOPPING=1\nSTATUS=Ending: work under way has 5 seconds");
		keep_say_end(keep);
		stop_view(&server);
	}
	/* The objects of the last broker stay with the keeper, for the next one. */
	if (error && keep_goes_on(keep) && !server.transport)
		_exit(EXIT_FAILURE);
	server.tickets = tickets_free(server.tickets);
	if (stop_broker(&server))
		error = -EIO;
	server.log = log_free(server.log);
	free(server.socket);
	if (server.session) {
		mount_forget(server.session);
		fuse_session_destroy(server.session);
	}
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct keeping {
	const char *mountpoint;
	struct mount mount;
	struct left *left;
};

static void on_first_answer(void *userdata)
{
	struct keeping *keeping = userdata;

	(void)mount_note(&keeping->mount, keeping->mountpoint);
	service_forget(keeping->left);
	ready_tell();
}

static void on_broker_end(void *userdata, const char *sentence)
{
	(void)userdata;
	log_complain("%s", sentence);
}

static void on_note(void *userdata, const char *sentence)
{
	(void)userdata;
	log_note(sentence);
}

static void on_tell(void *userdata, const char *text)
{
	(void)userdata;
	service_tell(NULL, text);
}

/* Starts brokers, one after another, each by exec: none shares memory with this process.
 */
static int keep_brokers(const struct options *options, char **argv,
			const char *mountpoint, struct left *left,
			const struct keeper_places *places)
{
	struct keeping keeping = { .mountpoint = mountpoint, .left = left };
	const char *settings, *driver = options->driver;
	_cleanup_free_ char *path = NULL;
	bool leaves = false;
	int status;

	/* Later brokers start in another directory. */
	if (driver && !options_software(driver, &settings) && strchr(driver, '/'))
		path = realpath(driver, NULL);
	(void)descriptors_raise();
	/*
	 * A keeper that ends before the first answer removes the mount of the last
	 * keeper.
	 */
	if (left->n)
		(void)mount_note(&keeping.mount, mountpoint);
	status = keeper_run(
		&(struct keeper_config){
			.argv = argv,
			.mountpoint = mountpoint,
			.driver = path,
			.hang_s = hang_s(options),
			.ready = on_first_answer,
			.say = on_broker_end,
			.note = on_note,
			.tell = on_tell,
			.store = service_is_there() ? service_store : NULL,
			.left = left,
			.places = *places,
			.userdata = &keeping,
		},
		&leaves);
	if (leaves)
		return status;
	service_forget(left);
	/* For a broker that died and could not do so. */
	if (keeping.mount.path)
		mount_detach(&keeping.mount, true);
	return status;
}

/* Takes the descriptors of the last keeper; none where this program can't use them. */
static void take_left(const struct options *options, struct left *ret_left)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int error;

	(void)descriptors_raise();
	error = service_take(ret_left, &why);
	if (!error && ret_left->n && !options->keep)
		text_printf(&why, "--keep is not among the options any more");
	if (!why.length)
		return;
	log_complain("the memory of the last broker is freed: %s", text_string(&why));
	service_forget(ret_left);
}

/* Opens neither folder: the mount does not answer yet. */
static char *mountpoint_of_left(const struct options *options, const struct left *left)
{
	struct mount given, now;

	if (mount_note(&now, left->mountpoint) == 0 &&
	    (mount_note(&given, options->mountpoint) < 0 || given.id != now.id))
		log_complain("the memory of the last broker is at %s: the mount stays "
			     "there, not at "
			     "%s",
			     left->mountpoint, options->mountpoint);
	return strdup(left->mountpoint);
}

/* Serves a mount for the first time, or the mount of the last keeper. */
static int start_first(const struct options *options, char **argv)
{
	_cleanup_(left_deinit) struct left left = { 0 };
	_cleanup_free_ char *mountpoint = NULL;
	_cleanup_text_ struct text why = TEXT_INIT;
	struct keeper_places places;
	int status = -1, error = options->keep ? keeper_places_take(&places) : 0;

	if (error)
		return log_complain("the keeper: %s", strerror(-error));
	take_left(options, &left);
	if (left.n)
		mountpoint = mountpoint_of_left(options, &left);
	else if ((options->keep && takeover_check(&why)) ||
		 mount_prepare(options->mountpoint, &mountpoint, &why))
		return log_complain("%s", text_string(&why));
	if (!options->foreground)
		status = ready_fork();
	if (status >= 0)
		return status;
	return options->keep ? keep_brokers(options, argv, mountpoint, &left, &places)
			     : serve(options, mountpoint, NULL);
}

/* Serves a mount: as a broker started by a keeper, or as the first process. */
static int start(const struct options *options, char **argv)
{
	struct keep *keep;
	int status, error = keep_open(&keep);

	if (error)
		return log_complain("the keeper: %s", strerror(-error));
	if (!keep)
		return start_first(options, argv);
	status = serve(options, keep_mountpoint(keep), keep);
	keep_free(keep);
	return status;
}

static int check_journal(const char *path)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	int error = broker_print_records(path, &text);

	if (error)
		return log_complain("%s: %s", path,
				    text.length ? text_string(&text) : strerror(-error));
	fputs(text_string(&text), stdout);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options options = OPTIONS_INIT;
	_cleanup_text_ struct text text = TEXT_INIT;
	int status = EXIT_SUCCESS;

	log_init();
	(void)mallopt(M_ARENA_MAX, ARENAS);
	if (options_parse(&options, argc, argv, &text)) {
		status = log_complain("%s", text_string(&text));
	} else if (options.help) {
		options_help(&text);
		fputs(text_string(&text), stdout);
	} else if (options.version) {
		printf("gpumemd %s\n", VERSION);
	} else if (options.journal) {
		status = check_journal(options.journal);
	} else {
		status = start(&options, argv);
	}
	options_deinit(&options);
	return status;
}
