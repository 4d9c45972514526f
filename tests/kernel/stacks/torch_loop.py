"""A training loop of PyTorch on the CPU that calls the library of native/worked.c, and records the true
stack of each call: in the loop, in hooks, in the backward pass of a function of its own, in a hook of the
optimizer, and in workers of a DataLoader.

Calls are made by ctypes, with and without the GIL, and by the extension of native/calls.cpp.

Arguments: the library, the folder of recorded stacks, the number of steps, and the extension.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import multiprocessing.util
import os
import sys
import time
from threading import get_native_id as get_id
from types import FrameType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

worked = ctypes.CDLL(sys.argv[1]).worked
worked_with_lock = ctypes.PyDLL(sys.argv[1]).worked
_found = importlib.util.spec_from_file_location("calls", sys.argv[4])
assert _found is not None
assert _found.loader is not None
calls = importlib.util.module_from_spec(_found)
_found.loader.exec_module(calls)
recorded: list[tuple[int, int, list[tuple[str, str, int]], int]] = []


def stack_of(frame: FrameType | None) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    while frame is not None and len(found) < 64:
        found.append((frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def call(ns: int) -> None:
    # In one line, so that the recorded line is that of the call; elements are evaluated in their order.
    recorded.append((get_id(), time.monotonic_ns(), stack_of(sys._getframe()), worked(ns)))


def call_with_lock(ns: int) -> None:
    recorded.append((get_id(), time.monotonic_ns(), stack_of(sys._getframe()), worked_with_lock(ns)))


def call_in_extension(ns: int) -> None:
    recorded.append((get_id(), time.monotonic_ns(), stack_of(sys._getframe()), calls.worked(ns)))


def write() -> None:
    with open(os.path.join(sys.argv[2], f"{os.getpid()}.json"), "w") as file:
        json.dump(recorded, file)


class Scaled(torch.autograd.Function):
    """Doubles its input; the backward pass, which C++ calls, makes a call."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        call(10_000)
        return values * 2

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:
        call_with_lock(10_000)
        return gradients[0] * 2


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        call_in_extension(20_000)
        found: torch.Tensor = Scaled.apply(self.layers(values))
        return found


class Batches(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4 * int(sys.argv[3])

    def __getitem__(self, number: int) -> torch.Tensor:
        call(50_000)
        return torch.full((8,), float(number % 7))


def begin_worker(number: int) -> None:
    recorded.clear()
    multiprocessing.util.Finalize(None, write, exitpriority=10)


def main() -> None:
    model = Model()
    for layer in model.layers:
        layer.register_forward_hook(lambda *_: call(10_000))
        layer.register_full_backward_hook(lambda *_: call(10_000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.register_step_post_hook(lambda *_: call(10_000))
    call(1_000)  # from now on, all calls are captured
    print("ready", flush=True)
    sys.stdin.readline()
    for batch in DataLoader(Batches(), batch_size=4, num_workers=2, worker_init_fn=begin_worker):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
    write()
    print("over", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
