/* SPDX-License-Identifier: MIT */
#pragma once

#define BPF_CORE_READ(source, field) ((source)->field)
