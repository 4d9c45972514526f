/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-in for libnccl.so.2. A collective enqueues its work by one driver launch: at once, or for all
 * collectives of a group together in ncclGroupEnd.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <dlfcn.h>

#define UNHANDLED_CUDA_ERROR 1

static int (*launch)();
static __thread int depth;
static __thread int waiting;

__attribute__((constructor)) static void load_driver(void)
{
    void *library = dlopen("$ORIGIN/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    launch = library ? (int (*)())dlsym(library, "cuLaunchKernelEx") : 0;
}

static int enqueue(void *stream)
{
    if (depth) {
        waiting = 1;
        return 0;
    }
    return launch && launch((void *)0, (void *)0, (void **)0, (void **)0) ? UNHANDLED_CUDA_ERROR : 0;
}

#define FUNCTION(name, params, work)                                                      \
    ENTRY(name);                                                                          \
    EXPORT int name params                                                                \
    {                                                                                     \
        int error = take_time(&entry_##name);                                             \
        return error ? error : (work);                                                    \
    }

typedef const void *input;
typedef void *output, *comm_t, *stream_t;

FUNCTION(ncclAllReduce, (input in, output out, size_t count, int type, int op, comm_t comm, stream_t stream),
         enqueue(stream))
FUNCTION(ncclReduce,
         (input in, output out, size_t count, int type, int op, int root, comm_t comm, stream_t stream),
         enqueue(stream))
FUNCTION(ncclReduceScatter,
         (input in, output out, size_t count, int type, int op, comm_t comm, stream_t stream), enqueue(stream))
FUNCTION(ncclAllGather, (input in, output out, size_t count, int type, comm_t comm, stream_t stream),
         enqueue(stream))
FUNCTION(ncclBroadcast,
         (input in, output out, size_t count, int type, int root, comm_t comm, stream_t stream),
         enqueue(stream))
FUNCTION(ncclBcast, (output buffer, size_t count, int type, int root, comm_t comm, stream_t stream),
         enqueue(stream))
FUNCTION(ncclSend, (input in, size_t count, int type, int peer, comm_t comm, stream_t stream), enqueue(stream))
FUNCTION(ncclRecv, (output out, size_t count, int type, int peer, comm_t comm, stream_t stream),
         enqueue(stream))

static int group_start(void)
{
    depth++;
    return 0;
}

static int group_end(void)
{
    if (!depth)
        return 5; /* ncclInvalidUsage */
    if (--depth || !waiting)
        return 0;
    waiting = 0;
    return enqueue(0);
}

FUNCTION(ncclGroupStart, (void), group_start())
FUNCTION(ncclGroupEnd, (void), group_end())

static int create(comm_t *comm)
{
    if (comm)
        *comm = (comm_t)standin_address(1);
    return 0;
}

static int create_all(comm_t *comms, int devices)
{
    for (int i = 0; comms && i < devices; i++)
        create(&comms[i]);
    return 0;
}

/* A rank with a negative colour (NCCL_SPLIT_NOCOLOR) does not get a communicator. */
static int split(int colour, comm_t *result)
{
    if (colour >= 0)
        return create(result);
    if (result)
        *result = 0;
    return 0;
}

struct unique_id { char internal[128]; };

FUNCTION(ncclCommInitRank, (comm_t *comm, int ranks, struct unique_id id, int rank), create(comm))
FUNCTION(ncclCommInitRankConfig,
         (comm_t *comm, int ranks, struct unique_id id, int rank, void *config), create(comm))
FUNCTION(ncclCommInitRankScalable,
         (comm_t *comm, int ranks, int rank, int count, struct unique_id *ids, void *config), create(comm))
FUNCTION(ncclCommInitAll, (comm_t *comms, int devices, const int *list), create_all(comms, devices))
FUNCTION(ncclCommSplit, (comm_t comm, int colour, int key, comm_t *result, void *config),
         split(colour, result))
FUNCTION(ncclCommDestroy, (comm_t comm), 0)
FUNCTION(ncclCommAbort, (comm_t comm), 0)
