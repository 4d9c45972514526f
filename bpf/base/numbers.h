/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Finds the ids by which the monitor knows the current thread and its process. */
#ifndef STALLTOP_NUMBERS_H
#define STALLTOP_NUMBERS_H

#include <linux/types.h>
#include "base/at_load.h"

#define INLINE static inline __attribute__((always_inline))

#ifndef BPF_F_MMAPABLE
#define BPF_F_MMAPABLE (1U << 10)
#endif

/* The TID and PID of a thread in a PID namespace; has the layout of struct bpf_pidns_info. */
struct numbers {
	u32 tid;
	u32 tgid;
};

#ifdef PID_NAMESPACE
static long (*numbers_in_namespace)(u64 device, u64 inode, struct numbers *numbers, u32 size) =
	(void *)120; /* bpf_get_ns_current_pid_tgid */
#endif

/*
 * Finds the ids by which the monitor knows the current thread; returns 0 if it has found them. If the monitor
 * runs in the initial PID namespace, these are the ids in that namespace. Otherwise they are the ids in the
 * monitor's namespace, whose inode is PID_NAMESPACE. A thread whose process is outside of that namespace has
 * no ids there.
 */
INLINE int numbers_of(u64 pid_tgid, struct numbers *numbers)
{
#ifdef PID_NAMESPACE
	return numbers_in_namespace(PID_NAMESPACE_DEVICE, PID_NAMESPACE, numbers, sizeof(*numbers));
#else
	numbers->tid = pid_tgid;
	numbers->tgid = pid_tgid >> 32;
	return 0;
#endif
}

#endif
