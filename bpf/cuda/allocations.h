/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Device memory that a process has allocated and not freed. An allocation is identified by its address, so
 * any thread of the process may free it.
 *
 * An allocation is removed when the call that frees it begins, and put back if that call fails. Removing it
 * when the call returns would be too late: the driver may have given the same address to another thread long
 * before. It counts as held until the call has succeeded, so that there is room to put it back. If that call never
 * returns, it counts as held until its process ends.
 */
#ifndef STALLTOP_ALLOCATIONS_H
#define STALLTOP_ALLOCATIONS_H

#include "base/maps.h"
#include "base/numbers.h"
#include "calls/threads.h"

#define UNKNOWN_PIECE (~0ULL)
#define NO_HEAP (~0U)

/* Returns the index of the heap of the thread's process, or NO_HEAP if all are in use. */
INLINE u32 find_heap(struct thread *thread)
{
	u64 tgid = thread->tgid, index = 0;
	u32 *found = heap_of.lookup(KEY(tgid));
	struct heap *heap;

	if (found)
		return *found;
	if (!may_take(POOL_HEAPS, tgid, thread->cgroup_id))
		return NO_HEAP;
	if (!free_heaps.pop(KEY(index))) {
		heap = heaps.lookup(KEY(index));
		if (!heap)
			return NO_HEAP;
		heap->cgroup_id = heap->account_cgroup_id = thread->cgroup_id;
		PUBLISH(heap->cgroup_id);
		heap->tgid = tgid;
		if (!heap_of.insert(KEY(tgid), KEY(index)))
			return index;
		/*
		 * Another thread of the process has inserted a heap first. That heap is used, and this one is
		 * freed.
		 */
		heap->tgid = 0;
		free_heaps.push(KEY(index), 0);
	}
	is_free(POOL_HEAPS, tgid, thread->cgroup_id);
	found = heap_of.lookup(KEY(tgid));
	return found ? *found : NO_HEAP;
}

/*
 * Marks the heap of the current process as over, because the process executes another program. The driver has
 * freed the memory of the previous program.
 */
INLINE void drop_heap(void)
{
	struct numbers numbers = {};
	struct heap *heap;
	u64 tgid, index;
	u32 *found;

	if (numbers_of(bpf_get_current_pid_tgid(), &numbers))
		return;
	tgid = numbers.tgid;
	found = heap_of.lookup(KEY(tgid));
	if (!found)
		return;
	index = *found;
	heap_of.delete(KEY(tgid));
	heap = heaps.lookup(KEY(index));
	if (heap)
		heap->over = 1;
}

INLINE void free_begins(struct thread *thread, struct frame *frame, u64 address)
{
	struct piece piece = {.address = address, .heap = find_heap(thread)};
	u64 *found = pieces.lookup(&piece), bytes;

	frame->object = address;
	frame->kept = UNKNOWN_PIECE;
	if (!found)
		return;
	bytes = *found;
	if (!pieces.delete(&piece))
		frame->kept = bytes;
}

INLINE void free_ends(struct thread *thread, struct frame *frame, u32 returned)
{
	u64 index = find_heap(thread);
	struct piece piece = {.address = frame->object, .heap = index};
	struct heap *heap = heaps.lookup(KEY(index));
	u64 bytes = frame->kept;

	if (!heap)
		return;
	if (returned) {
		if (bytes != UNKNOWN_PIECE)
			pieces.update(&piece, &bytes);
		return;
	}
	heap->cgroup_id = thread->cgroup_id;
	__sync_fetch_and_add(&heap->frees, 1);
	if (bytes == UNKNOWN_PIECE)
		return;
	__sync_fetch_and_add(&heap->freed_bytes, bytes);
	__sync_fetch_and_add(&heap->held, -1);
	__sync_fetch_and_add(&heap->held_bytes, -bytes);
	is_free(POOL_PIECES, heap->tgid, heap->account_cgroup_id);
}

INLINE void allocation_ends(struct thread *thread, struct frame *frame, u32 returned)
{
	struct piece piece = {};
	u64 bytes = frame->bytes, *before;
	struct heap *heap;
	u64 index;

	if (returned || bpf_probe_read_user(&piece.address, sizeof(piece.address), (void *)frame->object) ||
	    !piece.address)
		return;
	index = find_heap(thread);
	heap = heaps.lookup(KEY(index));
	if (!heap) {
		LOSE(no_allocation, 1);
		return;
	}
	piece.heap = index;
	heap->cgroup_id = thread->cgroup_id;
	__sync_fetch_and_add(&heap->allocations, 1);
	__sync_fetch_and_add(&heap->allocated_bytes, bytes);
	before = pieces.lookup(&piece);
	if (before) { /* a function without a probe freed this address, and the driver reused it */
		u64 gone = *before;

		__sync_fetch_and_add(&heap->freed_bytes, gone);
		__sync_fetch_and_add(&heap->held_bytes, -gone);
	} else if (may_take(POOL_PIECES, heap->tgid, heap->account_cgroup_id)) {
		__sync_fetch_and_add(&heap->held, 1);
	} else {
		LOSE(no_allocation, 1);
		return;
	}
	if (pieces.update(&piece, &bytes)) {
		LOSE(no_allocation, 1);
		if (!before) {
			__sync_fetch_and_add(&heap->held, -1);
			is_free(POOL_PIECES, heap->tgid, heap->account_cgroup_id);
		}
		return;
	}
	__sync_fetch_and_add(&heap->held_bytes, bytes);
}

#endif
