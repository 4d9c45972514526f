/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the programs and the monitor share through mapped memory. scripts/write_layout.py writes probes/layout.py
 * from this header: structs have no padding, and what a comment says is said there too.
 */
#ifndef STALLTOP_LAYOUT_H
#define STALLTOP_LAYOUT_H

#include <linux/types.h>
#include "launches.h"

#define COUNTERS 3968       /* of one histogram: see hdr.h */
#define SPLITS 10           /* where the time of a call can go */
#define DEPTH 16            /* traced calls that a thread can be inside of at once; a power of two */
#define CACHED 16           /* slots that a thread remembers; a power of two */
#define ARGUMENTS 8         /* argument registers kept at entry; a power of two */
#define TOLD 6              /* of these, kept until the call returns */
#define LIKELY_THREADS 4096 /* thread ids told apart before the hash is asked; a power of two */
#define FUNCTIONS 2048      /* attach cookies */
#define KINDS 5             /* values of cudaMemcpyKind, 0 to 4 */
#define CHARGES 8192        /* sums of time that another process is the cause of */
#define SLICES 64           /* of time on a CPU that are remembered for each CPU; a power of two */
#define HEAPS 1024          /* processes whose device memory is followed */
#define ALLOCATIONS 65536   /* pieces of device memory known at once */
#define MEMBERS 1024        /* ranks of NCCL communicators known at once */
#define ACTIVITIES 1024     /* pairs of a process and a device whose activity is known */
#define TICK_SHIFT 20       /* activity is told by ticks of 2 to its power, in ns: 1.05 ms */
#define TICKS 4096          /* the last ones are remembered: 4.3 s; a power of two */
#define SPAN 64             /* of these, what is remembered together in long calls; a power of two */
#define LAP 0x8000          /* set in what is remembered, so that it is never 0 */
#define ENTRIES 256         /* of a rank into collectives, the last ones; a power of two */
#define NESTED 0x8000       /* set in the operation of a call made inside another traced call */
#define HOST_GAP 510        /* operation: a thread's time between two outermost calls */
#define HOST_WORK 511       /* operation: a followed thread's time between two wake-ups that it gives */
#define DEVICE_SHIFT 16     /* of an operation's word: the device of the calls lies above, as in struct thread */
#define UNKNOWN_DEVICE 255  /* the thread has chosen one, but it is not known which */
#define PROGRAM_DEVICES 16  /* of a program, whose UUIDs are known; a power of two */
#define UUID_BYTES 16
#define CONTEXTS 16         /* below a thread's current one whose devices are remembered; a power of two */
#define FILLED_AT_ONCE 256  /* free elements put into a queue by one run: the verifier follows that loop to its end */
#define LONGEST_GAP_NS 60000000000ULL /* a longer one is not counted: the program is idle */

/* The counts of one operation of one process in one cgroup. 16,384 bytes. */
struct slot {
	__u64 calls;            /* counted last: a rise says that there is something to read */
	__u64 total_ns;
	__u64 errors;           /* calls that returned something else than success */
	__u64 bytes;            /* of the calls that succeeded */
	__u64 max_ns;           /* set back to 0 by the monitor's reads */
	__u64 slow_ns;          /* calls of this length or more are slow; set by the monitor, 0 until then */
	__u64 sample_at;        /* when `calls` is there, the next call is taken at random */
	__u64 passed_over;      /* slow calls that were not kept one by one */
	__u64 last_error;       /* what the last failed call returned */
	__u64 clamped;          /* calls longer than the histogram tells apart */
	__u64 split_ns[SPLITS]; /* that of running is left to the monitor: total_ns less the others */
	__u64 kept_since_ns;    /* CLOCK_MONOTONIC */
	__u64 kept;             /* slow calls kept one by one since then */
	__u64 sample_every;     /* calls, on average; set by the monitor, 0 until then */
	__u64 reserved[41];
	__u32 counters[COUNTERS];
};

/* Whose counts a slot holds. One for each slot, by the same index. */
struct owner {
	__u64 cgroup_id;
	__u32 tgid;
	__u32 operation;        /* with NESTED; 0 says that the slot is free; written last */
};

/* Whose counts a slot holds, as the key by which it is found. */
struct slot_key {
	__u64 cgroup_id;
	__u32 tgid;
	__u32 operation;
};

/* One call that a thread is inside of. */
struct frame {
	__u64 sp;               /* the stack pointer at the function's first instruction */
	__u64 start_ns;         /* CLOCK_MONOTONIC */
	__u64 bytes;
	__u32 function;         /* attach cookie */
	__u32 operation;        /* with NESTED */
	__u64 object;           /* what the call makes or frees, as enum object says; 0 where it does not */
	__u64 kept;             /* of a call that frees: the bytes; of an outermost launch: the function, else 0 */
	__u64 arguments[TOLD];
};

