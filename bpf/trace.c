/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * One pair of programs for all traced functions; the attach cookie says which function was hit.
 *
 * A thread's calls form a stack of frames. A frame is identified by the stack pointer at the function's
 * entry. Deeper calls have lower stack pointers. When a call begins or returns, frames with a lower stack
 * pointer belong to calls that were left without a return (longjmp, an exception). These frames are dropped
 * and counted as abandoned.
 *
 * Where the probes of a function would cost too much, one program at both places takes the place of the pair
 * (timed.h). It is loaded when it is needed, by Linux 6.13 and later.
 */
#include "base/layout.h"
#include "calls/arguments.h"
#include "base/maps.h"
#include "calls/threads.h"
#include "calls/slots.h"
#include "cuda/selection.h"
#include "waits/schedule.h"
#include "waits/gaps.h"
#include "waits/switches.h"
#include "cuda/objects.h"
#include "cuda/activity.h"
#include "cuda/kernels.h"
#include "timed.h"
#include "kept.h"
#include "stacks/walk.h"
#include "stacks/samples.h"
#include "filling.h"

/* Returns the number of frames of `thread` whose calls still run when a call begins at stack pointer `sp`. */
INLINE u32 alive_at_entry(struct pt_regs *ctx, struct thread *thread, u32 depth, u64 sp)
{
	u32 dropped = 0;
	u32 i;

	EACH(i, 0, DEPTH) {
		u64 above;

		if (!depth)
			break;
		above = frame_at(thread, depth - 1)->sp;
		if (above > sp)
			break;
		/*
		 * If both calls began at the same stack pointer and the return address is that of a
		 * trampoline, the function of the frame has jumped here as its last act (a tail call).
		 * Otherwise the call of the frame is over.
		 */
		if (above == sp && IS_TRAMPOLINE(return_address(ctx))) {
			thread->jumps = 1;
			break;
		}
		drop_level(thread, depth);
		depth--;
		dropped++;
	}
	if (dropped) {
		depth = forgotten(thread, depth);
		thread->depth = depth;
		LOSE(abandoned, dropped);
	}
	return depth;
}

/* Returns whether the innermost frame is that of the call that begins here: another probe has seen it begin. */
INLINE int is_begun(struct thread *thread, u32 depth, u64 sp, u32 cookie)
{
	const struct frame *frame = frame_at(thread, depth - 1);

	return frame->sp == sp && frame->function == cookie;
}

/*
 * The program at a function's entry; `session` is a constant, 1 in a session. Returns 1 if a session does not
 * want to see how the call returns.
 */
INLINE int begins(struct pt_regs *ctx, const int session)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u64 sp = SP_AT_ENTRY(ctx), bytes = 0, now;
	u64 cookie = (u32)attach_cookie(ctx);
	struct thread *thread = find_thread(pid_tgid);
	struct function *function = functions.lookup(KEY(cookie));
	struct numbers numbers = {};
	struct frame *frame;
	u32 depth, operation;

	if (!function || !function->operation) {
		if (session)
			no_sessions.call(ctx, 0);
		else
			on_its_own_stack(ctx);
		return 1;
	}
	if (!thread) {
		if (numbers_of(pid_tgid, &numbers))
			return 1;
		thread = new_thread(pid_tgid, &numbers);
		if (!thread) {
			LOSE(no_thread, 1);
			return 1;
		}
		thread->called = 1;
	}
	if (thread->off_since_ns)
		is_on_cpu(thread, bpf_ktime_get_ns());
	depth = thread->depth;
	if (depth) {
		if (function->timing == TIMING_BOTH && is_begun(thread, depth, sp, cookie))
			return 1;
		depth = alive_at_entry(ctx, thread, depth, sp);
	}
	if (depth >= DEPTH) {
		LOSE(too_deep, 1);
		return 1;
	}
	if (!depth) {
		follow_cgroup(thread);
		if (thread->link) {
			end_following(thread);
			thread->called = 1;
			thread->gap_ns = 0;
		}
	}
	operation = function->operation;
	if (session && !depth && count_untimed(ctx, function, thread))
		return 1;
	if (function->size != SIZE_NONE || function->direction != DIRECTION_NONE ||
	    (function->object && function->object != OBJECT_LAUNCHES)) {
		keep_arguments(ctx, thread->arguments);
		if (function->direction != DIRECTION_NONE)
			operation = read_operation(function, thread, sp);
		if (function->size != SIZE_NONE && read_bytes(function, thread, sp, &bytes)) {
			bytes = 0;
			LOSE(unread_bytes, 1);
		}
	}
	depth = forgotten(thread, depth); /* halves the verifier's work with clang 19 */
	frame = frame_at(thread, depth);
	frame->sp = sp;
	frame->bytes = bytes;
	frame->function = cookie;
	operation |= device_of(thread) << DEVICE_SHIFT;
	frame->operation = depth ? operation | NESTED : operation;
	frame->object = 0;
	frame->kept = 0;
	tell_arguments(ctx, frame->arguments);
	if (function->object == OBJECT_LAUNCHES)
		launch_begins(function, frame, depth);
	else if (function->object && !depth)
		object_begins(function, thread, frame, sp);
	/* One reading of the clock, which is the most expensive helper here, ends the gap and begins the call. */
	now = bpf_ktime_get_ns();
	frame->start_ns = now;
	if (session && !depth)
		keep_ahead(thread, operation, now);
	if (!depth)
		end_gap(thread, HOST_GAP | device_of(thread) << DEVICE_SHIFT, now);
	PUBLISH(frame->start_ns);
	thread->depth = depth + 1;
	return 0;
}

