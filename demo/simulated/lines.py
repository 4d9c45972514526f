"""Generates stacks of simulated threads: the lines in which they spend their time between calls."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from stalltop.model.evidence import HOST_LAYER
from stalltop.model.stacks.stack import StackCount, StackFrame, StackReason
from stalltop.model.window import SPLITS, Rows

SAMPLE_NS: Final = 20_408_163
"""Time that one sample stands for, as on a real host."""

_Outer = tuple[tuple[str, str, int], ...]
"""Functions, files and lines, outermost first."""
_TRAIN: Final[_Outer] = (("<module>", "/app/train.py", 210), ("main", "/app/train.py", 196))
_EPOCH: Final[_Outer] = (*_TRAIN, ("Trainer.epoch", "/app/trainer.py", 88))
_WORKER: Final[_Outer] = (("_worker_loop", "/venv/torch/utils/data/_utils/worker.py", 349),)
_SERVE: Final[_Outer] = (("<module>", "/srv/serve.py", 61), ("Server.run", "/srv/server.py", 140))
_CELL: Final[_Outer] = (("<module>", "<ipython-input-14>", 3),)

_LINES: Final[Mapping[str, tuple[tuple[str, float, _Outer], ...]]] = {
    "python3 train.py": (
        ("running", 0.62, (*_EPOCH, ("Trainer.step", "/app/trainer.py", 112), ("clip", "/app/optim.py", 41))),
        ("running", 0.24, (*_EPOCH, ("Trainer.log", "/app/trainer.py", 131))),
        ("running", 0.14, (*_EPOCH, ("Trainer.step", "/app/trainer.py", 104))),
        (
            "",
            1.0,
            (*_EPOCH, ("next_batch", "/app/data.py", 57), ("Queue.get", "/lib/python3.11/queue.py", 171)),
        ),
    ),
    "pt_data_worker": (
        (
            "running",
            0.7,
            (*_WORKER, ("Images.__getitem__", "/app/data.py", 33), ("decode", "/app/data.py", 21)),
        ),
        ("running", 0.3, (*_WORKER, ("Images.__getitem__", "/app/data.py", 35))),
        ("disk", 1.0, (*_WORKER, ("Images.__getitem__", "/app/data.py", 32), ("read", "/app/data.py", 14))),
        ("", 1.0, (("_worker_loop", "/venv/torch/utils/data/_utils/worker.py", 320),)),
    ),
    "python3 serve.py": (
        ("running", 1.0, (*_SERVE, ("tokenize", "/srv/text.py", 27))),
        ("runqueue", 1.0, (*_SERVE, ("tokenize", "/srv/text.py", 27))),
        ("", 1.0, (*_SERVE, ("Server.accept", "/srv/server.py", 95))),
    ),
    "ipykernel": (("running", 1.0, _CELL), ("", 1.0, (("poll", "/venv/zmq/sugar/poll.py", 106),))),
}
"""By process: part of the time ('': all parts that no other line has), share of that part, and stack."""


def stacks_of(rows: Rows) -> tuple[StackCount, ...]:
    """Returns the stacks in which the time between calls of ``rows`` was spent, those with the most time
    first."""
    return tuple(sorted(_stacks(rows), key=lambda stack: (-stack.ns, stack)))


def _stacks(rows: Rows) -> Iterator[StackCount]:
    if rows.split_ns is None:
        return
    for key, split in zip(rows.keys, rows.split_ns.tolist(), strict=True):
        if key.layer != HOST_LAYER:
            continue
        lines = _LINES.get(key.process, ())
        named = {part for part, *_ in lines}
        for place, (part, share, stack) in enumerate(lines):
            for name, whole_ns in zip(SPLITS, split, strict=True):
                if whole_ns and (name == part or (not part and name not in named)):
                    ns = int(whole_ns * share * _wobble(key.pid, place, whole_ns))
                    who = key.tenant, key.pid, key.process, key.layer, key.operation, key.nested
                    reason: StackReason = "on_cpu" if name == "running" else name
                    frames = tuple(StackFrame(*frame, "python") for frame in reversed(stack))
                    yield StackCount(*who, reason, max(ns // SAMPLE_NS, 1), ns, frames, "", key.device)


def _wobble(*of: int) -> float:
    """Returns a factor around 1 that depends on ``of`` alone."""
    return 0.9 + zlib.crc32(repr(of).encode()) % 1000 / 5000
