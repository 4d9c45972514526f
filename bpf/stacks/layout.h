/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Structs and constants of stacks that the BPF programs and the monitor share. */
#ifndef STALLTOP_STACKS_LAYOUT_H
#define STALLTOP_STACKS_LAYOUT_H

#include <linux/types.h>

#define PYTHON_FRAMES 64    /* maximum number of Python frames of a stack, innermost first; a power of two */
#define PYTHON_READS 96     /* maximum number of the interpreter's frames that are read; some are of no function */
#define NATIVE_FRAMES 32    /* maximum number of native frames of a stack, innermost first */
#define MARK_BYTES 52       /* of a code object: from its version to the address of its table of lines */
#define REFERENCE_TAGS 7    /* bits of a reference to an object that are no part of its address */
#define C_OWNED 3           /* owners of frames from this number on are no Python functions */
#define NO_MEMBER 0xffff    /* in place of an offset: this version of CPython has no such member */

/* Of which captured calls the stack is read. */
enum stacks {
	STACKS_OFF = 0,
	STACKS_SLOW = 1,            /* of slow calls */
	STACKS_ALL = 2,             /* of slow calls and of random ones */
};

/* How the Python frames of a stack ended. */
enum python_end {
	PYTHON_END_NONE = 0,            /* the monitor knows no Python code of this thread */
	PYTHON_END_WHOLE = 1,           /* the outermost frame was reached */
	PYTHON_END_DEEPER = 2,          /* there were more frames than are kept */
	PYTHON_END_UNREAD = 3,          /* a frame could not be read, so those outside it are missing */
	PYTHON_END_MOVED = 4,           /* the state that the monitor knows belongs to another thread by now */
	PYTHON_END_SEVERAL = 5,         /* the thread may run code of another interpreter of the process */
};

#define SAMPLE_NS 20408163  /* least value of `sampled_ns` of struct keeping, and the period of clock_ticks: 49 Hz */

/* Why a stack was read. */
enum stack_of {
	STACK_OF_CALL = 0,              /* a call was captured */
	STACK_OF_RUNNING = 1,           /* the thread had a CPU when a period of its CPU time was over */
	STACK_OF_LEAVING = 2,           /* the thread left its CPU */
	STACK_OF_WAKING = 3,            /* the thread ended the wait of another one */
};

/* The interpreter's state of one thread, and where its members are. Offsets in bytes. */
struct python_thread {
	__u64 state;                /* address of its PyThreadState */
	__u64 thread_id;            /* value of the member `thread_id` of that state, as long as it is this thread's */
	__u64 interpreters_at;      /* where the process has the address of its newest interpreter */
	__u64 interpreter;          /* that address as long as the process has one interpreter only */
	__u32 tgid;
	__u16 thread_id_at;
	__u16 current_at;           /* the current frame, or a pointer to the struct that has it at `through_at` */
	__u16 through_at;           /* or NO_MEMBER */
	__u16 previous_at;
	__u16 code_at;
	__u16 instruction_at;
	__u16 owner_at;             /* or NO_MEMBER */
	__u16 lines_at;             /* of a code object: its table of lines */
	__u16 reserved[2];
};

/* A frame of the interpreter, as it is in the memory of the process. */
struct python_frame {
	__u64 code;
	__u64 instruction;
	__u64 mark;                 /* of the code object; shows whether it is still there: see mark_of */
};

/* The stack of a captured call, read when the call returned; or of a thread at another moment. */
struct stack {
	__u64 start_ns;             /* of a call that of its struct kept_call, as well as tid; else when it was read */
	__u32 tgid;
	__u32 tid;
	__u32 end;                  /* enum python_end */
	__u32 frames;               /* number of elements of `python` that are set */
	__u32 native_bytes;         /* size of the part of `native` that is set */
	__u32 of;                   /* enum stack_of; the members up to `python` are not set for STACK_OF_CALL */
	__u64 cgroup_id;
	__u64 ns;                   /* time that the stack stands for; STACK_OF_LEAVING: number of waits */
	__u64 futex;                /* address of the futex of the wait; 0: none */
	__u32 operation;            /* of the outermost call, with its device; outside calls HOST_GAP or HOST_WORK */
	__u32 part;                 /* enum part of the wait, and its enum how above HOW_SHIFT */
	__u32 thread;               /* index of the record of the thread */
	__u32 walk;                 /* STACK_OF_LEAVING: number of the wait, see struct off_cpu */
	struct python_frame python[PYTHON_FRAMES];
	__u64 native[NATIVE_FRAMES]; /* addresses of instructions; all but the first are those after calls */
};

#endif
