"""Trains on batches from a ProcessPoolExecutor of two processes. While number 0 of the control file is above
0, it makes a new executor for each batch."""

from concurrent.futures import ProcessPoolExecutor

import control
import gpu
import numpy

_STEPS = 4
"""Number of steps with one batch. The wait for the batch before them would be a noticeable part of one
step."""


def prepare(seed: int) -> float:
    """Prepares a part of a batch."""
    return float(numpy.fft.rfft(numpy.random.default_rng(seed).random(2048)).real.sum())


def main() -> None:
    """Trains until it is killed."""
    executor = ProcessPoolExecutor(2)
    steps = 0
    while True:
        if control.number():
            executor.shutdown()
            executor = ProcessPoolExecutor(2)
        list(executor.map(prepare, range(4)))
        for _ in range(_STEPS):
            gpu.step()
        steps += 1
        if steps == 20:
            control.ready()


if __name__ == "__main__":
    main()
