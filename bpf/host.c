/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Measures events of the host's processes, other than waits for a CPU: block I/O, reclaim of memory, OOM
 * kills, retransmitted TCP segments, the beginnings and ends of processes, who stops processes, and paths of new
 * cgroups. Uses raw tracepoints only. A part, such as block.h, is compiled if its macro, such as WITH_BLOCK, is defined. Then
 * macros for the offsets that the part needs are defined too. Their names consist of a Linux kernel struct
 * and its member: REQUEST_BIO is the offset of `bio` in struct request.
 *
 * Hashes hold the counts; the monitor empties the hashes once a second. An element holds what happened since
 * the monitor last emptied the hash, so elements of ended processes disappear by themselves. A full hash
 * drops new elements, and an LRU hash its oldest ones; `lost` counts both.
 */
#include "host/layout.h"
#include "base/numbers.h"

/* By enum host_loss. */
BPF_F_TABLE("array", u32, u64, lost, HOST_LOSSES, 0);

INLINE void count_lost(u32 what)
{
	u64 *count = lost.lookup(&what);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* Counts an event for which there was no room. */
INLINE void drop(void)
{
	count_lost(HOST_DROPPED);
}

/* Returns the PID of the current process in the monitor's PID namespace; 0 if the process has none there. */
INLINE u32 own_tgid(void)
{
	struct numbers numbers = {};

	return numbers_of(bpf_get_current_pid_tgid(), &numbers) ? 0 : numbers.tgid;
}

#define PF_KTHREAD 0x00200000   /* flag of task_struct.flags (linux/sched.h) */

#include "host/block.h"
#include "host/reclaim.h"
#include "host/sockets.h"
#include "host/lives.h"
#include "host/stops.h"
#include "host/cgroups.h"
