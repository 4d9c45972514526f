/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Recognizes waits for data that reached their time limit. No task ends such a wait, but a timer. Event loops sleep
 * in this way: they wait for data until the time of their next event. A packet from another host ends a wait for
 * data without a task, too, but before the limit. Only used if WITH_SPLITS is defined.
 */
#ifndef STALLTOP_LIMITS_H
#define STALLTOP_LIMITS_H

#include <linux/types.h>

/* Numbers of the system calls with a time limit. The fourth argument of epoll_wait and epoll_pwait is in ms. */
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
 * A wait may seem shorter than its limit by this much: the limit counts from the beginning of the call, the wait
 * from when the thread left its CPU.
 */
#define BEFORE_LEAVING_NS 200000

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
	/* ppoll gets the address of a struct timespec, or NULL. */
	bpf_probe_read_user(&limit, sizeof(limit), (const void *)third);
	return limit.seconds * 1000000000ULL + limit.ns;
}

#endif
