/* SPDX-License-Identifier: MIT */
/* Loads a module: from a complete image to functions ready for launches. */
#pragma once

struct broker;
struct refusal;
struct written;

/*
 * The module loads an image from here on, until load_start() has done so; of two images
 * the one that was announced later stays. Returns: 0; -ESTALE with a refusal. Under
 * registry.lock.
 */
int load_announce(struct broker *broker, struct written *written,
		  struct refusal *refusal);

/*
 * Checks the announced image, which may take long, and loads it in the worker of the
 * module's owner. Errors: see upload_flush().
 */
void load_start(struct broker *broker, struct written *written);
