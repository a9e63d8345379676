// SPDX-License-Identifier: MIT
#include "halves.h"
