"""Trains from a `torch.utils.data.DataLoader`. Number 0 of the control file is the time that an item takes,
ms; number 1 is the length of an epoch in batches (0: no end)."""

import argparse
import asyncio
import socket
import time

import control
import gpu
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def options() -> argparse.Namespace:
    """Parses the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--item", default="compute", choices=("compute", "sleep", "pace", "ask", "query"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--pin", action="store_true", help="pin memory in a thread (pin_memory=True)")
    parser.add_argument("--sharing", default="file_descriptor", help="how workers hand tensors over")
    parser.add_argument("--server", default="", help="HOST:PORT of a server that each item asks or queries")
    parser.add_argument(
        "--collate-ms", action="store_true", help="spend the time in the main thread, not in items"
    )
    return parser.parse_args()


class Items(IterableDataset):
    """A data set whose items take time."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self._chosen = chosen
        self._connection = None
        self._loop = None

    def __iter__(self):
        """Yields the items of an epoch of one worker."""
        workers = get_worker_info().num_workers if get_worker_info() else 1
        done = 0
        while not (length := control.number(1)) or done < length / workers:
            self._take()
            done += 1
            yield torch.rand(3, 64, 64)

    def _take(self) -> None:
        ms = 0.0 if self._chosen.collate_ms else control.number(0)
        if self._chosen.item == "sleep":
            time.sleep(ms / 1e3)
        elif self._chosen.item == "pace":
            self._loop = self._loop or asyncio.new_event_loop()
            self._loop.run_until_complete(asyncio.sleep(ms / 1e3))
        elif self._chosen.item == "ask":
            self._ask()
        elif self._chosen.item == "query":
            self._query(ms)
        else:
            compute(ms)

    def _ask(self) -> None:
        if self._connection is None:
            host, port = self._chosen.server.split(":")
            self._connection = socket.create_connection((host, int(port)))
        self._connection.sendall(b"x")
        self._connection.recv(1)

    def _query(self, ms: float) -> None:
        """Lets PostgreSQL compute for ``ms`` milliseconds."""
        if self._connection is None:
            import psycopg

            host, port = self._chosen.server.split(":")
            self._connection = psycopg.connect(
                host=host, port=int(port), user="features", dbname="postgres", autocommit=True
            )
        self._connection.execute(
            f"""DO $$ DECLARE until timestamptz := clock_timestamp() + interval '{ms} milliseconds'; BEGIN
            WHILE clock_timestamp() < until LOOP END LOOP; END $$"""
        )


def compute(ms: float) -> None:
    """Computes with PyTorch for ``ms`` milliseconds of CPU time."""
    until = time.thread_time() + ms / 1e3
    while time.thread_time() < until:
        torch.sin(torch.rand(1000))


def pretend_to_pin() -> None:
    """Makes PyTorch believe that there is a GPU, so that the DataLoader runs its thread that pins memory.
    Instead of pinning a tensor, the thread copies it."""
    torch.accelerator.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda *_: torch.device("cuda")
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.set_device_index = lambda *_: None
    torch.cuda.is_available = lambda: True
    torch.cuda.set_device = lambda *_: None
    torch.Tensor.pin_memory = lambda self, *_: self.clone()


def main() -> None:
    """Trains until it is killed."""
    chosen = options()
    torch.set_num_threads(1)
    if chosen.pin:
        pretend_to_pin()
    torch.multiprocessing.set_sharing_strategy(chosen.sharing)
    loader = DataLoader(
        Items(chosen),
        batch_size=1,
        num_workers=chosen.workers,
        persistent_workers=chosen.persistent and chosen.workers > 0,
        pin_memory=chosen.pin,
    )
    steps = 0
    while True:
        for _ in loader:
            if chosen.collate_ms:
                compute(control.number(0))
            gpu.step()
            steps += 1
            if steps == 20:
                control.ready()


if __name__ == "__main__":
    main()
