/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Bounds that the verifier of every kernel from 5.15 on sees, whatever the compiler makes of the code around.
 *
 * The compiler knows a bound once it has been compared, and then feels free to drop the comparison, to compare a
 * copy of the number, or to count a loop down from a negated number instead. Older verifiers lose the bound by
 * each of these. What is written here is in assembly, which the compiler does not look into: the bound is put on
 * the register that is used, right before its use.
 */
#ifndef STALLTOP_BOUNDS_H
#define STALLTOP_BOUNDS_H

/* `index`, a __u64, is below `size`, a power of two, from here on. */
#define WITHIN(index, size) __asm__ volatile("%0 &= %1" : "+r"(index) : "i"((size) - 1))

/* `index`, a __u64, is below `size` from here on: it is 0 where it was not. */
#define BELOW(index, size) __asm__ volatile("if %0 < %1 goto +1\n\t%0 = 0" : "+r"(index) : "i"(size))

/*
 * for (i = first; i < end; i++), with a constant `end`. The compiler takes `i` for any number in each turn, so that
 * it can do nothing else than compare `i` itself with `end`: what the verifier counts the turns by.
 */
#define EACH(i, first, end)                                                            \
	_Pragma("clang loop unroll(disable)")                                          \
	for ((i) = (first); ({ __asm__ volatile("" : "+r"(i)); (i) < (end); }); (i)++)

/*
 * The key of a map that is 32 bits wide, in a __u64. A number that is written to the stack whole is a new one to the
 * verifier. With half of it written, it follows all that comes once for each old number that the other half may be of.
 */
#define KEY(number) ((__u32 *)&(number))

#endif