int call_begins(struct pt_regs *ctx)
{
	begins(ctx, 0);
	return 0;
}

/*
 * Called if the call that returns has no frame. While a function has two kinds of return probes, the other one has
 * counted the call.
 */
INLINE void lacks_entry(u64 cookie)
{
	struct function *function = functions.lookup(KEY(cookie));

	if (!function || function->timing != TIMING_BOTH)
		LOSE(no_entry, 1);
}

/*
 * Returns the index of the frame of the call that returns; -1 if the call has no frame. With or without a
 * frame, drops the frames of calls that were made inside this call. Called only if the innermost frame is that
 * of another call. `depth` is above 0.
 */
INLINE int find_frame(struct thread *thread, u32 depth, u64 sp, u32 cookie)
{
	u32 at = depth, alive = depth, i;
	int found = -1;

	EACH(i, 0, DEPTH) {
		struct frame *frame;

		if (!at)
			break;
		frame = frame_at(thread, at - 1);
		if (frame->sp > sp)
			break;
		at--;
		if (frame->sp < sp) {
			alive = at;
		} else if (frame->function == cookie) {
			alive = at + 1;
			found = at;
			break;
		}
	}
	if (alive < depth) {
		LOSE(abandoned, depth - alive);
		thread->depth = alive;
		BARRIER();
		EACH(i, 0, DEPTH) {
			depth = forgotten(thread, depth);
			if (depth <= thread->depth)
				break;
			drop_level(thread, depth);
			depth--;
		}
	} else if (found < 0 && depth < DEPTH) {
		/* if all frames were in use, the call was counted as too_deep when it began */
		lacks_entry(cookie);
	}
	return found;
}

#define DOUBTED_NS 100000000 /* a call that contains others and is open for longer may have returned unseen */

/*
 * Returns whether the call of `frame`, whose return probe has not run, has returned all the same: the Linux kernel may
 * skip a program, and the monitor may remove a probe. While the call is open, its return address is that of the
 * trampoline. On aarch64 it is not known where a function keeps its return address: there, 0 is returned.
 */
INLINE int has_returned(const struct frame *frame)
{
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
	u64 address = 0;

	return !bpf_probe_read_user(&address, sizeof(address), (const void *)frame->sp) && !IS_TRAMPOLINE(address);
#else
	return 0;
#endif
}

/*
 * Called at `now`, when a call inside that of the innermost frame, number `depth`, has returned. Drops the frame if
 * its call has long returned: calls would count as nested in it until the thread ends.
 */
INLINE void drop_returned(struct thread *thread, u32 depth, u64 now)
{
	const struct frame *frame = frame_at(thread, depth - 1);

	if ((s64)(now - frame->start_ns) < DOUBTED_NS || !has_returned(frame))
		return;
	drop_level(thread, depth);
	thread->depth = depth - 1;
	LOSE(abandoned, 1);
	if (depth == 1)
		begin_gap(thread, now);
}

/*
 * Reads the stack of a call that has returned, whose frame was number `depth` - 1. If the program that reads it is
 * loaded, this does not return.
 */
INLINE void read_stack(struct pt_regs *ctx, struct thread *thread, u32 depth)
{
	thread->walked = depth;
	stack_readers.call(ctx, 0);
	thread->walked = 0;
}

#define LONG_NS 100000 /* a call that takes longer is compared with its frame in full */

/*
 * Returns whether the call that returns at `now` is that of `frame`, the innermost one. Frames that are left of calls
 * whose returns were not seen are dropped when the next call begins, so the stack pointer tells nearly all calls apart.
 * The cookie, which takes a helper call, is compared where calls can have the same stack pointer, and for long calls,
 * for which that costs nothing: a probe may have been removed, or attached, meanwhile.
 */
INLINE int is_of(struct pt_regs *ctx, const struct thread *thread, const struct frame *frame, u64 sp, u64 now)
{
	if (frame->sp != sp)
		return 0;
	if (!thread->jumps && (s64)(now - frame->start_ns) < LONG_NS)
		return 1;
	return frame->function == (u32)attach_cookie(ctx);
}

