/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Which of its program's devices the calls of a thread go to. */
#ifndef STALLTOP_SELECTION_H
#define STALLTOP_SELECTION_H

#include "maps.h"
#include "threads.h"

/* The ordinal + 1 of the device that the calls of `thread` go to now; 0 where that is not known. */
INLINE u32 device_of(const struct thread *thread)
{
	return thread->device;
}

#endif
