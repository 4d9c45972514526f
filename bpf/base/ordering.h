/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Controls the order in which other CPUs see writes, because the monitor reads records while they change.
 *
 * Other CPUs see the writes of an x86-64 CPU in the order in which that CPU makes them. So it is enough that
 * the compiler keeps this order. Other CPUs see the writes of an aarch64 CPU in any order. On aarch64, an
 * atomic operation whose result is used is a full barrier (Documentation/atomic_t.txt, "ORDERING"; the BPF
 * compiler makes it an acquire-release instruction). This needs a Linux kernel whose BPF compiler for aarch64
 * supports these operations (5.18 and later): then ORDERED_ATOMICS is defined. BPF has a dedicated
 * instruction, a store-release, only from 6.15 on.
 */
#ifndef STALLTOP_ORDERING_H
#define STALLTOP_ORDERING_H

/* A barrier for the compiler alone. It is enough if the reader is the same thread, or a program on the same CPU. */
#define BARRIER() __asm__ volatile("" ::: "memory")

#ifdef ORDERED_ATOMICS
/*
 * Uses the result of an atomic operation. If the result were not used, the compiler would choose an operation
 * that does not order writes.
 */
#define USE(value) __asm__ volatile("" : : "r"(value) : "memory")
/*
 * Other CPUs see the writes before this line no later than the writes after it. `word` is an integer in a
 * map; its value stays the same.
 */
#define PUBLISH(word) USE(__sync_fetch_and_or(&(word), 0))
/*
 * Adds `n` to the counter `word`. Other CPUs see the sum, and all writes before this line, no later than the
 * writes after it.
 */
#define ADD_AND_PUBLISH(word, n) USE(__sync_fetch_and_add(&(word), (n)))
/* Sets `word`, if it is 0, to `value`. Of several programs that do this at once, the first one succeeds. */
#define SET_ONCE(word, value) USE(__sync_val_compare_and_swap(&(word), 0, (value)))
#else
#define PUBLISH(word) BARRIER()
#define ADD_AND_PUBLISH(word, n) __sync_fetch_and_add(&(word), (n))
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#define SET_ONCE(word, value) __sync_val_compare_and_swap(&(word), 0, (value))
#else /* a Linux kernel for aarch64 without atomic operations that return a result */
#define SET_ONCE(word, value) ((word) = (value))
#endif
#endif

#endif
