/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Fills the queues and stacks of free elements: the monitor runs this before anything is attached. */
#ifndef STALLTOP_FILLING_H
#define STALLTOP_FILLING_H

#include "base/maps.h"
#include "cuda/kernels.h"

enum queue { QUEUE_SLOTS, QUEUE_THREADS, QUEUE_HEAPS, QUEUE_ACTIVITIES, QUEUE_MEMBERS, QUEUE_KERNELS, QUEUE_CHARGES };

/*
 * Runs with the arguments (enum queue, first element, element after the last). Adds these elements to the
 * queue, up to FILLED_AT_ONCE of them.
 */
int elements_are_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 queue = ctx->args[0], element = ctx->args[1], end = ctx->args[2], last = end;
	u32 i;

	EACH(i, 0, FILLED_AT_ONCE) {
		if (element >= end)
			break;
		switch (queue) {
		case QUEUE_SLOTS:
			last--; /* pushed in reverse, because the last one is taken first */
			free_slots.push(KEY(last), 0);
			break;
		case QUEUE_THREADS:
			free_threads.push(KEY(element), 0);
			break;
		case QUEUE_HEAPS:
			free_heaps.push(KEY(element), 0);
			break;
		case QUEUE_ACTIVITIES:
			free_activities.push(KEY(element), 0);
			break;
		case QUEUE_MEMBERS:
			free_members.push(KEY(element), 0);
			break;
		case QUEUE_KERNELS:
			last--;
			free_kernels.push(KEY(last), 0);
			break;
#ifdef WITH_SPLITS
		case QUEUE_CHARGES:
			free_charges.push(KEY(element), 0);
			break;
#endif
		}
		element++;
	}
	return 0;
}

#endif
