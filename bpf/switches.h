/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What is attached to the scheduler. It runs at every switch of threads on the host: a task that nobody traces
 * costs two look-ups and the note of who had the CPU.
 */
#ifndef STALLTOP_SWITCHES_H
#define STALLTOP_SWITCHES_H

#ifdef WITH_SPLITS

#include "charges.h"
#include "followers.h"
#include "schedule.h"

#define UNFOLLOWED_NS LONGEST_GAP_NS /* who has woken nobody for so long is let go */

/* Raw tracepoint sched_switch(preempted, task that leaves, task that comes, ...): the first is still current. */
int thread_switches(struct bpf_raw_tracepoint_args *ctx)
{
	const void *leaving = (void *)ctx->args[1], *coming = (void *)ctx->args[2];
	u32 number = bpf_get_smp_processor_id(), tid = bpf_get_current_pid_tgid();
	struct cpu *cpu = cpus.lookup(&number);
	u64 now = bpf_ktime_get_ns();
	struct thread *thread;

	if (cpu)
		hand_over(cpu, leaving, coming, !tid, now);
	if (tid) { /* 0 is the idle task, and a record that is free */
		thread = find_thread(tid);
		if (thread && thread->link && now - thread->gap_ns > UNFOLLOWED_NS)
			drop_thread(tid);
		else if (thread)
			leaves_cpu(thread, ctx->args[0] & 1, leaving, now);
	}
	tid = 0;
	bpf_probe_read_kernel(&tid, sizeof(tid), coming + TASK_PID);
	if (tid) {
		thread = find_thread(tid);
		if (thread) {
			gets_cpu(thread, now);
			charge_wait(thread, cpu, now);
		}
	}
	return 0;
}

/* Raw tracepoint sched_waking(task, ...): from now on the task waits for a CPU. */
int thread_wakes(struct bpf_raw_tracepoint_args *ctx)
{
	struct thread *thread;
	u64 now, since;
	u32 tid = 0;

	bpf_probe_read_kernel(&tid, sizeof(tid), (void *)ctx->args[0] + TASK_PID);
	if (!tid)
		return 0;
	thread = find_thread(tid);
	if (!thread || thread->woken_ns)
		return 0;
	now = bpf_ktime_get_ns();
	thread->woken_ns = now;
	since = thread->off_since_ns;
	/* On a CPU still, or counted as waiting for one already: it was not blocked. */
	if (!since || since >= now || thread->off_for == RUNQUEUE)
		return 0;
	thread->waiting_ns = now;
	charge_waker(thread, thread->off_for, now - since, now);
	return 0;
}

/* Raw tracepoint sched_migrate_task(task, number of the CPU that it goes to). */
int thread_moves(struct bpf_raw_tracepoint_args *ctx)
{
	const void *task = (void *)ctx->args[0];
	struct thread *thread;
	u32 tid = 0, state = 0;

	bpf_probe_read_kernel(&tid, sizeof(tid), task + TASK_PID);
	if (!tid)
		return 0;
	thread = find_thread(tid);
	if (!thread || !thread->off_since_ns)
		return 0;
	/* One that is about to be woken has not waited where it was; its wait is all for the CPU that it gets. */
	bpf_probe_read_kernel(&state, sizeof(state), task + TASK_STATE);
	if (!state && thread->waiting_ns)
		charge_moved(thread, bpf_ktime_get_ns());
	thread->cpu = ctx->args[1];
	return 0;
}

#endif
#endif
