/* SPDX-License-Identifier: Apache-2.0
 *
 * What the three stand-in libraries share: how long a function takes and whether it fails.
 *
 * STALLTOP_DEMO_TABLE names a text file, one function a line (demo/latencies.py writes it):
 *
 *     SYMBOL HOW SHAPE A B SPIKE_SHARE SPIKE_FACTOR ERROR_SHARE ERROR_CODE [PATH]
 *
 * SYMBOL  a function's name without its variant
 * HOW     spin | sleep | futex | poll: what the thread does meanwhile, or
 *         (with PATH: a file that begins with a double, by which durations are multiplied unless it is 0), or
 *         hold: sleep for as long as the file PATH exists, or
 *         meet: poll until B processes that share PATH (an empty file before) have come as often as this one,
 *         as a device does in a collective, then for A ns; SHAPE is fixed
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
    double a, b;          /* ns; see SHAPE above */
    double spike_share;   /* of the calls, 0 to 1 */
    double spike_factor;
    double error_share;   /* of the calls, 0 to 1 */
    int error_code;
    const char *path;     /* of HOLD */
    const volatile double *factor; /* of the others, in the file PATH; or NULL */
    uint64_t *arrived;    /* of MEET: calls by all processes, in a file that they share */
    uint64_t turns;       /* of MEET: calls by this process */
};

/* Entries are collected in their own section, so that the table can be walked without a second list. */
#define ENTRY(base)                                                                       \
    static struct entry entry_##base                                                      \
        __attribute__((used, section("standin"), aligned(8))) = {.name = #base}

int standin_slow(struct entry *entry);

/* Spends the time that the table gives this function. Returns 0, or the error that the function must return. */
static inline int take_time(struct entry *entry)
{
    if (__builtin_expect(entry->how == AT_ONCE && entry->error_share == 0, 1))
        return 0;
    return standin_slow(entry);
}

/* Returns an address that was never returned before and at which nothing is mapped. */
uint64_t standin_address(size_t bytes);

#endif
