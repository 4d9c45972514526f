/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What the programs and the monitor share about launches: part of layout.h. */
#ifndef STALLTOP_LAUNCHES_H
#define STALLTOP_LAUNCHES_H

#include <linux/types.h>

#define KERNELS 16384       /* counts by kernel */
#define BUCKETS 128         /* of a kernel's durations: each is 32 counters of a slot; a power of two, with 4 unused */
#define BUCKET_SHIFT 5
#define NAME_BYTES 256      /* kept of a kernel's name, with its end; a multiple of 8 */
#define LIKELY_KERNELS 4096 /* launches told apart before the hash is asked; a power of two */
#define REGISTERED_FUNCTIONS 131072 /* functions of programs whose kernels' names are known; the oldest make room */
#define LOOKED_UP_FUNCTIONS 16384 /* the same of modules */
#define REUSED 4096         /* functions whose address had been another one's */
#define LOOKUPS 4096        /* calls that look up functions, at once */
#define READ_NAMES 1024     /* of these, how many are over and read the name, at once */
#define TOLD_PROGRAMS 8192  /* programs that told of kernels, or launched */

/* Whose launches of what a record counts. No padding: it is a key. */
struct launched {
	__u64 function;         /* as the launching call gets it: a function of the program, or a handle */
	__u64 born_ns;          /* the program's: a slot is of a process id, which may have several programs */
	__u32 slot;             /* the operation's slot + 1; 0 says that the record is free; written last */
	__u32 generation;       /* how often another kernel had this function before */
};

/* Launches of one kernel. */
struct kernel {
	__u64 calls;            /* counted last, but before the slot's */
	__u64 total_ns;
	__u64 errors;
	__u64 max_ns;           /* set back to 0 by the monitor's reads */
	__u64 name_at;          /* where the name lies in the process; 0 where nobody told */
	__u32 name_bytes;       /* known of it, with its end; NAME_BYTES: it may be longer */
	__u32 reserved;
	__u32 counters[BUCKETS];
	char name[NAME_BYTES];
};

/* A program that a process runs. */
struct told_program {
	__u64 born_ns;          /* when it first told of a kernel or launched: tells it from others of its process id */
	__u64 unloads;          /* libraries and modules that it has unloaded since */
};

/* A function of a program. No padding: it is a key. */
struct function_key {
	__u64 function;
	__u64 born_ns;          /* the program's */
};

/* A kernel that a program or a library has brought along, as it says when it is loaded. */
struct registered {
	__u64 name_at;          /* it stays there for as long as it is loaded */
	__u64 unloads;          /* of the program, by then */
};

/* A kernel that the program looked up by its name. */
struct looked_up {
	__u64 name_at;
	__u32 name_bytes;
	__u32 reserved;
	char name[NAME_BYTES];
};

/* A call that looks up a function. No padding: it is a key. */
struct lookup_key {
	__u64 pid_tgid;
	__u64 cookie;
};

/* What such a call was given. */
struct lookup {
	__u64 result_at;        /* where the function will be put */
	__u64 given;            /* where the name is, or the other function */
};

/* How a function tells of kernels: the lower bits of its attach cookie. */
enum naming {
	NAMING_REGISTERS = 1,   /* (handle, function, ..., name) */
	NAMING_UNLOADS = 2,     /* (handle) */
	NAMING_LOOKS_UP = 3,    /* (result, module, name) */
	NAMING_CONVERTS = 4,    /* (result, other function) */
};
#define NAMING_MASK 7

#endif
