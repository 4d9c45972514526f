/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Gives a thread slots of its own for the operations that it calls at a high rate. No other thread counts in
 * them, so they need no atomic operations, and no call waits until a cache line has come from the CPU of another
 * thread. The monitor adds up the slots of an operation. It limits how many slots threads may have for
 * themselves; beyond that, and for all calls at lower rates, threads of a process share one slot per operation.
 */
#ifndef STALLTOP_HOT_H
#define STALLTOP_HOT_H

#include "base/maps.h"
#include "base/ordering.h"

/* Adds `n` to the counter `word`, which no other thread writes, in the order of the program. */
#define ADD_TO_OWN(word, n) (*(volatile typeof(word) *)&(word) += (n))

/* Takes one of `left` elements that the monitor allows threads for their own; returns whether one was left. */
INLINE int take(u64 *left)
{
	if ((s64)*left <= 0)
		return 0;
	__sync_fetch_and_add(left, -1);
	return 1;
}

INLINE int may_own_slot(void)
{
	u64 only = 0;
	struct keeping *limits = keeping_of.lookup(KEY(only));

	return limits && take(&limits->own_slots);
}

INLINE int may_own_kernel(void)
{
	u64 only = 0;
	struct keeping *limits = keeping_of.lookup(KEY(only));

	return limits && take(&limits->own_kernels);
}

/*
 * Returns whether only this thread counts in the slot of `cached`, so that ADD_TO_OWN() suffices. On aarch64
 * atomic operations are needed for their order (ordering.h). Each use reads `cached` again: if the compiler kept
 * the result, the verifier would check all further code twice.
 */
INLINE int is_own(const struct cached_slot *cached)
{
#ifdef ORDERED_ATOMICS
	return 0;
#else
	return *(const volatile u32 *)&cached->slot != cached->shared;
#endif
}

/* Called when a call that ended at `now` was counted in the slot of `cached`. */
INLINE void note_rate(struct cached_slot *cached, u64 now)
{
	u16 tick = now >> TICK_SHIFT, since;

	if (++cached->calls % TIMED_CALLS || cached->slot != cached->shared)
		return;
	since = tick - cached->timed; /* modulo 2^16: if a slow thread is taken for a fast one, that does no harm */
	cached->timed = tick;
	if (since < HOT_TICKS)
		cached->operation |= MOVES;
}

#endif
