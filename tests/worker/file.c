/* SPDX-License-Identifier: MIT */
/* Files loaded into memory and saved from it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "scene.h"

#define FILE_SLOT 2
#define FILE_SIZE ((size_t)9 << 20)

static char folder[] = "/tmp/gpumem-worker.XXXXXX";
static char path[64];
static uint8_t bytes[FILE_SIZE];
static mode_t mode;	     /* of saved files that are new */
static struct fixture files; /* the process of files */

static void files_start(void)
{
	fixture_start(&files,
		      (struct channel_config){ .program = getenv("GPUMEM_WORKER"),
					       .name = "files",
					       .uid = getuid(),
					       .gid = getgid(),
					       .n_threads = 1 },
		      1);
}

static void folder_make(void)
{
	FILE *file;

	cr_assert(ne(ptr, mkdtemp(folder), NULL));
	cr_assert(eq(int, chmod(folder, 0755), 0));
	snprintf(path, sizeof(path), "%s/file", folder);
	for (size_t i = 0; i < FILE_SIZE; i += sizeof(wanted))
		noise(bytes + i, sizeof(wanted), (unsigned int)i);
	file = fopen(path, "we");
	cr_assert(ne(ptr, file, NULL));
	cr_assert(eq(sz, fwrite(bytes, 1, FILE_SIZE, file), FILE_SIZE));
	fclose(file);
}

static void folder_remove(void)
{
	if (files.channel) {
		channel_stop(files.channel, 30);
		cr_assert(eq(str, (char *)fixture_wait_end(&files), "was stopped"));
		fixture_stop(&files);
	}
	unlink(path);
	rmdir(folder);
}

TestSuite(file, .init = folder_make, .fini = folder_remove);

static struct wire_file *shared(struct scene *scene)
{
	return (struct wire_file *)staging_payload(&scene->fixture.staging, FILE_SLOT);
}

/* Has the process of files open a file. Returns: the socket for the worker. */
static int open_file(struct question *question, const struct wire_request *move,
		     uint32_t flags, const char *name)
{
	static struct {
		struct wire_file_open open;
		char path[128];
	} payload;
	bool save = move->op == WIRE_FILE_SAVE;
	int sockets[2];

	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
		     0));
	payload.open = (struct wire_file_open){ .length = move->length,
						.mode = save ? mode : 0 };
	strcpy(payload.open.path, name);
	*question = (struct question){
		.request = {
			.record = {
				.op = WIRE_FILE_OPEN,
				.flags = flags | (save ? WIRE_TO_FILE : 0),
				.source = move->source,
				.length = sizeof(payload.open) + strlen(name) + 1,
			},
			.fd = sockets[0],
			.payload = &payload,
			.done = question_done,
		},
		.fixture = &files,
	};
	channel_send(files.channel, &question->request);
	return sockets[1];
}

/*
 * Asks for a load or save of the file named; its flags are for the opening. The rest of
 * the slot is the caller's. Returns: the error.
 */
static int ask_move(struct scene *scene, struct wire_request request, const char *name,
		    struct wire_reply *ret_reply)
{
	uint32_t flags = request.flags;
	struct question question;
	int socket = open_file(&question, &request, flags, name), error;

	request.flags = 0;
	request.offset = staging_offset(FILE_SLOT);
	error = fixture_ask(&scene->fixture, request, socket, ret_reply);
	question_wait(&question);
	cr_assert(eq(int, question.reply.error, 0));
	return error;
}

static struct wire_reply move(struct scene *scene, struct wire_request request,
			      const char *name)
{
	struct wire_reply reply;

	cr_assert(eq(int, ask_move(scene, request, name, &reply), 0));
	return reply;
}

static void expect_end(struct wire_reply reply, uint64_t n, uint32_t end, uint32_t error)
{
	cr_expect(eq(u64, reply.value[0], n));
	cr_expect(eq(u32, WIRE_FILE_END(reply.value[1]), end));
	cr_expect(eq(u32, WIRE_FILE_ERROR(reply.value[1]), error));
}

/* The scene first: it sets the environment, which the start of a process reads. */
static void scene_start_with_files(struct scene *scene, const char *extra)
{
	scene_start(scene, extra);
	files_start();
}

