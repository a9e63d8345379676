/* SPDX-License-Identifier: MIT */
#pragma once

#define CORE_READ_1(source, a)		   ((source)->a)
#define CORE_READ_2(source, a, b)	   ((source)->a->b)
#define CORE_READ(source, a, b, name, ...) name
#define BPF_CORE_READ(source, ...)                                 \
	CORE_READ(source, __VA_ARGS__, CORE_READ_2, CORE_READ_1, ) \
	(source, __VA_ARGS__)
