/* SPDX-License-Identifier: MIT */
#include "api/attribute.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "api/attribute_view.h"
#include "api/broker.h"
#include "model/allocation.h"
#include "model/device.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "process/broker.h"

static void show_string(const char *string, struct text *text)
{
	text_printf(text, "%s", string ?: "none");
}

/* at: the field. */
static void show_field(const struct attribute *row, const void *at, struct text *text)
{
	const struct stream *stream;

	switch (row->type) {
	case FIELD_NONE:
		break;
	case FIELD_U32:
		text_printf(text, "%u", *(const uint32_t *)at);
		break;
	case FIELD_U64:
		text_printf(text, "%llu", *(const unsigned long long *)at);
		break;
	case FIELD_I32:
		text_printf(text, "%d", *(const int32_t *)at);
		break;
	case FIELD_ADDRESS:
		text_printf(text, "0x%llx", *(const unsigned long long *)at);
		break;
	case FIELD_TIME:
		text_time(text, *(const int64_t *)at);
		break;
	case FIELD_ERRNO:
		show_string(*(const int32_t *)at ? strerrorname_np(*(const int32_t *)at)
						 : NULL,
			    text);
		break;
	case FIELD_CHARS:
		text_printf(text, "%s", (const char *)at);
		break;
	case FIELD_STRING:
		show_string(*(const char *const *)at, text);
		break;
	case FIELD_OWNER:
		text_printf(text, "%u", (*(const struct owner *const *)at)->uid);
		break;
	case FIELD_STREAM:
		stream = *(const struct stream *const *)at;
		show_string(stream ? stream->name : NULL, text);
		break;
	}
}

static void show_row(const struct attribute *row, const struct attribute_view *view,
		     struct text *text)
{
	if (row->show)
		row->show(view, text);
	else if (row->flags & ATTRIBUTE_DEVICE)
		show_field(row,
			   (const char *)view->broker->registry + row->offset +
				   row->stride * view->device->index,
			   text);
	else
		show_field(row, (const char *)view->object + row->offset, text);
}

static void show_all(const struct attribute_view *view, enum object_type type,
		     struct text *text)
{
	const struct attribute_table *table = &attribute_tables[type];

	for (const struct attribute *row = table->rows; row < table->rows + table->n;
	     row++) {
		if (row->flags & (ATTRIBUTE_ASKED | ATTRIBUTE_TEXT))
			continue;
		if ((row->flags & ATTRIBUTE_MANAGED) && !view->allocation->managed)
			continue;
		text_printf(text, "%s ", row->name);
		show_row(row, view, text);
		text_add(text, "\n", 1);
	}
}

/* NULL: it has been freed or removed. Under registry.lock. */
static const void *find_object(struct broker *broker, enum object_type type,
			       struct token token)
{
	if (type == OBJECT_BROKER)
		return broker->registry;
	if (type == OBJECT_ALLOCATION)
		return allocation_get(broker->registry, token.slot, token.generation);
	return object_get(broker->registry, type, token);
}

int broker_show(struct broker *broker, enum object_type type, struct token token,
		const struct attribute *attribute, struct text *text)
{
	struct attribute_view view;
	int r = -ESTALE;

	if (attribute && attribute->prepare)
		attribute->prepare(broker, token);
	pthread_mutex_lock(&broker->registry->lock);
	view = (struct attribute_view){ .broker = broker };
	view.object = find_object(broker, type, token);
	if (view.object) {
		r = 0;
		if (attribute) {
			show_row(attribute, &view, text);
			if (!(attribute->flags & ATTRIBUTE_TEXT))
				text_add(text, "\n", 1);
		} else {
			show_all(&view, type, text);
		}
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return r == 0 && text_failed(text) ? -ENOMEM : r;
}
