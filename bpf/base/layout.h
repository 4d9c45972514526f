/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Defines what the BPF programs and the monitor share through mapped memory. scripts/write_layout.py
 * generates probes/layout.py from this header, and its docstrings from the comments here. Structs have no
 * padding.
 */
#ifndef STALLTOP_LAYOUT_H
#define STALLTOP_LAYOUT_H

#include <linux/types.h>
#include "base/launches.h"

#define COUNTERS 3968       /* number of counters of one histogram; hdr.h finds the counter of a duration */
#define PER_OCTAVE 128      /* number of counters of a histogram that are stored together; a power of two */
#define OCTAVES 31          /* number of octaves of one histogram: COUNTERS / PER_OCTAVE */
#define BLOCK 32768         /* number of octaves that the monitor adds to the maps at once; a power of two */
#define SPLITS 10           /* number of parts that the time of a call is split into */
#define DEPTH 16            /* maximum number of nested traced calls of a thread; a power of two */
#define CACHED 16           /* number of slots that a thread remembers; a power of two */
#define ARGUMENTS 8         /* maximum number of argument registers kept at a call's entry; a power of two */
#define TOLD 6              /* number of argument registers kept until the call returns */
#define WALKED 16           /* waits of a thread whose stacks were read last, and whose times are kept; a power of two */
#define FUTEXES 4           /* number of futexes remembered for a thread, at which it waited last; a power of two */
#define TASK_PLACES 4096    /* elements of task_records, which saves most look-ups of tasks; a power of two */
#define LIKELY_THREADS 4096 /* elements of likely_thread_of, which saves most hash look-ups; a power of two */
#define FUNCTIONS 2048      /* the attach cookie of each counted function is below this number */
#define KINDS 5             /* number of values of cudaMemcpyKind, which are 0 to 4 */
#define CHARGES 16384       /* maximum number of records of charged off-CPU time, by victim and culprit */
#define SLICES 64           /* slices of time that are remembered for each CPU; a power of two */
#define ANY_PROCESS 0xffffffff /* in place of a TGID: any process of the cgroup, because they are too many */
#define HEAPS 1024          /* maximum number of processes whose device memory is followed */
#define ALLOCATIONS 65536   /* maximum number of allocations of device memory known at once */
#define MEMBERS 1024        /* maximum number of ranks of NCCL communicators known at once */
#define ACTIVITIES 1024     /* maximum number of pairs of a process and a device whose activity is known */
#define TICK_SHIFT 20       /* a tick of activity lasts 2 to this power, in ns: 1.05 ms */
#define TICKS 4096          /* ticks kept for each pair of a process and a device: the last 4.3 s; a power of two */
#define SPAN 64             /* ticks that one element of `spans` marks, for long calls; a power of two */
#define LAP 0x8000          /* set in each element of laps and spans that has been written; else it is 0 */
#define CUDA_PROGRAMS 16384 /* maximum number of programs that have chosen a device, or made a call */
#define MADE_CONTEXTS 65536 /* maximum number of contexts whose device is known */
#define CHOICES 32768       /* maximum number of calls under way that choose a device */
#define ACCOUNTS 9600       /* maximum number of processes whose records are counted */
#define CGROUP_ACCOUNTS 4096 /* maximum number of cgroups whose records are counted */
#define ID_WORDS 16         /* size of an ncclUniqueId in words of 8 bytes: 128 bytes */
#define ENTRIES 256         /* newest entries into collectives that are kept for each rank; a power of two */
#define NESTED 0x8000       /* set in the operation of a call made inside another traced call */
#define HOST_GAP 510        /* operation: a thread's time between two outermost calls */
#define HOST_WORK 511       /* operation: a followed thread's time between waking one thread and waking the next */
#define DEVICE_SHIFT 16     /* number of low bits that hold the operation in a word; the device is above */
#define MOVES 0x80000000    /* set in the operation of a cached_slot whose thread is to get a slot of its own */
#define TIMED_CALLS 1024    /* a thread that makes this many calls of an operation ... */
#define HOT_TICKS 128       /* ... within so many ticks gets a slot of its own for the operation (hot.h) */
#define TIMED_IN 8          /* a session probe times one call in this many, on average; a power of two */
#define UNKNOWN_DEVICE 255  /* the thread has chosen a device, but the monitor does not know which */
#define PROGRAM_DEVICES 16  /* maximum number of a program's devices whose UUIDs are kept; a power of two */
#define UUID_BYTES 16
#define CONTEXTS 16         /* contexts below a thread's current one whose devices are kept; a power of two */
#define FILLED_AT_ONCE 256  /* elements that one run of filling.h queues; few, as the verifier checks each */
#define LONGEST_GAP_NS 60000000000ULL /* a longer gap is not counted: the program is assumed to be idle */

