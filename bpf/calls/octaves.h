/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Finds the counters of an octave of a slot's histogram, and takes free ones at the first call in that octave. */
#ifndef STALLTOP_OCTAVES_H
#define STALLTOP_OCTAVES_H

#include "base/maps.h"
#include "base/ordering.h"
#include "calls/hdr.h"

/* Takes an octave for `place`, an element of slot->octaves; returns its index + 1, or 0 if none is left. */
INLINE u64 new_octave(const struct thread *thread, u64 *place)
{
	u64 cgroup_id = thread->cgroup_id, octave = 0, winner = 0;
	u32 tgid = thread->tgid;

	if (!may_take(POOL_OCTAVES, tgid, cgroup_id))
		return 0;
	if (!free_octaves.pop(KEY(octave))) {
		u64 own = octave + 1;

		SET_ONCE(*place, own);
		winner = *(volatile u64 *)place;
		if (winner == own)
			return winner;
		/* Another thread of the process has taken an octave for this place first. */
		free_octaves.push(KEY(octave), 0);
	}
	is_free(POOL_OCTAVES, tgid, cgroup_id);
	return winner;
}

/*
 * Returns the octave of counter number `counter` of `slot`, which is a slot of `thread`; NULL if it has none yet and
 * none is left.
 */
INLINE struct octave *find_octave(const struct thread *thread, struct slot *slot, u64 counter)
{
	u64 index = counter / PER_OCTAVE, block;
	void *found;

	BELOW(index, OCTAVES);
	block = slot->octaves[index];
	if (!block)
		block = new_octave(thread, &slot->octaves[index]);
	if (!block)
		return NULL;
	index = (block - 1) % BLOCK;
	block = (block - 1) / BLOCK;
	found = octaves.lookup(KEY(block));
	return found ? bpf_map_lookup_elem(found, KEY(index)) : NULL;
}

#endif
