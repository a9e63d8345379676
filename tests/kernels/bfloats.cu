// SPDX-License-Identifier: MIT
#include "bfloats.h"
