/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The fixed-width types that BCC's helpers and our programs use: the same for every kernel. */
#ifndef STALLTOP_TYPES_H
#define STALLTOP_TYPES_H

typedef signed char __s8, s8, int8_t;
typedef unsigned char __u8, u8, uint8_t;
typedef short __s16, s16, int16_t;
typedef unsigned short __u16, u16, uint16_t, __le16, __be16, __sum16;
typedef int __s32, s32, int32_t, pid_t;
typedef unsigned int __u32, u32, uint32_t, __le32, __be32, __wsum;
typedef long long __s64, s64, int64_t;
typedef unsigned long long __u64, u64, uint64_t, __le64, __be64;
typedef unsigned long size_t, uintptr_t;

typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define __aligned_u64 __u64 __attribute__((aligned(8)))

#endif
