/* SPDX-License-Identifier: MIT */
/*
 * A program that uses libgpumem, line by line, for the mount suite: it reads commands on
 * stdin and prints a line for each, `ok ...` or the name of the error and the sentence.
 *
 *	map M NAME [w] [any] [register]    info M      unmap M    unref M    ref M
 *	begin M [w]    end M    suspend M    resume M [follow]
 *	peek M OFFSET    poke M OFFSET VALUE    a byte, by the GPU's copies or the CPU
 *	descriptors                        the number of open ones
 *	context                            makes device 0's primary context current
 *	command FILE LINE...               line FILE LINE... wants no answer
 *	fork (the lines up to `exit` are the child's)
 *	close    open [MOUNT]    exit
 *	malloc M SIZE DEVICE    free M    as torch calls them; peek and poke work
 *
 *	fault FILE       runs the kernel `wild` of a PTX file, which ends the context
 *	threads N NAME   N threads that map NAME, write and read a byte, and unmap
 *	alarm MS         a signal so often
 *	busy MS          queues work of that length on the default stream
 *
 * M is a digit.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <gpumem/cuda.h>
#include <gpumem/driver.h>
#include <gpumem/gpumem.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* The driver that the program is linked with. */
#define DECLARE(symbol, version, need, parameters) CUresult symbol parameters;
CUDA_DRIVER_LIST(DECLARE)
#undef DECLARE

static struct gpumem *session;
static struct gpumem_map *maps[10];
static CUdeviceptr segments[10];

static const char *const states[] = {
	[GPUMEM_LIVE] = "live",		  [GPUMEM_FREED] = "freed",
	[GPUMEM_REPLACED] = "replaced",	  [GPUMEM_ENDING] = "ending",
	[GPUMEM_SUSPENDED] = "suspended",
};

static void say(int r)
{
	if (r < 0)
		printf("%s %s\n", strerrorname_np(-r), gpumem_error());
	else
		printf("ok\n");
}

static unsigned int flags_of(char **words)
{
	static const struct {
		const char *word;
		unsigned int flag;
	} names[] = {
		{ "w", GPUMEM_WRITE },
		{ "any", GPUMEM_ANY_ADDRESS },
		{ "register", GPUMEM_REGISTER },
		{ "follow", GPUMEM_FOLLOW },
	};
	unsigned int flags = 0;

	for (; *words; words++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (strcmp(names[i].word, *words) == 0)
				flags |= names[i].flag;
		}
	}
	return flags;
}

static void info(struct gpumem_map *map)
{
	struct gpumem_info got;
	int r = map ? gpumem_info(map, &got) : -EINVAL;

	if (r < 0) {
		say(r);
		return;
	}
	printf("ok %s %s %s device=%d same=%d size=%llu mapped=%llu generation=%u\n",
	       got.name, got.kind == GPUMEM_HOST ? "host" : "device", states[got.state],
	       got.device, (uint64_t)got.pointer == got.address,
	       (unsigned long long)got.size, (unsigned long long)got.mapped_size,
	       got.generation);
}

/* Found by name and called with these types, as torch does. */
typedef void *(*torch_malloc)(size_t size, int device, CUstream stream);
typedef void (*torch_free)(void *pointer, size_t size, int device, CUstream stream);

static void on_segment(char **words)
{
	CUdeviceptr *segment = &segments[words[1][0] - '0'];

	if (strcmp(words[0], "malloc") == 0) {
		torch_malloc f = (torch_malloc)dlsym(RTLD_DEFAULT, "gpumem_torch_malloc");

		*segment =
			(CUdeviceptr)f(strtoull(words[2], NULL, 0), atoi(words[3]), NULL);
		printf("%s%s\n", *segment ? "ok" : "null ",
		       *segment ? "" : gpumem_error());
	} else {
		torch_free f = (torch_free)dlsym(RTLD_DEFAULT, "gpumem_torch_free");

		f((void *)*segment, 0, 0, NULL);
		*segment = 0;
		printf("ok\n");
	}
}

