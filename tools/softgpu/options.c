/* SPDX-License-Identifier: MIT */
/*
 * The settings of options.h: a table of keys, each with a parser.
 *
 * The variable is read once, by cuInit or cuDriverGetVersion. Rules for faults go on to
 * inject.c, which also reads them from a control file while the process runs.
 */
#include "options.h"

#include "inject.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct options options = {
	.n_devices = 1,
	.memory = (uint64_t)4 << 30,
	.managed = (uint64_t)64 << 30,
	.concurrent = true,
	.capability_major = 9,
	.capability_minor = 0,
	.version = 13000,
	.name = "gpumem software GPU",
	.directory = "/dev/shm",
};

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit no_units[] = { { "", 1 }, { NULL } };

static const struct unit size_units[] = {
	{ "", 1 },
	{ "K", (uint64_t)1 << 10 },
	{ "M", (uint64_t)1 << 20 },
	{ "G", (uint64_t)1 << 30 },
	{ "T", (uint64_t)1 << 40 },
	{ NULL },
};

static const struct unit time_units[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { NULL },
};

static int parse_units(const char *text, const struct unit *units, uint64_t *ret)
{
	uint64_t value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	for (; units->name; units++) {
		if (strcasecmp(end, units->name))
			continue;
		if (__builtin_mul_overflow(value, units->factor, &value))
			return -EINVAL;
		*ret = value;
		return 0;
	}
	return -EINVAL;
}

int options_parse_count(const char *text, uint64_t *ret)
{
	return parse_units(text, no_units, ret);
}

static int options_parse_size(const char *text, uint64_t *ret)
{
	return parse_units(text, size_units, ret);
}

int options_parse_time(const char *text, uint64_t *ret)
{
	return parse_units(text, time_units, ret);
}

static int set_devices(const char *value)
{
	uint64_t n;

	if (options_parse_count(value, &n) < 0 || n > OPTIONS_MAX_DEVICES)
		return -EINVAL;
	options.n_devices = (int)n;
	return 0;
}

static int set_memory(const char *value)
{
	uint64_t size;

	if (options_parse_size(value, &size) < 0 || !size || size % OPTIONS_GRANULARITY)
		return -EINVAL;
	options.memory = size;
	return 0;
}

static int set_managed(const char *value)
{
	return options_parse_size(value, &options.managed);
}

static int set_concurrent(const char *value)
{
	uint64_t n;

	if (options_parse_count(value, &n) < 0 || n > 1)
		return -EINVAL;
	options.concurrent = n;
	return 0;
}

static int set_nodes(const char *value)
{
	uint64_t n;

	if (options_parse_count(value, &n) < 0 || n < 1 || n > OPTIONS_MAX_NODES)
		return -EINVAL;
	options.n_nodes = (int)n;
	return 0;
}

/* MAJOR.MINOR, of two digits and one. */
static int parse_version(const char *value, int *ret_major, int *ret_minor)
{
	int major, minor, end = 0;

	if (sscanf(value, "%2d.%1d%n", &major, &minor, &end) != 2 || value[end])
		return -EINVAL;
	if (major < 1 || minor < 0)
		return -EINVAL;
	*ret_major = major;
	*ret_minor = minor;
	return 0;
}

static int set_capability(const char *value)
{
	return parse_version(value, &options.capability_major, &options.capability_minor);
}

static int set_version(const char *value)
{
	int major, minor;

	if (parse_version(value, &major, &minor) < 0)
		return -EINVAL;
	options.version = major * 1000 + minor * 10;
	return 0;
}

static int set_text(char *ret, size_t size, const char *value)
{
	size_t length = strlen(value);

	if (!length || length >= size)
		return -EINVAL;
	memcpy(ret, value, length + 1);
	return 0;
}

static int set_name(const char *value)
{
	return set_text(options.name, sizeof(options.name), value);
}

