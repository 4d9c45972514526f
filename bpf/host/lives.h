/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Counts processes that begin, execute another program, and end. Threads do not count. */
#ifndef STALLTOP_LIVES_H
#define STALLTOP_LIVES_H

#ifdef WITH_LIVES

/*
 * Returns the counts to which an exec or exit of the current process is added. These are the counts of its
 * cgroup, which identifies its tenant. For a process in the root cgroup (with cgroup v1: every process), they
 * are the counts of its parent, because a short-lived process has ended before the monitor can identify it.
 */
INLINE struct use *use_of_child(void)
{
	u64 cgroup_id = bpf_get_current_cgroup_id();
	u32 tgid = 0;

	if (cgroup_id <= 1) {
#ifdef PID_NAMESPACE
		tgid = own_tgid(); /* the parent's PID in this namespace is not known */
#else
		void *parent = NULL;

		READ(parent, bpf_get_current_task(), TASK_STRUCT_REAL_PARENT);
		READ(tgid, parent, TASK_STRUCT_TGID);
#endif
	}
	return use_of_user(cgroup_id, tgid);
}

/* Raw tracepoint sched_process_fork(parent, child). */
int process_forked(struct bpf_raw_tracepoint_args *ctx)
{
	u64 child = ctx->args[1];
	u32 pid = 0, tgid = 0;
	struct use *use;

	READ(pid, child, TASK_STRUCT_PID);
	READ(tgid, child, TASK_STRUCT_TGID);
	if (pid != tgid)
		return 0; /* a thread */
	use = use_of_user(bpf_get_current_cgroup_id(), own_tgid());
	if (use)
		__sync_fetch_and_add(&use->forks, 1);
	return 0;
}

/* Raw tracepoint sched_process_exec. */
int program_started(void *ctx)
{
	struct use *use = use_of_child();

	if (use)
		__sync_fetch_and_add(&use->execs, 1);
	return 0;
}

/*
 * Raw tracepoint sched_process_exit, which every ending thread hits. A process is counted when its first
 * thread ends.
 */
int process_ended(void *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct use *use;

	if ((u32)pid_tgid != pid_tgid >> 32)
		return 0;
	use = use_of_child();
	if (use)
		__sync_fetch_and_add(&use->exits, 1);
	return 0;
}

#endif
#endif
