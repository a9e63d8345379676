/* SPDX-License-Identifier: MIT */
/*
 * A child reads which code a process has mapped (apart.h), since reading may take as long
 * as the process likes. Names are a symboliser's answer (symboliser.h). There are a few
 * symbolisers, each for a process; the one not asked for longest makes room for another.
 * A process whose symboliser crashes or is late has bare addresses from then on, and so
 * have all processes of a user to whom this happens often. During a look-up the tool
 * reads no events, so the look-ups of a user take a part of the tool's time at most.
 *
 * A function without frame pointers leaves any value in the register, and the walk goes
 * on from there. So an address outside all mappings with code ends the stack.
 */
#include "symbol.h"

#include "base/clock.h"
#include "base/hash.h"
#include "proc.h"
#include "symboliser.h"
#include "user.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SYMBOLISERS_MAX 16
#define STACK_WAIT_NS	UINT64_C(2000000000)
#define READING_NS	UINT64_C(50000000)   /* of a process's mappings at once */
#define READING_SHARE	20		     /* afterwards this part of the time */
#define FAILURES_MAX	3		     /* of a user's processes */
#define USER_NS		UINT64_C(5000000000) /* of a user's look-ups at once */
#define USER_SHARE	10		     /* afterwards this part of the time */
#define USER_STACKS	16384		     /* kept of a user */

struct known_stack {
	__s32 key;
	struct stack stack;
	UT_hash_handle hh;
};

#define MODULE_UNASKED (MODULE_NONE - 1)

struct range {
	__u64 start;
	__u64 end;
	uint64_t module; /* as the process's symboliser numbers it, or MODULE_UNASKED */
};

struct known_process {
	__u64 id;
	__u32 pid;
	struct traced_user *user;
	bool is_unnamed;    /* nothing more is looked up */
	bool is_late;	    /* nor is code read */
	struct range *code; /* executable mappings; empty if unknown */
	size_t n_code, room;
	uint64_t opened_ns, reading_ns; /* when this began; how long code was read */
	struct known_stack *stacks;
	UT_hash_handle hh;
};

/* A symboliser, and the process asked about. */
struct place {
	struct symboliser symboliser;
	struct known_process *process; /* NULL: none */
	uint64_t asked;		       /* which question was the last */
};

struct symbols {
	int fd;
	struct known_process *processes;
	struct traced_users *users;
	struct place places[SYMBOLISERS_MAX];
	uint64_t n_asked;
	struct apart looker; /* looks into processes */
};

/* ---- the looker ---- */

/* Of a process, whose folder in /proc comes along. */
struct look {
	bool is_module; /* which file is at the address; or else, all code */
	uint64_t address;
};

#define CODE_PACKET 256

/* The last packet of an answer is not full. */
struct code_packet {
	size_t n;
	struct {
		__u64 start;
		__u64 end;
	} code[CODE_PACKET];
};

static void code_send(const char *pid)
{
	struct code_packet packet = { 0 };
	struct mapping mapping;
	struct maps maps;

	maps_open(&maps, pid);
	while (maps_next(&maps, &mapping)) {
		if (!strchr(mapping.access, 'x'))
			continue;
		packet.code[packet.n].start = mapping.start;
		packet.code[packet.n].end = mapping.end;
		if (++packet.n < CODE_PACKET)
			continue;
		apart_answer(&packet, sizeof packet, -1);
		packet.n = 0;
	}
	maps_close(&maps);
	apart_answer(&packet, sizeof packet, -1);
}

/* In the child. A child for each question would not do: a fork takes longer than some
 * traced processes live. */
static void looker_work(void *context)
{
	struct look look;
	char pid[32];
	int folder;

	(void)context;
	while (apart_listen(&look, sizeof look, &folder) == sizeof look) {
		/* also when another process has the number now */
		snprintf(pid, sizeof pid, "self/fd/%d", folder);
		if (look.is_module)
			symboliser_look(pid, look.address);
		else
			code_send(pid);
		closep(&folder);
	}
}

