/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "caller.h"
#include "kernels.h"
#include "memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_LIBRARIES 3

static const char *const kinds[MAX_LIBRARIES] = {"runtime", "driver", "nccl"};
static const char *const file_names[MAX_LIBRARIES] = {"libcudart.so.12", "libcuda.so.1", "libnccl.so.2"};
static void *libraries[MAX_LIBRARIES];
static char folder[4096] = ".";

static void *communicator;

static struct tally *all_tallies;
static pthread_mutex_t tallies_lock = PTHREAD_MUTEX_INITIALIZER;

/* The arguments with which each function is called: a letter for each argument, from left to right. Further
 * arguments are 0.
 *   D   the ordinal of a device, given as the item's SIZE; such a call moves no bytes
 *   .   any value
 *   o   address at which the function stores a result
 *   a   address at which the function stores the address of new memory
 *   f   address of the memory to free
 *   n   number of bytes, or of elements if the function also has a data type (t)
 *   w h width and height
 *   c   the communicator joined last
 *   k   cudaMemcpyKind
 *   t   ncclDataType_t
 *   i   the number 0: a device, a value to set, a colour or a key
 *   K H the CUDA kernel with the number SIZE: K the host function that stands for it, H the driver's handle
 *   g b x and y of the grid (g) or of the blocks (b), packed into one register as a dim3 is passed
 *   x X x of the grid (x) or of the blocks (X), as a number
 *   1   the number 1
 *   2 3 a CUDA_MEMCPY2D, a CUDA_MEMCPY3D
 *   m   a cudaMemcpy3DParms
 * A name stands for all variants of the function. Functions that are not in this table get 0 for each
 * argument and move no bytes. */
static const struct { const char *name, *shape; } shapes[] = {
    {"cudaMalloc", "an"}, {"cudaMallocAsync", "an"}, {"cudaMallocFromPoolAsync", "an"},
    {"cudaMallocManaged", "an"}, {"cudaMallocPitch", "aowh"}, {"cudaMallocHost", "on"},
    {"cudaHostAlloc", "on"}, {"cudaHostRegister", ".n"}, {"cudaMemcpy", "..nk"},
    {"cudaMemcpyAsync", "..nk"}, {"cudaMemcpyPeer", ".i.in"}, {"cudaMemcpyPeerAsync", ".i.in"},
    {"cudaMemcpy2D", ".w.wwhk"}, {"cudaMemcpy2DAsync", ".w.wwhk"}, {"cudaMemcpy3D", "m"},
    {"cudaMemcpy3DAsync", "m"}, {"cudaMemset", ".in"}, {"cudaMemsetAsync", ".in"},
    {"cudaMemPrefetchAsync", ".n"}, {"cudaStreamEndCapture", ".o"}, {"cudaGraphInstantiate", "o."},
    {"cudaGetDevice", "o"}, {"cudaSetDevice", "D"},
    {"cuMemAlloc", "an"}, {"cuMemAllocAsync", "an"}, {"cuMemAllocFromPoolAsync", "an"},
    {"cuMemAllocManaged", "an"}, {"cuMemAllocHost", "on"}, {"cuMemHostAlloc", "on"},
    {"cuMemAllocPitch", "aowh"}, {"cuMemCreate", "an"}, {"cuMemHostRegister", ".n"},
    {"cuMemcpyHtoD", "..n"}, {"cuMemcpyDtoH", "..n"}, {"cuMemcpyDtoD", "..n"},
    {"cuMemcpyHtoDAsync", "..n"}, {"cuMemcpyDtoHAsync", "..n"}, {"cuMemcpyDtoDAsync", "..n"},
    {"cuMemcpy", "..n"}, {"cuMemcpyAsync", "..n"}, {"cuMemcpyPeer", "....n"},
    {"cuMemcpyPeerAsync", "....n"}, {"cuMemcpy2D", "2"}, {"cuMemcpy2DUnaligned", "2"},
    {"cuMemcpy2DAsync", "2"}, {"cuMemcpy3D", "3"}, {"cuMemcpy3DAsync", "3"}, {"cuMemsetD8", ".in"},
    {"cuMemsetD32", ".in"}, {"cuMemsetD8Async", ".in"}, {"cuMemsetD32Async", ".in"},
    {"cuMemPrefetchAsync", ".n"}, {"cuMemMap", ".n"}, {"cuMemUnmap", ".n"}, {"cuMemSetAccess", ".n"},
    {"cuMemAddressReserve", "on"},
    {"cudaFree", "f"}, {"cudaFreeAsync", "f"}, {"cuMemFree", "f"}, {"cuMemFreeAsync", "f"},
    {"cuMemRelease", "f"},
    {"cudaLaunchKernel", "Kg1b1"}, {"cudaLaunchKernelExC", ".K"}, {"cudaLaunchCooperativeKernel", "Kg1b1"},
    {"cuLaunchKernel", "Hx11X11"}, {"cuLaunchKernelEx", ".H"}, {"cuLaunchCooperativeKernel", "Hx11X11"},
    {"ncclAllReduce", "..nt.c"}, {"ncclReduce", "..nt..c"}, {"ncclReduceScatter", "..nt.c"},
    {"ncclAllGather", "..ntc"}, {"ncclBroadcast", "..nt.c"}, {"ncclBcast", ".nt.c"}, {"ncclSend", ".nt.c"},
    {"ncclRecv", ".nt.c"}, {"ncclCommInitRank", "o"}, {"ncclCommInitAll", "o"}, {"ncclCommSplit", ".iio"},
};

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void choose_folder(const char *path)
{
    snprintf(folder, sizeof folder, "%s", path);
}

