/* SPDX-License-Identifier: MIT */
/* Compiled once for each of the two headers, with the name of its table. */
#include "declared.h"

#include <stddef.h>
#include HEADER

const struct declared TABLE[] = {
#define CONSTANT(name) { #name, (long long)(name), 0 },
#define SIZE(type)     { #type, 0, sizeof(type) },
#define MEMBER(type, member) \
	{ #type "." #member, offsetof(type, member), sizeof(((type *)NULL)->member) },
#define CALLBACK(...)
#define CALL(...)
#include "declared.inc"
	{ 0 },
};
