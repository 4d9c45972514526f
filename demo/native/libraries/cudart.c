/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-in for libcudart.so.12: names, variants and calling conventions of the runtime API. As in the real
 * library, each function begins with `push %rbp` and does its work by driver calls. The library loads
 * libcuda.so.1 itself.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <dlfcn.h>

typedef void *stream_t;
typedef struct { unsigned x, y, z; } dim3;

#define NO_DRIVER 35 /* cudaErrorInsufficientDriver */

/* Each driver function that is called here, by its symbol. */
#define DRIVER_FUNCTIONS(X)                                                               \
    X(cuLaunchKernel) X(cuLaunchKernel_ptsz) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz) \
    X(cuLaunchCooperativeKernel) X(cuGraphLaunch) X(cuGraphLaunch_ptsz)                   \
    X(cuGraphInstantiateWithParams) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture)      \
    X(cuMemAlloc_v2) X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz)                           \
    X(cuMemAllocFromPoolAsync) X(cuMemAllocManaged) X(cuMemAllocPitch_v2)                 \
    X(cuMemAllocHost_v2) X(cuMemHostAlloc) X(cuMemFree_v2) X(cuMemFreeAsync)              \
    X(cuMemFreeAsync_ptsz) X(cuMemFreeHost) X(cuMemHostRegister_v2)                       \
    X(cuMemHostUnregister) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoD_v2)       \
    X(cuMemcpy) X(cuMemcpy_ptds) X(cuMemcpyHtoD_v2_ptds) X(cuMemcpyDtoH_v2_ptds)          \
    X(cuMemcpyDtoD_v2_ptds) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2)               \
    X(cuMemcpyDtoDAsync_v2) X(cuMemcpyAsync) X(cuMemcpyHtoDAsync_v2_ptsz)                 \
    X(cuMemcpyDtoHAsync_v2_ptsz) X(cuMemcpyDtoDAsync_v2_ptsz) X(cuMemcpyAsync_ptsz)       \
    X(cuMemcpyPeer) X(cuMemcpyPeerAsync) X(cuMemcpy2DUnaligned_v2) X(cuMemcpy2DAsync_v2)  \
    X(cuMemcpy3D_v2) X(cuMemcpy3DAsync_v2) X(cuMemsetD8_v2) X(cuMemsetD8Async)            \
    X(cuMemPrefetchAsync) X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz)              \
    X(cuStreamWaitEvent) X(cuEventSynchronize) X(cuCtxSynchronize) X(cuLibraryGetKernel)   \
    X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuCtxGetCurrent) X(cuCtxSetCurrent)

#define POINTER(symbol) static int (*symbol)();
DRIVER_FUNCTIONS(POINTER)

