/* SPDX-License-Identifier: Apache-2.0
 *
 * The caller's CUDA kernels: host functions that stand for them, as compilers make them, and handles of
 * the driver.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include <stdint.h>

#include "caller.h"

/*
 * Registers this program's CUDA kernels with the runtime, as its constructors would; does nothing if there is
 * none.
 */
void register_kernels(void);

/* Registers them again under other mangled names, as if another library had been loaded at the same place. */
const char *rename_kernels(char *names);

/* Loads a module in place of the previous one, and looks up its CUDA kernels by these mangled names. */
const char *look_up_kernels(char *names);

/*
 * Return what a launch of CUDA kernel `number` gets: the program's function, or the driver's handle (0: not
 * looked up).
 */
uint64_t kernel_function(uint64_t number);
uint64_t kernel_handle(uint64_t number);

#endif
