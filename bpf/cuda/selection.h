/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Finds the device to which the calls of a thread go, among the devices of its program. A thread chooses a
 * device by cudaSetDevice (runtime API), or by making a context of a device current (driver API, such as
 * cuCtxSetCurrent). The later choice counts, as in CUDA itself, where cudaSetDevice makes the primary context
 * of the device current. The calls of a thread that never chose go to the program's first device.
 *
 * Devices are identified by their ordinals in the program. The monitor finds out which GPUs of the host these
 * are.
 *
 * Two ways of choosing a device are not followed: streams, which may belong to another context than the
 * current one, and green contexts.
 */
#ifndef STALLTOP_SELECTION_H
#define STALLTOP_SELECTION_H

#include "base/evicting.h"
#include "base/maps.h"
#include "base/ordering.h"
#include "calls/arguments.h"
#include "calls/threads.h"

#define NO_CONTEXT 0

BPF_F_TABLE("lru_hash", u32, struct cuda_program, cuda_programs, CUDA_PROGRAMS, 0);
BPF_F_TABLE("lru_hash", struct context_key, u32, device_of_context, MADE_CONTEXTS, 0);
BPF_F_TABLE("lru_hash", struct choice_key, struct choice, choices, CHOICES, 0);
/*
 * Processes that had loaded the driver before the probes were attached to it. They may have initialized CUDA
 * and chosen devices before the probes were attached. The monitor adds these processes; is_older() adds a
 * process that makes a call and was not seen to initialize CUDA.
 */
BPF_F_TABLE("lru_hash", u32, u32, older_programs, CUDA_PROGRAMS, 0);
/* An empty struct cuda_program, from which new elements are copied: it is too large for the stack. */
BPF_F_TABLE("array", u32, struct cuda_program, no_cuda_program, 1, 0);

/* Returns the device to which the calls of `thread` go now, encoded as in struct thread. */
INLINE u32 device_of(const struct thread *thread)
{
	return thread->device;
}

/*
 * Returns whether the current thread still belongs to `program`, for which `over` is set. This is so if only the
 * program's first thread has ended and the current thread is another one. If the current thread is the first
 * thread of its process, the process is a new one with the same PID.
 */
INLINE int goes_on(const struct cuda_program *program)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();

	return program->over == OVER_FIRST_THREAD && (u32)pid_tgid != pid_tgid >> 32;
}

/*
 * Returns the program that the current process runs. `tgid` is the PID of the process in the monitor's PID
 * namespace. If several threads make the first calls of a program at once, all get the same element.
 */
INLINE struct cuda_program *find_cuda_program(u32 tgid)
{
	u64 key = tgid, only = 0;
	struct cuda_program *program = cuda_programs.lookup(KEY(key)), *fresh;

	if (program && program->over && !goes_on(program)) {
		if (!cuda_programs.delete(KEY(key)))
			element_removed(EVICTING_CUDA_PROGRAMS);
		program = NULL;
	}
	if (!program) {
		fresh = no_cuda_program.lookup(KEY(only));
		if (!fresh)
			return NULL;
		if (!cuda_programs.insert(KEY(key), fresh))
			element_added(EVICTING_CUDA_PROGRAMS);
		program = cuda_programs.lookup(KEY(key));
		if (!program)
			return NULL;
	}
	if (!program->born_ns)
		SET_ONCE(program->born_ns, bpf_ktime_get_ns());
	return program;
}

/*
 * Stores `over` in the program of the current process: its first thread ends, or the process begins another
 * program. The rest of the program's element stays.
 */
INLINE void end_cuda_program(u32 over)
{
	struct numbers numbers = {};
	struct cuda_program *program;

	if (numbers_of(bpf_get_current_pid_tgid(), &numbers))
		return;
	program = cuda_programs.lookup(&numbers.tgid);
	if (program)
		program->over = over;
	if (over == OVER_ALL && !older_programs.delete(&numbers.tgid))
		element_removed(EVICTING_OLDER_PROGRAMS);
}

/*
 * Called when `program` calls cuInit. Decides, once, whether the monitor sees all choices of a device by its
 * threads: yes (WATCHED_BEGIN), unless the process is in older_programs. Such a process may have initialized
 * CUDA before the probes were attached (WATCHED_LATE).
 */
INLINE void begin_cuda(struct cuda_program *program, u32 tgid)
{
	u64 key = tgid;

	if (!program->watched)
		program->watched = older_programs.lookup(KEY(key)) ? WATCHED_LATE : WATCHED_BEGIN;
}

/* Marks `program` as older than the probes: it makes a call, but was not seen to initialize CUDA. */
INLINE void is_older(struct cuda_program *program, u32 tgid)
{
	u64 key = tgid, known = 1;

	program->watched = WATCHED_LATE;
	/* kept here even if `program` is evicted */
	if (!older_programs.insert(KEY(key), KEY(known)))
		element_added(EVICTING_OLDER_PROGRAMS);
}

