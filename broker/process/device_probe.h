/* SPDX-License-Identifier: MIT */
/* Reads the properties of all devices from the driver, once at the start. */
#pragma once

struct broker;
struct cuda_failure;

/* Adds the devices to the registry. Returns: 0; -ENOMEM; the errno of a driver call. */
int devices_probe(struct broker *broker, struct cuda_failure *failure);
