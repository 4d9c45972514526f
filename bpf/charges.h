/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Who is the cause of time that a thread spends off the CPU. Whoever had the CPU is charged with the time that
 * the thread waited for it, from what each CPU remembers of who had it; whoever woke it, with the time that it
 * was blocked. Included WITH_SPLITS only.
 */
#ifndef STALLTOP_CHARGES_H
#define STALLTOP_CHARGES_H

#include "maps.h"
#include "numbers.h"
#include "threads.h"

/* Slices that are looked at: the oldest ones may be written again meanwhile, by their own CPU. */
#define SEEN_SLICES (SLICES - 8)

struct culprit {
	u64 cgroup_id;
	u32 tgid;               /* 0: nobody that the monitor knows */
};

/* The current task. */
INLINE void current_culprit(struct culprit *culprit)
{
	struct numbers numbers = {};

	culprit->tgid = numbers_of(bpf_get_current_pid_tgid(), &numbers) ? 0 : numbers.tgid;
	culprit->cgroup_id = bpf_get_current_cgroup_id();
}

INLINE u32 new_charge(struct charge_key *key)
{
	struct charge *charge;
	u64 index = 0;
	u32 *winner;

	if (free_charges.pop(KEY(index)))
		return CHARGES;
	charge = charges.lookup(KEY(index));
	if (!charge)
		return CHARGES;
	charge->key = *key;
	if (!charge_of.insert(key, KEY(index)))
		return index;
	/* Another CPU was first, unless the kernel refused. */
	free_charges.push(KEY(index), 0);
	winner = charge_of.lookup(key);
	return winner ? *winner : CHARGES;
}

/* What the time of `thread` off the CPU belongs to; 0 where it is counted nowhere. */
INLINE u32 charged_operation(struct thread *thread, u64 now)
{
	if (thread->depth)
		return thread->frames[0].operation;
	if (!thread->gap_ns || now - thread->gap_ns > LONGEST_GAP_NS)
		return 0;
	return thread->link ? HOST_WORK : HOST_GAP;
}

INLINE void charge(struct thread *thread, u32 operation, u32 part, const struct culprit *culprit, u64 ns)
{
	struct charge_key key = {
		.cgroup_id = thread->cgroup_id,
		.culprit_cgroup_id = culprit->cgroup_id,
		.tgid = thread->tgid,
		.culprit_tgid = culprit->tgid,
		.operation = operation,
		.part = part,
	};
	struct charge *charge;
	u64 index;
	u32 *found;

	found = charge_of.lookup(&key);
	index = found ? *found : new_charge(&key);
	charge = charges.lookup(KEY(index));
	if (!charge) {
		LOSE(no_charge, 1);
		return;
	}
	ADD_AND_PUBLISH(charge->ns, ns);
	__sync_fetch_and_add(&charge->times, 1);
}

INLINE struct slice *slice_at(struct cpu *cpu, u64 number)
{
	WITHIN(number, SLICES);
	return &cpu->slices[number];
}

/*
 * This CPU, for which somebody waits, changes hands `now`: what `leaving`, which is still current, had of it is
 * remembered.
 */
INLINE void keep_slice(struct cpu *cpu, const void *leaving, u64 now)
{
	/* Where another task was seen to get the CPU, a switch was missed: nobody knows when. */
	if (cpu->task == (u64)leaving) {
		struct slice *slice = slice_at(cpu, cpu->next);
		struct culprit culprit;

		current_culprit(&culprit);
		slice->tgid = culprit.tgid;
		slice->cgroup_id = culprit.cgroup_id;
		slice->start_ns = cpu->since_ns;
		slice->end_ns = now;
		PUBLISH(cpu->next);
		cpu->next++;
	}
}

/* Charge the wait of `thread` from `from` to `until` to those who had `cpu` meanwhile, and have not now. */
INLINE void charge_slices(struct thread *thread, struct cpu *cpu, u32 operation, u64 from, u64 until)
{
	u64 next = cpu->next, oldest = until, i;

	EACH(i, 1, SEEN_SLICES + 1) {
		struct slice *slice = slice_at(cpu, next - i);
		u64 start = slice->start_ns, end = slice->end_ns;
		struct culprit culprit = { .cgroup_id = slice->cgroup_id, .tgid = slice->tgid };

		if (i > next || end <= from)
			break;
		oldest = start;
		if (start < from)
			start = from;
		if (end > until)
			end = until;
		if (start < end)
			charge(thread, operation, RUNQUEUE, &culprit, end - start);
	}
	if (i > SEEN_SLICES && oldest > from)
		LOSE(no_slice, 1);
}

/* The same for the task that has `cpu`, another one than this. Its numbers are the kernel's own. */
INLINE void charge_running(struct thread *thread, struct cpu *cpu, u32 operation, u64 from, u64 until)
{
#ifndef PID_NAMESPACE
	u64 since = cpu->since_ns, task = cpu->task, at = 0;
	struct culprit culprit = {};
	u32 tid = 0;

	if (from < since)
		from = since;
	if (!task || from >= until)
		return;
	READ(tid, task, TASK_PID);
	READ(culprit.tgid, task, TASK_TGID);
	if (!tid || READ(at, task, TASK_CGROUPS) || READ(at, at, CGROUPS_DEFAULT) ||
	    READ(at, at, CGROUP_NODE) || READ(culprit.cgroup_id, at, NODE_ID))
		return;
	charge(thread, operation, RUNQUEUE, &culprit, until - from);
#endif
}

/* `thread` has got this CPU. Where it is not known to have waited here, nobody is charged. */
INLINE void charge_wait(struct thread *thread, u64 now)
{
	u64 from = thread->waiting_ns;
	struct cpu *cpu;
	u32 operation;

	if (!from)
		return;
	thread->waiting_ns = 0;
	cpu = end_waiting(thread);
	if (!cpu || thread->cpu != bpf_get_smp_processor_id())
		return;
	operation = charged_operation(thread, now);
	if (operation)
		charge_slices(thread, cpu, operation, from, now);
}

/* `thread`, which waits for a CPU, is given to another: what it has waited so far was for the old one. */
INLINE void charge_moved(struct thread *thread, struct cpu *cpu, u64 now)
{
	u64 from = thread->waiting_ns;
	u32 operation = charged_operation(thread, now);

	if (!operation)
		return;
	charge_slices(thread, cpu, operation, from, now);
	charge_running(thread, cpu, operation, from, now);
}

#endif
