/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether the next broker does a request that this one has not answered. */
bool request_may_repeat(uint32_t opcode);
