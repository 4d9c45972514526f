/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the host does to its processes besides taking the CPU: block I/O, reclaim of memory, kills for lack of it,
 * TCP segments sent again, and the beginnings and ends of processes. Raw tracepoints only. Each part is there
 * where WITH_ its name is defined; where members of kernel structs lie comes with it, as STRUCT_MEMBER.
 *
 * What is counted lies in hashes that the monitor empties once a second: an element holds what happened since,
 * and goes with its process by itself. A full hash drops what is new, and counts that in `dropped`.
 */
#include "host_layout.h"
#include "numbers.h"

BPF_F_TABLE("array", u32, u64, dropped, 1, 0);

INLINE void drop(void)
{
	u32 only = 0;
	u64 *count = dropped.lookup(&only);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The current process as the monitor knows it, 0 where it does not. */
INLINE u32 own_tgid(void)
{
	struct numbers numbers = {};

	return numbers_of(bpf_get_current_pid_tgid(), &numbers) ? 0 : numbers.tgid;
}

#include "block.h"
#include "reclaim.h"
#include "sockets.h"
#include "lives.h"
