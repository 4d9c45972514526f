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
/*
 * Tasks that take turns on a CPU fast would soon fill the slices. So a slice takes up what the same process runs within
 * MERGED_NS of the slice's start, if it is one of the last MERGED_SLICES. If SLICES / 2 slices began within CROWDED_NS
 * all the same, because each process runs only once, slices are those of cgroups.
 */
#define MERGED_NS 4000000
#define MERGED_SLICES 4
#define CROWDED_NS 50000000

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

/* Returns how many charges are in `account`, or 0 if there is no such account. */
INLINE s64 charges_in(const struct account *account)
{
	return account ? account->used[POOL_CHARGES] : 0;
}

/* Counts a charge that is taken in `account`, which may be NULL. */
INLINE void add_charge(struct account *account)
{
	if (account)
		__sync_fetch_and_add(&account->used[POOL_CHARGES], 1);
}

/*
 * Returns the index of the record for `key`, of which there is none yet; CHARGES if there is no record left for it.
 * The quotas are those of pools.h, for the process and the cgroup that lost the time. If either of them has half as
 * many records as it may have, the record that is returned is that of all threads, and of any process of the culprit's
 * cgroup.
 *
 * Refusals count in the account of the cgroup only. The accounts of a process and a cgroup with a thread that has a
 * record exist. They are looked up again below: pointers that are kept across this code would multiply the paths that the
 * verifier checks.
 */
