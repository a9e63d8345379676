/* SPDX-License-Identifier: MIT */
/* What the driver says of the devices, asked once at the start. */
#pragma once

#include "cuda/driver.h"

struct broker;

/* Fills the registry's devices. Returns: 0; -ENOMEM; the errno of a driver call. */
int devices_probe(struct broker *broker, struct cuda_failure *failure);
