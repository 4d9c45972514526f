"""Trains on batches from a pool of processes that write into shared memory. Number 0 of the control file is
the time that an item takes, ms. --kind chooses multiprocessing's pool or that of joblib (loky)."""

import argparse
import time
from collections import deque
from multiprocessing import Pool, shared_memory

import control
import gpu
import numpy

_SIZE = 1 << 16
_CHUNK = 60


def prepare(name: str) -> int:
    """Fills a block of shared memory."""
    block = shared_memory.SharedMemory(name)
    try:
        until = time.thread_time() + control.number() / 1e3
        values = numpy.ndarray((_SIZE // 8,), buffer=block.buf)
        values[:] = 1.0
        while time.thread_time() < until:
            numpy.sin(values)
        del values
    finally:
        block.close()
    return _SIZE


def batches(kind: str, name: str):
    """Yields the pool's results without end."""
    if kind == "joblib":
        from joblib import Parallel, delayed

        with Parallel(n_jobs=2, return_as="generator", pre_dispatch=4, batch_size=1) as parallel:
            while True:
                yield from parallel(delayed(prepare)(name) for _ in range(_CHUNK))
    with Pool(2) as pool:
        ahead = deque(pool.apply_async(prepare, (name,)) for _ in range(4))
        while True:
            ahead.append(pool.apply_async(prepare, (name,)))
            yield ahead.popleft().get()


def main() -> None:
    """Trains until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("multiprocessing", "joblib"), default="multiprocessing")
    block = shared_memory.SharedMemory(create=True, size=_SIZE)
    steps = 0
    try:
        for _ in batches(parser.parse_args().kind, block.name):
            gpu.step()
            steps += 1
            if steps == 20:
                control.ready()
    finally:
        block.unlink()


if __name__ == "__main__":
    main()
