/* SPDX-License-Identifier: MIT */
/*
 * The search for libraries in the running processes. A child process searches (apart.h),
 * since a running process may not answer.
 */
#pragma once

#include "library.h"
#include "options.h"

/*
 * Adds libraries mapped by running processes: by those of options' pids and user, where
 * given. A library with an unreadable file is added with an error, and so is one beyond
 * LIBRARIES_OF_USER (-EMFILE); unreadable processes are passed over. Says which processes
 * don't answer.
 */
void search_running(struct libraries *libraries, const struct options *options);
