/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Finds the slot of an operation, takes a free slot at the operation's first call, and counts calls in it. */
#ifndef STALLTOP_SLOTS_H
#define STALLTOP_SLOTS_H

#include "base/maps.h"
#include "calls/hdr.h"
#include "calls/threads.h"

INLINE u32 new_slot(struct slot_key *key)
{
	struct owner *owner;
	u64 slot = 0;
	u32 *winner;

	if (free_slots.pop(KEY(slot)))
		return NO_SLOT;
	owner = owners.lookup(KEY(slot));
	if (!owner)
		return NO_SLOT;
	owner->cgroup_id = key->cgroup_id;
	owner->tgid = key->tgid;
	PUBLISH(owner->cgroup_id);
	owner->operation = key->operation;
	if (!slot_of.insert(key, KEY(slot)))
		return slot;
	/*
	 * Another thread of the process has inserted a slot for this key first. That slot is used, and this
	 * one is freed.
	 */
	owner->operation = 0;
	owner->tgid = 0;
	free_slots.push(KEY(slot), 0);
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

/* Returns the number of the slot of `operation` for this thread, or NO_SLOT if none is free. */
INLINE u32 slot_number(struct thread *thread, u32 operation)
{
	struct slot_key key = {
		.cgroup_id = thread->cgroup_id,
		.tgid = thread->tgid,
		.operation = operation,
	};
	u32 *found = slot_of.lookup(&key);

	return found ? *found : new_slot(&key);
}

/* Returns the number of the slot that find_slot() has just found for this thread. */
INLINE u32 slot_of_operation(struct thread *thread, u32 operation)
{
	return thread->cached[cache_place(operation)].slot;
}

/* Returns the slot of `operation` for this thread, or NULL if none is free. */
INLINE struct slot *find_slot(struct thread *thread, u32 operation)
{
	struct cached_slot *cached = &thread->cached[cache_place(operation)];
	u64 slot;

	if (cached->operation == operation) {
		slot = cached->slot;
		return slots.lookup(KEY(slot));
	}
	slot = slot_number(thread, operation);
	if (slot == NO_SLOT)
		return NULL;
	cached->slot = slot;
	cached->operation = operation;
	return slots.lookup(KEY(slot));
}

/* Adds the time of one call to `slot`. The call's other counts have to be in the slot already. */
INLINE void count_ns(struct slot *slot, u64 ns)
{
	u64 counter;

	ADD_AND_PUBLISH(slot->total_ns, ns);
	if (ns > slot->max_ns)
		slot->max_ns = ns; /* another CPU may overwrite it: then the monitor uses the histogram's maximum */
	if (ns > HIGHEST_NS) {
		ns = HIGHEST_NS;
		__sync_fetch_and_add(&slot->clamped, 1);
		LOSE(clamped, 1);
	}
	counter = counter_of(ns);
	BELOW(counter, COUNTERS);
	__sync_fetch_and_add(&slot->counters[counter], 1);
	__sync_fetch_and_add(&slot->calls, 1);
}

INLINE void count(struct slot *slot, const struct frame *frame, u64 ns, u32 returned)
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
	count_ns(slot, ns);
}

#endif
