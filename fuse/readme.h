/* SPDX-License-Identifier: MIT */
/* The README of the mount, printed from the tables. */
#pragma once

#include "base/text.h"

void readme_print(struct text *text);