static int set_machine(const char *value)
{
	for (const char *c = value; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
			return -EINVAL;
	return set_text(options.machine, sizeof(options.machine), value);
}

static int set_directory(const char *value)
{
	return set_text(options.directory, sizeof(options.directory), value);
}

static int set_control(const char *value)
{
	return set_text(options.control, sizeof(options.control), value);
}

struct key {
	const char *name;
	int (*set)(const char *value);
	const char *takes;
};

/* clang-format off */
static const struct key keys[] = {
	{ "capability", set_capability, "a version, such as 9.0" },
	{ "concurrent", set_concurrent, "0 or 1" },
	{ "control", set_control, "a path" },
	{ "delay", NULL, "CALL@WHEN=TIME, such as cuLaunchKernel@*=5s" },
	{ "devices", set_devices, "a number from 0 to 16" },
	{ "directory", set_directory, "a path" },
	{ "fail", NULL, "CALL@WHEN=RESULT, such as cuMemCreate@1=CUDA_ERROR_OUT_OF_MEMORY" },
	{ "kill", NULL, "CALL@WHEN, such as cuMemCreate@1" },
	{ "machine", set_machine, "a name of letters, digits, '_', '.' and '-'" },
	{ "managed", set_managed, "a size, such as 64G" },
	{ "memory", set_memory, "a multiple of 2M, such as 8G" },
	{ "name", set_name, "a name of up to 127 characters" },
	{ "nodes", set_nodes, "a number from 1 to 16" },
	{ "version", set_version, "a version, such as 12.4" },
};
/* clang-format on */

static const struct key *key_find(const char *setting)
{
	size_t length = strcspn(setting, "=");

	for (size_t i = 0; setting[length] && i < ARRAY_SIZE(keys); i++)
		if (length == strlen(keys[i].name) &&
		    !strncmp(setting, keys[i].name, length))
			return &keys[i];
	return NULL;
}

static int option_set(const char *setting)
{
	const struct key *key = key_find(setting);

	if (key && key->set)
		return key->set(strchr(setting, '=') + 1);
	return inject_add(setting);
}

static void option_complain(const char *setting)
{
	const struct key *key = key_find(setting);

	if (key) {
		fprintf(stderr, "software GPU: can't use '%s': %s= takes %s\n", setting,
			key->name, key->takes);
		return;
	}
	fprintf(stderr, "software GPU: can't use '%s': the options are", setting);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		fprintf(stderr, "%s %s=", i ? "," : "", keys[i].name);
	fprintf(stderr, "\n");
}

static int options_parse(void)
{
	const char *variable = getenv(OPTIONS_VARIABLE);
	_cleanup_free_ char *copy = strdup(variable ? variable : "");
	char *rest = copy;
	char *setting;

	while ((setting = strsep(&rest, ":"))) {
		if (!*setting || option_set(setting) >= 0)
			continue;
		option_complain(setting);
		return -EINVAL;
	}
	return 0;
}

/* As the driver understands the variable: lazy unless EAGER. */
static bool loading_is_eager(void)
{
	const char *mode = getenv("CUDA_MODULE_LOADING");

	return mode && !strcmp(mode, "EAGER");
}

/* Nodes are numbered from 0 on; a host without the files has a single node. */
static int nodes_count(void)
{
	char path[64];
	int n = 0;

	do {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", ++n);
	} while (n < OPTIONS_MAX_NODES && access(path, F_OK) == 0);
	return n;
}

/*
 * Without a named machine, root has one and every other user another: nobody needs to
 * trust other users. The processes that this process starts join the same, as whatever
 * user they run.
 */
static int machine_choose(void)
{
	const char *variable = getenv(OPTIONS_VARIABLE);
	char settings[2048];
	int n;

	if (*options.machine)
		return 0;
	if (geteuid() == 0)
		strcpy(options.machine, "default");
	else
		snprintf(options.machine, sizeof(options.machine), "default-%u",
			 (unsigned int)geteuid());
	n = snprintf(settings, sizeof(settings), "%s%smachine=%s",
		     variable ? variable : "", variable && *variable ? ":" : "",
		     options.machine);
	if (n >= (int)sizeof(settings))
		return -EINVAL;
	return setenv(OPTIONS_VARIABLE, settings, 1) < 0 ? -ENOMEM : 0;
}

int options_read(void)
{
	static bool done;
	static int r;

	if (!done)
		r = options_parse();
	if (!done && r == 0)
		r = machine_choose();
	if (!done)
		options.eager = loading_is_eager();
	if (!done && !options.n_nodes)
		options.n_nodes = nodes_count();
	done = true;
	return r;
}
