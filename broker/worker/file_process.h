/* SPDX-License-Identifier: MIT */
/* What a process of files does, in place of a worker. */
#pragma once

struct worker;

/* Serves until the broker has closed the socket. */
void file_process_run(struct worker *worker);