/* Returns: whether the looker has the question. */
static bool looker_ask(struct symbols *symbols, const struct look *look, int folder)
{
	struct apart *looker = &symbols->looker;

	if (!looker->pid && apart_start(looker, looker_work, NULL))
		return false;
	if (!apart_ask(looker, look, sizeof *look, folder))
		return true;
	apart_end(looker);
	return false;
}

struct symbols *symbols_new(int stacks_fd, struct traced_users *users)
{
	struct symbols *symbols = calloc(1, sizeof *symbols);

	if (!symbols)
		return NULL;
	symbols->fd = stacks_fd;
	symbols->users = users;
	(void)apart_start(&symbols->looker, looker_work, NULL);
	return symbols;
}

/* ---- symbolisers ---- */

static void place_clear(struct place *place)
{
	symboliser_end(&place->symboliser);
	place->process = NULL;
}

/* The place of a process, or else of none. Returns: NULL without such a place. */
static struct place *place_find(struct symbols *symbols,
				const struct known_process *process)
{
	for (size_t i = 0; i < SYMBOLISERS_MAX; i++) {
		struct place *place = &symbols->places[i];

		if (place->process == process &&
		    (process || symboliser_is_free(&place->symboliser)))
			return place;
	}
	return NULL;
}

static struct place *place_oldest(struct symbols *symbols)
{
	struct place *oldest = NULL;

	for (size_t i = 0; i < SYMBOLISERS_MAX; i++) {
		struct place *place = &symbols->places[i];

		if (place->process && (!oldest || place->asked < oldest->asked))
			oldest = place;
	}
	return oldest;
}

/* Returns: the place with the process's symboliser, or NULL. */
static struct place *place_open(struct symbols *symbols, struct known_process *process)
{
	struct place *place = place_find(symbols, process);

	if (!place) {
		place = place_find(symbols, NULL);
		if (!place && (place = place_oldest(symbols)))
			place_clear(place);
		if (!place || !symboliser_is_free(&place->symboliser) ||
		    symboliser_open(&place->symboliser, (pid_t)process->pid))
			return NULL;
		place->process = process;
		for (size_t i = 0; i < process->n_code; i++)
			process->code[i].module = MODULE_UNASKED;
	}
	place->asked = ++symbols->n_asked;
	return place;
}

/* ---- users ---- */

/* Whether more may be looked up now. */
static bool user_is_waited_for(struct traced_user *user)
{
	uint64_t time = clock_ns(CLOCK_MONOTONIC) - user->known_ns;

	if (user->failures >= FAILURES_MAX)
		return false;
	if (user->spent_ns <= USER_NS + time / USER_SHARE)
		return true;
	if (!user->is_told)
		fprintf(stderr,
			"gpumem-trace: not all frames of user %u have names: the "
			"look-ups take too long\n",
			user->uid);
	user->is_told = true;
	return false;
}

/* A late answer keeps the tracer from reading events, so a user has a few. */
static void user_failed(struct traced_user *user)
{
	if (++user->failures == FAILURES_MAX)
		fprintf(stderr,
			"gpumem-trace: no names any more for frames of user %u: %u "
			"look-ups failed\n",
			user->uid, user->failures);
}

static void process_failed(struct known_process *process, int error)
{
	if (!process->is_unnamed)
		fprintf(stderr,
			"gpumem-trace: no names any more for frames of process %u: the "
			"look-up %s\n",
			process->pid, error == -ETIMEDOUT ? "took too long" : "failed");
	process->is_unnamed = true;
	user_failed(process->user);
}

/* ---- processes ---- */

static void process_close(struct symbols *symbols, struct known_process *process)
{
	struct place *place = place_find(symbols, process);
	struct known_stack *stack, *next;

	if (place)
		place_clear(place);
	HASH_DEL(symbols->processes, process);
	HASH_ITER (hh, process->stacks, stack, next) {
		HASH_DEL(process->stacks, stack);
		process->user->n_stacks--;
		for (size_t i = 0; i < stack->stack.n; i++)
			free(stack->stack.frames[i]);
		free(stack->stack.frames);
		free(stack);
	}
	free(process->code);
	free(process);
}

