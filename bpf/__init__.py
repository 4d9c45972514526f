"""C sources of the BPF programs, which run in the Linux kernel.

``trace.c`` counts calls of traced functions, ``host.c`` other events of the host. Only ``trace.c`` includes
the headers beside it: ``kept.h`` (captured calls) and ``filling.h`` (free records). Headers of a
folder include only headers of that folder and of those listed above it:

    base     structs, maps, quotas, and what each program needs: bounds, order of writes, ids, host numbers
    calls    arguments of a call, the thread that makes it, and the histogram that counts it
    waits    why a thread is off the CPU, who ended its wait, who is charged, and the time between calls
    cuda     devices that calls go to, CUDA kernels, device memory, NCCL communicators
    stacks   stacks of captured calls, and of threads between calls
    host     block I/O, reclaim of memory, TCP, processes that begin and end, stops; uses only base

``headers`` contains the few definitions of Linux that the sources need.
"""
