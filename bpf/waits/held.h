/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Distinguishes waits for a lock that another thread holds from waits for a hand-over: for something that
 * another thread has to do first (signal a condition, fill a queue, return the result of a pool). There are
 * two signs of a lock. One is the value that the waiter expects in the futex word. The other is that both the
 * waiter and the thread that wakes it have waited at this futex lately, and that it wakes only one thread. A
 * wait without either sign is HOW_PLAIN. Only used if WITH_SPLITS is defined.
 */
#ifndef STALLTOP_HELD_H
#define STALLTOP_HELD_H

#include "calls/threads.h"
#include "waits/limits.h"
#include "waits/waits.h"

static void *(*current_task)(void) = (void *)158;          /* bpf_get_current_task_btf */
static void *(*task_registers)(void *task) = (void *)175;  /* bpf_task_pt_regs */

/* Numbers of the system calls that wait for locks. */
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#define CALL_FUTEX 202
#define CALL_FLOCK 73
#define CALL_FCNTL 72
#else
#define CALL_FUTEX 98
#define CALL_FLOCK 32
#define CALL_FCNTL 25
#endif

/* Commands of futex(2) and the flags that are combined with them (linux/futex.h). */
#define COMMAND_WAIT 0
#define COMMAND_WAKE 1
#define COMMAND_LOCK_PI 6
#define COMMAND_WAIT_BITSET 9
#define COMMAND_LOCK_PI2 13
#define COMMANDS 0x7f
#define PRIVATE_FLAG 0x80       /* only threads of one process use the futex */

/*
 * The value that a thread expects in the futex word when it waits for a mutex. For glibc's ordinary mutexes
 * it is 2 (sysdeps/nptl/lowlevellock.h). For robust mutexes it is the holder's TID with the bit for waiters.
 */
#define CONTENDED 2
#define HAS_WAITERS 0x80000000U
/*
 * glibc's read-write locks wait with COMMAND_WAIT_BITSET. The expected value is 3 while a writer holds the lock
 * (1 | PTHREAD_RWLOCK_FUTEX_USED, nptl/pthread_rwlock_common.c), and CONTENDED while readers hold it. Semaphores and
 * conditions use the same command and expect 0. From glibc 2.41 on, and in Rust, conditions expect a number that
 * grows: their first waits, for 2 or 3, are taken for waits for a lock.
 */
#define WRITE_LOCKED 3

#define NO_SYSTEM_CALL (-1)

/* A system call. The members from `third` on have the same order as in struct pt_regs on x86-64. */
struct system_call {
	u64 fourth;             /* only of calls with a time limit (limits.h) */
	u64 third;
	u64 second;
	u64 first;
	s64 number;
};

/*
 * Reads the system call that the current thread is in. The number is NO_SYSTEM_CALL if the thread is in none.
 */
INLINE void current_system_call(struct system_call *call)
{
	void *registers = task_registers(current_task());

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
	if (bpf_probe_read_kernel(&call->third, sizeof(*call) - sizeof(call->fourth),
				  registers + __builtin_offsetof(struct pt_regs, dx)))
		call->number = NO_SYSTEM_CALL;
	if (has_time_limit(call->number))
		READ(call->fourth, registers, __builtin_offsetof(struct pt_regs, r10));
#else
	s32 number = NO_SYSTEM_CALL; /* pt_regs.syscallno, which is not part of the struct that probes get */
	u64 arguments[4] = {};

	bpf_probe_read_kernel(&number, sizeof(number), registers + 280);
	call->number = number;
	if (number == CALL_FUTEX || has_time_limit(number))
		bpf_probe_read_kernel(arguments, sizeof(arguments), registers);
	call->first = arguments[0];
	call->second = arguments[1];
	call->third = arguments[2];
	call->fourth = arguments[3];
#endif
}

/*
 * Returns whether the thread waits for a lock that another thread holds, by the arguments of `call`. Called
 * only for system calls whose waits count as part LOCK.
 */
INLINE u32 is_for_held_lock(const struct system_call *call)
{
	u32 command = call->second & COMMANDS, expected = call->third;

	if (call->number != CALL_FUTEX)
		return call->number == CALL_FLOCK || call->number == CALL_FCNTL;
	if (command == COMMAND_WAIT)
		return expected == CONTENDED || expected & HAS_WAITERS;
	if (command == COMMAND_WAIT_BITSET)
		return expected == CONTENDED || expected == WRITE_LOCKED;
	return command == COMMAND_LOCK_PI || command == COMMAND_LOCK_PI2;
}

INLINE u64 *futex_at(struct thread *thread, u64 index)
{
	WITHIN(index, FUTEXES);
	return &thread->futexes[index];
}

/* Stores that `thread` waits at `futex`, unless this is the futex that was stored last. */
INLINE void remember_futex(struct thread *thread, u64 futex)
{
	u64 next = thread->next_futex;

	if (*futex_at(thread, next - 1) == futex)
		return;
	*futex_at(thread, next) = futex;
	thread->next_futex = next + 1;
}

/* Returns whether `waker` has lately waited at the futex at which `thread` waits now. */
INLINE int took_turns(struct thread *thread, const struct thread *waker)
{
	u64 futex = *futex_at(thread, (u64)thread->next_futex - 1);
	u32 i;

	if (!futex)
		return 0;
#pragma unroll
	for (i = 0; i < FUTEXES; i++)
		if (waker->futexes[i] == futex)
			return 1;
	return 0;
}

#endif
