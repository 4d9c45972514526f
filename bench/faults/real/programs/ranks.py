"""One rank of a job of `torch.distributed` (gloo). In each step it computes, or waits with --loader for a
DataLoader's worker that computes, makes a step on the device, and adds its gradients to those of the other
ranks. Number 0 of the control file is the computing time of a step, ms."""

import argparse
import os
import time

import control
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

_ELEMENTS = 1 << 14


def compute() -> None:
    """Computes for the time of a step."""
    until = time.thread_time() + control.number() / 1e3
    while time.thread_time() < until:
        torch.sin(torch.rand(1000))


class RankItems(IterableDataset):
    """A data set without end, whose items have to be computed."""

    def __iter__(self):
        """Yields items."""
        while True:
            compute()
            yield torch.rand(1000)


def main() -> None:
    """Trains until it is killed."""
    # Only now the program begins to call the GPU: two ranks that import PyTorch wait for each other's CPU.
    import gpu

    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--loader", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{chosen.port}",
        rank=chosen.rank,
        world_size=chosen.ranks,
    )
    gradient = torch.ones(_ELEMENTS)
    batches = iter(DataLoader(RankItems(), num_workers=1)) if chosen.loader else None
    steps = 0
    while True:
        if batches is None:
            compute()
        else:
            next(batches)
            gpu.step()  # a second one: two ranks and their workers would fill two CPUs
        gpu.step()
        dist.all_reduce(gradient)
        gradient /= chosen.ranks
        steps += 1
        if steps == 20:
            control.ready()


if __name__ == "__main__":
    main()
