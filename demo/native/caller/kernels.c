/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* KERNEL(name in this file, mangled name). The CUDA kernels are numbered from 0 in this order. */
#define KERNELS(KERNEL)                                                                   \
    KERNEL(gemm, "_Z4gemmPKfS0_Pfiii")                                                    \
    KERNEL(attention, "_ZN2nn17attention_forwardILi128ELb1EEEvPfPKfNS_4TileIXT_EXT0_EEE") \
    KERNEL(layer_norm, "_ZN2nn10layer_normIfEEvPT_PKS1_S4_i")                             \
    KERNEL(softmax, "_ZN2nn7softmaxIfLi1024EEEvPT_PKS1_")                                 \
    KERNEL(adam, "_ZN2nn9adam_stepIfEEvPT_S2_S2_PKS1_f")                                  \
    KERNEL(embedding, "_Z16embedding_lookupPKlPKfPfm")                                    \
    KERNEL(resize, "_Z6resizeIhEvPKT_PS0_ii")                                             \
    KERNEL(histogram, "_ZN12_GLOBAL__N_19histogramEPKhPj")                                \
    KERNEL(scale, "_Z5scalePffi")

#define MAX_KERNELS 64

/*
 * The host function that stands for a CUDA kernel has the mangled name of the CUDA kernel, as it has with
 * nvcc.
 */
#define FUNCTION(name, mangled)                                                           \
    void name##_kernel(void) __asm__(mangled);                                            \
    __attribute__((used, noinline)) void name##_kernel(void) { __asm__ volatile("" ::"i"(__LINE__)); }
KERNELS(FUNCTION)

#define ENTRY(name, mangled) {name##_kernel, mangled},
static struct { void (*function)(void); const char *name; } kernels[] = {KERNELS(ENTRY)};
enum { COUNT = sizeof kernels / sizeof *kernels };

static void *fat_binary;
static uint64_t handles[MAX_KERNELS];
static uint64_t module;

void register_kernels(void)
{
    void **(*begin)(void *) = (void **(*)(void *))resolve("__cudaRegisterFatBinary");
    void (*tell)(void *, const void *, const char *, const char *, int, void *, void *, void *, void *, int *) =
        (void (*)(void *, const void *, const char *, const char *, int, void *, void *, void *, void *,
                  int *))resolve("__cudaRegisterFunction");
    if (!begin || !tell)
        return;
    fat_binary = begin(NULL);
    for (int i = 0; i < COUNT; i++)
        tell(fat_binary, (const void *)kernels[i].function, kernels[i].name, kernels[i].name, -1, NULL, NULL,
             NULL, NULL, NULL);
}

const char *rename_kernels(char *names)
{
    void (*end)(void *) = (void (*)(void *))resolve("__cudaUnregisterFatBinary");
    char *place = NULL, *name = strtok_r(names, " ", &place);
    if (!end)
        return "no runtime to tell";
    end(fat_binary);
    for (int i = 0; i < COUNT && name; i++, name = strtok_r(NULL, " ", &place))
        kernels[i].name = strdup(name);
    register_kernels();
    return NULL;
}

const char *look_up_kernels(char *names)
{
    function_t load = resolve("cuModuleLoadData"), unload = resolve("cuModuleUnload");
    function_t look_up = resolve("cuModuleGetFunction");
    char *place = NULL, *name = strtok_r(names, " ", &place);
    if (!load || !unload || !look_up)
        return "no driver";
    if (module)
        unload(module);
    memset(handles, 0, sizeof handles);
    if (load(&module, NULL))
        return "the module cannot be loaded";
    module = module ? module : 1;
    for (int i = 0; i < MAX_KERNELS && name; i++, name = strtok_r(NULL, " ", &place))
        if (look_up(&handles[i], module, name))
            return "the module has no such kernel";
    return NULL;
}

uint64_t kernel_function(uint64_t number)
{
    return number < COUNT ? (uint64_t)(uintptr_t)kernels[number].function : 0;
}

uint64_t kernel_handle(uint64_t number)
{
    return number < MAX_KERNELS ? handles[number] : 0;
}
