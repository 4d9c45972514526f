/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Bounds that the verifier of every Linux kernel from 5.15 on recognizes, no matter how the compiler
 * optimizes the surrounding code.
 *
 * Once the compiler knows a bound from a comparison, it may drop the comparison, compare a copy of the
 * number, or count a loop down from a negated number instead. In each of these cases older verifiers no
 * longer know the bound. So these bounds are written in assembly, which the compiler does not analyse. The
 * bound is applied to the register that is used, right before its use.
 */
#ifndef STALLTOP_BOUNDS_H
#define STALLTOP_BOUNDS_H

/* Makes `index`, a __u64, smaller than `size`, a power of two. */
#define WITHIN(index, size) __asm__ volatile("%0 &= %1" : "+r"(index) : "i"((size) - 1))

/* Sets `index`, a __u64, to 0 if it is not below `size`. */
#define BELOW(index, size) __asm__ volatile("if %0 < %1 goto +1\n\t%0 = 0" : "+r"(index) : "i"(size))

/*
 * A loop: for (i = first; i < end; i++), with a constant `end`. The compiler assumes that `i` may have any
 * value in each iteration, so it has to compare `i` itself with `end`, and the verifier counts the iterations
 * by that comparison.
 */
#define EACH(i, first, end)                                                            \
	_Pragma("clang loop unroll(disable)")                                          \
	for ((i) = (first); ({ __asm__ volatile("" : "+r"(i)); (i) < (end); }); (i)++)

/*
 * The address of the 32-bit key of a map. The key lies in `number`, a __u64 on the stack. The program writes
 * the whole __u64, so the verifier treats it as a new number. If the program wrote only the 32 bits of the
 * key, the verifier would check all further code once for each value that the other 32 bits may have.
 */
#define KEY(number) ((__u32 *)&(number))

#endif
