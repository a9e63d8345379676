/* SPDX-License-Identifier: MIT */
/*
 * What the tracer asks a symboliser (symboliser.h), and the program of the symboliser:
 * gpumem-trace itself, called SYMBOLISER_NAME. A question and a frame of an answer are
 * packets of a socket, which the symboliser has as its standard input.
 */
#pragma once

#include "base/def.h"
#include "kernel/record.h"

#define SYMBOLISER_NAME	   "gpumem-trace: names"
#define SYMBOLISER_MODULES 512
#define FRAME_SIZE	   4096 /* of a frame's text, at most */
#define MODULE_NONE	   UINT64_MAX

/* A file that the process has mapped. The file's descriptor comes along, if the file
 * could be opened. Modules are numbered from 0, as they come. */
struct ask_module {
	uint64_t start;
	uint64_t end;
	char path[4096]; /* for people, and to find files of names beside it */
};

/* Code of a module, or of MODULE_NONE. */
struct ask_frame {
	uint64_t address; /* where the call returns to */
	uint64_t module;
};

struct ask {
	uint64_t n_frames; /* as many packets are the answer; 0: a module, no answer */
	union {
		struct ask_module module;
		struct ask_frame frames[STACK_DEPTH];
	};
};

/* Takes the user and the group to run as, and the pid of the tracer. Returns: an exit
 * status, when the tracer asks no more or the rights could not be given up. */
int symboliser_main(int argc, char **argv);