/* The kinds of records of which there is a fixed number. */
enum pool {
	POOL_SLOTS = 0,
	POOL_THREADS = 1,
	POOL_HEAPS = 2,
	POOL_ACTIVITIES = 3,
	POOL_MEMBERS = 4,
	POOL_KERNELS = 5,
	POOL_OCTAVES = 6,
	POOL_PIECES = 7,        /* allocations of device memory, which have no queue */
	POOL_CHARGES = 8,
};
#define POOLS 9

/* The maps that evict their oldest elements when they are full. */
enum evicting {
	EVICTING_TOLD_PROGRAMS = 0,
	EVICTING_REGISTERED = 1,
	EVICTING_LOOKED_UP = 2,
	EVICTING_GENERATION_OF = 3,
	EVICTING_LOOKUPS = 4,
	EVICTING_CUDA_PROGRAMS = 5,
	EVICTING_DEVICE_OF_CONTEXT = 6,
	EVICTING_CHOICES = 7,
	EVICTING_OLDER_PROGRAMS = 8,
};
#define EVICTING_MAPS 9

/* How many elements the programs added to such a map and removed from it. Those that are missing were evicted. */
struct turnover {
	__u64 added;
	__u64 removed;
};

/* Identifies an account: of a process, with cgroup_id 0, or of a cgroup, with tgid 0. No padding: it is a key. */
struct account_key {
	__u64 cgroup_id;
	__u32 tgid;
	__u32 reserved;
};

/* The records that a process, or all processes of a cgroup, have. By enum pool. */
struct account {
	__u32 used[POOLS];
	__u32 refused[POOLS]; /* how often a record was refused, modulo 2^32 */
};

/*
 * The counters of one octave of a histogram, which are about the durations from one power of two to the next. Most
 * operations have calls in two to six of the OCTAVES octaves; a slot takes only those.
 */
struct octave {
	__u32 counters[PER_OCTAVE];
};

/* The counts of one operation of one process in one cgroup. */
struct slot {
	__u64 calls;            /* incremented last: if `calls` has risen, the other counts are complete */
	__u64 total_ns;
	__u64 errors;           /* calls that returned an error */
	__u64 bytes;            /* bytes copied, set or allocated by calls that succeeded */
	__u64 max_ns;           /* longest call; reset to 0 when the monitor reads it */
	__u64 slow_ns;          /* a call of this time or more is slow; set by the monitor, 0 until then */
	__u64 sample_at;        /* the first call that is not slow and raises `calls` to this or more is captured */
	__u64 passed_over;      /* slow calls that were not captured */
	__u64 last_error;       /* return value of the last call that failed */
	__u64 clamped;          /* number of calls that took longer than the histogram's range */
	__u64 split_ns[SPLITS]; /* by enum part; running is not set: it is total_ns minus the other parts */
	__u64 kept_since_ns;    /* CLOCK_MONOTONIC; start of the second in which `kept` counts calls */
	__u64 kept;             /* number of slow calls captured since kept_since_ns */
	__u64 sample_every;     /* one of this many calls is captured at random; set by the monitor; 0: default */
	__u64 octaves[OCTAVES]; /* index of each octave of the histogram + 1; 0: no call was counted in it yet */
	__u64 reserved[2];      /* a slot fills seven cache lines */
};

