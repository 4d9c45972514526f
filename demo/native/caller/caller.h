/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the caller: resolving functions, making calls and counting them.
 */
#ifndef CALLER_H
#define CALLER_H

#include <stddef.h>
#include <stdint.h>

#include "host.h"

#define MAX_ITEMS 64
#define MAX_SYMBOL 64
#define COUNTERS 3968

typedef int (*function_t)();

/*
 * Counts of the calls of one function by one thread. Only that thread writes them; other threads may read
 * them at any time.
 */
struct tally {
    char symbol[MAX_SYMBOL];
    uint64_t calls, errors, bytes, total_ns, max_ns;
    uint32_t *histogram; /* COUNTERS elements; NULL if calls are not timed */
    struct tally *next;
};

/*
 * One step of a thread's cycle: `count` calls of a function, a pause, a time of computing, or an item of
 * host.h.
 */
struct item {
    enum { CALL, PAUSE, COMPUTE, ACT } what;
    char symbol[MAX_SYMBOL];
    function_t function;
    const char *shape;
    uint64_t count;
    uint64_t size[3]; /* [0]: number of bytes or elements, or the width; [1]: height; [2]: depth */
    uint64_t kind;    /* a value of cudaMemcpyKind or ncclDataType_t */
    uint64_t bytes;   /* number of bytes that a tracer should count for one call */
    uint64_t ns;      /* length of a pause or of computing */
    const struct action *action;
};

struct plan {
    int items;
    struct item item[MAX_ITEMS];
};

uint64_t now_ns(void);

/* Sets the file of a library: `which` is runtime, driver or nccl. Returns NULL, or an error. */
const char *choose_library(const char *which, const char *path);
void choose_folder(const char *folder);

/* Returns the function `symbol` from the library that should have it; NULL if it cannot be found. */
function_t resolve(const char *symbol);

/*
 * Makes this process a rank of the communicator `name`, which later collectives use. Returns NULL, or an
 * error.
 */
const char *join_communicator(const char *name, int rank, int ranks);

/* Parses `text`, a list of items such as cudaMemcpyAsync:4:1048576:1 or ~500. Returns NULL, or an error. */
const char *parse_plan(struct plan *plan, char *text);

/*
 * Executes the items of the plan once. Ends early if `stop` is STOP_NOW. `tallies` has one element for each
 * item.
 */
enum { GO_ON, STOP_NOW, STOP_AFTER_CYCLE };
void run_cycle(const struct plan *plan, struct tally **tallies, const volatile int *stop);

/*
 * Makes a tally for each item of a plan. Tallies are kept until the process ends, so that each report
 * includes them.
 */
void open_tallies(const struct plan *plan, struct tally **tallies, int timed);
void report(void);
void count_elsewhere(const struct plan *plan, uint64_t cycles);

#endif
