/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Counts the time of a thread between two of its outermost calls (host gap), and the time of a followed thread
 * between two wake-ups (host work), as operations of their own. Both are called a gap here.
 */
#ifndef STALLTOP_GAPS_H
#define STALLTOP_GAPS_H

#include "base/maps.h"
#include "calls/slots.h"
#include "calls/threads.h"
#include "waits/schedule.h"

/*
 * Ends the gap of `thread` at `now`: counts it as `operation`, if its beginning is known and not too long
 * ago.
 */
INLINE void end_gap(struct thread *thread, u32 operation, u64 now)
{
	u64 ns = now - thread->gap_ns, counter = counter_of(ns);
	struct octave *octave = NULL;
	struct slot *slot = NULL;

	if (thread->gap_ns && ns <= LONGEST_GAP_NS)
		slot = find_slot(thread, &thread->gap, operation);
	if (slot)
		octave = find_octave(thread, slot, counter);
	if (!octave)
		slot = NULL;
	thread->gap_ns = 0;
	/*
	 * The parts are added before the total, as for calls. The monitor reads them in the opposite order.
	 */
	end_level(thread, 0, slot, ns);
	if (slot && octave) {
		count_ns(slot, octave, &thread->gap, ns, counter);
		note_rate(&thread->gap, now);
	}
}

/*
 * Called when the outermost call of `thread` has returned: a host gap begins. Also called when `thread` is
 * followed and has woken another thread: its host work begins.
 */
INLINE void begin_gap(struct thread *thread, u64 now)
{
	thread->off_levels &= ~1U;
	thread->gap_ns = now;
}

#endif
