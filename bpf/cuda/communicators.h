/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Follows ranks of NCCL communicators, and stores when each rank enters collectives. All ranks of a
 * communicator make its collectives in the same order. So the nth entry of one rank and the nth entry of
 * every other rank are for the same collective, and the monitor can compare their times.
 */
#ifndef STALLTOP_COMMUNICATORS_H
#define STALLTOP_COMMUNICATORS_H

#include "base/maps.h"
#include "calls/arguments.h"
#include "calls/threads.h"
#include "cuda/allocations.h"
#include "cuda/selection.h"

#define WORDS_AT_ONCE 4
#define OWN_DEVICES 16      /* maximum number of ranks that are followed for one call of ncclCommInitAll */
#define NO_MEMBER (~0U)

INLINE u64 hashed(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL; /* 2^64 divided by the golden ratio */
	return hash ^ hash >> 32;
}

/* Returns the hash of the unique id at `address`; 0 if the id cannot be read. */
INLINE u64 id_at(u64 address)
{
	u64 words[WORDS_AT_ONCE], hash = ID_WORDS;
	u32 i, j;

#pragma unroll
	for (i = 0; i < ID_WORDS / WORDS_AT_ONCE; i++) {
		if (bpf_probe_read_user(words, sizeof(words), (void *)(address + i * sizeof(words))))
			return 0;
#pragma unroll
		for (j = 0; j < WORDS_AT_ONCE; j++)
			hash = hashed(hash, words[j]);
	}
	return hash | 1;
}

/*
 * Returns the index of a new record of a rank, which belongs to the thread's process and has the given state;
 * NO_MEMBER if no record is free.
 */
INLINE u32 new_member(struct thread *thread, u64 id, u64 handle, u32 rank, u32 ranks, u32 state)
{
	struct member *member;
	u64 index = 0;

	if (!may_take(POOL_MEMBERS, thread->tgid, thread->cgroup_id))
		return NO_MEMBER;
	if (free_members.pop(KEY(index))) {
		is_free(POOL_MEMBERS, thread->tgid, thread->cgroup_id);
		return NO_MEMBER;
	}
	member = members.lookup(KEY(index));
	if (!member)
		return NO_MEMBER;
	member->id = id;
	member->handle = handle;
	member->cgroup_id = thread->cgroup_id;
	member->tgid = thread->tgid;
	member->rank = rank;
	member->ranks = ranks;
	member->heap = find_heap(thread);
	member->splits = 0;
	member->device = device_of(thread);
	member->entered = 0;
	member->made_ns = bpf_ktime_get_ns();
	__builtin_memset(member->unique_id, 0, sizeof(member->unique_id));
	PUBLISH(member->id);
	member->state = state;
	return index;
}

INLINE struct member *find_member(struct thread *thread, u64 handle)
{
	struct handle key = {.handle = handle, .tgid = thread->tgid};
	u32 *found = member_of.lookup(&key);
	u64 index;

	if (!found)
		return NULL;
	index = *found;
	return members.lookup(KEY(index));
}

/* `member`, the record at `index`, becomes the record of the communicator with this handle. */
INLINE void live(struct thread *thread, struct member *member, u64 index, u64 handle)
{
	struct handle key = {.handle = handle, .tgid = thread->tgid};
	struct member *before = find_member(thread, handle);

	/* a function without a probe destroyed that communicator, and its handle is used again */
	if (before && before != member)
		before->state = MEMBER_OVER;
	member->handle = handle;
	member->made_ns = bpf_ktime_get_ns();
	PUBLISH(member->id);
	member->state = member_of.update(&key, KEY(index)) ? MEMBER_OVER : MEMBER_LIVE;
}

/*
 * Called when a call that makes a communicator begins. Stores the facts in its arguments in a record, and the
 * index of the record in the frame.
 */
INLINE void member_begins(const struct function *function, struct thread *thread, struct frame *frame, u64 sp)
{
	u64 id = 0, place = 0, rank = 0, ranks = 0, other = 0, unique = 0, key;
	struct member *parent, *member;
	u32 index;

	if (read_argument(thread, sp, function->object_at, &place))
		return;
	switch (function->object) {
	case OBJECT_JOINS: /* (handle, ranks, id, rank) */
		unique = ID_AT(thread, sp);
		id = id_at(unique);
		ranks = thread->arguments[1];
		rank = thread->arguments[RANK_AFTER_ID];
		break;
	case OBJECT_JOINS_BY_MANY: /* (handle, ranks, rank, number of ids, ids) */
		unique = thread->arguments[4];
		id = id_at(unique);
		ranks = thread->arguments[1];
		rank = thread->arguments[2];
		break;
	case OBJECT_JOINS_ALL: /* (handles, ranks, devices): no unique id, so one is made up */
		id = hashed(hashed(0, thread->tgid), bpf_ktime_get_ns()) | 1;
		ranks = thread->arguments[1];
		break;
	case OBJECT_SPLITS: /* (whole, colour, key, part): all ranks make their splits in the same order */
		parent = find_member(thread, thread->arguments[0]);
		if (!parent || !parent->id)
			return;
		other = parent->splits++;
		id = hashed(hashed(parent->id, other), thread->arguments[1] & 0xffffffff) | 1;
		rank = parent->rank;
		on_device(frame, parent->device);
		break;
	}
	if (!id)
		return;
	index = new_member(thread, id, place, rank, ranks, MEMBER_BEGINS);
	if (index == NO_MEMBER) {
		LOSE(no_communicator, 1);
		return;
	}
	frame->object = index + 1;
	key = index;
	member = members.lookup(KEY(key));
	if (member && unique)
		bpf_probe_read_user(member->unique_id, sizeof(member->unique_id), (void *)unique);
}

