/* SPDX-License-Identifier: MIT */
/* The values of attributes that are no plain field of their object: attribute_table.c. */
#pragma once

#include "api/attribute_view.h"

typedef void attribute_show(const struct attribute_view *view, struct text *text);

attribute_show show_broker_version;
attribute_show show_broker_driver_version;
attribute_show show_broker_driver_path;
attribute_show show_broker_pid;
attribute_show show_broker_preferred_device;
attribute_show show_broker_prefetched_device;
attribute_show show_broker_failures;
attribute_show show_broker_restarts;
attribute_show show_broker_mover;
attribute_show show_broker_leases;
attribute_show show_broker_waiting;
attribute_show show_allocation_kind;
attribute_show show_allocation_device;
attribute_show show_allocation_state;
attribute_show show_allocation_leases;
attribute_show show_allocation_write_leases;
attribute_show show_allocation_attach;
attribute_show show_allocation_last_write;
attribute_show show_allocation_last_use;
attribute_show show_allocation_used_by;
attribute_show show_allocation_used_by_kernel;
attribute_show show_allocation_guard;
attribute_show show_allocation_map;
attribute_show show_allocation_sealed;
attribute_show show_allocation_until;
attribute_show show_allocation_cgroup;
attribute_show show_allocation_progress;
attribute_show show_stream_state;
attribute_show show_device_capability;
attribute_show show_device_memory_held;
attribute_show show_device_state;
attribute_show show_device_vmm;
attribute_show show_device_managed;
attribute_show show_device_concurrent;
attribute_show show_owner_name;
attribute_show show_owner_state;
attribute_show show_owner_failure;
attribute_show show_owner_worker;
attribute_show show_owner_output;
attribute_show show_module_state;

/* Takes what kernels have printed so far: as attribute.prepare of an owner's `output`. */
void show_drain_output(struct broker *broker, struct token token);
