/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Programs at the tracepoints of the scheduler. They run at every switch, wake-up and migration of a thread on
 * the host. At a switch between two threads that have no record, thread_switches() makes two look-ups in
 * arrays. Only if a thread with a record waits for that CPU, it also stores the slice of the task that leaves,
 * and finds out who gets the CPU.
 */
#ifndef STALLTOP_SWITCHES_H
#define STALLTOP_SWITCHES_H

#ifdef WITH_SPLITS

#include "waits/charges.h"
#include "waits/followers.h"
#include "waits/schedule.h"

#define UNFOLLOWED_NS LONGEST_GAP_NS /* a thread that wakes no other for this time is no longer followed */

/*
 * Handles a switch between threads; returns whether the stack of the thread that leaves is to be read. That thread is
 * still the current one.
 */
INLINE int switches(struct bpf_raw_tracepoint_args *ctx)
{
	const void *leaving = (void *)ctx->args[1], *coming = (void *)ctx->args[2];
	u64 number = bpf_get_smp_processor_id();
	struct cpu *cpu = cpus.lookup(KEY(number));
	struct thread *thread;
	int idle, waiting, walks = 0;
	u32 tid;
	u64 now = 0;

	if (!cpu)
		return 0;
	waiting = cpu->waiting != 0;
	if (waiting) {
		now = bpf_ktime_get_ns();
		if ((u32)bpf_get_current_pid_tgid()) /* TID 0 is the idle task */
			keep_slice(cpu, leaving, now);
	}
	cpu->since_ns = now;
	cpu->task = (u64)coming;
	if (may_have_record(leaving)) {
		tid = bpf_get_current_pid_tgid();
		thread = tid ? find_thread(tid) : NULL; /* free records have a TID of 0, like the idle task */
		if (thread) {
			if (!now)
				now = bpf_ktime_get_ns();
			idle = thread->link && now - thread->gap_ns > UNFOLLOWED_NS;
			if (idle && !thread->called) {
				drop_thread(tid);
			} else {
				if (idle)
					end_following(thread);
				is_on_cpu(thread, now);
				leaves_cpu(thread, ctx->args[0] & 1, leaving, now);
				walks = is_sampled(thread, now);
				/* thread_wakes() does nothing about a wake-up during leaves_cpu(). */
				if ((thread->off_for == RUNQUEUE || thread->woken_ns) && !thread->waiting_ns)
					begin_waiting(thread, number, now);
			}
		}
	}
	/* Every thread with a record that waits for this CPU is counted: the task that comes has none. */
	if (!waiting || !may_have_record(coming))
		return walks;
	tid = 0;
	READ(tid, coming, TASK_PID);
	if (tid) {
		thread = find_thread(tid);
		if (thread) {
			if (!now)
				now = bpf_ktime_get_ns();
			gets_cpu(thread, now);
			charge_wait(thread, now);
		}
	}
	return walks;
}

/* Raw tracepoint sched_switch(preempted, task that leaves, task that comes, ...). */
int thread_switches(struct bpf_raw_tracepoint_args *ctx)
{
	if (switches(ctx))
		sample_readers.call(ctx, WALK_LEAVING);
	return 0;
}

/* Raw tracepoint sched_waking(task, ...). From now on, the task waits for a CPU. */
int thread_wakes(struct bpf_raw_tracepoint_args *ctx)
{
	struct thread *thread;
	u64 now, since;
	u32 tid = 0, state = 0;
	const void *task = (void *)ctx->args[0];

	if (!may_have_record(task))
		return 0;
	READ(tid, task, TASK_PID);
	if (!tid)
		return 0;
	thread = find_thread(tid);
	if (!thread || thread->woken_ns)
		return 0;
	now = bpf_ktime_get_ns();
	thread->woken_ns = now;
	since = thread->off_since_ns;
	/* The thread is still on a CPU, or is already counted as waiting for one: it was not blocked. */
	if (!since || since >= now || thread->off_for == RUNQUEUE)
		return 0;
	begin_waiting(thread, thread->cpu, now);
	/* The freezer of cgroup v1 leaves a thread in its wait and changes only its state. */
	READ(state, task, TASK_STATE);
	if (state & TASK_FROZEN) {
		thread->off_for = OTHER;
		thread->how = HOW_FROZEN;
	}
	if (charge_waker(thread, thread->off_for, now - since, now))
		sample_readers.call(ctx, WALK_WAKER);
	return 0;
}

/* Raw tracepoint sched_migrate_task(task, number of the CPU that it goes to). */
int thread_moves(struct bpf_raw_tracepoint_args *ctx)
{
	const void *task = (void *)ctx->args[0];
	struct thread *thread;
	struct cpu *cpu;
	u32 tid = 0, state = 0;
	u64 now;

	if (!may_have_record(task))
		return 0;
	READ(tid, task, TASK_PID);
	if (!tid)
		return 0;
	thread = find_thread(tid);
	if (!thread || !thread->off_since_ns)
		return 0;
	if (!thread->waiting_ns) {
		thread->cpu = ctx->args[1];
		return 0;
	}
	now = bpf_ktime_get_ns();
	cpu = end_waiting(thread);
	/*
	 * If the state is not 0, the task is not woken yet. It has not waited for the old CPU; its whole wait
	 * will be for the new one.
	 */
	READ(state, task, TASK_STATE);
	if (state)
		now = thread->waiting_ns;
	else if (cpu)
		charge_moved(thread, cpu, now);
	begin_waiting(thread, ctx->args[1], now);
	return 0;
}

#endif
#endif
