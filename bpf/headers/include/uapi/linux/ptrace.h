/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The registers of the traced thread, in the order in which the kernel hands them to a probe (stable ABI). */
#ifndef STALLTOP_PTRACE_H
#define STALLTOP_PTRACE_H

#include <linux/types.h>

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
struct pt_regs {
	unsigned long regs[31], sp, pc, pstate;
};
#else
#error "stalltop traces x86-64 and aarch64"
#endif

#endif
