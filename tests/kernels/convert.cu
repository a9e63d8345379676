// SPDX-License-Identifier: MIT
#include "convert.h"
