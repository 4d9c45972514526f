/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Reads the stack of a captured call when it returns: the frames that made the call are still there. Only captured
 * calls pay for this. The program is called by call_returns (trace.c), so that it needs no room in that program.
 *
 * The monitor tells where the interpreter has the state of a thread; no thread-local storage is read. All else
 * is memory of the traced process, which may hold anything: every loop is bounded, and every address is read by
 * helpers that fail if there is no memory.
 */
#ifndef STALLTOP_WALK_H
#define STALLTOP_WALK_H

#include "base/maps.h"
#include "calls/threads.h"
#include "stacks/layout.h"

#define USER_STACK 256      /* BPF_F_USER_STACK */

/* By TID in the initial PID namespace. The monitor fills it. Programs at perf events require preallocation. */
BPF_F_TABLE("hash", u32, struct python_thread, python_threads, THREADS, 0);
BPF_RINGBUF_OUTPUT(stacks, RING_PAGES);
/* Has walk_stack, at index 0. */
BPF_PROG_ARRAY(stack_readers, 1);

#define READ_USER(to, from, offset) bpf_probe_read_user(&(to), sizeof(to), (const void *)((from) + (offset)))

/* Returns the address of a code object's table of lines. From CPython 3.12 on, its highest 16 bits are the lowest ones
 * of the number that CPython gives each code object (co_version); before, they are of a member that does not change. */
INLINE u64 mark_of(u64 code, u64 lines_at)
{
	u32 tail[MARK_BYTES / 4];

	/* If there is no code object, none is found outside, either. */
	if (bpf_probe_read_user(tail, sizeof(tail), (const void *)(code + lines_at + sizeof(u64) - sizeof(tail))))
		return 0;
	return (tail[11] | (u64)tail[12] << 32) ^ (u64)tail[0] << 48;
}

/* Returns the address of the innermost frame; 0 if there is none. Sets `stack->end`. */
INLINE u64 current_frame(struct stack *stack, const struct python_thread *python)
{
	u64 thread_id = 0, newest = 0, frame = 0;

	stack->end = PYTHON_END_UNREAD;
	if (READ_USER(thread_id, python->state, python->thread_id_at) ||
	    READ_USER(newest, python->interpreters_at, 0))
		return 0;
	if (thread_id != python->thread_id || stack->tgid != python->tgid) {
		stack->end = PYTHON_END_MOVED;
		return 0;
	}
	/* A thread has a state in each interpreter whose code it runs. Which one is current is thread-local. */
	if (newest != python->interpreter) {
		stack->end = PYTHON_END_SEVERAL;
		return 0;
	}
	if (READ_USER(frame, python->state, python->current_at))
		return 0;
	if (python->through_at != NO_MEMBER && READ_USER(frame, frame, python->through_at))
		return 0;
	stack->end = PYTHON_END_WHOLE;
	return frame;
}

/* Reads the frames from `frame` outwards. */
INLINE void walk_python(struct stack *stack, const struct python_thread *python, u64 frame)
{
	u32 i;

	EACH(i, 0, PYTHON_READS) {
		u64 code = 0, instruction = 0, previous = 0, place;
		u8 owner = 0;

		if (!frame)
			return;
		/* The number of frames is kept in memory, so that the verifier checks the loop once for all numbers. */
		place = *(volatile u32 *)&stack->frames;
		if (place >= PYTHON_FRAMES)
			break;
		if (READ_USER(code, frame, python->code_at) ||
		    READ_USER(instruction, frame, python->instruction_at) ||
		    READ_USER(previous, frame, python->previous_at) ||
		    (python->owner_at != NO_MEMBER && READ_USER(owner, frame, python->owner_at))) {
			stack->end = PYTHON_END_UNREAD;
			return;
		}
		if (owner < C_OWNED) {
			u64 mark = mark_of(code & ~(u64)REFERENCE_TAGS, python->lines_at);

			WITHIN(place, PYTHON_FRAMES);
			stack->python[place].code = code;
			stack->python[place].instruction = instruction;
			stack->python[place].mark = mark;
			*(volatile u32 *)&stack->frames = place + 1;
		}
		frame = previous;
	}
	if (frame)
		stack->end = PYTHON_END_DEEPER;
}

/* Reads the stack of the current thread, whose TID in the initial PID namespace is `tid`. */
INLINE void walk(void *ctx, struct stack *stack, const struct thread *thread, u32 tid)
{
	struct python_thread *python;
	u64 key = tid;
	s64 native_bytes;

	stack->tgid = thread->tgid;
	stack->tid = thread->shown_tid;
	stack->end = PYTHON_END_NONE;
	stack->frames = 0;
	native_bytes = bpf_get_stack(ctx, stack->native, sizeof(stack->native), USER_STACK);
	stack->native_bytes = native_bytes > 0 ? native_bytes : 0;
	python = python_threads.lookup(KEY(key));
	if (python)
		walk_python(stack, python, current_frame(stack, python));
}

/* Called, as a tail call, when a call has returned and its stack is wanted. */
int walk_stack(struct pt_regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = find_thread(tid);
	struct stack *stack;
	u64 level;

	if (!thread || !thread->walked) {
		on_its_own_stack(ctx);
		return 0;
	}
	level = thread->walked - 1;
	thread->walked = 0;
	stack = stacks.ringbuf_reserve(sizeof(*stack));
	if (!stack) {
		LOSE(no_stack, 1);
		return 0;
	}
	stack->start_ns = frame_at(thread, level)->start_ns;
	stack->of = STACK_OF_CALL;
	walk(ctx, stack, thread, tid);
	stacks.ringbuf_submit(stack, NO_WAKEUP);
	return 0;
}

#endif
