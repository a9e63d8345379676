/* SPDX-License-Identifier: MIT */
/* The threads that serve requests. */
#pragma once

struct worker;

/* Serves until the broker closes the socket and all that it asked is answered. */
void pool_run(struct worker *worker);