/* The owner of a slot's counts. One for each slot, at the same index. */
struct owner {
	__u64 cgroup_id;
	__u32 tgid;
	__u32 operation;        /* with NESTED and the device; 0 means that the slot is free; written last */
	__u32 writer;           /* index of the record of the only thread that counts here + 1; 0: all threads may */
	__u32 reserved;
};

/* The key by which a slot is found: the same members as struct owner. */
struct slot_key {
	__u64 cgroup_id;
	__u32 tgid;
	__u32 operation;
	__u32 writer;
	__u32 reserved;
};

/* A call of a thread that has begun and not returned. */
struct frame {
	__u64 sp;               /* the stack pointer at the function's first instruction */
	__u64 start_ns;         /* CLOCK_MONOTONIC */
	__u64 bytes;
	__u32 function;         /* attach cookie */
	__u32 operation;        /* with NESTED and, once it is known, the device */
	__u64 object;           /* for object_ends(): an address, or the index of a struct member + 1; 0: none */
	__u64 kept;             /* bytes that the call frees, or the function that it launches; else 0 */
	__u64 arguments[TOLD];
};

/* A slot that a thread remembers, so that it finds the slot of its next call without a hash look-up. */
struct cached_slot {
	__u32 operation;        /* with NESTED and the device; with MOVES, `slot` is to be replaced; 0: empty */
	__u32 slot;             /* the thread's own slot, or `shared` */
	__u32 shared;           /* the slot in which all threads of the process may count the operation */
	__u16 calls;            /* calls that the thread has counted through this element, modulo 2^16 */
	__u16 timed;            /* when `calls` was a multiple of TIMED_CALLS last, in ticks, modulo 2^16 */
};

/*
 * A thread that has made a traced call, or that is followed. The thread itself writes its record, and so do
 * threads that wake it or move it to another CPU.
 */
