/* SPDX-License-Identifier: MIT */
/*
 * Lines of control files. The first byte chooses a usage, the others are the line; each
 * word is then read as every kind of value, and a launch as a launch.
 */
#include "control/line.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"
#include "base/refusal.h"
#include "base/text.h"
#include "control/launch_line.h"
#include "control/usage.h"
#include "fuzz.h"
#include "kernels/launch_spec.h"
#include "model/range.h"

static const char *const usages[] = {
	"M F " LAUNCH_USAGE,
	LAUNCH_USAGE,
	"NAME SIZE [kind=device|direct|async|managed|host] [device=N] [stream=S] "
	"[attach=global|host] [tag=WORD] [mode=OCTAL] [until=close|exit|cgroup] "
	"[wait=SECONDS]",
	"NAME ADVICE [LOCATION] [offset=N] [length=N]",
	"NAME path=FILE [offset=N] [file_offset=N] [length=N] [wait=0] [id=N]",
	"NAME TO [NAME TO]... [id=N[,N]...]",
};

/* A refusal has an errno of the closed list and a sentence. */
static void check_refusal(int r, const struct refusal *refusal)
{
	must(r == -refusal->error);
	must(r == -EINVAL || r == -EOVERFLOW || r == -E2BIG || r == -ENAMETOOLONG);
	must(memchr(refusal->sentence, '\0', sizeof(refusal->sentence)));
	must(refusal->sentence[0]);
}

static void read_name(const char *word)
{
	struct refusal refusal = { 0 };
	struct range range = { 0 };
	char path[LINE_MAX_LENGTH + 1];
	struct full_name name;
	int r = line_place(word, &name, &range, &refusal);

	if (r < 0)
		check_refusal(r, &refusal);
	else
		must(strlen(name.text) == strcspn(word, "+"));
	r = line_name(word, "stream", &refusal);
	if (r < 0)
		check_refusal(r, &refusal);
	r = line_path(word, path, &refusal);
	if (r < 0)
		check_refusal(r, &refusal);
	else
		must(path[0] == '/' && strlen(path) <= strlen(word));
}

static void read_number(const char *word)
{
	struct refusal refusal = { 0 };
	struct range range = { 0 };
	struct scalar scalar;
	uint64_t number;
	bool wait;
	int r = line_number(word, "elements", &number, &refusal);

	if (r < 0)
		check_refusal(r, &refusal);
	r = line_range(word, word, &range, &refusal);
	if (r < 0)
		check_refusal(r, &refusal);
	else
		must(range.has_length && range.length && range.length == range.offset);
	r = line_wait(word, &wait, &refusal);
	if (r < 0)
		check_refusal(r, &refusal);
	r = line_scalar(word, &scalar, &refusal);
	if (r < 0)
		check_refusal(r, &refusal);
	if (r == 0 && scalar_size(scalar.type) < 8)
		must(scalar.bits >> 8 * scalar_size(scalar.type) == 0);
}

static void read_word(const char *word)
{
	if (!word)
		return;
	read_name(word);
	read_number(word);
}

static void check_launch(const struct launch_spec *launch, unsigned int n_args)
{
	must(launch->n_args == n_args);
	must(launch->n_bytes <= WIRE_ARGS_BYTES && launch->n_bytes % 8 == 0);
	for (int i = 0; i < 3; i++)
		must(launch->grid[i] && launch->block[i]);
	for (unsigned int i = 0; i < n_args; i++) {
		const struct launch_arg *arg = &launch->args[i];

		must(arg->size && arg->place % 8 == 0);
		must(arg->size <= launch->n_bytes &&
		     arg->place <= launch->n_bytes - arg->size);
		if (arg->kind == ARG_ALLOCATION)
			must(arg->name[0] && (arg->reads || arg->writes));
	}
}

static void read_launch(const struct line *line)
{
	struct refusal refusal = { 0 };
	struct launch_spec launch;
	int r = launch_line_parse(&launch, line, &refusal);

	if (r < 0)
		check_refusal(r, &refusal);
	else
		check_launch(&launch, line->n_args);
	launch_spec_deinit(&launch);
}

int fuzz(const uint8_t *bytes, size_t size)
{
	const char *usage;
	struct refusal refusal = { 0 };
	struct line line;
	int r;

	if (!size)
		return 0;
	usage = usages[bytes[0] % ARRAY_SIZE(usages)];
	r = line_parse(&line, (const char *)bytes + 1, size - 1, usage, &refusal);
	if (r < 0) {
		check_refusal(r, &refusal);
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(line.operands); i++)
			read_word(line.operands[i]);
		for (unsigned int i = 0; i < line.n_keys; i++)
			read_word(strchr(line.keys[i], '=') + 1);
		for (size_t i = 0; i < line.n_args; i++)
			read_word(line.args[i]);
		if (usage_has_args(usage))
			read_launch(&line);
	}
	line_deinit(&line);
	return 0;
}
