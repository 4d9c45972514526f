/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Chooses the waits whose stacks are read, so that a stack stands for `sampled_ns` (struct keeping) of a thread's waits
 * on average. The stack has to be read when the thread leaves its CPU, before it is known how long it waits. So the
 * thread's last waits of the same part decide how likely that is: a long wait is always chosen, one of many short ones
 * with a probability that is as small as they are short, and then it counts for as many waits. The choice does not
 * depend on the wait itself, so on average the sums are right. Only used if WITH_SPLITS is defined.
 */
#ifndef STALLTOP_SAMPLED_H
#define STALLTOP_SAMPLED_H

#include "base/maps.h"
#include "waits/waits.h"

#define USUAL_SHIFT 3       /* the last 2 to this power waits of a part decide about the next one */
#define MOST_WAITS 1024     /* one stack counts for at most this many waits */

/* Have walk_leaving at index 0 and walk_waker at index 1 (stacks/samples.h). */
#define WALK_LEAVING 0
#define WALK_WAKER 1
BPF_PROG_ARRAY(sample_readers, 2);

/* Returns the time of a thread for which one stack is read, in ns; 0 if none is. */
INLINE u64 sampled_ns(void)
{
	u64 only = 0;
	struct keeping *keeping = keeping_of.lookup(KEY(only));

	return keeping ? keeping->sampled_ns : 0;
}

/* Returns 1 with the probability `part` / `whole`, which are below 2^32. */
INLINE int by_chance(u64 part, u64 whole)
{
	return (u64)bpf_get_prandom_u32() * whole >> 32 < part;
}

/*
 * Called when a thread leaves its CPU at `now` for a wait of `part`. Returns the number of waits that this one stands
 * for if its stack is to be read; else 0.
 */
INLINE u64 chosen_wait(struct off_cpu *off, u64 part, u64 now)
{
	u64 every = sampled_ns(), usual, waits = 1;

	if (!every)
		return 0;
	BELOW(part, SPLITS);
	usual = off->usual_ns[part];
	if (usual && usual < every) {
		waits = every / usual;
		if (waits > MOST_WAITS)
			waits = MOST_WAITS;
		if (!by_chance(1, waits))
			return 0;
	}
	off->walks++;
	off->walked_ns = now;
	return waits;
}

/* Called when a wait of `part` is over that began at `since`. */
INLINE void wait_ends(struct off_cpu *off, u64 part, u64 since, u64 blocked_ns, u64 queued_ns)
{
	u64 ns = blocked_ns + queued_ns, usual, place;
	struct walked_wait *walked;

	BELOW(part, SPLITS);
	usual = off->usual_ns[part];
	off->usual_ns[part] = 1 + (usual ? usual - (usual >> USUAL_SHIFT) + (ns >> USUAL_SHIFT) : ns);
	if (off->walked_ns != since)
		return;
	off->walked_ns = 0;
	place = off->walks;
	WITHIN(place, WALKED);
	walked = &off->walked[place];
	walked->blocked_ns = blocked_ns;
	walked->queued_ns = queued_ns;
	PUBLISH(walked->queued_ns);
	walked->since_ns = since;
}

/*
 * Called when a wait of `ns` at `futex` is over, of the thread that has the element `off`. Returns the time for which
 * the thread has waited there until another thread ended its wait, as `wakes` says: threads that wait for Python's
 * interpreter lock do so for 5 ms at a time.
 */
INLINE u64 waited_at(struct off_cpu *off, u64 futex, u64 ns, int wakes)
{
	if (off->unended_at == futex)
		ns += off->unended_ns;
	off->unended_at = wakes ? 0 : futex;
	off->unended_ns = ns;
	return ns;
}

/*
 * Called when the current thread, which has the element `off`, ends a wait of `ns`. Notes that its stack is to be
 * read, if it is; returns whether it is. The wait's length is known, so longer waits are more likely.
 */
INLINE int chosen_waker(struct off_cpu *off, u32 part, u64 futex, u64 ns)
{
	u64 every = sampled_ns();

	if (!every || (ns < every && !by_chance(ns, every)))
		return 0;
	off->handed_ns = ns < every ? every : ns;
	off->handed_for = part;
	off->handed_at = futex;
	return 1;
}

#endif
