/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What host.c and the monitor share. scripts/write_layout.py writes probes/host/layout.py from this header. */
#ifndef STALLTOP_HOST_LAYOUT_H
#define STALLTOP_HOST_LAYOUT_H

#include <linux/types.h>

#define HOST_ENTRIES 8192   /* elements of each hash */

/* Whose requests, to which disk, which way. */
struct io_key {
	__u64 cgroup_id;
	__u32 tgid;             /* 0: a kernel thread; cgroup_id is that of the block controller */
	__u32 device;           /* of the whole disk: major << 20 | minor */
	__u32 write;
	__u32 reserved;
};

/* Requests that were done. */
struct io {
	__u64 requests;
	__u64 bytes;
	__u64 queued_ns;        /* from submission until the device got them */
	__u64 service_ns;       /* from then until they were complete */
	__u64 max_ns;           /* the longest sum of both */
	__u64 idle_ns;          /* requests of kernel threads: time in which the cgroup had none under way */
};

/* A process in a cgroup. */
struct user {
	__u64 cgroup_id;
	__u32 tgid;
	__u32 reserved;
};

/* What it did, and what was done to it. */
struct use {
	__u64 reclaims;
	__u64 reclaim_ns;
	__u64 forks;            /* by the process */
	__u64 execs;            /* by its children; the same is true of exits */
	__u64 exits;
};

/* A socket. */
struct socket_key {
	__u64 inode;            /* 0: no process has it any more */
	__u32 family;           /* 4 or 6, by the IP version on the wire */
	__u32 reserved;
};

/* A process that was killed for lack of memory. */
struct victim_key {
	__u32 pid;
	__u32 reserved;
};

/* What is known of it. */
struct victim {
	__u64 time_ns;          /* CLOCK_MONOTONIC */
	__u64 cgroup_id;        /* v2 */
	char name[16];
};

/* What is stopped: a process by a signal, or a cgroup of v2 by its freezer. */
struct stop_key {
	__u64 cgroup_id;        /* 0: a process */
	__u32 tgid;             /* 0: a cgroup */
	__u32 reserved;
};

/* Who stopped it last. */
struct stop {
	__u64 time_ns;          /* CLOCK_MONOTONIC */
	__u64 cgroup_id;        /* of the process that did it */
	__u32 tgid;             /* that process; 0: the Linux kernel did it, for a terminal */
	__u32 signal;           /* its number; 0: the freezer */
	char name[16];          /* of the thread that did it */
};

#endif
