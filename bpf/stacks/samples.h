/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Reads stacks of threads that have a record, also between their calls: at ticks of a CPU's clock, when the thread
 * leaves its CPU, and when it ends the wait of another thread. Each stack stands for a time; the sums of these
 * times are, on average, the times that the threads ran and waited.
 */
#ifndef STALLTOP_SAMPLES_H
#define STALLTOP_SAMPLES_H

#include "cuda/selection.h"
#include "stacks/walk.h"
#include "waits/sampled.h"

BPF_RINGBUF_OUTPUT(samples, RING_PAGES);

/* Returns a stack of `thread`, which has this TID in the initial PID namespace; NULL if there is no room. */
INLINE struct stack *sample(void *ctx, struct thread *thread, u32 tid, u32 of)
{
	struct stack *stack = samples.ringbuf_reserve(sizeof(*stack));
	u32 outside = thread->link ? HOST_WORK : HOST_GAP | device_of(thread) << DEVICE_SHIFT;

	if (!stack) {
		LOSE(no_stack, 1);
		return NULL;
	}
	stack->start_ns = bpf_ktime_get_ns();
	stack->of = of;
	stack->cgroup_id = thread->cgroup_id;
	stack->futex = 0;
	stack->operation = thread->depth ? thread->frames[0].operation : outside;
	stack->part = RUNNING;
	stack->thread = thread->index;
	stack->walk = 0;
	walk(ctx, stack, thread, tid);
	return stack;
}

/* Called at a perf event of each CPU that is not idle, every SAMPLE_NS. */
int clock_ticks(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = tid ? find_thread(tid) : NULL;
	u64 every = sampled_ns();
	struct stack *stack;

	if (!thread || !every || !by_chance(SAMPLE_NS, every))
		return 0;
	stack = sample(ctx, thread, tid, STACK_OF_RUNNING);
	if (!stack)
		return 0;
	stack->ns = every;
	samples.ringbuf_submit(stack, NO_WAKEUP);
	return 0;
}

#ifdef WITH_SPLITS

/* Called, as a tail call, when the current thread leaves its CPU and its stack is wanted. */
int walk_leaving(struct bpf_raw_tracepoint_args *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = find_thread(tid);
	struct off_cpu *off = thread ? off_cpu.lookup(&thread->index) : NULL;
	struct stack *stack = off ? sample(ctx, thread, tid, STACK_OF_LEAVING) : NULL;

	if (!stack)
		return 0;
	stack->start_ns = off->walked_ns;
	stack->ns = off->stands_for;
	stack->futex = thread->off_for == LOCK ? thread->waits_at : 0;
	stack->part = thread->off_for | thread->how << HOW_SHIFT;
	stack->walk = off->walks;
	samples.ringbuf_submit(stack, NO_WAKEUP);
	return 0;
}

/* Called, as a tail call, when the current thread has ended the wait of another one and its stack is wanted. */
int walk_waker(struct bpf_raw_tracepoint_args *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = find_thread(tid);
	struct off_cpu *off = thread ? off_cpu.lookup(&thread->index) : NULL;
	struct stack *stack = off && off->handed_ns ? sample(ctx, thread, tid, STACK_OF_WAKING) : NULL;

	if (!stack)
		return 0;
	stack->ns = off->handed_ns;
	stack->futex = off->handed_at;
	stack->part = off->handed_for;
	off->handed_ns = 0;
	samples.ringbuf_submit(stack, NO_WAKEUP);
	return 0;
}

#endif
#endif
