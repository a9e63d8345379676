/* SPDX-License-Identifier: MIT */
/*
 * The verbs: one table defines control/NAME, the control files of objects, their usage
 * and the README of the mount.
 */
#pragma once

#include "api/broker.h"
#include "control/verb.h"

const struct verb *verb_table(size_t *ret_n);