static void scene_open(struct scene *scene)
{
	scene_start_with_files(scene, "");
	cr_assert(eq(int, map(scene, 0, BASE, 6 * CHUNK, 0), 0));
}

static void expect_memory(struct scene *scene, uint64_t address, const uint8_t *expected,
			  size_t length)
{
	for (size_t at = 0; at < length; at += sizeof(wanted)) {
		size_t n = MIN(length - at, sizeof(wanted));

		memcpy(wanted, expected + at, n);
		expect_bytes(scene, 0, address + at, n);
	}
}

/* Also without the page cache, where whole sectors are read. */
static void load_places(bool cached)
{
	static const struct {
		uint64_t to, from, length;
	} places[] = {
		{ 0, 0, FILE_SIZE }, { 1, 4095, 5 << 20 }, { 4096, 1, 1 },
		{ 77, 4096, 8192 },  { 5, 8192, 4 << 20 }, { 9, FILE_SIZE - 1, 1 }
	};
	struct scene scene;

	scene_open(&scene);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		uint64_t to = BASE + 16 + places[i].to, length = places[i].length;
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		uint8_t after = 0;

		memset(shared(&scene), 0, sizeof(struct wire_file));
		cr_assert(eq(int, fill(&scene, 0, BASE, 6 * CHUNK, 0xaa, 1), 0));
		if (!cached)
			cr_assert(eq(int, fsync(fd) | posix_fadvise(fd, 0, 0, 4), 0));
		close(fd);
		expect_end(move(&scene,
				(struct wire_request){ .op = WIRE_FILE_LOAD,
						       .address = to,
						       .source = places[i].from,
						       .length = length },
				path),
			   length, WIRE_FILE_DONE, 0);
		cr_assert(eq(u64, shared(&scene)->total, length));
		cr_assert(eq(u64, shared(&scene)->done, length));
		expect_memory(&scene, to, bytes + places[i].from, length);
		cr_assert(eq(int, get(&scene, 0, to + length, &after, 1), 0));
		cr_assert(eq(int, after, 0xaa));
		cr_assert(eq(int, get(&scene, 0, to - 1, &after, 1), 0));
		cr_assert(eq(int, after, 0xaa));
	}
	scene_stop(&scene);
}

Test(file, any_part_is_loaded_to_any_place)
{
	load_places(true);
}

Test(file, what_is_not_cached_is_loaded)
{
	load_places(false);
}

Test(file, host_memory_is_loaded)
{
	struct scene scene;
	uint8_t *memory;

	scene_start_with_files(&scene, "");
	memory = host_mapped(&scene);
	expect_end(move(&scene,
			(struct wire_request){ .op = WIRE_FILE_LOAD,
					       .address = WIRE_HOST_BASE + 3,
					       .source = 4096,
					       .length = CHUNK - 10 },
			path),
		   CHUNK - 10, WIRE_FILE_DONE, 0);
	cr_assert(eq(int, memcmp(memory + 3, bytes + 4096, CHUNK - 10), 0));
	cr_assert(eq(int, memory[2] | memory[CHUNK - 7], 0));
	scene_stop(&scene);
}

Test(file, the_rest_of_a_file_is_loaded)
{
	const struct wire_request rest = { .op = WIRE_FILE_LOAD,
					   .flags = WIRE_TO_END,
					   .address = BASE,
					   .source = FILE_SIZE - 5000,
					   .length = 5000 };
	struct wire_request request = rest;
	struct scene scene;

	scene_open(&scene);
	expect_end(move(&scene, request, path), 5000, WIRE_FILE_DONE, 0);
	request.length = 2 * CHUNK;
	expect_end(move(&scene, request, path), 5000, WIRE_FILE_DONE, 0);
	expect_memory(&scene, BASE, bytes + FILE_SIZE - 5000, 5000);
	request.length = 4999;
	expect_end(move(&scene, request, path), FILE_SIZE, WIRE_FILE_OUT_OF_RANGE,
		   ERANGE);
	request = rest;
	request.source = FILE_SIZE;
	expect_end(move(&scene, request, path), FILE_SIZE, WIRE_FILE_OUT_OF_RANGE,
		   ERANGE);
	request = rest;
	request.flags = 0;
	request.length = 5001;
	expect_end(move(&scene, request, path), FILE_SIZE, WIRE_FILE_OUT_OF_RANGE,
		   ERANGE);
	scene_stop(&scene);
}