static void poke(struct gpumem_map *map, const CUdeviceptr *segment, size_t offset,
		 const char *value)
{
	struct gpumem_info got;
	unsigned char byte = value ? (unsigned char)atoi(value) : 0;
	CUresult result = CUDA_SUCCESS;

	if (!map && *segment)
		got = (struct gpumem_info){ .pointer = (void *)*segment };
	else if (!map || gpumem_info(map, &got) < 0) {
		say(-EINVAL);
		return;
	}
	if (got.kind == GPUMEM_HOST && value)
		((unsigned char *)got.pointer)[offset] = byte;
	else if (got.kind == GPUMEM_HOST)
		byte = ((unsigned char *)got.pointer)[offset];
	else if (value)
		/* the copy's end is not awaited: a later read by others can miss it */
		result = cuMemcpyHtoD_v2((CUdeviceptr)got.pointer + offset, &byte, 1)
				 ?: cuStreamSynchronize(NULL);
	else
		result = cuMemcpyDtoH_v2(&byte, (CUdeviceptr)got.pointer + offset, 1);
	if (result != CUDA_SUCCESS)
		printf("cuda %d\n", result);
	else
		printf("ok %d\n", byte);
}

static void make_context(void)
{
	CUcontext context;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context))
		printf("cuda\n");
	else
		printf("ok\n");
}

static void fault(const char *path)
{
	char ptx[4096] = "";
	FILE *file = fopen(path, "r");
	CUfunction wild;
	CUmodule module;

	if (!file || fread(ptx, 1, sizeof(ptx) - 1, file) == 0 ||
	    cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL) ||
	    cuModuleGetFunction(&wild, module, "wild") ||
	    cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
		printf("%s can't be run\n", path);
	else
		printf("cuda %d\n", cuCtxSynchronize());
	if (file)
		fclose(file);
}

#define THREADS_MAX 16
#define ROUNDS	    20

struct worker {
	pthread_t thread;
	unsigned char number;
	const char *name;
	unsigned int flags;
	CUcontext context;
	char said[600];
};

/* Returns: false, with what failed in said. */
static bool worker_round(struct worker *worker)
{
	unsigned char byte = worker->number, got = 0;
	struct gpumem_info info;
	struct gpumem_map *map;
	bool good;

	if (gpumem_map(&map, session, worker->name, worker->flags) < 0 ||
	    gpumem_info(map, &info) < 0) {
		snprintf(worker->said, sizeof(worker->said), "%s", gpumem_error());
		return false;
	}
	good = cuMemcpyHtoD_v2((CUdeviceptr)info.pointer + byte, &byte, 1) == 0 &&
	       cuMemcpyDtoH_v2(&got, (CUdeviceptr)info.pointer + byte, 1) == 0;
	snprintf(worker->said, sizeof(worker->said), "wrote %d, read %d", byte, got);
	return gpumem_unmap(map) == 0 && good && got == byte;
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	bool good = cuCtxSetCurrent(worker->context) == 0;

	for (int i = 0; good && i < ROUNDS; i++)
		good = worker_round(worker);
	return good ? NULL : worker;
}

static void run_threads(unsigned int n, const char *name, unsigned int flags)
{
	struct worker workers[THREADS_MAX];
	const struct worker *failed = NULL;
	CUcontext context = NULL;

	(void)cuCtxGetCurrent(&context);
	for (unsigned int i = 0; i < n && i < THREADS_MAX; i++) {
		workers[i] = (struct worker){ .number = (unsigned char)i,
					      .name = name,
					      .flags = flags,
					      .context = context };
		pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
	}
	for (unsigned int i = 0; i < n && i < THREADS_MAX; i++) {
		void *result;

		pthread_join(workers[i].thread, &result);
		failed = result ? result : failed;
	}
	printf("%s\n", failed ? failed->said : "ok");
}

static void on_alarm(int number)
{
	(void)number;
}

/* Ends waits: without SA_RESTART. */
static void set_alarm(long ms)
{
	const struct sigaction action = { .sa_handler = on_alarm };
	const struct timeval time = { ms / 1000, ms % 1000 * 1000 };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &(struct itimerval){ time, time }, NULL);
	printf("ok\n");
}

static void sleep_ms(void *userdata)
{
	usleep(1000 * (useconds_t)(intptr_t)userdata);
}

static void queue_work(long ms)
{
	CUresult result = cuLaunchHostFunc(NULL, sleep_ms, (void *)(intptr_t)ms);

	if (result)
		printf("cuda %d\n", result);
	else
		printf("ok\n");
}

