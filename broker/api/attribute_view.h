/* SPDX-License-Identifier: MIT */
/* The argument of the functions that show an attribute. */
#pragma once

#include "api/attribute.h"

/* The object to show, by type. With registry.lock held. */
struct attribute_view {
	struct broker *broker;
	union {
		const void *object;
		const struct allocation *allocation;
		const struct stream *stream;
		const struct device *device;
		const struct owner *owner;
		const struct module *module;
		const struct function *function;
	};
};
