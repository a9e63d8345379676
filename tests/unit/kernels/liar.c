/* SPDX-License-Identifier: MIT */
/*
 * A worker that lies about modules. A comment `lie: NAME` in the image chooses the lie, a
 * row below. All other requests succeed and do nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cuda/driver.h"
#include "protocol/function_record.h"
#include "unit/channel/fake_worker.h"

#include <gpumem/function.h>
#include <gpumem/wire.h>

struct lie {
	const char *name;
	uint64_t load[2]; /* values of LOAD */
	void (*log)(uint8_t *slot, struct wire_reply *reply);
	void (*functions)(uint8_t *slot, struct wire_reply *reply);
	void (*find)(uint8_t *slot, struct wire_reply *reply);
	void (*attributes)(uint8_t *slot, struct wire_reply *reply);
	const char *words; /* of the driver about a launch, which then faults */
};

static uint8_t *staging;
static const struct lie *lie;

/* Adds a function to the answer. */
static void tell(uint8_t *slot, struct wire_reply *reply, const char *name)
{
	const struct record_param params[] = { { 0, 4 }, { 8, 8 } };
	struct record record = { name, true, ARRAY_SIZE(params), params };

	reply->value[0]++;
	reply->value[1] += (uint64_t)record_write(&record, slot + reply->value[1], 4096);
}

static void tell_one(uint8_t *slot, struct wire_reply *reply)
{
	tell(slot, reply, "f");
}

static void tell_the_same_twice(uint8_t *slot, struct wire_reply *reply)
{
	tell(slot, reply, "f");
	tell(slot, reply, "f");
}

static void tell_two(uint8_t *slot, struct wire_reply *reply)
{
	tell(slot, reply, "f");
	tell(slot, reply, "g");
}

static void tell_many(uint8_t *slot, struct wire_reply *reply)
{
	char name[16];

	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		tell(slot, reply, name);
	}
}

static void tell_half_a_record(uint8_t *slot, struct wire_reply *reply)
{
	tell(slot, reply, "f");
	reply->value[1] -= 8;
}

static void tell_fewer_than_counted(uint8_t *slot, struct wire_reply *reply)
{
	tell(slot, reply, "f");
	reply->value[0] = 3;
}

static void tell_garbage(uint8_t *slot, struct wire_reply *reply)
{
	memset(slot, 0xa5, WIRE_TRANSFER_MAX);
	reply->value[0] = 1;
	reply->value[1] = WIRE_TRANSFER_MAX;
}

static void tell_a_path(uint8_t *slot, struct wire_reply *reply)
{
	tell(slot, reply, "../../etc/\npasswd");
}

static void find_another(uint8_t *slot, struct wire_reply *reply)
{
	tell(slot, reply, "another");
	reply->value[0] = 0;
}

static void find_itself(uint8_t *slot, struct wire_reply *reply)
{
	char name[100];

	snprintf(name, sizeof(name), "%.99s", (char *)slot);
	tell(slot, reply, name);
	reply->value[0] = 7;
}

static void log_with_escapes(uint8_t *slot, struct wire_reply *reply)
{
	static const char log[] = "one\n\033[2Jtwo\0three";

	memcpy(slot, log, sizeof(log));
	reply->value[0] = sizeof(log);
}

static void log_all_of_the_slot(uint8_t *slot, struct wire_reply *reply)
{
	memset(slot, 'x', WIRE_TRANSFER_MAX);
	reply->value[0] = WIRE_TRANSFER_MAX;
}

static void attributes_all(uint8_t *slot, struct wire_reply *reply)
{
	memset(slot, 0xff, FUNCTION_N_ROWS * sizeof(int64_t));
	reply->value[0] = (1ull << FUNCTION_N_ROWS) - 1;
}

static char long_words[WIRE_TEXT_MAX];

