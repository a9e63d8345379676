/* SPDX-License-Identifier: MIT */
/* Programs that play a worker, for tests of the broker's side. */
#pragma once

#include <stdbool.h>

#include <gpumem/wire.h>

/*
 * Waits for the broker's next request.
 *
 * Returns: true, and the descriptor that came along, the caller's, or -1; false: the
 * broker has closed the channel.
 */
bool fake_worker_take(struct wire_request *request, int *ret_fd);
