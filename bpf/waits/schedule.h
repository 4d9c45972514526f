/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Measures where the time of calls goes while their threads are off the CPU. Compiled only if WITH_SPLITS is
 * defined, which requires offsets in the Linux kernel's struct task_struct, such as TASK_STATE.
 *
 * The off-CPU time of a thread is added up by level. Level 0 is the time between its outermost calls, level n
 * the time inside its nth frame. Every nanosecond belongs to the innermost open call. When a call returns, it
 * adds its time to that of the call that contains it. A level is cleared when time is first added to it, which
 * sets its bit in off_levels. So the beginning of a call copies and clears nothing, and the return of a call
 * whose thread never left the CPU adds nothing.
 */
#ifndef STALLTOP_SCHEDULE_H
#define STALLTOP_SCHEDULE_H

#include "base/maps.h"
#include "calls/threads.h"
#include "waits/held.h"
#include "waits/sampled.h"
#include "waits/waits.h"

#ifdef WITH_SPLITS

/* States of struct task_struct, the same in all Linux kernels from 5.15 on (linux/sched.h). */
#define TASK_INTERRUPTIBLE 0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED 0x4
#define TASK_TRACED 0x8
#define TASK_FROZEN 0x8000 /* set by the freezer of cgroup v1, from Linux 6.1 on */
#define TASK_ASLEEP 0x904f /* asleep, stopped, traced, parked, frozen, or waiting for a lock of an RT kernel */

/* Bit of task_struct.jobctl: the freezer of cgroup v2 holds the thread in a sleep (linux/sched/jobctl.h). */
#define JOBCTL_TRAP_FREEZE (1UL << 23)

INLINE int by_driver(struct thread *thread, u32 depth)
{
	struct function *function;
	u64 cookie;

	if (!depth)
		return 0;
	cookie = frame_at(thread, depth - 1)->function;
	function = functions.lookup(KEY(cookie));
	return function && function->waits_for_gpu;
}

/*
 * Returns what the current thread, which is leaving the CPU, will wait for, as an enum part. Sets
 * thread->how.
 */
INLINE u32 reason_to_leave(struct thread *thread, int preempted, const void *task)
{
	struct system_call call = {};
	u32 state = 0, part;
	u64 job = 0;

	thread->how = HOW_PLAIN;
	/* If the state has no bit of TASK_ASLEEP, the thread was woken before it left the CPU. */
	READ(state, task, TASK_STATE);
	if (preempted || !(state & TASK_ASLEEP))
		return RUNQUEUE;
	if (!(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE))) {
		if (state & TASK_STOPPED)
			thread->how = HOW_STOPPED;
		else if (state & TASK_TRACED)
			thread->how = HOW_TRACED;
		else if (state & TASK_FROZEN)
			thread->how = HOW_FROZEN;
		return OTHER;
	}
	READ(job, task, TASK_JOBCTL);
	if (job & JOBCTL_TRAP_FREEZE && state & TASK_INTERRUPTIBLE) {
		thread->how = HOW_FROZEN;
		return OTHER;
	}
	current_system_call(&call);
	if (call.number == NO_SYSTEM_CALL)
		return MEMORY;
	part = waits_for(call.number, state & TASK_UNINTERRUPTIBLE);
	thread->waits_at = 0;
	if (part == LOCK) {
		if (call.number == CALL_FUTEX)
			thread->waits_at = call.first;
		thread->private_futex = call.number == CALL_FUTEX && call.second & PRIVATE_FLAG;
		if (is_for_held_lock(&call))
			thread->how = HOW_HELD;
		else if (call.number == CALL_FUTEX)
			remember_futex(thread, call.first);
	}
	if (part == DISK && is_sync(call.number))
		thread->how = HOW_SYNC;
	if (part == POLLING || part == NETWORK)
		thread->limit_ns = time_limit_ns(call.number, call.third, call.fourth);
	if (part == POLLING)
		part = by_driver(thread, thread->depth) ? GPU : NETWORK;
	return part;
}

INLINE void leaves_cpu(struct thread *thread, int preempted, const void *task, u64 now)
{
	/*
	 * woken_ns is cleared before the thread's state is read. So no wake-up is missed: a later one sets
	 * woken_ns, an earlier one has changed the state.
	 */
	thread->woken_ns = 0;
	PUBLISH(thread->woken_ns);
	thread->off_for = reason_to_leave(thread, preempted, task);
	thread->cpu = bpf_get_smp_processor_id();
	thread->off_since_ns = now;
}

/* Returns the parts of one level. */
INLINE u64 *parts_at(struct off_cpu *off, u64 level)
{
	if (!level)
		return off->outside;
	level--;
	WITHIN(level, DEPTH);
	return off->inside[level];
}

/* Returns `level`, which is above 0, if that level is in use; otherwise 0. */
INLINE u32 used_level(const struct thread *thread, u32 level)
{
	return thread->off_levels >> level & 1 ? level : 0;
}

/* Returns the parts of one level, which it clears if the level was not in use. */
INLINE u64 *used_parts_at(struct thread *thread, struct off_cpu *off, u32 level)
{
	u64 *parts = parts_at(off, level);
	u32 i;

	if (!(thread->off_levels >> level & 1)) {
#pragma unroll
		for (i = 0; i < SPLITS; i++)
			parts[i] = 0;
		thread->off_levels |= 1U << level;
	}
	return parts;
}