struct thread {
	__u32 tid;              /* in the initial PID namespace; 0 means that the record is free */
	__u32 tgid;             /* in the monitor's PID namespace, like every tgid in this header */
	__u64 cgroup_id;        /* its cgroup at its last outermost call; if it is followed, at its last host work */
	__u32 depth;            /* number of frames in use; a frame is complete before depth is raised */
	__u32 shown_tid;        /* in the monitor's PID namespace */
	__u64 ended_ns;         /* when the thread ended inside calls; valid if tid is 0 and depth is not 0 */
	__u32 ended_tgid;       /* process of the thread that ended at ended_ns */
	__u32 index;            /* index of this record in all arrays that have an element for each thread */
	__u64 off_since_ns;     /* when the thread left its CPU; 0 while it is on a CPU */
	__u64 woken_ns;         /* when the thread was woken after it left its CPU; 0 until then */
	__u8 off_for;           /* why the thread left its CPU: enum part */
	__u8 walked;            /* 1 + index of the frame of the call whose stack walk_stack reads; 0: none */
	__u16 reserved;
	__u32 off_levels;       /* bit n: level n of its struct off_cpu is in use */
	__u64 gap_ns;           /* when the thread's host gap or host work began; 0: not known */
	__u64 waiting_ns;       /* when the thread began to wait for the CPU `cpu`; 0 if it does not wait for a CPU */
	__u32 cpu;              /* the CPU on which the thread ran last, or for which it waits */
	__u32 link;             /* 0: not followed; 1: wakes a thread of link 0; n: wakes one of link n - 1 */
	__u32 follows;          /* if link > 0: tid of the thread because of which this one is followed */
	__u32 scratch;          /* used only by forgotten(), to pass values through memory */
	__u32 activity;         /* index of the struct activity that was found last */
	__u8 device;            /* device of its calls: ordinal + 1, UNKNOWN_DEVICE, or 0: not seen to choose one */
	__u8 device_decided;    /* 1: `device` is chosen by the thread or decided by decide_device(); 0: not yet */
	__u16 contexts_below;   /* number of contexts below the current one, on the thread's stack */
	__u64 born_ns;          /* born_ns of its program's struct told_program; 0: not looked up yet */
	__u64 context;          /* handle of the current context, if the thread chose it through the driver; else 0 */
	__u8 devices_below[CONTEXTS]; /* devices of the contexts below the current one, encoded as `device` */
	__u32 choices;          /* returned calls of enum choosing, of all threads that ever had this record */
	__u8 runtime_device;    /* device chosen through the runtime, encoded as `device`; 0: none */
	__u8 how;               /* enum how: details of its last wait */
	__u8 next_futex;        /* index of the element of `futexes` that is written next */
	__u8 called;            /* 1: the thread has made calls; it may be followed all the same */
	__u8 private_futex;     /* 1: its last wait of part LOCK was at a futex that only its own process uses */
	__u8 jumps;             /* 1: a traced function has ended by a jump to another one, with the same stack pointer */
	__u16 task_place;       /* the element of task_records that counts this record */
	__u32 cgroup_moves;     /* number in the map `cgroup_moves` when cgroup_id was read */
	__u64 account_cgroup_id; /* the cgroup whose account has this record */
	__u64 limit_ns;         /* time limit of its last wait for data; 0: none */
	__u64 waits_at;         /* address of the futex of its last wait, if that was of part LOCK; 0: no futex */
	__u64 futexes[FUTEXES]; /* addresses of the futexes at which the thread waited last; 0: none */
	__u64 arguments[ARGUMENTS];
	struct cached_slot gap; /* the slot that counts the thread's gaps or host work */
	struct cached_slot cached[CACHED];
	struct frame frames[DEPTH];
};

/* Whether the monitor saw how a program initialized CUDA. */
enum watched {
	WATCHED_UNKNOWN = 0,    /* not decided yet: decided by begin_cuda() or decide_device() */
	WATCHED_BEGIN = 1,      /* the monitor saw how the program initialized CUDA */
	WATCHED_LATE = 2,       /* the program may have initialized CUDA before the monitor watched it */
};

/* Whether a program has ended. */
enum over {
	OVER_NOT = 0,
	OVER_FIRST_THREAD = 1,  /* the first thread of the program has ended; other threads may continue */
	OVER_ALL = 2,           /* the program's process has begun to execute another program */
};

/* The devices of one program, as far as they are known. */
struct cuda_program {
	__u64 born_ns;          /* when the program was first seen; distinguishes programs with the same PID */
	__u32 watched;          /* enum watched */
	__u32 over;             /* enum over */
	__u8 uuid_known[PROGRAM_DEVICES]; /* by ordinal: 1 if its UUID is in `uuids`; written last */
	__u8 uuids[PROGRAM_DEVICES][UUID_BYTES];
};

/* A context of a program. No padding: it is a key. */
struct context_key {
	__u64 context;
	__u64 born_ns;          /* born_ns of the program's struct cuda_program */
};

/* A call that chooses a device. No padding: it is a key. */
struct choice_key {
	__u64 pid_tgid;
	__u64 cookie;
};

/* Arguments of a call that chooses a device, stored until the call returns. */
struct choice {
	__u64 first;            /* argument 0: a context, an ordinal, or the address where the call writes a result */
	__u64 device;           /* the ordinal, if the call makes or retains a context or returns a UUID */
};

/*
 * How a traced function chooses a device. The lower bits of its attach cookie hold this value. The traced
 * function's arguments are in parentheses.
 */
