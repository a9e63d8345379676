/* SPDX-License-Identifier: MIT */
/*
 * Rules that make calls go wrong, from the options and from the control file.
 *
 * A rule names a function and which calls of the function it means, counted from the
 * moment the rule is there. Rules are looked through in order on every call; there are a
 * few, so nothing faster is needed. All of this runs under the library's lock.
 *
 * The control file lets a test break a process that is already running. The file is known
 * by identity, size and time; when these change, the rules from the file are thrown away
 * and read anew. A line without a rule is reported on stderr and left out.
 */
#include "inject.h"

#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum effect {
	EFFECT_FAIL,
	EFFECT_DELAY,
	EFFECT_KILL,
};

struct rule {
	struct rule *next;
	bool from_control;
	enum effect effect;
	int call;
	uint64_t first; /* the call it begins with, from 1 */
	uint64_t every; /* then each so many; 0: that one only */
	uint64_t n_calls;
	uint64_t delay_ns;
	CUresult result;
};

static const char *const effects[] = {
	[EFFECT_FAIL] = "fail",
	[EFFECT_DELAY] = "delay",
	[EFFECT_KILL] = "kill",
};

static const char *const symbols[] = {
#define SYMBOL_NAME(symbol, ...) [CUDA_ROW_##symbol] = #symbol,
	CUDA_DRIVER_LIST(SYMBOL_NAME)
#undef SYMBOL_NAME
};

static struct rule *rules;
static struct stat control_seen;
static uint64_t n_changes; /* of the control file */

/* Returns: the index, or -EINVAL. */
static int table_find(const char *const *table, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (name && !strcmp(table[i], name))
			return (int)i;
	return -EINVAL;
}

static int parse_when(char *when, struct rule *rule)
{
	char *slash;

	if (!when || !*when)
		return -EINVAL;
	rule->first = rule->every = 1;
	if (!strcmp(when, "*"))
		return 0;

	slash = strchr(when, '/');
	if (slash)
		*slash = '\0';
	else if (when[strlen(when) - 1] == '+')
		when[strlen(when) - 1] = '\0';
	else
		rule->every = 0;

	if (options_parse_count(when, &rule->first) < 0 || !rule->first)
		return -EINVAL;
	if (slash && (options_parse_count(slash + 1, &rule->every) < 0 || !rule->every))
		return -EINVAL;
	return 0;
}

static int parse_result(const char *text, CUresult *ret)
{
	int number = cuda_result_find(text);
	uint64_t value;

	if (number < 0 && options_parse_count(text, &value) >= 0 && value < 10000)
		number = (int)value;
	if (number <= 0)
		return -EINVAL;
	*ret = (CUresult)number;
	return 0;
}

static int parse_value(const char *value, struct rule *rule)
{
	if (rule->effect == EFFECT_KILL)
		return value ? -EINVAL : 0;
	if (!value)
		return -EINVAL;
	if (rule->effect == EFFECT_DELAY)
		return options_parse_time(value, &rule->delay_ns);
	return parse_result(value, &rule->result);
}

/* EFFECT=CALL@WHEN[=VALUE] */
static int rule_parse(char *text, struct rule *rule)
{
	const char *effect = strsep(&text, "=");
	const char *symbol = strsep(&text, "@");
	char *when = strsep(&text, "=");
	int index;

	index = table_find(effects, ARRAY_SIZE(effects), effect);
	if (index < 0)
		return index;
	rule->effect = (enum effect)index;
	rule->call = table_find(symbols, ARRAY_SIZE(symbols), symbol);
	if (rule->call < 0)
		return rule->call;
	if (parse_when(when, rule) < 0)
		return -EINVAL;
	return parse_value(text, rule);
}

static int rule_add(const char *setting, bool from_control)
{
	_cleanup_free_ char *copy = strdup(setting);
	_cleanup_free_ struct rule *rule = calloc(1, sizeof(*rule));
	struct rule **tail = &rules;

	if (!copy || !rule)
		return -ENOMEM;
	if (rule_parse(copy, rule) < 0)
		return -EINVAL;
	rule->from_control = from_control;
	while (*tail)
		tail = &(*tail)->next;
	*tail = take_ptr(rule);
	return 0;
}

int inject_add(const char *setting)
{
	return rule_add(setting, false);
}

static void control_forget(void)
{
	struct rule **link = &rules;

	while (*link) {
		struct rule *rule = *link;

		if (!rule->from_control) {
			link = &rule->next;
			continue;
		}
		*link = rule->next;
		free(rule);
	}
}

static void control_load(void)
{
	_cleanup_close_ int fd = open(options.control, O_RDONLY | O_CLOEXEC);
	char text[4096];
	char *rest = text;
	char *setting;
	ssize_t n;

	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return;
	text[n] = '\0';
	while ((setting = strsep(&rest, ":\n")))
		if (*setting && rule_add(setting, true) < 0)
			fprintf(stderr, "software GPU: %s: can't use '%s'\n",
				options.control, setting);
}

static void control_look(void)
{
	struct stat now = { 0 };

	if (!options.control[0])
		return;
	stat(options.control, &now);
	if (now.st_ino == control_seen.st_ino && now.st_size == control_seen.st_size &&
	    now.st_mtim.tv_sec == control_seen.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == control_seen.st_mtim.tv_nsec)
		return;
	control_seen = now;
	n_changes++;
	control_forget();
	control_load();
}

/* Whether a rule means the call just counted. */
static bool rule_hits(const struct rule *rule)
{
	if (rule->n_calls < rule->first)
		return false;
	if (!rule->every)
		return rule->n_calls == rule->first;
	return (rule->n_calls - rule->first) % rule->every == 0;
}

CUresult inject_result(int call, struct delay *delay)
{
	CUresult result = CUDA_SUCCESS;

	control_look();
	delay->n_changes = n_changes;
	for (struct rule *rule = rules; rule; rule = rule->next) {
		if (rule->call != call)
			continue;
		rule->n_calls++;
		if (!rule_hits(rule))
			continue;
		if (rule->effect == EFFECT_KILL)
			raise(SIGKILL);
		if (rule->effect == EFFECT_DELAY)
			delay->ns += rule->delay_ns;
		if (rule->effect == EFFECT_FAIL && !result)
			result = rule->result;
	}
	return result;
}

uint64_t inject_changes(void)
{
	control_look();
	return n_changes;
}
