/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The oldest kernel that the programs are for; Linux 5.0 and later ignore this number. */
#ifndef STALLTOP_VERSION_H
#define STALLTOP_VERSION_H
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 15, 0)
#endif