enum choosing {
	CHOOSING_BEGINS = 1,        /* initializes CUDA */
	CHOOSING_SETS_DEVICE = 2,   /* chooses a device by the runtime: (ordinal) */
	CHOOSING_CREATES_2 = 3,     /* creates a context: (context, ..., ordinal), where the ordinal is argument 2 */
	CHOOSING_CREATES_3 = 4,     /* creates a context: (context, ..., ordinal), where the ordinal is argument 3 */
	CHOOSING_CREATES_4 = 5,     /* creates a context: (context, ..., ordinal), where the ordinal is argument 4 */
	CHOOSING_RETAINS = 6,       /* returns the primary context of a device: (context, ordinal) */
	CHOOSING_DESTROYS = 7,      /* destroys a context: (context) */
	CHOOSING_PUSHES = 8,        /* puts a context on top of the thread's stack: (context) */
	CHOOSING_POPS = 9,          /* removes the current context from the thread's stack */
	CHOOSING_SETS_CONTEXT = 10, /* replaces the current context: (context) */
	CHOOSING_TELLS = 11,        /* returns the device of the current context: (ordinal) */
	CHOOSING_TELLS_UUID = 12,   /* returns the UUID of a device: (UUID, ordinal) */
	CHOOSING_TELLS_GPU = 13,    /* returns the UUID of the GPU, even if the device is a MIG instance: (UUID, ordinal) */
};
#define CHOOSING_MASK 15

/* The end of a wait whose stack was read when the thread left its CPU. Times are in ns. */
struct walked_wait {
	__u64 since_ns;         /* when the thread left its CPU; written last */
	__u64 blocked_ns;       /* until it was woken */
	__u64 queued_ns;        /* from then on, until it got a CPU */
};

/*
 * Off-CPU time of a thread, by enum part. Level 0 (`outside`) holds the time since the thread's last
 * outermost call; level n (`inside[n - 1]`) the time inside its nth open call, counted from the outermost.
 * `all` is the sum of all off-CPU time since since_ns. The monitor reads `all`, which is never reset while
 * this struct belongs to the thread.
 */
struct off_cpu {
	__u64 all[SPLITS];
	__u64 since_ns;         /* CLOCK_MONOTONIC: when the thread got its record */
	__u64 born_ns;          /* when its process started; 0: not known */
	__u64 usual_ns[SPLITS]; /* about how long its last waits took, by enum part; 0: none yet */
	__u64 walked_ns;        /* since_ns of its present wait, if its stack was read; else 0 */
	__u64 stands_for;       /* for walk_leaving: number of waits that this one stands for */
	__u64 unended_at;       /* address of the futex at which it waits again and again, until nobody ends its wait */
	__u64 unended_ns;       /* sum of these waits */
	__u64 handed_ns;        /* for walk_waker: how long another thread waited for this one, 0 if its stack is not read */
	__u64 handed_at;        /* for walk_waker: the futex of that wait; 0: none */
	__u32 handed_for;       /* for walk_waker: enum part of that wait, and its enum how above HOW_SHIFT */
	__u32 walks;            /* number of waits whose stacks were read */
	struct walked_wait walked[WALKED]; /* by the number of the wait, modulo WALKED */
	__u64 outside[SPLITS];
	__u64 inside[DEPTH][SPLITS];
};

/* Details of a wait, in addition to its enum part. */
enum how {
	HOW_PLAIN = 0,          /* no detail; in part LOCK: a wait for a hand-over (held.h) */
	HOW_HELD = 1,           /* part LOCK: a wait for a lock that another thread held */
	HOW_STOPPED = 2,        /* part OTHER: a signal stopped the thread */
	HOW_ENDED = 3,          /* a wait that another thread ended by exiting */
	HOW_SYNC = 4,           /* part DISK: a wait in fsync or a similar call for data that was written before */
	HOW_TRACED = 5,         /* part OTHER: a debugger stopped the thread */
	HOW_FROZEN = 6,         /* part OTHER: the thread's cgroup was frozen */
	HOW_TIMED = 7,          /* part NETWORK: the wait reached its time limit (limits.h) */
};
#define HOW_SHIFT 8             /* number of low bits of charge_key.part that hold enum part; enum how is above */

