/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Structs and constants of launches that the BPF programs and the monitor share. layout.h includes this header. */
#ifndef STALLTOP_LAUNCHES_H
#define STALLTOP_LAUNCHES_H

#include <linux/types.h>

#define KERNELS 16384       /* maximum number of records that count launches by CUDA kernel */
#define BUCKETS 128         /* buckets of a CUDA kernel's histogram, of 32 counters each; a power of two */
#define BUCKET_SHIFT 5      /* log2 of the number of counters in a bucket */
#define NAME_BYTES 256      /* maximum size of a stored name of a CUDA kernel, with its zero byte; a multiple of 8 */
#define LIKELY_KERNELS 4096 /* elements of likely_kernel, which saves most hash look-ups; a power of two */
#define REGISTERED_FUNCTIONS 131072 /* maximum number of registered functions; the oldest are evicted */
#define LOOKED_UP_FUNCTIONS 16384 /* maximum number of looked-up functions; the oldest are evicted */
#define REUSED 4096         /* maximum number of functions that belonged to another CUDA kernel before */
#define LOOKUPS 4096        /* maximum number of calls that are looking up functions at the same time */
#define READ_NAMES 1024     /* maximum number of names that look-ups read at the same time */
#define TOLD_PROGRAMS 8192  /* maximum number of programs that registered, looked up or launched CUDA kernels */

/* Identifies the launches that one record counts. No padding: it is a key. */
struct launched {
	__u64 function;         /* function or handle that the call launches, as passed to the call */
	__u64 born_ns;          /* born_ns of the program: a PID may run several programs in turn */
	__u32 slot;             /* the operation's slot + 1; 0 means that the record is free; written last */
	__u32 generation;       /* number of other CUDA kernels to which this function belonged before */
};

/* Launches of one CUDA kernel. */
struct kernel {
	__u64 total_ns;
	__u64 errors;
	__u64 max_ns;           /* reset to 0 by the monitor's reads */
	__u64 name_at;          /* address of the name in the process; 0 if the program never named it */
	__u32 name_bytes;       /* known bytes of the name and its zero byte; if it is NAME_BYTES, the name may be longer */
	__u32 slot;             /* this and the next two members: those of struct launched, next to the counts */
	__u64 function;
	__u64 born_ns;
	__u32 counters[BUCKETS];
	char name[NAME_BYTES];
};

/* The program that a process runs. */
struct told_program {
	__u64 born_ns;          /* when the program first named or launched a CUDA kernel: identifies the program */
	__u64 unloads;          /* calls of __cudaUnregisterFatBinary since then (made when a library is unloaded) */
};

/* A function of a program. No padding: it is a key. */
struct function_key {
	__u64 function;
	__u64 born_ns;          /* born_ns of the program's struct told_program */
};

/* A CUDA kernel that a program or a library registered when it was loaded. */
struct registered {
	__u64 name_at;          /* address of the name; valid while the library or program is loaded */
	__u64 unloads;          /* `unloads` of the program when the CUDA kernel was registered */
};

/* A CUDA kernel that the program looked up by its name. */
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

/* Arguments of a call that looks up a function, stored until the call returns. */
struct lookup {
	__u64 result_at;        /* address at which the call will write the function */
	__u64 given;            /* address of the name; for NAMING_CONVERTS, the function or handle to convert */
};

/*
 * How a traced function names CUDA kernels. The lower bits of its attach cookie hold this value. The traced
 * function's arguments are in parentheses.
 */
enum naming {
	NAMING_REGISTERS = 1,   /* registers a function with its name: (handle, function, ..., name) */
	NAMING_UNLOADS = 2,     /* unloads registered functions: (handle) */
	NAMING_LOOKS_UP = 3,    /* looks up a function by its name: (result, module, name) */
	NAMING_CONVERTS = 4,    /* converts a function or handle of a CUDA kernel: (result, other function) */
};
#define NAMING_MASK 7

#endif
