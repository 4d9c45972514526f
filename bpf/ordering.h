/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * In which order other CPUs see what is written: the monitor reads records while they change.
 *
 * An x86-64 CPU shows its writes in the order in which it makes them, so it is enough that the compiler keeps that
 * order. An aarch64 CPU shows them in any order. There an atomic operation whose result is used is a full barrier
 * (Documentation/atomic_t.txt, "ORDERING"; the BPF compiler makes it an acquire-release instruction), where the
 * kernel's BPF compiler for aarch64 knows these operations (5.18 and later): then ORDERED_ATOMICS is defined. An
 * instruction for that alone, a store-release, is in BPF from 6.15 on only.
 */
#ifndef STALLTOP_ORDERING_H
#define STALLTOP_ORDERING_H

/* For the compiler alone: for what the same thread, or another program on its CPU, reads. */
#define BARRIER() __asm__ volatile("" ::: "memory")

#ifdef ORDERED_ATOMICS
/* The result has to be used: without that the compiler takes an operation that orders nothing. */
#define USE(value) __asm__ volatile("" : : "r"(value) : "memory")
/* What was written before is seen no later than what is written after. `word`, an integer in a map, stays as it is. */
#define PUBLISH(word) USE(__sync_fetch_and_or(&(word), 0))
/* Add to a counter, which is seen, as all before it, no later than what is written after. */
#define ADD_AND_PUBLISH(word, n) USE(__sync_fetch_and_add(&(word), (n)))
#else
#define PUBLISH(word) BARRIER()
#define ADD_AND_PUBLISH(word, n) __sync_fetch_and_add(&(word), (n))
#endif

#endif