/*
 * Identifies who lost off-CPU time, and which process caused it. No padding: it is a key. Waits for a CPU are
 * charged by process: then tid and culprit_tid are 0. So are all waits of a process that has many charges.
 */
struct charge_key {
	__u64 cgroup_id;
	__u64 culprit_cgroup_id;
	__u32 tgid;
	__u32 culprit_tgid;     /* 0: the Linux kernel, or a process that the monitor cannot know; or ANY_PROCESS */
	__u32 operation;        /* of the outermost call, with its device if known; outside calls HOST_GAP or HOST_WORK */
	__u32 part;             /* enum part; the bits above HOW_SHIFT hold the enum how */
	__u32 tid;              /* 0: all threads of the process */
	__u32 culprit_tid;      /* 0: no thread, or all threads of the culprit */
};

/* The off-CPU time of one charge_key, summed up. */
struct charge {
	struct charge_key key;
	__u64 ns;
	__u64 times;            /* number of waits or, for waits for a CPU, of slices; incremented last */
};

/*
 * A period of time in which tasks of one process, or of ANY_PROCESS of one cgroup, had a CPU. If they had it several
 * times, with others in between, `ran_ns` is less than the period.
 */
struct slice {
	__u64 start_ns;
	__u64 end_ns;
	__u64 ran_ns;
	__u64 cgroup_id;
	__u32 tgid;
	__u32 reserved;
};

/*
 * The tasks that had one CPU while threads that have a record waited for it. The slice before `next` is the one that
 * began last.
 */
struct cpu {
	__u64 waiting;          /* number of threads with a record that wait for this CPU */
	__u64 since_ns;         /* when its current task got the CPU; 0 if no thread was waiting at that time */
	__u64 task;             /* address of the struct task_struct of the current task */
	__u64 next;
	struct slice slices[SLICES];
};

/* The likely record of a thread, found by the lowest bits of its TID without a hash look-up. */
struct likely {
	__u32 thread;           /* index of the record that was found last for these bits */
	__u32 records;          /* number of threads with these bits that have a record; mostly 0 */
};

/* How to read a call of one traced function. */
struct function {
	__u32 operation;        /* 0 means that the cookie is not in use */
	__u32 pending;          /* a return value other than 0 that is not an error; 0 if the function has none */
	__u8 size;              /* enum size */
	__u8 a;
	__u8 b;
	__u8 c;
	__u8 direction;         /* enum direction */
	__u8 d;
	__u8 waits_for_gpu;     /* a thread that polls inside this function waits for the device */
	__u8 object;            /* enum object */
	__u8 object_at;         /* number of the argument that identifies the object */
	__u8 uses_device;       /* the call gives the device work, or waits for it */
	__u8 timing;            /* enum timing */
	__u8 reserved[5];
};

/* How calls of a function that has a session probe (bpf/timed.h) are counted; changed by the monitor. */
enum timing {
	TIMING_SOME = 0,            /* all are counted, some are timed */
	TIMING_ALL = 1,             /* all are counted and timed */
	TIMING_BOTH = 2,            /* the same, while it has entry and return probes, too, for a moment */
};

/*
 * How to find the number of bytes that a call moves. Where a value is shifted by c, it counts elements of 2^c
 * bytes.
 */
