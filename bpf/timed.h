/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Counts calls without a return probe, which is a third of the cost of a probed call. A session is a probe whose
 * program decides at a call's entry whether it wants to see the return, too. It times one call in TIMED_IN, at
 * random, and counts the others at once, as if they took the time of the call that the thread timed last. So
 * numbers of calls are exact, and means and histograms are those of a sample.
 *
 * The time of a thread is still divided into calls and gaps without remainder: a call that is not timed is assumed
 * to end after the assumed time, which is when the gap after it begins. If the next call begins earlier, the thread
 * is ahead of its clock, and the gaps that follow are shorter by as much.
 *
 * Only outermost calls are left untimed. Traced calls inside them would be taken for outermost ones, so the monitor
 * uses sessions only for functions that make no such calls.
 */
#ifndef STALLTOP_TIMED_H
#define STALLTOP_TIMED_H

#include "base/maps.h"
#include "calls/slots.h"
#include "cuda/activity.h"
#include "cuda/kernels.h"
#include "waits/gaps.h"
#include "waits/schedule.h"

#define TIMED_CALLS_KEPT 4                 /* operations of a thread whose last timed call is kept; a power of two */
#define LONGEST_COPIED_NS (1 << 23) /* a longer call stands for itself alone: 8.4 ms */

/* As no_programs (base/maps.h), but all programs that use one table have to be attached in the same way. */
BPF_PROG_ARRAY(no_sessions, 1);

static u64 (*probed_instruction)(void *ctx) = (void *)173; /* bpf_get_func_ip */

/* The last timed call of an operation of a thread. */
struct timed_call {
	u64 ns;
	u64 ahead_ns;             /* how far the thread was ahead of its clock when the call began */
	u32 operation;            /* with the device */
	u32 tid;                  /* the record of the thread may have another thread by now */
	u32 counter;              /* that of `ns` */
	u32 left;                 /* number of calls that are still to be counted without being timed */
	u32 off;                  /* whether the call left the CPU: only then is split_ns set */
	u32 reserved;
	u64 split_ns[SPLITS];
};

struct timed_calls {
	struct timed_call of[TIMED_CALLS_KEPT];
};

BPF_F_TABLE("array", u32, struct timed_calls, timed_calls, THREADS, 0);

/* Returns the element for `operation` of `thread`; the device does not matter. */
INLINE struct timed_call *timed_call_at(const struct thread *thread, u64 operation)
{
	u64 index = thread->index;
	struct timed_calls *all = timed_calls.lookup(KEY(index));

	WITHIN(operation, TIMED_CALLS_KEPT);
	return all ? &all->of[operation] : NULL;
}

/* Adds the parts of the call that was timed to `slot`, up to its time. */
INLINE void copy_parts(struct slot *slot, const struct timed_call *timed)
{
	u64 ns = timed->ns, part;
	u32 i;

#pragma unroll
	for (i = RUNQUEUE; i < SPLITS; i++) {
		part = timed->split_ns[i];
		if (part > ns)
			part = ns;
		ns -= part;
		if (part)
			__sync_fetch_and_add(&slot->split_ns[i], part);
	}
}

/*
 * Counts the outermost call that begins here and returns 1, if it is not to be timed. Otherwise returns 0.
 */
INLINE int count_untimed(struct pt_regs *ctx, const struct function *function, struct thread *thread)
{
	u32 operation = function->operation | device_of(thread) << DEVICE_SHIFT;
	struct timed_call *timed = timed_call_at(thread, operation);
	struct cached_slot *cached;
	struct octave *octave;
	struct slot *slot;
	u64 now, begins_ns, launched;

	if (!timed || !timed->left || timed->operation != operation || timed->tid != thread->tid ||
	    function->timing)
		return 0;
	cached = cached_at(thread, operation);
	slot = find_slot(thread, cached, operation);
	if (!slot)
		return 0;
	octave = find_octave(thread, slot, timed->counter);
	if (!octave)
		return 0;
	timed->left--;
	now = bpf_ktime_get_ns();
	if (function->uses_device)
		was_active(thread, operation, now, now);
	begins_ns = now < thread->gap_ns ? thread->gap_ns : now;
	end_gap(thread, HOST_GAP | device_of(thread) << DEVICE_SHIFT, begins_ns);
	begin_gap(thread, begins_ns + timed->ns);
	if (timed->off)
		copy_parts(slot, timed);
	if (function->object == OBJECT_LAUNCHES) {
		keep_arguments(ctx, thread->arguments);
		launched = function->object_at ? thread->arguments[1] : thread->arguments[0];
		if (launched)
			count_kernel(thread, launched, cached, timed->ns, timed->counter, 0);
	}
	count_ns(slot, octave, cached, timed->ns, timed->counter);
	note_rate(cached, now);
	return 1;
}

/* Called when a call that is timed begins at `now`, before the gap before it ends. */
INLINE void keep_ahead(const struct thread *thread, u32 operation, u64 now)
{
	struct timed_call *timed = timed_call_at(thread, operation);

	if (timed)
		timed->ahead_ns = thread->gap_ns > now ? thread->gap_ns - now : 0;
}

/* Returns how far `thread` is ahead of its clock after a timed call. */
INLINE u64 ahead_of(const struct thread *thread, u32 operation)
{
	const struct timed_call *timed = timed_call_at(thread, operation);

	return timed ? timed->ahead_ns : 0;
}

/* Notes a timed outermost call, which took `ns`. `counter` and `off` are as for count() and keep_call(). */
INLINE void note_timed(const struct thread *thread, u32 operation, u64 ns, u64 counter, u32 off)
{
	struct timed_call *timed = timed_call_at(thread, operation);

	if (!timed)
		return;
	timed->ns = ns;
	timed->operation = operation;
	timed->tid = thread->tid;
	timed->counter = counter;
	timed->off = off;
	if (off)
		copy_level(thread, off, timed->split_ns);
	/* From 0 to 2 * TIMED_IN - 2, all equally likely: the same call of a program's cycle is not always timed. */
	timed->left = ns > LONGEST_COPIED_NS ? 0 : (u64)bpf_get_prandom_u32() * (2 * TIMED_IN - 1) >> 32;
}

#endif