/*
 * Marks the record of a communicator that was not created, so that the monitor frees the record without a
 * report.
 */
INLINE void undo(struct member *member)
{
	member->id = 0;
	PUBLISH(member->id);
	member->state = MEMBER_OVER;
}

/*
 * Finds the devices of the ranks that were made by the call of `frame`. ncclCommInitAll(handles, ranks,
 * devices) gives each rank a device of the list; if `devices` is NULL, the ranks get devices 0, 1, 2 and so
 * on. All devices are read before the loop that uses them, because the verifier checks each branch inside
 * that loop once per rank.
 */
INLINE void devices_of_ranks(const struct function *function, const struct frame *frame, u32 ranks, u32 *devices)
{
	u64 list = 0;
	u32 i;

#pragma unroll
	for (i = 0; i < OWN_DEVICES; i++)
		devices[i] = i;
	if (function->object == OBJECT_JOINS_ALL)
		list = frame->arguments[2];
	else
		devices[0] = (frame->operation >> DEVICE_SHIFT) - 1;
	if (list)
		bpf_probe_read_user(devices, ranks * sizeof(*devices), (void *)list);
}

INLINE void member_ends(const struct function *function, struct thread *thread, struct frame *frame, u32 returned)
{
	u64 index = (u32)(frame->object - 1);
	u32 n = 1, devices[OWN_DEVICES], i;
	struct member *member = members.lookup(KEY(index));
	u64 place, handle, id;

	if (!member)
		return;
	place = member->handle;
	id = member->id;
	if (returned && returned != function->pending) {
		undo(member);
		return;
	}
	if (function->object == OBJECT_JOINS_ALL)
		n = member->ranks;
	if (!n)
		undo(member);
	devices_of_ranks(function, frame, n < OWN_DEVICES ? n : OWN_DEVICES, devices);
	EACH(i, 0, OWN_DEVICES) {
		if (i >= n)
			break;
		handle = 0;
		bpf_probe_read_user(&handle, sizeof(handle), (void *)(place + 8 * i));
		if (i) {
			index = new_member(thread, id, handle, i, n, MEMBER_BEGINS);
			member = index == NO_MEMBER ? NULL : members.lookup(KEY(index));
			if (!member) {
				LOSE(no_communicator, 1);
				break;
			}
		}
		member->device = (devices[i] + 1) & UNKNOWN_DEVICE;
		if (handle)
			live(thread, member, index, handle);
		else
			undo(member); /* this rank is in no part of the split */
	}
}

/*
 * Called when the current process begins to destroy the communicator with this handle. The return of that
 * call would be too late: another communicator may have the handle by then.
 */
INLINE void member_leaves(struct thread *thread, u64 handle)
{
	struct handle key = {.handle = handle, .tgid = thread->tgid};
	struct member *member = find_member(thread, handle);

	if (!member)
		return;
	member_of.delete(&key);
	member->state = MEMBER_OVER;
}

INLINE void member_is_used(struct thread *thread, struct frame *frame, u64 handle)
{
	struct member *member = find_member(thread, handle);

	if (member)
		on_device(frame, member->device);
}

INLINE void member_enters(struct thread *thread, struct frame *frame, u64 handle)
{
	struct member *member = find_member(thread, handle);
	u64 entered, place;

	if (!member) {
		/*
		 * The communicator was made before the probes were attached. Stores a record, so that the
		 * monitor can report the communicator as too old.
		 */
		u64 index = new_member(thread, 0, handle, 0, 0, MEMBER_BEGINS);

		member = index == NO_MEMBER ? NULL : members.lookup(KEY(index));
		if (!member)
			return;
		live(thread, member, index, handle);
	}
	on_device(frame, member->device);
	entered = member->entered;
	place = entered;
	WITHIN(place, ENTRIES);
	member->entries_ns[place] = bpf_ktime_get_ns();
	PUBLISH(member->entered);
	member->entered = entered + 1;
}

#endif
