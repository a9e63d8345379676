// SPDX-License-Identifier: MIT
#include "integer.h"
