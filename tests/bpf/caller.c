/* SPDX-License-Identifier: MIT */
/*
 * Makes the driver calls listed on standard input, so a test knows exactly the calls of
 * the traced program:
 *
 *     caller LIBRARY <<EOF
 *     cuMemAlloc_v2 &a 4096
 *     cuMemFree_v2 $a
 *     EOF
 *
 * A line is a symbol and its arguments: numbers, &NAME (the address of a variable of 512
 * bytes), $NAME (its first eight bytes), 'TEXT (in which \n and \xHH stand for bytes).
 * Each call prints its symbol and its result; a result other than 0 is a matter for the
 * test. Blocks end with `end`:
 *
 *     loop N ... end      N times
 *     thread ... end      in a new thread; waits for its end
 *     fork ... end        in a new process; waits for its end
 *
 * and other lines are
 *
 *     set NAME N          a variable's first eight bytes
 *     add NAME N N        the same, as a sum
 *     word NAME I N       a variable's I-th four bytes
 *     exit N              without any cleaning up
 *     exec COMMAND...     another program in this process
 *     quiet               no printing from here on
 *     wait FILE           waits until the file exists
 *     pid FILE            writes its process's number into a file
 *     stray ADDRESS       calls from here on are made under a frame with that return
 * address
 *     mappings N          maps N pages of code, none beside another
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX 4096
#define WORDS_MAX 16
#define VARIABLES 64

struct variable {
	char name[32];
	uint64_t value[64];
};

struct line {
	char *words[WORDS_MAX];
	size_t n;
};

static struct line lines[LINES_MAX];
static size_t n_lines;
static struct variable variables[VARIABLES];
static void *library;
static int quiet;
static uint64_t stray;

_Noreturn static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "caller: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	exit(2);
}

static uint64_t *variable(const char *name)
{
	for (size_t i = 0; i < VARIABLES; i++) {
		if (!variables[i].name[0])
			snprintf(variables[i].name, sizeof variables[i].name, "%s", name);
		if (!strcmp(variables[i].name, name))
			return variables[i].value;
	}
	die("too many variables");
}

/* Unescapes text in place. */
static char *unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		unsigned int byte;
		int n = 0;

		if (!strncmp(from, "\\n", 2)) {
			*to++ = '\n';
			from += 2;
		} else if (sscanf(from, "\\x%2x%n", &byte, &n) == 1) {
			*to++ = (char)byte;
			from += n;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
	return text;
}

static uint64_t value(char *word)
{
	char *end;

	switch (word[0]) {
	case '&':
		return (uintptr_t)variable(word + 1);
	case '$':
		return *variable(word + 1);
	case '\'':
		return (uintptr_t)unescape(word + 1);
	}
	uint64_t number = strtoull(word, &end, 0);
	if (*end || end == word)
		die("'%s' is no number", word);
	return number;
}

typedef int (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

__attribute__((noinline)) int caller_call(function f, const uint64_t *a);

/* The only caller of the driver: stacks must show this function. */
int caller_call(function f, const uint64_t *a)
{
	/* a frame like that of a function without frame pointers, with any value in rbp
	 */
	volatile uint64_t nobodys[] = { 0, stray };
	volatile uint64_t *frame = __builtin_frame_address(0);
	uint64_t caller = frame[0];

	if (stray)
		frame[0] = (uintptr_t)nobodys;
	int result = f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);

	frame[0] = caller;
	return result;
}

static void call(const struct line *line)
{
	uint64_t arguments[11] = { 0 };
	function f;

	*(void **)&f = dlsym(library, line->words[0]);
	if (!f)
		die("%s: there is no such symbol", line->words[0]);
	if (line->n > 12)
		die("%s: too many arguments", line->words[0]);
	for (size_t i = 1; i < line->n; i++)
		arguments[i - 1] = value(line->words[i]);
	int result = caller_call(f, arguments);
	if (!quiet)
		printf("%s %d\n", line->words[0], result);
}

static void map_code(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(NULL, 2 * n * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < n; i++)
		if (pages == MAP_FAILED ||
		    mprotect(pages + 2 * i * page, page, PROT_READ | PROT_EXEC) < 0)
			die("mappings: %s", strerror(errno));
}

