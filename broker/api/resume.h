/* SPDX-License-Identifier: MIT */
/* The start of a broker with the objects of the last one. */
#pragma once

struct broker;
struct keep;
struct text;

/*
 * Keeps records from now on, and makes anew what the last broker's have: at the start,
 * when the devices are known and nothing runs yet. Without a keeper nothing is kept.
 *
 * Returns: 0; -errno, with a sentence in why. Then the old records and all memory stay
 * where they are.
 */
int broker_resume(struct broker *broker, struct keep *keep, struct text *why);
