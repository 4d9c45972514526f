/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Notes who stops a process by a signal, and who freezes a cgroup of v2. The freezer of v1 has no tracepoint.
 * A stop by a debugger needs no note: the debugger also wakes the threads again, so the monitor knows it as
 * their waker.
 */
#ifndef STALLTOP_STOPS_H
#define STALLTOP_STOPS_H

#ifdef WITH_STOPS

/* The signals that stop a process have consecutive numbers on x86-64 and aarch64 (asm-generic/signal.h). */
#define FIRST_STOP 19 /* SIGSTOP */
#define LAST_STOP 22  /* SIGTTOU */

BPF_F_TABLE("hash", struct stop_key, struct stop, stops, 1024, 0);

INLINE void note_stop(const struct stop_key *key, u32 signal)
{
	struct stop stop = {.time_ns = bpf_ktime_get_ns(), .signal = signal};
	u32 flags = 0;

	/* A thread of the Linux kernel sends the signals of a terminal. */
	READ(flags, bpf_get_current_task(), TASK_STRUCT_FLAGS);
	if (!(flags & PF_KTHREAD)) {
		stop.tgid = own_tgid();
		stop.cgroup_id = bpf_get_current_cgroup_id();
		/* store the name now: the sender may end at once, as runc does */
		bpf_get_current_comm(stop.name, sizeof(stop.name));
	}
	if (stops.update(key, &stop))
		drop();
}

/*
 * Raw tracepoint signal_generate(signal, info, task, group, result): runs in the thread that sends the
 * signal.
 */
int signal_sent(struct bpf_raw_tracepoint_args *ctx)
{
#ifndef PID_NAMESPACE /* the tracepoint gives only the PID in the initial namespace */
	struct stop_key key = {};
	u32 signal = ctx->args[0];

	if (signal < FIRST_STOP || signal > LAST_STOP || (u32)ctx->args[4])
		return 0; /* another signal, or one that is ignored or already pending */
	READ(key.tgid, ctx->args[2], TASK_STRUCT_TGID);
	if (key.tgid)
		note_stop(&key, signal);
#endif
	return 0;
}

/*
 * Raw tracepoint cgroup_freeze(cgroup, path), hit once for each cgroup that is frozen. Runs in the thread
 * that freezes the cgroup.
 */
int cgroup_frozen(struct bpf_raw_tracepoint_args *ctx)
{
	struct stop_key key = {};
	void *at = NULL;

	READ(at, ctx->args[0], CGROUP_KN);
	if (at && !READ(key.cgroup_id, at, KERNFS_NODE_ID))
		note_stop(&key, 0);
	return 0;
}

#endif
#endif
