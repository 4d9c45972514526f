/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Finds what a thread that left the CPU inside a system call waits for, by the number of that call. */
#ifndef STALLTOP_WAITS_H
#define STALLTOP_WAITS_H

#include <linux/types.h>

/*
 * The parts into which the time of a call is split. They are the columns of split_ns, with the names of
 * model.window.SPLITS.
 */
enum part {
	RUNNING = 0,
	RUNQUEUE = 1,
	DISK = 2,
	MEMORY = 3,
	LOCK = 4,
	GPU = 5,
	NETWORK = 6,
	PROCESS = 7,
	SLEEP = 8,
	OTHER = 9,
	POLLING = 10,   /* not a column: becomes GPU in a call of the runtime or driver, else NETWORK */
};

/*
 * CALL(name, number on x86-64, number on aarch64, part if asleep, part in uninterruptible sleep). A read or
 * write whose sleep can be interrupted waits for the other end of a pipe, socket or terminal. A read or write
 * in uninterruptible sleep waits for a block device. The numbers are those of asm/unistd_64.h and
 * asm-generic/unistd.h.
 */
#define COMMON_CALLS(CALL)                                     \
	CALL(futex, 202, 98, LOCK, LOCK)                       \
	CALL(flock, 73, 32, LOCK, LOCK)                        \
	CALL(fcntl, 72, 25, LOCK, LOCK)                        \
	CALL(semop, 65, 193, LOCK, LOCK)                       \
	CALL(semtimedop, 220, 192, LOCK, LOCK)                 \
	CALL(ioctl, 16, 29, GPU, GPU)                          \
	CALL(ppoll, 271, 73, POLLING, POLLING)                 \
	CALL(pselect6, 270, 72, POLLING, POLLING)              \
	CALL(epoll_pwait, 281, 22, NETWORK, NETWORK)           \
	CALL(connect, 42, 203, NETWORK, NETWORK)               \
	CALL(accept, 43, 202, NETWORK, NETWORK)                \
	CALL(accept4, 288, 242, NETWORK, NETWORK)              \
	CALL(sendto, 44, 206, NETWORK, NETWORK)                \
	CALL(recvfrom, 45, 207, NETWORK, NETWORK)              \
	CALL(sendmsg, 46, 211, NETWORK, NETWORK)               \
	CALL(recvmsg, 47, 212, NETWORK, NETWORK)               \
	CALL(recvmmsg, 299, 243, NETWORK, NETWORK)             \
	CALL(sendmmsg, 307, 269, NETWORK, NETWORK)             \
	CALL(wait4, 61, 260, PROCESS, PROCESS)                 \
	CALL(waitid, 247, 95, PROCESS, PROCESS)                \
	CALL(clone, 56, 220, PROCESS, PROCESS)                 \
	CALL(msgsnd, 69, 189, PROCESS, PROCESS)                \
	CALL(msgrcv, 70, 188, PROCESS, PROCESS)                \
	CALL(mq_timedsend, 242, 182, PROCESS, PROCESS)         \
	CALL(mq_timedreceive, 243, 183, PROCESS, PROCESS)      \
	CALL(rt_sigsuspend, 130, 133, PROCESS, PROCESS)        \
	CALL(rt_sigtimedwait, 128, 137, PROCESS, PROCESS)      \
	CALL(nanosleep, 35, 101, SLEEP, SLEEP)                 \
	CALL(clock_nanosleep, 230, 115, SLEEP, SLEEP)          \
	CALL(read, 0, 63, PROCESS, DISK)                       \
	CALL(write, 1, 64, PROCESS, DISK)                      \
	CALL(readv, 19, 65, PROCESS, DISK)                     \
	CALL(writev, 20, 66, PROCESS, DISK)                    \
	CALL(splice, 275, 76, PROCESS, DISK)                   \
	CALL(vmsplice, 278, 75, PROCESS, DISK)                 \
	CALL(sendfile, 40, 71, NETWORK, DISK)                  \
	CALL(pread64, 17, 67, DISK, DISK)                      \
	CALL(pwrite64, 18, 68, DISK, DISK)                     \
	CALL(preadv, 295, 69, DISK, DISK)                      \
	CALL(pwritev, 296, 70, DISK, DISK)                     \
	CALL(copy_file_range, 326, 285, DISK, DISK)            \
	CALL(fsync, 74, 82, DISK, DISK)                        \
	CALL(fdatasync, 75, 83, DISK, DISK)                    \
	CALL(sync, 162, 81, DISK, DISK)                        \
	CALL(syncfs, 306, 267, DISK, DISK)                     \
	CALL(sync_file_range, 277, 84, DISK, DISK)             \
	CALL(fallocate, 285, 47, DISK, DISK)                   \
	CALL(truncate, 76, 45, DISK, DISK)                     \
	CALL(ftruncate, 77, 46, DISK, DISK)                    \
	CALL(readahead, 187, 213, DISK, DISK)                  \
	CALL(io_submit, 209, 2, DISK, DISK)                    \
	CALL(io_getevents, 208, 4, DISK, DISK)                 \
	CALL(openat, 257, 56, DISK, DISK)                      \
	CALL(close, 3, 57, DISK, DISK)                         \
	CALL(getdents64, 217, 61, DISK, DISK)                  \
	CALL(newfstatat, 262, 79, DISK, DISK)                  \
	CALL(statx, 332, 291, DISK, DISK)                      \
	CALL(faccessat, 269, 48, DISK, DISK)                   \
	CALL(readlinkat, 267, 78, DISK, DISK)                  \
	CALL(mkdirat, 258, 34, DISK, DISK)                     \
	CALL(unlinkat, 263, 35, DISK, DISK)                    \
	CALL(renameat2, 316, 276, DISK, DISK)                  \
	CALL(execve, 59, 221, DISK, DISK)                      \
	CALL(mmap, 9, 222, MEMORY, MEMORY)                     \
	CALL(munmap, 11, 215, MEMORY, MEMORY)                  \
	CALL(mprotect, 10, 226, MEMORY, MEMORY)                \
	CALL(mremap, 25, 216, MEMORY, MEMORY)                  \
	CALL(madvise, 28, 233, MEMORY, MEMORY)                 \
	CALL(brk, 12, 214, MEMORY, MEMORY)                     \
	CALL(mlock, 149, 228, MEMORY, MEMORY)                  \
	CALL(mbind, 237, 235, MEMORY, MEMORY)                  \
	CALL(move_pages, 279, 239, MEMORY, MEMORY)             \
	CALL(msync, 26, 227, DISK, DISK)