const char *choose_library(const char *which, const char *path)
{
    for (int i = 0; i < MAX_LIBRARIES; i++) {
        if (strcmp(which, kinds[i]))
            continue;
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return dlerror();
        libraries[i] = library;
        if (i == 0)
            register_kernels();
        return NULL;
    }
    return "a library is runtime, driver or nccl";
}

function_t resolve(const char *symbol)
{
    int i = !strncmp(symbol, "nccl", 4) ? 2 : !strncmp(symbol, "cuda", 4) || *symbol == '_' ? 0 : 1;
    if (!libraries[i]) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", folder, file_names[i]);
        if (choose_library(kinds[i], path))
            return NULL;
    }
    return (function_t)dlsym(libraries[i], symbol);
}

struct unique_id { char internal[128]; };

const char *join_communicator(const char *name, int rank, int ranks)
{
    struct unique_id id = {{0}};
    int (*join)(void **, int, struct unique_id, int) =
        (int (*)(void **, int, struct unique_id, int))resolve("ncclCommInitRank");
    snprintf(id.internal, sizeof id.internal, "%s", name);
    return join && !join(&communicator, ranks, id, rank) ? NULL : "cannot join";
}

static const char *shape_of(const char *symbol)
{
    char base[MAX_SYMBOL];
    snprintf(base, sizeof base, "%s", symbol);
    for (char *cut; (cut = strrchr(base, '_')) && cut != base && cut[-1] != '_';) {
        if (strcmp(cut, "_ptsz") && strcmp(cut, "_ptds") && strcmp(cut, "_v2") && strcmp(cut, "_v3"))
            break;
        *cut = 0;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(base, shapes[i].name))
            return shapes[i].shape;
    return "";
}

