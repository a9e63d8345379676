/* SPDX-License-Identifier: MIT */
/* Ending a wait. */
#pragma once

#include "base/wait.h"

struct broker;

/*
 * A signal wants the wait ended: a data transfer and synchronize answer -EINTR, a command
 * that is queued already answers success. May come at any time between the call that took
 * the wait and its done (the caller makes sure of that); may call done itself.
 */
void broker_interrupt(struct broker *broker, struct wait *wait);
