/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The counter of a duration: HdrHistogram's own geometry for two significant digits of 1 ns to 2^37 - 1 ns. */
#ifndef STALLTOP_HDR_H
#define STALLTOP_HDR_H

#include <linux/types.h>

#define HIGHEST_NS ((1ULL << 37) - 1)

/* `ns` is at most HIGHEST_NS. Without loops: the verifier follows one short path. */
static inline __attribute__((always_inline)) __u32 counter_of(__u64 ns)
{
	__u64 rest = ns >> 8;   /* at most 29 bits; its length is the number of the bucket */
	__u32 bucket = 0;

	if (rest >> 16) {
		bucket += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		bucket += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		bucket += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		bucket += 2;
		rest >>= 2;
	}
	bucket += rest >= 2 ? 2 : rest;
	return ((bucket + 1) << 7) + (__u32)(ns >> bucket) - 128;
}

#endif
