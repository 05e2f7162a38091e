/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The state that the simulated driver shows: one text file, read again for each call. README.md has the syntax.
 */
#ifndef LLMHOST_SIM_STATE_H
#define LLMHOST_SIM_STATE_H

#include <regex.h>
#include <stdbool.h>

#define DEFAULT_STATE "/etc/llmhost-sim/gpu.state"
#define DEFAULT_DRIVER "999.00-llmhost-sim"
#define MAX_GPUS 64
#define MAX_MIGS 128
#define MAX_RULES 64

struct gpu {
    bool set, lost;
    char uuid[96], name[96], bus[32];
    long total, reserved, base; /* MiB */
    int minor, mig, persist, display, util, memutil, recovery, ecc, cc_major, cc_minor, numa, addressing;
    int memory_error; /* 0, or what the memory calls return (mem=na, mem=noperm) */
};

struct mig {
    int gpu, index, gi, ci;
    long total, used;
    char uuid[96], profile[64];
};

/* A client that is listed (alive), or memory that is still charged after its death (listed = false). */
struct client {
    int gpu, gi;
    long pid, report, mem; /* MiB, -1 is "not available" */
    long host; /* whether another number than its own is reported */
    bool listed;
    char type; /* C, G or M */
};

struct rule { /* err and hang */
    char function[96];
    int code, gpu;
    bool hang;
    double seconds;
};

struct state {
    char driver[80], cuda[32];
    int gpus, migs, rules, procsize, maxpids;
    bool smi_goes_on; /* nvidia-smi shows the other GPUs where one is lost */
    long release_ms;
    struct gpu gpu[MAX_GPUS];
    struct mig mig[MAX_MIGS];
    struct rule rule[MAX_RULES];
    long orphan[MAX_GPUS];
    struct client *client;
    int clients, room;
};

/* Reads the state; NULL where there is none (the driver is not loaded). The result lives until the next call. */
const struct state *state_read(void);
const char *state_path(void);

#endif