struct symbols *symbols_free(struct symbols *symbols)
{
	struct known_process *process, *next;

	if (!symbols)
		return NULL;
	HASH_ITER (hh, symbols->processes, process, next)
		process_close(symbols, process);
	apart_end(&symbols->looker);
	free(symbols);
	return NULL;
}

/* Returns: false if there is no memory. */
static bool code_add(struct known_process *process, __u64 start, __u64 end)
{
	size_t room = process->room ? 2 * process->room : 64;
	struct range *code = process->code;

	if (process->n_code == process->room) {
		code = realloc(code, room * sizeof *code);
		if (!code)
			return false;
		process->code = code;
		process->room = room;
	}
	code[process->n_code++] = (struct range){ start, end, MODULE_UNASKED };
	return true;
}

/* Returns: 0; -ETIMEDOUT or -EPIPE without the whole answer; -ENOMEM. */
static int code_take(struct known_process *process, const struct apart *looker)
{
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + APART_WAIT_NS;
	struct code_packet packet;
	bool first = true;
	int none;

	do {
		ssize_t n = apart_take(looker, &packet, sizeof packet, &none, deadline);

		if (n <= 0)
			return n < 0 ? (int)n : -EPIPE;
		if (first && packet.n)
			process->n_code = 0;
		first = false;
		for (size_t i = 0; i < packet.n; i++)
			if (!code_add(process, packet.code[i].start, packet.code[i].end))
				return -ENOMEM;
	} while (packet.n == CODE_PACKET);
	return 0;
}

/*
 * Reads the mappings of a process anew. Those read earlier stay when the process has
 * ended, and where reading takes too much of the time: a user may have tens of thousands.
 * A process that was late is not read any more, nor are those of a user with many.
 */
static void code_read(struct symbols *symbols, struct known_process *process)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	const struct look look = { .is_module = false };
	char path[32];

	if (process->is_late || !user_is_waited_for(process->user) ||
	    process->reading_ns >
		    READING_NS + (begin - process->opened_ns) / READING_SHARE)
		return;
	snprintf(path, sizeof path, "/proc/%u", process->pid);
	_cleanup_close_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || !looker_ask(symbols, &look, folder))
		return;
	int error = code_take(process, &symbols->looker);
	if (error)
		apart_end(&symbols->looker);
	if (error == -ETIMEDOUT) {
		process->is_late = true;
		process_failed(process, error);
	}
	process->reading_ns += clock_ns(CLOCK_MONOTONIC) - begin;
}

static int compare_range(const void *key, const void *element)
{
	const __u64 address = *(const __u64 *)key;
	const struct range *range = element;

	return address < range->start ? -1 : address >= range->end;
}

/* Mappings come by their address, and there may be tens of thousands. Returns: NULL for
 * an address outside the code. */
static struct range *code_find(const struct known_process *process, __u64 address)
{
	return process->n_code ? bsearch(&address, process->code, process->n_code,
					 sizeof *process->code, compare_range)
			       : NULL;
}

static struct known_process *process_open(struct symbols *symbols, __u64 id, __u32 pid,
					  uid_t uid)
{
	struct known_process *process;
	struct traced_user *user;
	uid_t now;

	HASH_FIND(hh, symbols->processes, &id, sizeof id, process);
	if (process)
		return process;
	user = user_open(symbols->users, uid);
	process = user ? calloc(1, sizeof *process) : NULL;
	if (!process)
		return NULL;
	process->id = id;
	process->pid = pid;
	process->user = user;
	process->opened_ns = clock_ns(CLOCK_MONOTONIC);
	process->is_unnamed = !proc_uid((pid_t)pid, &now); /* has ended */
	code_read(symbols, process);
	HASH_ADD(hh, symbols->processes, id, sizeof process->id, process);
	return process;
}

void symbols_close(struct symbols *symbols, __u64 id)
{
	struct known_process *process;

	if (!symbols)
		return;
	HASH_FIND(hh, symbols->processes, &id, sizeof id, process);
	if (process)
		process_close(symbols, process);
}