/* The program at a function's return; `session` as for begins(). */
INLINE void returns(struct pt_regs *ctx, const int session)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = find_thread(bpf_get_current_pid_tgid());
	u64 sp = SP_AT_RETURN(ctx), cookie, ns, counter;
	u32 depth, off;
	struct cached_slot *cached;
	struct octave *octave = NULL;
	struct function *function;
	struct frame *frame;
	struct slot *slot;

	/*
	 * The thread has no record. Either none was free when the call began (counted then, as no_thread); or
	 * the thread has no ids in the monitor's PID namespace; or the call began before its entry probe was
	 * attached, which happens after its return probe was attached.
	 */
	if (!thread) {
		if (!session)
			on_its_own_stack(ctx);
		return;
	}
	depth = thread->depth;
	if (!depth) {
		lacks_entry((u32)attach_cookie(ctx));
		return;
	}
	frame = frame_at(thread, depth - 1);
	if (!is_of(ctx, thread, frame, sp, now)) {
		int found = find_frame(thread, depth, sp, (u32)attach_cookie(ctx));

		if (found < 0)
			return;
		depth = found + 1;
	}
	depth = forgotten(thread, depth);
	frame = frame_at(thread, depth - 1);
	place_call(thread, frame);
	if (frame->object)
		object_ends(thread, frame, RETURNED(ctx));
	/*
	 * The activity is written before the call is removed, so that the monitor always sees it: first as an
	 * open call, then in the record.
	 */
	cookie = frame->function;
	function = functions.lookup(KEY(cookie));
	if (function && function->uses_device)
		was_active(thread, frame->operation, frame->start_ns, now);
	is_on_cpu(thread, now);
	cached = cached_at(thread, frame->operation);
	slot = find_slot(thread, cached, frame->operation);
	ns = now - frame->start_ns;
	counter = counter_of(ns);
	if (slot)
		octave = find_octave(thread, slot, counter);
	if (!octave)
		slot = NULL;
	/* The call is over: from now on, time belongs to the call that contains this one. */
	thread->depth = depth - 1;
	BARRIER();
	if (depth == 1)
		begin_gap(thread, session ? now + ahead_of(thread, frame->operation) : now);
	/*
	 * The parts are added before the total. The monitor reads them in the opposite order
	 * (probes/maps/slots.py).
	 */
	off = used_level(thread, depth);
	end_level(thread, depth, slot, ns);
	if (slot && octave) {
		off = forgotten(thread, off); /* halves the verifier's work */
		if (depth == 1 && frame->kept && !frame->object)
			count_kernel(thread, frame->kept, cached, ns, counter, RETURNED(ctx));
		count(slot, octave, cached, frame, ns, counter, RETURNED(ctx));
		keep_call(thread, frame, slot, ns, off, RETURNED(ctx), session);
		note_rate(cached_at(thread, frame->operation), now);
		if (session && depth == 1)
			note_timed(thread, frame->operation, ns, counter, off);
	} else {
		LOSE(no_slot, 1);
	}
	depth = forgotten(thread, depth);
	if (depth > 1)
		drop_returned(thread, depth - 1, now);
	if (!session && thread->walked)
		read_stack(ctx, thread, depth);
}

int call_returns(struct pt_regs *ctx)
{
	returns(ctx, 0);
	return 0;
}

/*
 * The program of a session: at a function's entry and, unless it has returned 1 there, at the return of the
 * call. The next instruction is the probed one only at the entry.
 */
int call_in_session(struct pt_regs *ctx)
{
	if (NEXT_INSTRUCTION(ctx) == probed_instruction(ctx))
		return begins(ctx, 1);
	returns(ctx, 1);
	return 0;
}

/* Raw tracepoint sched_process_exit: runs in the thread that ends. */
int thread_ends(void *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();

	drop_thread(pid_tgid);
	if ((u32)pid_tgid == pid_tgid >> 32) {
		forget_told_program();
		end_cuda_program(OVER_FIRST_THREAD);
	}
	return 0;
}

/*
 * Raw tracepoint sched_process_exec(task, old TID, ...). The thread has a new stack. If it was not the first
 * thread of the process, it now has the first thread's TID. All other threads have ended.
 */
int program_begins(struct bpf_raw_tracepoint_args *ctx)
{
	drop_thread(ctx->args[1]);
	drop_heap();
	forget_told_program();
	end_cuda_program(OVER_ALL);
	return 0;
}

/* Raw tracepoint cgroup_attach_task: threads have been moved to another cgroup, of any hierarchy. */
int task_changes_cgroup(void *ctx)
{
	u64 only = 0;
	u32 *moves = cgroup_moves.lookup(KEY(only));

	if (moves)
		__sync_fetch_and_add(moves, 1);
	return 0;
}
