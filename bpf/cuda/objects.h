/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Handles what outermost calls do to objects that outlive the calls: device memory and NCCL communicators. */
#ifndef STALLTOP_OBJECTS_H
#define STALLTOP_OBJECTS_H

#include "cuda/allocations.h"
#include "cuda/communicators.h"

/*
 * Called when a call begins; `thread` holds its argument registers. Sets frame->object if object_ends() has
 * to handle the call's return.
 */
INLINE void object_begins(const struct function *function, struct thread *thread, struct frame *frame, u64 sp)
{
	u64 value = 0;

	if (function->object >= OBJECT_JOINS && function->object <= OBJECT_SPLITS) {
		member_begins(function, thread, frame, sp);
		return;
	}
	if (read_argument(thread, sp, function->object_at, &value) || !value)
		return;
	switch (function->object) {
	case OBJECT_ALLOCATES:
		frame->object = value;
		break;
	case OBJECT_FREES:
		free_begins(thread, frame, value);
		break;
	case OBJECT_LEAVES:
		member_leaves(thread, value);
		break;
	case OBJECT_ENTERS:
		member_enters(thread, frame, value);
		break;
	case OBJECT_USES:
		member_is_used(thread, frame, value);
		break;
	}
}

/* Called when the call of `frame` has returned, if frame->object is set. */
INLINE void object_ends(struct thread *thread, struct frame *frame, u32 returned)
{
	u64 cookie = frame->function;
	struct function *function = functions.lookup(KEY(cookie));

	if (!function)
		return;
	switch (function->object) {
	case OBJECT_ALLOCATES:
		allocation_ends(thread, frame, returned);
		break;
	case OBJECT_FREES:
		free_ends(thread, frame, returned);
		break;
	default:
		member_ends(function, thread, frame, returned);
	}
}

#endif