__attribute__((constructor)) static void load_driver(void)
{
    void *library = dlopen("$ORIGIN/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define RESOLVE(symbol) symbol = library ? (int (*)())dlsym(library, #symbol) : 0;
    DRIVER_FUNCTIONS(RESOLVE)
}

#define DRIVER(symbol, ...) (symbol ? symbol(__VA_ARGS__) : NO_DRIVER)

/* `device`: ordinal of this thread's device. `ready`: whether CUDA is initialized for this thread. */
static __thread int device;
static __thread int ready;

/*
 * Initializes CUDA for this thread, unless this was done before. As in CUDA 12, cudaSetDevice (`fresh`)
 * always makes the primary context current. The other functions do so only if the thread has no context.
 */
static int make_ready(int fresh)
{
    static int initialized;
    void *context = NULL;
    int error;
    if (ready && !fresh)
        return 0;
    if (!initialized && (error = DRIVER(cuInit, 0)))
        return error;
    initialized = 1;
    if (!fresh && !(error = DRIVER(cuCtxGetCurrent, &context)) && context) {
        ready = 1; /* the thread itself has made a context current, through the driver API */
        return 0;
    }
    if ((error = DRIVER(cuDevicePrimaryCtxRetain, &context, device)) || (error = DRIVER(cuCtxSetCurrent, context)))
        return error;
    ready = 1;
    return 0;
}

/* One exported function. It first takes its own time, and then evaluates `driver_call`, an expression. */
#define FUNCTION(symbol, base, params, driver_call)                                       \
    EXPORT int symbol params                                                              \
    {                                                                                     \
        int error = take_time(&entry_##base);                                             \
        if (!error)                                                                       \
            error = make_ready(0);                                                        \
        return error ? error : (driver_call);                                             \
    }
#define PLAIN(base, params, driver_call)                                                  \
    ENTRY(base);                                                                          \
    FUNCTION(base, base, params, driver_call)
/* A function that also has a _ptsz or _ptds variant. The variant calls the driver's variant. */
#define VARIANTS(base, suffix, params, driver_call, variant_call)                         \
    PLAIN(base, params, driver_call)                                                      \
    FUNCTION(base##suffix, base, params, variant_call)

#define GEOMETRY(dim) (dim).x, (dim).y, (dim).z
#define LAUNCH(symbol)                                                                    \
    DRIVER(symbol, function, GEOMETRY(grid), GEOMETRY(block), (unsigned)shared, stream, arguments, 0)
#define LAUNCH_PARAMS                                                                     \
    (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, stream_t stream)

VARIANTS(cudaLaunchKernel, _ptsz, LAUNCH_PARAMS, LAUNCH(cuLaunchKernel), LAUNCH(cuLaunchKernel_ptsz))
VARIANTS(cudaLaunchKernelExC, _ptsz, (const void *config, const void *function, void **arguments),
         DRIVER(cuLaunchKernelEx, config, function, arguments, 0),
         DRIVER(cuLaunchKernelEx_ptsz, config, function, arguments, 0))
PLAIN(cudaLaunchCooperativeKernel, LAUNCH_PARAMS,
      DRIVER(cuLaunchCooperativeKernel, function, GEOMETRY(grid), GEOMETRY(block), (unsigned)shared, stream,
             arguments))

/* Compiled programs may call this function. It jumps to cudaLaunchKernel (a tail call), as in CUDA 12.9. */
#if defined(__x86_64__)
__asm__(".pushsection .text\n.globl __cudaLaunchKernel\n.type __cudaLaunchKernel, @function\n"
        "__cudaLaunchKernel: jmp cudaLaunchKernel@PLT\n"
        ".size __cudaLaunchKernel, . - __cudaLaunchKernel\n.popsection\n");
#endif

/* Functions that are called by the constructors of programs and libraries that contain CUDA kernels. */
#define TOLD(type, base, params, result)                                                  \
    ENTRY(base);                                                                          \
    EXPORT type base params                                                               \
    {                                                                                     \
        take_time(&entry_##base);                                                         \
        return result;                                                                    \
    }
static void *fat_binary;
TOLD(void **, __cudaRegisterFatBinary, (void *binary), &fat_binary)
TOLD(void, __cudaRegisterFatBinaryEnd, (void **handle), )
TOLD(void, __cudaUnregisterFatBinary, (void **handle), )
TOLD(void, __cudaRegisterFunction,
     (void **handle, const void *function, char *device_function, const char *name, int limit, void *thread,
      void *block, void *block_size, void *grid_size, int *warp), )

static int same_kernel(void **result, const void *function)
{
    *result = (void *)((uintptr_t)function + 1);
    return 0;
}
PLAIN(cudaGetKernel, (void **result, const void *function), same_kernel(result, function))
PLAIN(cudaGetFuncBySymbol, (void **result, const void *function), same_kernel(result, function))
PLAIN(cudaLibraryGetKernel, (void **result, void *library, const char *name),
      DRIVER(cuLibraryGetKernel, result, library, name))

VARIANTS(cudaGraphLaunch, _ptsz, (void *graph, stream_t stream), DRIVER(cuGraphLaunch, graph, stream),
         DRIVER(cuGraphLaunch_ptsz, graph, stream))
PLAIN(cudaGraphInstantiate, (void **result, void *graph, unsigned long long flags),
      DRIVER(cuGraphInstantiateWithParams, result, graph, flags))
PLAIN(cudaStreamBeginCapture, (stream_t stream, int mode), DRIVER(cuStreamBeginCapture_v2, stream, mode))
PLAIN(cudaStreamEndCapture, (stream_t stream, void **graph), DRIVER(cuStreamEndCapture, stream, graph))

PLAIN(cudaMalloc, (void **result, size_t bytes), DRIVER(cuMemAlloc_v2, result, bytes))
VARIANTS(cudaMallocAsync, _ptsz, (void **result, size_t bytes, stream_t stream),
         DRIVER(cuMemAllocAsync, result, bytes, stream), DRIVER(cuMemAllocAsync_ptsz, result, bytes, stream))
PLAIN(cudaMallocFromPoolAsync, (void **result, size_t bytes, void *pool, stream_t stream),
      DRIVER(cuMemAllocFromPoolAsync, result, bytes, pool, stream))
PLAIN(cudaMallocManaged, (void **result, size_t bytes, unsigned flags),
      DRIVER(cuMemAllocManaged, result, bytes, flags))
PLAIN(cudaMallocPitch, (void **result, size_t *pitch, size_t width, size_t height),
      DRIVER(cuMemAllocPitch_v2, result, pitch, width, height, 4u))
PLAIN(cudaMallocHost, (void **result, size_t bytes), DRIVER(cuMemAllocHost_v2, result, bytes))
PLAIN(cudaHostAlloc, (void **result, size_t bytes, unsigned flags),
      DRIVER(cuMemHostAlloc, result, bytes, flags))
PLAIN(cudaFree, (void *address), DRIVER(cuMemFree_v2, address))
VARIANTS(cudaFreeAsync, _ptsz, (void *address, stream_t stream), DRIVER(cuMemFreeAsync, address, stream),
         DRIVER(cuMemFreeAsync_ptsz, address, stream))
PLAIN(cudaFreeHost, (void *address), DRIVER(cuMemFreeHost, address))
PLAIN(cudaHostRegister, (void *address, size_t bytes, unsigned flags),
      DRIVER(cuMemHostRegister_v2, address, bytes, flags))
PLAIN(cudaHostUnregister, (void *address), DRIVER(cuMemHostUnregister, address))

/*
 * Values of cudaMemcpyKind: 1 is host to device, 2 device to host, 3 device to device. With any other value,
 * the addresses decide.
 */
#define BY_KIND(suffix, default_suffix, ...)                                              \
    (kind == 1   ? DRIVER(cuMemcpyHtoD##suffix, to, from, bytes, ##__VA_ARGS__)           \
     : kind == 2 ? DRIVER(cuMemcpyDtoH##suffix, to, from, bytes, ##__VA_ARGS__)           \
     : kind == 3 ? DRIVER(cuMemcpyDtoD##suffix, to, from, bytes, ##__VA_ARGS__)           \
                 : DRIVER(cuMemcpy##default_suffix, to, from, bytes, ##__VA_ARGS__))
VARIANTS(cudaMemcpy, _ptds, (void *to, const void *from, size_t bytes, int kind), BY_KIND(_v2, ),
         BY_KIND(_v2_ptds, _ptds))
VARIANTS(cudaMemcpyAsync, _ptsz, (void *to, const void *from, size_t bytes, int kind, stream_t stream),
         BY_KIND(Async_v2, Async, stream), BY_KIND(Async_v2_ptsz, Async_ptsz, stream))
PLAIN(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t bytes),
      DRIVER(cuMemcpyPeer, to, 0, from, 0, bytes))
PLAIN(cudaMemcpyPeerAsync,
      (void *to, int to_device, const void *from, int from_device, size_t bytes, stream_t stream),
      DRIVER(cuMemcpyPeerAsync, to, 0, from, 0, bytes, stream))

/*
 * CUDA_MEMCPY2D and CUDA_MEMCPY3D in cuda.h consist of 8-byte fields. The numbers below are the indices of
 * the fields that hold sizes.
 */
enum { WIDTH_2D = 14, HEIGHT_2D = 15, WIDTH_3D = 22, HEIGHT_3D = 23, DEPTH_3D = 24 };

static int copy_2d(int (*driver)(), size_t width, size_t height, stream_t stream)
{
    uint64_t fields[16] = {[WIDTH_2D] = width, [HEIGHT_2D] = height};
    return DRIVER(driver, fields, stream);
}

/* In cudaMemcpy3DParms of driver_types.h, the 8-byte fields 16 to 18 hold the extent. */
static int copy_3d(int (*driver)(), const uint64_t *params, stream_t stream)
{
    uint64_t fields[25] = {[WIDTH_3D] = params[16], [HEIGHT_3D] = params[17], [DEPTH_3D] = params[18]};
    return DRIVER(driver, fields, stream);
}

PLAIN(cudaMemcpy2D,
      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind),
      copy_2d(cuMemcpy2DUnaligned_v2, width, height, 0))
PLAIN(cudaMemcpy2DAsync,
      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
       stream_t stream),
      copy_2d(cuMemcpy2DAsync_v2, width, height, stream))
PLAIN(cudaMemcpy3D, (const uint64_t *params), copy_3d(cuMemcpy3D_v2, params, 0))
PLAIN(cudaMemcpy3DAsync, (const uint64_t *params, stream_t stream),
      copy_3d(cuMemcpy3DAsync_v2, params, stream))
PLAIN(cudaMemset, (void *to, int value, size_t bytes), DRIVER(cuMemsetD8_v2, to, value, bytes))
PLAIN(cudaMemsetAsync, (void *to, int value, size_t bytes, stream_t stream),
      DRIVER(cuMemsetD8Async, to, value, bytes, stream))
PLAIN(cudaMemPrefetchAsync, (const void *from, size_t bytes, int device, stream_t stream),
      DRIVER(cuMemPrefetchAsync, from, bytes, device, stream))

VARIANTS(cudaStreamSynchronize, _ptsz, (stream_t stream), DRIVER(cuStreamSynchronize, stream),
         DRIVER(cuStreamSynchronize_ptsz, stream))
PLAIN(cudaStreamWaitEvent, (stream_t stream, void *event, unsigned flags),
      DRIVER(cuStreamWaitEvent, stream, event, flags))
PLAIN(cudaEventSynchronize, (void *event), DRIVER(cuEventSynchronize, event))
PLAIN(cudaDeviceSynchronize, (void), DRIVER(cuCtxSynchronize))

/* stalltop does not trace these functions, although programs call them all the time. */
PLAIN(cudaGetLastError, (void), 0)
PLAIN(cudaGetDevice, (int *result), result ? (*result = device, 0) : 1)

ENTRY(cudaSetDevice);
EXPORT int cudaSetDevice(int ordinal)
{
    int before = device, error = take_time(&entry_cudaSetDevice);
    device = ordinal;
    if (!error)
        error = make_ready(1);
    if (error)
        device = before;
    return error;
}
