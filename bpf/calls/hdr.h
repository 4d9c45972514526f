/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Finds the counter of a duration in a histogram. The counters are those of an HdrHistogram with two
 * significant digits, from 1 ns to 2^37 - 1 ns.
 */
#ifndef STALLTOP_HDR_H
#define STALLTOP_HDR_H

#include <linux/types.h>

#define HIGHEST_NS ((1ULL << 37) - 1)

/*
 * Returns 2 to the power of `step` if `value`, below 2^63, is above `most`; otherwise 0. Calculates without a
 * branch, and prevents the compiler from adding one: with six branches in a row, the verifier would have to
 * check up to 64 paths.
 */
static inline __attribute__((always_inline)) __u64 step_above(__u64 value, __u64 most, __u64 step)
{
	__u64 sign = most - value;

	__asm__ volatile("" : "+r"(sign));
	return sign >> 63 << step;
}

/* Returns the index of the counter of duration `ns`. Durations above HIGHEST_NS have the highest counter. */
static inline __attribute__((always_inline)) __u32 counter_of(__u64 ns)
{
	__u64 above = -(step_above(ns, HIGHEST_NS, 0) | ns >> 63); /* all bits or none; also without a branch */
	__u64 rest, bucket, step;

	__asm__ volatile("" : "+r"(above));
	ns = (ns & ~above) | (HIGHEST_NS & above);
	rest = ns >> 8; /* at most 29 bits; the position of its highest bit gives the bucket */
	bucket = step_above(rest, 0xffff, 4);
	rest >>= bucket;
	step = step_above(rest, 0xff, 3);
	bucket += step;
	rest >>= step;
	step = step_above(rest, 0xf, 2);
	bucket += step;
	rest >>= step;
	step = step_above(rest, 0x3, 1);
	bucket += step;
	rest >>= step;
	bucket += step_above(rest, 0, 0) + step_above(rest, 1, 0);
	return ((bucket + 1) << 7) + (ns >> bucket) - 128;
}

#endif