/* Returns how many bytes a call with these sizes moves, according to the documentation of CUDA and NCCL. */
static uint64_t bytes_of(const struct item *item)
{
    static const uint64_t type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    /*
     * In CUDA 3.1, the structs of these functions had other fields. Programs that are built today do not call
     * the functions by these names, so their bytes count as 0.
     */
    static const char *const old[] = {"cuMemcpy2D", "cuMemcpy2DUnaligned", "cuMemcpy2DAsync", "cuMemcpy3D",
                                      "cuMemcpy3DAsync"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (!strcmp(item->symbol, old[i]))
            return 0;
    if (strchr(item->shape, 't'))
        return item->size[0] * (item->kind < 12 ? type_bytes[item->kind] : 0);
    if (strpbrk(item->shape, "m3"))
        return item->size[0] * item->size[1] * item->size[2];
    if (strpbrk(item->shape, "wh2"))
        return item->size[0] * item->size[1];
    if (!strncmp(item->symbol, "cuMemsetD32", 11))
        return item->size[0] * 4;
    return strchr(item->shape, 'n') ? item->size[0] : 0;
}

static const char *parse_item(struct item *item, const char *text)
{
    static char why[160];
    *item = (struct item){.count = 1, .size = {0, 1, 1}};
    if (*text == '~' || *text == '!') {
        item->what = *text == '~' ? PAUSE : COMPUTE;
        item->ns = strtoull(text + 1, NULL, 10) * 1000;
        return NULL;
    }
    if (*text == '@') {
        item->what = ACT;
        return parse_action(&item->action, text);
    }
    char sizes[64] = "";
    unsigned long long count = 1, kind = 0;
    if (sscanf(text, "%63[A-Za-z0-9_]:%llu:%63[0-9x]:%llu", item->symbol, &count, sizes, &kind) < 1) {
        snprintf(why, sizeof why, "not an item: %.100s", text);
        return why;
    }
    item->count = count;
    item->kind = kind;
    char *rest = sizes;
    for (int i = 0; i < 3 && *rest; i++) {
        item->size[i] = strtoull(rest, &rest, 10);
        rest += *rest == 'x';
    }
    item->shape = shape_of(item->symbol);
    item->bytes = bytes_of(item);
    item->function = resolve(item->symbol);
    if (!item->function) {
        snprintf(why, sizeof why, "no function %s in the libraries of %.80s", item->symbol, folder);
        return why;
    }
    return NULL;
}

const char *parse_plan(struct plan *plan, char *text)
{
    plan->items = 0;
    char *place = NULL;
    for (char *word = strtok_r(text, " ", &place); word; word = strtok_r(NULL, " ", &place)) {
        if (plan->items == MAX_ITEMS)
            return "too many items";
        const char *error = parse_item(&plan->item[plan->items++], word);
        if (error)
            return error;
    }
    return plan->items ? NULL : "nothing to do";
}

/* Only the owner of a tally writes it. So a relaxed store is enough: readers see whole numbers. */
static void add(uint64_t *counter, uint64_t amount)
{
    __atomic_store_n(counter, *counter + amount, __ATOMIC_RELAXED);
}

/*
 * Returns the index of the counter for a duration of `ns` in an HdrHistogram with two significant digits and
 * a unit of 1 ns.
 */
static uint32_t index_of(uint64_t ns)
{
    const uint64_t highest = (1ull << 37) - 1;
    if (ns > highest)
        ns = highest;
    int bucket = 63 - __builtin_clzll(ns | 255) - 7;
    return ((uint32_t)(bucket + 1) << 7) + (uint32_t)(ns >> bucket) - 128;
}

/* The grid size depends on the number of the CUDA kernel. There are 16 different sizes. */
#define GRID(item) (64 * ((item)->size[0] % 16 + 1))
#define BLOCK 256ull

static void call_all(const struct item *item, struct tally *tally, const volatile int *stop)
{
    uint64_t fields[32] = {0}, result[2], argument[8] = {0};
    for (int i = 0; item->shape[i]; i++) {
        switch (item->shape[i]) {
        case 'o': case 'a': argument[i] = (uint64_t)(uintptr_t)result; break;
        case 'n': case 'w': case 'D': argument[i] = item->size[0]; break;
        case 'h': argument[i] = item->size[1]; break;
        case 'k': case 't': argument[i] = item->kind; break;
        case 'i': argument[i] = 0; break;
        case 'K': argument[i] = kernel_function(item->size[0]); break;
        case 'H': argument[i] = kernel_handle(item->size[0]); break;
        case 'g': argument[i] = GRID(item) | 1ull << 32; break;
        case 'b': argument[i] = BLOCK | 1ull << 32; break;
        case 'x': argument[i] = GRID(item); break;
        case 'X': argument[i] = BLOCK; break;
        case '1': argument[i] = 1; break;
        case 'c': argument[i] = (uint64_t)(uintptr_t)communicator; break;
        case '.': argument[i] = 0x7d0000000000ull; break;
        default: argument[i] = (uint64_t)(uintptr_t)fields; break;
        }
    }
    /*
     * `fields` are the 8-byte fields of the structs in cuda.h and driver_types.h. The numbers below are the
     * indices of the extents and of the kind among these fields.
     */
    if (strchr(item->shape, '2'))
        memcpy(fields + 14, item->size, 2 * sizeof *fields);
    else if (strchr(item->shape, '3'))
        memcpy(fields + 22, item->size, 3 * sizeof *fields);
    else if (strchr(item->shape, 'm')) {
        memcpy(fields + 16, item->size, 3 * sizeof *fields);
        fields[19] = item->kind;
    }
    for (uint64_t n = 0; n < item->count && *stop != STOP_NOW; n++) {
        if (*item->shape == 'f')
            argument[0] = memory_to_free();
        uint64_t before = tally->histogram ? now_ns() : 0;
        int error = item->function(argument[0], argument[1], argument[2], argument[3], argument[4], argument[5],
                                   argument[6], argument[7]);
        if (tally->histogram) {
            uint64_t ns = now_ns() - before;
            uint32_t *counter = &tally->histogram[index_of(ns)];
            __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
            add(&tally->total_ns, ns);
            if (ns > tally->max_ns)
                __atomic_store_n(&tally->max_ns, ns, __ATOMIC_RELAXED);
        }
        if (!error && *item->shape == 'a')
            memory_is_held(result[0]);
        else if (error && *item->shape == 'f')
            memory_is_held(argument[0]);
        add(&tally->bytes, item->bytes);
        add(&tally->errors, error != 0);
        add(&tally->calls, 1);
    }
}

void run_cycle(const struct plan *plan, struct tally **tallies, const volatile int *stop)
{
    for (int i = 0; i < plan->items && *stop != STOP_NOW; i++) {
        const struct item *item = &plan->item[i];
        switch (item->what) {
        case CALL: call_all(item, tallies[i], stop); break;
        case COMPUTE: compute(item->ns); break;
        case PAUSE: rest(item->ns); break;
        case ACT: act(item->action); break;
        }
    }
}

void open_tallies(const struct plan *plan, struct tally **tallies, int timed)
{
    for (int i = 0; i < plan->items; i++) {
        tallies[i] = NULL;
        if (plan->item[i].what != CALL)
            continue;
        struct tally *tally = calloc(1, sizeof *tally);
        uint32_t *histogram = timed ? calloc(COUNTERS, sizeof *histogram) : NULL;
        if (!tally || (timed && !histogram))
            abort();
        memcpy(tally->symbol, plan->item[i].symbol, MAX_SYMBOL);
        tally->histogram = histogram;
        tallies[i] = tally;
        pthread_mutex_lock(&tallies_lock);
        tally->next = all_tallies;
        all_tallies = tally;
        pthread_mutex_unlock(&tallies_lock);
    }
}

void count_elsewhere(const struct plan *plan, uint64_t cycles)
{
    struct tally *tallies[MAX_ITEMS];
    open_tallies(plan, tallies, 0);
    for (int i = 0; i < plan->items; i++) {
        if (!tallies[i])
            continue;
        tallies[i]->calls = cycles * plan->item[i].count;
        tallies[i]->bytes = tallies[i]->calls * plan->item[i].bytes;
    }
}

static uint64_t load(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/*
 * Prints one line for each tally. Several lines may have the same symbol; the program that reads them adds
 * them up.
 */
void report(void)
{
    pthread_mutex_lock(&tallies_lock);
    for (const struct tally *tally = all_tallies; tally; tally = tally->next) {
        printf("made %s %llu %llu %llu %llu %llu", tally->symbol, (unsigned long long)load(&tally->calls),
               (unsigned long long)load(&tally->errors), (unsigned long long)load(&tally->bytes),
               (unsigned long long)load(&tally->total_ns), (unsigned long long)load(&tally->max_ns));
        for (int i = 0; tally->histogram && i < COUNTERS; i++) {
            uint32_t count = __atomic_load_n(&tally->histogram[i], __ATOMIC_RELAXED);
            if (count)
                printf(" %d:%u", i, count);
        }
        putchar('\n');
    }
    pthread_mutex_unlock(&tallies_lock);
}
