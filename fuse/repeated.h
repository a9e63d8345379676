/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether the next broker may repeat a request not answered by this one. */
bool request_may_repeat(uint32_t opcode);