/* Where the calls of one operation are counted. */
struct cached_slot {
	__u32 operation;        /* with NESTED; 0 where there is none */
	__u32 slot;
};

/* A thread that has made a traced call, or is followed. Besides itself, only who wakes or moves it writes it. */
struct thread {
	__u32 tid;              /* the kernel's own number; 0 says that the record is free */
	__u32 tgid;             /* as the monitor knows it, as everywhere else here */
	__u64 cgroup_id;        /* at its last outermost call */
	__u32 depth;            /* frames in use; a frame is complete before depth counts it */
	__u32 shown_tid;        /* as the monitor knows it */
	__u64 ended_ns;         /* of a free record with depth: when its thread ended inside of these calls */
	__u32 ended_tgid;       /* and whose thread it was */
	__u32 index;            /* of this record, in all arrays that have an element for each thread */
	__u64 off_since_ns;     /* when it left the CPU; 0 while it is on it */
	__u64 woken_ns;         /* when it was woken since; 0 while it was not */
	__u32 off_for;          /* enum part: why it left */
	__u32 off_levels;       /* bit n: level n of its struct off_cpu holds something */
	__u64 gap_ns;           /* when its host gap or host work began; 0 where that is not known */
	__u64 waiting_ns;       /* since when it waits for `cpu`; 0 while it does not */
	__u32 gap_slot;         /* where its gaps are counted; NO_SLOT where that is not known */
	__u32 cpu;              /* where it ran last, or waits */
	__u32 link;             /* 0: makes calls; 1: wakes one that does; 2, 3: wakes one of the link before */
	__u32 follows;          /* tid of the thread that it is followed for, where link is above 0 */
	__u32 scratch;          /* for forgotten() */
	__u8 device;            /* that its calls go to: ordinal + 1, UNKNOWN_DEVICE; 0: it may never have chosen */
	__u8 device_decided;    /* 0: what its calls go to without a choice of its own was not looked for yet */
	__u16 contexts_below;   /* the current one, on the driver's stack of contexts */
	__u64 born_ns;          /* of the program that it runs, as struct told_program has it; 0: not looked for yet */
	__u64 context;          /* the current one's handle, where the thread chose that by the driver; else 0 */
	__u8 devices_below[CONTEXTS]; /* those of the contexts below, as `device` */
	__u32 activity;         /* index of the struct activity found last */
	__u32 choices;          /* calls that choose a device, by all threads that ever had this record */
	__u8 runtime_device;    /* that it chose by the runtime, as `device`; 0: none */
	__u8 reserved[7];
	__u64 arguments[ARGUMENTS];
	struct cached_slot cached[CACHED];
	struct frame frames[DEPTH];
};

/* Whether the monitor saw how a program began with CUDA. */
enum watched {
	WATCHED_UNKNOWN = 0,    /* it has not called yet */
	WATCHED_BEGIN = 1,      /* the first that was seen of it was that it makes CUDA ready */
	WATCHED_LATE = 2,       /* it had done so before */
};

/* Whether a program has ended. */
enum over {
	OVER_NOT = 0,
	OVER_FIRST_THREAD = 1,  /* its first thread has: others may go on */
	OVER_ALL = 2,           /* its process runs another one */
};

/* What a program knows of its devices. */
struct cuda_program {
	__u64 born_ns;          /* when it was first seen: tells it from others of its process id */
	__u32 watched;          /* enum watched */
	__u32 over;             /* enum over */
	__u8 uuid_known[PROGRAM_DEVICES]; /* by ordinal; written last */
	__u8 uuids[PROGRAM_DEVICES][UUID_BYTES];
};

/* A context of a program. No padding: it is a key. */
struct context_key {
	__u64 context;
	__u64 born_ns;          /* the program's */
};

/* A call that chooses a device. No padding: it is a key. */
struct choice_key {
	__u64 pid_tgid;
	__u64 cookie;
};

/* What such a call was given. */
struct choice {
	__u64 first;            /* the first argument: a context, where one is put, or an ordinal */
	__u64 device;           /* the ordinal, of a call that makes a context or tells a UUID */
};

/* How a function chooses a device: the lower bits of its attach cookie. */
enum choosing {
	CHOOSING_BEGINS = 1,        /* makes CUDA ready */
	CHOOSING_SETS_DEVICE = 2,   /* (ordinal) */
	CHOOSING_CREATES_2 = 3,     /* (context, ...): the ordinal is argument 2; the next two: 3 and 4 */
	CHOOSING_CREATES_3 = 4,
	CHOOSING_CREATES_4 = 5,
	CHOOSING_RETAINS = 6,       /* (context, ordinal) */
	CHOOSING_DESTROYS = 7,      /* (context) */
	CHOOSING_PUSHES = 8,        /* (context) */
	CHOOSING_POPS = 9,          /* () */
	CHOOSING_SETS_CONTEXT = 10, /* (context) */
	CHOOSING_TELLS = 11,        /* (ordinal of the current context) */
	CHOOSING_TELLS_UUID = 12,   /* (UUID, ordinal) */
	CHOOSING_TELLS_GPU = 13,    /* the same, but of the whole GPU where the device is a part of one */
};
#define CHOOSING_MASK 15