INLINE u32 new_charge(struct charge_key *key)
{
	struct account_key process = {.tgid = key->tgid}, cgroup = {.cgroup_id = key->cgroup_id};
	s64 of_process = charges_in(accounts.lookup(&process)), left = left_of(POOL_CHARGES);
	s64 of_cgroup = charges_in(cgroup_accounts.lookup(&cgroup));
	struct account *account;
	struct charge *charge;
	u64 index = 0;
	u32 *found;

	if (2 * of_process >= left || 2 * of_cgroup >= CGROUP_SHARE * left) {
		if (key->culprit_tgid)
			key->culprit_tgid = ANY_PROCESS;
		key->tid = key->culprit_tid = 0;
		found = charge_of.lookup(key);
		if (found)
			return *found;
	}
	if (left <= 0)
		return CHARGES;
	if (of_process >= left || of_cgroup >= CGROUP_SHARE * left) {
		account = cgroup_accounts.lookup(&cgroup);
		if (account)
			__sync_fetch_and_add(&account->refused[POOL_CHARGES], 1);
		return CHARGES;
	}
	if (free_charges.pop(KEY(index)))
		return CHARGES;
	charge = charges.lookup(KEY(index));
	if (!charge)
		return CHARGES;
	charge->key = *key;
	if (!charge_of.insert(key, KEY(index))) {
		add_left(POOL_CHARGES, -1);
		add_charge(accounts.lookup(&process));
		add_charge(cgroup_accounts.lookup(&cgroup));
		return index;
	}
	/* Another CPU has inserted the key before, or the Linux kernel has refused to insert it. */
	free_charges.push(KEY(index), 0);
	found = charge_of.lookup(key);
	return found ? *found : CHARGES;
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

/* Charges `ns` of `thread` to `culprit`; returns the time that is charged. */
INLINE u64 charge(struct thread *thread, u32 operation, u32 part, const struct culprit *culprit, u64 ns)
{
	/* Waits for a CPU are charged by process, not by thread: there would be too many pairs of threads. */
	u32 by_thread = part != RUNQUEUE, *found;
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

	found = charge_of.lookup(&key);
	index = found ? *found : new_charge(&key);
	charge = charges.lookup(KEY(index));
	if (!charge) {
		LOSE(no_charge, 1);
		return 0;
	}
	ADD_AND_PUBLISH(charge->ns, ns);
	__sync_fetch_and_add(&charge->times, 1);
	return ns;
}

INLINE struct slice *slice_at(struct cpu *cpu, u64 number)
{
	WITHIN(number, SLICES);
	return &cpu->slices[number];
}

/*
 * Returns a slice that takes up the time from `start` to `now` of `culprit`, which has just had `cpu`; NULL if a new
 * slice has to be made.
 */
INLINE struct slice *slice_to_extend(struct cpu *cpu, const struct culprit *culprit, u64 start, u64 now)
{
	u64 next = cpu->next, i;

#pragma unroll
	for (i = 1; i <= MERGED_SLICES; i++) {
		struct slice *slice = slice_at(cpu, next - i);
		u64 length = start - slice->start_ns;

		if (slice->tgid != culprit->tgid || slice->cgroup_id != culprit->cgroup_id)
			continue;
		if (now - slice->start_ns < MERGED_NS || (slice->end_ns == start && slice->ran_ns == length))
			return slice;
	}
	return NULL;
}

/*
 * Stores the slice of time in which `leaving` had this CPU. The slice ends at `now`. `leaving` is still the
 * current task. Called only if a thread waits for the CPU.
 */
INLINE void keep_slice(struct cpu *cpu, const void *leaving, u64 now)
{
	struct culprit culprit = {};
	struct slice *slice;

	/*
	 * If the task that was last seen to get the CPU is not `leaving`, a switch was missed: then the start
	 * of the slice is unknown.
	 */
	if (cpu->task != (u64)leaving)
		return;
	current_culprit(&culprit);
	if (now - slice_at(cpu, cpu->next - SLICES / 2)->start_ns < CROWDED_NS)
		culprit.tgid = ANY_PROCESS;
	slice = slice_to_extend(cpu, &culprit, cpu->since_ns, now);
	if (slice) {
		slice->ran_ns += now - cpu->since_ns;
		slice->end_ns = now;
		return;
	}
	slice = slice_at(cpu, cpu->next);
	slice->tgid = culprit.tgid;
	slice->cgroup_id = culprit.cgroup_id;
	slice->start_ns = cpu->since_ns;
	slice->end_ns = now;
	slice->ran_ns = now - cpu->since_ns;
	PUBLISH(cpu->next);
	cpu->next++;
}

/*
 * Charges the wait of `thread` from `from` to `until` to the tasks that had `cpu` in that time; returns the time that
 * is charged. The task that has `cpu` now is not charged here.
 */
INLINE u64 charge_slices(struct thread *thread, struct cpu *cpu, u32 operation, u64 from, u64 until)
{
	u64 next = cpu->next, oldest = until, left = until - from, i;

	EACH(i, 1, SEEN_SLICES + 1) {
		struct slice *slice = slice_at(cpu, next - i);
		u64 start = slice->start_ns, end = slice->end_ns, ran = slice->ran_ns, length = end - start;
		struct culprit culprit = { .cgroup_id = slice->cgroup_id, .tgid = slice->tgid };

		/* A slice that began earlier may have been extended until MERGED_NS after its start. */
		if (i > next || end + MERGED_NS <= from)
			break;
		oldest = start;
		if (start < from)
			start = from;
		if (end > until)
			end = until;
		if (start >= end)
			continue;
		if (ran >= length)
			ran = end - start;
		else if (end - start < length)
			ran = ran * (end - start) / length; /* the product is below the square of MERGED_NS */
		if (ran > left)
			ran = left;
		left -= charge(thread, operation, RUNQUEUE, &culprit, ran);
	}
	if (i > SEEN_SLICES && oldest > from)
		LOSE(no_slice, 1);
	return until - from - left;
}

/*
 * Charges the wait of `thread` from `from` to `until` to the task that has `cpu` now, for the part of this
 * time in which the task had the CPU; returns the time that is charged. This program may run on another CPU than `cpu`, so the task is not always
 * the current one. If the monitor runs in another PID namespace than the initial one, nothing is charged,
 * because the task's ids in the monitor's namespace are not known.
 */
INLINE u64 charge_running(struct thread *thread, struct cpu *cpu, u32 operation, u64 from, u64 until)
{
#ifdef PID_NAMESPACE
	return 0;
#else
	u64 since = cpu->since_ns, task = cpu->task, at = 0;
	struct culprit culprit = {};
	u32 tid = 0;

	if (from < since)
		from = since;
	if (!task || from >= until)
		return 0;
	READ(tid, task, TASK_PID);
	READ(culprit.tgid, task, TASK_TGID);
	if (!tid || READ(at, task, TASK_CGROUPS) || READ(at, at, CGROUPS_DEFAULT) ||
	    READ(at, at, CGROUP_NODE) || READ(culprit.cgroup_id, at, NODE_ID))
		return 0;
	return charge(thread, operation, RUNQUEUE, &culprit, until - from);
#endif
}

/* Counts `ns` of waits for a CPU as charged to nobody. */
INLINE void leave_uncharged(u64 ns)
{
	if ((s64)ns > 0)
		LOSE(uncharged_ns, ns);
}

/*
 * Called when `thread` has got this CPU. Charges the time for which `thread` waited for this CPU; charges
 * nothing if no such wait is known.
 */
INLINE void charge_wait(struct thread *thread, u64 now)
{
	u64 from = thread->waiting_ns, left;
	struct cpu *cpu;
	u32 operation;

	if (!from)
		return;
	thread->waiting_ns = 0;
	cpu = end_waiting(thread);
	operation = charged_operation(thread, now);
	if (!operation || from >= now)
		return;
	left = now - from;
	if (cpu && thread->cpu == bpf_get_smp_processor_id())
		left -= charge_slices(thread, cpu, operation, from, now);
	leave_uncharged(left);
}

/* Called when `thread` is moved to another CPU while it waits for `cpu`. Charges its wait until now. */
INLINE void charge_moved(struct thread *thread, struct cpu *cpu, u64 now)
{
	u64 from = thread->waiting_ns, left = now - from;
	u32 operation = charged_operation(thread, now);

	if (!operation || from >= now)
		return;
	left -= charge_slices(thread, cpu, operation, from, now);
	left -= charge_running(thread, cpu, operation, from, now);
	leave_uncharged(left);
}

#endif
