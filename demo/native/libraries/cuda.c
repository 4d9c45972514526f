/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-in for libcuda.so.1: exported names and variants of the driver API, real calling conventions, and the
 * thunk that the functions of many driver versions begin with:
 *
 *     cmpl $imm32, state(%rip)      ten bytes, which the Linux kernel cannot emulate under a probe
 *     je   deinitialized
 *     jmp  implementation
 */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
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

/*
 * The symbols under which one function is exported. The suffixes _ptsz and _ptds mean per-thread default
 * stream.
 */
#define ONLY(base) THUNK(base, base)
#define STREAM(base) THUNK(base, base); THUNK(base##_ptsz, base)
#define V2(base) THUNK(base, base); THUNK(base##_v2, base)
#define V2_STREAM(base) V2(base); THUNK(base##_v2_ptsz, base)
#define V2_DEFAULT(base) V2(base); THUNK(base##_v2_ptds, base)

/* A function that takes the time that its table entry gives, ignores its arguments and does nothing else. */
#define TIMED(symbols, base)                                                              \
    IMPLEMENTATION(base, void) { return take_time(&entry_##base); }                       \
    symbols(base)

/*
 * A function that allocates. Its first argument points to the place for the new address; `bytes` is the
 * requested size.
 */
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

/*
 * Devices and contexts. Each thread has a stack of contexts. The primary context of a device is the same for
 * all threads. STALLTOP_DEMO_UUIDS holds the UUIDs of devices in the order of their ordinals, separated by
 * commas.
 */
#define MAX_DEVICES 16
#define MAX_CONTEXTS 16
#define INVALID_VALUE 1
#define INVALID_DEVICE 101
#define INVALID_CONTEXT 201
#define NOT_SUPPORTED 801
struct context { int device; };
static struct context primary[MAX_DEVICES];
static __thread struct context *current[MAX_CONTEXTS];
static __thread int contexts;

static int is_device(int device)
{
    return device >= 0 && device < MAX_DEVICES;
}

static int push(struct context *context)
{
    if (!context || contexts == MAX_CONTEXTS)
        return INVALID_CONTEXT;
    current[contexts++] = context;
    return 0;
}

static int create(struct context **result, int device)
{
    struct context *context;
    if (!is_device(device))
        return INVALID_DEVICE;
    context = malloc(sizeof *context);
    if (!result || !context)
        return free(context), INVALID_VALUE;
    context->device = device;
    *result = context;
    return push(context);
}

IMPLEMENTATION(cuDeviceGet, int *result, int ordinal)
{
    int error = take_time(&entry_cuDeviceGet);
    if (!error && result)
        *result = ordinal;
    return error;
}
ONLY(cuDeviceGet);
IMPLEMENTATION(cuDeviceGetUuid, unsigned char *result, int device)
{
    const char *text = getenv("STALLTOP_DEMO_UUIDS");
    int error = take_time(&entry_cuDeviceGetUuid), digits = 0;
    for (int skipped = 0; text && skipped < device; skipped++)
        text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL;
    if (error || !text || !result)
        return error ? error : NOT_SUPPORTED;
    for (text += strspn(text, "GPUMI-"); *text && *text != ',' && digits < 32; text++)
        if (*text != '-' && sscanf(text, digits % 2 ? "%*1x" : "%2hhx", &result[digits / 2]) >= 0)
            digits++;
    return digits == 32 ? 0 : INVALID_VALUE;
}
V2(cuDeviceGetUuid);
IMPLEMENTATION(cuCtxCreate, struct context **result, unsigned flags, int device)
{
    int error = take_time(&entry_cuCtxCreate);
    return error ? error : create(result, device);
}
V2(cuCtxCreate);
IMPLEMENTATION(cuCtxCreate_v3, struct context **result, void *parameters, int count, unsigned flags, int device)
{
    return create(result, device);
}
ONLY(cuCtxCreate_v3);
IMPLEMENTATION(cuCtxCreate_v4, struct context **result, void *parameters, unsigned flags, int device)
{
    return create(result, device);
}
ONLY(cuCtxCreate_v4);
IMPLEMENTATION(cuCtxPushCurrent, struct context *context)
{
    return push(context);
}
V2(cuCtxPushCurrent);
IMPLEMENTATION(cuCtxPopCurrent, struct context **result)
{
    if (!contexts)
        return INVALID_CONTEXT;
    contexts--;
    if (result)
        *result = current[contexts];
    return 0;
}
V2(cuCtxPopCurrent);
IMPLEMENTATION(cuCtxSetCurrent, struct context *context)
{
    if (contexts)
        contexts--;
    return context ? push(context) : 0;
}
ONLY(cuCtxSetCurrent);
IMPLEMENTATION(cuCtxDestroy, struct context *context)
{
    if (!context)
        return INVALID_CONTEXT;
    if (contexts && current[contexts - 1] == context)
        contexts--;
    free(context);
    return 0;
}
V2(cuCtxDestroy);
IMPLEMENTATION(cuCtxGetCurrent, struct context **result)
{
    *result = contexts ? current[contexts - 1] : NULL;
    return 0;
}
ONLY(cuCtxGetCurrent);
IMPLEMENTATION(cuCtxGetDevice, int *result)
{
    if (!contexts)
        return INVALID_CONTEXT;
    *result = current[contexts - 1]->device;
    return 0;
}
ONLY(cuCtxGetDevice);
IMPLEMENTATION(cuDevicePrimaryCtxRetain, struct context **result, int device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    primary[device].device = device;
    *result = &primary[device];
    return 0;
}
ONLY(cuDevicePrimaryCtxRetain);

/*
 * CUDA kernels that were looked up. The handle of a CUDA kernel is the address of its entry in this table. So
 * another CUDA kernel may get the same handle after the module of the first one was unloaded.
 */
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
/* As in the real library, calls fail once the exit handlers of the process have run. */
__attribute__((destructor)) static void deinitialize(void)
{
    standin_state = DEINITIALIZED;
}
#endif