/* ---- frames ---- */

/* Whether the stack goes on there: in code, or where nothing is known of the process. The
 * address is where the call returns to: the call itself is a byte before. */
static bool frame_is_code(struct symbols *symbols, struct known_process *process,
			  __u64 address)
{
	if (code_find(process, address - 1))
		return true;
	code_read(symbols, process); /* loaded since */
	return !process->n_code || code_find(process, address - 1);
}

static uint64_t frame_module(struct symbols *symbols, struct place *place, __u64 address,
			     uint64_t deadline)
{
	struct range *range = code_find(place->process, address - 1);
	const struct look look = { .is_module = true, .address = address - 1 };

	if (!range)
		return MODULE_NONE;
	if (range->module == MODULE_UNASKED && clock_ns(CLOCK_MONOTONIC) < deadline &&
	    looker_ask(symbols, &look, place->symboliser.folder) &&
	    symboliser_module(&place->symboliser, &symbols->looker, deadline,
			      &range->module))
		apart_end(&symbols->looker);
	return range->module;
}

/* A frame without a known name stays NULL. */
static void frames_look_up(struct symbols *symbols, struct known_process *process,
			   const __u64 *addresses, struct stack *stack)
{
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + STACK_WAIT_NS;
	struct ask ask = { .n_frames = stack->n };

	if (process->is_unnamed || !user_is_waited_for(process->user))
		return;
	struct place *place = place_open(symbols, process);
	if (!place)
		return;
	for (size_t i = 0; i < stack->n; i++) {
		ask.frames[i].address = addresses[i];
		ask.frames[i].module =
			frame_module(symbols, place, addresses[i], deadline);
	}
	int error = symboliser_ask(&place->symboliser, &ask, stack->frames, deadline);
	if (!error)
		return;
	place_clear(place);
	process_failed(process, error);
}

/* Returns: the text, or NULL without memory. */
static char *frame_bare(__u64 address)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, (uint64_t)address);
	return strdup(text);
}

static void stack_cut(struct stack *stack, size_t n)
{
	for (size_t i = n; i < stack->n; i++)
		free(stack->frames[i]);
	stack->n = n;
}

static void stack_fill(struct symbols *symbols, struct known_process *process, __s32 key,
		       struct stack *stack)
{
	__u64 addresses[STACK_DEPTH] = { 0 };
	__u32 map_key = (__u32)key;

	if (bpf_map_lookup_elem(symbols->fd, &map_key, addresses))
		return;
	stack->frames = calloc(STACK_DEPTH, sizeof *stack->frames);
	if (!stack->frames)
		return;
	while (stack->n < STACK_DEPTH && addresses[stack->n] &&
	       frame_is_code(symbols, process, addresses[stack->n]))
		stack->n++;
	if (stack->n)
		frames_look_up(symbols, process, addresses, stack);
	for (size_t i = 0; i < stack->n; i++)
		if (!stack->frames[i] && !(stack->frames[i] = frame_bare(addresses[i])))
			stack_cut(stack, i);
}

const struct stack *symbols_stack(struct symbols *symbols, __u64 id, __u32 pid, uid_t uid,
				  __s32 key)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	struct known_process *process =
		symbols && key >= 0 ? process_open(symbols, id, pid, uid) : NULL;
	struct known_stack *known;

	if (!process)
		return NULL;
	HASH_FIND(hh, process->stacks, &key, sizeof key, known);
	if (!known) {
		known = process->user->n_stacks < USER_STACKS ? calloc(1, sizeof *known)
							      : NULL;
		if (!known)
			return NULL;
		known->key = key;
		stack_fill(symbols, process, key, &known->stack);
		HASH_ADD(hh, process->stacks, key, sizeof known->key, known);
		process->user->n_stacks++;
		process->user->spent_ns += clock_ns(CLOCK_MONOTONIC) - begin;
	}
	return known->stack.n ? &known->stack : NULL;
}