/* Calls that exist only on x86-64. */
#define X86_CALLS(CALL)                                        \
	CALL(poll, 7, -1, POLLING, POLLING)                    \
	CALL(select, 23, -1, POLLING, POLLING)                 \
	CALL(epoll_wait, 232, -1, NETWORK, NETWORK)            \
	CALL(vfork, 58, -1, PROCESS, PROCESS)                  \
	CALL(pause, 34, -1, PROCESS, PROCESS)                  \
	CALL(open, 2, -1, DISK, DISK)                          \
	CALL(creat, 85, -1, DISK, DISK)                        \
	CALL(stat, 4, -1, DISK, DISK)                          \
	CALL(lstat, 6, -1, DISK, DISK)                         \
	CALL(access, 21, -1, DISK, DISK)                       \
	CALL(readlink, 89, -1, DISK, DISK)                     \
	CALL(mkdir, 83, -1, DISK, DISK)                        \
	CALL(unlink, 87, -1, DISK, DISK)                       \
	CALL(rename, 82, -1, DISK, DISK)

/*
 * Calls that some C libraries do not know yet. Their numbers are the same on both machines, except for the
 * first two.
 */
#define NEW_CALLS(CALL)                                        \
	CALL(preadv2, 327, 286, DISK, DISK)                    \
	CALL(pwritev2, 328, 287, DISK, DISK)                   \
	CALL(io_uring_enter, 426, 426, DISK, DISK)             \
	CALL(clone3, 435, 435, PROCESS, PROCESS)               \
	CALL(epoll_pwait2, 441, 441, NETWORK, NETWORK)         \
	CALL(futex_waitv, 449, 449, LOCK, LOCK)                \
	CALL(futex_wait, 455, 455, LOCK, LOCK)

/*
 * The calls above that return only when the data is on the device, as CALL(number on x86-64, number on
 * aarch64).
 */
#define SYNC_CALLS(CALL)        \
	CALL(74, 82)   /* fsync */           \
	CALL(75, 83)   /* fdatasync */       \
	CALL(162, 81)  /* sync */            \
	CALL(306, 267) /* syncfs */          \
	CALL(277, 84)  /* sync_file_range */ \
	CALL(26, 227)  /* msync */

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#define SYNC_CASE(x86, arm) case x86:
#define WAIT_CASE(name, x86, arm, asleep, blocked) \
	case x86:                                  \
		return uninterruptible ? blocked : asleep;
#else
#define SYNC_CASE(x86, arm) case arm:
#define WAIT_CASE(name, x86, arm, asleep, blocked) \
	case arm:                                  \
		return uninterruptible ? blocked : asleep;
#endif

/* Returns what a thread waits for in system call `number`: an enum part. */
static inline __attribute__((always_inline)) __u32 waits_for(__s64 number, __u32 uninterruptible)
{
	switch (number) {
	COMMON_CALLS(WAIT_CASE)
	NEW_CALLS(WAIT_CASE)
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
	X86_CALLS(WAIT_CASE)
#endif
	}
	return OTHER;
}

/* Returns whether system call `number` returns only once data is on the device. */
static inline __attribute__((always_inline)) __u32 is_sync(__s64 number)
{
	switch (number) {
	SYNC_CALLS(SYNC_CASE)
		return 1;
	}
	return 0;
}

#endif