static void wait_file(const char *path)
{
	struct timespec pause = { .tv_nsec = 2000000 };

	for (int i = 0; i < 10000 && access(path, F_OK); i++)
		nanosleep(&pause, NULL);
	if (access(path, F_OK))
		die("%s: waited in vain", path);
}

static void write_pid(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		die("%s: %s", path, strerror(errno));
	fprintf(file, "%d\n", (int)getpid());
	fclose(file);
}

static size_t run(size_t from);

static void *run_thread(void *from)
{
	run((uintptr_t)from);
	return NULL;
}

/* Returns: the line after the `end` of the block that begins at `from`. */
static size_t block_end(size_t from)
{
	int depth = 1;

	for (size_t i = from; i < n_lines; i++) {
		const char *word = lines[i].words[0];

		if (!strcmp(word, "loop") || !strcmp(word, "thread") ||
		    !strcmp(word, "fork"))
			depth++;
		else if (!strcmp(word, "end") && --depth == 0)
			return i + 1;
	}
	die("a block without end");
}

static size_t run_block(const struct line *line, size_t from)
{
	size_t behind = block_end(from);

	fflush(stdout);
	if (!strcmp(line->words[0], "loop")) {
		for (uint64_t i = value(line->words[1]); i; i--)
			run(from);
	} else if (!strcmp(line->words[0], "thread")) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run_thread, (void *)(uintptr_t)from))
			die("no thread");
		pthread_join(thread, NULL);
	} else {
		pid_t pid = fork();

		if (pid == 0) {
			run(from);
			fflush(stdout);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			die("fork: %s", strerror(errno));
	}
	return behind;
}

/* Runs up to the end of the block or of the input. */
static size_t run(size_t from)
{
	for (size_t i = from; i < n_lines;) {
		struct line *line = &lines[i++];
		const char *word = line->words[0];

		if (!strcmp(word, "end"))
			return i;
		if (!strcmp(word, "loop") || !strcmp(word, "thread") ||
		    !strcmp(word, "fork")) {
			i = run_block(line, i);
		} else if (!strcmp(word, "set")) {
			*variable(line->words[1]) = value(line->words[2]);
		} else if (!strcmp(word, "add")) {
			*variable(line->words[1]) =
				value(line->words[2]) + value(line->words[3]);
		} else if (!strcmp(word, "word")) {
			((uint32_t *)variable(line->words[1]))[value(line->words[2])] =
				(uint32_t)value(line->words[3]);
		} else if (!strcmp(word, "exit")) {
			fflush(stdout);
			_exit((int)value(line->words[1]));
		} else if (!strcmp(word, "exec")) {
			fflush(stdout);
			execvp(line->words[1], line->words + 1);
			die("%s: %s", line->words[1], strerror(errno));
		} else if (!strcmp(word, "quiet")) {
			quiet = 1;
		} else if (!strcmp(word, "wait")) {
			fflush(stdout);
			wait_file(line->words[1]);
		} else if (!strcmp(word, "pid")) {
			write_pid(line->words[1]);
		} else if (!strcmp(word, "stray")) {
			stray = value(line->words[1]);
		} else if (!strcmp(word, "mappings")) {
			map_code(value(line->words[1]));
		} else {
			call(line);
		}
	}
	return n_lines;
}

static void read_lines(void)
{
	char *text = NULL;
	size_t size = 0;

	while (getline(&text, &size, stdin) > 0) {
		struct line *line = &lines[n_lines];
		char *rest = NULL;

		for (char *word = strtok_r(text, " \t\n", &rest); word && word[0] != '#';
		     word = strtok_r(NULL, " \t\n", &rest)) {
			if (line->n == WORDS_MAX - 1)
				die("too many words");
			line->words[line->n++] = strdup(word);
		}
		if (line->n && ++n_lines == LINES_MAX)
			die("too many lines");
	}
	free(text);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		die("usage: caller LIBRARY <CALLS");
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		die("%s", dlerror());
	read_lines();
	run(0);
	fflush(stdout);
	return 0;
}
