/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Controls the order in which other CPUs see writes: the monitor reads records while they change.
 *
 * Other CPUs see the writes of an x86-64 CPU in the order in which it makes them, so it is enough that the
 * compiler keeps that order. They see those of an aarch64 CPU in any order. There an atomic operation whose
 * result is used is a full barrier (Documentation/atomic_t.txt, "ORDERING"; the BPF compiler makes it an
 * acquire-release instruction), if the Linux kernel's BPF compiler for aarch64 supports these operations
 * (5.18 and later): then ORDERED_ATOMICS is defined. A dedicated instruction, a store-release, is in BPF only
 * from 6.15 on.
 */
#ifndef STALLTOP_ORDERING_H
#define STALLTOP_ORDERING_H

/* A barrier for the compiler alone. It is enough if the reader is the same thread, or a program on the same CPU. */
#define BARRIER() __asm__ volatile("" ::: "memory")

#ifdef ORDERED_ATOMICS
/* Uses the result of an atomic operation: otherwise the compiler chooses an operation without ordering. */
#define USE(value) __asm__ volatile("" : : "r"(value) : "memory")
/*
 * Other CPUs see the writes before this line no later than those after it. `word` is an integer in a map, which
 * stays unchanged.
 */
#define PUBLISH(word) USE(__sync_fetch_and_or(&(word), 0))
/* Adds to a counter. Other CPUs see the sum, and all writes before it, no later than the writes after it. */
#define ADD_AND_PUBLISH(word, n) USE(__sync_fetch_and_add(&(word), (n)))
#else
#define PUBLISH(word) BARRIER()
#define ADD_AND_PUBLISH(word, n) __sync_fetch_and_add(&(word), (n))
#endif

#endif
