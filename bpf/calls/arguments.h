/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Reads the argument registers of a call. Finds the number of bytes and the direction of the call in its
 * arguments.
 */
#ifndef STALLTOP_ARGUMENTS_H
#define STALLTOP_ARGUMENTS_H

#include <uapi/linux/ptrace.h>
#include "base/layout.h"
#include "base/numbers.h"

static u64 (*attach_cookie)(void *ctx) = (void *)174; /* bpf_get_attach_cookie, which older BCC does not declare */

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)

#define REGISTER_ARGUMENTS 6
/* The first stack argument lies 8 bytes above the stack pointer, because the return address lies below it. */
#define STACK_ARGUMENTS_AT 8
#define SP_AT_ENTRY(ctx) ((ctx)->sp)
/*
 * The return instruction has removed the return address from the stack: the stack pointer is 8 higher than at
 * entry.
 */
#define SP_AT_RETURN(ctx) ((ctx)->sp - 8)
#define RETURNED(ctx) ((ctx)->ax)
#define NEXT_INSTRUCTION(ctx) ((ctx)->ip)

INLINE void keep_arguments(const struct pt_regs *ctx, __u64 *into)
{
	into[0] = ctx->di;
	into[1] = ctx->si;
	into[2] = ctx->dx;
	into[3] = ctx->cx;
	into[4] = ctx->r8;
	into[5] = ctx->r9;
}

/* Copies the first TOLD arguments. On x86-64 these are all arguments that are passed in registers. */
INLINE void tell_arguments(const struct pt_regs *ctx, __u64 *into)
{
	keep_arguments(ctx, into);
}

/*
 * The address of an ncclUniqueId that is passed by value as the third argument: it lies on the stack. The
 * next argument, `rank`, is therefore in the third register.
 */
#define ID_AT(thread, sp) ((sp) + STACK_ARGUMENTS_AT)
#define RANK_AFTER_ID 2

/* Returns the address to which the call that begins here will return. */
INLINE __u64 return_address(const struct pt_regs *ctx)
{
	__u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (const void *)ctx->sp);
	return address;
}

#else /* aarch64 */

#define REGISTER_ARGUMENTS 8
#define STACK_ARGUMENTS_AT 0
#define SP_AT_ENTRY(ctx) ((ctx)->sp)
#define SP_AT_RETURN(ctx) ((ctx)->sp)
#define RETURNED(ctx) ((ctx)->regs[0])
#define NEXT_INSTRUCTION(ctx) ((ctx)->pc)

/* Copies the first TOLD arguments. */
INLINE void tell_arguments(const struct pt_regs *ctx, __u64 *into)
{
	into[0] = ctx->regs[0];
	into[1] = ctx->regs[1];
	into[2] = ctx->regs[2];
	into[3] = ctx->regs[3];
	into[4] = ctx->regs[4];
	into[5] = ctx->regs[5];
}

INLINE void keep_arguments(const struct pt_regs *ctx, __u64 *into)
{
	tell_arguments(ctx, into);
	into[6] = ctx->regs[6];
	into[7] = ctx->regs[7];
}

/*
 * The address of an ncclUniqueId that is passed by value as the third argument: a register points to a copy
 * of it.
 */
#define ID_AT(thread, sp) ((thread)->arguments[2])
#define RANK_AFTER_ID 3

INLINE __u64 return_address(const struct pt_regs *ctx)
{
	return ctx->regs[30];
}

#endif

/*
 * Whether an address may be that of a trampoline, which is the start of a page. When a function that has a
 * return probe begins, the Linux kernel puts the address of a trampoline in place of its return address.
 */
#define IS_TRAMPOLINE(address) (((address) & 0xfff) == 0)

/*
 * Reads argument `n`, counted from 0, of the call whose argument registers are in `thread`. `sp` is the stack
 * pointer at the function's entry.
 */
INLINE int read_argument(const struct thread *thread, __u64 sp, __u32 n, __u64 *value)
{
	__u64 at;

	if (n < REGISTER_ARGUMENTS) {
		*value = thread->arguments[n & (ARGUMENTS - 1)];
		return 0;
	}
	at = sp + STACK_ARGUMENTS_AT + 8 * (n - REGISTER_ARGUMENTS);
	return bpf_probe_read_user(value, sizeof(*value), (const void *)at);
}

/*
 * Number of values of ncclDataType_t, 0 to 11. Their sizes are 1 1 4 4 8 8 2 4 8 2 1 1 bytes. NCCL_SHIFTS holds
 * the binary logarithms of these sizes, two bits each, that of value 0 in the lowest bits.
 */
#define NCCL_TYPES 12
#define NCCL_SHIFTS 0x00079fa0ULL

/* Reads how many bytes the call copies, sets or allocates; returns -1 if that cannot be read. */
INLINE int read_bytes(const struct function *function, const struct thread *thread, __u64 sp, __u64 *bytes)
{
	__u64 first = 0, second = 0, third = 0, shift = function->c & 63;
	__u64 factors[3] = {};

	if (read_argument(thread, sp, function->a, &first))
		return -1;
	switch (function->size) {
	case SIZE_ARGUMENT:
		*bytes = first << shift;
		return 0;
	case SIZE_ARGUMENT32:
		*bytes = (first & 0xffffffff) << shift;
		return 0;
	case SIZE_STRUCT:
		if (bpf_probe_read_user(factors, sizeof(factors), (const void *)(first + function->b)))
			return -1;
		*bytes = factors[0] * factors[1] * (function->c == 3 ? factors[2] : 1);
		return 0;
	}
	if (read_argument(thread, sp, function->b, &second))
		return -1;
	switch (function->size) {
	case SIZE_PRODUCT:
		*bytes = (first * second) << shift;
		return 0;
	case SIZE_PRODUCT32:
		*bytes = ((first & 0xffffffff) * (second & 0xffffffff)) << shift;
		return 0;
	case SIZE_NCCL:
		second &= 0xffffffff;
		if (second >= NCCL_TYPES)
			return -1;
		*bytes = first << ((NCCL_SHIFTS >> (2 * second)) & 3);
		return 0;
	case SIZE_PRODUCT3: /* a struct on the stack; aarch64 passes a pointer to it (SIZE_STRUCT) */
		if (read_argument(thread, sp, function->c, &third))
			return -1;
		*bytes = first * second * third;
		return 0;
	}
	return -1;
}

/*
 * Returns the operation by which the call is counted. If the direction of the copy can be read, the operation
 * includes it.
 */
INLINE __u32 read_operation(const struct function *function, const struct thread *thread, __u64 sp)
{
	__u64 value = 0;
	__u32 kind = 0;
	long failed = -1;

	if (function->direction == DIRECTION_KIND) {
		failed = read_argument(thread, sp, function->d, &value);
		kind = value;
	} else if (function->direction == DIRECTION_STRUCT_KIND) {
		if (!read_argument(thread, sp, function->a, &value))
			failed = bpf_probe_read_user(&kind, sizeof(kind), (const void *)(value + 8 * function->d));
	}
	return !failed && kind < KINDS ? function->operation + 1 + kind : function->operation;
}

#endif
