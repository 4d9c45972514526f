/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Follows the threads that wake traced threads. A followed thread has a record and a split, like a thread
 * that makes calls. Its time is counted as host work: from one thread that it wakes to the next one. Only
 * used if WITH_SPLITS is defined.
 */
#ifndef STALLTOP_FOLLOWERS_H
#define STALLTOP_FOLLOWERS_H

#include "waits/charges.h"
#include "waits/gaps.h"
#include "waits/wakers.h"

#define LONGEST_CHAIN 6             /* largest `link` of a followed thread */
#define FOLLOWED_WAIT_NS 100000     /* a thread that ends a shorter wait is not followed */
#define RESUMED_NS 20000000         /* maximum time from a stop's end until the thread runs, on a busy host */

/* Flags of struct task_struct, stable (linux/sched.h). */
#define PF_EXITING 0x4
#define PF_KTHREAD 0x200000

/*
 * Returns whether the current task itself ends a wait of `part`. Returns 0 if the wait is ended by an
 * interrupt, which only happens to run while the task has the CPU. If the result is not 0, `flags` and `call`
 * hold the flags and the system call of the task.
 */
INLINE int current_wakes(u32 part, u32 *flags, struct system_call *call)
{
	void *task = current_task();

	if (!(BY_ANY >> part & 1) || !(u32)bpf_get_current_pid_tgid() || READ(*flags, task, TASK_FLAGS) ||
	    *flags & PF_KTHREAD)
		return 0;
	/* A task that is exiting may have been in any system call, or in none. */
	current_system_call(call);
	return *flags & PF_EXITING || can_wake(call->number) >> part & 1;
}

/*
 * Returns whether the current task has just continued after a stop. It then sends SIGCHLD to its parent, in
 * any system call. If the parent handles SIGCHLD, the signal ends the parent's wait.
 */
INLINE int current_resumes(u64 now)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = tid ? find_thread(tid) : NULL; /* 0 is the idle task */

	if (!thread || !thread->woken_ns || now - thread->woken_ns >= RESUMED_NS)
		return 0;
	return thread->how == HOW_STOPPED || thread->how == HOW_TRACED || thread->how == HOW_FROZEN;
}

/* Stores when the process of the current thread started. `thread` is the record of the current thread. */
INLINE void note_birth(struct thread *thread)
{
	u64 index = thread->index;
	struct off_cpu *off = off_cpu.lookup(KEY(index));
	void *leader = NULL;

	if (off && !READ(leader, current_task(), TASK_LEADER))
		READ(off->born_ns, leader, TASK_START);
}

/*
 * Begins to follow the current thread, because it has woken `woken`. `thread` is the record of the current
 * thread; NULL if it has none.
 */
INLINE void follow_current(struct thread *thread, struct thread *woken, u64 now)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct numbers numbers = {};
	u64 only = 0, *count = follower_count.lookup(KEY(only));

	if (count && *count >= MOST_FOLLOWERS)
		LOSE(no_follower, 1);
	if (!count || *count >= MOST_FOLLOWERS || numbers_of(pid_tgid, &numbers))
		return;
	if (!thread)
		thread = new_thread(pid_tgid, &numbers);
	if (!thread) {
		LOSE(no_follower, 1);
		return;
	}
	__sync_fetch_and_add(count, 1);
	thread->link = woken->link + 1;
	thread->follows = woken->tid;
	follow_cgroup(thread);
	note_birth(thread);
	begin_gap(thread, now);
}

/*
 * Returns whether a thread that has made calls makes none any more, such as a first thread that only prepares
 * the device and then serves requests. Such a thread is followed like one that never made calls.
 */
INLINE int calls_no_more(struct thread *thread, u64 now)
{
	return !thread->link && !thread->depth && thread->gap_ns && now - thread->gap_ns > LONGEST_GAP_NS;
}

/*
 * Called when the current thread, whose record is `thread`, has woken `woken`. Counts its host work until now
 * in one of three cases: it is followed because of `woken`; or `woken` has a smaller `link` than the thread
 * because of which it was followed; or that thread has no record any more.
 */
INLINE void work_ends(struct thread *thread, struct thread *woken, u64 now)
{
	if (!thread->link)
		return; /* the thread makes calls itself: its time is counted in its calls and gaps */
	if (woken->link + 1 < thread->link)
		thread->link = woken->link + 1;
	else if (thread->follows != woken->tid && find_thread(thread->follows))
		return;
	thread->follows = woken->tid;
	follow_cgroup(thread);
	end_gap(thread, HOST_WORK, now);
	begin_gap(thread, now);
}

/*
 * Called when the current task, or an interrupt that runs on it, wakes `thread`, which was blocked for `ns`.
 * Charges that time, except for waits for memory or the GPU. Of the waits for a disk, only those in fsync and
 * similar calls are charged; no process is charged with them, the charge only records their sum. Returns whether
 * the stack of the current thread is to be read.
 */
INLINE int charge_waker(struct thread *thread, u32 part, u64 ns, u64 now)
{
	struct system_call call = {};
	struct culprit culprit = {};
	struct off_cpu *off = NULL;
	struct thread *waker;
	u32 operation, flags = 0, how = thread->how;
	u64 waited_ns = ns;
	int wakes;

	/*
	 * No thread ends a sleep. Sleeps are charged nevertheless, so that the monitor can distinguish short
	 * sleeps from long ones.
	 */
	if (part != LOCK && part != NETWORK && part != PROCESS && part != OTHER && part != SLEEP &&
	    !(part == DISK && how == HOW_SYNC))
		return 0;
	if (part == NETWORK && reached(thread->limit_ns, ns))
		how = HOW_TIMED;
	wakes = how != HOW_TIMED && (current_wakes(part, &flags, &call) || current_resumes(now));
	if (wakes)
		current_culprit(&culprit);
	/* A timer that ends a futex wait may interrupt a task of another process in any system call. */
	if (part == LOCK && thread->private_futex && culprit.tgid != thread->tgid) {
		__builtin_memset(&culprit, 0, sizeof(culprit));
		wakes = 0;
	}
	waker = wakes ? find_thread(bpf_get_current_pid_tgid()) : NULL;
	/*
	 * If two threads wait in turn at one futex, and a wake-up wakes one thread only, the futex is a lock.
	 * A barrier wakes all its waiters at once.
	 */
	if (waker && part == LOCK && how == HOW_PLAIN && (u32)call.third == 1 && took_turns(thread, waker))
		how = HOW_HELD;
	if (wakes && flags & PF_EXITING && how <= HOW_HELD)
		how = HOW_ENDED;
	operation = charged_operation(thread, now);
	if (operation)
		charge(thread, operation, part | how << HOW_SHIFT, &culprit, ns);
	off = off_cpu.lookup(&thread->index);
	if (off && part == LOCK && thread->waits_at)
		waited_ns = waited_at(off, thread->waits_at, ns, wakes);
	if (!wakes)
		return 0;
	if (waker && !calls_no_more(waker, now))
		work_ends(waker, thread, now);
	else if (ns >= FOLLOWED_WAIT_NS && thread->link < LONGEST_CHAIN && !(flags & PF_EXITING))
		follow_current(waker, thread, now);
	off = waker ? off_cpu.lookup(&waker->index) : NULL;
	return off && chosen_waker(off, part | how << HOW_SHIFT, part == LOCK ? thread->waits_at : 0, waited_ns);
}

#endif
