/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-in for libcuda.so.1: exported names and variants of the driver API, real calling conventions, and the
 * thunk that the functions of many driver versions begin with:
 *
 *     cmpl $imm32, state(%rip)      ten bytes, which the kernel cannot emulate under a probe
 *     je   deinitialized
 *     jmp  implementation
 */
#include "standin.h"

#include <string.h>

#define DEINITIALIZED 0x321cba00

uint32_t standin_state __attribute__((used, visibility("hidden")));

#if defined(__x86_64__)
#define THUNK(symbol, base)                                                               \
    __asm__(".pushsection .text\n.p2align 4\n.globl " #symbol "\n"                        \
            ".type " #symbol ", @function\n" #symbol ":\n"                                \
            "cmpl $0x321cba00, standin_state(%rip)\nje 1f\njmp implementation_" #base "\n" \
            "1: movl $4, %eax\nret\n.size " #symbol ", . - " #symbol "\n.popsection\n")
#elif defined(__aarch64__)
#define THUNK(symbol, base)                                                               \
    __asm__(".pushsection .text\n.p2align 4\n.globl " #symbol "\n"                        \
            ".type " #symbol ", %function\n" #symbol ":\n"                                \
            "b implementation_" #base "\n.size " #symbol ", . - " #symbol "\n.popsection\n")
#else
#error "the stand-in libraries are written for x86-64 and AArch64"
#endif

#define IMPLEMENTATION(base, ...)                                                         \
    ENTRY(base);                                                                          \
    __attribute__((used, visibility("hidden"))) int implementation_##base(__VA_ARGS__)

/* The symbols one function is exported under. _ptsz and _ptds: per-thread default stream. */
#define ONLY(base) THUNK(base, base)
#define STREAM(base) THUNK(base, base); THUNK(base##_ptsz, base)
#define V2(base) THUNK(base, base); THUNK(base##_v2, base)
#define V2_STREAM(base) V2(base); THUNK(base##_v2_ptsz, base)
#define V2_DEFAULT(base) V2(base); THUNK(base##_v2_ptds, base)

/* A function whose arguments decide nothing here. */
#define TIMED(symbols, base)                                                              \
    IMPLEMENTATION(base, void) { return take_time(&entry_##base); }                       \
    symbols(base)

/* An allocation: the first argument receives an address, `bytes` is how many were asked for. */
#define ALLOCATION(symbols, base, bytes, ...)                                             \
    IMPLEMENTATION(base, uint64_t *result, __VA_ARGS__)                                   \
    {                                                                                     \
        int error = take_time(&entry_##base);                                             \
        if (!error && result)                                                             \
            *result = standin_address(bytes);                                             \
        return error;                                                                     \
    }                                                                                     \
    symbols(base)

TIMED(ONLY, cuInit);
TIMED(ONLY, cuDeviceGet);
TIMED(V2, cuCtxCreate);
TIMED(V2, cuDeviceTotalMem);
TIMED(V2, cuMemGetInfo);

TIMED(STREAM, cuLaunchKernel);
TIMED(STREAM, cuLaunchKernelEx);
TIMED(STREAM, cuLaunchCooperativeKernel);
TIMED(STREAM, cuGraphLaunch);
TIMED(V2, cuGraphInstantiate);
THUNK(cuGraphInstantiateWithFlags, cuGraphInstantiate);
TIMED(STREAM, cuGraphInstantiateWithParams);
TIMED(V2_STREAM, cuStreamBeginCapture);
TIMED(STREAM, cuStreamEndCapture);

ALLOCATION(V2, cuMemAlloc, bytes, size_t bytes);
ALLOCATION(STREAM, cuMemAllocAsync, bytes, size_t bytes);
ALLOCATION(STREAM, cuMemAllocFromPoolAsync, bytes, size_t bytes);
ALLOCATION(ONLY, cuMemAllocManaged, bytes, size_t bytes);
ALLOCATION(V2, cuMemAllocHost, bytes, size_t bytes);
ALLOCATION(ONLY, cuMemHostAlloc, bytes, size_t bytes);
ALLOCATION(V2, cuMemAllocPitch, width * height, size_t *pitch, size_t width, size_t height);
ALLOCATION(ONLY, cuMemCreate, bytes, size_t bytes);
TIMED(V2, cuMemFree);
TIMED(STREAM, cuMemFreeAsync);
TIMED(ONLY, cuMemFreeHost);
TIMED(V2, cuMemHostRegister);
TIMED(ONLY, cuMemHostUnregister);
TIMED(ONLY, cuMemPoolCreate);
TIMED(ONLY, cuMemPoolTrimTo);
TIMED(ONLY, cuMemAddressReserve);
TIMED(ONLY, cuMemMap);
TIMED(ONLY, cuMemUnmap);
TIMED(ONLY, cuMemRelease);
TIMED(ONLY, cuMemSetAccess);

TIMED(V2_DEFAULT, cuMemcpyHtoD);
TIMED(V2_DEFAULT, cuMemcpyDtoH);
TIMED(V2_DEFAULT, cuMemcpyDtoD);
TIMED(V2_STREAM, cuMemcpyHtoDAsync);
TIMED(V2_STREAM, cuMemcpyDtoHAsync);
TIMED(V2_STREAM, cuMemcpyDtoDAsync);
TIMED(ONLY, cuMemcpy);
THUNK(cuMemcpy_ptds, cuMemcpy);
TIMED(STREAM, cuMemcpyAsync);
TIMED(ONLY, cuMemcpyPeer);
THUNK(cuMemcpyPeer_ptds, cuMemcpyPeer);
TIMED(STREAM, cuMemcpyPeerAsync);
TIMED(V2_DEFAULT, cuMemcpy2D);
TIMED(V2_DEFAULT, cuMemcpy2DUnaligned);
TIMED(V2_STREAM, cuMemcpy2DAsync);
TIMED(V2_DEFAULT, cuMemcpy3D);
TIMED(V2_STREAM, cuMemcpy3DAsync);
TIMED(STREAM, cuMemcpyBatchAsync);
TIMED(V2_DEFAULT, cuMemsetD8);
TIMED(V2_DEFAULT, cuMemsetD32);
TIMED(STREAM, cuMemsetD8Async);
TIMED(STREAM, cuMemsetD32Async);
TIMED(V2_STREAM, cuMemPrefetchAsync);

TIMED(STREAM, cuStreamSynchronize);
TIMED(STREAM, cuStreamWaitEvent);
TIMED(ONLY, cuEventSynchronize);
TIMED(V2, cuCtxSynchronize);
TIMED(ONLY, cuModuleLoadData);
TIMED(ONLY, cuModuleLoadDataEx);
TIMED(ONLY, cuLibraryLoadData);

/* Kernels that were looked up: a handle points into the table, and is given out again after its module went. */
#define MAX_KERNELS 256
#define NOT_FOUND 500
#define NO_MEMORY 2
static struct { char name[2048]; int used; } kernels[MAX_KERNELS];

static int look_up(void **result, const char *name)
{
    if (!*name || strlen(name) >= sizeof kernels->name)
        return NOT_FOUND;
    for (int i = 0; i < MAX_KERNELS; i++) {
        if (kernels[i].used && strcmp(kernels[i].name, name))
            continue;
        kernels[i].used = 1;
        strcpy(kernels[i].name, name);
        *result = &kernels[i];
        return 0;
    }
    return NO_MEMORY;
}

IMPLEMENTATION(cuModuleGetFunction, void **result, void *module, const char *name)
{
    int error = take_time(&entry_cuModuleGetFunction);
    return error ? error : look_up(result, name);
}
ONLY(cuModuleGetFunction);
IMPLEMENTATION(cuLibraryGetKernel, void **result, void *library, const char *name)
{
    int error = take_time(&entry_cuLibraryGetKernel);
    return error ? error : look_up(result, name);
}
ONLY(cuLibraryGetKernel);
IMPLEMENTATION(cuKernelGetFunction, void **result, void *kernel)
{
    int error = take_time(&entry_cuKernelGetFunction);
    *result = (char *)kernel + 1;
    return error;
}
ONLY(cuKernelGetFunction);
IMPLEMENTATION(cuModuleUnload, void *module)
{
    memset(kernels, 0, sizeof kernels);
    return take_time(&entry_cuModuleUnload);
}
ONLY(cuModuleUnload);

#if defined(__x86_64__)
/* As in the real library: calls that come after exit handlers have run fail. */
__attribute__((destructor)) static void deinitialize(void)
{
    standin_state = DEINITIALIZED;
}
#endif