enum size {
	SIZE_NONE = 0,              /* the call moves no bytes, or no argument says how many */
	SIZE_ARGUMENT = 1,          /* argument a, shifted left by c */
	SIZE_PRODUCT = 2,           /* argument a x argument b (width and height), shifted left by c */
	SIZE_NCCL = 3,              /* argument a (a count) x the size of the ncclDataType_t in argument b */
	SIZE_STRUCT = 4,            /* product of c (2 or 3) u64, from byte b of the struct at argument a */
	SIZE_ARGUMENT32 = 5,        /* the low 32 bits of argument a, an unsigned int, shifted left by c */
	SIZE_PRODUCT32 = 6,         /* the product of the low 32 bits of arguments a and b, shifted left by c */
	SIZE_PRODUCT3 = 7,          /* arguments a x b x c, which are a cudaExtent on the stack of x86-64 */
};

/*
 * Where the arguments of a call hold the direction of a copy. If the direction can be read and is one of the
 * KINDS, the call is counted as operation + 1 + the value of its cudaMemcpyKind; otherwise as the operation
 * itself.
 */
enum direction {
	DIRECTION_NONE = 0,
	DIRECTION_KIND = 1,         /* the cudaMemcpyKind (u32) is argument d */
	DIRECTION_STRUCT_KIND = 2,  /* the cudaMemcpyKind (u32): at byte 8 x d of the struct at argument a */
};

/*
 * What a call does to an object that outlives the call. The comment at each value describes argument number
 * object_at of the call.
 */
enum object {
	OBJECT_NONE = 0,
	OBJECT_ALLOCATES = 1,       /* address where the call writes the address of the allocated memory */
	OBJECT_FREES = 2,           /* address of the device memory that the call frees */
	OBJECT_JOINS = 3,           /* joins by a unique id; address where the call writes the handle */
	OBJECT_JOINS_BY_MANY = 4,   /* joins by several ids; address where the call writes the handle */
	OBJECT_JOINS_ALL = 5,       /* joins as all ranks; address where the call writes the handles */
	OBJECT_SPLITS = 6,          /* splits a communicator; address where the call writes the new handle */
	OBJECT_LEAVES = 7,          /* handle of the communicator that the rank leaves */
	OBJECT_ENTERS = 8,          /* handle of the communicator whose collective the rank enters */
	OBJECT_LAUNCHES = 9,        /* function or handle of the CUDA kernel that the call launches */
	OBJECT_USES = 10,           /* handle of the communicator that the call uses */
};

/* The device memory of one process, since the process began its present program. */
struct heap {
	__u64 cgroup_id;            /* cgroup of the thread that last allocated or freed memory */
	__u32 tgid;                 /* 0 means that the record is free; written last */
	__u32 over;                 /* set when the process executes another program */
	__u64 allocations;          /* number of outermost calls that allocated memory successfully */
	__u64 frees;                /* number of outermost calls that freed memory successfully */
	__u64 allocated_bytes;
	__u64 freed_bytes;          /* bytes freed, of known allocations only */
	__u64 held;                 /* number of known allocations that are not freed: its records of POOL_PIECES */
	__u64 held_bytes;
	__u64 account_cgroup_id; /* the cgroup whose account has this record */
};

/* One allocation of device memory. No padding: it is a key. */
struct piece {
	__u64 address;              /* address; for memory that the program maps itself, its handle */
	__u64 heap;                 /* index of the heap of the process that allocated it */
};

/*
 * The ticks in which a process was active on a device. If the process was active in tick n, element n % TICKS
 * of `laps` is LAP | n / TICKS. The lap of tick n is n / TICKS. An element of `spans` marks SPAN ticks at
 * once in the same way. A later lap overwrites an earlier one, so no program has to clear elements. Several
 * threads may write one element: they write the same value.
 */
struct activity {
	__u64 cgroup_id;            /* cgroup of the last call that marked a tick */
	__u32 tgid;                 /* 0 means that the record is free; written last */
	__u32 device;               /* encoded as in struct thread */
	__u64 account_cgroup_id;    /* the cgroup whose account has this record */
	__u16 laps[TICKS];
	__u16 spans[TICKS / SPAN];
};

/* A process and one of its devices. No padding: it is a key. */
struct process_device {
	__u32 tgid;
	__u32 device;
};

