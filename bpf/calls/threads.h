/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Finds the record of a thread, takes a free record at the thread's first traced call, and frees it when the
 * thread ends.
 */
#ifndef STALLTOP_THREADS_H
#define STALLTOP_THREADS_H

#include "base/maps.h"
#include "base/ordering.h"
#include "calls/arguments.h"

INLINE struct frame *frame_at(struct thread *thread, u64 index)
{
	WITHIN(index, DEPTH);
	return &thread->frames[index];
}

/*
 * Returns `value` in a way that makes the verifier forget all it knows about the value. The verifier then
 * checks the following code once, not once for each path to this point.
 */
INLINE u32 forgotten(struct thread *thread, u32 value)
{
	thread->scratch = value;
	BARRIER();
	return *(volatile u32 *)&thread->scratch;
}

INLINE struct likely *likely_thread(u32 tid)
{
	u64 place = tid & (LIKELY_THREADS - 1);

	return likely_thread_of.lookup(KEY(place));
}

/*
 * Returns the record of thread `tid`, or NULL if it has none. The look-up by the lowest bits of the TID comes
 * first: it saves a twentieth of the cost of a call. It also ends the search at once for nearly all threads
 * that have no record. A record that was found by the hash may belong to another thread by now, if the thread has
 * just ended on another CPU.
 */
INLINE struct thread *find_thread(u32 tid)
{
	u64 key = tid;
	struct likely *likely = likely_thread(tid);
	struct thread *thread;
	u32 *index;

	if (!likely || !likely->records)
		return NULL;
	thread = threads.lookup(&likely->thread);
	if (thread && thread->tid == tid)
		return thread;
	index = thread_of.lookup(KEY(key));
	if (!index)
		return NULL;
	thread = threads.lookup(index);
	if (!thread || thread->tid != tid)
		return NULL;
	likely->thread = *index;
	return thread;
}

#ifdef WITH_SPLITS
/*
 * Returns the element of task_records that counts the record of a task, given the address of its struct
 * task_struct. The factor is 2^32 divided by the golden ratio: it spreads addresses that are equally far apart.
 */
INLINE u64 place_of(const void *task)
{
	return ((u64)task >> 6 & 0xFFFFFFFF) * 0x9E3779B1 >> 20 & (TASK_PLACES - 1);
}

/*
 * Returns whether the thread of `task` may have a record. Nearly all threads have none; for them, this saves
 * reading the task.
 */
INLINE int may_have_record(const void *task)
{
	u64 place = place_of(task);
	u32 *records = task_records.lookup(KEY(place));

	return records && *records;
}

/* Adds `number` to the count of records at a place. */
INLINE void add_records(u64 place, int number)
{
	u32 *records = task_records.lookup(KEY(place));

	if (records)
		__sync_fetch_and_add(records, number);
}
#endif

#define NO_CGROUP (~0ULL) /* no cgroup has this id, so follow_cgroup() clears what a record's previous thread cached */

/* Clears the waits in the record `thread`, because the record is given to another thread. */
INLINE void forget_waits(struct thread *thread)
{
#ifdef WITH_SPLITS
	u64 index = thread->index;
	struct off_cpu *off = off_cpu.lookup(KEY(index));
	u32 i;

	thread->next_futex = 0;
#pragma unroll
	for (i = 0; i < FUTEXES; i++)
		thread->futexes[i] = 0;
	if (!off)
		return;
#pragma unroll
	for (i = 0; i < SPLITS; i++)
		off->all[i] = off->usual_ns[i] = 0;
	off->walked_ns = 0;
	off->handed_ns = 0;
	off->unended_at = 0;
	off->born_ns = 0;
	off->since_ns = bpf_ktime_get_ns();
#endif
}

