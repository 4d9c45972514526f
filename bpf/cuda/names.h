/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Names of CUDA kernels. A program gives the names of its CUDA kernels when it loads a library that contains
 * them, and when it looks one up. Later it launches a CUDA kernel by address or handle, without its name. If
 * space runs out, the oldest names are evicted. This does little harm: the CUDA kernel either has been
 * launched before, so that its record has the name, or is rarely launched.
 */
#ifndef STALLTOP_NAMES_H
#define STALLTOP_NAMES_H

#include "base/evicting.h"
#include "base/maps.h"
#include "calls/arguments.h"

BPF_F_TABLE("lru_hash", u32, struct told_program, told_programs, TOLD_PROGRAMS, 0);
BPF_F_TABLE("lru_hash", struct function_key, struct registered, registered, REGISTERED_FUNCTIONS, 0);
BPF_F_TABLE("lru_hash", struct function_key, struct looked_up, looked_up, LOOKED_UP_FUNCTIONS, 0);
BPF_F_TABLE("lru_hash", struct function_key, u32, generation_of, REUSED, 0);
BPF_F_TABLE("lru_hash", struct lookup_key, struct lookup, lookups, LOOKUPS, 0);
/*
 * `read_names` holds the names that calls are reading now, by call, because a name is too large for the
 * stack. `no_name` holds an empty name, the initial value of each element of `read_names`.
 */
BPF_F_TABLE("hash", struct lookup_key, struct looked_up, read_names, READ_NAMES, 0);
BPF_F_TABLE("array", u32, struct looked_up, no_name, 1, 0);
/*
 * Number of times that a function of any program began to belong to another CUDA kernel. An element of
 * likely_kernel stores this count and is valid only until the count changes.
 */
BPF_F_TABLE("array", u32, u32, reuses, 1, 0);

/*
 * Returns the program of the current process; NULL if it has neither registered, looked up nor launched a
 * CUDA kernel. The key is the PID in the initial PID namespace.
 */
INLINE struct told_program *told_program(void)
{
	u64 tgid = bpf_get_current_pid_tgid() >> 32;

	return told_programs.lookup(KEY(tgid));
}

INLINE struct told_program *new_told_program(void)
{
	u64 tgid = bpf_get_current_pid_tgid() >> 32;
	struct told_program fresh = {.born_ns = bpf_ktime_get_ns()}, *found = told_programs.lookup(KEY(tgid));

	if (found)
		return found;
	if (!told_programs.insert(KEY(tgid), &fresh))
		element_added(EVICTING_TOLD_PROGRAMS);
	return told_programs.lookup(KEY(tgid));
}

/* Forgets the program of the current process, because the process ends or begins another program. */
INLINE void forget_told_program(void)
{
	u64 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!told_programs.delete(KEY(tgid)))
		element_removed(EVICTING_TOLD_PROGRAMS);
}

/* Notes that, from now on, the function of `key` belongs to another CUDA kernel. */
INLINE void function_is_reused(struct function_key *key)
{
	u64 only = 0, first = 1;
	u32 *generation = generation_of.lookup(key), *count = reuses.lookup(KEY(only));

	if (generation)
		__sync_fetch_and_add(generation, 1);
	else if (!generation_of.insert(key, KEY(first)))
		element_added(EVICTING_GENERATION_OF);
	if (count)
		__sync_fetch_and_add(count, 1);
}

INLINE void register_function(struct function_key *key, u64 name_at, u64 unloads)
{
	struct registered fresh = {.name_at = name_at, .unloads = unloads}, *before = registered.lookup(key);

	if (before && (before->name_at != name_at || before->unloads != unloads))
		function_is_reused(key);
	if (!registered.insert(key, &fresh))
		element_added(EVICTING_REGISTERED);
	else
		registered.update(key, &fresh);
}

INLINE int same_name(const struct looked_up *one, const struct looked_up *other)
{
	const u64 *words = (const u64 *)one->name, *others = (const u64 *)other->name;
	u64 difference = 0;
	u32 i;

#pragma unroll
	for (i = 0; i < NAME_BYTES / 8; i++) {
		difference |= words[i] ^ others[i];
		/*
		 * Without this line, clang 19 branches on each word: the verifier would have to check up to
		 * 2^32 paths.
		 */
		__asm__ volatile("" : "+r"(difference));
	}
	return !difference;
}