/* Notes that, from now on, the calls of `thread` and the time between them go to `device`. */
INLINE void choose(struct thread *thread, u32 device)
{
	thread->device = device;
	thread->device_decided = device != 0;
}

/* Notes that `context`, a context of `device`, becomes the current one of `thread`. */
INLINE void choose_context(struct thread *thread, u64 context, u32 device)
{
	choose(thread, device);
	thread->context = context;
}

/*
 * Decides the device of a thread that was not seen to choose one. If the program was seen to initialize CUDA,
 * the device is the first one. Otherwise it is 0 (none), because the thread may have chosen a device before
 * the probes were attached. This is done once per thread, when its first call returns, because the runtime
 * initializes CUDA in its first call.
 */
INLINE void decide_device(struct thread *thread, u64 cookie)
{
	struct function *function = functions.lookup(KEY(cookie));
	struct cuda_program *program;

	if (!function || !function->waits_for_gpu)
		return; /* NCCL has calls that need no device */
	program = find_cuda_program(thread->tgid);
	if (!program)
		return;
	if (!program->watched)
		is_older(program, thread->tgid);
	choose(thread, program->watched == WATCHED_BEGIN ? 1 : 0);
	thread->device_decided = 1;
}

/*
 * Notes that the call of `frame` goes to `device`, if `device` is known, even if other calls of its thread go
 * to another device.
 */
INLINE void on_device(struct frame *frame, u32 device)
{
	if (device && device < UNKNOWN_DEVICE)
		frame->operation = (frame->operation & ((1U << DEVICE_SHIFT) - 1)) | device << DEVICE_SHIFT;
}

/*
 * Called when the call of `frame` returns. Sets the device of the call, unless it was set when the call
 * began. The device is the one that the thread has chosen by now, perhaps in a call inside this one; if it
 * has chosen none, decide_device() decides.
 */
INLINE void place_call(struct thread *thread, struct frame *frame)
{
	if (frame->operation >> DEVICE_SHIFT)
		return;
	if (!thread->device_decided)
		decide_device(thread, frame->function);
	frame->operation |= device_of(thread) << DEVICE_SHIFT;
}

/* Returns the device of `context`, a context of the thread's program; UNKNOWN_DEVICE if that is not known. */
INLINE u32 context_device(struct thread *thread, u64 context)
{
	struct cuda_program *program = find_cuda_program(thread->tgid);
	struct context_key key = {.context = context};
	u32 *found;

	if (!program)
		return UNKNOWN_DEVICE;
	key.born_ns = program->born_ns;
	found = device_of_context.lookup(&key);
	return found ? *found : UNKNOWN_DEVICE;
}

INLINE u32 device_of_ordinal(u64 ordinal)
{
	u32 number = ordinal;

	return number < UNKNOWN_DEVICE - 1 ? number + 1 : UNKNOWN_DEVICE;
}

/* Stores that the context whose handle lies at `place` belongs to `device`. Returns the handle. */
INLINE u64 made_context(struct thread *thread, u64 place, u32 device)
{
	struct cuda_program *program = find_cuda_program(thread->tgid);
	struct context_key key = {};

	if (!program || bpf_probe_read_user(&key.context, sizeof(key.context), (void *)place))
		return NO_CONTEXT;
	key.born_ns = program->born_ns;
	if (!device_of_context.insert(&key, &device))
		element_added(EVICTING_DEVICE_OF_CONTEXT);
	else
		device_of_context.update(&key, &device);
	return key.context;
}

/*
 * Returns the element of devices_below for the nth context of the thread's stack, counted from 0 at the
 * bottom.
 */
INLINE u8 *device_below(struct thread *thread, u64 n)
{
	WITHIN(n, CONTEXTS);
	return &thread->devices_below[n];
}

INLINE void push_context(struct thread *thread, u64 context, u32 device)
{
	u32 below = thread->contexts_below;

	if (below < CONTEXTS)
		*device_below(thread, below) = thread->device;
	thread->contexts_below = below + 1;
	choose_context(thread, context, device);
}

/*
 * Removes the current context. If no context is left, the thread counts as one that never chose a device.
 * There is one exception: if the thread chose a device other than the first through the runtime, the runtime
 * may keep that choice, so the device is unknown.
 */
INLINE void pop_context(struct thread *thread)
{
	u32 below = thread->contexts_below, device = thread->runtime_device > 1 ? UNKNOWN_DEVICE : 0;

	if (below) {
		below--;
		device = below < CONTEXTS ? *device_below(thread, below) : UNKNOWN_DEVICE;
		thread->contexts_below = below;
	}
	choose_context(thread, NO_CONTEXT, device);
}

/*
 * Makes `context` the thread's current one. The runtime and NCCL make their own contexts current inside their
 * calls, and may have got these contexts from functions without probes. So an unknown context that is set
 * inside a call is ignored: what the thread chose before is more reliable.
 */
