/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Defines what host.c and the monitor share. scripts/write_layout.py generates probes/host/layout.py from
 * this header.
 */
#ifndef STALLTOP_HOST_LAYOUT_H
#define STALLTOP_HOST_LAYOUT_H

#include <linux/types.h>

#define HOST_ENTRIES 8192   /* number of elements of each hash */

/* What `lost` counts. */
enum host_loss {
	HOST_DROPPED,           /* events for which a hash had no room */
	HOST_FORGOTTEN,         /* events whose begin an LRU hash has forgotten, or that began before the programs ran */
	HOST_ACTIVE,            /* elements that were added to `active` */
	HOST_LOSSES
};

/* Identifies who submitted requests, to which disk, and in which direction. */
struct io_key {
	__u64 cgroup_id;
	__u32 tgid;             /* 0: a kernel thread; cgroup_id is what the block controller charges */
	__u32 device;           /* the whole disk (not a partition): major << 20 | minor */
	__u32 write;
	__u32 reserved;
};

/* The completed requests of one struct io_key. */
struct io {
	__u64 requests;
	__u64 bytes;
	__u64 queued_ns;        /* time from the submission until the hand-over to the device, summed */
	__u64 service_ns;       /* time from the hand-over to the device until the requests completed, summed */
	__u64 max_ns;           /* the longest time of one request, from submission to completion */
	__u64 idle_ns;          /* of kernel threads' requests: time since the previous one for the cgroup, summed */
};

/* A process in a cgroup. */
struct user {
	__u64 cgroup_id;
	__u32 tgid;
	__u32 reserved;
};

/* Events of the processes of one struct user. */
struct use {
	__u64 reclaims;
	__u64 reclaim_ns;
	__u64 forks;            /* number of processes that this process began */
	__u64 execs;            /* if user.tgid is 0: by all processes of the cgroup; else: use_of_child() */
	__u64 exits;            /* processes that ended, counted like execs */
};

/* A socket. */
struct socket_key {
	__u64 inode;            /* 0: no process has the socket any more */
	__u32 family;           /* 4 or 6, by the IP version on the wire */
	__u32 reserved;
};

/* A process that was killed for lack of memory. */
struct victim_key {
	__u32 pid;
	__u32 reserved;
};

/* Facts about a process that was killed for lack of memory. */
struct victim {
	__u64 time_ns;          /* CLOCK_MONOTONIC */
	__u64 cgroup_id;        /* v2 */
	char name[16];
};

/* Identifies what was stopped: a process by a signal, or a cgroup (v2) by its freezer. */
struct stop_key {
	__u64 cgroup_id;        /* 0 if the key is a process */
	__u32 tgid;             /* 0 if the key is a cgroup */
	__u32 reserved;
};

/* The process that last stopped a process or a cgroup. */
struct stop {
	__u64 time_ns;          /* CLOCK_MONOTONIC */
	__u64 cgroup_id;        /* cgroup of the process that sent the signal or froze the cgroup */
	__u32 tgid;             /* PID of that process; 0: not known, or the Linux kernel for a terminal's signal */
	__u32 signal;           /* number of the signal; 0: the cgroup was frozen */
	char name[16];          /* name of the thread that sent the signal or froze the cgroup */
};

#define MADE_CGROUPS 2048       /* maximum number of cgroups that are made between two reads */

/* Where a cgroup of v2 is, as in /proc/PID/cgroup. Those of pods have some 200 characters. */
struct cgroup_path {
	char text[384];
};

#endif
