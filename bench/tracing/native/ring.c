/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Works as most tracers do: sends an event per call through a ring buffer to a reading program. */
#include <uapi/linux/ptrace.h>

struct event {
	u64 ns;
	u64 cgroup_id;
	u32 tgid;
	u32 tid;
	u32 returned;
	u32 operation;
	char comm[16];
};

BPF_HASH(started, u32, u64, 8192);
BPF_RINGBUF_OUTPUT(events, RING_PAGES);
BPF_ARRAY(dropped, u64, 1);

int call_begins(struct pt_regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();

	started.update(&tid, &now);
	return 0;
}

int call_returns(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns(), pid_tgid = bpf_get_current_pid_tgid();
	u32 tid = pid_tgid, zero = 0;
	u64 *start = started.lookup(&tid), *lost;
	struct event *event;

	if (!start)
		return 0;
	event = events.ringbuf_reserve(sizeof(*event));
	if (event) {
		event->ns = now - *start;
		event->cgroup_id = bpf_get_current_cgroup_id();
		event->tgid = pid_tgid >> 32;
		event->tid = tid;
		event->returned = RETURNED(ctx);
		event->operation = 1;
		bpf_get_current_comm(event->comm, sizeof(event->comm));
		events.ringbuf_submit(event, 0);
	} else {
		lost = dropped.lookup(&zero);
		if (lost)
			__sync_fetch_and_add(lost, 1);
	}
	started.delete(&tid);
	return 0;
}
