/* SPDX-License-Identifier: MIT */
/* Ending a wait. */
#pragma once

#include "base/wait.h"

struct broker;

/*
 * Ends a wait because of a signal. A data transfer or a synchronize answers -EINTR, a
 * queued command answers success. Valid from the call that took the wait until its
 * done(); the caller ensures this. May call done() itself.
 */
void broker_interrupt(struct broker *broker, struct wait *wait);