/* Time of a thread off the CPU, by enum part: level 0 is since its last call, level n inside its nth frame. */
struct off_cpu {
	__u64 outside[SPLITS];
	__u64 inside[DEPTH][SPLITS];
};

/* Whose time off the CPU, and who is the cause of it: no padding. */
struct charge_key {
	__u64 cgroup_id;
	__u64 culprit_cgroup_id;
	__u32 tgid;
	__u32 culprit_tgid;     /* 0: the kernel, or a process that the monitor cannot know */
	__u32 operation;        /* of the outermost call, HOST_GAP or HOST_WORK */
	__u32 part;             /* enum part */
};

/* A sum of that time. */
struct charge {
	struct charge_key key;
	__u64 ns;
	__u64 times;            /* counted last */
};

/* Time that one task had a CPU without a break. */
struct slice {
	__u64 start_ns;
	__u64 end_ns;
	__u64 cgroup_id;
	__u32 tgid;
	__u32 reserved;
};

/* Who had one CPU while threads with a record waited for it: the newest slice lies before `next`. */
struct cpu {
	__u64 waiting;          /* threads with a record that wait for it */
	__u64 since_ns;         /* when the task that has it now got it; 0: before any of them waited */
	__u64 task;             /* that task's address in the kernel */
	__u64 next;
	struct slice slices[SLICES];
};

/* Which record a thread has, by the last digits of its id. */
struct likely {
	__u32 thread;           /* index of the record found last */
	__u32 records;          /* threads with these digits that have one: mostly 0, and the search is over */
};

/* How to read a call of one function. */
struct function {
	__u32 operation;        /* 0 says that the cookie is not in use */
	__u32 pending;          /* a return value besides 0 that is no error; 0 where there is none */
	__u8 size;              /* enum size */
	__u8 a;
	__u8 b;
	__u8 c;
	__u8 direction;         /* enum direction */
	__u8 d;
	__u8 waits_for_gpu;     /* a thread that polls inside it waits for the device */
	__u8 object;            /* enum object */
	__u8 object_at;         /* the argument that tells which one */
	__u8 uses_device;       /* who is in it gives the device work, or waits for it */
	__u8 reserved[6];
};

/* How the bytes of a call are found. A shift multiplies elements by their size, 2 to its power. */
enum size {
	SIZE_NONE = 0,              /* the call moves no bytes, or no argument says how many */
	SIZE_ARGUMENT = 1,          /* argument a, shifted left by c */
	SIZE_PRODUCT = 2,           /* argument a x argument b, shifted left by c: width and height */
	SIZE_NCCL = 3,              /* argument a, a count, x the size of the ncclDataType_t in argument b */
	SIZE_STRUCT = 4,            /* c factors, 2 or 3 u64 in a row, at byte b of what argument a points to */
	SIZE_ARGUMENT32 = 5,        /* the low 32 bits of argument a, shifted left by c: of unsigned int arguments */
	SIZE_PRODUCT32 = 6,         /* the product of the low 32 bits of arguments a and b, shifted left by c */
	SIZE_PRODUCT3 = 7,          /* arguments a x b x c: a cudaExtent on the stack of x86-64 */
};

/*
 * Where the direction of a copy stands. Where it can be read and is one of the KINDS, the call is counted as operation
 * + 1 + the value of cudaMemcpyKind; else as the operation itself.
 */
enum direction {
	DIRECTION_NONE = 0,
	DIRECTION_KIND = 1,         /* the cudaMemcpyKind (u32) is argument d */
	DIRECTION_STRUCT_KIND = 2,  /* the cudaMemcpyKind (u32) lies at byte 8 x d of what argument a points to */
};

/* What a call does to a thing that outlives it, and what argument object_at is then. */
enum object {
	OBJECT_NONE = 0,
	OBJECT_ALLOCATES = 1,       /* device memory: points to where its address is put */
	OBJECT_FREES = 2,           /* device memory: its address */
	OBJECT_JOINS = 3,           /* a communicator, by its unique id: points to where the handle is put */
	OBJECT_JOINS_BY_MANY = 4,   /* the same, by an array of unique ids */
	OBJECT_JOINS_ALL = 5,       /* all ranks of a communicator: points to where the handles are put */
	OBJECT_SPLITS = 6,          /* a communicator: points to where the handle of the part is put */
	OBJECT_LEAVES = 7,          /* a communicator: its handle */
	OBJECT_ENTERS = 8,          /* a collective: the communicator's handle */
	OBJECT_LAUNCHES = 9,        /* a kernel: its function or handle */
	OBJECT_USES = 10,           /* a communicator: its handle */
};

