/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Charges off-CPU time of a thread to its culprits. If the thread waited for a CPU, the time is charged to
 * the tasks that had that CPU; struct cpu stores them. If the thread was blocked, the time is charged to the
 * task that woke it. Only used if WITH_SPLITS is defined.
 */
#ifndef STALLTOP_CHARGES_H
#define STALLTOP_CHARGES_H

#include "base/maps.h"
#include "base/numbers.h"
#include "calls/threads.h"

/*
 * Number of slices that are read. The oldest slices are left out, because their CPU may be overwriting them.
 */
#define SEEN_SLICES (SLICES - 8)

struct culprit {
	u64 cgroup_id;
	u32 tgid;               /* 0: a process that the monitor does not know */
	u32 tid;                /* 0: any thread of the process */
};

/* Sets `culprit` to the current task. */
INLINE void current_culprit(struct culprit *culprit)
{
	struct numbers numbers = {};

	if (!numbers_of(bpf_get_current_pid_tgid(), &numbers)) {
		culprit->tgid = numbers.tgid;
		culprit->tid = numbers.tid;
	}
	culprit->cgroup_id = bpf_get_current_cgroup_id();
}

INLINE u32 new_charge(struct charge_key *key)
{
	struct charge *charge;
	u64 index = 0;
	u32 *winner;

	if (left_of(POOL_CHARGES) <= 0 || free_charges.pop(KEY(index)))
		return CHARGES;
	charge = charges.lookup(KEY(index));
	if (!charge)
		return CHARGES;
	charge->key = *key;
	if (!charge_of.insert(key, KEY(index))) {
		add_left(POOL_CHARGES, -1);
		return index;
	}
	/* Another CPU has inserted the key before, or the Linux kernel has refused to insert it. */
	free_charges.push(KEY(index), 0);
	winner = charge_of.lookup(key);
	return winner ? *winner : CHARGES;
}

/* Returns the operation to which off-CPU time of `thread` belongs; 0 if it is not counted. */
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
	/* Waits for a CPU are charged by process, not by thread: there would be too many pairs of threads. */
	u32 by_thread = part != RUNQUEUE;
	struct charge_key key = {
		.cgroup_id = thread->cgroup_id,
		.culprit_cgroup_id = culprit->cgroup_id,
		.tgid = thread->tgid,
		.culprit_tgid = culprit->tgid,
		.operation = operation,
		.part = part,
		.tid = by_thread ? thread->shown_tid : 0,
		.culprit_tid = by_thread ? culprit->tid : 0,
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
 * Stores the slice of time in which `leaving` had this CPU. The slice ends at `now`. `leaving` is still the
 * current task. Called only if a thread waits for the CPU.
 */
INLINE void keep_slice(struct cpu *cpu, const void *leaving, u64 now)
{
	/*
	 * If the task that was last seen to get the CPU is not `leaving`, a switch was missed: then the start
	 * of the slice is unknown.
	 */
	if (cpu->task == (u64)leaving) {
		struct slice *slice = slice_at(cpu, cpu->next);
		struct culprit culprit = {};

		current_culprit(&culprit);
		slice->tgid = culprit.tgid;
		slice->cgroup_id = culprit.cgroup_id;
		slice->start_ns = cpu->since_ns;
		slice->end_ns = now;
		PUBLISH(cpu->next);
		cpu->next++;
	}
}

/*
 * Charges the wait of `thread` from `from` to `until` to the tasks that had `cpu` in that time. The task that
 * has `cpu` now is not charged here.
 */
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

/*
 * Charges the wait of `thread` from `from` to `until` to the task that has `cpu` now, for the part of this
 * time in which the task had the CPU. This program may run on another CPU than `cpu`, so the task is not always
 * the current one. If the monitor runs in another PID namespace than the initial one, nothing is charged,
 * because the task's ids in the monitor's namespace are not known.
 */
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

/*
 * Called when `thread` has got this CPU. Charges the time for which `thread` waited for this CPU; charges
 * nothing if no such wait is known.
 */
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

/* Called when `thread` is moved to another CPU while it waits for `cpu`. Charges its wait until now. */
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
