/* SPDX-License-Identifier: MIT */
/* The keeper, for the files of this folder. */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/def.h"
#include "base/hash.h"
#include "keep/closer.h"
#include "keep/message.h"

/*
 * Descriptors kept free: a keeper that is at its limit must still start a broker, or
 * leave all to the next keeper.
 */
#define N_SPARE 16

/* A descriptor held for the next broker, and then closed. */
struct entry {
	struct keep_key key;
	int fd;	   /* -1: none, only to answer */
	int asker; /* a broker's socket, answered after the close; -1: none */
	struct entry *prev, *next; /* in a closer */
	UT_hash_handle hh;
};

/* One close waits for another of the same closer. */
enum {
	CLOSER_OF_LOCKED,    /* memory that its users may have put locks on */
	CLOSER_OF_PROCESSES, /* and cgroups: anybody may */
	CLOSER_OF_OTHERS,
	N_CLOSERS
};

/* A broker. */
struct child {
	pid_t pid;  /* 0: it has ended */
	int socket; /* -1: none */
	int status; /* as of waitpid() */
	bool beats;
	bool ready;	      /* answers */
	bool asks;	      /* to take over */
	bool paused;	      /* does nothing until child_go_on() */
	bool busy;	      /* did not pause in time */
	bool is_followed;     /* the next broker has been given all that is kept */
	unsigned int n_left;  /* operations under way, when busy */
	unsigned int n_ticks; /* since the last beat */
};

#define CHILD_NONE ((struct child){ .socket = -1 })

struct keeper {
	const struct keeper_config *config;
	struct entry *entries; /* by key */
	struct closer closers[N_CLOSERS];
	int signals;   /* signalfd */
	int blank;     /* lies in the places while no process starts */
	sigset_t mask; /* before the keeper's */
	char *path;    /* of the program, where the next version will be */
	int program;   /* of brokers */
	int before; /* the program before, until the new one has the records; -1: none */
	struct child broker;
	struct child standby; /* the next broker, without descriptors (standby.c) */
	int64_t standby_ms;   /* no standby is started before that */
	unsigned int n_standby_ends; /* since the broker answers */
	bool was_ready;		     /* any broker */
	bool goes_on;  /* where the last keeper was, even before a broker is ready */
	bool restarts; /* a signal asks for that */
	bool leaves;   /* all is left to the next keeper */
	bool ends;     /* the broker says so, or a signal */
	bool upgrades; /* a signal asks for that */
	unsigned int n_deaths; /* without an answered request */
	unsigned int n_lost;   /* descriptors of this broker, beyond the limit */
	int spare[N_SPARE];    /* -1: none */
};

/* Keeps a descriptor, in place of one with the same key. Takes ownership of fd. */
void keeper_keep(struct keeper *keeper, struct keep_key key, int fd);

/* Tells a broker that waits: this one is closed, and whether there is room for others. */
void keeper_answer(int socket, struct keep_key key);

/* Says what is wrong; keeper_note() says what is not. */
void keeper_say(const struct keeper *keeper, const char *format, ...) _printf_(2, 3);
void keeper_note(const struct keeper *keeper, const char *format, ...) _printf_(2, 3);

/*
 * Frees the spare descriptors for a start, and takes them again. A broker that begins
 * puts its records in place of the old ones, so the spare ones stay free until it is
 * ready.
 */
void keeper_spare_close(struct keeper *keeper);
void keeper_spare_open(struct keeper *keeper);

/* ---- processes (child.c) ---- */

/* Sets the environment of brokers. Returns: 0; -ENOMEM. */
int keeper_environment_set(const struct keeper *keeper);

/* Starts a broker, which waits for child_give(). Returns: 0; -errno. */
int child_start(const struct keeper *keeper, int program, struct child *ret_child);

/*
 * Sends a broker all descriptors. A broker that does not take them is killed. Returns: 0;
 * -errno.
 */
int child_give(const struct keeper *keeper, const struct child *child);

/* Hears one word. Returns: whether there was one. */
bool child_hear(struct keeper *keeper, struct child *child);

/* Tells a waiting broker to go on. */
void child_go_on(struct child *child);

/* Closes the socket. */
void child_close(struct keeper *keeper, struct child *child);

/* Notes the end of the process, if it has ended. */
void child_reap(struct child *child);

/*
 * Asks the broker to finish all operations and then to pause (upgrade.c). Returns:
 * whether the broker paused. If the broker is busy instead, broker.n_left counts its
 * unfinished operations.
 */
bool keeper_pause(struct keeper *keeper);

/* Seconds until then. */
unsigned int keeper_patience_s(const struct keeper *keeper);

/* Kills a broker, and takes its last messages. */
void child_end(struct keeper *keeper, struct child *child);

/* Milliseconds to wait before the nth of the delayed starts. */
int64_t keeper_wait_ms(unsigned int n);

/* Starts a standby where one is missing, if it is time for that. */
void standby_look(struct keeper *keeper);

/* A broker answers: a standby may follow. */
void standby_allow(struct keeper *keeper);

/* Makes the standby the broker. Returns: false: there is none. */
bool standby_use(struct keeper *keeper);

void standby_drop(struct keeper *keeper);

/* Starts the program that is now at the path, in the place of the broker (upgrade.c). */
void keeper_upgrade(struct keeper *keeper);

/* Takes the descriptors left by the last keeper (restart.c). */
void keeper_begin_with_left(struct keeper *keeper);

/* Leaves all to the next keeper, or says why not, and ends as by SIGTERM. */
void keeper_restart(struct keeper *keeper);
