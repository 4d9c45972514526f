/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Finds the slot of an operation, takes a free slot at the operation's first call, and counts calls in it. */
#ifndef STALLTOP_SLOTS_H
#define STALLTOP_SLOTS_H

#include "base/maps.h"
#include "calls/hdr.h"
#include "calls/hot.h"
#include "calls/octaves.h"
#include "calls/threads.h"

#define NO_SLOT (~0U)

INLINE u32 new_slot(struct slot_key *key)
{
	struct owner *owner;
	u64 slot = 0;
	u32 *winner;

	if (!may_take(POOL_SLOTS, key->tgid, key->cgroup_id))
		return NO_SLOT;
	if (!free_slots.pop(KEY(slot))) {
		owner = owners.lookup(KEY(slot));
		if (!owner)
			return NO_SLOT;
		owner->cgroup_id = key->cgroup_id;
		owner->tgid = key->tgid;
		owner->writer = key->writer;
		PUBLISH(owner->cgroup_id);
		owner->operation = key->operation;
		if (!slot_of.insert(key, KEY(slot)))
			return slot;
		/*
		 * Another thread of the process has inserted a slot for this key first. That slot is used, and
		 * this one is freed.
		 */
		owner->operation = 0;
		owner->tgid = 0;
		free_slots.push(KEY(slot), 0);
	}
	is_free(POOL_SLOTS, key->tgid, key->cgroup_id);
	winner = slot_of.lookup(key);
	return winner ? *winner : NO_SLOT;
}

/* Returns the index in `cached` at which a thread remembers the slot of `operation`. */
INLINE u32 cache_place(u32 operation)
{
	/*
	 * The nested bit and the device take part in the index. So outermost calls of an operation, nested calls
	 * of it (a function may call a variant of itself), and its calls on another device mostly have different
	 * indices.
	 */
	return (operation ^ (operation >> 12) ^ (operation >> DEVICE_SHIFT)) & (CACHED - 1);
}

/* Returns the element in which `thread` remembers the slot of `operation`. */
INLINE struct cached_slot *cached_at(struct thread *thread, u32 operation)
{
	return &thread->cached[cache_place(operation)];
}

/* The thread's own slot begins with the threshold for slow calls of the slot that it shared before. */
INLINE void copy_threshold(u64 to, u64 from)
{
	struct slot *own = slots.lookup(KEY(to)), *shared = slots.lookup(KEY(from));

	if (own && shared)
		own->slow_ns = shared->slow_ns;
}

/*
 * Finds the slot of `operation` for this thread and stores it in `cached`. Returns -1 if the operation has no
 * slot and none is free.
 */
INLINE int fill_cached(struct thread *thread, struct cached_slot *cached, u32 operation)
{
	struct slot_key key = {
		.cgroup_id = thread->cgroup_id,
		.tgid = thread->tgid,
		.operation = operation,
	};
	u32 *found = slot_of.lookup(&key);
	u32 shared = found ? *found : NO_SLOT, slot = shared;

	if (shared != NO_SLOT && cached->operation == (operation | MOVES)) {
		key.writer = thread->index + 1;
		found = slot_of.lookup(&key);
		if (found)
			slot = *found;
		else if (may_own_slot())
			slot = NO_SLOT;
	}
	if (slot == NO_SLOT) {
		slot = new_slot(&key);
		if (slot == NO_SLOT)
			slot = shared;
		else if (shared != NO_SLOT)
			copy_threshold(slot, shared);
		if (slot == NO_SLOT)
			return -1;
	}
	cached->slot = slot;
	cached->shared = shared == NO_SLOT ? slot : shared;
	cached->operation = operation;
	return 0;
}

/* Returns the slot of `operation` for this thread, or NULL if none is free. The thread remembers it in `cached`. */
INLINE struct slot *find_slot(struct thread *thread, struct cached_slot *cached, u32 operation)
{
	u64 slot;

	if (cached->operation != operation && fill_cached(thread, cached, operation))
		return NULL;
	slot = cached->slot;
	return slots.lookup(KEY(slot));
}

/*
 * Adds the time of one call to `slot`, that of `cached`; `counter` is the counter of that time, and `octave` its
 * octave. The call's other counts have to be in the slot already.
 */
INLINE void count_ns(struct slot *slot, struct octave *octave, const struct cached_slot *cached, u64 ns, u64 counter)
{
	if (ns > slot->max_ns)
		slot->max_ns = ns; /* another CPU may overwrite it: then the monitor uses the histogram's maximum */
	if (ns > HIGHEST_NS) {
		__sync_fetch_and_add(&slot->clamped, 1);
		LOSE(clamped, 1);
	}
	WITHIN(counter, PER_OCTAVE);
	if (is_own(cached)) {
		ADD_TO_OWN(slot->total_ns, ns);
		ADD_TO_OWN(octave->counters[counter], 1);
		ADD_TO_OWN(slot->calls, 1);
	} else {
		ADD_AND_PUBLISH(slot->total_ns, ns);
		__sync_fetch_and_add(&octave->counters[counter], 1);
		__sync_fetch_and_add(&slot->calls, 1);
	}
}

INLINE void count(struct slot *slot, struct octave *octave, const struct cached_slot *cached,
		  const struct frame *frame, u64 ns, u64 counter, u32 returned)
{
	u64 cookie = frame->function;
	struct function *function;

	if (returned) {
		function = functions.lookup(KEY(cookie));
		if (!function || returned != function->pending) {
			__sync_fetch_and_add(&slot->errors, 1);
			slot->last_error = returned;
		}
	} else if (frame->bytes) {
		__sync_fetch_and_add(&slot->bytes, frame->bytes);
	}
	count_ns(slot, octave, cached, ns, counter);
}

#endif
