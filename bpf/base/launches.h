/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Structs and constants of launches that the BPF programs and the monitor share. layout.h includes this header. */
#ifndef STALLTOP_LAUNCHES_H
#define STALLTOP_LAUNCHES_H

#include <linux/types.h>

#define KERNELS 16384       /* maximum number of records that count launches by CUDA kernel */
#define BUCKETS 128         /* buckets of a CUDA kernel's histogram, one for 32 counters of a slot; a power of two */
#define BUCKET_SHIFT 5      /* log2 of the number of counters in a bucket */
#define NAME_BYTES 256      /* bytes kept of a CUDA kernel's name, with its zero byte; a multiple of 8 */
#define LIKELY_KERNELS 4096 /* elements of likely_kernel, which mostly saves a look-up in a hash; a power of two */
#define REGISTERED_FUNCTIONS 131072 /* maximum number of registered functions, of all programs; the oldest are evicted */
#define LOOKED_UP_FUNCTIONS 16384 /* maximum number of functions that programs looked up; the oldest are evicted */
#define REUSED 4096         /* maximum number of functions known to have belonged to another CUDA kernel before */
#define LOOKUPS 4096        /* maximum number of calls under way that look up functions */
#define READ_NAMES 1024     /* maximum number of names that are read at the same time when look-ups return */
#define TOLD_PROGRAMS 8192  /* maximum number of programs that registered, looked up or launched CUDA kernels */

/* Which launches a record counts. No padding: it is a key. */
struct launched {
	__u64 function;         /* as the launching call gets it: a function of the program, or a handle */
	__u64 born_ns;          /* born_ns of the program: a slot belongs to a PID, which may run several in turn */
	__u32 slot;             /* the operation's slot + 1; 0 means that the record is free; written last */
	__u32 generation;       /* how many other CUDA kernels had this function before */
};

/* Launches of one CUDA kernel. */
struct kernel {
	__u64 calls;            /* incremented after the other fields, and before `calls` of the slot */
	__u64 total_ns;
	__u64 errors;
	__u64 max_ns;           /* reset to 0 by the monitor's reads */
	__u64 name_at;          /* address of the name in the process; 0 if the program never named it */
	__u32 name_bytes;       /* known bytes of the name and its zero byte; if it is NAME_BYTES, the name may be longer */
	__u32 reserved;
	__u32 counters[BUCKETS];
	char name[NAME_BYTES];
};

/* A program that a process runs. */
struct told_program {
	__u64 born_ns;          /* when the program first named or launched a CUDA kernel: identifies the program */
	__u64 unloads;          /* number of libraries and modules that the program has unloaded since */
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

/* Arguments of a call that looks up a function. */
struct lookup {
	__u64 result_at;        /* address where the function will be written */
	__u64 given;            /* address of the name; for NAMING_CONVERTS the function or handle that is converted */
};

/* How a traced function names CUDA kernels: the lower bits of its attach cookie. In parentheses: its arguments. */
enum naming {
	NAMING_REGISTERS = 1,   /* registers a function with its name: (handle, function, ..., name) */
	NAMING_UNLOADS = 2,     /* unloads registered functions: (handle) */
	NAMING_LOOKS_UP = 3,    /* looks up a function by its name: (result, module, name) */
	NAMING_CONVERTS = 4,    /* returns another handle or function of a CUDA kernel: (result, other function) */
};
#define NAMING_MASK 7

#endif
