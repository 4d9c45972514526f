/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Puts records into their pools: all of them before anything is attached, later those that the monitor frees. A
 * program does this, and not the monitor itself, because other programs count the records of a pool at the same time.
 */
#ifndef STALLTOP_FILLING_H
#define STALLTOP_FILLING_H

#include "base/maps.h"
#include "cuda/kernels.h"

INLINE void push(u64 pool, u64 record)
{
	switch (pool) {
	case POOL_SLOTS:
		free_slots.push(KEY(record), 0);
		break;
	case POOL_THREADS:
		free_threads.push(KEY(record), 0);
		break;
	case POOL_HEAPS:
		free_heaps.push(KEY(record), 0);
		break;
	case POOL_ACTIVITIES:
		free_activities.push(KEY(record), 0);
		break;
	case POOL_MEMBERS:
		free_members.push(KEY(record), 0);
		break;
	case POOL_KERNELS:
		free_kernels.push(KEY(record), 0);
		break;
	case POOL_OCTAVES:
		free_octaves.push(KEY(record), 0);
		break;
#ifdef WITH_SPLITS
	case POOL_CHARGES:
		free_charges.push(KEY(record), 0);
		break;
#endif
	}
}

/*
 * Runs with the arguments (enum pool, first record, number of records). Adds records to the pool, up to
 * FILLED_AT_ONCE of them. They go into a stack in reverse, because the last one is taken first. A pool without a
 * queue gets any number of records.
 */
int records_are_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 pool = ctx->args[0], record = ctx->args[1], number = ctx->args[2], step = 1;
	u32 i;

	if (pool == POOL_SLOTS || pool == POOL_KERNELS || pool == POOL_OCTAVES) {
		record += number - 1;
		step = -1;
	}
	EACH(i, 0, FILLED_AT_ONCE) {
		if (i >= number)
			break;
		push(pool, record);
		record += step;
	}
	add_left(pool, number);
	return 0;
}

/* Adds the octaves of slot number `number` to their pool; they are in these accounts, and all their counters are 0. */
INLINE void free_octaves_of(u64 number, u32 tgid, u64 cgroup_id)
{
	struct slot *slot = slots.lookup(KEY(number));
	u64 octave;
	u32 i;

	if (!slot)
		return;
	EACH(i, 0, OCTAVES) {
		octave = slot->octaves[i];
		if (!octave)
			continue;
		octave--;
		slot->octaves[i] = 0;
		free_octaves.push(KEY(octave), 0);
		is_free(POOL_OCTAVES, tgid, cgroup_id);
	}
}

/*
 * Runs with the arguments (enum pool, record, tgid, cgroup id). Adds a record that this process and this cgroup
 * have to the pool; both ids are 0 for a record that is in no account. Pieces are not numbered: instead of a record,
 * the argument is how many of them are free again.
 */
int record_is_over(struct bpf_raw_tracepoint_args *ctx)
{
	u64 pool = ctx->args[0], cgroup_id = ctx->args[3];
	u32 tgid = ctx->args[2], number = pool == POOL_PIECES ? ctx->args[1] : 1;

	if (pool == POOL_SLOTS)
		free_octaves_of(ctx->args[1], tgid, cgroup_id);
	push(pool, ctx->args[1]);
	add_left(pool, number);
	credit(pool, tgid, 0, number);
	credit(pool, 0, cgroup_id, number);
	return 0;
}

#endif
