/* SPDX-License-Identifier: Apache-2.0
 *
 * The caller's kernels: functions that stand for them in the program, as compilers make them, and handles of
 * the driver.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include <stdint.h>

#include "caller.h"

/* Tell the runtime which kernels this program has, as its constructors would; nothing where it cannot be told. */
void register_kernels(void);

/* The same anew under other mangled names, as if another library had been loaded at the same place. */
const char *rename_kernels(char *names);

/* Load a module in place of the one before, and look up its kernels by these mangled names. */
const char *look_up_kernels(char *names);

/* What a launch of kernel `number` gets: the program's function, or the driver's handle (0: not looked up). */
uint64_t kernel_function(uint64_t number);
uint64_t kernel_handle(uint64_t number);

#endif
