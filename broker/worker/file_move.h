/* SPDX-License-Identifier: MIT */
/* Files that the process of files has open, loaded into memory and saved from it. */
#pragma once

struct cuda_failure;
struct job;
struct worker;

int file_load(struct worker *worker, struct job *job, struct cuda_failure *failure);
int file_save(struct worker *worker, struct job *job, struct cuda_failure *failure);
