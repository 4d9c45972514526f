/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Counts OOM kills, and the time for which threads reclaim memory before they get memory themselves. */
#ifndef STALLTOP_RECLAIM_H
#define STALLTOP_RECLAIM_H

BPF_F_TABLE("hash", struct user, struct use, use_of, HOST_ENTRIES, 0);

/*
 * Returns the counts of process `tgid` in a cgroup. If there is no room for them, counts a dropped event and
 * returns NULL.
 */
INLINE struct use *use_of_user(u64 cgroup_id, u32 tgid)
{
	struct user key = {.cgroup_id = cgroup_id, .tgid = tgid};
	struct use none = {}, *use = use_of.lookup_or_try_init(&key, &none);

	if (!use)
		drop();
	return use;
}

#ifdef WITH_RECLAIM

BPF_F_TABLE("lru_hash", u32, u64, reclaiming, HOST_ENTRIES, 0);

/*
 * Raw tracepoints mm_vmscan_direct_reclaim_begin and mm_vmscan_memcg_reclaim_begin. They run in the thread
 * that reclaims memory.
 */
int reclaim_begins(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();

	reclaiming.update(&tid, &now);
	return 0;
}

/* Raw tracepoints mm_vmscan_direct_reclaim_end and mm_vmscan_memcg_reclaim_end. */
int reclaim_ends(void *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 *since = reclaiming.lookup(&tid), ns;
	struct use *use;

	if (!since) {
		count_lost(HOST_FORGOTTEN);
		return 0;
	}
	ns = bpf_ktime_get_ns() - *since;
	reclaiming.delete(&tid);
	use = use_of_user(bpf_get_current_cgroup_id(), own_tgid());
	if (use) {
		__sync_fetch_and_add(&use->reclaims, 1);
		__sync_fetch_and_add(&use->reclaim_ns, ns);
	}
	return 0;
}

#endif

#ifdef WITH_VICTIMS

BPF_F_TABLE("hash", struct victim_key, struct victim, victims, 256, 0);

/* Raw tracepoint mark_victim(task, ...); before Linux 6.8 mark_victim(PID). */
int victim_marked(struct bpf_raw_tracepoint_args *ctx)
{
	u64 first = ctx->args[0], task = 0;
	struct victim victim = {.time_ns = bpf_ktime_get_ns()};
	struct victim_key key = {.pid = first};
	void *at = NULL;

	if (first >> 32) { /* a PID has at most 22 bits: this is the address of a task */
		READ(key.pid, first, TASK_STRUCT_TGID);
		READ(victim.name, first, TASK_STRUCT_COMM);
		READ(at, first, TASK_STRUCT_CGROUPS);
		READ(at, at, CSS_SET_DFL_CGRP);
		READ(at, at, CGROUP_KN);
		READ(victim.cgroup_id, at, KERNFS_NODE_ID);
	}
#ifdef PID_NAMESPACE
	key.pid = 0; /* unknown: the tracepoint gives the PID in the initial namespace */
#endif
	victims.update(&key, &victim);
	return 0;
}

#endif
#endif
