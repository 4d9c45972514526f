/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Records when processes were active on devices. A process is active in a tick if, during that tick, one of
 * its threads is in a call that gives the device work or waits for the device. The ticks of a call are marked
 * when the call returns. For calls that are still open, the monitor itself adds the ticks.
 *
 * Nothing here needs an atomic operation: threads that write the same element write the same value.
 */
#ifndef STALLTOP_ACTIVITY_H
#define STALLTOP_ACTIVITY_H

#include "base/maps.h"
#include "calls/threads.h"

INLINE struct activity *new_activity(struct thread *thread, struct process_device *key, u64 *index)
{
	struct activity *activity;
	u32 *winner;

	if (!may_take(POOL_ACTIVITIES, key->tgid, thread->cgroup_id))
		return NULL;
	if (!free_activities.pop((u32 *)index)) {
		activity = activities.lookup((u32 *)index);
		if (!activity)
			return NULL;
		activity->cgroup_id = activity->account_cgroup_id = thread->cgroup_id;
		activity->device = key->device;
		PUBLISH(activity->cgroup_id);
		activity->tgid = key->tgid;
		if (!activity_of.insert(key, (u32 *)index))
			return activity;
		/*
		 * Another thread of the process has inserted a record for this key first. That record is used,
		 * and this one is freed.
		 */
		activity->tgid = 0;
		free_activities.push((u32 *)index, 0);
	}
	is_free(POOL_ACTIVITIES, key->tgid, thread->cgroup_id);
	winner = activity_of.lookup(key);
	if (!winner)
		return NULL;
	*index = *winner;
	return activities.lookup((u32 *)index);
}

/*
 * Returns the record of the thread's process on `device`; NULL if all records are in use. The thread remembers
 * the record that it found last.
 */
INLINE struct activity *find_activity(struct thread *thread, u32 device)
{
	struct process_device key = {.tgid = thread->tgid, .device = device};
	struct activity *activity = activities.lookup(&thread->activity);
	u64 index = 0;
	u32 *found;

	if (activity && activity->tgid == key.tgid && activity->device == device)
		return activity;
	found = activity_of.lookup(&key);
	if (found) {
		index = *found;
		activity = activities.lookup(KEY(index));
	} else {
		activity = new_activity(thread, &key, &index);
	}
	if (activity)
		thread->activity = index;
	return activity;
}

/*
 * Returns the element of `tick`. Ticks are counted modulo 2^32 and laps modulo 2^15, so the number of a lap
 * recurs after 39 hours. The monitor removes older laps before that.
 */
INLINE u16 *lap_at(struct activity *activity, u64 tick)
{
	WITHIN(tick, TICKS);
	return &activity->laps[tick];
}

INLINE u16 *span_at(struct activity *activity, u64 tick)
{
	u64 span = tick / SPAN;

	WITHIN(span, TICKS / SPAN);
	return &activity->spans[span];
}

#define LAP_OF(tick) ((u16)(LAP | (tick) / TICKS))
#define MOST_STEPS (2 * SPAN + TICKS / SPAN)

/* Marks the ticks of a call of `operation`, from `start_ns` to `now`: the thread's process was active in them. */
INLINE void was_active(struct thread *thread, u32 operation, u64 start_ns, u64 now)
{
	struct activity *activity = find_activity(thread, operation >> DEVICE_SHIFT);
	u32 tick = start_ns >> TICK_SHIFT, last = now >> TICK_SHIFT, i;

	if (!activity) {
		LOSE(no_activity, 1);
		return;
	}
	/* The usual case: a short call, in a tick that is marked already. */
	if (tick == last && *lap_at(activity, last) == LAP_OF(last))
		return;
	activity->cgroup_id = thread->cgroup_id;
	if ((s32)(last - tick) < 0)
		tick = last; /* the call began on another CPU, whose clock may be a few ns ahead */
	else if (last - tick >= TICKS)
		tick = last - (TICKS - 1); /* the monitor read the earlier ticks while the call was open */
	EACH(i, 0, MOST_STEPS) {
		tick = forgotten(thread, tick);
		if (last - tick >= TICKS) /* all ticks are marked (unsigned: also if `tick` is after `last`) */
			break;
		if (tick % SPAN || last - tick < SPAN - 1) {
			*lap_at(activity, tick) = LAP_OF(tick);
			tick++;
		} else {
			*span_at(activity, tick) = LAP_OF(tick);
			tick += SPAN;
		}
	}
}

#endif
