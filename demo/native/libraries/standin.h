/* SPDX-License-Identifier: Apache-2.0
 *
 * What the three stand-in libraries share: how long a function takes and whether it fails.
 *
 * STALLTOP_DEMO_TABLE names a text file, one function a line (demo/latencies.py writes it):
 *
 *     SYMBOL HOW SHAPE A B SPIKE_SHARE SPIKE_FACTOR ERROR_SHARE ERROR_CODE [PATH]
 *
 * SYMBOL  a function's name without its variant
 * HOW     what the thread does during the call:
 *         at-once: nothing, the call returns at once
 *         spin | sleep | futex | poll: spin, or wait in this way, for a duration that SHAPE gives. PATH may name a
 *         file that begins with a double: durations are multiplied by it, unless it is 0
 *         hold: sleep for as long as the file PATH exists
 *         meet: poll until B processes that share the file PATH (empty at first) have made this call as often as
 *         this process, as in a collective, then for another A ns; SHAPE is fixed
 * SHAPE   fixed (A ns) | uniform (A to B ns) | lognormal (median A ns, sigma B)
 *
 * A function that is not in the table returns at once.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum how { AT_ONCE, SPIN, SLEEP, FUTEX, POLL, HOLD, MEET };
enum shape { FIXED, UNIFORM, LOGNORMAL };

struct entry {
    const char *name;
    enum how how;
    enum shape shape;
    double a, b;          /* their meaning and unit depend on HOW and SHAPE (above) */
    double spike_share;   /* share of the calls, 0 to 1 */
    double spike_factor;
    double error_share;   /* share of the calls, 0 to 1 */
    int error_code;
    const char *path;     /* for HOLD: the file PATH */
    const volatile double *factor; /* for SPIN, SLEEP, FUTEX, POLL: the double in the file PATH; NULL without PATH */
    uint64_t *arrived;    /* for MEET: number of calls by all processes, in the file PATH */
    uint64_t turns;       /* for MEET: number of calls by this process */
};

/* The entries of all functions are in a section of their own. So this section is the list of all entries. */
#define ENTRY(base)                                                                       \
    static struct entry entry_##base                                                      \
        __attribute__((used, section("standin"), aligned(8))) = {.name = #base}

int standin_slow(struct entry *entry);

/*
 * Takes the time that the table gives this function. Returns 0, or the error that the function must return.
 */
static inline int take_time(struct entry *entry)
{
    if (__builtin_expect(entry->how == AT_ONCE && entry->error_share == 0, 1))
        return 0;
    return standin_slow(entry);
}

/* Returns an address that was never returned before, and at which nothing is mapped. */
uint64_t standin_address(size_t bytes);

#endif
