/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Numbers that are known only where the programs are loaded, such as where this kernel keeps a member of a struct.
 * The compiler leaves a load of a marked constant in their place, which the loader finds and fills in. So what is
 * compiled once can be loaded by any kernel.
 */
#ifndef STALLTOP_AT_LOAD_H
#define STALLTOP_AT_LOAD_H

#include <linux/types.h>

#define AT_LOAD_MARK 0x5354414c4c000000ULL /* "STALL", and the number's number: probes/programs/compiler.py looks for it */

/* Number `n` of those that the loader knows. Volatile: loaded where it is used, else it may lie on the stack meanwhile. */
#define AT_LOAD(n)                                                                     \
	({                                                                             \
		__u64 value_;                                                          \
		__asm__ volatile("%0 = %1 ll" : "=r"(value_) : "i"(AT_LOAD_MARK | (n))); \
		value_;                                                                \
	})

/* A member of a kernel struct that lies at `from`, read into `to`. */
#define READ(to, from, offset) bpf_probe_read_kernel(&(to), sizeof(to), (const void *)((u64)(from) + (offset)))

#endif