static const struct lie lies[] = {
	{ "none", { 1, 1 }, NULL, tell_one, find_itself, attributes_all },
	{ "another", { 0, 0 }, NULL, NULL, find_another, NULL },
	{ "by-name", { 0, 0 }, NULL, NULL, find_itself, attributes_all },
	{ "escapes", { 1, 1 }, log_with_escapes, tell_one, NULL, NULL },
	{ "fewer", { 3, 1 }, NULL, tell_fewer_than_counted, NULL, NULL },
	{ "garbage", { 1, 1 }, NULL, tell_garbage, NULL, NULL },
	{ "half", { 1, 1 }, NULL, tell_half_a_record, NULL, NULL },
	{ "long-log", { 1, 1 }, log_all_of_the_slot, tell_one, NULL, NULL },
	{ "many", { 600, 1 }, NULL, tell_many, NULL, NULL },
	{ "million", { 1000000, 1 }, NULL, tell_one, NULL, NULL },
	{ "more", { 1, 1 }, NULL, tell_two, NULL, NULL },
	{ "path", { 1, 1 }, NULL, tell_a_path, NULL, NULL },
	{ "word-escapes",
	  { 1, 1 },
	  NULL,
	  tell_one,
	  NULL,
	  NULL,
	  "\033[2Jat 0x10\tx\nand another line" },
	{ "word-long", { 1, 1 }, NULL, tell_one, NULL, NULL, long_words },
	{ "word-nowhere", { 1, 1 }, NULL, tell_one, NULL, NULL, "at 0x" },
	{ "word-overflow",
	  { 1, 1 },
	  NULL,
	  tell_one,
	  NULL,
	  NULL,
	  "at 0xfffffffffffffffffffffffff" },
	{ "two", { 2, 1 }, NULL, tell_two, NULL, NULL },
	{ "twice", { 2, 1 }, NULL, tell_the_same_twice, NULL, NULL },
};

static void lie_choose(int fd)
{
	char image[200] = "", name[32] = "none";
	const char *at;

	if (pread(fd, image, sizeof(image) - 1, 0) < 0)
		_exit(1);
	at = strstr(image, "lie: ");
	if (at)
		sscanf(at + 5, "%31s", name);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		if (!strcmp(lies[i].name, name))
			lie = &lies[i];
	if (!lie)
		_exit(2);
}

static void answer(const struct wire_request *request, int fd, struct wire_reply *reply)
{
	uint8_t *slot = staging + request->offset;

	switch (request->op) {
	case WIRE_HELLO:
		reply->value[0] = WIRE_VERSION;
		reply->value[1] = 1;
		break;
	case WIRE_MEMORY:
		reply->value[1] = 1;
		break;
	case WIRE_MODULE_LOAD:
		lie_choose(fd);
		memcpy(reply->value, lie->load, sizeof(reply->value));
		break;
	case WIRE_MODULE_LOG:
		if (lie->log)
			lie->log(slot, reply);
		break;
	case WIRE_MODULE_FUNCTIONS:
		lie->functions(slot, reply);
		break;
	case WIRE_MODULE_FIND:
		lie->find(slot, reply);
		break;
	case WIRE_FUNCTION_ATTRIBUTES:
		lie->attributes(slot, reply);
		break;
	}
}

static void fault(struct wire_reply *reply)
{
	char record[sizeof(*reply) + WIRE_TEXT_MAX];
	size_t length = lie->words == long_words ? WIRE_TEXT_MAX : strlen(lie->words);

	memset(long_words, 'x', sizeof(long_words));
	reply->error = EFAULT;
	reply->call = CUDA_ROW(cuEventQuery);
	reply->result = CUDA_ERROR_ILLEGAL_ADDRESS;
	memcpy(record, reply, sizeof(*reply));
	memcpy(record + sizeof(*reply), lie->words, length);
	if (send(WIRE_SOCKET_FD, record, sizeof(*reply) + length, MSG_NOSIGNAL) < 0)
		_exit(1);
}

int main(void)
{
	struct wire_request request;
	struct stat st;
	int fd;

	if (fstat(WIRE_STAGING_FD, &st) < 0)
		return 1;
	staging = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       WIRE_STAGING_FD, 0);
	if (staging == MAP_FAILED)
		return 1;
	while (fake_worker_take(&request, &fd)) {
		struct wire_reply reply = { .id = request.id, .call = -1 };

		answer(&request, fd, &reply);
		closep(&fd);
		if (request.op == WIRE_LAUNCH && lie && lie->words)
			fault(&reply);
		else if (send(WIRE_SOCKET_FD, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
			return 1;
	}
	return 0;
}