Test(file, what_is_no_file_is_not_opened)
{
	static const uint32_t ops[] = { WIRE_FILE_LOAD, WIRE_FILE_SAVE };
	char fifo[80];
	struct scene scene;

	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	cr_assert(eq(int, mkfifo(fifo, 0600), 0));
	scene_open(&scene);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		const struct wire_request request = { .op = ops[i],
						      .address = BASE,
						      .length = 10 };

		memset(shared(&scene), 0, sizeof(struct wire_file));
		expect_end(move(&scene, request, "/none/file"), 0, WIRE_FILE_NOT_OPENED,
			   ENOENT);
		expect_end(move(&scene, request, folder), 0, WIRE_FILE_NOT_REGULAR,
			   EISDIR);
		expect_end(move(&scene, request, fifo), 0, WIRE_FILE_NOT_REGULAR, EINVAL);
		expect_end(move(&scene, request, "/dev/null"), 0, WIRE_FILE_NOT_REGULAR,
			   EINVAL);
		cr_expect(eq(u64, shared(&scene)->total, 0));
	}
	scene_stop(&scene);
	unlink(fifo);
}

Test(file, a_move_that_is_told_to_stop_begins_no_piece)
{
	static const uint8_t zeros[4096];
	struct scene scene;
	uint64_t total;

	scene_open(&scene);
	cr_assert(eq(int, fill(&scene, 0, BASE, CHUNK, 0, 1), 0));
	memset(shared(&scene), 0, sizeof(struct wire_file));
	shared(&scene)->stop = 1;
	expect_end(move(&scene,
			(struct wire_request){ .op = WIRE_FILE_LOAD,
					       .address = BASE,
					       .length = FILE_SIZE },
			path),
		   0, WIRE_FILE_STOPPED, EINTR);
	/* 0: a move that is to stop waits for no slow process of files. */
	total = shared(&scene)->total;
	cr_assert(total == FILE_SIZE || total == 0);
	expect_memory(&scene, BASE, zeros, sizeof(zeros));
	expect_end(move(&scene,
			(struct wire_request){ .op = WIRE_FILE_SAVE,
					       .address = BASE,
					       .length = FILE_SIZE },
			path),
		   0, WIRE_FILE_STOPPED, EINTR);
	shared(&scene)->stop = 0;
	expect_end(move(&scene,
			(struct wire_request){ .op = WIRE_FILE_LOAD,
					       .address = BASE,
					       .length = FILE_SIZE },
			path),
		   FILE_SIZE, WIRE_FILE_DONE, 0);
	expect_memory(&scene, BASE, bytes, FILE_SIZE);
	scene_stop(&scene);
}

Test(file, a_saved_file_has_the_bytes_and_the_mode)
{
	char saved[80];
	struct scene scene;
	struct stat stat;
	FILE *file;

	snprintf(saved, sizeof(saved), "%s/saved", folder);
	scene_open(&scene);
	memset(shared(&scene), 0, sizeof(struct wire_file));
	expect_end(move(&scene,
			(struct wire_request){ .op = WIRE_FILE_LOAD,
					       .address = BASE,
					       .length = FILE_SIZE },
			path),
		   FILE_SIZE, WIRE_FILE_DONE, 0);
	mode = 0640;
	expect_end(move(&scene,
			(struct wire_request){ .op = WIRE_FILE_SAVE,
					       .address = BASE + 7,
					       .length = FILE_SIZE - 7 },
			saved),
		   FILE_SIZE - 7, WIRE_FILE_DONE, 0);
	file = fopen(saved, "re");
	cr_assert(ne(ptr, file, NULL));
	for (size_t at = 7, n; at < FILE_SIZE; at += n) {
		n = fread(found, 1, sizeof(found), file);
		cr_assert(gt(sz, n, 0));
		cr_assert(eq(int, memcmp(found, bytes + at, n), 0));
	}
	cr_assert(eq(int, fstat(fileno(file), &stat), 0));
	fclose(file);
	cr_assert(eq(u32, stat.st_mode & 07777, 0640));
	cr_assert(eq(u64, (uint64_t)stat.st_size, FILE_SIZE - 7));
	scene_stop(&scene);
	unlink(saved);
}

