/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Captures calls: the slow calls of each slot, by the threshold that the monitor sets in the slot, and a few
 * random calls. A ring holds the captured calls until the monitor reads them. Limits per second keep many
 * slow calls from filling the ring. Histograms count every call, captured or not.
 */
#ifndef STALLTOP_KEPT_H
#define STALLTOP_KEPT_H

#include "base/maps.h"
#include "calls/threads.h"
#include "waits/schedule.h"

#define SECOND_NS 1000000000ULL
#define SAMPLE_EVERY 1024   /* by default, one of this many calls of a slot is captured at random */
#define SLOW_MEANS 4        /* by default, a slow call takes this many times the mean of its slot */

/*
 * Returns whether a second has passed since `since_ns`. `since_ns` may be a little after `now`, because it
 * was read on another CPU.
 */
INLINE int second_over(u64 now, u64 since_ns)
{
	return (s64)(now - since_ns) >= (s64)SECOND_NS;
}

INLINE int is_slow(const struct slot *slot, u64 ns)
{
	u64 slow_ns = slot->slow_ns;

	if (slow_ns)
		return ns >= slow_ns;
	/*
	 * This is ns > SLOW_MEANS * total_ns / calls without a division. The products do not overflow 64 bits
	 * before the monitor sets slow_ns, soon after the first calls of the slot.
	 */
	return (ns >> 8) * slot->calls > (slot->total_ns >> 8) * SLOW_MEANS;
}

/*
 * Returns whether one more slow call may be captured in this second, by the limits of all slots and of this
 * slot.
 */
INLINE int room_for_slow(struct keeping *keeping, struct slot *slot, u64 now)
{
	if (second_over(now, slot->kept_since_ns)) {
		slot->kept_since_ns = now;
		slot->kept = 0;
	}
	if (slot->kept >= keeping->most_of_slot || keeping->slow >= keeping->most_slow)
		return 0;
	__sync_fetch_and_add(&slot->kept, 1);
	__sync_fetch_and_add(&keeping->slow, 1);
	return 1;
}

/*
 * Returns whether one more random call may be captured in this second. Also sets when the next random call of
 * the slot is due.
 */
INLINE int room_for_sample(struct keeping *keeping, struct slot *slot)
{
	u64 every = slot->sample_every;

	if (!every)
		every = SAMPLE_EVERY;
	/*
	 * The interval is random, from 1 to 2 * every - 1 calls, all equally likely. So samples do not follow
	 * a regular pattern of the program's calls.
	 */
	slot->sample_at = slot->calls + 1 + ((u64)bpf_get_prandom_u32() * (2 * every - 1) >> 32);
	if (keeping->samples >= keeping->most_samples)
		return 0;
	__sync_fetch_and_add(&keeping->samples, 1);
	return 1;
}

/*
 * Captures the call of `frame` if it is slow or chosen at random. The call is over and took `ns`. The call's
 * off-CPU time is at level `off`; 0 means that it never left the CPU. Sessions, which are attached in another way,
 * cannot call the program that reads stacks.
 */
INLINE void keep_call(struct thread *thread, const struct frame *frame, struct slot *slot, u64 ns, u32 off,
		      u32 returned, const int session)
{
	u32 slow = is_slow(slot, ns), i;
	u64 only = 0, now = frame->start_ns + ns;
	struct keeping *keeping;
	struct kept_call *call;

	if (!slow && slot->calls < slot->sample_at)
		return;
	keeping = keeping_of.lookup(KEY(only));
	if (!keeping)
		return;
	if (second_over(now, keeping->since_ns)) {
		keeping->since_ns = now;
		keeping->slow = 0;
		keeping->samples = 0;
		keeping->stacks_read = 0;
	}
	if (slow ? !room_for_slow(keeping, slot, now) : !room_for_sample(keeping, slot)) {
		if (slow)
			__sync_fetch_and_add(&slot->passed_over, 1);
		return;
	}
	call = kept_calls.ringbuf_reserve(sizeof(*call));
	if (!call) {
		if (slow)
			__sync_fetch_and_add(&slot->passed_over, 1);
		LOSE(no_ring, 1);
		return;
	}
	call->start_ns = frame->start_ns;
	call->duration_ns = ns;
	call->bytes = frame->bytes;
	call->cgroup_id = thread->cgroup_id;
	call->born_ns = thread->born_ns;
	call->tgid = thread->tgid;
	call->tid = thread->shown_tid;
	call->operation = frame->operation;
	call->function = frame->function;
	call->returned = returned;
	call->why = slow ? WHY_SLOW : WHY_SAMPLE;
#pragma unroll
	for (i = 0; i < TOLD; i++)
		call->arguments[i] = frame->arguments[i];
	copy_level(thread, off, call->split_ns);
	kept_calls.ringbuf_submit(call, NO_WAKEUP);
	if (!session && keeping->stacks > !slow && keeping->stacks_read < keeping->most_stacks) {
		__sync_fetch_and_add(&keeping->stacks_read, 1);
		thread->walked = 1;
	}
}

#endif
