/* SPDX-License-Identifier: MIT */
#include "guards.h"
#include "command.h"
#include "name.h"
#include "verb.h"

#include "base/def.h"
#include "base/number.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICE_PAGE ((uint64_t)2 << 20)

struct guarded {
	char name[GPUMEM_NAME_SIZE]; /* of the original */
	char copy[GPUMEM_NAME_SIZE];
	uint64_t id;  /* of the original: its name may be another's by the end */
	bool both;    /* both ends are guarded, else the end alone */
	bool written; /* the kernel may write */
};

/* ---- words ---- */

/* An argument of a launch: [in:|out:]NAME[+OFFSET]. */
struct argument {
	const char *way; /* "in:", "out:" or "" */
	char name[GPUMEM_NAME_SIZE];
	const char *offset; /* "+OFFSET" or "" */
};

/* Returns: whether the word names an allocation of the mount. */
static bool argument_parse(const struct guards *guards, const char *word,
			   struct argument *ret)
{
	static const char *const ways[] = { "in:", "out:" };
	_cleanup_text_ struct text path = TEXT_INIT;
	size_t length;

	ret->way = "";
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		if (strncmp(word, ways[i], strlen(ways[i])) != 0)
			continue;
		ret->way = ways[i];
		word += strlen(ways[i]);
	}
	length = strcspn(word, "+");
	if (!length || length >= GPUMEM_NAME_SIZE || strpbrk(word, ":="))
		return false;
	snprintf(ret->name, sizeof ret->name, "%.*s", (int)length, word);
	ret->offset = word + length;
	text_printf(&path, "allocations/%s", ret->name);
	return !faccessat(guards->mount->fd, text_string(&path), F_OK, 0);
}

/* ---- copies ---- */

/* Reads a file of the folder of an allocation, which could be opened or not. */
static int attribute_read(int own, const char *name, const char *attribute,
			  struct text *value)
{
	int r = own < 0 ? own : file_read(own, attribute, value);

	if (r)
		return refused("%s can't be copied for --check: %s", name, strerror(-r));
	value->data[strcspn(value->data, "\n")] = '\0';
	return STATUS_DONE;
}

/* key: of the original's number. */
static int copy(const struct guards *guards, const char *to, const char *from,
		const char *key, uint64_t id)
{
	_cleanup_text_ struct text line = TEXT_INIT;

	text_printf(&line, "%s from=%s %s=%llu", to, from, key, (unsigned long long)id);
	if (mount_line(guards->mount, "control/copy", text_string(&line), NULL))
		return refused("%s", gpumem_error());
	return STATUS_DONE;
}

/* Makes the copy. Of other kinds than host it is device memory. */
static int guarded_make(const struct guards *guards, struct guarded *guarded)
{
	_cleanup_text_ struct text size = TEXT_INIT, kind = TEXT_INIT, device = TEXT_INIT,
				   line = TEXT_INIT, id = TEXT_INIT;
	const char *name = guarded->name;
	_cleanup_close_ int own = mount_allocation(guards->mount, name);
	bool host, managed;
	uint64_t bytes = 0;
	int status;

	status = attribute_read(own, name, "size_bytes", &size)
			 ?: attribute_read(own, name, "kind", &kind)
			 ?: attribute_read(own, name, "device", &device)
			 ?: attribute_read(own, name, "id", &id);
	if (status)
		return status;
	host = !strcmp(text_string(&kind), "host");
	managed = !strcmp(text_string(&kind), "managed");
	(void)number_parse(text_string(&size), &bytes);
	(void)number_parse(text_string(&id), &guarded->id);
	guarded->both = bytes % (host ? (uint64_t)getpagesize() : DEVICE_PAGE) == 0;
	text_printf(&line, "%s %s guard=%d until=close kind=%s", guarded->copy,
		    text_string(&size), guarded->both ? 2 : 1, host ? "host" : "device");
	if (!host)
		text_printf(&line, " device=%s",
			    managed ? guards->gpu : text_string(&device));
	if (mount_line(guards->mount, "control/alloc", text_string(&line), NULL))
		return refused("a guarded copy of %s: %s", name, gpumem_error());
	return copy(guards, guarded->copy, name, "from_id", guarded->id);
}

/* The guarded copy of an allocation, made at its first use; NULL: *status says why. */
static struct guarded *guards_find(struct guards *guards, const char *name, int *status)
{
	struct guarded *grown, *guarded;

	for (int i = 0; i < guards->n; i++)
		if (!strcmp(guards->list[i].name, name))
			return &guards->list[i];
	grown = reallocarray(guards->list, (size_t)guards->n + 1, sizeof(*grown));
	if (!grown) {
		*status = refused("no memory");
		return NULL;
	}
	guards->list = grown;
	guarded = &grown[guards->n];
	*guarded = (struct guarded){ 0 };
	snprintf(guarded->name, sizeof guarded->name, "%s", name);
	snprintf(guarded->copy, sizeof guarded->copy, "check.%u.%d.", name_number(),
		 guards->n++);
	*status = guarded_make(guards, guarded);
	return *status ? NULL : guarded;
}

static int guards_add_word(struct guards *guards, const char *word, struct text *ret)
{
	struct guarded *guarded;
	struct argument argument;
	int status = STATUS_DONE;

	if (!argument_parse(guards, word, &argument)) {
		text_printf(ret, "%s", word);
		return STATUS_DONE;
	}
	guarded = guards_find(guards, argument.name, &status);
	if (!guarded)
		return status;
	guarded->written |= strcmp(argument.way, "in:") != 0;
	text_printf(ret, "%s%s%s", argument.way, guarded->copy, argument.offset);
	return STATUS_DONE;
}

/* ---- the launch ---- */

int guards_make(struct guards *guards, char **words, int n, struct text *line)
{
	_cleanup_text_ struct text checked = TEXT_INIT;
	int status = line_join(&checked, words, n);

	for (int i = 0; i < n && !status; i++) {
		text_printf(line, "%s", i ? " " : "");
		status = guards_add_word(guards, words[i], line);
	}
	return status;
}

int guards_copy_back(const struct guards *guards)
{
	int status = STATUS_DONE;

	for (int i = 0; i < guards->n && !status; i++)
		if (guards->list[i].written)
			status = copy(guards, guards->list[i].name, guards->list[i].copy,
				      "id", guards->list[i].id);
	return status;
}

/* The guarded copy whose name the text begins with; NULL: none. */
static const struct guarded *guarded_at(const struct guards *guards, const char *text)
{
	for (int i = 0; i < guards->n; i++)
		if (!strncmp(text, guards->list[i].copy, strlen(guards->list[i].copy)))
			return &guards->list[i];
	return NULL;
}

void guards_explain(const struct guards *guards, const char *sentence, struct text *text)
{
	const struct guarded *guarded;

	for (const char *at = sentence; *at;) {
		guarded = guarded_at(guards, at);
		text_printf(text, "%.*s", guarded ? GPUMEM_NAME_SIZE : 1,
			    guarded ? guarded->name : at);
		at += guarded ? strlen(guarded->copy) : 1;
	}
	if (strstr(sentence, " at 0x") || !guards->n)
		return;
	text_printf(text, "; guarded were");
	for (int i = 0; i < guards->n; i++)
		text_printf(text, "%s %s (%s)", i ? "," : "", guards->list[i].name,
			    guards->list[i].both ? "both ends" : "the end");
}

void guards_deinit(struct guards *guards)
{
	free(guards->list);
}