Test(file, a_failed_call_of_the_driver_is_the_answer)
{
	struct scene scene;

	scene_start_with_files(&scene,
			       "fail=cuMemcpyHtoDAsync_v2@1=CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert(eq(int, map(&scene, 0, BASE, 6 * CHUNK, 0), 0));
	cr_assert(eq(int,
		     ask_move(&scene,
			      (struct wire_request){ .op = WIRE_FILE_LOAD,
						     .address = BASE,
						     .length = FILE_SIZE },
			      path, NULL),
		     ENOMEM));
	expect_end(move(&scene,
			(struct wire_request){ .op = WIRE_FILE_LOAD,
					       .address = BASE,
					       .length = FILE_SIZE },
			path),
		   FILE_SIZE, WIRE_FILE_DONE, 0);
	scene_stop(&scene);
}

Test(file, a_process_of_files_that_ends_ends_the_move)
{
	struct question question;
	struct wire_reply reply;
	struct scene scene;
	int socket;
	struct wire_request request = { .op = WIRE_FILE_LOAD,
					.address = BASE,
					.length = FILE_SIZE,
					.offset = staging_offset(FILE_SLOT) };

	scene_open(&scene);
	expect_end(move(&scene, request, path), FILE_SIZE, WIRE_FILE_DONE, 0);
	/* It has opened the file, and the worker has its lanes there. */
	socket = open_file(&question, &request, 0, path);
	cr_assert(eq(int,
		     recv(socket, &(struct wire_file_told){ 0 },
			  sizeof(struct wire_file_told), MSG_PEEK) > 0,
		     1));
	channel_kill(files.channel);
	question_wait(&question);
	cr_assert(eq(int, fixture_ask(&scene.fixture, request, socket, &reply), 0));
	expect_end(reply, 0, WIRE_FILE_LOST, EIO);
	fixture_wait_end(&files);
	fixture_stop(&files);
	/* And the next process serves. */
	files_start();
	expect_end(move(&scene, request, path), FILE_SIZE, WIRE_FILE_DONE, 0);
	expect_memory(&scene, BASE, bytes, FILE_SIZE);
	scene_stop(&scene);
}

/* Takes the socket of a lane, as the process of files does. */
static int lane_accept(int socket)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control;
	const struct timeval most = { 30, 0 };
	uint32_t ask;
	struct iovec part = { &ask, sizeof(ask) };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space),
	};
	int fds[2];

	cr_assert(eq(long, recvmsg(socket, &message, MSG_CMSG_CLOEXEC), sizeof(ask)));
	cr_assert(eq(u32, ask, WIRE_FILE_LANE));
	memcpy(fds, CMSG_DATA(&control.header), sizeof(fds));
	close(fds[1]);
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	return fds[0];
}

/* So the process of files reads while the worker copies. */
Test(file, the_next_piece_is_asked_for_before_the_last_has_come)
{
	const struct wire_file_told told = {
		.bytes = 32 * CHUNK, .process = 77, .file = 1, .end = WIRE_FILE_DONE
	};
	struct question question;
	struct wire_piece piece;
	struct scene scene;
	int sockets[2], lane;

	scene_start_with_files(&scene, "");
	cr_assert(eq(int, map(&scene, 0, BASE, 32 * CHUNK, 0), 0));
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
		     0));
	question = (struct question){
		.request = {
			.record = {
				.op = WIRE_FILE_LOAD,
				.address = BASE,
				.length = 32 * CHUNK,
				.offset = staging_offset(FILE_SLOT),
			},
			.fd = sockets[0],
			.done = question_done,
		},
		.fixture = &scene.fixture,
	};
	channel_send(scene.fixture.channel, &question.request);
	cr_assert(eq(long, send(sockets[1], &told, sizeof(told), 0), sizeof(told)));
	lane = lane_accept(sockets[1]);
	for (int i = 0; i < 2; i++)
		cr_expect(eq(long, recv(lane, &piece, sizeof(piece), 0), sizeof(piece)),
			  "piece %d of a lane, none answered", i);
	close(lane);
	close(sockets[1]);
	question_wait(&question);
	cr_expect(eq(u32, WIRE_FILE_END(question.reply.value[1]), WIRE_FILE_LOST));
	scene_stop(&scene);
}
