/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Recognizes waits for data that reached their time limit. A timer ended these waits, not a task. Event loops sleep
 * in this way: they wait for data until the time of their next event. A packet from another host ends a wait for
 * data without a task, too, but before the limit. Only used if WITH_SPLITS is defined.
 */
#ifndef STALLTOP_LIMITS_H
#define STALLTOP_LIMITS_H

#include <linux/types.h>

/*
 * Numbers of the system calls with a time limit: the fourth argument of epoll_wait and epoll_pwait and the third
 * of poll, in ms, and the struct timespec at the third argument of ppoll.
 */
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#define CALL_POLL 7
#define CALL_EPOLL_WAIT 232
#define CALL_EPOLL_PWAIT 281
#define CALL_PPOLL 271
#else
#define CALL_POLL (-2)          /* does not exist */
#define CALL_EPOLL_WAIT (-2)
#define CALL_EPOLL_PWAIT 22
#define CALL_PPOLL 73
#endif

/*
 * A wait may seem shorter than its limit, by at most this much and this part: the limit counts from the beginning
 * of the call, the wait from when the thread left its CPU. On a busy host, a thread leaves within some tens of us.
 */
#define BEFORE_LEAVING_NS 200000
#define BEFORE_LEAVING_PART 8

/* Returns whether system call `number` has a time limit as an argument that time_limit_ns() understands. */
INLINE int has_time_limit(s64 number)
{
	return number == CALL_EPOLL_WAIT || number == CALL_EPOLL_PWAIT || number == CALL_POLL || number == CALL_PPOLL;
}

/*
 * Returns the time limit of system call `number` with these arguments; 0 if it has none, or one that is not known.
 */
INLINE u64 time_limit_ns(s64 number, u64 third, u64 fourth)
{
	struct { s64 seconds, ns; } limit = {};
	s32 ms = number == CALL_POLL ? third : fourth;

	if (!has_time_limit(number))
		return 0;
	if (number != CALL_PPOLL)
		return ms > 0 ? ms * 1000000ULL : 0;
	if (!third)
		return 0;
	bpf_probe_read_user(&limit, sizeof(limit), (const void *)third);
	return limit.seconds * 1000000000ULL + limit.ns;
}

/* Returns whether a wait of `ns` with the time limit `limit_ns` (0: none) reached this limit. */
INLINE int reached(u64 limit_ns, u64 ns)
{
	u64 earlier = limit_ns / BEFORE_LEAVING_PART;

	if (earlier > BEFORE_LEAVING_NS)
		earlier = BEFORE_LEAVING_NS;
	return limit_ns && ns + earlier >= limit_ns;
}

#endif
