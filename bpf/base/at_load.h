/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Numbers that become known only when the programs are loaded, such as the offset of a member in this Linux
 * kernel's struct. In place of such a number, the compiler emits an instruction that loads a marked constant.
 * The loader finds this instruction and replaces the constant by the number. So programs are compiled once
 * and can be loaded by any Linux kernel.
 */
#ifndef STALLTOP_AT_LOAD_H
#define STALLTOP_AT_LOAD_H

#include <linux/types.h>

#define AT_LOAD_MARK 0x5354414c4c000000ULL /* "STALL" in ASCII; the low bytes hold the number's index */

/*
 * The number with index `n` of those that the loader fills in. The assembly is volatile, so that the program
 * loads the number where it is used and does not spill it to the stack.
 */
#define AT_LOAD(n)                                                                     \
	({                                                                             \
		__u64 value_;                                                          \
		__asm__ volatile("%0 = %1 ll" : "=r"(value_) : "i"(AT_LOAD_MARK | (n))); \
		value_;                                                                \
	})

/* Reads a member of a Linux kernel struct, at `offset` from `from`, into `to`. */
#define READ(to, from, offset) bpf_probe_read_kernel(&(to), sizeof(to), (const void *)((u64)(from) + (offset)))

#endif