static void count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	printf("ok %d\n", n);
}

static void open_session(const char *mount)
{
	say(gpumem_open(&session, mount));
}

static void run_command(char **words, bool wants_answer)
{
	char line[4096] = "", answer[4096] = "";
	int r;

	for (char **word = words + 1; *word; word++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", *word,
			 word[1] ? " " : "\n");
	r = wants_answer ? gpumem_command(session, words[0], line, answer, sizeof(answer))
			 : gpumem_command(session, words[0], line, NULL, 0);
	if (r < 0)
		say(r);
	else
		printf("ok %.*s\n", (int)strcspn(answer, "\n"), answer);
}

static void on_map(char **words)
{
	int m = words[1] ? words[1][0] - '0' : 0;
	struct gpumem_map **map = &maps[m];
	CUdeviceptr *segment = &segments[m];
	unsigned int flags = flags_of(words + 2);

	if (strcmp(words[0], "map") == 0)
		say(gpumem_map(map, session, words[2], flags_of(words + 3)));
	else if (strcmp(words[0], "info") == 0)
		info(*map);
	else if (strcmp(words[0], "unmap") == 0)
		say(gpumem_unmap(*map));
	else if (strcmp(words[0], "unref") == 0)
		say(gpumem_unref(*map) ? -EINVAL : 0);
	else if (strcmp(words[0], "ref") == 0)
		say(gpumem_ref(*map) ? 0 : -EINVAL);
	else if (strcmp(words[0], "begin") == 0)
		say(gpumem_begin(*map, flags));
	else if (strcmp(words[0], "end") == 0)
		say(gpumem_end(*map, NULL));
	else if (strcmp(words[0], "suspend") == 0)
		say(gpumem_suspend(*map));
	else if (strcmp(words[0], "resume") == 0)
		say(gpumem_resume(*map, flags));
	else if (strcmp(words[0], "peek") == 0)
		poke(*map, segment, strtoul(words[2], NULL, 0), NULL);
	else if (strcmp(words[0], "poke") == 0)
		poke(*map, segment, strtoul(words[2], NULL, 0), words[3]);
	else if (strcmp(words[0], "torch_name") == 0)
		say(setenv("GPUMEM_TORCH_NAME", words[1], true));
	else if (strcmp(words[0], "malloc") == 0 || strcmp(words[0], "free") == 0)
		on_segment(words);
	else
		printf("what?\n");
}

int main(int argc, char **argv)
{
	char line[4096], *words[64];
	pid_t child;

	setvbuf(stdout, NULL, _IOLBF, 0);
	open_session(argc > 1 ? argv[1] : NULL);
	while (fgets(line, sizeof(line), stdin)) {
		size_t n = 0;

		for (char *word = strtok(line, " \n"); word && n < 63;
		     word = strtok(NULL, " \n"))
			words[n++] = word;
		words[n] = NULL;
		if (n == 0)
			continue;
		if (strcmp(words[0], "exit") == 0)
			return 0;
		if (strcmp(words[0], "context") == 0) {
			make_context();
		} else if (strcmp(words[0], "descriptors") == 0) {
			count_descriptors();
		} else if (strcmp(words[0], "command") == 0) {
			run_command(words + 1, true);
		} else if (strcmp(words[0], "line") == 0) {
			run_command(words + 1, false);
		} else if (strcmp(words[0], "fault") == 0) {
			fault(words[1]);
		} else if (strcmp(words[0], "threads") == 0) {
			run_threads((unsigned int)atoi(words[1]), words[2],
				    flags_of(words + 3));
		} else if (strcmp(words[0], "alarm") == 0) {
			set_alarm(atol(words[1]));
		} else if (strcmp(words[0], "busy") == 0) {
			queue_work(atol(words[1]));
		} else if (strcmp(words[0], "open") == 0) {
			open_session(words[1]);
		} else if (strcmp(words[0], "close") == 0) {
			gpumem_close(session);
			printf("ok\n");
		} else if (strcmp(words[0], "fork") == 0) {
			child = fork();
			if (child > 0)
				waitpid(child, NULL, 0);
			while (child > 0 && fgets(line, sizeof(line), stdin) &&
			       strcmp(line, "exit\n") != 0)
				; /* the child has done these */
		} else {
			on_map(words);
		}
	}
	return 0;
}
