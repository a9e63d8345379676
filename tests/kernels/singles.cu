// SPDX-License-Identifier: MIT
#include "singles.h"
