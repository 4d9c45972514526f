/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The maps. The monitor replaces SLOTS, THREADS, CPUS, BLOCKS, MOST_OCTAVES and RING_PAGES by the sizes of the maps
 * when it creates them (probes/programs/recipes.py).
 */
#ifndef STALLTOP_MAPS_H
#define STALLTOP_MAPS_H

#include "base/bounds.h"
#include "base/layout.h"
#include "base/numbers.h"
#include "base/pools.h"

BPF_F_TABLE("array", u32, struct function, functions, FUNCTIONS, 0);

/*
 * Slots, and the owners of the slots. The stack holds the free slots; the monitor fills it. The slot that was freed
 * last is taken first, so that few slots are ever used: the monitor maps only those.
 */
BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct owner, owners, SLOTS, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", struct slot_key, u32, slot_of, SLOTS, 0);
BPF_STACK(free_slots, u32, SLOTS);

/*
 * The octaves of all histograms, in blocks. The monitor adds a block, a map like `octave_block`, while few octaves are
 * free: so the maps use memory only as far as calls need it. The stack holds the free octaves.
 */
BPF_F_TABLE("array", u32, struct octave, octave_block, BLOCK, BPF_F_MMAPABLE);
BPF_ARRAY_OF_MAPS(octaves, "octave_block", BLOCKS);
BPF_STACK(free_octaves, u32, MOST_OCTAVES);

/* Threads that have made a traced call, and followed threads. The queue holds the free records. */
BPF_F_TABLE("array", u32, struct thread, threads, THREADS, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", u32, u32, thread_of, THREADS, 0);
BPF_F_TABLE("array", u32, struct likely, likely_thread_of, LIKELY_THREADS, 0);
BPF_QUEUE(free_threads, u32, THREADS);
/*
 * How often task_changes_cgroup has run: as often as threads were moved to another cgroup, and once when it was
 * attached; 0 if that is not observed.
 */
BPF_F_TABLE("array", u32, u32, cgroup_moves, 1, 0);
#ifdef WITH_SPLITS
BPF_F_TABLE("array", u32, struct off_cpu, off_cpu, THREADS, BPF_F_MMAPABLE);

/* By place_of(): the number of tasks there that have a record of their thread; mostly 0. */
BPF_F_TABLE("array", u32, u32, task_records, TASK_PLACES, 0);

/*
 * `cpus` holds the tasks that had each CPU last. `charges` holds the time for which each culprit is charged.
 * The queue holds the free elements of `charges`.
 */
BPF_F_TABLE("array", u32, struct cpu, cpus, CPUS, 0);
BPF_F_TABLE("array", u32, struct charge, charges, CHARGES, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", struct charge_key, u32, charge_of, CHARGES, 0);
BPF_QUEUE(free_charges, u32, CHARGES);

/* The number of records of followed threads, which make no calls themselves. */
BPF_F_TABLE("array", u32, u64, follower_count, 1, 0);
#endif

/* Device memory that processes hold. The queue holds the free records of processes. */
BPF_F_TABLE("array", u32, struct heap, heaps, HEAPS, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", u32, u32, heap_of, HEAPS, 0);
BPF_F_TABLE("hash", struct piece, u64, pieces, ALLOCATIONS, 0);
BPF_QUEUE(free_heaps, u32, HEAPS);

/* Times when processes were active on devices. The queue holds the free records. */
BPF_F_TABLE("array", u32, struct activity, activities, ACTIVITIES, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", struct process_device, u32, activity_of, ACTIVITIES, 0);
BPF_QUEUE(free_activities, u32, ACTIVITIES);

/* Ranks of NCCL communicators. The queue holds the free records. */
BPF_F_TABLE("array", u32, struct member, members, MEMBERS, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", struct handle, u32, member_of, MEMBERS, 0);
BPF_QUEUE(free_members, u32, MEMBERS);

#define NO_WAKEUP 1         /* BPF_RB_NO_WAKEUP: the monitor polls the rings */

/* The ring of captured calls, and the limits of how many calls are captured. */
BPF_RINGBUF_OUTPUT(kept_calls, RING_PAGES);
BPF_F_TABLE("array", u32, struct keeping, keeping_of, 1, BPF_F_MMAPABLE);

BPF_F_TABLE("array", u32, struct losses, losses, 1, BPF_F_MMAPABLE);

INLINE struct losses *loss_counters(void)
{
	u64 only = 0;

	return losses.lookup(KEY(only));
}

/*
 * Linux 6.13 and later run programs on private stacks, one for each program and CPU. At a uprobe that is
 * unsafe: a thread can be preempted inside the program; another thread that runs the same program on that CPU
 * then overwrites the stack of the first run, and Linux crashes. A program that contains a tail call gets no
 * private stack: it runs on the stack of the thread that hits the uprobe. So each program at a uprobe contains
 * a tail call on a path that is hardly ever taken; the table of its targets stays empty.
 */
BPF_PROG_ARRAY(no_programs, 1);

INLINE void on_its_own_stack(void *ctx)
{
	no_programs.call(ctx, 0);
}

/*
 * Adds `n` to one member of struct losses. All CPUs share one counter for each member, because losses are
 * rare.
 */
#define LOSE(member, n)                                                                \
	do {                                                                           \
		struct losses *counters_ = loss_counters();                            \
		if (counters_)                                                         \
			__sync_fetch_and_add(&counters_->member, (n));                 \
	} while (0)

#endif
