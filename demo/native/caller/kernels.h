/* SPDX-License-Identifier: Apache-2.0
 *
 * The caller's CUDA kernels: the host functions that stand for them, as nvcc generates such functions, and the
 * driver's handles of CUDA kernels.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include <stdint.h>

#include "caller.h"

/*
 * Registers this program's CUDA kernels with the CUDA runtime, as the constructors of a compiled CUDA program
 * would. Does nothing if there is no runtime library.
 */
void register_kernels(void);

/*
 * Registers this program's CUDA kernels again under these mangled names, as if another library had been loaded
 * at the same addresses.
 */
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