/* A communicator's handle in one process. No padding: it is a key. */
struct handle {
	__u64 handle;
	__u64 tgid;
};

/* State of the record of a rank. */
enum member_state {
	MEMBER_FREE = 0,
	MEMBER_BEGINS = 1,          /* the call that joins the communicator has not returned */
	MEMBER_LIVE = 2,
	MEMBER_OVER = 3,            /* the rank has left; the monitor frees the record */
};

/*
 * One rank of a communicator. Apart from the monitor, which frees the record, only threads of the rank's
 * process write it. NCCL requires that the calls for a communicator are made one at a time, so no two threads
 * write the record at once.
 */
struct member {
	__u64 id;                   /* the communicator's, equal for all ranks; 0: older than the probes, or not made */
	__u64 handle;               /* in state MEMBER_BEGINS, the address where the call writes the handle */
	__u64 cgroup_id;
	__u32 tgid;
	__u32 rank;
	__u32 ranks;                /* number of ranks of the communicator; 0: not known */
	__u32 state;                /* enum member_state; written last */
	__u32 heap;                 /* index of its process's heap, which shows when the program ends */
	__u32 splits;               /* number of calls with which this rank split the communicator */
	__u32 device;               /* device on which the rank works, encoded as in struct thread */
	__u32 reserved;
	__u64 made_ns;              /* CLOCK_MONOTONIC, like entries_ns */
	__u64 entered;              /* collectives entered; incremented after the entry's time is written */
	__u64 entries_ns[ENTRIES];
	__u64 unique_id[ID_WORDS];  /* the ncclUniqueId with which it was made; zeros: made without one, or split */
};

/*
 * Numbers of events that were not counted, or were counted wrongly, by reason. The names are those of
 * model.window.LOSSES.
 */
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
	__u64 uncharged_ns;
	__u64 no_follower;
	__u64 no_allocation;
	__u64 no_communicator;
	__u64 no_kernel;
	__u64 no_ring;
	__u64 no_activity;
	__u64 no_stack;
};

/* Why a call was captured. */
enum why {
	WHY_SLOW = 0,
	WHY_SAMPLE = 1,
};

/* One captured call. */
struct kept_call {
	__u64 start_ns;             /* CLOCK_MONOTONIC */
	__u64 duration_ns;
	__u64 bytes;
	__u64 cgroup_id;
	__u64 born_ns;              /* for an outermost launch: born_ns of the program's struct told_program */
	__u32 tgid;
	__u32 tid;                  /* in the monitor's PID namespace */
	__u32 operation;            /* with NESTED and the device */
	__u32 function;             /* attach cookie */
	__u32 returned;
	__u32 why;                  /* enum why */
	__u64 split_ns[SPLITS];     /* as measured; running is not set; the sum may exceed the call's time */
	__u64 arguments[TOLD];
};

/* Numbers of captured calls of all slots, and limits, which the monitor writes. */
struct keeping {
	__u64 since_ns;             /* CLOCK_MONOTONIC */
	__u64 slow;                 /* number of slow calls captured since since_ns */
	__u64 samples;              /* number of random calls captured since since_ns */
	__u64 most_slow;            /* limit of `slow`, per second */
	__u64 most_samples;         /* limit of `samples`, per second */
	__u64 most_of_slot;         /* limit of slow calls of one slot, per second */
	__u64 own_slots;            /* number of slots that threads may take for their own until the next read */
	__u64 own_kernels;          /* the same for records of CUDA kernels */
	__u64 stacks;               /* of which captured calls the stack is read: enum stacks of stacks/layout.h */
	__u64 sampled_ns;           /* time of a thread for which one stack is read, on average; 0: none is read */
	__u64 stacks_read;          /* number of stacks of captured calls that were to be read since since_ns */
	__u64 most_stacks;          /* limit of `stacks_read`, per second */
};

#endif