INLINE void look_up_function(struct function_key *key, struct looked_up *fresh)
{
	struct looked_up *before = looked_up.lookup(key);

	if (before && same_name(before, fresh))
		return;
	if (before)
		function_is_reused(key);
	if (!looked_up.insert(key, fresh))
		element_added(EVICTING_LOOKED_UP);
	else
		looked_up.update(key, fresh);
}

/*
 * Reads the name at address `name_at` and stores it as the name of the function of `key`. `reader` identifies
 * the current call.
 */
INLINE void read_name(struct lookup_key *reader, struct function_key *key, u64 name_at)
{
	struct looked_up *fresh;
	u32 only = 0;
	long length;

	fresh = no_name.lookup(&only);
	if (!fresh || read_names.update(reader, fresh))
		return;
	fresh = read_names.lookup(reader);
	if (!fresh)
		return;
	length = bpf_probe_read_user_str(fresh->name, sizeof(fresh->name), (void *)name_at);
	if (length > 0) {
		fresh->name_bytes = length;
		fresh->name_at = name_at;
		look_up_function(key, fresh);
	}
	read_names.delete(reader);
}

INLINE void begin_lookup(struct lookup_key *key, struct lookup *lookup)
{
	if (!lookups.insert(key, lookup))
		element_added(EVICTING_LOOKUPS);
	else
		lookups.update(key, lookup);
}

/*
 * Runs at the entry of every function that names CUDA kernels. The attach cookie says how the function names
 * them.
 */
int naming_begins(struct pt_regs *ctx)
{
	struct lookup_key key = {.pid_tgid = bpf_get_current_pid_tgid(), .cookie = attach_cookie(ctx)};
	struct function_key function = {};
	struct told_program *program;
	struct lookup lookup = {};
	u64 arguments[ARGUMENTS] = {};

	keep_arguments(ctx, arguments);
	switch (key.cookie & NAMING_MASK) {
	case NAMING_REGISTERS:
		program = new_told_program();
		if (!program) {
			on_its_own_stack(ctx);
			return 0;
		}
		function.function = arguments[1];
		function.born_ns = program->born_ns;
		register_function(&function, arguments[3], program->unloads);
		break;
	case NAMING_UNLOADS:
		program = told_program();
		if (program)
			__sync_fetch_and_add(&program->unloads, 1);
		break;
	case NAMING_LOOKS_UP:
		lookup.result_at = arguments[0];
		lookup.given = arguments[2];
		begin_lookup(&key, &lookup);
		break;
	case NAMING_CONVERTS:
		lookup.result_at = arguments[0];
		lookup.given = arguments[1];
		begin_lookup(&key, &lookup);
		break;
	}
	return 0;
}

int naming_returns(struct pt_regs *ctx)
{
	struct lookup_key key = {.pid_tgid = bpf_get_current_pid_tgid(), .cookie = attach_cookie(ctx)};
	struct lookup *found = lookups.lookup(&key), lookup;
	struct function_key function = {}, other = {};
	struct looked_up *known;
	struct registered *registration;
	struct told_program *program;

	if (!found) {
		on_its_own_stack(ctx);
		return 0;
	}
	lookup = *found;
	if (!lookups.delete(&key))
		element_removed(EVICTING_LOOKUPS);
	if ((u32)RETURNED(ctx) ||
	    bpf_probe_read_user(&function.function, sizeof(function.function), (void *)lookup.result_at) ||
	    !function.function)
		return 0;
	program = new_told_program();
	if (!program)
		return 0;
	function.born_ns = program->born_ns;
	if ((key.cookie & NAMING_MASK) == NAMING_LOOKS_UP) {
		read_name(&key, &function, lookup.given);
		return 0;
	}
	other.function = lookup.given;
	other.born_ns = program->born_ns;
	known = looked_up.lookup(&other);
	if (known) {
		look_up_function(&function, known);
		return 0;
	}
	registration = registered.lookup(&other);
	if (registration)
		register_function(&function, registration->name_at, registration->unloads);
	return 0;
}

#endif
