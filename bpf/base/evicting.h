/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Counts what programs add to LRU maps and remove from them. Linux does not say when such a map is full and evicts its
 * oldest elements; the monitor computes it: elements that were added, are not removed, and are not there any more.
 *
 * Each CPU sets 128 free elements of an LRU map aside; the loader adds as many to the size of each LRU map
 * (probes/programs/compiled.py).
 */
#ifndef STALLTOP_EVICTING_H
#define STALLTOP_EVICTING_H

#include "base/bounds.h"
#include "base/layout.h"
#include "base/numbers.h"

/* By enum evicting. */
BPF_F_TABLE("array", u32, struct turnover, turnovers, EVICTING_MAPS, BPF_F_MMAPABLE);

/* Called when an element was added to a map under a new key. */
INLINE void element_added(u64 map)
{
	struct turnover *turnover = turnovers.lookup(KEY(map));

	if (turnover)
		__sync_fetch_and_add(&turnover->added, 1);
}

/* Called when an element was removed from a map. */
INLINE void element_removed(u64 map)
{
	struct turnover *turnover = turnovers.lookup(KEY(map));

	if (turnover)
		__sync_fetch_and_add(&turnover->removed, 1);
}

#endif