/* Returns a record for the current thread, or NULL if all are in use. */
INLINE struct thread *new_thread(u32 tid, const struct numbers *numbers)
{
	struct likely *likely = likely_thread(tid);
	struct thread *thread;
	u64 index = 0, key = tid, cgroup_id = bpf_get_current_cgroup_id();

	if (!likely || !may_take(POOL_THREADS, numbers->tgid, cgroup_id))
		return NULL;
	if (free_threads.pop(KEY(index))) {
		is_free(POOL_THREADS, numbers->tgid, cgroup_id);
		return NULL;
	}
	thread = threads.lookup(KEY(index));
	if (!thread)
		return NULL;
	thread->account_cgroup_id = cgroup_id;
	thread->index = index;
	thread->off_since_ns = 0;
	thread->off_levels = 0;
	thread->gap_ns = 0;
	thread->waiting_ns = 0;
	thread->link = 0;
	thread->called = 0;
	thread->jumps = 0;
	thread->born_ns = 0;
	thread->device = 0;
	thread->device_decided = 0;
	thread->runtime_device = 0;
	thread->contexts_below = 0;
	thread->context = 0;
	forget_waits(thread);
	if (thread_of.update(KEY(key), KEY(index))) {
		free_threads.push(KEY(index), 0);
		is_free(POOL_THREADS, numbers->tgid, cgroup_id);
		return NULL;
	}
	__sync_fetch_and_add(&likely->records, 1);
#ifdef WITH_SPLITS
	thread->task_place = place_of((void *)bpf_get_current_task());
	add_records(thread->task_place, 1);
#endif
	thread->depth = 0;
	thread->cgroup_id = NO_CGROUP;
	thread->cgroup_moves = 0;
	thread->shown_tid = numbers->tid;
	thread->tgid = numbers->tgid;
	PUBLISH(thread->cgroup_id);
	thread->tid = tid;
	return thread;
}

/* Stops following `thread`, because it has ended, has been idle for long or makes calls itself. */
INLINE void end_following(struct thread *thread)
{
#ifdef WITH_SPLITS
	u64 only = 0, *count;

	if (!thread->link)
		return;
	thread->link = 0;
	count = follower_count.lookup(KEY(only));
	if (count)
		__sync_fetch_and_add(count, -1);
#endif
}

#ifdef WITH_SPLITS
/* Notes that `thread` no longer waits for its CPU, and returns that CPU. The wait began at thread->waiting_ns. */
INLINE struct cpu *end_waiting(struct thread *thread)
{
	u64 number = thread->cpu;
	struct cpu *cpu = cpus.lookup(KEY(number));

	if (cpu)
		__sync_fetch_and_add(&cpu->waiting, -1);
	return cpu;
}
#endif

/*
 * Forgets thread `tid`: it has ended, its process has begun another program, or it is no longer followed. Its
 * open calls never return. Their frames stay in the freed record until another thread takes the record, so
 * that the monitor can report these calls.
 */
INLINE void drop_thread(u32 tid)
{
	struct likely *likely = likely_thread(tid);
	struct thread *thread;
	u64 key = tid, index, cgroup_id;
	u32 *found, tgid;

	if (!likely || !likely->records)
		return;
	found = thread_of.lookup(KEY(key));
	if (!found)
		return;
	index = *found;
	thread = threads.lookup(KEY(index));
	if (!thread)
		return;
	if (thread->depth) {
		LOSE(abandoned, thread->depth);
		thread->ended_tgid = thread->tgid;
		thread->ended_ns = bpf_ktime_get_ns();
		PUBLISH(thread->ended_ns);
	}
	tgid = thread->tgid;
	cgroup_id = thread->account_cgroup_id;
	thread->tid = 0;
	PUBLISH(thread->ended_ns);
	thread->tgid = 0;
	end_following(thread);
#ifdef WITH_SPLITS
	add_records(thread->task_place, -1);
	if (thread->waiting_ns) { /* the switch by which the thread got its last CPU was not seen */
		thread->waiting_ns = 0;
		end_waiting(thread);
	}
#endif
	thread_of.delete(KEY(key));
	__sync_fetch_and_add(&likely->records, -1);
	free_threads.push(KEY(index), 0);
	is_free(POOL_THREADS, tgid, cgroup_id);
}

/*
 * Updates the cgroup of the current thread; called when an outermost call begins, and when a followed thread
 * wakes another one. If the cgroup has changed, clears the slots that the thread remembers, because a slot
 * belongs to one cgroup. The helper is called only if threads were moved since: it costs as much as the rest.
 */
INLINE void follow_cgroup(struct thread *thread)
{
	u64 only = 0, cgroup_id;
	u32 *found = cgroup_moves.lookup(KEY(only)), moves = found ? *(volatile u32 *)found : 0, i;

	if (moves && thread->cgroup_moves == moves)
		return;
	thread->cgroup_moves = moves;
	cgroup_id = bpf_get_current_cgroup_id();
	if (thread->cgroup_id == cgroup_id)
		return;
	thread->cgroup_id = cgroup_id;
	thread->gap.operation = 0;
#pragma unroll
	for (i = 0; i < CACHED; i++)
		thread->cached[i].operation = 0;
}

#endif
