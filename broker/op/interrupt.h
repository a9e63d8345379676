/* SPDX-License-Identifier: MIT */
/* Ending a wait. */
#pragma once

struct broker;
struct completion;

/*
 * Ends a wait because of a signal. A data transfer or a synchronize answers -EINTR, a
 * queued command answers success. Valid from the end of the call that took the completion
 * until its done(); the caller ensures this. May call done() itself.
 */
void broker_interrupt(struct broker *broker, struct completion *completion);
