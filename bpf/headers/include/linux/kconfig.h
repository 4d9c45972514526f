/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Included before everything else. BCC's helpers want to know that the kernel has BPF. */
#ifndef STALLTOP_KCONFIG_H
#define STALLTOP_KCONFIG_H
#define CONFIG_BPF_SYSCALL 1
#endif
