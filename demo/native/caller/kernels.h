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
 * do. Does nothing if there is no runtime library.
 */
void register_kernels(void);

/*
 * Registers this program's CUDA kernels again under the mangled names `names`, as if another library had been
 * loaded at the same addresses.
 */
const char *rename_kernels(char *names);

/* Loads a module in place of the previous one. Looks up its CUDA kernels by the mangled names `names`. */
const char *look_up_kernels(char *names);

/*
 * Return the argument by which CUDA kernel `number` is launched: the function of the program, or the handle
 * of the driver (0 if it was not looked up).
 */
uint64_t kernel_function(uint64_t number);
uint64_t kernel_handle(uint64_t number);

#endif