INLINE void set_context(struct thread *thread, u64 context)
{
	u32 device;

	if (!context) {
		pop_context(thread);
		return;
	}
	device = context_device(thread, context);
	if (device != UNKNOWN_DEVICE || !thread->depth)
		choose_context(thread, context, device);
}

/*
 * Stores the UUID that lies at `place` as the UUID of device `ordinal` of the thread's program. If `whole` is
 * set, it is the UUID of the whole GPU, which is less precise if the device is a part of a GPU.
 */
INLINE void told_uuid(struct thread *thread, u64 place, u64 ordinal, int whole)
{
	struct cuda_program *program = find_cuda_program(thread->tgid);

	if (!program || ordinal >= PROGRAM_DEVICES)
		return;
	WITHIN(ordinal, PROGRAM_DEVICES);
	if (whole && program->uuid_known[ordinal])
		return;
	if (bpf_probe_read_user(program->uuids[ordinal], UUID_BYTES, (void *)place))
		return;
	PUBLISH(program->born_ns);
	program->uuid_known[ordinal] = 1;
}

/*
 * Runs at the entry of every function that chooses a device. The attach cookie says how the function chooses
 * it.
 */
int choosing_begins(struct pt_regs *ctx)
{
	struct choice_key key = {.pid_tgid = bpf_get_current_pid_tgid(), .cookie = attach_cookie(ctx)};
	u64 arguments[ARGUMENTS] = {};
	struct cuda_program *program;
	struct numbers numbers = {};
	struct choice choice = {};

	keep_arguments(ctx, arguments);
	choice.first = arguments[0];
	choice.device = arguments[1];
	switch (key.cookie & CHOOSING_MASK) {
	case CHOOSING_BEGINS:
		if (numbers_of(key.pid_tgid, &numbers))
			return 0;
		program = find_cuda_program(numbers.tgid);
		if (program)
			begin_cuda(program, numbers.tgid);
		else
			on_its_own_stack(ctx);
		return 0;
	case CHOOSING_CREATES_2:
		choice.device = arguments[2];
		break;
	case CHOOSING_CREATES_3:
		choice.device = arguments[3];
		break;
	case CHOOSING_CREATES_4:
		choice.device = arguments[4];
		break;
	}
	if (!choices.insert(&key, &choice))
		element_added(EVICTING_CHOICES);
	else
		choices.update(&key, &choice);
	return 0;
}

int choosing_returns(struct pt_regs *ctx)
{
	struct choice_key key = {.pid_tgid = bpf_get_current_pid_tgid(), .cookie = attach_cookie(ctx)};
	struct choice *found = choices.lookup(&key), choice;
	struct thread *thread = find_thread(key.pid_tgid);
	struct numbers numbers = {};
	u32 device;

	if (!found) {
		on_its_own_stack(ctx);
		return 0;
	}
	choice = *found;
	if (!choices.delete(&key))
		element_removed(EVICTING_CHOICES);
	if (thread)
		thread->choices++;
	if ((u32)RETURNED(ctx))
		return 0;
	if (!thread) {
		if (numbers_of(key.pid_tgid, &numbers))
			return 0;
		thread = new_thread(key.pid_tgid, &numbers);
		if (!thread) {
			LOSE(no_thread, 1);
			return 0;
		}
	}
	switch (key.cookie & CHOOSING_MASK) {
	case CHOOSING_SETS_DEVICE:
		device = device_of_ordinal(choice.first);
		choose_context(thread, NO_CONTEXT, device);
		thread->runtime_device = device;
		break;
	case CHOOSING_CREATES_2:
	case CHOOSING_CREATES_3:
	case CHOOSING_CREATES_4:
		device = device_of_ordinal(choice.device);
		push_context(thread, made_context(thread, choice.first, device), device);
		break;
	case CHOOSING_RETAINS:
		made_context(thread, choice.first, device_of_ordinal(choice.device));
		break;
	case CHOOSING_PUSHES:
		push_context(thread, choice.first, context_device(thread, choice.first));
		break;
	case CHOOSING_DESTROYS:
		if (thread->context == choice.first)
			pop_context(thread);
		break;
	case CHOOSING_POPS:
		pop_context(thread);
		break;
	case CHOOSING_SETS_CONTEXT:
		set_context(thread, choice.first);
		break;
	case CHOOSING_TELLS:
		device = 0;
		if (!bpf_probe_read_user(&device, sizeof(device), (void *)choice.first))
			choose(thread, device_of_ordinal(device));
		break;
	case CHOOSING_TELLS_UUID:
		told_uuid(thread, choice.first, choice.device & 0xffffffff, 0);
		break;
	case CHOOSING_TELLS_GPU:
		told_uuid(thread, choice.first, choice.device & 0xffffffff, 1);
		break;
	}
	return 0;
}

#endif
