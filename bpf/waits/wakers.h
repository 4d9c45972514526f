/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Lists the system calls that can wake another thread, and which kinds of wait each of them can end. The
 * current task is not always the waker of a thread: an interrupt may have woken the thread while the task had
 * the CPU. So the current task counts as the waker only if its system call can end that kind of wait.
 */
#ifndef STALLTOP_WAKERS_H
#define STALLTOP_WAKERS_H

#include "waits/waits.h"

#define PART(part) (1U << (part))
#define BY_LOCKS (PART(LOCK) | PART(OTHER))
#define BY_DATA (PART(PROCESS) | PART(NETWORK) | PART(OTHER))
#define BY_SIGNAL (PART(PROCESS) | PART(OTHER))
/*
 * The parts of waits that an exiting task can end: it releases locks, pipes and sockets, and its parent may
 * wait for its end. No task ends waits of other parts.
 */
#define BY_ANY (PART(LOCK) | PART(PROCESS) | PART(NETWORK) | PART(OTHER))

/*
 * CALL(name, number on x86-64, number on aarch64, parts whose waits the call can end). A read can end the
 * wait of a writer, because the read frees space. A close ends waits for data and for file locks.
 */
#define COMMON_WAKING_CALLS(CALL)                 \
	CALL(futex, 202, 98, BY_LOCKS)            \
	CALL(flock, 73, 32, BY_LOCKS)             \
	CALL(fcntl, 72, 25, BY_LOCKS)             \
	CALL(semop, 65, 193, BY_LOCKS)            \
	CALL(semctl, 66, 191, BY_LOCKS)           \
	CALL(semtimedop, 220, 192, BY_LOCKS)      \
	CALL(read, 0, 63, BY_DATA)                \
	CALL(write, 1, 64, BY_DATA)               \
	CALL(readv, 19, 65, BY_DATA)              \
	CALL(writev, 20, 66, BY_DATA)             \
	CALL(splice, 275, 76, BY_DATA)            \
	CALL(vmsplice, 278, 75, BY_DATA)          \
	CALL(tee, 276, 77, BY_DATA)               \
	CALL(sendfile, 40, 71, BY_DATA)           \
	CALL(connect, 42, 203, BY_DATA)           \
	CALL(accept, 43, 202, BY_DATA)            \
	CALL(accept4, 288, 242, BY_DATA)          \
	CALL(sendto, 44, 206, BY_DATA)            \
	CALL(recvfrom, 45, 207, BY_DATA)          \
	CALL(sendmsg, 46, 211, BY_DATA)           \
	CALL(recvmsg, 47, 212, BY_DATA)           \
	CALL(sendmmsg, 307, 269, BY_DATA)         \
	CALL(recvmmsg, 299, 243, BY_DATA)         \
	CALL(shutdown, 48, 210, BY_DATA)          \
	CALL(msgsnd, 69, 189, BY_DATA)            \
	CALL(msgrcv, 70, 188, BY_DATA)            \
	CALL(mq_timedsend, 242, 182, BY_DATA)     \
	CALL(mq_timedreceive, 243, 183, BY_DATA)  \
	CALL(close, 3, 57, BY_ANY)                \
	CALL(dup3, 292, 24, BY_ANY)               \
	CALL(kill, 62, 129, BY_SIGNAL)            \
	CALL(tkill, 200, 130, BY_SIGNAL)          \
	CALL(tgkill, 234, 131, BY_SIGNAL)         \
	CALL(rt_sigqueueinfo, 129, 138, BY_SIGNAL) \
	CALL(ptrace, 101, 117, BY_SIGNAL)         \
	CALL(execve, 59, 221, BY_ANY)             \
	CALL(execveat, 322, 281, BY_ANY)          \
	CALL(exit, 60, 93, BY_ANY)                \
	CALL(exit_group, 231, 94, BY_ANY)

/* Calls that exist only on x86-64. */
#define X86_WAKING_CALLS(CALL)                    \
	CALL(dup2, 33, -1, BY_ANY)

/* Calls that some C libraries do not know yet. Their numbers are the same on both machines. */
#define NEW_WAKING_CALLS(CALL)                    \
	CALL(pidfd_send_signal, 424, 424, BY_SIGNAL) \
	CALL(io_uring_enter, 426, 426, BY_DATA)   \
	CALL(close_range, 436, 436, BY_ANY)       \
	CALL(futex_wake, 454, 454, BY_LOCKS)      \
	CALL(futex_requeue, 456, 456, BY_LOCKS)

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#define WAKING_CASE(name, x86, arm, parts) \
	case x86:                          \
		return parts;
#else
#define WAKING_CASE(name, x86, arm, parts) \
	case arm:                          \
		return parts;
#endif

/* Returns the parts whose waits system call `number` can end, one bit for each part. */
static inline __attribute__((always_inline)) __u32 can_wake(__s64 number)
{
	switch (number) {
	COMMON_WAKING_CALLS(WAKING_CASE)
	NEW_WAKING_CALLS(WAKING_CASE)
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
	X86_WAKING_CALLS(WAKING_CASE)
#endif
	}
	return 0;
}

#endif
