"""Compares stacks that were read with those that the calling programs recorded themselves."""

from __future__ import annotations

import bisect
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.kernel.stacks.tracing import Collecting

_Frame = tuple[str, str, int]


@dataclass
class Tally:
    """Numbers of stacks."""

    recorded: int = 0
    right: int = 0
    wrong: int = 0
    incomplete: int = 0
    """Stacks of which some frames, or all, are said to be unknown; the others are right."""
    without: int = 0
    """Stacks without Python frames: of the first calls of a thread, before its state is known."""

    @property
    def share(self) -> float:
        """Share of the right ones among those that are right or wrong."""
        return self.right / max(self.right + self.wrong, 1)


def compared(files: Iterable[Path], collecting: Collecting) -> Tally:
    """Compare the stacks that were collected with those in ``files``: lists of TID, start of the call, stack,
    and anything else."""
    recorded: dict[int, list[tuple[int, list[_Frame]]]] = defaultdict(list)
    for file in files:
        for tid, begun, stack, _ in json.loads(file.read_text()):
            recorded[tid].append((begun, [tuple(frame) for frame in stack]))
    for calls in recorded.values():
        calls.sort()
    tally = Tally(sum(map(len, recorded.values())))
    for (tid, start_ns), stack in collecting.stacks.items():
        calls = recorded.get(tid, [])
        at = bisect.bisect_right(calls, start_ns, key=lambda call: call[0]) - 1
        frames = [
            (frame.function, frame.file, frame.line) for frame in stack.frames if frame.language == "python"
        ]
        if not frames and stack.cut:
            tally.incomplete += 1
        elif not frames or at < 0:
            tally.without += 1
        elif frames == calls[at][1]:
            tally.right += 1
            assert (len(frames) == 64) == bool(stack.cut) or len(frames) < 64
        elif ("", "", 0) in frames and _are_parts(frames, calls[at][1]):
            tally.incomplete += 1  # made by code that was gone at once, or in a process that ended
            assert stack.cut
        else:
            tally.wrong += 1
            print(f"wrong: {stack}\ninstead of {calls[at][1]}")
    return tally


def _are_parts(frames: list[_Frame], recorded: list[_Frame]) -> bool:
    """Return whether ``frames`` are those that were recorded, except for frames that are not known. One
    unknown frame stands for any number if no other is known."""
    if frames == [("", "", 0)]:
        return True
    return len(frames) == len(recorded) and all(
        one in (true, ("", "", 0)) for one, true in zip(frames, recorded, strict=True)
    )