/* The device memory of one process, since it runs its program. */
struct heap {
	__u64 cgroup_id;            /* at its last allocation or free */
	__u32 tgid;                 /* 0 says that the record is free; written last */
	__u32 over;                 /* the process runs another program by now */
	__u64 allocations;          /* outermost calls that succeeded, as frees */
	__u64 frees;
	__u64 allocated_bytes;
	__u64 freed_bytes;          /* of memory that is known */
	__u64 held;                 /* allocations that are known and not freed */
	__u64 held_bytes;
};

/* One piece of device memory. No padding: it is a key. */
struct piece {
	__u64 address;              /* or handle, of memory that is mapped by the program itself */
	__u64 heap;                 /* index of its process's */
};

/*
 * The ticks in which a process was active on a device. Element n % TICKS of `laps` tells the last tick n that it was,
 * by its lap: LAP | n / TICKS; an element of `spans` tells it of SPAN ticks at once. So nothing has to be cleared
 * here, and all that write an element write the same.
 */
struct activity {
	__u64 cgroup_id;            /* at the last call that made it active in a new tick */
	__u32 tgid;                 /* 0 says that the record is free; written last */
	__u32 device;               /* as struct thread has it */
	__u16 laps[TICKS];
	__u16 spans[TICKS / SPAN];
};

/* A process and a device of it. No padding: it is a key. */
struct process_device {
	__u32 tgid;
	__u32 device;
};

/* The handle by which a process knows a communicator. No padding: it is a key. */
struct handle {
	__u64 handle;
	__u64 tgid;
};

/* What a record of a rank stands for. */
enum member_state {
	MEMBER_FREE = 0,
	MEMBER_BEGINS = 1,          /* its call has not returned */
	MEMBER_LIVE = 2,
	MEMBER_OVER = 3,            /* left; the monitor takes the record back */
};

/* One rank of a communicator. Only threads of its process write it, one at a time as NCCL wants it. */
struct member {
	__u64 id;                   /* the same in all ranks; 0 where it was made before the probes were there */
	__u64 handle;               /* while it begins: where it will be put */
	__u64 cgroup_id;
	__u32 tgid;
	__u32 rank;
	__u32 ranks;                /* of the communicator; 0 where that is not known */
	__u32 state;                /* enum member_state; written last */
	__u32 heap;                 /* index of its process's, which tells when it runs another program */
	__u32 splits;               /* communicators made of it */
	__u32 device;               /* that it works on, as in struct thread */
	__u32 reserved;
	__u64 made_ns;              /* CLOCK_MONOTONIC, as entries_ns */
	__u64 entered;              /* collectives; counted after the time of the entry is there */
	__u64 entries_ns[ENTRIES];
};

/* What is not counted, or not as it should be: the names are those of model.window.LOSSES. */
struct losses {
	__u64 no_slot;
	__u64 no_thread;
	__u64 too_deep;
	__u64 no_entry;
	__u64 abandoned;
	__u64 clamped;
	__u64 unread_bytes;
	__u64 no_charge;
	__u64 no_slice;
	__u64 no_follower;
	__u64 no_allocation;
	__u64 no_communicator;
	__u64 no_kernel;
	__u64 no_ring;
	__u64 no_activity;
};

/* Why a call is captured. */
enum why {
	WHY_SLOW = 0,
	WHY_SAMPLE = 1,
};

/* One call, kept by itself. */
struct kept_call {
	__u64 start_ns;             /* CLOCK_MONOTONIC */
	__u64 duration_ns;
	__u64 bytes;
	__u64 cgroup_id;
	__u64 born_ns;              /* of an outermost launch: the program's, as in struct told_program */
	__u32 tgid;
	__u32 tid;                  /* as the monitor knows it */
	__u32 operation;            /* with NESTED */
	__u32 function;             /* attach cookie */
	__u32 returned;
	__u32 why;                  /* enum why */
	__u64 split_ns[SPLITS];     /* as measured: may be more than the call in all, and says nothing of running */
	__u64 arguments[TOLD];
};

/* How many calls are kept one by one. The monitor writes the last three. */
struct keeping {
	__u64 since_ns;             /* CLOCK_MONOTONIC */
	__u64 slow;                 /* kept since then */
	__u64 samples;
	__u64 most_slow;            /* a second */
	__u64 most_samples;
	__u64 most_of_slot;         /* slow ones of one slot, a second */
};

#endif