INLINE void gets_cpu(struct thread *thread, u64 now)
{
	u64 since = thread->off_since_ns, woken = thread->woken_ns, begun = since, *parts;
	u64 part = thread->off_for, index = thread->index;
	struct off_cpu *off;

	if (!since)
		return; /* the record was made while the thread was on the CPU */
	thread->off_since_ns = 0;
	off = off_cpu.lookup(KEY(index));
	if (!off || now <= since)
		return;
	parts = used_parts_at(thread, off, thread->depth);
	if (part != RUNQUEUE && part < SPLITS) {
		if (!woken || woken > now)
			woken = now;
		if (woken > since) {
			BELOW(part, SPLITS);
			parts[part] += woken - since;
			off->all[part] += woken - since;
			since = woken;
		}
	}
	parts[RUNQUEUE] += now - since;
	off->all[RUNQUEUE] += now - since;
	wait_ends(off, part, begun, since - begun, now - since);
}

/*
 * Called when `thread` has left its CPU at `now`. Returns whether its stack is to be read: then the number of waits
 * that it stands for is in its struct off_cpu.
 */
INLINE int is_sampled(struct thread *thread, u64 now)
{
	u64 index = thread->index;
	struct off_cpu *off = off_cpu.lookup(KEY(index));

	if (!off)
		return 0;
	off->stands_for = chosen_wait(off, thread->off_for, now);
	return off->stands_for != 0;
}

/* Notes that `thread` waits for CPU `number` from `now` on. */
INLINE void begin_waiting(struct thread *thread, u32 number, u64 now)
{
	u64 key = number;
	struct cpu *cpu = cpus.lookup(KEY(key));

	thread->cpu = number;
	thread->waiting_ns = now;
	if (cpu)
		__sync_fetch_and_add(&cpu->waiting, 1);
}

/*
 * Notes that `thread` is on a CPU at `now`. The Linux kernel does not report every switch. If the switch by
 * which the thread got the CPU was not reported, its time is assumed: for a thread that was not blocked, the
 * time at which it left the CPU; for a blocked thread, the time of its wake-up, or `now` if the wake-up was
 * not reported either. The assumed time is never before thread->waiting_ns: if the thread was moved to
 * another CPU while it waited, its wait until the move is charged already.
 */
INLINE void is_on_cpu(struct thread *thread, u64 now)
{
	u64 since = thread->off_since_ns, until = thread->woken_ns;

	if (!since)
		return;
	if (thread->off_for == RUNQUEUE)
		until = since;
	else if (until <= since)
		until = now;
	if (until < thread->waiting_ns)
		until = thread->waiting_ns;
	gets_cpu(thread, until);
	if (thread->waiting_ns) {
		thread->waiting_ns = 0;
		end_waiting(thread);
	}
}

/*
 * Removes the innermost level, number `depth`, whose call is not counted. Its time is added to that of the
 * call that contains it.
 */
INLINE void drop_level(struct thread *thread, u32 depth)
{
	u64 index = thread->index, *own, *around;
	struct off_cpu *off;
	u32 i;

	if (!depth || !used_level(thread, depth))
		return;
	off = off_cpu.lookup(KEY(index));
	if (!off)
		return;
	own = parts_at(off, depth);
	around = used_parts_at(thread, off, depth - 1);
	thread->off_levels &= ~(1U << depth);
#pragma unroll
	for (i = RUNQUEUE; i < SPLITS; i++)
		around[i] += own[i];
}

/*
 * Removes the innermost level, number `depth`. If `slot` is given, counts the time of the level there, but at
 * most `ns`. The level may have more time than `ns`: a thread may lose the CPU after reading the clock and
 * before removing the frame of its call. The call that contains this one gets all of the time. After an
 * outermost call, the time above `ns` belongs to the gap that follows.
 */
INLINE void end_level(struct thread *thread, u32 depth, struct slot *slot, u64 ns)
{
	u64 index = thread->index, *own, *around = NULL, held, part;
	struct off_cpu *off;
	u32 i;

	if (depth > DEPTH || !(thread->off_levels >> depth & 1))
		return;
	off = off_cpu.lookup(KEY(index));
	if (!off)
		return;
	own = parts_at(off, depth);
	if (depth)
		around = used_parts_at(thread, off, depth - 1);
	thread->off_levels &= ~(1U << depth);
#pragma unroll
	for (i = RUNQUEUE; i < SPLITS; i++) {
		held = own[i];
		if (!held)
			continue;
		part = held < ns ? held : ns;
		ns -= part;
		if (slot)
			__sync_fetch_and_add(&slot->split_ns[i], part);
		if (around)
			around[i] += depth > 1 ? held : held - part;
	}
}

/*
 * Copies the parts of a level that end_level() has just removed: they stay unchanged until the level is used
 * again. `level` is what used_level() returned before the removal. If `level` is 0, all parts are 0.
 */
INLINE void copy_level(const struct thread *thread, u32 level, u64 *parts)
{
	u64 index = thread->index;
	u32 i;
	struct off_cpu *off = level ? off_cpu.lookup(KEY(index)) : NULL;
	const u64 *own = off ? parts_at(off, level) : NULL;

#pragma unroll
	for (i = 0; i < SPLITS; i++)
		parts[i] = own ? own[i] : 0;
}

#else /* calls are not split */

INLINE u32 used_level(const struct thread *thread, u32 level)
{
	return 0;
}

INLINE void copy_level(const struct thread *thread, u32 level, u64 *parts)
{
	u32 i;

#pragma unroll
	for (i = 0; i < SPLITS; i++)
		parts[i] = 0;
}

INLINE void is_on_cpu(struct thread *thread, u64 now)
{
}

INLINE void drop_level(struct thread *thread, u32 depth)
{
}

INLINE void end_level(struct thread *thread, u32 depth, struct slot *slot, u64 ns)
{
}

#endif
#endif
