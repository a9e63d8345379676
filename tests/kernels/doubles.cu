// SPDX-License-Identifier: MIT
#include "doubles.h"
