/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Counts the launches of each CUDA kernel, in addition to the slot of the launching operation. The record of
 * a CUDA kernel is made at its first launch. It gets the name if the program has registered or looked up the
 * CUDA kernel. The record is freed together with the slot.
 */
#ifndef STALLTOP_KERNELS_H
#define STALLTOP_KERNELS_H

#include "base/maps.h"
#include "calls/hdr.h"
#include "calls/slots.h"
#include "calls/threads.h"
#include "cuda/names.h"

#define NO_KERNEL (~0U)

/*
 * `kernels` holds the counts of each CUDA kernel. `launched` says which launches each record counts. The
 * queue holds the free records; the monitor fills it.
 */
BPF_F_TABLE("array", u32, struct kernel, kernels, KERNELS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct launched, launched, KERNELS, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", struct launched, u32, kernel_of, KERNELS, 0);
BPF_STACK(free_kernels, u32, KERNELS);
/*
 * A cache, indexed by the hash of a launch's function and slot. The lower half of an element is the index of
 * the record that was found last. The upper half is the number in the map `reuses` (names.h) at that time.
 */
BPF_F_TABLE("array", u32, u64, likely_kernel, LIKELY_KERNELS, 0);

/*
 * Stores the name of a launched function in `kernel`, if its program has registered the function or looked it
 * up.
 */
INLINE void name_kernel(struct kernel *kernel, const struct launched *whose)
{
	struct function_key key = {.function = whose->function, .born_ns = whose->born_ns};
	struct looked_up *copy;
	struct registered *registration;
	long length;

	kernel->name_at = 0;
	kernel->name_bytes = 0;
	copy = looked_up.lookup(&key);
	if (copy) {
		__builtin_memcpy(kernel->name, copy->name, NAME_BYTES);
		kernel->name_at = copy->name_at;
		kernel->name_bytes = copy->name_bytes;
		return;
	}
	registration = registered.lookup(&key);
	if (!registration)
		return;
	kernel->name_at = registration->name_at;
	length = bpf_probe_read_user_str(kernel->name, NAME_BYTES, (void *)kernel->name_at);
	/*
	 * If the page of the name is not in memory, this program cannot read the name. Then the monitor reads
	 * it.
	 */
	kernel->name_bytes = length > 0 ? length : 0;
}

INLINE u32 generation(const struct launched *whose)
{
	struct function_key key = {.function = whose->function, .born_ns = whose->born_ns};
	u32 *found = generation_of.lookup(&key);

	return found ? *found : 0;
}

INLINE u32 new_kernel(const struct thread *thread, struct launched *key)
{
	struct launched *owner;
	struct kernel *kernel;
	u64 index = 0;
	u32 *winner;

	if (!may_take(POOL_KERNELS, thread->tgid, thread->cgroup_id))
		return NO_KERNEL;
	if (!free_kernels.pop(KEY(index))) {
		owner = launched.lookup(KEY(index));
		kernel = kernels.lookup(KEY(index));
		if (!owner || !kernel)
			return NO_KERNEL;
		name_kernel(kernel, key);
		kernel->function = key->function;
		kernel->born_ns = key->born_ns;
		PUBLISH(kernel->function);
		kernel->slot = key->slot;
		owner->function = key->function;
		owner->born_ns = key->born_ns;
		owner->generation = key->generation;
		PUBLISH(owner->function);
		owner->slot = key->slot;
		if (!kernel_of.insert(key, KEY(index)))
			return index;
		/*
		 * Another thread of the process has inserted a record for this key first. That record is used,
		 * and this one is freed.
		 */
		owner->slot = 0;
		kernel->slot = 0;
		free_kernels.push(KEY(index), 0);
	}
	is_free(POOL_KERNELS, thread->tgid, thread->cgroup_id);
	winner = kernel_of.lookup(key);
	return winner ? *winner : NO_KERNEL;
}

/*
 * Returns the born_ns of the program that the current thread runs; 0 if that cannot be stored. Looks born_ns
 * up once per record of a thread. This suffices, because a thread loses its record when it executes another
 * program.
 */
INLINE u64 program_of(struct thread *thread)
{
	struct told_program *program;

	if (!thread->born_ns) {
		program = new_told_program();
		if (program)
			thread->born_ns = program->born_ns;
	}
	return thread->born_ns;
}

/*
 * Returns the record of a function whose launch is counted in the slot of `cached`; NULL if none is free. If
 * that is the thread's own slot, the record belongs to it, or to the shared slot if the thread may have no more
 * records of its own.
 */
INLINE struct kernel *find_kernel(struct thread *thread, u64 function, const struct cached_slot *cached)
{
	struct launched key = {
		.function = function,
		.born_ns = program_of(thread),
		.slot = cached->slot + 1,
	};
	struct kernel *kernel;
	u64 only = 0, index;
	u32 shared = cached->shared + 1;
	u32 *reused = reuses.lookup(KEY(only)), *found;
	u64 place = ((function ^ key.slot) * 0x9e3779b97f4a7c15ULL >> 48) & (LIKELY_KERNELS - 1);
	u64 *likely = likely_kernel.lookup(KEY(place)), known;

	if (!reused || !likely)
		return NULL;
	/* Both halves are read at once, so that both belong to the same launch. */
	known = *(volatile u64 *)likely;
	index = (u32)known;
	kernel = kernels.lookup(KEY(index));
	if (!kernel || (kernel->slot != key.slot && kernel->slot != shared) || kernel->function != function ||
	    kernel->born_ns != key.born_ns || known >> 32 != *reused) {
		known = (u64)*reused << 32;
		if (*reused)
			key.generation = generation(&key);
		found = kernel_of.lookup(&key);
		if (!found && key.slot != shared && !may_own_kernel()) {
			key.slot = shared;
			found = kernel_of.lookup(&key);
		}
		index = found ? *found : new_kernel(thread, &key);
		if (index == NO_KERNEL)
			return NULL;
		*(volatile u64 *)likely = known | index;
		kernel = kernels.lookup(KEY(index));
	}
	return kernel;
}

/*
 * Called when a call that launches a CUDA kernel begins. The call's first arguments are in its frame. If it is
 * an outermost call, stores in the frame which CUDA kernel it launches.
 */
INLINE void launch_begins(const struct function *function, struct frame *frame, u32 depth)
{
	if (!depth)
		frame->kept = function->object_at ? frame->arguments[1] : frame->arguments[0];
}

/*
 * Counts a launch of `function` in the record of its CUDA kernel; `counter` is that of `ns`. The slot in `cached`
 * counts the launch afterwards.
 */
INLINE void count_kernel(struct thread *thread, u64 function, const struct cached_slot *cached, u64 ns,
			 u64 counter, u32 failed)
{
	struct kernel *kernel = find_kernel(thread, function, cached);
	u64 bucket = counter >> BUCKET_SHIFT;

	if (!kernel) {
		LOSE(no_kernel, 1);
		return;
	}
	if (failed)
		__sync_fetch_and_add(&kernel->errors, 1);
	if (ns > kernel->max_ns)
		kernel->max_ns = ns;
	WITHIN(bucket, BUCKETS);
	if (is_own(cached) && kernel->slot == cached->slot + 1) {
		ADD_TO_OWN(kernel->total_ns, ns);
		ADD_TO_OWN(kernel->counters[bucket], 1);
	} else {
		ADD_AND_PUBLISH(kernel->total_ns, ns);
		__sync_fetch_and_add(&kernel->counters[bucket], 1);
		PUBLISH(kernel->total_ns); /* the slot counts the launch afterwards */
	}
}

#endif
